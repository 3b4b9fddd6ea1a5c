from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.explainers.csv import explain
from pipeline.explainers.explanations import Explanations

PLAIN = b"unit,description\n0,red\n1,blue\n2,green\n"


def read(tmp_path: Path, data: bytes | str, units=(0, 1, 2), n_units: int = 3, **settings) -> Explanations:
    path = tmp_path / "texts.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    given_settings = {"layer": "layer4", "method": "people"} | settings
    return explain(units, n_units, path=path, **given_settings)


def texts(result: Explanations) -> dict[int, str]:
    return dict(zip(result.table["unit"], result.table["description"], strict=True))


def reasons(result: Explanations) -> dict[int, str]:
    return dict(zip(result.unexplained["unit"], result.unexplained["reason"], strict=True))


def test_a_plain_file_gives_method_unit_description(tmp_path):
    result = read(tmp_path, PLAIN)
    expected = pd.DataFrame(
        {"method": ["people"] * 3, "unit": [0, 1, 2], "description": ["red", "blue", "green"]}
    ).astype({"method": "str", "description": "str"})
    pd.testing.assert_frame_equal(result.table, expected)
    assert result.unexplained.empty and list(result.unexplained.columns) == ["unit", "reason"]
    assert result.notes == ()


@pytest.mark.parametrize("word", ["nan", "NaN", "null", "none", "None", "true", "NA", "N/A", "1", "inf"])
def test_words_that_look_like_missing_values_are_words(tmp_path, word):
    assert texts(read(tmp_path, f"unit,description\n0,{word}\n", units=(0,))) == {0: word}


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("delimiter", [b",", b"\t", b";"])
def test_marks_line_ends_and_delimiters_do_not_matter(tmp_path, bom, end, delimiter):
    data = bom + PLAIN.replace(b",", delimiter).replace(b"\n", end)
    assert texts(read(tmp_path, data)) == {0: "red", 1: "blue", 2: "green"}


def test_a_comma_in_the_texts_of_a_tsv_is_text(tmp_path):
    result = read(tmp_path, "unit\tdescription\n0\tred, blue, and green\n", units=(0,))
    assert texts(result) == {0: "red, blue, and green"}


def test_a_quoted_text_keeps_its_line_end(tmp_path):
    assert texts(read(tmp_path, 'unit,description\r0,"a\rb"\r', units=(0,))) == {0: "a\rb"}


def test_a_blank_after_the_comma_does_not_break_quotes(tmp_path):
    assert texts(
        read(tmp_path, 'unit, description\n0, "red, or blue" \n'.replace('" ', '"'), units=(0,))
    ) == {0: "red, or blue"}


def test_blank_lines_and_rows_of_commas_are_no_rows(tmp_path):
    assert texts(read(tmp_path, "\n\nunit,description\n\n0,red\n,\n\n1,blue\n \n", units=(0, 1))) == {
        0: "red",
        1: "blue",
    }


def test_units_counted_from_1_move_down_by_one(tmp_path):
    result = read(tmp_path, "unit,description\n1,red\n3,green\n", units=(0, 2), first_unit=1)
    assert texts(result) == {0: "red", 2: "green"}


def test_a_file_counted_from_1_names_the_setting_that_reads_it(tmp_path):
    with pytest.raises(AssayError, match=r"unit 3 \(.*texts.csv, line 4\).*explainer.first_unit=1"):
        read(tmp_path, "unit,description\n1,red\n2,blue\n3,green\n")


def test_a_file_counted_from_0_names_the_setting_that_reads_it(tmp_path):
    with pytest.raises(AssayError, match=r"unit 0 \(.*line 2\).*explainer.first_unit=0"):
        read(tmp_path, PLAIN, first_unit=1)


def test_units_1_to_m_without_0_are_noted(tmp_path):
    result = read(tmp_path, "unit,description\n1,red\n2,blue\n", units=(1, 2), n_units=9)
    assert result.notes == (
        "texts.csv: units run from 1 to 2 without 0; if they count from 1, set explainer.first_unit=1",
    )


@pytest.mark.parametrize("unit", ["-1", "7"])
def test_a_unit_outside_the_layer_stops_also_where_it_is_not_selected(tmp_path, unit):
    with pytest.raises(AssayError, match=rf"unit {unit} \(.*line 3\).*3 units are 0 to 2"):
        read(tmp_path, f"unit,description\n0,red\n{unit},blue\n", units=(0,))


@pytest.mark.parametrize("unit", ["2.0", "2.", "+2", "02", " 2 "])
def test_spellings_of_a_whole_number_are_read(tmp_path, unit):
    assert texts(read(tmp_path, f"unit,description\n{unit},red\n", units=(2,))) == {2: "red"}


