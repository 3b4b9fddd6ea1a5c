"""What holds for every explainer, on three families of language models."""

from typing import Any

import numpy as np
import pytest
import torch

from pipeline.attributions.attribution import Attribution, attribution
from pipeline.attributions.registry import NAMES, attribution_module
from pipeline.errors import AssayError
from pipeline.vlms.game import VlmGame
from tests.attributions.examples import BUILDERS, answer, prepared, vlm

ONE, TWO = answer(5), answer(5, 15)


def explain(name: str, model: Any = None, *, ids: Any = ONE, seed: int = 0, **settings: Any) -> Attribution:
    model = model or vlm()
    game = VlmGame(model, prepared(), ids)
    found = attribution_module(name).attribute(model, prepared(), ids, game=game, seed=seed, **settings)
    assert isinstance(found, Attribution)
    return found


@pytest.mark.parametrize("family", BUILDERS)
@pytest.mark.parametrize("name", NAMES)
def test_maps_are_finite_and_rank_something_for_answers_of_one_and_two_tokens(name: str, family: str) -> None:
    for ids in (ONE, TWO):
        found = explain(name, vlm(family), ids=ids)
        assert found.patches.shape == (12,) and found.tokens.shape == (5,)
        assert found.patches.dtype == found.tokens.dtype == np.float64
        assert np.isfinite(found.patches).all() and np.isfinite(found.tokens).all()
        assert found.flags == ()


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_maps_and_the_model_is_left_as_it_was(name: str) -> None:
    model = vlm()
    ids = torch.from_numpy(prepared().input_ids)[None]
    before = model.decode(model.embed(ids), prepared()).logits
    with torch.no_grad():
        first, second = explain(name, seed=3), explain(name, seed=3)
    assert first.patches.tolist() == second.patches.tolist()
    assert first.tokens.tolist() == second.tokens.tolist()
    assert torch.equal(before, model.decode(model.embed(ids), prepared()).logits)
    for part in model.module.modules():
        assert not part._forward_pre_hooks and not part._backward_hooks
        # transformers leaves hooks that record outputs where outputs were asked for.
        assert not any(hook.__module__.startswith("pipeline") for hook in part._forward_hooks.values())
    assert all(not each.requires_grad and each.grad is None for each in model.module.parameters())


@pytest.mark.parametrize("name", [each for each in NAMES if each not in ("random", "rollout")])
def test_the_map_depends_on_the_answer(name: str) -> None:
    assert not np.allclose(explain(name, ids=ONE).patches, explain(name, ids=answer(20)).patches)


@pytest.mark.parametrize("name", [each for each in NAMES if each not in ("random",)])
def test_sdpa_gives_the_map_of_eager_or_says_what_to_set(name: str) -> None:
    if "attentions" in attribution_module(name).NEEDS:
        with pytest.raises(AssayError, match=r"vlm\.attention=eager"):
            explain(name, vlm(attention="sdpa"))
        return
    eager, sdpa = explain(name), explain(name, vlm(attention="sdpa"))
    np.testing.assert_allclose(sdpa.patches, eager.patches, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(sdpa.tokens, eager.tokens, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_needs_are_what_the_explainer_asks_for(name: str) -> None:
    module = attribution_module(name)
    assert module.NEEDS.issubset({"attentions", "gradients", "game"})
    if "game" in module.NEEDS:
        with pytest.raises(AssayError, match=f"{name} asks for other states"):
            module.attribute(vlm(), prepared(), ONE)
    else:
        module.attribute(vlm(), prepared(), ONE)


@pytest.mark.parametrize(
    "name", [each for each in NAMES if each not in ("random", "occlusion", "inverted_occlusion")]
)
def test_an_empty_answer_has_nothing_to_explain(name: str) -> None:
    with pytest.raises(AssayError, match="the model ends at once"):
        attribution_module(name).attribute(vlm(), prepared(), answer())


@pytest.mark.parametrize(
    "name", ["attnlrp", "gradcam", "grad_rollout", "ig", "input_x_gradient", "llava_cam"]
)
def test_a_model_whose_score_is_outside_the_graph_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(**given: Any) -> Any:
        with torch.no_grad():
            return type(model.module).forward(model.module, **given)

    model = vlm(n_layers=2)
    monkeypatch.setattr(model.module, "forward", forward)
    with pytest.raises(AssayError, match="does not depend on it through the graph"):
        explain(name, model)


def test_random_differs_between_seeds_and_between_images_of_one_size() -> None:
    module = attribution_module("random")
    maps = [module.attribute(vlm(), prepared(image), ONE, seed=seed) for image in (0, 1) for seed in (0, 1)]
    assert len({tuple(each.patches) for each in maps}) == 4
    assert all(sorted(each.patches * 12) == pytest.approx(range(1, 13)) for each in maps)


def test_constant_maps_are_flagged_and_a_single_player_is_not() -> None:
    assert Attribution(np.zeros(3), np.arange(2.0)).flags == ("constant_patches",)
    assert Attribution(np.arange(3.0), np.ones(2)).flags == ("constant_tokens",)
    assert Attribution(np.zeros(1), np.ones(1)).flags == ()


def test_a_score_that_is_not_finite_is_refused_by_place() -> None:
    scores = np.zeros(12)
    scores[4] = np.nan
    with pytest.raises(AssayError, match=r"attribution\.name=ig scores patch 4 with nan"):
        attribution("ig", prepared(), scores, np.zeros(5))
    with pytest.raises(ValueError, match="5 players"):
        attribution("ig", prepared(), np.zeros(12), np.zeros(4))


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(AssayError, match="Did you mean 'rollout'"):
        attribution_module("rolout")
