import numpy as np
import pytest
from le_oracles import descended, literal, standard

from pipeline.composition import Linear, combine, from_json
from pipeline.errors import AssayError
from pipeline.explainers import elastic_net, linear_explanations
from pipeline.explainers.le_label import explain
from pipeline.explainers.linear_explanations import WIDTH, split

N = 1200


def attributes(n_attributes=12, frequency=0.2, seed=0, n_images=N):
    rng = np.random.default_rng(seed)
    return (rng.random((n_images, n_attributes)) < frequency).astype(np.uint8)


def names_of(labels):
    return [f"w{place}" for place in range(labels.shape[1])]


def explained(units, labels=None, **options):
    """The explanations of columns of activations."""
    labels = attributes() if labels is None else labels
    activations = np.column_stack(units).astype(np.float64)
    return explain(activations, labels, names_of(labels), range(activations.shape[1]), **options)


def noise(seed=5):
    return np.random.default_rng(seed).normal(size=N)


def test_a_unit_that_is_a_concept_gets_that_concept_as_plain_text():
    labels = attributes()
    row = explained([3.0 * labels[:, 4] + 1]).table.iloc[0]
    assert (row["description"], row["composition"], row["n_concepts"]) == ("w4", "", 1)
    assert row["score"] == pytest.approx(1) and row["test_correlation"] == pytest.approx(1)


def test_a_weighted_sum_of_two_concepts_gets_both_with_its_weights():
    labels = attributes()
    row = explained([0.3 * labels[:, 7] + 0.7 * labels[:, 2] + 5]).table.iloc[0]
    assert row["description"] == "0.7 w2 + 0.3 w7"
    assert from_json(row["composition"], "") == Linear(((0.7, "w2"), (0.3, "w7")))
    assert row["score"] == pytest.approx(1) and row["n_concepts"] == 2


def test_a_unit_that_is_either_of_two_concepts_gets_both():
    labels = attributes()
    row = explained([labels[:, 3] | labels[:, 8]]).table.iloc[0]
    assert {text for _, text in from_json(row["composition"], "").terms} == {"w3", "w8"}
    assert row["score"] > 0.9


def test_a_concept_that_later_ones_replace_is_dropped():
    """w0 is w1 or w2 and comes first; beside both it has no weight."""
    labels = attributes(3, 0.4)
    labels[:, 0] = labels[:, 1] | labels[:, 2]
    unit = 0.6 * labels[:, 1] + 0.5 * labels[:, 2]
    assert explained([unit], labels, min_gain=0.9).table["description"].tolist() == ["w0"]
    row = explained([unit], labels, min_gain=0.001).table.iloc[0]
    assert (row["description"], row["n_concepts"]) == ("0.6 w1 + 0.5 w2", 2)


def test_a_concept_that_only_lowers_the_unit_is_not_tried():
    labels = attributes()
    result = explained([labels[:, 0] + 0.5 - 0.4 * labels[:, 1]])
    assert result.table["description"].tolist() == ["w0"]


def test_a_weight_of_the_refit_may_be_negative(monkeypatch):
    """Where the elastic net's weights are positive: here it is told so."""

    def all_positive(design, targets, **_):
        weights = np.ones((len(design.values), targets.shape[1]))
        return weights, np.zeros(targets.shape[1])

    monkeypatch.setattr(linear_explanations, "elastic_nets", all_positive)
    labels = attributes(4)
    result = explained([labels[:, 3] + 0.5 - 0.4 * labels[:, 1], 1.0 - labels[:, 1]], labels)
    assert result.table["description"].tolist()[0] == "1 w3 - 0.4 w1"
    assert result.table["score"][0] == pytest.approx(1)


def test_a_unit_that_falls_with_a_concept_is_unexplained():
    labels = attributes(n_attributes=1)
    result = explained([1.0 - labels[:, 0]], labels)
    assert result.unexplained["reason"].tolist() == ["no concept has a positive weight and rises with it"]
    assert result.table.empty


def test_one_concept_mode_gives_the_concept_of_largest_weight_as_plain_text():
    labels = attributes()
    result = explained([0.3 * labels[:, 7] + 0.7 * labels[:, 2], labels[:, 5]], max_concepts=1)
    assert result.table["description"].tolist() == ["w2", "w5"]
    assert result.table["composition"].tolist() == ["", ""]


