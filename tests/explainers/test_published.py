import inspect
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.composition import Linear, Or, describe, from_json
from pipeline.errors import AssayError
from pipeline.explainers.explanations import Explanations
from pipeline.explainers.formats.network_dissection import plain_label
from pipeline.explainers.formats.registry import NAMES, result_format
from pipeline.explainers.formats.table import LAYOUTS
from pipeline.explainers.published import explain

SAMPLES = Path(__file__).parent / "samples"
CONF = Path(__file__).parents[2] / "conf" / "explainer"


def read(name: str, format: str, units=(0, 1, 2, 3), n_units: int = 20, **settings) -> Explanations:
    given_settings = {"layer": "layer4", "method": "m", "path": SAMPLES / name, "format": format}
    return explain(units, n_units, **(given_settings | settings))


def written(tmp_path: Path, text: str | bytes, format: str, units=(0, 1), **settings) -> Explanations:
    path = tmp_path / "file.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read("", format, units, path=path, **settings)


def texts(result: Explanations) -> dict[int, str]:
    return dict(zip(result.table["unit"], result.table["description"], strict=True))


def reasons(result: Explanations) -> dict[int, str]:
    return dict(zip(result.unexplained["unit"], result.unexplained["reason"], strict=True))


def test_milan_reads_one_layer_of_a_file_of_many():
    result = read("milan.csv", "milan", (0, 1, 2, 3, 4))
    assert texts(result) == {0: "nan", 1: 'Screens, windows, and "stop" signs', 2: "Dog 's face"}
    assert reasons(result) == {3: "blank description (milan.csv, line 6)", 4: "no row in milan.csv"}
    assert result.notes == ("milan.csv: 2 rows of 2 other layers left out",)
    assert list(result.table.columns) == ["method", "unit", "description"]


def test_the_annotations_of_milan_give_a_units_first_text():
    result = read("milan_annotations.csv", "milan", (0, 2))
    assert texts(result) == {0: "brown dogs", 2: "striped cloth"}
    assert "milan_annotations.csv: 2 rows left out, their units had another row" in result.notes[1]
    with pytest.raises(AssayError, match=r"unit 2 of method 'm' has two rows: .*line 2 and .*line 3"):
        read("milan_annotations.csv", "milan", (0, 2), on_duplicate="stop")


def test_milans_json_export_is_read():
    assert texts(read("milan.json", "milan", (2,))) == {2: "null"}
    assert texts(read("milan.json", "milan", (0,), layer_name="layer3")) == {0: "sky"}


def test_clip_dissect_keeps_its_similarity_and_its_words():
    result = read("clip_dissect.csv", "clip_dissect", (0, 2))
    assert texts(result) == {0: "red", 2: "none"}
    assert list(result.table["similarity"]) == ["0.25", "0.11"]


def test_the_item_of_a_sequential_is_one_layer_in_both_spellings():
    result = read("clip_dissect.csv", "clip_dissect", (1,), layer="encoder.layers.encoder_layer_11.mlp.1")
    assert texts(result) == {1: "true"}


@pytest.mark.parametrize("layer_name", [None, "layer5", ""])
def test_a_layer_that_the_file_does_not_have_lists_those_it_has(layer_name):
    with pytest.raises(
        AssayError, match=r"its layers are 'conv1', 'layer4', 'fc'\. Set explainer.layer_name"
    ):
        read("milan.csv", "milan", layer="blocks.3", layer_name=layer_name)


def test_a_layer_name_for_a_file_without_layers_is_refused():
    with pytest.raises(AssayError, match=r"does not name layers; set explainer.layer_name=null"):
        read("dnd.csv", "dnd", layer_name="layer4")


def test_dnd_reads_the_asked_label_and_keeps_the_others():
    result = read("dnd.csv", "dnd")
    assert texts(result) == {0: "salt, pepper, and spices", 2: "pets and people"}
    assert list(result.table["Label 2"]) == ["", "people with pets"]
    assert reasons(result) == {1: "no row in dnd.csv", 3: "blank description (dnd.csv, line 4)"}
    assert texts(read("dnd.csv", "dnd", label=2)) == {2: "people with pets", 3: "NA"}
    assert texts(read("dnd_fc.csv", "dnd", (0, 1))) == {0: "fishing", 1: "null"}
    with pytest.raises(AssayError, match=r"no column 'label 2' among .*dnd with explainer.label=2"):
        read("dnd_fc.csv", "dnd", label=2)


