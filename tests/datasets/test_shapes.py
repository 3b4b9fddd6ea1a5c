import io
import time
import zipfile

import numpy as np
import pytest

from pipeline.datasets import shapes
from pipeline.datasets.drawing import render
from pipeline.datasets.reading import ImageReader
from pipeline.datasets.scene import FACTORS, Scene, captions, nuisance_of, scene_of, sentence

SCENE = Scene("star", "red", "small", "striped", "left", "two", "grass background")


def members(folder):
    with zipfile.ZipFile(folder / "images.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_equal_settings_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        shapes.images(tmp_path / name, n_images=4, size=24, seed=7)
    assert (tmp_path / "a/images.zip").read_bytes() == (tmp_path / "b/images.zip").read_bytes()


def test_more_images_never_change_earlier_ones(tmp_path):
    few = shapes.images(tmp_path / "few", n_images=3, size=24, seed=0).table
    many = shapes.images(tmp_path / "many", n_images=6, size=24, seed=0).table
    assert many.head(3).equals(few)
    few_labels = shapes.labels(few, tmp_path / "few", seed=0)
    many_labels = shapes.labels(many, tmp_path / "many", seed=0)
    assert many_labels.captions.head(6).equals(few_labels.captions)


def test_another_seed_gives_other_images(tmp_path):
    tables = [shapes.images(tmp_path / str(seed), n_images=3, size=24, seed=seed).table for seed in (0, 1)]
    assert not set(tables[0]["checksum"]) & set(tables[1]["checksum"])


def test_the_archive_is_uncompressed_and_the_manifest_describes_it(tmp_path):
    table = shapes.images(tmp_path, n_images=3, size=24, seed=0).table
    with zipfile.ZipFile(tmp_path / "images.zip") as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    assert table["member"].tolist() == ["000000.png", "000001.png", "000002.png"]
    assert table["image_id"].tolist() == ["000000", "000001", "000002"]
    assert set(table["source"]) == {"result"}
    assert set(table["width"]) == set(table["height"]) == {24}
    assert set(table["split"]) == {""}
    reader = ImageReader(table, None, tmp_path)
    assert reader[2].tobytes() == render(scene_of(0, 2), nuisance_of(0, 2, 24), 24).tobytes()


def test_each_image_has_exactly_one_value_of_every_factor(tmp_path):
    table = shapes.images(tmp_path, n_images=60, size=16, seed=0).table
    labels = shapes.labels(table, tmp_path, seed=0, min_count=0)
    assert labels.table["name"].tolist() == [value for values in FACTORS.values() for value in values]
    assert labels.table["name"].is_unique
    for factor in FACTORS:
        assert (labels.attributes[:, labels.table["family"] == factor].sum(axis=1) == 1).all()
    assert labels.table["count"].tolist() == labels.attributes.sum(axis=0).tolist()
    at = {name: i for i, name in enumerate(labels.table["name"])}
    for i in range(60):
        assert all(labels.attributes[i, at[value]] for value in scene_of(0, i).values().values())


def test_factors_are_uniform_and_independent():
    scenes = [scene_of(0, i).values() for i in range(3000)]
    for factor, values in FACTORS.items():
        for value in values:
            share = np.mean([scene[factor] == value for scene in scenes])
            assert abs(share - 1 / len(values)) < 0.04
    red = np.array([scene["colour"] == "red" for scene in scenes])
    star = np.array([scene["shape"] == "star" for scene in scenes])
    assert abs(np.corrcoef(red, star)[0, 1]) < 0.06


def test_a_sentence_tells_what_it_is_asked_to_tell():
    assert (
        sentence(SCENE, frozenset(FACTORS)) == "two small striped red stars on the left on a grass background"
    )
    assert sentence(SCENE, frozenset({"colour"})) == "some red shapes"
    one = SCENE.changed("count", "one")
    assert sentence(one.changed("colour", "orange"), frozenset({"colour", "shape"})) == "an orange star"
    assert sentence(one, frozenset({"count", "position"})) == "one shape on the left"
    assert sentence(SCENE.changed("shape", "cross"), frozenset({"shape"})) == "some crosses"


def test_the_first_caption_names_every_factor_and_the_second_nothing_false():
    words = {value for values in FACTORS.values() for value in values}
    for i in range(200):
        scene = scene_of(3, i)
        whole, part = captions(3, i, scene)
        true = set(scene.values().values())
        assert all(word in whole for word in true)
        assert not [word for word in words - true if f" {word} " in f" {part} " and word != "one"]


def test_captions_vary():
    assert len({captions(0, i, SCENE) for i in range(50)}) > 25


@pytest.mark.parametrize(("factor", "value"), [(f, v) for f, values in FACTORS.items() for v in values])
def test_every_value_of_every_factor_shows(factor, value):
    nuisance = nuisance_of(0, 0, 48)
    other = next(v for v in FACTORS[factor] if v != value)
    a, b = (np.asarray(render(SCENE.changed(factor, v), nuisance, 48)).astype(int) for v in (value, other))
    assert (np.abs(a - b).max(axis=2) > 24).sum() >= 12


@pytest.mark.parametrize("size", [16, 33, 224])
def test_every_size_renders(size):
    assert render(SCENE, nuisance_of(0, 0, size), size).size == (size, size)


@pytest.mark.parametrize("position", FACTORS["position"])
@pytest.mark.parametrize("count", FACTORS["count"])
def test_shapes_lie_where_the_position_says_and_inside_the_image(position, count):
    scene = SCENE.changed("position", position).changed("count", count).changed("size", "large")
    for i in range(10):
        nuisance = nuisance_of(0, i, 96)
        dark = scene.changed("background", "dark background").changed("texture", "plain")
        drawn = np.asarray(render(dark, nuisance, 96)).astype(int)
        y, x = np.nonzero(drawn[..., 0] - drawn[..., 2] > 90)
        middle = {
            "left": 48 - x.mean(),
            "right": x.mean() - 48,
            "top": 48 - y.mean(),
            "bottom": y.mean() - 48,
        }
        assert middle[position] > 15
        assert max(middle, key=middle.get) == position
        assert min(x.min(), y.min()) >= 1
        assert max(x.max(), y.max()) <= 94


def test_the_same_scene_looks_different_each_time():
    drawn = [render(SCENE, nuisance_of(0, i, 48), 48).tobytes() for i in range(5)]
    assert len(set(drawn)) == 5


def test_a_pair_differs_in_exactly_one_factor_and_in_pixels():
    pairs = shapes.pairs(28, size=48, seed=0)
    assert pairs.before.shape == pairs.after.shape == (28, 48, 48, 3)
    families = np.array([factor for factor, _ in shapes.ATTRIBUTES])
    names = np.array([name for _, name in shapes.ATTRIBUTES])
    for i, row in enumerate(pairs.table.itertuples()):
        changed = pairs.before_attributes[i] != pairs.after_attributes[i]
        assert set(families[changed]) == {row.factor}
        assert changed.sum() == 2
        assert pairs.before_attributes[i, names == row.old] == 1
        assert pairs.after_attributes[i, names == row.new] == 1
        assert (pairs.before[i] != pairs.after[i]).any()
    assert pairs.table["factor"].value_counts().tolist() == [4] * len(FACTORS)


def test_a_changed_colour_leaves_the_rest_of_the_picture_as_it_is():
    pairs = shapes.pairs(14, size=48, seed=1)
    for i in np.flatnonzero(pairs.table["factor"] == "colour"):
        same = (pairs.before[i] == pairs.after[i]).all(axis=2)
        assert 0.5 < same.mean() < 1


def test_more_pairs_never_change_earlier_ones():
    few, many = shapes.pairs(3, size=24, seed=0), shapes.pairs(5, size=24, seed=0)
    assert (many.after[:3] == few.after).all()
    assert many.table.head(3).equals(few.table)


def test_no_pairs_is_an_empty_table():
    assert shapes.pairs(0, size=24, seed=0).before_attributes.shape == (0, len(shapes.ATTRIBUTES))


def test_rendering_takes_milliseconds():
    nuisance = nuisance_of(0, 0, 96)
    start = time.process_time()
    for _ in range(20):
        render(SCENE, nuisance, 96).save(io.BytesIO(), "PNG", compress_level=1)
    assert (time.process_time() - start) / 20 < 0.03


def test_the_scene_of_an_image_is_pinned():
    assert scene_of(0, 0) == Scene(
        "triangle", "purple", "small", "checkered", "bottom", "three", "dark background"
    )
