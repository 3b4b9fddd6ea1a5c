"""Curves of one modality, the other whole: what F_syn is compared with.

Source: arXiv 2605.22168 (mu_I and mu_T); SRG, the area of insertion minus that of deletion, is our reading.
"""

from dataclasses import dataclass

from pipeline.synergy.areas import area
from pipeline.synergy.states import FloatArray


@dataclass(frozen=True)
class Unimodal:
    """One modality perturbed along the path, the other intact; curves (K,), means over the orders.

    del_: top players taken away. ins: top players put back, the rest still missing. ins, auc_ins and srg
    (auc_ins - auc_del) are None where insertion was not asked for.
    """

    del_: FloatArray
    auc_del: float
    ins: FloatArray | None
    auc_ins: float | None
    srg: float | None


def unimodal(del_: FloatArray, ins: FloatArray | None, rule: str) -> Unimodal:
    """Return the areas and SRG of curves (K,); ins may be None. Raises AssayError for a bad rule."""
    auc_del = float(area(del_, rule))
    if ins is None:
        return Unimodal(del_, auc_del, None, None, None)
    auc_ins = float(area(ins, rule))
    return Unimodal(del_, auc_del, ins, auc_ins, auc_ins - auc_del)
