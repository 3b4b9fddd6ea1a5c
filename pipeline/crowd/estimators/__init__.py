"""Estimators of a unit's correlation with a concept from draws, each with its interval."""

from pipeline.crowd.estimators.estimating import Estimate, estimate
from pipeline.crowd.estimators.sample import Population, Sample

__all__ = ["Estimate", "Population", "Sample", "estimate"]
