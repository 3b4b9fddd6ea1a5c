"""Input x gradient, integrated gradients and the two CAMs against slow formulas."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.attributions import gradcam, ig, input_x_gradient, llava_cam
from pipeline.attributions.answer_score import answer_score, embedded, gradients, require_any
from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.vlms.states import blurred_canvas
from tests.attributions.examples import answer, prepared, vlm

TWO = answer(5, 15)


def score(inputs: torch.Tensor, target: str) -> float:
    """The answer's score on (L + 1, d) embeddings, from all logits."""
    logits = vlm().decode(inputs[None], prepared()).logits[0, [-2, -1]]
    values = logits.log_softmax(-1) if target == "log_probability" else logits
    return float(values[0, 5] + values[1, 15])


@pytest.mark.parametrize("target", ["log_probability", "logit"])
def test_input_x_gradient_is_the_slope_when_one_embedding_grows(target: str) -> None:
    inputs = embedded(vlm(), prepared(), TWO)[0]
    found = input_x_gradient.attribute(vlm(), prepared(), TWO, target=target)
    step = 1e-2
    for position, expected in [(2, found.patches[0]), (13, found.patches[11]), (16, found.tokens[2])]:
        more, less = inputs.clone(), inputs.clone()
        more[position] *= 1 + step
        less[position] *= 1 - step
        slope = (score(more, target) - score(less, target)) / (2 * step)
        assert slope == pytest.approx(expected, rel=1e-2, abs=1e-4)


def blank() -> torch.Tensor:
    """The embeddings of the blurred image and the padded question."""
    sample = prepared()
    ids = np.append(sample.input_ids, 5)
    ids[sample.query_positions] = 0
    features = vlm().image_features([blurred_canvas(sample)], sample)
    return vlm().splice(sample, torch.from_numpy(ids)[None], features)[0]


@pytest.mark.parametrize("target", ["log_probability", "logit"])
def test_integrated_gradients_of_patches_and_tokens_sum_to_the_score_gained(target: str) -> None:
    found = ig.attribute(vlm(), prepared(), TWO, target=target, n_steps=64, tolerance=1e-4)
    gained = score(embedded(vlm(), prepared(), TWO)[0], target) - score(blank(), target)
    assert abs(gained) > 0.1
    assert found.patches.sum() + found.tokens.sum() == pytest.approx(gained, rel=1e-4)


def test_integrated_gradients_are_the_mean_gradient_on_the_line() -> None:
    clean, start = embedded(vlm(), prepared(), TWO)[0], blank()
    total = torch.zeros_like(clean)
    edges = np.linspace(0, 1, 121) ** 2
    for low, high in itertools.pairwise(edges):
        share = (low + high) / 2
        point = (start + share * (clean - start)).requires_grad_()
        value, _ = answer_score(vlm(), prepared(), TWO, point[None], "log_probability")
        total += torch.autograd.grad(value.sum(), point)[0] * (high - low)
    expected = ((clean - start) * total).sum(-1).numpy()
    found = ig.attribute(vlm(), prepared(), TWO, n_steps=64, tolerance=1e-4)
    np.testing.assert_allclose(found.patches, expected[2:14], rtol=1e-2, atol=2e-3)
    np.testing.assert_allclose(found.tokens, expected[14:19], rtol=1e-2, atol=2e-3)


def test_steps_double_until_the_sum_is_complete_and_a_map_that_is_not_says_so() -> None:
    rough = ig.attribute(vlm(), prepared(), TWO, n_steps=4, max_steps=4, tolerance=1e-6)
    assert rough.flags == ("incomplete",)
    fine = ig.attribute(vlm(), prepared(), TWO, n_steps=4, max_steps=64, tolerance=1e-3)
    assert fine.flags == ()
    assert fine.patches.tolist() != rough.patches.tolist()
    gained = score(embedded(vlm(), prepared(), TWO)[0], "log_probability") - score(blank(), "log_probability")
    scale = np.abs(fine.patches).sum() + np.abs(fine.tokens).sum()
    assert abs(fine.patches.sum() + fine.tokens.sum() - gained) <= 1e-3 * scale
    coarse = ig.attribute(vlm(), prepared(), TWO, n_steps=4, max_steps=64, tolerance=10)
    assert coarse.patches.tolist() == rough.patches.tolist()


def test_the_batch_of_integrated_gradients_changes_nothing() -> None:
    one, all_at_once = (
        ig.attribute(vlm(), prepared(), TWO, n_steps=10, max_steps=10, batch_size=b) for b in (1, 64)
    )
    np.testing.assert_allclose(one.patches, all_at_once.patches, rtol=1e-6, atol=1e-9)


