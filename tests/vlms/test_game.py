"""The game: batched, shared and deduplicated, it equals one plain forward pass a state."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.vlms.game import VlmGame
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.states import blurred_canvas, masked_canvas, padded_ids, patch_map
from pipeline.vlms.vlm import Answer, Vlm
from tests.vlms.conftest import LOADERS
from tests.vlms.oracles import slow_value

QUESTION = "is there a red circle?"


def states(prepared: Prepared, n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return n random states; all gone, all kept, and one modality kept come first."""
    rng = generator(1, "tests", "game")
    patches = rng.random((n, prepared.n_patches)) < rng.random((n, 1))
    tokens = rng.random((n, prepared.n_tokens)) < rng.random((n, 1))
    patches[:4] = np.array([False, True, False, True])[:, None]
    tokens[:4] = np.array([False, True, True, False])[:, None]
    return patches, tokens


def played(vlm: Vlm, image: Image.Image, k: int = 3) -> tuple[Prepared, Answer]:
    prepared = vlm.prepare(image, QUESTION)
    return prepared, vlm.answer(prepared, max_new_tokens=k)


@pytest.mark.parametrize("k", [1, 3])
def test_the_game_equals_a_slow_loop_over_the_models_own_forward(
    vlm: Vlm, image: Image.Image, k: int
) -> None:
    prepared, answer = played(vlm, image, k)
    patches, tokens = states(prepared, 9)
    slow = [
        slow_value(vlm, prepared, answer.ids.tolist(), *state) for state in zip(patches, tokens, strict=True)
    ]
    for reuse in (True, False):
        game = VlmGame(vlm, prepared, answer, batch_size=4, reuse_prefix=reuse)
        values = game(patches, tokens)
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, slow, rtol=2e-4, atol=1e-9)
    assert np.ptp(slow) > 1e-3 * max(slow)


def test_sdpa_plays_the_same_game(folders: dict[str, Path], vlms: dict[str, Vlm], image: Image.Image) -> None:
    for name, eager in vlms.items():
        sdpa = LOADERS[name](weights={"source": "folder", "path": folders[name]}, attention="sdpa")
        prepared, answer = played(eager, image)
        kept = states(prepared, 8)
        expected = VlmGame(eager, prepared, answer)(*kept)
        np.testing.assert_allclose(VlmGame(sdpa, prepared, answer)(*kept), expected, rtol=2e-4, atol=1e-9)


def test_everything_kept_gives_the_answers_probability(vlm: Vlm, image: Image.Image) -> None:
    prepared, answer = played(vlm, image)
    value = VlmGame(vlm, prepared, answer)(*(each[1:2] for each in states(prepared, 4)))
    assert value[0] == pytest.approx(np.exp(answer.log_probability), rel=1e-4)


def test_each_distinct_state_and_image_is_computed_once_a_call(vlm: Vlm, image: Image.Image) -> None:
    prepared, answer = played(vlm, image)
    patches, tokens = states(prepared, 12)
    distinct = len(np.unique(np.hstack([patches, tokens]), axis=0))
    images = len(np.unique(patches, axis=0))
    game = VlmGame(vlm, prepared, answer, batch_size=5)
    once = game(patches, tokens)
    twice = game(np.vstack([patches, patches]), np.vstack([tokens, tokens]))
    assert np.array_equal(twice, np.concatenate([once, once]))
    sharp_and_blurred = 2
    assert (game.n_forwards, game.n_encoded) == (2 * distinct, 2 * images - sharp_and_blurred)


def test_text_only_changes_encode_one_image(vlm: Vlm, image: Image.Image) -> None:
    prepared, answer = played(vlm, image)
    tokens = np.tril(np.ones((prepared.n_tokens, prepared.n_tokens), dtype=bool))
    game = VlmGame(vlm, prepared, answer, batch_size=2)
    game(np.ones((len(tokens), prepared.n_patches), dtype=bool), tokens)
    assert (game.n_encoded, game.n_forwards) == (1, prepared.n_tokens)


