"""Vision-language models that are explained, one file a model."""
