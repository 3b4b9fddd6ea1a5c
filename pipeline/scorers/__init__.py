"""Text-image models that say how likely a text is true of an image."""
