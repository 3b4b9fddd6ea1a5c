import pytest
import torch
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.capture import capture, check_layers, pooled


def pool(tensor: object, how: str, prefix: int = 0, **rest: bool) -> Tensor:
    return pooled(tensor, layer="here", pool=how, n_prefix_tokens=prefix, **rest)


def test_a_map_is_reduced_over_height_and_width_in_either_layout() -> None:
    x = torch.randn(2, 6, 4, 4)
    for layout in (x, x.permute(0, 2, 3, 1)):
        torch.testing.assert_close(
            pool(layout, "avg"), torch.stack([x[..., i, j] for i in range(4) for j in range(4)]).mean(0)
        )
        assert torch.equal(pool(layout, "max"), x.flatten(2).max(2).values)


def test_a_cubic_map_takes_its_channel_axis_from_the_model() -> None:
    x = torch.randn(2, 4, 4, 4)
    torch.testing.assert_close(pool(x, "avg", channels_first=True), x.mean((2, 3)))
    torch.testing.assert_close(pool(x, "avg", channels_first=False), x.mean((1, 2)))


def test_tokens_are_reduced_after_the_prefix_and_cls_is_the_first() -> None:
    x = torch.randn(2, 7, 5)
    torch.testing.assert_close(pool(x, "avg", 2), x[:, 2:].mean(1))
    assert torch.equal(pool(x, "max", 1), x[:, 1:].max(1).values)
    assert torch.equal(pool(x, "cls", 1), x[:, 0])


def test_two_axes_are_kept_under_every_pool_and_none_flattens() -> None:
    x = torch.randn(3, 5)
    assert all(torch.equal(pool(x, how), x) for how in ("avg", "max", "cls", "none"))
    y = torch.randn(2, 3, 4)
    assert torch.equal(pool(y, "none"), y.reshape(2, 12))


def test_a_tuple_counts_as_its_first_tensor_and_lower_precision_becomes_float32() -> None:
    x = torch.randn(2, 7, 5, dtype=torch.bfloat16)
    out = pool((x, None), "avg")
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, x.float().mean(1))


@pytest.mark.parametrize(
    ("shape", "how", "prefix", "said"),
    [
        ((2, 6, 4, 4), "cls", 1, "use model.pool=avg or max"),
        ((2, 7, 5), "cls", 0, "no class token"),
        ((2, 1, 5), "avg", 1, "use model.pool=cls"),
        ((2, 3, 4, 4, 4), "avg", 0, "use model.pool=none"),
    ],
)
def test_a_pool_that_does_not_fit_names_layer_shape_and_fix(
    shape: tuple[int, ...], how: str, prefix: int, said: str
) -> None:
    with pytest.raises(AssayError) as caught:
        pool(torch.zeros(shape), how, prefix)
    message = str(caught.value)
    assert "layer=here" in message and f"model.pool={how}" in message and said in message
    assert f"(images, {', '.join(map(str, shape[1:]))})" in message


@pytest.mark.parametrize("output", [None, {"a": torch.zeros(2, 3)}, torch.zeros(3), ()])
def test_an_output_that_is_no_batch_of_vectors_is_refused(output: object) -> None:
    with pytest.raises(AssayError, match="choose another layer"):
        pool(output, "avg")


class Toy(nn.Module):
    """A module used twice, one never used, an in-place activation, and a costly end."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.end = nn.Conv2d(4, 2, 1)
        self.unused = nn.Linear(1, 1)
        self.ends = 0

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(x)))
        x = self.relu(x - 1)
        self.ends += 1
        return self.end(x)


def test_captured_values_are_those_of_a_plain_forward_pass() -> None:
    toy, plain = Toy().eval(), Toy().eval()
    plain.load_state_dict(toy.state_dict())
    with torch.inference_mode(), capture(toy, ["norm", "relu", "end"], "avg") as forward:
        for _ in range(3):
            x = torch.randn(2, 3, 5, 5)
            got = forward(x)
            norm = plain.norm(plain.conv(x))
            last = (norm.relu() - 1).relu()
            torch.testing.assert_close(got["norm"], norm.mean((2, 3)))  # before the in-place ReLU
            torch.testing.assert_close(got["relu"], last.mean((2, 3)))  # the second use
            torch.testing.assert_close(got["end"], plain.end(last).mean((2, 3)))


def test_later_passes_stop_after_the_last_layer_needed_and_hooks_go_away() -> None:
    toy = Toy().eval()
    with torch.inference_mode(), capture(toy, ["relu"], "max") as forward:
        for _ in range(4):
            forward(torch.randn(2, 3, 5, 5))
    assert toy.ends == 1
    toy(torch.randn(2, 3, 5, 5))
    assert toy.ends == 2


def test_a_layer_that_never_runs_is_named() -> None:
    with (
        capture(Toy().eval(), ["unused"], "avg") as forward,
        pytest.raises(AssayError, match="layer=unused"),
    ):
        forward(torch.randn(1, 3, 5, 5))


def test_an_unknown_layer_lists_the_nearest_names() -> None:
    with pytest.raises(AssayError) as caught:
        check_layers(Toy(), ["conv", "nrom"])
    assert "'nrom'" in str(caught.value) and "norm" in str(caught.value)
    with pytest.raises(AssayError, match=r"nearest: .*end"):
        check_layers(Toy(), ["?"])


def test_an_unknown_pool_is_refused_before_any_hook() -> None:
    toy = Toy()
    with pytest.raises(AssayError, match="avg, max, cls, none"), capture(toy, ["conv"], "mean"):
        pass
    assert not toy.conv._forward_hooks