def test_network_dissections_tally_counts_from_1():
    result = read("network_dissection.csv", "network_dissection")
    assert texts(result) == {0: "red color", 2: "casino, indoor", 3: "polka-dotted"}
    assert reasons(result) == {1: "the label '-', which is none (network_dissection.csv, line 5)"}
    assert result.table[["category", "score", "broden_label"]].values.tolist() == [
        ["color", "0.05", "red-c"],
        ["scene", "0.22", "casino-indoor-s"],
        ["texture", "0.039", "polka-dotted"],
    ]
    assert result.notes == (
        "network_dissection.csv: 2 labels spelled for people, such as 'casino-indoor-s' as 'casino, indoor'",
    )


def test_units_below_the_least_iou_have_that_as_reason():
    result = read("network_dissection.csv", "network_dissection", min_iou=0.04)
    assert texts(result) == {0: "red color", 2: "casino, indoor"}
    assert reasons(result)[3] == "IoU 0.039, not at least 0.04 (network_dissection.csv, line 4)"
    assert texts(
        read("network_dissection.csv", "network_dissection", (0,), min_iou=0.05)
    )  # an equal IoU stays


def test_labels_can_stay_as_the_dataset_spells_them():
    result = read("network_dissection.csv", "network_dissection", (0, 2), plain_labels=False)
    assert texts(result) == {0: "red-c", 2: "casino-indoor-s"} and not result.notes


def test_a_table_of_descriptions_and_a_json_report_count_from_0():
    assert texts(read("network_dissection_from_0.csv", "network_dissection", (0, 1))) == {
        0: "body",
        1: "red color",
    }
    result = read("network_dissection.json", "network_dissection", (0, 1, 2))
    assert texts(result) == {0: "sky", 2: "red color"}
    assert list(result.table["cat"]) == ["object", "color"]
    low = read("network_dissection.json", "network_dissection", (0, 1, 2), min_iou=0.04)
    assert texts(low) == {0: "sky"}
    assert reasons(low)[1] == "the label '-', which is none (network_dissection.json, units[1])"


def test_first_unit_overrules_the_format():
    result = read("network_dissection.csv", "network_dissection", (1, 3), first_unit=0)
    assert texts(result) == {1: "red color", 3: "casino, indoor"}
    with pytest.raises(AssayError, match=r"unit 0 \(.*line 2\) is outside.*set explainer.first_unit=0"):
        read("clip_dissect.csv", "clip_dissect", first_unit=1)


def test_a_tally_read_from_0_names_the_setting_that_reads_it(tmp_path):
    tally = "unit,label\n2,red\n20,blue\n"
    with pytest.raises(AssayError, match=r"unit 20 .*counts from 1: set explainer.first_unit=1"):
        written(tmp_path, tally, "network_dissection", first_unit=0)
    part = written(tmp_path, "unit,label\n2,red\n7,blue\n", "network_dissection", first_unit=0)
    assert part.notes == (
        "file.csv: units run from 2 to 7 without 0; if they count from 1, set explainer.first_unit=1",
    )
    assert not written(tmp_path, "unit,label\n0,red\n7,blue\n", "network_dissection", first_unit=0).notes
    assert not written(tmp_path, tally, "network_dissection", first_unit=1).notes


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("pink-c", "pink color"),
        ("shoe_shop-s", "shoe shop"),
        ("movie_theater-indoor-s", "movie theater, indoor"),
        ("plastic-opaque", "plastic-opaque"),
        ("pool table", "pool table"),
    ],
)
def test_labels_of_broden_are_spelled_as_people_do(label, plain):
    assert plain_label(label) == plain


def test_le_is_a_weighted_sum_without_its_bias():
    result = read("linear_explanations.csv", "linear_explanations", (0, 1, 2))
    assert texts(result) == {
        0: "1.235 fishing reel + 0.5 bistro, indoor - 0.25 null",
        1: "nan",
        2: "-0.02 tench",
    }
    assert list(result.table["composition"]) == [
        '{"linear": [[1.235, "fishing reel"], [0.5, "bistro, indoor"], [-0.25, "null"]]}',
        "",
        '{"linear": [[-0.02, "tench"]]}',
    ]
    kept = ["method", "unit", "description", "val correlation", "sim correlation"]
    assert list(result.table.columns) == [*kept, "largest_weight", "composition"]
    assert result.notes == (
        "linear_explanations.csv: the bias is left out, a correlation does not see it",
        "linear_explanations.csv: 1 row of 1 other layer left out",
    )