def test_an_image_whose_states_fill_several_batches_is_encoded_once(
    vlms: dict[str, Vlm], image: Image.Image
) -> None:
    vlm = vlms["tiny_llava"]
    prepared, answer = played(vlm, image)
    rng = generator(2, "tests", "game")
    images = rng.random((5, prepared.n_patches)) < 0.5
    patches, tokens = np.tile(images, (6, 1)), rng.random((30, prepared.n_tokens)) < 0.5
    small, large = (VlmGame(vlm, prepared, answer, batch_size=size) for size in (4, 64))
    np.testing.assert_allclose(small(patches, tokens), large(patches, tokens), rtol=1e-5)
    assert small.n_encoded == large.n_encoded == len(np.unique(images, axis=0))


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_values_are_the_same_to_the_last_bit_whatever_was_asked_before(
    vlm: Vlm, image: Image.Image, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, answer = played(vlm, image)
    patches, tokens = states(prepared, 12)
    given = vlm.image_features

    def encoded_a_little_by_its_batch(*arguments: Any) -> Any:
        features = given(*arguments)
        return features * (1 + 1e-4 * features.mean())

    monkeypatch.setattr(vlm, "image_features", encoded_a_little_by_its_batch)
    alone = VlmGame(vlm, prepared, answer, batch_size=batch_size)(patches[2:], tokens[2:])
    game = VlmGame(vlm, prepared, answer, batch_size=batch_size)
    game(patches[:3], tokens[:3])
    game(patches[5:7], tokens[5:7])
    assert np.array_equal(game(patches[2:], tokens[2:]), alone)
    assert np.array_equal(game(patches[:1:-1], tokens[:1:-1]), alone[::-1])


def test_zero_states_give_zero_values(vlms: dict[str, Vlm], image: Image.Image) -> None:
    vlm = vlms["tiny_llava"]
    prepared, answer = played(vlm, image)
    game = VlmGame(vlm, prepared, answer)
    empty = np.zeros((0, prepared.n_patches), bool), np.zeros((0, prepared.n_tokens), bool)
    assert game(*empty).shape == (0,)
    assert game.n_forwards == 0


def test_kept_sets_of_another_shape_or_kind_are_refused(vlms: dict[str, Vlm], image: Image.Image) -> None:
    vlm = vlms["tiny_llava"]
    prepared, answer = played(vlm, image)
    game = VlmGame(vlm, prepared, answer)
    patches, tokens = states(prepared, 4)
    for wrong in [(patches[:, 1:], tokens), (patches[1:], tokens), (patches.astype(float), tokens)]:
        with pytest.raises(AssayError, match="kept patches"):
            game(*wrong)


def test_an_empty_answer_has_no_game(vlms: dict[str, Vlm], image: Image.Image) -> None:
    vlm = vlms["tiny_llava"]
    prepared, answer = played(vlm, image)
    with pytest.raises(AssayError, match="is empty"):
        VlmGame(vlm, prepared, replace(answer, ids=answer.ids[:0]))
    with pytest.raises(AssayError, match=r"batch_size=0"):
        VlmGame(vlm, prepared, answer, batch_size=0)


def test_a_state_is_sharp_in_its_patches_and_blurred_elsewhere(
    vlms: dict[str, Vlm], image: Image.Image
) -> None:
    prepared = vlms["qwen2_5_vl"].prepare(image, QUESTION)
    blurred, owner = blurred_canvas(prepared), patch_map(prepared)
    kept = np.array([True, False, False, False, True, False])
    state = np.asarray(masked_canvas(prepared, kept, blurred, owner))
    for patch, (left, top, right, bottom) in enumerate(prepared.footprints.tolist()):
        origin = np.asarray(prepared.canvas if kept[patch] else blurred)
        assert np.array_equal(state[top:bottom, left:right], origin[top:bottom, left:right])


def test_padding_changes_the_questions_tokens_alone(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    kept = np.array([[True, False, True, True, False, True], [False] * 6])
    ids = padded_ids(prepared, kept, vlm.pad_id)
    moved = ids != prepared.input_ids
    assert np.array_equal(moved[:, prepared.query_positions], ~kept)
    assert moved.sum() == (~kept).sum()
    assert (ids[moved] == vlm.pad_id).all()
