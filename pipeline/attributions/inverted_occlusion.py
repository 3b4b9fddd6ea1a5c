"""inverted_occlusion: occlusion with its sign turned, so the least important first; the lower bound."""

from pipeline.attributions import occlusion
from pipeline.attributions.attribution import Attribution, Game, inverted, require_game
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"game"})


def attribute(
    vlm: Vlm, prepared: Prepared, answer: Answer, *, game: Game | None = None, seed: int = 0
) -> Attribution:
    """Score a player by f(all but this one) - f(all). Raises AssayError without a game."""
    require_game("inverted_occlusion", game)
    return inverted(occlusion.attribute(vlm, prepared, answer, game=game, seed=seed))
