"""What a report says of a sweep, by track: the claim in words, and sections of tables and pictures."""
