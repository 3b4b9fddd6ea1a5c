"""Occlusion and its inverse against one call of the game a player."""

import numpy as np
import pytest

from pipeline.attributions import inverted_occlusion, occlusion
from pipeline.attributions.attribution import inverted
from pipeline.vlms.game import VlmGame
from tests.attributions.examples import answer, prepared, vlm


def test_occlusion_is_the_loss_without_one_player() -> None:
    game = VlmGame(vlm(), prepared(), answer(7, 15))
    found = occlusion.attribute(vlm(), prepared(), answer(7, 15), game=game)
    assert game.n_forwards == 1 + 12 + 5
    everything = np.ones((1, 12), dtype=bool), np.ones((1, 5), dtype=bool)
    full = game(*everything)[0]
    for player in range(17):
        patches, tokens = everything[0].copy(), everything[1].copy()
        (patches if player < 12 else tokens)[0, player if player < 12 else player - 12] = False
        score = found.patches[player] if player < 12 else found.tokens[player - 12]
        assert score == pytest.approx(full - game(patches, tokens)[0], abs=1e-9)


def test_the_inverse_ranks_the_other_way_round() -> None:
    game = VlmGame(vlm(), prepared(), answer(7))
    there = occlusion.attribute(vlm(), prepared(), answer(7), game=game)
    back = inverted_occlusion.attribute(vlm(), prepared(), answer(7), game=game)
    assert back.patches.tolist() == (-there.patches).tolist()
    assert np.argsort(back.tokens).tolist() == np.argsort(there.tokens)[::-1].tolist()
    again = inverted(back)
    assert again.patches.tolist() == there.patches.tolist()
    assert not np.signbit(inverted(occlusion.Attribution(np.zeros(2), np.zeros(2))).patches).any()
