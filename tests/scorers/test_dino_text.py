"""The scorer against three libraries that built the same modules: transformers, timm and open_clip."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transformer import TextTransformer
from PIL import Image
from timm.layers import SwiGLU
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.scorers.dino_text import load, transform
from pipeline.scorers.dual_encoder import DualEncoder

ARCH = "vit_tiny_patch16_dinov3_qkvb"
WIDTH, TEXT_WIDTH, CONTEXT, SIZE = 192, 128, 12, 32
LOADER: dict[str, Any] = {"batch_size": 2, "workers": 0, "device": "cpu", "threads": 1}
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
State = dict[str, Tensor]

BACKBONE_NAMES = (
    ("embeddings.patch_embeddings", "patch_embed.proj"),
    ("embeddings.register_tokens", "storage_tokens"),
    ("embeddings.", ""),
    ("model.layer.", "blocks."),
    ("attention.o_proj", "attn.proj"),
    ("layer_scale1.lambda1", "ls1.gamma"),
    ("layer_scale2.lambda1", "ls2.gamma"),
    ("up_proj", "fc1"),
    ("down_proj", "fc2"),
)
HEAD_NAMES = (("mlp.fc1_g", "mlp.w1"), ("mlp.fc1_x", "mlp.w2"), ("mlp.fc2", "mlp.w3"))
TEXT_NAMES = (
    ("transformer.resblocks.", "blocks."),
    ("ln_1", "attention_norm"),
    ("attn.in_proj_weight", "attention.qkv.weight"),
    ("attn.out_proj", "attention.proj"),
    ("ln_2", "ffn_norm"),
    ("mlp.c_fc", "feed_forward.fc1"),
    ("mlp.c_proj", "feed_forward.fc2"),
)


def randomised(module: nn.Module, seed: int) -> Any:
    """Every tensor drawn, so that no part of the module is an identity."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.normal_(std=0.1, generator=numbers)
            if "norm" in name or "ln_" in name:
                value.add_(1)
    return module.eval()


def renamed(state: State, names: tuple[tuple[str, str], ...], prefix: str = "") -> State:
    found = {}
    for name, value in state.items():
        for theirs, released in names:
            name = name.replace(theirs, released)
        found[prefix + name] = value
    return found


class Reference:
    """The three libraries' modules, and the two files of a release made of their tensors."""

    def __init__(self) -> None:
        config = transformers.DINOv3ViTConfig(
            hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=12, num_attention_heads=3,
            num_register_tokens=4, query_bias=True, key_bias=False, value_bias=True,
        )  # fmt: skip
        self.network = randomised(transformers.DINOv3ViTModel(config), 1)
        gated: Any = {"mlp_layer": SwiGLU, "act_layer": nn.SiLU, "norm_layer": nn.LayerNorm}
        blocks = [Block(WIDTH, 3, 2.0, init_values=1.0, **gated) for _ in range(2)]
        self.head = randomised(
            nn.ModuleDict({"blocks": nn.Sequential(*blocks), "ln": nn.LayerNorm(WIDTH)}), 2
        )
        text = TextTransformer(CONTEXT, 49408, TEXT_WIDTH, 2, 2, 1.5, output_dim=2 * WIDTH)
        self.text = randomised(text, 3)
        for block in self.text.transformer.resblocks:
            nn.init.zeros_(block.attn.in_proj_bias)

    def backbone_state(self) -> State:
        state = self.network.state_dict()
        for i in range(12):
            stem = f"model.layer.{i}.attention"
            bias = [state.pop(f"{stem}.{x}_proj.bias", torch.full((WIDTH,), 7.0)) for x in "qkv"]
            weight = [state.pop(f"{stem}.{x}_proj.weight") for x in "qkv"]
            state[f"blocks.{i}.attn.qkv.weight"] = torch.cat(weight)
            state[f"blocks.{i}.attn.qkv.bias"] = torch.cat(bias)
            state[f"blocks.{i}.attn.qkv.bias_mask"] = torch.tensor([1.0, 0.0, 1.0]).repeat_interleave(WIDTH)
        state["rope_embed.periods"] = 1 / self.network.rope_embeddings.inv_freq
        return renamed(state, BACKBONE_NAMES)

    def heads_state(self) -> State:
        text = {k: v for k, v in self.text.state_dict().items() if not k.endswith("in_proj_bias")}
        projection = text.pop("text_projection")
        head = renamed(self.head.state_dict(), (*HEAD_NAMES, ("ln.", "ln_final.")), "visual_model.head.")
        return (
            head
            | renamed(text, TEXT_NAMES, "text_model.backbone.")
            | {"text_model.head.linear_projection.weight": projection.T, "logit_scale": torch.ones(1)}
        )

    @torch.no_grad()
    def embed_images(self, pixels: Tensor) -> Tensor:
        tokens = self.head["ln"](self.head["blocks"](self.network(pixels).last_hidden_state))
        joined = torch.cat([tokens[:, 0], tokens[:, 5:].mean(1)], 1)
        return joined / joined.norm(dim=1, keepdim=True)

    @torch.no_grad()
    def embed_texts(self, texts: list[str]) -> Tensor:
        values = self.text(SimpleTokenizer(context_length=CONTEXT)(texts))
        return values / values.norm(dim=1, keepdim=True)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


