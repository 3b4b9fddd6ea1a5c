"""What an explainer says: how much each patch and each query token counts for the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Game = Callable[[Bools, Bools], Floats]


@dataclass(frozen=True)
class Attribution:
    """One number a patch (m,) and one a query token (n,), float64; higher counts more.

    The modalities are ranked apart: their scales need not agree. notes: what the explainer found amiss.
    """

    patches: Floats
    tokens: Floats
    notes: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The notes, and `constant_patches`, `constant_tokens`: scores that the tie rule alone ranks."""
        scores = {"patches": self.patches, "tokens": self.tokens}
        constant = [name for name, each in scores.items() if len(each) > 1 and not np.ptp(each)]
        return (*self.notes, *(f"constant_{name}" for name in constant))


def inverted(attribution: Attribution) -> Attribution:
    """Return the attribution that ranks the other way round; 0 stays 0."""
    return Attribution(0 - attribution.patches, 0 - attribution.tokens)


def attribution(explainer: str, prepared: Prepared, patches: Any, tokens: Any) -> Attribution:
    """Return the scores of patches (m,) and tokens (n,) as an Attribution.

    All-zero and constant scores pass and are flagged: a clipped map has a right to say nothing. Raises
    AssayError for a score that is not finite.
    """
    found = Attribution(np.asarray(patches, dtype=np.float64), np.asarray(tokens, dtype=np.float64))
    _check(explainer, "patch", found.patches, prepared.n_patches)
    _check(explainer, "query token", found.tokens, prepared.n_tokens)
    return found


def of_positions(explainer: str, prepared: Prepared, scores: Any) -> Attribution:
    """Return the Attribution in the scores of all positions (L,), whatever follows the prompt left out."""
    scores = np.asarray(scores, dtype=np.float64)
    return attribution(
        explainer, prepared, scores[prepared.image_positions], scores[prepared.query_positions]
    )


def require_game(explainer: str, game: Game | None) -> Game:
    """Return the game; AssayError where there is none."""
    if game is None:
        raise AssayError(f"attribution.name={explainer} asks for other states of the input; give it the game")
    return game


def _check(explainer: str, player: str, scores: Floats, n_players: int) -> None:
    if scores.shape != (n_players,):
        raise ValueError(f"{explainer} gave scores {scores.shape} for {n_players} players ({player})")
    if not (finite := np.isfinite(scores)).all():
        first = int(np.flatnonzero(~finite)[0])
        raise AssayError(
            f"attribution.name={explainer} scores {player} {first} with {scores[first]}; take "
            "numerics.precision=float32, or leave this explainer out"
        )
