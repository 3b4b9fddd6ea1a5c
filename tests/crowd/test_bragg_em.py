"""bragg_em: misses, false alarms and prevalence from the votes alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, digamma, expit
from scipy.stats import beta, entropy

from pipeline.crowd.aggregation import aggregate, bragg
from pipeline.crowd.aggregation.error_model import (
    PREVALENCE_HYPER,
    RATE_HYPER,
    ErrorModel,
    fit_error_model,
)
from pipeline.crowd.aggregation.posterior import posterior_of_votes
from pipeline.crowd.aggregation.votes import count_votes
from pipeline.errors import AssayError
from pipeline.seeds import generator

COLUMNS = ["image_id", "description", "worker", "rating"]
LOPSIDED, EVEN = (0.17, 0.02), (0.23, 0.23)


def table(*rows: tuple[object, object, object, bool]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=COLUMNS)


def simulated(
    n_texts: int, m: int, prevalence: float, rates: tuple[float, float], *names: object, n_pairs: int = 180
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Ratings, the truth of each pair, and the posterior of one who knows rates and prevalence."""
    rng = generator(0, n_texts, m, prevalence, *rates, *names)
    n, (miss, alarm) = n_texts * n_pairs, rates
    present = rng.random(n) < prevalence
    said = np.where(present[:, None], rng.random((n, m)) >= miss, rng.random((n, m)) < alarm)
    ratings = pd.DataFrame(
        {
            "image_id": np.repeat(np.arange(n), m),
            "description": np.repeat(np.arange(n_texts), n_pairs * m),
            "worker": np.tile(np.arange(m), n),
            "rating": said.ravel(),
        }
    )
    return ratings, present, posterior_of_votes(said.sum(axis=1), m, prevalence, miss, alarm)


def brier(value: object, present: np.ndarray) -> float:
    return float(np.mean((np.asarray(value) - present) ** 2))


def literal_fit(ratings: pd.DataFrame, n_iterations: int, by: str) -> tuple[dict, list[float]]:
    """Variational EM over single ratings, the Betas' parameters held at their start; the bound by parts."""
    rows = list(ratings.itertuples(index=False))
    pairs = list(dict.fromkeys((r.image_id, r.description) for r in rows))
    texts = {text for _, text in pairs}
    groups = {getattr(r, by) for r in rows}
    hyper = {"share": PREVALENCE_HYPER, "miss": RATE_HYPER, "alarm": RATE_HYPER}
    members = {"share": texts, "miss": groups, "alarm": groups}
    own = {pair: [r for r in rows if (r.image_id, r.description) == pair] for pair in pairs}
    q = {name: {key: list(hyper[name]) for key in members[name]} for name in hyper}

    def logs(name: str, key: object) -> tuple[float, float]:
        a, b = q[name][key]
        return digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)

    present: dict = {}
    bounds = []
    for _ in range(n_iterations):
        for pair in pairs:
            yes, no = logs("share", pair[1])
            for r in own[pair]:
                miss, alarm = logs("miss", getattr(r, by)), logs("alarm", getattr(r, by))
                yes += miss[1] if r.rating else miss[0]
                no += alarm[0] if r.rating else alarm[1]
            present[pair] = expit(yes - no)
        q = {name: {key: list(hyper[name]) for key in members[name]} for name in hyper}
        for pair in pairs:
            q["share"][pair[1]][0] += present[pair]
            q["share"][pair[1]][1] += 1 - present[pair]
        for r in rows:
            p = present[r.image_id, r.description]
            q["miss"][getattr(r, by)][1 if r.rating else 0] += p
            q["alarm"][getattr(r, by)][0 if r.rating else 1] += 1 - p
        bound = sum(entropy([p, 1 - p]) for p in present.values())
        bound += sum(betaln(*ab) - betaln(*hyper[name]) for name in q for ab in q[name].values())
        # One more description, spread as the anchor is, holds each Beta.
        bounds.append(float(bound) - sum(beta(*ab).entropy() for ab in hyper.values()))
    return present, bounds


RATINGS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["red", "blue"]), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[:3],
).map(lambda rows: table(*rows))


@pytest.mark.parametrize("by", ["description", "worker"])
@given(ratings=RATINGS)
@settings(max_examples=40, deadline=None)
def test_the_objective_never_falls(by: str, ratings: pd.DataFrame):
    model = fit_error_model(count_votes(ratings), rates_by=by)
    trace = model.log_posterior
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    assert model.converged
    assert model.n_iterations == len(trace)


