"""Samplers: which images people are shown. One file a sampler; `registry` finds it by name."""
