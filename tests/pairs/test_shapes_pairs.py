import hashlib

import numpy as np
import pytest

from pipeline.datasets import shapes as dataset
from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError
from pipeline.pairs.shapes import VOCABULARY, pairs

FACTOR = {value: factor for factor, value in dataset.ATTRIBUTES}


def made(folder, n_pairs=14, attributes=VOCABULARY, seed=0, size=32):
    return pairs(folder, attributes=list(attributes), n_pairs=n_pairs, size=size, seed=seed)


def test_each_pair_swaps_one_value_of_one_factor_for_another(tmp_path):
    found = made(tmp_path)
    assert len(found.table) == 14 and len(found.skipped) == 0
    for row in found.table.itertuples():
        assert FACTOR[row.added_name] == FACTOR[row.removed_name] == row.family
        assert VOCABULARY[row.added] == row.added_name and VOCABULARY[row.removed] == row.removed_name
        present = found.present[row.Index]
        assert present[row.removed] == 1 and present[row.added] == 0
        assert present.sum() == 7  # one value of each factor
    assert found.table["family"].value_counts().to_dict() == dict.fromkeys(set(FACTOR.values()), 2)


def test_the_images_of_a_pair_are_read_back_and_differ_in_part_of_the_picture(tmp_path):
    found = made(tmp_path, n_pairs=7)
    reader = ImageReader(found.manifest.table, None, tmp_path)
    for row in found.table.itertuples():
        before, after = (np.asarray(reader[i]).astype(int) for i in (row.before, row.after))
        changed = np.abs(before - after).max(axis=2) > 0
        assert before.shape == (32, 32, 3)
        assert changed.any()
        if row.family not in ("background", "position"):
            assert changed.mean() < 0.9


def test_equal_arguments_give_equal_bytes_and_more_pairs_change_none_of_the_earlier(tmp_path):
    first, again = made(tmp_path / "a"), made(tmp_path / "b")
    assert (tmp_path / "a/images.zip").read_bytes() == (tmp_path / "b/images.zip").read_bytes()
    assert first.table.equals(again.table)
    longer = made(tmp_path / "c", n_pairs=20)
    assert longer.manifest.table["checksum"][:28].tolist() == first.manifest.table["checksum"].tolist()
    assert made(tmp_path / "d", seed=1).table.values.tolist() != first.table.values.tolist()


def test_no_image_of_a_pair_is_one_of_the_dataset_even_with_its_seed(tmp_path):
    table = dataset.images(tmp_path / "images", n_images=14, size=32, seed=0).table
    found = made(tmp_path / "pairs", seed=0)
    assert not set(table["checksum"]) & set(found.manifest.table["checksum"])
    rendered = dataset.pairs(14, size=32, seed=0)
    raw = {hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in rendered.before}
    reader = ImageReader(found.manifest.table, None, tmp_path / "pairs")
    ours = {hashlib.sha256(np.asarray(reader[i]).tobytes()).hexdigest() for i in range(len(reader))}
    assert not raw & ours  # streams of their own, not those of the dataset's seed


def test_a_value_that_the_dataset_left_out_skips_its_pairs_with_a_count(tmp_path):
    whole = made(tmp_path / "a", n_pairs=70)
    swapped = whole.table.query("added_name == 'star' or removed_name == 'star'")
    kept = [name for name in VOCABULARY if name != "star"]
    found = made(tmp_path / "b", n_pairs=70, attributes=kept)
    assert len(swapped) > 0 and len(found.table) == 70 - len(swapped)
    assert found.skipped["pair_id"].tolist() == swapped["pair_id"].tolist()
    assert set(found.skipped["reason"]) == {"attribute that the dataset left out"}
    assert f"left out, attribute that the dataset left out: {len(swapped)}" in found.notes[0]
    assert found.present.shape == (len(found.table), len(kept))
    assert len(found.manifest.table) == 2 * len(found.table)


def test_a_dataset_without_any_of_the_attributes_is_an_error_with_the_count(tmp_path):
    with pytest.raises(AssayError, match=r"none of 7 pairs can be used.*dataset left out: 7"):
        made(tmp_path, n_pairs=7, attributes=["dog"])
