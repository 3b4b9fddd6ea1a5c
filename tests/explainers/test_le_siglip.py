import numpy as np
import pytest
from scipy.special import expit

from pipeline.composition import combine, concepts_of, from_json
from pipeline.errors import AssayError
from pipeline.explainers.le_siglip import explain
from pipeline.explainers.linear_explanations import split

A, B = 20.0, -0.4
N, D = 900, 16


def embeddings(n_words=30, seed=0):
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(n, D)) for n in (N, n_words)]
    images, texts = ((r / np.linalg.norm(r, axis=1, keepdims=True)).astype(np.float32) for r in rows)
    return images, texts


def chances(images, texts):
    return expit(A * (images.astype(np.float64) @ texts.T.astype(np.float64) + B))


def words_of(texts):
    return [f"word {place}" for place in range(len(texts))]


def explained(units, images, texts, **options):
    activations = np.column_stack(units)
    return explain(
        activations, images, texts, words_of(texts), range(activations.shape[1]), a=A, b=B, **options
    )


def test_a_unit_that_is_a_words_probability_gets_that_word():
    images, texts = embeddings()
    shown = chances(images, texts)
    table = explained([shown[:, 6], 5 * shown[:, 29] + 2], images, texts).table
    assert table["description"].tolist() == ["word 6", "word 29"]
    np.testing.assert_allclose(table[["score", "test_correlation"]], 1, atol=1e-9)


def test_a_weighted_sum_gets_its_words_with_weights_for_probabilities():
    images, texts = embeddings()
    shown = chances(images, texts)
    row = explained([2.0 * shown[:, 3] + 1.5 * shown[:, 11]], images, texts).table.iloc[0]
    assert row["description"] == "2 word 3 + 1.5 word 11"


def test_a_unit_that_is_either_of_two_words_gets_both():
    images, texts = embeddings()
    shown = chances(images, texts)
    either = 1 - (1 - shown[:, 3]) * (1 - shown[:, 11])
    row = explained([either], images, texts).table.iloc[0]
    assert set(concepts_of(from_json(row["composition"], ""))) == {"word 3", "word 11"}


def test_scores_are_those_of_the_probabilities_the_scorer_gives():
    images, texts = embeddings()
    shown = chances(images, texts)
    noise = np.random.default_rng(1).normal(size=N)
    unit = np.maximum(shown[:, 3] + 0.8 * shown[:, 11] + 0.1 * noise, 0)
    row = explained([unit], images, texts, seed=4, place="here").table.iloc[0]
    values = combine(from_json(row["composition"], ""), dict(zip(words_of(texts), shown.T, strict=True)))
    parts = split(N, 4, "here")
    tested = parts.order[parts.test]
    expected = np.corrcoef(values[tested], unit[tested])[0, 1]
    assert row["test_correlation"] == pytest.approx(expected, abs=1e-6)
    assert row["n_concepts"] == 2


def test_words_that_no_five_images_show_are_left_out():
    images, texts = embeddings()
    shown = chances(images, texts)
    top = np.sort(shown, axis=0)[-5:].mean(axis=0)
    limit = float(np.median(top))
    result = explained([shown[:, place] for place in range(30)], images, texts, min_top_mean=limit)
    used = {text for text in result.table["description"] if text in words_of(texts)}
    left_out = [place for place in range(30) if top[place] < limit]
    assert not used & {f"word {place}" for place in left_out}
    assert result.notes[0] == f"le_siglip: {30 - len(left_out)} of 30 concepts pass the screening"
    kept = [place for place in range(30) if top[place] >= limit]
    described = result.table.set_index("unit")["description"]
    assert [described[place] for place in kept] == [f"word {place}" for place in kept]


def test_a_word_that_hardly_varies_is_left_out():
    images, texts = embeddings()
    result = explained([chances(images, texts)[:, 1]], images, texts, min_sd=10.0)
    assert "sd >= 10" in result.unexplained["reason"].item()


def test_small_blocks_of_words_give_the_same_explanations(monkeypatch):
    images, texts = embeddings()
    shown = chances(images, texts)
    units = [np.maximum(shown[:, j] + shown[:, j + 1] - 0.2, 0) for j in range(12)]
    whole = explained(units, images, texts).table
    monkeypatch.setattr("pipeline.explainers.explanations.BLOCK_BYTES", 8 * N * 4)
    assert explained(units, images, texts).table.equals(whole)


def test_an_empty_vocabulary_and_shapes_that_differ_stop():
    images, texts = embeddings()
    with pytest.raises(AssayError, match="empty vocabulary"):
        explain(np.ones((N, 1)), images, texts[:0], [], [0], a=A, b=B)
    with pytest.raises(ValueError, match="want"):
        explain(np.ones((N, 1)), images, texts, ["one"], [0], a=A, b=B)
