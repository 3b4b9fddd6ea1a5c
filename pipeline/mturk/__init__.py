"""A study at Amazon Mechanical Turk: published, collected, reviewed."""
