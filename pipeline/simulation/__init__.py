"""Studies whose truth is known: how wrong scores are, and how often intervals hold the truth."""