@given(ratings=RATINGS)
@settings(max_examples=40, deadline=None)
def test_any_ratings_have_rates_that_let_a_yes_speak_for_the_concept(ratings: pd.DataFrame):
    model = fit_error_model(count_votes(ratings))
    assert np.all((model.posterior > 0) & (model.posterior <= 1))
    assert np.all(model.miss + model.false_alarm < 1)
    assert model.pooled_miss + model.pooled_false_alarm < 1
    value = aggregate(ratings, "bragg_em")
    for _, own in value.groupby(["description", "n_ratings"]):
        assert own.sort_values("yes")["value"].is_monotonic_increasing


@pytest.mark.parametrize("by", ["description", "worker"])
def test_it_equals_a_literal_em_over_single_ratings(by: str, monkeypatch: pytest.MonkeyPatch):
    ratings, _, _ = simulated(2, 3, 0.3, LOPSIDED, n_pairs=10)
    ratings = ratings.iloc[[i for i in range(len(ratings)) if i % 7]]
    monkeypatch.setattr("pipeline.crowd.aggregation.error_model._better_hyper", lambda _, hyper, *__: hyper)
    votes = count_votes(ratings)
    model = fit_error_model(votes, rates_by=by, tolerance=1e-12)
    expected, bounds = literal_fit(ratings, 80, by)
    assert model.log_posterior[-1] == pytest.approx(bounds[-1], abs=1e-6)
    np.testing.assert_allclose(
        model.posterior, posterior_from_means(model, votes, ratings, by), rtol=1e-9, atol=1e-12
    )
    share = pd.Series(expected).groupby(level=1).agg(["sum", "size"])
    mean = (share["sum"] + PREVALENCE_HYPER[0]) / (share["size"] + sum(PREVALENCE_HYPER))
    np.testing.assert_allclose(model.prevalence, mean.loc[votes.descriptions], rtol=1e-6)


def posterior_from_means(model: ErrorModel, votes, ratings: pd.DataFrame, by: str) -> list[float]:
    """Bayes' rule, one rating after the other, with the rates and prevalences that the model states."""
    odds = {}
    number = {text: i for i, text in enumerate(votes.descriptions)}
    for r in ratings.itertuples(index=False):
        pair, prior = (r.image_id, r.description), model.prevalence[number[r.description]]
        group = number[r.description] if by == "description" else r.worker
        miss, alarm = model.miss[group], model.false_alarm[group]
        odds.setdefault(pair, prior / (1 - prior))
        odds[pair] *= (1 - miss) / alarm if r.rating else miss / (1 - alarm)
    return [odd / (1 + odd) for odd in odds.values()]


@pytest.mark.parametrize("by", ["description", "worker"])
def test_leaps_end_where_plain_em_does(by: str, monkeypatch: pytest.MonkeyPatch):
    ratings, _, _ = simulated(5, 3, 0.3, LOPSIDED, n_pairs=60)
    votes = count_votes(ratings)
    leaping = fit_error_model(votes, rates_by=by, tolerance=1e-7)
    monkeypatch.setattr("pipeline.crowd.aggregation.error_model._extrapolated", lambda _, __, second: second)
    plain = fit_error_model(votes, rates_by=by, tolerance=1e-7, max_iterations=5000)
    assert plain.converged
    assert leaping.n_iterations < plain.n_iterations
    np.testing.assert_allclose(leaping.posterior, plain.posterior, atol=1e-4)
    assert leaping.log_posterior[-1] == pytest.approx(plain.log_posterior[-1], abs=1e-4)


def test_a_literal_em_ends_at_its_own_fixed_point():
    ratings, _, _ = simulated(2, 3, 0.3, LOPSIDED, n_pairs=8)
    _, bounds = literal_fit(ratings, 30, "description")
    assert np.all(np.diff(bounds) >= -1e-9)


