from collections import Counter

import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.vqa.registry import NAMES, vqa_dataset
from pipeline.vqa.sample import VqaSample, is_correct, select


def samples(categories):
    return [
        VqaSample(f"s{i:03d}", "is it ?", "yes", category, lambda: Image.new("RGB", (4, 4)))
        for i, category in enumerate(categories)
    ]


ALL = samples(["a"] * 60 + ["b"] * 30 + ["c"] * 10)


def ids(chosen):
    return [sample.sample_id for sample in chosen]


def test_a_selection_has_every_category_in_proportion_and_keeps_the_order():
    chosen = select(ALL, 20, seed=3)
    assert Counter(sample.category for sample in chosen) == {"a": 12, "b": 6, "c": 2}
    assert ids(chosen) == sorted(ids(chosen))


@pytest.mark.parametrize("n", [*range(1, 101)])
def test_a_selection_has_exactly_n_samples(n):
    assert len(select(ALL, n, seed=0)) == n


def test_the_seed_decides_and_the_order_of_the_samples_does_not():
    assert ids(select(ALL, 20, seed=3)) != ids(select(ALL, 20, seed=4))
    assert set(ids(select(ALL, 20, seed=3))) == set(ids(select(ALL[::-1], 20, seed=3)))


def test_none_keeps_all_and_an_impossible_number_is_refused():
    assert select(ALL, None, seed=0) == ALL
    for n in (0, 101):
        with pytest.raises(AssayError, match=rf"{n} samples are asked for and there are 100"):
            select(ALL, n, seed=0)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("yes", "Yes, there is.", True),
        ("yes", "no", False),
        ("no", " No.", True),
        ("C", "(C) a dog", True),
        ("C", "C.", True),
        ("C", "c", True),
        ("C", "Cat", False),
        ("A", "", False),
        ("A", "() A", True),
        ("no", "?!", False),
    ],
)
def test_the_first_word_of_a_text_is_the_answer(answer, text, expected):
    assert is_correct(answer, text) is expected


def test_every_dataset_has_a_reader_and_an_unknown_one_names_the_nearest():
    assert all(callable(vqa_dataset(name).read) for name in NAMES)
    with pytest.raises(AssayError, match="nearest: 'cv_bench'"):
        vqa_dataset("cvbench")
