"""From tidy tables to claims: pure functions."""

from pipeline.statistics.mixed.fitting import Fit, fit

__all__ = ["Fit", "fit"]
