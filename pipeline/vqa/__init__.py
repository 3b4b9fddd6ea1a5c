"""Images with questions and answers, one file a dataset."""
