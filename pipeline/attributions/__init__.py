"""Explainers of vision-language models: one number a patch and one a query token, one file an explainer."""
