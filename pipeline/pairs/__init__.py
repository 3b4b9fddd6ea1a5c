"""Pairs of images that differ in a named attribute, one file a source."""