@pytest.mark.parametrize("prevalence", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("m", [3, 5])
@pytest.mark.parametrize("rates", [LOPSIDED, EVEN])
def test_it_beats_majority_and_comes_close_to_one_who_knows(rates, m: int, prevalence: float):
    ratings, present, oracle = simulated(40, m, prevalence, rates)
    found = brier(aggregate(ratings, "bragg_em")["value"], present)
    assert found < brier(aggregate(ratings, "majority")["value"], present)
    # What remains is what rates and prevalences from 180 pairs a description cost.
    assert found < 1.1 * brier(oracle, present)


@pytest.mark.parametrize("rates", [LOPSIDED, EVEN])
def test_one_description_of_180_pairs_is_enough(rates):
    runs = [simulated(1, 3, 0.2, rates, k) for k in range(20)]
    found, majority, oracle = (
        np.mean([brier(value(ratings, known), present) for ratings, present, known in runs])
        for value in (
            lambda ratings, _: aggregate(ratings, "bragg_em")["value"],
            lambda ratings, _: aggregate(ratings, "majority")["value"],
            lambda _, known: known,
        )
    )
    assert found < majority
    assert found < 1.3 * oracle


def test_a_single_error_rate_does_worse_than_majority_where_false_alarms_are_rare():
    ratings, present, _ = simulated(40, 3, 0.2, LOPSIDED)
    majority = brier(aggregate(ratings, "majority")["value"], present)
    assert brier(aggregate(ratings, "bragg_uniform")["value"], present) > majority
    assert brier(aggregate(ratings, "bragg_em", error_rate=0.23)["value"], present) > majority
    assert brier(aggregate(ratings, "bragg_em")["value"], present) < majority


def test_the_pooled_rates_are_found():
    ratings, _, _ = simulated(40, 5, 0.2, LOPSIDED)
    model = fit_error_model(count_votes(ratings))
    assert (model.pooled_miss, model.pooled_false_alarm) == pytest.approx(LOPSIDED, abs=0.01)
    assert model.pooled_prevalence == pytest.approx(0.2, abs=0.01)


def test_descriptions_that_differ_keep_their_own_rates_and_prevalence():
    easy, _, _ = simulated(10, 5, 0.3, (0.05, 0.02), n_pairs=400)
    hard, _, _ = simulated(10, 5, 0.1, (0.35, 0.02), n_pairs=400)
    ratings = pd.concat([easy, hard.assign(description=hard["description"] + 10)])
    votes = count_votes(ratings)
    model = fit_error_model(votes)
    is_hard = votes.descriptions.to_numpy() >= 10
    assert model.miss[~is_hard].mean() == pytest.approx(0.05, abs=0.02)
    assert model.miss[is_hard].mean() == pytest.approx(0.35, abs=0.05)
    assert model.prevalence[is_hard].mean() == pytest.approx(0.1, abs=0.02)


def test_a_worker_with_one_rating_gets_practically_the_pooled_rate():
    ratings, _, _ = simulated(20, 5, 0.3, LOPSIDED)
    careless = ratings["worker"] == 4
    rng = generator(1, "careless")
    ratings.loc[careless, "rating"] = rng.random(int(careless.sum())) < 0.3
    new = ratings.iloc[:1].assign(worker=5, rating=True)
    votes = count_votes(pd.concat([ratings, new]))
    model = fit_error_model(votes, rates_by="worker")
    assert model.rates_by == "worker"
    np.testing.assert_allclose(model.miss[:4], 0.17, atol=0.04)
    np.testing.assert_allclose(model.false_alarm[:4], 0.02, atol=0.015)
    # Worker 4 guesses: a yes of theirs speaks neither for the concept nor against it.
    assert (1 - model.miss[4]) / model.false_alarm[4] == pytest.approx(1, abs=0.2)
    settled = fit_error_model(count_votes(ratings), rates_by="worker")
    assert model.miss[5] == pytest.approx(settled.miss.mean(), abs=0.1)
    np.testing.assert_allclose(model.miss[:5], settled.miss, atol=0.005)


def test_given_rates_and_prior_are_used_as_they_are():
    ratings, _, oracle = simulated(2, 3, 0.2, LOPSIDED)
    value = aggregate(ratings, "bragg_em", error_rate=LOPSIDED, prior=0.2)["value"]
    np.testing.assert_allclose(value, oracle, rtol=1e-12)
    same = aggregate(ratings, "bragg_em", error_rate=0.23, prior=0.05)
    uniform = aggregate(ratings, "bragg_uniform")
    pd.testing.assert_frame_equal(same, uniform, rtol=1e-12)


def test_equal_rates_are_bragg():
    np.testing.assert_allclose(
        posterior_of_votes([0, 1, 2, 3], 3, 0.1, 0.23, 0.23), bragg([0, 1, 2, 3], 3, 0.1), rtol=1e-12
    )


def test_one_rating_a_pair_says_nothing_about_the_rates():
    ratings, _, _ = simulated(3, 1, 0.2, LOPSIDED)
    model = fit_error_model(count_votes(ratings))
    assert model.rates_assumed
    np.testing.assert_allclose([*model.miss, *model.false_alarm], 0.23)
    assert set(aggregate(ratings, "bragg_em")["flags"]) <= {"rates_assumed", "prior_decides;rates_assumed"}


def test_two_ratings_a_pair_give_one_rate_from_their_disagreement():
    ratings, present, oracle = simulated(40, 2, 0.2, EVEN)
    table = aggregate(ratings, "bragg_em")
    model = fit_error_model(count_votes(ratings))
    np.testing.assert_allclose([*model.miss, *model.false_alarm], 0.23, atol=0.02)
    assert brier(table["value"], present) < 1.05 * brier(oracle, present)
    assert set(table["flags"]) == {"rates_assumed", "tie;rates_assumed"}


@pytest.mark.parametrize(
    ("votes", "value", "flags"),
    [
        ([True], 0.157, "prior_decides;rates_assumed"),
        ([False], 0.011, "rates_assumed"),
        ([True, False], 0.043, "tie;rates_assumed"),
        ([True, True], 0.988, "rates_assumed"),
    ],
)
def test_one_pair_has_a_defined_result(votes: list[bool], value: float, flags: str):
    ratings = table(*[("a", "red", f"w{i}", vote) for i, vote in enumerate(votes)])
    found = aggregate(ratings, "bragg_em")
    assert found["value"].tolist() == pytest.approx([value], abs=5e-3)
    assert found["flags"].tolist() == [flags]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_all_yes_is_yes_and_all_no_is_no(m: int):
    pairs = [(i, "red", w) for i in range(180) for w in range(m)]
    yes = aggregate(table(*[(*pair, True) for pair in pairs]), "bragg_em")
    no = aggregate(table(*[(*pair, False) for pair in pairs]), "bragg_em")
    assert yes["value"].min() > 0.99
    assert no["value"].max() < 0.01
    # All yes may be false alarms as well as concepts: these ratings cannot tell, and it is said.
    assert set(yes["flags"]) == {"rates_assumed"} == set(no["flags"])


def test_one_worker_alone_is_believed_as_the_assumed_rates_say():
    ratings = table(*[(i, "red", "w", i % 3 == 0) for i in range(300)])
    model = fit_error_model(count_votes(ratings), rates_by="worker")
    assert model.rates_assumed
    # A third says yes: prevalence p with p .77 + (1 - p) .23 = 1/3.
    assert model.pooled_prevalence == pytest.approx((1 / 3 - 0.23) / 0.54, abs=0.03)


def test_no_ratings_give_an_empty_table_of_the_same_types():
    ratings = table(("a", "red", "w", True))
    empty = aggregate(ratings.iloc[:0], "bragg_em")
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == aggregate(ratings, "bragg_em").dtypes.to_dict()


def test_the_order_of_rows_does_not_matter():
    ratings, _, _ = simulated(3, 3, 0.2, LOPSIDED)
    shuffled = ratings.sample(frac=1, random_state=1)
    key = ["image_id", "description"]
    pd.testing.assert_frame_equal(
        aggregate(shuffled, "bragg_em").sort_values(key, ignore_index=True),
        aggregate(ratings, "bragg_em").sort_values(key, ignore_index=True),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"error_rate": (0.6, 0.4)}, "miss \\+ false_alarm is 1; below 1"),
        ({"error_rate": 0.5}, "miss \\+ false_alarm is 1"),
        ({"error_rate": (0.0, 0.2)}, r"miss is 0.0; it must be in \(0, 1\)"),
        ({"prior": 1.0}, "prior is 1.0"),
    ],
)
def test_a_mistake_is_named(settings: dict, message: str):
    with pytest.raises(AssayError, match=message):
        aggregate(table(("a", "red", "w", True)), "bragg_em", **settings)


def test_an_unknown_way_to_pool_is_named():
    with pytest.raises(AssayError, match="rates_by is 'image'"):
        fit_error_model(count_votes(table(("a", "red", "w", True))), rates_by="image")  # type: ignore[arg-type]
