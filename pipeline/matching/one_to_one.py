"""One latent an attribute: the one with the best F1.

Source: arXiv 2606.24716, the baseline of one latent for one attribute. A latent may serve several.
"""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from pipeline.matching import ranked_or
from pipeline.matching.codes import Codes
from pipeline.matching.fbmp import check_settings
from pipeline.matching.matching import Matching


def match(codes: Codes, attributes: ArrayLike, *, betas: Sequence[float], max_latents: int) -> list[Matching]:
    """Match codes (N, D) with attributes (N, A): one matching, whatever the betas; its own beta is 1.

    The latent with the largest F1, the lowest index on ties; none where no latent overlaps. The betas and
    max_latents are checked, and have no effect. Raises AssayError as `fbmp`.
    """
    check_settings(betas, max_latents)
    return ranked_or.match(codes, attributes, betas=[1.0], max_latents=1)
