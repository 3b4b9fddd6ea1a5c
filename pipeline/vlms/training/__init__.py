"""Models that are trained here, one module each."""
