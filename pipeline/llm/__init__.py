"""Descriptions of units from a vision-language model behind any OpenAI-compatible endpoint."""