def test_one_concept_of_le_is_that_of_the_largest_weight():
    result = read("linear_explanations.csv", "linear_explanations", (0, 1, 2), max_concepts=1)
    assert texts(result) == {0: "fishing reel", 1: "nan", 2: "tench"}
    assert set(result.table["composition"]) == {""}
    assert list(result.table["largest_weight"]) == ["1.23456", "2.5", "-0.02"]
    assert result.notes[1] == "linear_explanations.csv: 1 sum cut to max_concepts=1"
    assert "the largest weight of 1 row is negative" in result.notes[2]


def test_a_sum_can_be_cut_to_its_largest_weights():
    result = read("linear_explanations.csv", "linear_explanations", (0,), max_concepts=2)
    assert texts(result) == {0: "1.235 fishing reel + 0.5 bistro, indoor"}


def test_empty_slots_and_weights_that_are_not_finite_are_reasons():
    result = read("linear_explanations.csv", "linear_explanations", (3, 4, 5))
    assert reasons(result) == {
        3: "the weight of 'dog' is not finite (linear_explanations.csv, line 5)",
        4: "blank description (linear_explanations.csv, line 6)",
        5: "no row in linear_explanations.csv",
    }


def test_le_slots_out_of_order_twice_or_of_weight_0_are_settled(tmp_path):
    text = (
        "unit,concept1,weight1,weight0,concept0,weight2,concept2\n0,dog,2,1,cat,0.5,cat\n1,dog,0,0,cat,1,0\n"
    )
    result = written(tmp_path, text, "linear_explanations")
    assert texts(result) == {0: "2 dog + 1.5 cat", 1: "0"}  # a weight makes the 0 a word
    assert result.notes == ("file.csv: 2 concepts of weight 0 left out",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,one,cat", r"line 2: 'one' in column 'weight0' is no number"),
        ("0,1.5,", r"line 2: the weight 1.5 has no concept; fill 'concept0'"),
    ],
)
def test_an_le_slot_that_is_half_filled_stops_with_its_line(tmp_path, row, message):
    with pytest.raises(AssayError, match=message):
        written(tmp_path, f"unit,weight0,concept0\n{row}\n", "linear_explanations")


@pytest.mark.parametrize("weight", ["nan", "NaN", ""])
def test_an_le_slot_of_no_concept_and_no_weight_is_padding(tmp_path, weight):
    data = f"unit,weight0,concept0,weight1,concept1\n0,2,cat,{weight},\n1,{weight},,{weight},\n"
    result = written(tmp_path, data, "linear_explanations")
    assert texts(result) == {0: "cat"}
    assert reasons(result) == {1: "blank description (file.csv, line 3)"}


def test_an_le_weight_without_its_column_of_concepts_stops(tmp_path):
    with pytest.raises(AssayError, match=r"a column 'weight1' and no 'concept1'"):
        written(tmp_path, "unit,weight0,concept0,weight1\n0,1,cat,2\n", "linear_explanations")
    with pytest.raises(AssayError, match=r"max_concepts=0 leaves no concept"):
        read("linear_explanations.csv", "linear_explanations", max_concepts=0)


CONCEPT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
CONCEPT = CONCEPT.map(str.strip).filter(lambda text: text not in ("", "0", "0.0"))
WEIGHT = st.floats(-9, 9, allow_subnormal=False).filter(lambda weight: abs(weight) > 1e-3)


@st.composite
def le_tables(draw):
    """Return the terms of each unit and an LE file that holds them, with slots to spare."""
    concepts = st.lists(CONCEPT, max_size=4, unique=True)
    units = [[(draw(WEIGHT), concept) for concept in draw(concepts)] for _ in range(draw(st.integers(1, 4)))]
    n_slots, zero = 4 + draw(st.integers(0, 2)), draw(st.sampled_from(["0", "0.0"]))
    mark, end = draw(st.sampled_from(",\t;")), draw(st.sampled_from(["\n", "\r\n", "\r"]))

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    head = ["Unit", *(f"{word} {slot}" for slot in range(n_slots) for word in ("Weight", "concept"))]
    lines = [mark.join(head)]
    for unit, terms in enumerate(units):
        slots = [cell for weight, concept in terms for cell in (repr(weight), quoted(concept))]
        lines.append(mark.join([str(unit), *slots, *[zero, "0"] * (n_slots - len(terms))]))
    mark_of_order = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return units, mark_of_order + end.join(lines).encode()


