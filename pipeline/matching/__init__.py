"""Do latents line up with attributes: matching, scores of what was matched, perturbations, checks."""

from pipeline.matching.cknna import cknna
from pipeline.matching.dstay import dstay
from pipeline.matching.fbmp import fbmp
from pipeline.matching.fms import fms
from pipeline.matching.monosemanticity import monosemanticity
from pipeline.matching.perturbed import latent_maxima, scaled_codes
from pipeline.matching.probe import linear_probe, load_probe, probe_scores
from pipeline.matching.scores import attribute_scores, dmatch_score, match_score
from pipeline.matching.tapascore import tapascore

__all__ = [
    "attribute_scores",
    "cknna",
    "dmatch_score",
    "dstay",
    "fbmp",
    "fms",
    "latent_maxima",
    "linear_probe",
    "load_probe",
    "match_score",
    "monosemanticity",
    "probe_scores",
    "scaled_codes",
    "tapascore",
]