@pytest.fixture(scope="module")
def settings(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("release")
    torch.save(reference.backbone_state(), folder / "backbone.pth")
    torch.save(reference.heads_state(), folder / "heads.pth")
    return {
        "arch": ARCH,
        "weights": {"source": "file", "path": folder / "backbone.pth", "match": "name"},
        "text_weights": {"source": "file", "path": folder / "heads.pth", "match": "name"},
        "input_size": SIZE,
        "template": "{}",
    }


@pytest.fixture(scope="module")
def scorer(settings: dict[str, Any]) -> DualEncoder:
    return load(**settings)


@pytest.fixture
def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(5)]


def changed(
    settings: dict[str, Any], key: str, folder: Path, change: Callable[[State], object]
) -> dict[str, Any]:
    """The settings with one of the two files rewritten."""
    state = torch.load(settings[key]["path"], weights_only=True)
    change(state)
    torch.save(state, folder / "changed.pth")
    return settings | {key: {"source": "file", "path": folder / "changed.pth"}}


def test_embeddings_are_those_of_the_libraries_that_built_the_same_modules(
    scorer: DualEncoder, reference: Reference, images: list[Image.Image]
) -> None:
    expected = reference.embed_images(torch.stack([scorer.transform(image) for image in images])).numpy()
    got = scorer.embed_images(images, **LOADER)
    assert got.dtype == np.float32 and got.shape == (5, 2 * WIDTH)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert np.abs(expected - expected[0]).max(axis=1)[1:].min() > 1e-3
    texts = ["a red boat", "dog", ""]
    expected = reference.embed_texts(texts).numpy()
    np.testing.assert_allclose(scorer.embed_texts(texts), expected, atol=1e-5)
    assert np.abs(expected[:, None] - expected[None]).max(axis=2)[~np.eye(3, dtype=bool)].min() > 1e-2


def test_rows_have_length_one_and_a_text_is_the_same_in_any_batch(scorer: DualEncoder) -> None:
    texts = [f"a boat with {n} sails and a flag" for n in range(7)]
    whole = scorer.embed_texts(texts)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(scorer.embed_texts(texts, batch_size=2), whole, atol=1e-6)
    np.testing.assert_allclose(scorer.embed_texts(texts[::-1])[::-1], whole, atol=1e-6)
    assert scorer.embed_texts([]).shape == (0, 2 * WIDTH)


def test_the_template_holds_the_text(settings: dict[str, Any], scorer: DualEncoder) -> None:
    framed = load(**settings | {"template": "a photo of a {}."}).embed_texts(["dog"])
    np.testing.assert_allclose(framed, scorer.embed_texts(["a photo of a dog."]), atol=1e-6)


def test_padding_counts_for_nothing_and_a_long_text_ends_at_the_context(scorer: DualEncoder) -> None:
    first = " ".join(["boat"] * (CONTEXT - 2))
    short, fits, long, longer = scorer.embed_texts(["dog", first, f"{first} dog", f"{first} cat cat"])
    np.testing.assert_allclose(short, scorer.embed_texts(["dog"])[0], atol=1e-6)
    np.testing.assert_allclose(long, fits, atol=1e-6)
    np.testing.assert_allclose(longer, fits, atol=1e-6)


def test_an_image_is_resized_to_eight_sevenths_cropped_at_its_centre_and_normalised() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    expected = (pixels[8:120, 24:136] / 255 - MEAN) / STD
    got = transform(112)(Image.fromarray(pixels))
    np.testing.assert_allclose(got.numpy().transpose(1, 2, 0), expected, atol=1e-5)
    tall = transform(224)(Image.new("RGB", (40, 90), "white")).numpy()
    np.testing.assert_allclose(
        tall, np.broadcast_to(((1 - MEAN) / STD)[:, None, None], (3, 224, 224)), atol=1e-5
    )


def test_the_files_rounded_periods_are_used_and_those_of_another_base_refused(
    settings: dict[str, Any], scorer: DualEncoder, images: list[Image.Image], tmp_path: Path
) -> None:
    def rounded(state: State) -> None:
        state["rope_embed.periods"] = state["rope_embed.periods"].bfloat16()

    other: Any = load(**changed(settings, "weights", tmp_path, rounded))
    periods = other.model.network.rope.periods
    assert torch.equal(periods, periods.bfloat16().float())
    difference = other.embed_images(images, **LOADER) - scorer.embed_images(images, **LOADER)
    assert 1e-6 < np.abs(difference).max() < 0.05
    wrong = changed(settings, "weights", tmp_path, lambda state: state["rope_embed.periods"].mul_(1.1))
    with pytest.raises(AssayError, match=r"changed\.pth: rope_embed\.periods are not the rotary periods"):
        load(**wrong)


