"""Crowd track: pure functions from activations, draws and ratings to scores."""

from pipeline.crowd.aggregation import aggregate, bragg
from pipeline.crowd.analysis import analyze
from pipeline.crowd.correlation import importance_correlation
from pipeline.crowd.proposal import proposal

__all__ = ["aggregate", "analyze", "bragg", "importance_correlation", "proposal"]
