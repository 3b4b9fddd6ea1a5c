"""MATCHScore is the mean held-out F1 over all attributes, and says what it counts as 0."""

import numpy as np
import pytest
import scipy.sparse as sp
from matching_oracles import literal_f1, random_case

from pipeline.errors import AssayError
from pipeline.matching import attribute_scores, dmatch_score, fbmp, match_score
from pipeline.matching.scores import empty_attributes


def test_scores_equal_the_literal_f1_on_held_out_images():
    for case in range(60):
        latents, attributes = random_case(case)
        held_out = np.roll(latents, 1, axis=0), attributes[::-1]
        matching = fbmp(latents, attributes)
        scores = attribute_scores(matching, *held_out, [1, 2, 3, 20])
        for a, own in enumerate(matching.coalitions):
            expected = [literal_f1(own, held_out[0], held_out[1][:, a], k) for k in (1, 2, 3, 20)]
            assert scores[a].tolist() == expected
        assert match_score(matching, *held_out, k=2) == pytest.approx(scores[:, 1].mean(), abs=1e-15)
        assert match_score(matching, sp.csr_array(held_out[0]), held_out[1]) == scores[:, 2].mean()


def test_on_the_matched_images_the_scores_are_the_path():
    latents, attributes = random_case(8)
    matching = fbmp(latents, attributes)
    scores = attribute_scores(matching, latents, attributes, range(1, 21))
    for row, path in zip(scores, matching.f1, strict=True):
        assert row[: len(path)].tolist() == path.tolist()
        assert set(row[len(path) :]) <= {path[-1] if len(path) else 0.0}


def test_an_attribute_per_latent_scores_1_and_a_moved_latent_0():
    attributes = np.eye(6, dtype=bool)
    matching = fbmp(attributes, attributes)
    assert match_score(matching, attributes, attributes) == 1.0
    assert match_score(matching, np.roll(attributes, 1, axis=1), attributes) == 0.0


def test_empty_attributes_count_as_0_or_are_left_out():
    latents = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]], dtype=bool)
    attributes = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]], dtype=bool)
    matching = fbmp(latents, attributes)
    held_out = attributes.copy()
    held_out[1, 3] = False
    reasons = ("", "no positive", "no overlap", "no held-out positive")
    assert empty_attributes(matching, held_out) == reasons
    assert match_score(matching, latents, held_out) == 0.25
    assert match_score(matching, latents, held_out, include_empty=False) == 1.0
    assert match_score(matching, latents, np.zeros((4, 4))) == 0.0
    assert np.isnan(match_score(matching, latents, np.zeros((4, 4)), include_empty=False))


def test_a_coalition_shorter_than_k_is_used_whole():
    matching = fbmp(np.eye(3, dtype=bool), np.eye(3, dtype=bool), max_latents=1)
    assert match_score(matching, np.eye(3), np.eye(3), k=3) == 1.0


def test_dmatch_score_is_the_difference_from_the_mean_frozen_score_with_their_spread():
    found = dmatch_score(0.5, [0.1, 0.2, 0.3])
    assert found.difference == pytest.approx(0.3)
    assert found.spread == pytest.approx(0.1)
    assert found.n_seeds == 3
    assert np.isnan(dmatch_score(0.5, [0.1]).spread)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda m, z, y: match_score(m, z[:, :2], y), "latent 2, but the codes have 2 latents"),
        (lambda m, z, y: match_score(m, z, y[:, :1]), "there are 1 attributes, but 3 were matched"),
        (lambda m, z, y: match_score(m, z, y[:2]), r"attributes have shape \(2, 3\)"),
        (lambda m, z, y: match_score(m, z, y, k=0), "k is 0"),
        (lambda m, z, y: m.predict(z, 1.5), r"k is 1\.5"),
        (lambda m, z, y: attribute_scores(m, z, y, []), "ks is empty"),
        (lambda m, z, y: dmatch_score(0.5, []), "frozen_scores is empty"),
        (lambda m, z, y: dmatch_score(0.5, [0.1, np.nan]), r"frozen_scores\[1\] is nan"),
    ],
)
def test_what_cannot_be_scored_is_named(run, message):
    own = np.eye(3, dtype=bool)
    with pytest.raises(AssayError, match=message):
        run(fbmp(own, own), own, own)
