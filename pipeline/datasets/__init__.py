"""Images and their labels, one file a dataset."""