def layer_input(layer: int, target: str) -> tuple[Any, Any]:
    """What a decoder layer is called with and the gradient there, by a hook on the layer itself."""
    kept: list[torch.Tensor] = []

    def keep(module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        kept.append(positional[0] if positional else named["hidden_states"])

    handle = vlm().decoder_layers[layer].register_forward_pre_hook(keep, with_kwargs=True)
    inputs = embedded(vlm(), prepared(), TWO).requires_grad_()
    value, _ = answer_score(vlm(), prepared(), TWO, inputs, target)
    handle.remove()
    (slope,) = torch.autograd.grad(value.sum(), kept)
    return kept[0][0].detach().numpy(), slope[0].numpy()


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_gradcam_is_relu_of_mean_gradient_times_activation(layer: int) -> None:
    activation, slope = layer_input(layer, "log_probability")
    found = gradcam.attribute(vlm(), prepared(), TWO, layer=layer)
    for scores, positions in ((found.patches, range(2, 14)), (found.tokens, range(14, 19))):
        mean = sum(slope[p] for p in positions) / len(positions)
        expected = [max(0.0, float(sum(mean * activation[p]))) for p in positions]
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_llava_cam_is_the_thresholded_mean_over_channels(layer: int) -> None:
    activation, slope = layer_input(layer, "logit")
    found = llava_cam.attribute(vlm(), prepared(), TWO, layer=layer, threshold=0.4)
    for scores, positions in ((found.patches, range(2, 14)), (found.tokens, range(14, 19))):
        weights = sum(np.where(slope[p] > 0, slope[p], 0) for p in positions) / len(positions)
        heat = np.array([max(0.0, float(np.mean(weights * activation[p]))) for p in positions])
        heat = heat / heat.max()
        np.testing.assert_allclose(scores, [each if each >= 0.4 else 0 for each in heat], rtol=1e-6)


def test_a_heat_that_is_nowhere_positive_is_zero_and_not_nan() -> None:
    assert llava_cam.heat(-np.ones((3, 2)), np.ones((3, 2)), 0.5).tolist() == [0, 0, 0]
    assert llava_cam.heat(np.ones((3, 2)), np.ones((3, 2)), 0.5).tolist() == [1, 1, 1]
    assert llava_cam.heat(np.ones((3, 2)), np.ones((3, 2)), 1.0).tolist() == [1, 1, 1]


def test_smoothed_maps_are_the_mean_over_noisy_images() -> None:
    plain = llava_cam.attribute(vlm(), prepared(), TWO)
    without_noise = llava_cam.attribute(vlm(), prepared(), TWO, n_smooth=3, noise=0.0)
    np.testing.assert_allclose(without_noise.patches, plain.patches)
    given: dict[str, Any] = {"layer": 0, "n_smooth": 2, "noise": 0.5, "threshold": 0.0}
    noisy = [llava_cam.attribute(vlm(), prepared(), TWO, seed=seed, **given) for seed in (0, 0, 1)]
    assert noisy[0].patches.tolist() == noisy[1].patches.tolist() != noisy[2].patches.tolist()
    rng = generator(0, "attribution", "llava_cam")
    pixels, maps = np.asarray(prepared().canvas, dtype=float), []
    for _ in range(2):
        canvas = Image.fromarray(
            np.clip(pixels + 127.5 * rng.standard_normal(pixels.shape), 0, 255).round().astype("uint8")
        )
        sample = replace(prepared(), canvas=canvas)
        maps.append(llava_cam.attribute(vlm(), sample, TWO, layer=0, threshold=0.0).patches)
    np.testing.assert_allclose(noisy[0].patches, (maps[0] + maps[1]) / (maps[0] + maps[1]).max())


@pytest.mark.parametrize("module", [gradcam, llava_cam])
@pytest.mark.parametrize("layer", [3, -4])
def test_a_layer_that_the_model_does_not_have_is_refused(module: Any, layer: int) -> None:
    with pytest.raises(AssayError, match=f"attribution.layer={layer}: llava has decoder layers 0 to 2"):
        module.attribute(vlm(), prepared(), TWO, layer=layer)


def test_what_the_score_does_not_reach_is_an_error_and_never_zeros() -> None:
    reached, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with pytest.raises(AssayError, match="layer 9: the answer's score does not depend on it"):
        gradients((reached * 2).sum(), [reached, other], "layer 9")
    with pytest.raises(AssayError, match="does not depend on it"):
        gradients(torch.ones(1), [reached], "layer 9")
    with pytest.raises(AssayError, match="layer 9: every gradient of the answer's score is exactly 0"):
        gradients((reached * 0).sum(), [reached], "layer 9")
    require_any([torch.zeros(1), torch.ones(1)], "layer 9")


def test_the_output_of_the_last_layer_would_have_no_gradient_at_the_patches() -> None:
    inputs = embedded(vlm(), prepared(), TWO).requires_grad_()
    value, decoded = answer_score(vlm(), prepared(), TWO, inputs, "logit", hidden=True)
    assert decoded.hidden is not None
    (slope,) = torch.autograd.grad(value.sum(), decoded.hidden[-1])
    assert not slope[0, prepared().image_positions].any()


def test_a_confident_answer_still_has_a_gradient() -> None:
    logits = torch.tensor([[[0.0, 25.0]]], dtype=torch.float32, requires_grad=True)

    class Sure:
        token_ids = staticmethod(torch.from_numpy)

        def decode(self, *_: Any, **__: Any) -> Any:
            return type("Decoded", (), {"logits": logits})

    model: Any = Sure()
    value, _ = answer_score(model, prepared(), answer(1), logits, "log_probability")
    assert torch.autograd.grad(value.sum(), logits)[0][0, 0, 1] == pytest.approx(np.exp(-25), rel=1e-5)


@pytest.mark.parametrize(
    ("module", "settings", "named"),
    [
        (ig, {"n_steps": 0}, "n_steps=0"),
        (ig, {"n_steps": 64, "max_steps": 32}, "max_steps=32"),
        (ig, {"target": "probability"}, "attribution.target='probability'"),
        (llava_cam, {"threshold": 1.5}, "threshold=1.5"),
        (llava_cam, {"n_smooth": -1}, "n_smooth=-1"),
    ],
)
def test_a_setting_out_of_range_is_named(module: Any, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(AssayError, match=named):
        module.attribute(vlm(), prepared(), TWO, **settings)
