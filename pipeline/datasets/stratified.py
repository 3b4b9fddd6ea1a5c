"""A share of the images of every stratum, held out by a hash of their ids."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from pipeline.errors import AssayError


def held_out(image_ids: Sequence[str], strata: Sequence[str], share: float, seed: int) -> set[str]:
    """Return the ids of round(share x N) of the N images, spread over the strata in proportion.

    A stratum of n images gives the whole part of its due, n x total / N; what is left of the total goes
    to the largest remainders, ties to the stratum first by name. Inside a stratum the images
    with the smallest SHA-256 of (seed, id) are taken, so the order of the images plays no part. Raises
    AssayError for a share outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise AssayError(f"a held-out share of {share} is not between 0 and 1")
    quota = _quotas(Counter(strata), Fraction(str(share)))
    taken: set[str] = set()
    for image_id, stratum in sorted(
        zip(image_ids, strata, strict=True), key=lambda one: _place(one[0], seed)
    ):
        if quota[stratum] > 0:
            quota[stratum] -= 1
            taken.add(image_id)
    return taken


def _quotas(sizes: Counter[str], share: Fraction) -> dict[str, int]:
    n_images = sum(sizes.values())
    total = int(share * n_images + Fraction(1, 2))
    due = {name: Fraction(size * total, n_images) for name, size in sizes.items()}
    quota = {name: int(value) for name, value in due.items()}
    by_remainder = sorted(due, key=lambda name: (quota[name] - due[name], name))
    for name in by_remainder[: total - sum(quota.values())]:
        quota[name] += 1
    return quota


def _place(image_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\x1fheld out\x1f{image_id}".encode()).digest()
