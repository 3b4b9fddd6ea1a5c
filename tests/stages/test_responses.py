"""The responses stage against a stub endpoint: from images and activations to a table of answers."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.sparse import csr_array

from pipeline.errors import AssayError
from pipeline.explainers.llm import explain
from pipeline.stages import responses
from pipeline.stages.sparse import write_codes
from pipeline.stages.tables import write_array, write_table
from tests.llm.stub_endpoint import Reply, StubEndpoint, error

KEY = "sk-very-secret-0123456789"
RED, BLUE = (200, 0, 0), (0, 0, 200)
SETTINGS = {
    "name": "llm",
    "method": "llm",
    "model": "vlm",
    "split": "train",
    "prompt": None,
    "n_top": 2,
    "n_random": 2,
    "cell": 24,
    "detail": None,
    "temperature": 0.0,
    "max_tokens": 30,
    "token_limit": "max_tokens",
    "seed": 0,
    "api_key_env": "STUB_KEY",
    "timeout": 5.0,
    "max_retries": 0,
    "concurrency": 2,
    "price_input": None,
    "price_output": None,
    "image_tokens": 500,
    "max_cost": 0.0,
}
Run = Callable[..., tuple[pd.DataFrame, list[str]]]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubEndpoint]:
    monkeypatch.setenv("STUB_KEY", KEY)
    endpoint = StubEndpoint()
    endpoint.answer = lambda request: "red" if request["png"].getpixel((18, 54))[0] > 100 else "blue"
    yield endpoint
    endpoint.close()


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """Twelve images: even ones red, odd ones blue, the last four in the test split; three units.

    Unit 0 likes red, unit 1 is constant on the training split, unit 2 likes blue.
    """
    folders = {name: tmp_path / name for name in ("images", "splits", "activations", "units")}
    for folder in folders.values():
        folder.mkdir()
    rows = []
    for number in range(12):
        path = folders["images"] / f"{number}.png"
        Image.new("RGB", (10, 10), BLUE if number % 2 else RED).save(path)
        rows.append((f"i{number}", "result", path.name, "", hashlib.sha256(path.read_bytes()).hexdigest()))
    table = pd.DataFrame(rows, columns=["image_id", "source", "path", "member", "checksum"])
    write_table(table, folders["images"] / "images.parquet")
    splits = ["train"] * 8 + ["test"] * 4
    write_table(table[["image_id"]].assign(split=splits), folders["splits"] / "splits.parquet")
    red = (np.arange(12) % 2 == 0) * np.arange(1, 13)
    constant = np.array([1.0] * 8 + [5.0] * 4)
    blue = (np.arange(12) % 2) * np.arange(1, 13)
    write_array(np.stack([red, constant, blue], axis=1).astype("f4"), folders["activations"] / "layer.npy")
    write_table(pd.DataFrame({"unit": [0, 1, 2]}), folders["units"] / "units.parquet")
    return folders


@pytest.fixture
def run(inputs: dict[str, Path], stub: StubEndpoint, tmp_path: Path) -> Run:
    def once(name: str = "a", **changed: Any) -> tuple[pd.DataFrame, list[str]]:
        output = tmp_path / "results" / "responses" / name
        output.mkdir(parents=True)
        config = {
            "explainer": SETTINGS | {"base_url": stub.base_url} | changed,
            "model": {"arch": "net"},
            "layer": "layer",
        }
        notes = responses.run(config, inputs, output)
        return pd.read_parquet(output / "responses.parquet"), notes

    return once


def test_every_unit_that_varies_is_asked_about_its_own_images(run, stub):
    table, notes = run()
    assert table["unit"].tolist() == [0, 2]
    assert table["text"].tolist() == ["red", "blue"]
    assert table["top_images"].map(list).tolist() == [["i6", "i4"], ["i7", "i5"]]
    for row in table.to_dict("records"):
        assert len({*row["top_images"], *row["random_images"]}) == 4
        assert not {"i8", "i9", "i10", "i11"} & {*row["top_images"], *row["random_images"]}
    assert table["model"].tolist() == ["vlm-2024"] * 2
    assert table[["prompt_tokens", "completion_tokens"]].to_numpy().tolist() == [[500, 4]] * 2
    assert {request["authorization"] for request in stub.requests} == {f"Bearer {KEY}"}
    assert all("the 2 images" in request["text"] for request in stub.requests)
    asked = "llm: 2 answers were asked for when this was made: 1,000 input and 8 output tokens, $0.00"
    assert notes == [asked]
    found = explain(table, [0, 1, 2], {1})
    assert found.table["description"].tolist() == ["red", "blue"]


def test_latents_are_asked_about_like_neurons(run, stub, inputs, tmp_path):
    neurons, _ = run("a")
    dense = np.load(inputs.pop("activations") / "layer.npy")
    inputs["latents"] = tmp_path / "latents"
    inputs["latents"].mkdir()
    write_codes(csr_array(dense), inputs["latents"])
    latents, _ = run("b")
    pd.testing.assert_frame_equal(latents, neurons)
    assert len(stub.requests) == 2


def test_a_second_run_asks_nothing_and_writes_the_same_bytes(run, stub, tmp_path):
    run("a")
    stub.close()
    _, notes = run("b", base_url="https://elsewhere.example.org/v1", concurrency=1)
    assert notes == []
    folder = tmp_path / "results" / "responses"
    assert (folder / "a/responses.parquet").read_bytes() == (folder / "b/responses.parquet").read_bytes()


def test_a_killed_run_asks_only_the_rest(run, stub, tmp_path):
    stub.script = [Reply(), Reply(503, error("down"))]
    with pytest.raises(AssayError, match=r"HTTP 503: down.* 1 of 2 new answers are kept"):
        run("a", concurrency=1)
    assert not (tmp_path / "results/responses/a/responses.parquet").exists()
    table, notes = run("b", concurrency=1)
    assert len(stub.requests) == 3
    assert table["text"].tolist() == ["red", "blue"]
    assert notes[0].startswith("llm: 1 answer was asked for when this was made: ")


def test_another_prompt_or_model_asks_anew(run, stub, tmp_path):
    run("a")
    run("b", model="other")
    path = tmp_path / "prompt.txt"
    path.write_text("Name it ({n_top})")
    run("c", prompt=path)
    assert len(stub.requests) == 6
    assert stub.requests[-1]["text"] == "Name it (2)"


def test_the_cost_is_told_before_the_first_request(run, stub, capsys):
    stub.answer = lambda request: capsys.readouterr().err
    table, _ = run(concurrency=1, price_input=1000.0, price_output=1000.0, max_cost=9.0)
    told = table["text"][0]
    assert told.startswith("llm: 2 requests, about ")
    assert f"to {stub.base_url}/chat/completions (model vlm)" in told


def test_what_costs_more_than_allowed_is_not_asked(run, stub):
    with pytest.raises(AssayError, match=r"explainer.max_cost=0.01: 2 requests, .* is more than that"):
        run(price_input=1000.0, max_cost=0.01)
    assert stub.requests == []


def test_kept_answers_cost_nothing(run, stub):
    run("a")
    table, _ = run("b", price_input=1e9, max_cost=0.0)
    assert len(table) == len(stub.requests) == 2


def test_sheets_that_take_more_tokens_than_thought_stop_at_the_limit(run, stub):
    stub.usage = {"prompt_tokens": 100_000, "completion_tokens": 1}
    with pytest.raises(AssayError, match=r"explainer.max_cost=2 is reached: .* 1 of 2 new answers are kept"):
        run(concurrency=1, price_input=15.0, max_cost=2.0, image_tokens=10)
    assert len(stub.requests) == 1


def test_a_hosted_endpoint_needs_prices(run, stub):
    with pytest.raises(AssayError, match=r"explainer.price_input is not set"):
        run(base_url="https://api.example.org/v1")


def test_the_key_is_in_no_file_and_no_error(run, stub, tmp_path, capsys):
    stub.answer = lambda request: f"red {KEY}"
    run("a")
    stub.script = [Reply(401, error(f"Incorrect API key provided: {KEY}"))]
    with pytest.raises(AssayError) as caught:
        run("b", model="other", concurrency=1)
    assert "HTTP 401" in str(caught.value) and KEY not in str(caught.value)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 14
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err


def test_answers_are_kept_beside_the_results(run, stub, inputs, tmp_path):
    table, _ = run("a")
    kept = tmp_path / "responses"
    assert {path.stem for path in kept.iterdir()} == set(table["request_sha"])
    facts = json.loads(next(kept.iterdir()).read_text())["question"]
    assert facts["model"] == "vlm" and len(facts["top"]) == 2


def test_where_every_unit_is_constant_nothing_is_asked(run, stub, inputs):
    write_table(pd.DataFrame({"unit": [1]}), inputs["units"] / "units.parquet")
    table, notes = run()
    assert (len(table), notes, stub.requests) == (0, [], [])
    assert explain(table, [1]).unexplained["unit"].tolist() == [1]


def test_a_few_images_make_a_smaller_sheet(run, stub):
    table, _ = run(n_top=50, n_random=50)
    assert [len(images) for images in table["top_images"]] == [4, 4]
    assert [len(images) for images in table["random_images"]] == [4, 4]
    assert all("RANDOM are 4 other" in request["text"] for request in stub.requests)


def test_an_image_that_changed_is_told(run, stub, inputs):
    Image.new("RGB", (3, 3)).save(inputs["images"] / "6.png")
    with pytest.raises(AssayError, match="unit 0: image 'i6' changed since its manifest was made"):
        run(concurrency=1)
