import numpy as np
import pandas as pd
import pytest

from pipeline.crowd import aggregate, importance_correlation, proposal
from pipeline.crowd.arrays import standardised
from pipeline.crowd.correlation import correlation, importance_weights
from pipeline.crowd.scores import COLUMNS, correlation_scores, crowd_scores
from pipeline.crowd.simulated import simulate
from pipeline.errors import AssayError
from pipeline.seeds import generator

N_IMAGES = 80
RNG = np.random.default_rng(0)
ACTIVATIONS = RNG.random((N_IMAGES, 3)) ** 3
PROBABILITY = RNG.random(N_IMAGES)
TRUTH = (RNG.random(N_IMAGES) < PROBABILITY).astype(int)
Q = [proposal(ACTIVATIONS[:, unit], PROBABILITY) for unit in range(3)]
DRAWS = [generator(0, unit).choice(N_IMAGES, size=30, p=Q[unit]) for unit in range(3)]


def study(units: tuple[int, ...] = (2, 0)) -> pd.DataFrame:
    parts = [
        pd.DataFrame(
            {
                "draw": range(30),
                "method": "random",
                "unit": unit,
                "description": "red",
                "image_id": [f"i{i}" for i in DRAWS[unit]],
                "activation": standardised(ACTIVATIONS[:, unit])[DRAWS[unit]],
                "q": Q[unit][DRAWS[unit]],
                "weight": importance_weights(Q[unit][DRAWS[unit]], N_IMAGES),
            }
        )
        for unit in units
    ]
    return pd.concat(parts, ignore_index=True)


def values(method: str = "majority") -> pd.DataFrame:
    images = [f"i{i}" for i in range(N_IMAGES)]
    pairs = pd.DataFrame({"image_id": images, "description": "red", "truth": TRUTH})
    ratings = simulate(pairs, n_raters=3, miss=0.2, false_alarm=0.2, seed=0)
    return aggregate(ratings, method, prior=pairs.assign(prior=PROBABILITY))


def test_crowd_scores_are_the_public_estimator_to_the_bit():
    table = crowd_scores(study(), values(), N_IMAGES)
    concept = values()["value"].to_numpy()
    assert list(table.columns) == COLUMNS
    assert table["unit"].tolist() == [2, 0]
    for unit, estimate in zip(table["unit"], table["estimate"], strict=True):
        draws = DRAWS[unit]
        assert estimate == importance_correlation(ACTIVATIONS[:, unit], Q[unit], draws, concept[draws])


def test_images_and_ratings_are_counted_once_and_intervals_are_of_the_rated_target():
    table = crowd_scores(study(), values(), N_IMAGES)
    distinct = [len(set(DRAWS[unit])) for unit in (2, 0)]
    assert min(30 - n for n in distinct) > 0
    assert table["n_images"].tolist() == distinct
    assert table["n_ratings"].tolist() == [3 * n for n in distinct]
    assert (table["low"] < table["estimate"]).all()
    assert (table["estimate"] < table["high"]).all()
    assert table["target"].tolist() == ["rated"] * 2
    assert table["flags"].tolist() == [""] * 2


def test_order_of_the_aggregated_values_does_not_matter():
    shuffled = values().sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(
        crowd_scores(study(), shuffled, N_IMAGES), crowd_scores(study(), values(), N_IMAGES)
    )


def test_unrated_draws_are_left_out_and_flagged():
    gone = f"i{DRAWS[0][4]}"
    table = crowd_scores(study((0,)), values()[values()["image_id"] != gone], N_IMAGES)
    kept = DRAWS[0][DRAWS[0] != DRAWS[0][4]]
    expected = importance_correlation(ACTIVATIONS[:, 0], Q[0], kept, values()["value"].to_numpy()[kept])
    assert table["estimate"].tolist() == [expected]
    assert table["n_images"].tolist() == [len(set(kept))]
    assert table["flags"].tolist() == ["unrated_draws"]


def test_a_unit_without_ratings_is_nan_and_flagged():
    table = crowd_scores(study((0,)), values().iloc[:0], N_IMAGES)
    assert table["estimate"].isna().all()
    assert table[["n_images", "n_ratings"]].to_numpy().tolist() == [[0, 0]]
    assert table["flags"].tolist() == ["no_interval;no_ratings;unrated_draws"]


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (0.0, "constant_concept;no_interval;no_likely_positive;no_positive"),
        (0.3, "constant_concept;no_interval;no_likely_positive"),
    ],
)
def test_a_constant_concept_is_nan_and_flagged(value, flags):
    table = crowd_scores(study((0,)), values().assign(value=value), N_IMAGES)
    assert table["estimate"].isna().all()
    assert table["flags"].tolist() == [flags]


