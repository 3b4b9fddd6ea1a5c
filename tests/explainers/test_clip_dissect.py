import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.explainers.clip_dissect import explain
from pipeline.explainers.similarities.cosines import Cosines
from pipeline.explainers.similarities.registry import NAMES, similarity

WORDS = ["nan", "dog", "cat", "sky", "sea", "car"]
ALL = pytest.mark.parametrize("name", NAMES)


def planted(n_images=400, n_units=4, n_words=6, seed=1):
    """Unit k is active where word k is true; the cosines are embeddings of images, words unit vectors."""
    rng = np.random.default_rng(seed)
    present = rng.random((n_images, n_words)) < 0.2
    values = 0.1 + 0.2 * present + 0.01 * rng.normal(size=present.shape)
    activations = present[:, :n_units] * (0.5 + values[:, :n_units]) + 0.005 * rng.random((n_images, n_units))
    return activations, values


def dissected(activations, values, words=WORDS, units=(0,), **settings):
    return explain(activations, values, np.eye(values.shape[1]), words, units, **settings)


def layer_scores(activations, values, name="soft_wpmi", **settings):
    cosines = Cosines(values, np.eye(values.shape[1]))
    blocks = similarity(name).scores(activations, cosines, range(activations.shape[1]), **settings)
    return np.concatenate([block.scores for block in blocks], axis=1)


class Codes:
    """Codes of an SAE: a shape and columns, nothing else."""

    def __init__(self, dense):
        self.dense = dense
        self.shape = dense.shape
        self.widest = 0

    def __getitem__(self, key):
        rows, columns = key
        assert rows == slice(None)
        found = self.dense[:, columns]
        self.widest = max(self.widest, found.shape[1])
        return found


@ALL
def test_a_unit_that_fires_for_a_word_is_given_that_word(name):
    result = dissected(*planted(), units=(3, 0, 2), similarity=name)
    assert list(result.table["unit"]) == [3, 0, 2]
    assert list(result.table["description"]) == ["sky", "nan", "cat"]
    assert set(result.table["method"]) == {"clip_dissect"}
    assert result.unexplained.empty and len(result.notes) == 0


@ALL
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_unit_that_is_a_concept_is_given_that_concept(name, dtype):
    _, values = planted()
    values = values.astype(dtype)
    result = dissected(values, values, units=range(6), similarity=name)
    assert list(result.table["description"]) == WORDS
    if name != "soft_wpmi" and name != "wpmi":
        best = 0 if name == "rank_reorder" else 1
        np.testing.assert_allclose(result.table["score"], best, atol=1e-6)


@ALL
def test_scores_are_those_of_the_whole_layer_whatever_is_selected(name):
    activations, values = planted()
    alone = dissected(activations, values, units=(1,), similarity=name).table["score"].item()
    assert alone == pytest.approx(layer_scores(activations, values, name)[1].max(), rel=1e-12)


@ALL
def test_codes_of_an_sae_give_what_the_dense_array_gives(name, monkeypatch):
    monkeypatch.setattr("pipeline.explainers.explanations.BLOCK_BYTES", 400 * 8 * 2)
    activations, values = planted(n_units=5)
    sparse = np.where(activations > 0.3, activations, 0).astype(np.float32)
    sparse[:, 4] = 0
    codes = Codes(sparse)
    found, expected = (dissected(a, values, units=range(5), similarity=name) for a in (codes, sparse))
    assert found.table.equals(expected.table) and found.unexplained.equals(expected.unexplained)
    assert found.unexplained.to_dict("records") == [{"unit": 4, "reason": "constant activation"}]
    assert codes.widest == 2


@ALL
def test_half_precision_activations_are_read_exactly(name):
    activations, values = planted()
    half = activations.astype(np.float16)
    found, expected = (
        dissected(a, values, units=range(4), similarity=name) for a in (half, half.astype(np.float64))
    )
    assert list(found.table["description"]) == list(expected.table["description"])
    np.testing.assert_allclose(found.table["score"], expected.table["score"], rtol=1e-6)


