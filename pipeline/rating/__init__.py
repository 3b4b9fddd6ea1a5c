"""The rating page: a study's inputs, rated in a browser, on a laptop."""
