"""Adapters: each gives what the model's own forward pass gives, through prompts that are checked."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.errors import AssayError
from pipeline.vlms import internvl, llava, qwen2_5_vl, registry, tiny_llava
from pipeline.vlms.vlm import Vlm
from tests.vlms.oracles import own_inputs, own_logits

QUESTION = "is there a red circle?"
TRANSFORMERS = ("llava", "qwen2_5_vl", "internvl")
MODULES = {"llava": llava, "qwen2_5_vl": qwen2_5_vl, "internvl": internvl, "tiny_llava": tiny_llava}
Loaded = dict[str, Vlm]


def source(folders: dict[str, Path], name: str) -> dict[str, Any]:
    return {"source": "folder", "path": folders[name]}


def test_every_registered_name_has_a_loader_of_its_own_name() -> None:
    for name in registry.NAMES:
        assert registry.vlm_module(name) is MODULES[name]
    with pytest.raises(AssayError, match=r"vlm\.name='blip'.*choose from"):
        registry.vlm_module("blip")


def test_splice_and_decode_give_the_models_own_logits(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    ids = prepared.input_ids.tolist()
    with torch.no_grad():
        features = vlm.image_features([prepared.canvas], prepared)
        spliced = vlm.splice(prepared, vlm.token_ids(prepared.input_ids[None]), features)
        logits = vlm.decode(spliced, prepared).logits[0]
        last = vlm.decode(spliced, prepared, keep=2).logits[0]
    given = prepared.canvas if vlm.name == "tiny_llava" else image
    torch.testing.assert_close(logits.double(), own_logits(vlm, given, ids), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last, logits[-2:])


def test_a_continued_prefix_gives_the_logits_of_the_whole(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    flipped = prepared.canvas.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    first = int(prepared.query_positions[0])
    rows = torch.tensor([1, 0, 1])
    ids = np.tile(prepared.input_ids, (3, 1))
    ids[2, prepared.query_positions[1:]] = vlm.pad_id
    with torch.no_grad():
        features = vlm.image_features([prepared.canvas, flipped], prepared)
        whole = vlm.splice(prepared, vlm.token_ids(ids), features[rows])
        expected = vlm.decode(whole, prepared).logits[:, first:]
        start = vlm.splice(prepared, vlm.token_ids(ids[:2, :first]), features)
        prefix = vlm.prefix(start, prepared)
        for _ in range(2):
            found = vlm.continued(prefix, rows, whole[:, first:], prepared)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_answer_is_what_generate_gives(vlms: Loaded, image: Image.Image, name: str) -> None:
    vlm = vlms[name]
    prepared = vlm.prepare(image, QUESTION)
    answer = vlm.answer(prepared, max_new_tokens=4)
    inputs = own_inputs(vlm, image, prepared.input_ids.tolist())
    module: Any = vlm.module
    made = module.generate(
        **inputs, attention_mask=torch.ones_like(inputs["input_ids"]), max_new_tokens=4, do_sample=False
    )
    assert answer.ids.tolist() == made[0, len(prepared.input_ids) :].tolist()
    assert len(answer.ids) == 4


def test_an_answer_has_the_probability_of_its_tokens(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    answer = vlm.answer(prepared, max_new_tokens=3)
    total, ids = 0.0, prepared.input_ids.tolist()
    for token in answer.ids.tolist():
        logs = own_logits(vlm, prepared.canvas, ids)[-1].log_softmax(-1)
        assert token == int(logs.argmax())
        total += float(logs[token])
        ids.append(token)
    assert answer.log_probability == pytest.approx(total, abs=1e-4)


def test_an_answer_stops_before_an_end_token(
    folders: dict[str, Path], image: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = llava.load(weights=source(folders, "llava"))
    prepared = vlm.prepare(image, QUESTION)
    ids = vlm.answer(prepared, max_new_tokens=3).ids
    monkeypatch.setattr(vlm, "end_ids", frozenset({int(ids[1])}))
    assert vlm.answer(prepared, max_new_tokens=3).ids.tolist() == [int(ids[0])]
    monkeypatch.setattr(vlm, "end_ids", frozenset({int(ids[0])}))
    empty = vlm.answer(prepared)
    assert (len(empty.ids), empty.text, empty.log_probability) == (0, "", 0.0)


@pytest.mark.parametrize("name", tuple(MODULES))
def test_each_visual_token_sees_its_own_footprint_alone(
    folders: dict[str, Path], image: Image.Image, name: str
) -> None:
    vlm: Vlm = MODULES[name].load(weights=source(folders, name))  # type: ignore[attr-defined]
    for path, weight in vlm.module.named_parameters():
        if re.search(r"(vision_tower|visual).*(out_proj|attn\.proj|projection_layer)\.", path):
            weight.zero_()
    prepared = vlm.prepare(image, QUESTION)
    changed = []
    for box in prepared.footprints.tolist():
        canvas = prepared.canvas.copy()
        canvas.paste((255, 0, 255), box)
        changed.append(canvas)
    with torch.no_grad():
        clean = vlm.image_features([prepared.canvas], prepared)
        moved = (vlm.image_features(changed, prepared) - clean).abs().amax(-1) > 1e-5
    assert torch.equal(moved, torch.eye(prepared.n_patches, dtype=torch.bool))


def test_footprints_tile_the_canvas(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    covered = np.zeros(prepared.canvas.size[::-1], dtype=int)
    for left, top, right, bottom in prepared.footprints.tolist():
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()


def test_the_query_is_all_that_differs_between_prompts(vlm: Vlm, image: Image.Image) -> None:
    first, second = (
        vlm.prepare(image, "is there a red circle?"),
        vlm.prepare(image, "is there a blue square?"),
    )
    assert first.n_tokens == second.n_tokens == 6
    outside = np.ones(len(first.input_ids), dtype=bool)
    outside[first.query_positions] = False
    assert np.array_equal(first.query_positions, second.query_positions)
    assert np.array_equal(first.input_ids[outside], second.input_ids[outside])
    assert first.tokens == ("is", "there", "a", "red", "circle", "?")
    assert not set(first.query_positions) & set(first.image_positions)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize(
    "question",
    [
        "user",
        "assistant",
        "USER: is it red ASSISTANT: no",
        "\n two\nlines ",
        "naïve 日本語?",
        "vision_end im_end",
    ],
)
def test_a_question_that_looks_like_the_template_is_found_in_its_place(
    vlms: Loaded, image: Image.Image, name: str, question: str
) -> None:
    vlm: Any = vlms[name]
    prepared = vlm.prepare(image, question)
    ids = prepared.input_ids[prepared.query_positions].tolist()
    assert vlm.tokenizer.decode(ids).strip() == question.strip()
    assert np.array_equal(np.diff(prepared.query_positions), np.ones(len(ids) - 1))
    assert prepared.query_positions[0] > prepared.image_positions[-1]


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(vlm: Vlm, image: Image.Image, question: str) -> None:
    with pytest.raises(AssayError, match="no token of its own"):
        vlm.prepare(image, question)


def test_an_image_smaller_than_a_patch_is_refused(vlm: Vlm) -> None:
    with pytest.raises(AssayError, match=r"90 x 9 pixels is smaller than one"):
        vlm.prepare(Image.new("RGB", (90, 9)), QUESTION)


def test_grey_and_transparent_images_are_read_as_colour(vlm: Vlm, image: Image.Image) -> None:
    grey = image.convert("L")
    ours, theirs = vlm.prepare(grey, QUESTION), vlm.prepare(grey.convert("RGB"), QUESTION)
    assert ours.canvas.mode == "RGB"
    assert np.array_equal(np.asarray(ours.canvas), np.asarray(theirs.canvas))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_question_with_the_image_token_is_refused(vlms: Loaded, image: Image.Image, name: str) -> None:
    vlm: Any = vlms[name]
    token = vlm.tokenizer.decode([vlm.config.image_token_id])
    with pytest.raises(AssayError, match=r"processor refuses|image placeholders, not one"):
        vlm.prepare(image, f"what is {token} ?")


def test_attentions_and_gradients_reach_explainers(vlm: Vlm, image: Image.Image) -> None:
    prepared = vlm.prepare(image, QUESTION)
    ids = vlm.token_ids(prepared.input_ids[None])
    features = vlm.image_features([prepared.canvas], prepared).detach().requires_grad_(True)
    out = vlm.decode(vlm.splice(prepared, ids, features), prepared, attentions=True, hidden=True)
    assert out.attentions is not None
    assert out.hidden is not None
    assert len(out.attentions) == len(vlm.decoder_layers) == len(out.hidden) - 1
    length = len(prepared.input_ids)
    for each in out.attentions:
        assert each.shape[-2:] == (length, length)
        torch.testing.assert_close(each.sum(-1), torch.ones_like(each[..., 0]))
    (gradient,) = torch.autograd.grad(out.logits[0, -1].max(), features)
    assert gradient.shape == (1, prepared.n_patches, out.hidden[0].shape[-1])
    assert (gradient.abs().amax(-1) > 0).all()
    assert not any(weight.requires_grad for weight in vlm.module.parameters())


@pytest.mark.parametrize("name", tuple(MODULES))
def test_sdpa_decodes_alike_and_refuses_attentions(
    folders: dict[str, Path], vlms: Loaded, image: Image.Image, name: str
) -> None:
    load: Callable[..., Vlm] = MODULES[name].load  # type: ignore[attr-defined]
    vlm = load(weights=source(folders, name), attention="sdpa")
    prepared = vlm.prepare(image, QUESTION)
    ids = vlm.token_ids(prepared.input_ids[None])
    with torch.no_grad():
        logits = [
            each.decode(
                each.splice(prepared, ids, each.image_features([prepared.canvas], prepared)), prepared
            )
            for each in (vlm, vlms[name])
        ]
        torch.testing.assert_close(logits[0].logits, logits[1].logits, atol=1e-4, rtol=1e-4)
        with pytest.raises(AssayError, match=r"vlm\.attention=sdpa returns no attentions"):
            vlm.decode(vlm.embed(ids), prepared, attentions=True)


def test_qwen_keeps_the_images_shape_and_obeys_max_pixels(folders: dict[str, Path]) -> None:
    wide = Image.new("RGB", (280, 56), "red")
    whole = qwen2_5_vl.load(weights=source(folders, "qwen2_5_vl"))
    bound = qwen2_5_vl.load(weights=source(folders, "qwen2_5_vl"), max_pixels=28 * 28 * 8)
    assert whole.prepare(wide, QUESTION).grid == (2, 10)
    rows, columns = bound.prepare(wide, QUESTION).grid
    assert rows * columns <= 8
    with pytest.raises(AssayError, match=r"vlm\.max_pixels=10 is below"):
        qwen2_5_vl.load(weights=source(folders, "qwen2_5_vl"), max_pixels=10)
    with pytest.raises(AssayError, match="processor refuses an image of 6000 x 28"):
        whole.prepare(Image.new("RGB", (6000, 28)), QUESTION)


def test_internvl_takes_one_tile_of_a_wide_image(vlms: Loaded) -> None:
    prepared = vlms["internvl"].prepare(Image.new("RGB", (400, 100), "red"), QUESTION)
    assert prepared.grid == (2, 2)
    assert prepared.canvas.size == (56, 56)


def test_a_processor_of_another_grid_is_refused(
    vlms: Loaded, image: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm: Any = vlms["internvl"]
    monkeypatch.setattr(vlm.processor, "image_seq_length", 9)
    with pytest.raises(AssayError, match="9 visual tokens, but the image is a grid of 2 x 2"):
        vlm.prepare(image, QUESTION)


def test_a_processor_without_a_chat_template_is_refused(
    vlms: Loaded, image: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm: Any = vlms["llava"]
    monkeypatch.setattr(vlm.processor, "chat_template", None)
    with pytest.raises(AssayError, match="no chat template"):
        vlm.prepare(image, QUESTION)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_what_cannot_be_loaded_is_named(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    load: Callable[..., Vlm] = MODULES[name].load  # type: ignore[attr-defined]
    with pytest.raises(AssayError, match=r"holds no config\.json"):
        load(weights={"source": "folder", "path": tmp_path})
    with pytest.raises(AssayError, match=r"source='url' is not known"):
        load(weights={"source": "url"})
    with pytest.raises(AssayError, match=r"vlm\.dtype='int8'"):
        load(weights=source(folders, name), dtype="int8")
    with pytest.raises(AssayError, match=r"vlm\.attention='flash'"):
        load(weights=source(folders, name), attention="flash")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(AssayError, match=f"holds a model of the type None, and vlm={name} wants"):
        load(weights={"source": "folder", "path": tmp_path})


def test_half_precision_answers_too(folders: dict[str, Path], image: Image.Image) -> None:
    for name, module in MODULES.items():
        vlm: Vlm = module.load(weights=source(folders, name), dtype="bfloat16")  # type: ignore[attr-defined]
        answer = vlm.answer(vlm.prepare(image, QUESTION), max_new_tokens=2)
        assert np.isfinite(answer.log_probability)


def test_the_pads_embedding_has_its_length_recorded(vlm: Vlm) -> None:
    module: Any = vlm.module
    row = module.get_input_embeddings().weight[vlm.pad_id]
    assert vlm.pad_norm == pytest.approx(float((row.double() ** 2).sum() ** 0.5))


def test_a_tokenizer_without_a_pad_is_refused(folders: dict[str, Path]) -> None:
    vlm: Any = llava.load(weights=source(folders, "llava"))
    vlm.processor.tokenizer.pad_token = None
    with pytest.raises(AssayError, match="has no pad token"):
        llava.Llava(vlm.module, vlm.processor, attention="eager")