@ALL
def test_blocks_of_concepts_change_nothing(name, monkeypatch):
    activations, values = planted()
    whole = dissected(activations, values, units=range(4), similarity=name)
    monkeypatch.setattr("pipeline.explainers.similarities.cosines.BLOCK_BYTES", 1)
    monkeypatch.setattr("pipeline.explainers.similarities.cos_cubed.HELD_BYTES", 1)
    blocked = dissected(activations, values, units=range(4), similarity=name)
    assert list(blocked.table["description"]) == list(whole.table["description"])
    np.testing.assert_allclose(blocked.table["score"], whole.table["score"], rtol=1e-12)


@ALL
def test_of_equal_words_the_first_in_the_vocabulary_is_taken(name, monkeypatch):
    monkeypatch.setattr("pipeline.explainers.similarities.cosines.BLOCK_BYTES", 1)
    activations, values = planted()
    values[:, 4] = values[:, 1]
    assert dissected(activations, values, units=(1,), similarity=name).table["description"].item() == "dog"


@ALL
@pytest.mark.parametrize("n_words", [9, 67, 130])
def test_of_words_with_one_embedding_the_first_is_taken(name, n_words):
    settings = {"lam": 0.0} if "wpmi" in name else {}
    rng = np.random.default_rng(n_words)
    images, texts = (rng.normal(size=(n, 24)).astype(np.float32) for n in (300, n_words))
    texts[-1] = texts[2]
    images, texts = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, texts))
    words = [f"w{place}" for place in range(n_words)]
    result = explain(images @ texts[2:3].T, images, texts, words, (0,), similarity=name, **settings)
    assert result.table["description"].item() == "w2"


@ALL
def test_one_concept_and_one_unit(name):
    activations, values = planted(n_words=2, n_units=1)
    result = dissected(activations, values[:, :1], ["a"], similarity=name)
    assert result.table["description"].item() == "a" and np.isfinite(result.table["score"].item())


@ALL
def test_a_constant_unit_is_unexplained(name):
    activations, values = planted()
    activations[:, 2] = 0.5
    result = dissected(activations, values, units=(0, 2), similarity=name)
    assert result.unexplained.to_dict("records") == [{"unit": 2, "reason": "constant activation"}]
    assert list(result.table["unit"]) == [0]


@ALL
def test_a_layer_of_constant_units_is_unexplained_as_a_whole(name):
    result = dissected(np.zeros((400, 3)), planted()[1], units=(0, 1, 2), similarity=name)
    assert result.table.empty and len(result.unexplained) == 3
    assert dissected(planted()[0], planted()[1], units=(), similarity=name).table.empty


def test_a_constant_unit_counts_in_the_mean_over_the_layer():
    activations, values = planted()
    activations[:, 2] = 0.5
    score = dissected(activations, values, units=(0, 2), top=50).table["score"].item()
    assert score == layer_scores(activations, values, top=50)[0].max()
    assert score != layer_scores(activations[:, [0, 1, 3]], values, top=50)[0].max()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cos", 0.0, "every concept's cosines are 0 on all images"),
        ("cos_cubed", 0.3, "every concept's cosine is the same on all images"),
        ("rank_reorder", -0.1, "no concept has a positive mean cosine on them"),
    ],
)
def test_a_unit_that_no_concept_has_a_score_for_is_unexplained(name, value, reason):
    activations, values = planted()
    result = dissected(activations, np.full_like(values, value), units=(1, 0), similarity=name)
    assert result.table.empty and list(result.unexplained["unit"]) == [1, 0]
    assert result.unexplained["reason"].str.contains(reason, regex=False).all()


def test_top_images_of_one_activation_leave_rank_reorder_nothing_to_order():
    activations, values = planted()
    activations[:, 1] = np.arange(400) < 100
    result = dissected(activations, values, units=(0, 1), similarity="rank_reorder")
    assert list(result.table["unit"]) == [0] and list(result.unexplained["unit"]) == [1]
    wide = dissected(activations, values, units=(0, 1), similarity="rank_reorder", top=101)
    assert list(wide.table["unit"]) == [0, 1]


def test_settings_reach_the_similarity():
    activations, values = planted()
    settings = {"top": 7, "lam": 0.3, "temperature": 3.0}
    for name in ("soft_wpmi", "wpmi"):
        found = dissected(activations, values, units=(1,), similarity=name, **settings).table["score"].item()
        assert found == layer_scores(activations, values, name, **settings)[1].max()
    found = dissected(activations, values, units=(1,), similarity="rank_reorder", top=7, threads=2)
    assert found.table["score"].item() == layer_scores(activations, values, "rank_reorder", top=7)[1].max()


