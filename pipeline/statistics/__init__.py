"""From tidy tables to claims: pure functions."""