@pytest.mark.parametrize("unit", ["abc", "2.5", "", "nan", "1_0", "1e0", "٢"])
def test_a_unit_that_is_no_whole_number_stops_with_its_line(tmp_path, unit):
    with pytest.raises(AssayError, match=rf"line 4: '{unit}' in column 'unit'"):
        read(tmp_path, f"unit,description\n0,red\n\n{unit},blue\n")


def test_line_numbers_count_the_lines_inside_quotes(tmp_path):
    with pytest.raises(AssayError, match=r"line 6: 'abc'"):
        read(tmp_path, 'unit,description\n0,"a\nb\r\nc"\n\nabc,blue\n')


def test_only_the_configured_layer_is_read(tmp_path):
    data = "layer,unit,description,similarity\nlayer3,0,sky,.1\nlayer4,0,red,.2\nlayer3,9,sea,.3\n"
    result = read(tmp_path, data, units=(0,), layer_column="layer")
    assert texts(result) == {0: "red"}
    assert list(result.table.columns) == ["method", "unit", "description", "similarity"]
    assert result.notes == ("texts.csv: 2 rows of 1 other layer left out",)


def test_a_layer_without_rows_lists_the_layers_present(tmp_path):
    with pytest.raises(AssayError, match=r"no row of layer 'layer4'.*'conv1', 'layer3'"):
        read(tmp_path, "layer,unit,description\nconv1,0,red\nlayer3,0,red\n", layer_column="layer")


@pytest.mark.parametrize("on_duplicate", ["stop", "first"])
def test_a_file_that_mixes_layers_is_never_read_without_its_layer_column(tmp_path, on_duplicate):
    data = "Layer,unit,description\nlayer3,0,sky\nlayer4,0,red\n"
    with pytest.raises(AssayError, match=r"mixes layers.*explainer.layer_column=Layer"):
        read(tmp_path, data, on_duplicate=on_duplicate)


def test_a_second_row_of_a_unit_stops_with_both_lines(tmp_path):
    with pytest.raises(
        AssayError, match=r"unit 2 of method 'people'.*line 3 and .*line 5.*on_duplicate=first"
    ):
        read(tmp_path, "unit,description\n0,red\n2,a\n1,b\n2,c\n", units=(0,))


def test_first_keeps_the_first_row_and_notes_how_many_were_left_out(tmp_path):
    result = read(tmp_path, "unit,description\n0,red\n0,blue\n1,a\n0,c\n", units=(0, 1), on_duplicate="first")
    assert texts(result) == {0: "red", 1: "a"}
    assert result.notes == ("texts.csv: 2 rows left out, their units had another row (on_duplicate=first)",)


def test_first_passes_over_a_blank_description(tmp_path):
    result = read(tmp_path, "unit,description\n0,\n0,blue\n", units=(0,), on_duplicate="first")
    assert texts(result) == {0: "blue"} and result.unexplained.empty


def test_blank_and_missing_units_are_unexplained_with_a_reason(tmp_path):
    result = read(tmp_path, "unit,description\n2,red\n0,  \n")
    assert texts(result) == {2: "red"}
    assert reasons(result) == {0: "blank description (texts.csv, line 3)", 1: "no row in texts.csv"}


def test_a_file_that_explains_none_of_the_units_gives_an_empty_table(tmp_path):
    result = read(tmp_path, "unit,description,score\n2,red,.5\n", units=(0, 1))
    assert result.table.empty and list(result.table.columns) == ["method", "unit", "description", "score"]
    assert reasons(result) == {0: "no row in texts.csv", 1: "no row in texts.csv"}


def test_the_table_follows_the_selection_and_survives_parquet(tmp_path):
    result = read(tmp_path, "unit,description,score\n0,red,.5\n1,nan,NA\n2,null,\n", units=(2, 0, 1))
    assert list(result.table["unit"]) == [2, 0, 1]
    result.table.to_parquet(tmp_path / "t.parquet")
    again = pd.read_parquet(tmp_path / "t.parquet")
    assert list(again["description"]) == ["null", "red", "nan"]
    assert list(again["score"]) == ["", ".5", "NA"]


def test_extra_columns_are_kept_and_never_hide_the_own_ones(tmp_path):
    data = "Neuron ID,label,method,unit,,score\n1,red,x,y,z,007\n"
    result = read(
        tmp_path, data, units=(0,), first_unit=1, unit_column="Neuron ID", description_column="label"
    )
    assert result.table.to_dict("records") == [
        {
            "method": "people",
            "unit": 0,
            "description": "red",
            "file_method": "x",
            "file_unit": "y",
            "column_5": "z",
            "score": "007",
        }
    ]


