import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.explainers.explanations import assemble, require_one_row_each, require_units


def described(units, texts):
    return pd.DataFrame({"unit": units, "description": texts, "score": [0.5] * len(units)})


def test_rows_and_reasons_follow_the_selection():
    result = assemble("m", (5, 2, 9, 1), described([1, 5], [" a ", "b"]), {9: "x", 2: "y"}, ["note"])
    assert list(result.table.columns) == ["method", "unit", "description", "score"]
    assert list(result.table["unit"]) == [5, 1] and list(result.table["description"]) == ["b", "a"]
    assert result.unexplained.values.tolist() == [[2, "y"], [9, "x"]]
    assert result.notes == ("note",)


def test_empty_parts_keep_their_columns_and_types():
    result = assemble("m", (), described([], []), {})
    assert result.table["unit"].dtype == "int64" and result.unexplained["unit"].dtype == "int64"
    assert list(result.table.columns) == ["method", "unit", "description", "score"]


def test_a_blank_description_stops_with_the_unit():
    with pytest.raises(AssayError, match="unit 4 a blank description"):
        assemble("m", (4,), described([4], ["  "]), {})


@pytest.mark.parametrize(
    ("units", "found", "reasons"),
    [((1, 2), [1], {}), ((1,), [1], {1: "x"}), ((1,), [1, 2], {}), ((1,), [1, 1], {})],
)
def test_every_unit_has_one_row_or_one_reason(units, found, reasons):
    with pytest.raises(ValueError, match="one row or one reason"):
        assemble("m", units, described(found, ["a"] * len(found)), reasons)


def test_the_first_offender_is_named_with_its_places():
    with pytest.raises(AssayError, match=r"unit 3 \(here\).*0 to 2.*Mend it\."):
        require_units([0, 3, 4], 3, ["a", "here", "b"], "Mend it.")
    with pytest.raises(AssayError, match=r"unit 5 of method 'm' has two rows: a and c\. Mend it\."):
        require_one_row_each([5, 6, 5], ["a", "b", "c"], "m", "Mend it.")
