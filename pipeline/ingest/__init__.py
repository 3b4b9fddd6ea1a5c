"""Ratings that people bring back: every format, every row accounted for."""