@pytest.mark.parametrize(
    ("name", "setting"), [("cos", "top"), ("rank_reorder", "lam"), ("cos_cubed", "temperature")]
)
def test_a_setting_that_the_similarity_lacks_stops(name, setting):
    with pytest.raises(AssayError, match=rf"explainer.{setting}=3, .*similarity={name} has no such setting"):
        dissected(*planted(), similarity=name, **{setting: 3})


def test_blanks_and_repeats_are_dropped_with_their_embeddings():
    """Six words at places 1, 2, 4, 5, 6 and 7: no label may shift."""
    activations, values = planted()
    lines = [" ", "nan", "dog", "nan", "cat", "sky", "sea", "car", "dog "]
    texts = np.full((9, 6), 0.4)
    texts[[1, 2, 4, 5, 6, 7]] = np.eye(6)
    found = explain(activations, values, texts, lines, (3, 1, 0), top=50)
    expected = dissected(activations, values, units=(3, 1, 0), top=50)
    assert found.table.equals(expected.table)
    assert found.notes == (
        "clip_dissect: 1 blank lines of the vocabulary were left out",
        "clip_dissect: 2 repeated words of the vocabulary were counted once",
    )


def test_a_hundred_thousand_words_with_repeats_shrink_with_their_embeddings():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(100_000, 4)).astype(np.float32)
    images = rng.normal(size=(30, 4)).astype(np.float32)
    words = [f"w{place % 99_000}" for place in range(100_000)]
    result = explain(images @ texts[98_765:98_766].T, images, texts, words, (0,), similarity="cos_cubed")
    assert result.table["description"].item() == "w98765"
    assert result.notes == ("clip_dissect: 1000 repeated words of the vocabulary were counted once",)


@pytest.mark.parametrize("name", ["soft_wpmi", "wpmi", "rank_reorder"])
def test_fewer_images_than_top_are_all_used_and_noted(name):
    result = dissected(*planted(n_images=30), similarity=name, top=100)
    assert result.notes == ("clip_dissect: 30 images are fewer than top=100, so all of them were used",)
    every = dissected(*planted(n_images=30), similarity=name, top=30)
    assert result.table.equals(every.table) and every.notes == ()


def test_the_default_top_is_noted_too():
    assert "28" in dissected(*planted(n_images=27), similarity="wpmi").notes[0]
    assert dissected(*planted(n_images=28), similarity="wpmi").notes == ()
    assert dissected(*planted(n_images=30), similarity="cos").notes == ()
    assert dissected(*planted(n_images=30), similarity="rank_reorder").unexplained.shape == (1, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_activation_that_is_not_finite_stops_with_unit_and_image(value):
    activations, values = planted()
    activations[7, 3] = value
    with pytest.raises(AssayError, match=r"unit 3 has activation .* on image 7"):
        dissected(activations, values)


def test_an_embedding_that_is_not_finite_stops_with_its_place():
    activations, values = planted()
    texts = np.eye(6)
    texts[4, 4] = np.nan
    with pytest.raises(AssayError, match="text 4 has an embedding that is not finite"):
        explain(activations, values, texts, WORDS, (0,))
    values[9, 0] = np.inf
    with pytest.raises(AssayError, match="image 9 has an embedding that is not finite"):
        dissected(activations, values)


def test_units_outside_the_layer_an_empty_vocabulary_and_no_image_stop():
    activations, values = planted()
    with pytest.raises(AssayError, match=r"unit 4 .*4 units are 0 to 3"):
        dissected(activations, values, units=(0, 4))
    for words in ([], ["", " "]):
        with pytest.raises(AssayError, match="empty vocabulary"):
            dissected(activations, values[:, : len(words)], words)
    with pytest.raises(AssayError, match="no image"):
        dissected(activations[:0], values[:0])
    with pytest.raises(ValueError, match="for 1 words"):
        dissected(activations, values, ["a"])
    with pytest.raises(AssayError, match="no similarity 'wpmi2'"):
        dissected(activations, values, similarity="wpmi2")
