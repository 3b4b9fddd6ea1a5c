import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.vqa.shape_scenes import (
    COLOURS,
    EMPTY,
    GROUND,
    SHAPES,
    Scenes,
    images,
    object_masks,
    scenes,
    split_of,
)

SIZES = [48, 64, 100]


def one_object(code, cell=5, size=64):
    cells = np.full((1, 16), EMPTY)
    cells[0, cell] = code
    return Scenes(cells, np.zeros(1, np.int64), 0, "train", size)


@pytest.mark.parametrize("size", SIZES)
def test_masks_hold_exactly_the_pixels_that_are_not_ground(size):
    drawn = scenes(40, seed=1, split="train", size=size, most=16)
    painted = (images(drawn, noise=0) != GROUND).any(axis=3)
    masks = object_masks(drawn)
    assert masks.dtype == bool
    assert (masks.any(axis=1) == painted).all()
    assert masks.sum(axis=1).max() == 1


def test_an_objects_mask_is_the_difference_that_the_object_makes():
    drawn = scenes(10, seed=2, split="test", most=6)
    whole, masks = images(drawn, noise=0), object_masks(drawn)
    for i, cell in np.argwhere(drawn.cells != EMPTY):
        cells = drawn.cells.copy()
        cells[i, cell] = EMPTY
        without = images(Scenes(cells, drawn.indices, 2, "test", 64), noise=0)
        assert ((whole[i] != without[i]).any(axis=2) == masks[i, cell]).all()


@pytest.mark.parametrize("size", SIZES)
def test_every_object_stays_inside_its_cell_and_empty_cells_are_ground(size):
    drawn = scenes(30, seed=3, split="train", size=size)
    side = size // 4
    pixels = images(drawn, noise=0)
    for i in range(30):
        for cell in range(16):
            row, column = divmod(cell, 4)
            patch = pixels[i, row * side : (row + 1) * side, column * side : (column + 1) * side]
            assert (patch != GROUND).any() == (drawn.cells[i, cell] != EMPTY)
            assert (patch[[0, -1]] == GROUND).all()
            assert (patch[:, [0, -1]] == GROUND).all()


def test_a_label_tells_colour_and_shape_of_the_pixels_in_its_cell():
    rgb = {}
    outline = {}
    for code in range(16):
        scene = one_object(code)
        mask = object_masks(scene)[0, 5]
        colours = {tuple(pixel) for pixel in images(scene, noise=0)[0][mask].tolist()}
        assert len(colours) == 1
        rgb.setdefault(COLOURS[code // 4], set()).update(colours)
        outline.setdefault(SHAPES[code % 4], set()).add(mask.tobytes())
    assert all(len(found) == 1 for found in (*rgb.values(), *outline.values()))
    assert len(set.union(*outline.values())) == 4
    (red,), (green,), (blue,), (yellow,) = (rgb[name] for name in COLOURS)
    assert red[0] > 2 * max(red[1:])
    assert green[1] > 2 * max(green[0], green[2])
    assert blue[2] > 1.5 * max(blue[:2])
    assert min(yellow[:2]) > 2 * yellow[2]


def test_shapes_have_the_area_and_symmetry_of_their_names():
    masks = {
        shape: object_masks(one_object(i, size=400))[0, 5][100:200, 100:200] for i, shape in enumerate(SHAPES)
    }
    area = {shape: mask.sum() / 39**2 for shape, mask in masks.items()}
    assert area["circle"] == pytest.approx(np.pi * 0.98**2, rel=0.01)
    assert area["square"] == pytest.approx(2 * 1.24**2, rel=0.03)
    assert area["triangle"] == pytest.approx(3 * np.sqrt(3) / 4 * 1.28**2, rel=0.03)
    for shape in ("circle", "square", "cross"):
        assert (masks[shape] != np.rot90(masks[shape])).mean() < 0.01
    assert (masks["triangle"] != masks["triangle"][::-1]).mean() > 0.05


def test_noise_has_the_deviation_asked_for_and_is_grey():
    drawn = scenes(20, seed=4, split="train")
    ground = ~object_masks(drawn).any(axis=1)
    noisy = images(drawn, noise=8).astype(int) - GROUND
    assert noisy[ground].std() == pytest.approx(8, rel=0.02)
    assert abs(noisy[ground].mean()) < 0.1
    assert (noisy[ground] == noisy[ground][:, :1]).all()


def test_equal_arguments_give_equal_scenes_and_the_batch_plays_no_part():
    whole = scenes(30, seed=5, split="train", first=10)
    part = scenes(4, seed=5, split="train", first=22)
    assert (whole.cells[12:16] == part.cells).all()
    assert (images(whole)[12:16] == images(part)).all()
    assert (scenes(30, seed=6, split="train", first=10).cells != whole.cells).any()


def test_numbers_of_objects_lie_between_fewest_and_most_and_take_all_values():
    held = (scenes(300, seed=7, split="train", fewest=2, most=5).cells != EMPTY).sum(axis=1)
    assert set(held.tolist()) == {2, 3, 4, 5}


def test_objects_and_cells_are_uniform():
    cells = scenes(4000, seed=8, split="train").cells
    objects = np.bincount(cells[cells != EMPTY], minlength=16)
    places = (cells != EMPTY).sum(axis=0)
    for counts in (objects, places):
        expected = counts.sum() / 16
        assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-squared, 15 degrees, p = .001


@pytest.mark.parametrize("seeds", [(0, 0), (1, 2)])
@pytest.mark.parametrize("most", [1, 4])
def test_train_and_test_share_no_layout_whatever_the_seeds(seeds, most):
    train = scenes(1500, seed=seeds[0], split="train", most=most).cells
    test = scenes(1500, seed=seeds[1], split="test", most=most).cells
    assert not {row.tobytes() for row in train} & {row.tobytes() for row in test}
    assert {split_of(row) for row in train} == {"train"}
    assert {split_of(row) for row in test} == {"test"}


def test_a_fifth_of_all_layouts_is_test():
    singles = [one_object(code, cell).cells[0] for code in range(16) for cell in range(16)]
    rng = np.random.default_rng(0)
    pairs = [rng.permutation(np.r_[rng.integers(16, size=2), np.full(14, EMPTY)]) for _ in range(2000)]
    for layouts in (singles, pairs):
        share = np.mean([split_of(layout) == "test" for layout in layouts])
        assert abs(share - 51 / 256) < 4 * np.sqrt(0.16 / len(layouts))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 66}, "size=66 is not a multiple of 4"),
        ({"size": 16}, "size=16 is not"),
        ({"split": "validation"}, "split='validation' is neither"),
        ({"fewest": 0}, "fewest=0, most=4 are not"),
        ({"fewest": 3, "most": 2}, "fewest=3, most=2 are not"),
        ({"most": 17}, "fewest=1, most=17 are not"),
    ],
)
def test_settings_that_no_scene_has_are_named(settings, message):
    with pytest.raises(AssayError, match=message):
        scenes(1, **{"seed": 0, "split": "train", **settings})
    with pytest.raises(AssayError, match="noise=-1 is no standard deviation"):
        images(scenes(1, seed=0, split="train"), noise=-1)


def test_no_scene_is_no_pixel():
    empty = scenes(0, seed=0, split="train")
    assert images(empty).shape == (0, 64, 64, 3)
    assert object_masks(empty).shape == (0, 16, 64, 64)