def test_a_constant_unit_is_nan_and_flagged():
    table = crowd_scores(study((0,)).assign(activation=np.nan), values(), N_IMAGES)
    assert table["estimate"].isna().all()
    assert table["flags"].tolist() == ["constant_activation;no_interval"]


def test_flags_of_the_study_and_of_the_drawn_values_are_summarised():
    table = values().assign(flags="")
    table.loc[DRAWS[0][0], "flags"] = "prior_decides"
    table.loc[DRAWS[0][1], "flags"] = "tie;prior_decides"
    table.loc[next(i for i in range(N_IMAGES) if i not in DRAWS[0]), "flags"] = "elsewhere"
    scores = crowd_scores(study((0,)).assign(flags="uniform_proposal"), table, N_IMAGES)
    assert scores["flags"].tolist() == ["prior_decides;tie;uniform_proposal"]


def test_a_study_of_other_images_is_refused():
    with pytest.raises(AssayError, match=r"in row 0 of the study is not 1/\(N q\) with N = 79"):
        crowd_scores(study(), values(), 79)


def test_two_values_for_a_pair_are_refused():
    with pytest.raises(AssayError, match="two values for image 'i0' with 'red'"):
        crowd_scores(study(), pd.concat([values(), values().iloc[:1]]), N_IMAGES)


def test_an_empty_study_gives_an_empty_table():
    table = crowd_scores(study().iloc[:0], values(), N_IMAGES)
    assert list(table.columns) == COLUMNS
    assert len(table) == 0


EXPLANATIONS = pd.DataFrame(
    {"method": ["a", "b", "a", "b"], "unit": [7, 7, 4, 4], "description": ["red", "blue", "blue", "unknown"]}
)


def concepts() -> np.ndarray:
    return np.column_stack([TRUTH, np.zeros(N_IMAGES), np.full(N_IMAGES, np.nan)])


def test_correlation_scores_are_pearsons_with_flags():
    texts = ["red", "blue", "unknown"]
    table = correlation_scores(EXPLANATIONS, np.float32(ACTIVATIONS[:, :2]), [4, 7], concepts(), texts)
    assert list(table.columns) == COLUMNS
    assert table[["method", "unit", "description"]].equals(EXPLANATIONS)
    assert table["estimate"][0] == correlation(np.float32(ACTIVATIONS[:, 1]), TRUTH)
    assert table["estimate"][1:].isna().all()
    blue = "constant_concept;no_interval;no_positive"
    assert table["flags"].tolist() == ["no_interval", blue, blue, "no_interval;no_truth"]
    assert table["n_images"].tolist() == [N_IMAGES] * 4
    assert table["n_ratings"].tolist() == [0] * 4
    assert table[["low", "high"]].isna().all(axis=None)


def test_constant_activations_and_constant_positive_concepts_are_flagged():
    activations = np.column_stack([np.full(N_IMAGES, 0.1), ACTIVATIONS[:, 0]])
    table = correlation_scores(
        EXPLANATIONS.iloc[[0, 2]],
        activations,
        [7, 4],
        np.column_stack([TRUTH, np.ones(N_IMAGES)]),
        ["red", "blue"],
    )
    assert table["estimate"].isna().all()
    assert table["flags"].tolist() == ["constant_activation;no_interval", "constant_concept;no_interval"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"units": [4, 5]}, "unit 7 of the explanations has no column"),
        ({"units": [4, 4]}, "unit 4 is listed twice"),
        (
            {"descriptions": ["red", "blue", "grey"]},
            "description 'unknown' of the explanations has no column",
        ),
        ({"units": [4, 7, 8]}, r"must be \(N, 3\) for the units and \(N, 3\)"),
        ({"activations": ACTIVATIONS[:, :2] * np.nan}, "the activations of unit 7 hold NaN"),
        (
            {"concepts": np.where(np.arange(N_IMAGES) < 3, np.nan, 1)[:, None] * [1, 1, 1]},
            "concept 'red' is NaN",
        ),
    ],
)
def test_a_mistake_is_named(changed, message):
    arguments = {
        "activations": ACTIVATIONS[:, :2],
        "units": [4, 7],
        "concepts": concepts(),
        "descriptions": ["red", "blue", "unknown"],
    }
    with pytest.raises(AssayError, match=message):
        correlation_scores(EXPLANATIONS, **(arguments | changed))