def test_a_missing_column_names_the_nearest(tmp_path):
    with pytest.raises(AssayError, match=r"no column 'description' among.*Nearest: 'Descriptions'"):
        read(tmp_path, "unit,Descriptions\n0,red\n")


def test_a_column_named_twice_stops(tmp_path):
    with pytest.raises(AssayError, match="two columns are named 'score'"):
        read(tmp_path, "unit,description,score,score\n0,red,1,2\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"unit,description\n", "no row below it"),
        (b"unit,description\n0,red,blue\n", r"line 2: 3 cells, but the header names 2 columns"),
        (b'unit,description\n0,red\n1,"12 inch\n2,blue\n', r"line 3: the row that starts here"),
        (b'unit,description\n0,"stop" sign\n', r"line 2: the row that starts here"),
        (
            "unit,description\n0,red\n1,café\n".encode("cp1252"),
            r"line 3: byte 0xe9 is not UTF-8.*WINDOWS-1252",
        ),
        ("unit,description\r0,red\r1,café\r".encode("cp1252"), r"line 3: byte 0xe9"),
        ("unit,description\n0,red\n".encode("utf-16"), "UTF-16"),
        ("unit,description\n0,red\n".encode("utf-16-le"), "NUL"),
    ],
)
def test_an_unreadable_file_stops_with_the_place(tmp_path, data, message):
    with pytest.raises(AssayError, match=message):
        read(tmp_path, data)


def test_a_missing_file_and_a_folder_stop_with_the_key(tmp_path):
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(AssayError, match=r"set explainer.path"):
            explain((0,), 1, layer="layer4", path=path, method="people")


def test_trailing_commas_and_short_rows_are_blanks(tmp_path):
    result = read(tmp_path, "unit,description,score\n0,red,1,,\n1,blue\n2\n")
    assert texts(result) == {0: "red", 1: "blue"}
    assert list(result.table["score"]) == ["1", ""]
    assert reasons(result) == {2: "blank description (texts.csv, line 4)"}


def test_a_unit_selected_twice_stops(tmp_path):
    with pytest.raises(AssayError, match="unit 1 is selected twice"):
        read(tmp_path, PLAIN, units=(1, 2, 1))


BARE = (
    '0,{"and": ["circle", "red"]}',
    '0,{"or":["circle","red"]}',
    '0,{"linear": [[1.5, "dog"]]}',
    '0,"{"not": "round"}"',
    '0,{"and":["a",{"not":"b"}]}',
)


@pytest.mark.parametrize("row", BARE)
def test_json_without_its_quotes_is_shown_a_right_cell(tmp_path, row):
    with pytest.raises(AssayError) as caught:
        read(tmp_path, f"unit,composition\n{row}\n", (0,), composition_column="composition")
    cell = '"{""and"": [""circle"", ""red""]}"'
    assert "line 2: " in str(caught.value) and str(caught.value).endswith(cell)
    right = read(tmp_path, f"unit,composition\n0,{cell}\n", (0,), composition_column="composition")
    assert texts(right) == {0: "circle AND red"}


def test_json_in_another_row_does_not_change_the_advice(tmp_path):
    data = 'unit\tdescription\n0\t{"not": "round"}\n1\t"stop" sign\n2\t{"not": "red"}\n'
    with pytest.raises(AssayError, match=r'line 3: .*"""stop"" sign"$'):
        read(tmp_path, data)


@pytest.mark.parametrize("word", ["and", "or", "not", "linear"])
def test_a_column_of_compositions_that_is_not_set_is_noted(tmp_path, word):
    data = f'unit,description,comp,more\n0,red,,x\n1,blue,"{{""{word}"": 1}}",a {{""and""\n'
    result = read(tmp_path, data, (0, 1))
    assert result.notes == (
        "texts.csv: column 'comp' holds compositions; set explainer.composition_column=comp to score them",
    )
    assert read(tmp_path, COMPOSED, (0, 1), 4, composition_column="recipe").notes == ()


COMPOSED = '''unit,description,recipe
0,a dog outside,"{""linear"": [[1.5, ""dog""], [-0.25, ""grass""]]}"
1,,"{""and"": [""red"", {""not"": ""round""}]}"
2,plain,
3,,"""nan"""
'''


def test_a_composition_is_the_explanation_and_the_files_own_text_is_kept(tmp_path):
    result = read(tmp_path, COMPOSED, (0, 1, 2, 3), 4, composition_column="recipe")
    assert texts(result) == {0: "1.5 dog - 0.25 grass", 1: "red AND NOT round", 2: "plain", 3: "nan"}
    assert list(result.table["composition"]) == [
        '{"linear": [[1.5, "dog"], [-0.25, "grass"]]}',
        '{"and": ["red", {"not": "round"}]}',
        "",
        "",
    ]
    assert list(result.table["file_description"]) == ["a dog outside", "", "", ""]
    assert "recipe" not in result.table