def test_masked_biases_count_for_nothing(
    settings: dict[str, Any], reference: Reference, images: list[Image.Image], tmp_path: Path
) -> None:
    def masked(state: State) -> None:
        for name in [name for name in state if name.endswith("bias_mask")]:
            state[name].zero_()

    def absent(state: State) -> None:
        for name in [name for name in state if ".qkv.bias" in name]:
            del state[name]

    zeroed = load(**changed(settings, "weights", tmp_path, masked)).embed_images(images, **LOADER)
    without = load(**changed(settings, "weights", tmp_path, absent)).embed_images(images, **LOADER)
    np.testing.assert_allclose(zeroed, without, atol=1e-6)
    assert np.abs(zeroed - load(**settings).embed_images(images, **LOADER)).max() > 1e-3


def test_a_bias_of_the_keys_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    wrong = changed(settings, "weights", tmp_path, lambda s: s["blocks.3.attn.qkv.bias_mask"].fill_(1))
    with pytest.raises(AssayError, match=r"blocks\.3\.attn\.qkv\.bias has a bias of the keys"):
        load(**wrong)


HEAD, TEXT = "visual_model.head.blocks.1", "text_model.backbone.blocks.1"


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("weights", lambda s: s.pop("storage_tokens"), "missing: storage_tokens"),
        ("weights", lambda s: s.pop("blocks.11.ls2.gamma"), r"missing: blocks\.11\.ls2\.gamma"),
        ("weights", lambda s: s.pop("rope_embed.periods"), r"no tensor rope_embed\.periods"),
        ("weights", lambda s: s.update(more=torch.ones(1)), "unknown: more"),
        ("weights", lambda s: s.update(cls_token=torch.ones(1, 1, 5)), "of another shape: cls_token"),
        ("weights", lambda s: [s.pop(n) for n in list(s) if "blocks.7" in n], r"blocks\.7.*all\)"),
        ("text_weights", lambda s: s.pop("logit_scale"), "missing: logit_scale"),
        ("text_weights", lambda s: s.pop(f"{HEAD}.mlp.w2.bias"), rf"missing: {HEAD}\.mlp\.w2\.bias"),
        ("text_weights", lambda s: s.pop(f"{TEXT}.ffn_norm.bias"), rf"missing: {TEXT}\.ffn_norm\.bias"),
        ("text_weights", lambda s: s.update({f"{HEAD}.attn.qkv.bias": torch.ones(9)}), "unknown: .*qkv.bias"),
        ("text_weights", lambda s: s.pop("text_model.backbone.positional_embedding"), "no tensor text_model"),
        (
            "text_weights",
            lambda s: s.update({f"{TEXT}.feed_forward.fc2.weight": torch.ones(TEXT_WIDTH, 9)}),
            rf"of another shape: {TEXT}\.feed_forward\.fc2\.weight",
        ),
        (
            "text_weights",
            lambda s: s.update({"text_model.head.linear_projection.weight": torch.ones(WIDTH, TEXT_WIDTH)}),
            rf"texts have {WIDTH} dimensions; .* of width {WIDTH} needs {WIDTH} and {2 * WIDTH}",
        ),
        (
            "text_weights",
            lambda s: s.update({"text_model.backbone.token_embedding.weight": torch.ones(9, TEXT_WIDTH)}),
            "knows 9 tokens, and CLIP's byte-pair vocabulary has 49408",
        ),
        (
            "text_weights",
            lambda s: s.update({"text_model.backbone.token_embedding.weight": torch.ones(9, 100)}),
            "a width of 100 is no multiple of 64",
        ),
    ],
)
def test_tensors_that_are_not_the_models_are_named(
    key: str, change: Callable[[State], object], message: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(AssayError, match=message) as caught:
        load(**changed(settings, key, tmp_path, change))
    assert "changed.pth" in str(caught.value) or "text_weights" in str(caught.value)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"arch": "vit_tiny_patch16_224"}, r"scorer\.arch='vit_tiny_patch16_224'.*nearest.*dinov3"),
        ({"arch": "vit_small_patch16_dinov3"}, "of another shape: blocks.0.attn"),
        ({"input_size": 40}, r"scorer\.input_size=40 is not a multiple of 16"),
        ({"template": "a photo"}, "no {} where the text goes"),
        ({"weights": {"source": "random", "seed": 0}}, r"scorer\.weights: .*source: file"),
        ({"text_weights": {"source": "file", "path": "no.pth"}}, r"scorer\.text_weights: .*no\.pth is not a"),
        (
            {"text_weights": {"source": "file", "path": "no.pth", "match": "order"}},
            r"scorer\.text_weights: .*matched by name",
        ),
    ],
)
def test_settings_that_cannot_be_met_are_named(
    other: dict[str, Any], message: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(AssayError, match=message):
        load(**settings | other)


def test_swapped_files_say_which_is_which(settings: dict[str, Any]) -> None:
    swapped = {"weights": settings["text_weights"], "text_weights": settings["weights"]}
    with pytest.raises(
        AssayError, match=r"heads\.pth: no tensor rope_embed.*scorer\.weights is the released"
    ):
        load(**settings | swapped)


def test_loading_leaves_the_global_random_state_alone(settings: dict[str, Any]) -> None:
    before = torch.random.get_rng_state()
    load(**settings)
    assert torch.equal(torch.random.get_rng_state(), before)
