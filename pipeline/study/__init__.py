"""A frozen study: what people are asked, kept apart from every key."""