def test_dead_and_negative_units_have_their_reasons():
    labels = attributes()
    parts = split(N, 0, "")
    late = np.zeros(N)
    late[parts.order[parts.test][:4]] = 1
    result = explained([np.zeros(N), -0.1 - labels[:, 1], late, labels[:, 1]])
    assert result.unexplained.to_dict("records") == [
        {"unit": 0, "reason": "constant activation"},
        {"unit": 1, "reason": "no positive activation"},
        {"unit": 2, "reason": "constant activation on the training part"},
    ]
    assert result.table["unit"].tolist() == [3]


def test_where_no_concept_passes_the_screening_every_unit_says_so():
    labels = attributes()
    labels[5:] = 0
    labels[2:5] = 0
    result = explained([noise(), np.ones(N)], labels)
    assert result.unexplained["reason"].tolist() == [
        "no concept passes the screening (mean of its 5 highest values >= 0.5, sd >= 1e-05)",
        "constant activation",
    ]
    assert result.notes == (
        "le_label: 0 of 12 concepts pass the screening: the highest mean of 5 values is 0.4, "
        "explainer.min_top_mean is 0.5",
    )
    assert result.table["score"].dtype == np.float64 and result.table["n_concepts"].dtype == np.int64


def test_a_concept_with_three_images_passes_and_one_with_two_does_not():
    labels = attributes(n_attributes=2)
    labels[:] = 0
    trained = split(N, 0, "").order[:10]
    labels[trained[:3], 0] = 1
    labels[trained[:2], 1] = 1
    assert explained([labels[:, 0], labels[:, 1]], labels).table["description"].tolist() == ["w0", "w0"]


def test_of_equal_concepts_the_first_is_used_and_the_rest_counted():
    labels = attributes()
    labels[:, 9] = labels[:, 4]
    result = explained([labels[:, 9]], labels)
    assert result.table["description"].tolist() == ["w4"]
    assert result.notes == (
        "le_label: 12 of 12 concepts pass the screening",
        "le_label: 1 of them, equal on every image to one before, were left out",
    )


def test_a_unit_that_is_constant_where_concepts_are_chosen_keeps_one_concept_and_no_score():
    labels = attributes()
    unit = labels[:, 2] + 0.5 * labels[:, 6]
    parts = split(N, 0, "")
    unit[parts.order[parts.validation]] = 0
    row = explained([unit]).table.iloc[0]
    assert row["description"] == "w2" and np.isnan(row["score"])
    assert row["test_correlation"] > 0.8


def test_score_and_test_correlation_are_those_of_the_text_on_their_parts():
    labels = attributes()
    unit = 0.5 * labels[:, 2] + 0.37 * labels[:, 6] + 0.2 * noise()
    row = explained([unit], seed=3, place="layer4").table.iloc[0]
    values = combine(from_json(row["composition"], ""), {f"w{j}": labels[:, j] for j in range(12)})
    parts = split(N, 3, "layer4")
    for column, part in (("score", parts.validation), ("test_correlation", parts.test)):
        images = parts.order[part]
        assert row[column] == pytest.approx(np.corrcoef(unit[images], values[images])[0, 1], abs=1e-12)


def test_the_split_is_70_10_20_and_moves_with_seed_and_place():
    parts = split(1000, 0, "a")
    assert [len(parts.order[part]) for part in (parts.training, parts.validation, parts.test)] == [
        700,
        100,
        200,
    ]
    assert sorted(parts.order) == list(range(1000))
    assert (split(1000, 0, "a").order == parts.order).all()
    assert (split(1000, 1, "a").order != parts.order).any()
    assert (split(1000, 0, "b").order != parts.order).any()
    assert len(split(90, 0, "").order[split(90, 0, "").training]) == 63


