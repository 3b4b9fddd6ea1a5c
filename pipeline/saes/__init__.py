"""Sparse autoencoders: variants, one trainer, measures, files of our own and of others."""