@settings(max_examples=60, deadline=None)
@given(le_tables())
def test_any_wide_table_of_le_reads_back(tmp_path_factory, case):
    units, data = case
    result = written(tmp_path_factory.mktemp("le"), data, "linear_explanations", range(len(units)))
    assert set(reasons(result)) == {unit for unit, terms in enumerate(units) if not terms}
    for row in result.table.to_dict("records"):
        expected = sorted(units[row["unit"]], key=lambda term: -term[0])
        if len(expected) == 1 and expected[0][0] > 0:
            assert (row["description"], row["composition"]) == (expected[0][1], "")
        else:
            found = from_json(row["composition"], "here")
            assert isinstance(found, Linear) and describe(found) == row["description"]
            assert [text for _, text in found.terms] == [text for _, text in expected]
            for (weight, _), (asked, _) in zip(found.terms, expected, strict=True):
                assert weight == pytest.approx(asked, rel=1e-3)


def test_maias_folders_give_labels_and_join_several_by_or():
    result = read("maia", "maia", (0, 2, 10, 11))
    assert texts(result) == {0: "wheels on cars", 2: "dogs on grass OR red balls"}
    assert from_json(result.table["composition"][1], "here") == Or(("dogs on grass", "red balls"))
    assert reasons(result) == {
        10: "no label.txt and no label in history.json (maia, layer4/10)",
        11: "no folder 11 with MAIA's files in the layer's folder of maia",
    }
    assert result.notes == (
        "maia: 1 unit has several labels, joined by OR",
        "maia: 1 row of 1 other layer left out",
    )


def test_maias_descriptions_are_an_option():
    result = read("maia", "maia", (0, 2), text="description")
    assert texts(result) == {0: "Wheels of cars, seen from the side.", 2: "Dogs on grass OR\nred balls."}


def test_the_folder_of_one_layer_of_maia_needs_no_layer_name():
    assert texts(read("maia/layer4", "maia", (0,), layer="anything")) == {0: "wheels on cars"}
    absent = read("maia/layer4", "maia", (11,))
    assert reasons(absent) == {11: "no folder 11 with MAIA's files in layer4"}


def test_a_table_of_maia_is_read_by_the_asked_column(tmp_path):
    assert texts(read("maia.csv", "maia", (0, 1))) == {0: "null", 1: "red balls"}
    assert texts(read("maia.csv", "maia", (0, 1), text="description")) == {0: "Nothing at all"}
    with pytest.raises(AssayError, match=r"no column 'label'.*maia with explainer.text=label"):
        written(tmp_path, "unit,description\n0,red\n", "maia")


def test_what_is_no_result_of_maia_stops_with_the_place(tmp_path):
    with pytest.raises(AssayError, match=r"holds no folders of units; set explainer.path to"):
        read("", "maia", path=tmp_path)
    with pytest.raises(AssayError, match=r"absent does not exist; set explainer.path"):
        read("absent", "maia")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "history.json").write_text('{"role": "assistant"}')
    with pytest.raises(AssayError, match=r"7/history.json is no dialogue of MAIA"):
        read("", "maia", path=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"is no JSON.*a result of milan"),
        ('{"units": []}', r"has no list 'units'"),
        ('{"units": [{"unit": 1}]}', r"units\[0\] needs 'layer' and 'unit' and 'description'"),
    ],
)
def test_a_json_that_is_no_report_stops_with_the_place(tmp_path, text, message):
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(AssayError, match=message):
        read("", "milan", path=tmp_path / "data.json")


WORDS = {
    "milan": ("Layer,Unit,Description\nlayer4,{unit},{word}\n", 0),
    "clip_dissect": ("unit,description\n{unit},{word}\n", 0),
    "dnd": ("NEURON_ID,label 1,Label 2,Label 3\n{unit},{word},,\n", 0),
    "maia": ("unit,label\n{unit},{word}\n", 0),
    "network_dissection": ("unit,category,label,score\n{unit},object,{word},0.1\n", 1),
    "linear_explanations": ("unit,weight0,concept0,weight1,concept1\n{unit},1,{word},0,0\n", 0),
}


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("word", ["nan", "null", "none", "None", "true", "NA", "N/A"])
def test_in_every_format_words_that_look_like_missing_values_are_words(tmp_path, format, word):
    text, first = WORDS[format]
    result = written(tmp_path, text.format(unit=5 + first, word=word), format, (5,))
    assert texts(result) == {5: word}


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("delimiter", [b",", b"\t"])
def test_in_every_format_marks_line_ends_and_delimiters_do_not_matter(tmp_path, format, bom, end, delimiter):
    text, first = WORDS[format]
    data = text.format(unit=3 + first, word='"red, or blue"').encode()
    head, row = data.split(b"\n")[:2]
    if delimiter == b"\t":
        row = row.replace(b"red, or", b"red@ or").replace(b",", b"\t").replace(b"@", b",")
        head = head.replace(b",", b"\t")
    result = written(tmp_path, bom + head + end + row + end, format, (3,))
    assert texts(result) == {3: "red, or blue"}