def by_hand(unit, labels, *, seed=0):
    """The whole method for one unit: weights by name, from plain coordinate descent and literal refits."""
    parts = split(len(unit), seed, "")
    train, held = parts.order[parts.training], parts.order[parts.validation]
    x, y = labels[train].astype(float), unit[train]
    weights = descended(standard(x), (y - y.mean()) / y.std(), sweeps=150)
    order = [j for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
    options = {"max_concepts": 10, "min_gain": 0.02, "width": WIDTH}
    chosen, found = literal(x[:, order], y, labels[held][:, order].astype(float), unit[held], **options)
    return {f"w{order[j]}": weight for j, weight in zip(chosen, found, strict=True)}


@pytest.mark.parametrize("seed", range(4))
def test_random_units_get_what_the_method_gives_by_hand(seed):
    rng = np.random.default_rng(seed)
    labels = attributes(20, 0.3, seed, 300)
    mixed = labels @ (rng.exponential(size=(20, 3)) * (rng.random((20, 3)) < 0.25))
    units = np.maximum(mixed + 0.6 * rng.normal(size=mixed.shape) - 0.3, 0)
    result = explain(units, labels, names_of(labels), range(3), seed=seed)
    for place, row in result.table.set_index("unit").iterrows():
        expected = by_hand(units[:, place], labels, seed=seed)
        if not row["composition"]:
            assert [row["description"]] == list(expected)
            continue
        terms = from_json(row["composition"], "").terms
        assert terms == tuple(sorted(terms, reverse=True))
        assert {text: weight for weight, text in terms} == pytest.approx(expected, rel=6e-4)
    assert result.table["n_concepts"].max() > 1


class Codes:
    """A layer that gives dense columns on demand and nothing else, as SAE codes do."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __getitem__(self, key):
        rows, columns = key
        assert rows == slice(None) and isinstance(columns, slice | list)
        return self.values[:, columns]


def hundred(n_units=100):
    rng = np.random.default_rng(9)
    labels = attributes(40, 0.15, 1)
    sums = labels @ (rng.exponential(size=(40, n_units)) * (rng.random((40, n_units)) < 0.08))
    return labels, np.maximum(sums + 0.3 * rng.normal(size=sums.shape) - 0.2, 0).astype(np.float32)


def test_codes_read_in_columns_give_what_the_dense_layer_gives(monkeypatch):
    labels, units = hundred()
    dense = explain(units, labels, names_of(labels), range(100))
    monkeypatch.setattr("pipeline.explainers.explanations.BLOCK_BYTES", 8 * N * 7)
    blocked = explain(Codes(units), labels, names_of(labels), range(100))
    assert len(dense.table) > 90
    assert blocked.table.equals(dense.table) and blocked.unexplained.equals(dense.unexplained)


def test_other_units_and_their_order_move_no_unit():
    labels, units = hundred()
    every = explain(units, labels, names_of(labels), range(100)).table.set_index("unit")
    few = explain(units, labels, names_of(labels), (63, 5, 40)).table
    assert few["unit"].tolist() == [63, 5, 40]
    assert few.set_index("unit").equals(every.loc[[63, 5, 40]])


def test_float32_codes_far_from_one_are_scaled():
    labels, units = hundred(10)
    plain = explain(units, labels, names_of(labels), range(10)).table
    scaled = explain(units * np.float32(2**-40), labels, names_of(labels), range(10)).table
    np.testing.assert_allclose(scaled["score"], plain["score"], rtol=0, atol=1e-4)
    assert scaled["n_concepts"].tolist() == plain["n_concepts"].tolist()


def test_a_net_that_did_not_converge_is_noted(monkeypatch):
    labels, units = hundred(10)
    monkeypatch.setattr(elastic_net, "MAX_SWEEPS", 1)
    notes = explain(units, labels, names_of(labels), range(10)).notes
    assert "units stopped before its duality gap was 1e-12" in notes[-1]


def test_inputs_stay_as_they_are():
    labels, units = hundred(5)
    labels.setflags(write=False)
    units.setflags(write=False)
    explain(units, labels, names_of(labels), range(5))


def test_what_cannot_be_explained_stops_with_a_message():
    labels, units = hundred(3)
    with pytest.raises(AssayError, match="has 29 of them"):
        explain(units[:29], labels[:29], names_of(labels), range(3))
    with pytest.raises(AssayError, match="dataset has none"):
        explain(units, labels[:, :0], [], range(3))
    with pytest.raises(AssayError, match="unit 3"):
        explain(units, labels, names_of(labels), [3])
    units[5, 1] = np.nan
    with pytest.raises(AssayError, match="unit 1 has activation nan on image 5"):
        explain(units, labels, names_of(labels), range(3))
    with pytest.raises(ValueError, match="want"):
        explain(units, labels[:-1], names_of(labels), range(3))