def test_without_the_setting_a_column_of_compositions_is_only_kept(tmp_path):
    result = read(tmp_path, COMPOSED.replace("recipe", "composition"), (0, 2), 4)
    assert texts(result) == {0: "a dog outside", 2: "plain"}
    assert list(result.table.columns) == ["method", "unit", "description", "file_composition"]


def test_a_file_of_compositions_needs_no_descriptions(tmp_path):
    data = 'unit,composition,file_description\n0,"{""or"": [""red"", ""blue""]}",x\n1,,y\n'
    result = read(tmp_path, data, (0, 1), composition_column="composition")
    assert texts(result) == {0: "red OR blue"}
    assert reasons(result) == {1: "blank description (texts.csv, line 3)"}
    assert list(result.table["file_description"]) == [""]
    assert list(result.table["file_file_description"]) == ["x"]


@pytest.mark.parametrize("cell", ["dog", '"{""linear"": [[0, ""dog""]]}"', '"{""xor"": [""a"", ""b""]}"'])
def test_what_is_no_composition_stops_with_file_line_and_column(tmp_path, cell):
    with pytest.raises(AssayError, match=r"texts.csv, line 3, column 'recipe': "):
        read(tmp_path, f"unit,description,recipe\n0,red,\n1,blue,{cell}\n", composition_column="recipe")


@pytest.mark.parametrize("column", ["composition", "file_description"])
def test_a_description_column_under_the_name_of_a_composition_stops(tmp_path, column):
    data = f"unit,{column},composition_json\n0,red,\n"
    for recipe in ("composition_json", column):
        with pytest.raises(AssayError, match=rf"name column '{column}' of .* twice, or it is one"):
            read(tmp_path, data, (0,), description_column=column, composition_column=recipe)


def test_a_missing_column_of_compositions_names_its_setting(tmp_path):
    with pytest.raises(AssayError, match=r"no column 'recipe' among .*explainer.composition_column"):
        read(tmp_path, PLAIN, composition_column="recipe")


def test_extra_columns_of_one_name_after_the_prefix_are_both_kept(tmp_path):
    data = "id,description,unit,file_unit\n0,red,a,b\n"
    row = read(tmp_path, data, (0,), unit_column="id").table.iloc[0]
    assert (row["file_unit"], row["file_file_unit"]) == ("a", "b")


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from(",;\t\"'\r\n #"), max_size=12
)


@st.composite
def files(draw):
    n = draw(st.integers(1, 6))
    units = draw(st.lists(st.integers(0, 40), min_size=n, max_size=n, unique=True))
    columns = {
        "unit": [str(unit) for unit in units],
        "description": draw(st.lists(TEXT, min_size=n, max_size=n)),
        "note": draw(st.lists(TEXT, min_size=n, max_size=n)),
    }
    names = draw(st.permutations(list(columns)))
    delimiter, end = draw(st.sampled_from(",\t;")), draw(st.sampled_from(["\n", "\r\n", "\r"]))

    def cell(text: str) -> str:
        special = text != text.strip() or any(mark in text for mark in ',\t;"\r\n')
        return '"' + text.replace('"', '""') + '"' if special or draw(st.booleans()) else text

    rows = [[cell(name) for name in names]]
    rows += [[cell(columns[name][row]) for name in names] for row in range(n)]
    blank = st.sampled_from(["", end, delimiter * 2 + end])
    body = "".join(draw(blank) + delimiter.join(row) + end for row in rows)
    body = body if draw(st.booleans()) else body[: -len(end)]
    return columns, (b"\xef\xbb\xbf" if draw(st.booleans()) else b"") + body.encode()


@settings(max_examples=300, deadline=None)
@given(files())
def test_any_table_reads_back_however_it_was_written(tmp_path_factory, case):
    columns, data = case
    units = [int(unit) for unit in columns["unit"]]
    result = read(tmp_path_factory.mktemp("case"), data, units=units, n_units=41)
    expected = {unit: text.strip() for unit, text in zip(units, columns["description"], strict=True)}
    assert texts(result) == {unit: text for unit, text in expected.items() if text}
    assert set(reasons(result)) == {unit for unit, text in expected.items() if not text}
    notes = {unit: text.strip() for unit, text in zip(units, columns["note"], strict=True)}
    assert list(result.table["note"]) == [notes[unit] for unit in result.table["unit"]]