@pytest.mark.parametrize("format", NAMES)
def test_in_every_format_a_unit_outside_the_layer_stops(tmp_path, format):
    text, first = WORDS[format]
    with pytest.raises(AssayError, match=rf"unit {20 + first} \(.*line 2\) is outside the layer"):
        written(tmp_path, text.format(unit=20 + first, word="red"), format, (0,))


@pytest.mark.parametrize("format", NAMES)
def test_in_every_format_a_second_row_is_left_out_with_a_count_or_stops(tmp_path, format):
    text, first = WORDS[format]
    head, row = text.split("\n")[:2]
    rows = [row.format(unit=first, word=word) for word in ("red", "blue")]
    data = "\n".join([head, *rows])
    assert texts(written(tmp_path, data, format, (0,))) == {0: "red"}
    assert any("1 row left out, its unit had" in note for note in written(tmp_path, data, format, (0,)).notes)
    with pytest.raises(AssayError, match="has two rows"):
        written(tmp_path, data, format, (0,), on_duplicate="stop")


@pytest.mark.parametrize("format", NAMES)
def test_a_file_of_another_layout_names_the_missing_column(tmp_path, format):
    with pytest.raises(
        AssayError, match=r"line 1: no column 'unit' among 'name', 'words', which a result of"
    ):
        written(tmp_path, "name,words\n0,red\n", format)


COLUMNS = {
    "Layer,Unit,Description": "milan",
    "unit,summary": "milan",
    "unit,description,similarity": "clip_dissect_published",
    "Neuron ID,Label 1,Label 2": "dnd",
    "unit,category,label,score": "network_dissection_published",
    "unit,weight0,concept0,bias": "le_label_published",
}


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize(("header", "explainer"), COLUMNS.items())
def test_a_file_of_another_format_names_the_explainer_that_reads_it(tmp_path, format, header, explainer):
    """What the message names is a configuration whose format does read the file, or the right setting."""
    row = ",".join("0" if name.lower() in ("unit", "neuron id") else "1" for name in header.split(","))
    data = f"{header}\n{row}\n".replace(",category,label,score\n0", ",category,label,score\n1")
    other = {"layer": "1"}
    try:
        written(tmp_path, data, format, (0,), **other)
    except AssayError as error:
        message = str(error)
    else:
        return
    if format == "maia" and "escription" in header:
        assert "Set explainer.text=description, which reads this file." in message
        again = read("", format, (0,), path=tmp_path / "file.csv", text="description", **other)
        assert texts(again) == {0: "1"}
        return
    assert f"Take explainer={explainer}, which reads such columns, or explainer=csv with" in message
    preset = (CONF / f"{explainer}.yaml").read_text()
    (right,) = [name for name in NAMES if f"format: {name}\n" in preset]
    assert right != format
    assert texts(written(tmp_path, data, right, (0,), **other)) == {0: "1"}


def test_a_layout_of_another_option_names_the_option(tmp_path):
    path = tmp_path / "maia.csv"
    path.write_text("Unit,Label\n0,red\n")
    with pytest.raises(AssayError, match=r"Set explainer.text=label, which reads this file"):
        read("", "maia", path=path, text="description")
    with pytest.raises(AssayError, match=r"Set explainer.label=2, which reads this file"):
        written(tmp_path, "unit,Label 2\n0,red\n", "dnd", label=3)
    with pytest.raises(AssayError, match=r"Take explainer=csv with explainer.unit_column"):
        written(tmp_path, "unit,Label\n0,red\n", "milan")
    assert {explainer for explainer, _ in LAYOUTS} == set(COLUMNS.values())


def test_a_unit_that_is_no_number_stops_with_its_line(tmp_path):
    with pytest.raises(AssayError, match=r"line 3: 'x' in column 'unit' .*explainer.format"):
        written(tmp_path, "unit,description\n0,red\nx,blue\n", "milan")


@pytest.mark.parametrize("format", NAMES)
def test_an_option_of_another_format_is_refused(format):
    options = {"max_concepts": 1, "label": 1, "text": "label", "min_iou": 0.0, "plain_labels": False}
    own = list(inspect.signature(result_format(format).read).parameters)[1:]
    for name, value in options.items():
        if name not in own:
            with pytest.raises(AssayError, match=rf"explainer.{name}=.* is no option of .*format={format}"):
                read("milan.csv", format, **{name: value})


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(AssayError, match="Did you mean 'milan'"):
        read("milan.csv", "milano")
