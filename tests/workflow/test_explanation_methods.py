"""Every explanation method through the whole pipeline: neurons, latents, composites, files, answers."""

import base64
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from conftest import copy_project
from workflow_project import CSV, SCORER, TinyProject, fill

from pipeline.composition import combine, concepts_of
from pipeline.crowd.composites import compositions
from pipeline.explainers.registry import NAMES
from pipeline.plan.stages import UNITS
from pipeline.stages.unit_activations import unit_activations

HEAD = """- - dataset=shapes
  - dataset.n_images=100
  - dataset.size=32
  - model=tiny
  - scorer=tiny
  - explainer_scorer=tiny
  - layer=blocks.3
  - unit.indices=[0,1,2,3,4]
  - sae=topk
  - sae.dictionary_size=16
  - sae.k=4
  - sae.epochs=2
  - sae.batch_size=16
  - sampler.n_inputs=12
  - numerics.threads=1
  - stats.n_bootstrap=50
"""
SWEEP = (
    f"{HEAD}  - unit=neuron,latent\n  - explainer=network_dissection,invert,le_label,le_siglip,top_concept\n"
    f"{HEAD}  - explainer=clip_dissect\n  - explainer.similarity=cos,wpmi\n"
    f"{HEAD}  - explainer=composed,published\n"
)
COMPOSED = [
    {"linear": [[0.8, "red"], [-0.3, "circle"]]},
    {"and": ["red", {"not": "circle"}]},
    {"or": ["star", "square"]},
]
ALL = {
    "images": 1,
    "splits": 1,
    "labels": 1,
    "activations": 1,
    "sae": 1,
    "latents": 1,
    "units": 2,
    "scorer": 1,
    "image_embeddings": 1,
    "explainer_scorer": 1,
    "explainer_embeddings": 1,
    **dict.fromkeys(["explanations", "probabilities", "sampling", "crowd", "scoring"], 14),
    "gallery": 2,
    "comparison": 1,
    "report": 1,
    "tracking": 1,
}
END = {"comparison": 1, "report": 1, "tracking": 1}


def following(n: int) -> dict[str, int]:
    return {**dict.fromkeys(["explanations", "probabilities", "sampling", "crowd", "scoring"], n), **END}


def fill_methods(root: Path) -> Path:
    fill(root)
    conf = root / "conf"
    (conf / "explainer_scorer" / "tiny.yaml").write_text(SCORER.replace("seed: 0", "seed: 5"))
    composed = CSV.replace("written", "composed").replace("texts.csv", "composed.csv")
    (conf / "explainer" / "composed.yaml").write_text(f"{composed}composition_column: made_of\n")
    (conf / "explainer" / "published.yaml").write_text(
        "name: published\nformat: milan\nmethod: milan\npath: conf/milan.csv\n"
    )
    rows = [(unit, json.dumps(COMPOSED[unit % 3])) for unit in range(24)]
    table = pd.DataFrame(rows, columns=["unit", "made_of"]).assign(description="")
    table.to_csv(conf / "composed.csv", index=False)
    milan = "layer,unit,description\n" + "".join(f"blocks.3,{unit},blue\n" for unit in range(24))
    (conf / "milan.csv").write_text(f"{milan}blocks.1,0,red\n")
    (conf / "sweep" / "methods.yaml").write_text(SWEEP)
    (conf / "sweep" / "one.yaml").write_text(f"{HEAD}  - explainer=composed\n")
    return root


@pytest.fixture(scope="session")
def methods(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The sweep over methods, run once for all tests; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-methods"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.is_dir():
            building = shared.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            TinyProject(fill_methods(copy_project(building))).run_here("run", "sweep=methods")
            building.rename(shared)
    return TinyProject(shared).copy_to(tmp_path_factory.mktemp("built-methods") / "assay")


CHANGES = [
    ([], {}),
    (["explainer_scorer.seed=6"], {"explainer_scorer": 1, "explainer_embeddings": 1, **following(4)}),
    (["explainer_scorer.calibration.split=train"], following(2)),
    (["sae.seed=1"], {"sae": 1, "latents": 1, "units": 1, "gallery": 1, **following(5)}),
]


@pytest.mark.parametrize(("overrides", "expected"), CHANGES, ids=lambda v: " ".join(v) or "none")
def test_a_changed_setting_reruns_exactly_what_reads_it(
    methods: TinyProject, overrides: list[str], expected: dict[str, int]
) -> None:
    assert methods.to_run(*overrides, sweep="methods") == expected


def test_the_whole_sweep_was_planned_and_ran(methods: TinyProject) -> None:
    counts = methods.prepare(sweep="methods").status.counts()
    assert {stage: row["fresh"] for stage, row in counts.items()} == ALL


def test_every_explainer_is_in_a_sweep_of_the_tests() -> None:
    run_here = {"network_dissection", "invert", "le_label", "le_siglip", "top_concept", "clip_dissect"}
    assert run_here | {"csv", "published", "llm", "random"} == set(NAMES)


@pytest.mark.parametrize("method", ["invert", "le_label", "le_siglip", "network_dissection"])
def test_an_edit_of_one_method_reruns_only_its_points(methods: TinyProject, method: str) -> None:
    with methods.edited(
        f"pipeline/explainers/{method}.py", "def explain(", "def other():\n    1\n\n\ndef explain("
    ):
        assert methods.to_run(sweep="methods")["explanations"] == 2


def test_an_edit_of_one_similarity_or_format_reruns_only_its_points(methods: TinyProject) -> None:
    for file in ("similarities/cos", "formats/milan"):
        path = methods.root / "pipeline" / "explainers" / f"{file}.py"
        text = path.read_text()
        path.write_text(f"{text}\n\nOTHER = 1\n")
        assert methods.to_run(sweep="methods")["explanations"] == 1
        path.write_text(text)


def results(project: TinyProject, stage: str) -> dict[str, dict[str, object]]:
    return {str(meta["key"]): meta for meta in project.meta(stage)}


def points(project: TinyProject) -> pd.DataFrame:
    return pd.read_csv(project.root / "results/sweeps/methods/latest/points.csv", dtype=str)


def test_neurons_and_latents_are_compared_in_one_sweep(methods: TinyProject) -> None:
    table = pd.read_csv(methods.root / "results/sweeps/methods/latest/scores.csv", keep_default_na=False)
    by_unit = table.groupby("unit_kind")["method"].nunique()
    assert by_unit.to_dict() == {"latent": 5, "neuron": 9}


def test_a_latents_score_is_that_of_its_codes(methods: TinyProject) -> None:
    """The study's activations are the standardised codes of the latents, literally."""
    for meta in methods.meta("sampling"):
        if "latents" not in meta["upstream"]:
            continue
        folder = methods.root / "results"
        study = pd.read_parquet(folder / "sampling" / str(meta["key"]) / "study.parquet")
        inputs = {"latents": folder / "latents" / meta["upstream"]["latents"]}
        splits = pd.read_parquet(folder / "splits" / meta["upstream"]["splits"] / "splits.parquet")
        rows = np.flatnonzero(splits["split"] == "test")
        codes = unit_activations(inputs, rows)[:, :].astype(float)
        ids = splits["image_id"].to_numpy()[rows].tolist()
        for _, draw in study.iterrows():
            own = codes[:, draw["unit"]]
            expected = (own[ids.index(draw["image_id"])] - own.mean()) / own.std()
            assert draw["activation"] == pytest.approx(expected, rel=1e-5, nan_ok=True)
        return
    raise AssertionError("no sampling result of latents")


def test_composite_texts_are_asked_by_concept_and_scored_as_wholes(methods: TinyProject) -> None:
    folder = methods.root / "results"
    for meta in methods.meta("scoring"):
        scores = pd.read_parquet(folder / "scoring" / str(meta["key"]) / "scoring.parquet")
        if set(scores["method"]) == {"composed"}:
            ratings = pd.read_parquet(folder / "crowd" / meta["upstream"]["crowd"] / "ratings.parquet")
            assert set(ratings["description"]) <= {"red", "circle", "star", "square"}
            assert scores["description"].str.contains(" AND | OR |0.8 red - 0.3 circle").all()
            assert scores["estimate"].notna().any()
            return
    raise AssertionError("no scores of the composite texts")


@pytest.mark.parametrize("scoring", ["automatic", "oracle"])
def test_the_scorer_and_the_attributes_judge_composites_as_combined(
    methods: TinyProject, scoring: str
) -> None:
    project = methods
    project.run_here("run", "sweep=one", f"scoring={scoring}")
    folder = project.root / "results"
    for meta in project.meta("scoring"):
        explanations = folder / "explanations" / meta["upstream"].get("explanations", "none")
        if meta["slice"].get("scoring") != {"name": scoring} or not explanations.is_dir():
            continue
        table = pd.read_parquet(explanations / "explanations.parquet")
        scores = pd.read_parquet(folder / "scoring" / str(meta["key"]) / "scoring.parquet").set_index("unit")
        made_of = compositions(table)
        values = concept_values(folder, meta["upstream"], made_of.values())
        splits = pd.read_parquet(folder / "splits" / meta["upstream"]["splits"] / "splits.parquet")
        rows = np.flatnonzero(splits["split"] == "test")
        activations = unit_activations(
            {"activations": folder / "activations" / meta["upstream"]["activations"]}, rows
        )
        for unit, text in table[["unit", "description"]].itertuples(index=False):
            own = {concept: values[concept][rows] for concept in concepts_of(made_of[text])}
            expected = np.corrcoef(activations[:, unit], combine(made_of[text], own))[0, 1]
            assert scores.loc[unit, "estimate"] == pytest.approx(expected, abs=1e-6, nan_ok=True)
        return
    raise AssertionError(f"no scores by {scoring}")


def concept_values(folder, upstream, made_of):  # type: ignore[no-untyped-def]
    if "probabilities" in upstream:
        place = folder / "probabilities" / upstream["probabilities"]
        names = pd.read_parquet(place / "texts.parquet")["description"]
        array = np.load(place / "probabilities.npy")
    else:
        place = folder / "labels" / upstream["labels"]
        names = pd.read_parquet(place / "attributes.parquet")["name"]
        array = np.load(place / "attributes.npy")
    assert {concept for each in made_of for concept in concepts_of(each)} <= set(names)
    return dict(zip(names, array.T.astype(float), strict=True))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["explainer=le_label", "estimator=combined", "aggregation=bragg_em"], "several concepts"),
        (["explainer=le_siglip", "sampler=active"], "weighted sums"),
        (
            ["unit=latent", "evaluation.split=all", "explainer=random", "scoring=oracle"],
            "the SAE was trained",
        ),
        (["explainer=invert", "evaluation.split=train", "scoring=oracle"], "judge itself"),
        (
            [
                "explainer=clip_dissect",
                "explainer_scorer=tiny",
                "evaluation.split=validation",
                "scoring=oracle",
            ],
            "the explainer's scorer's calibration",
        ),
    ],
)
def test_what_cannot_work_is_said_before_anything_runs(
    methods: TinyProject, overrides: list[str], message: str
) -> None:
    assert message in methods.run_here("plan", "sweep=one", *overrides, code=2)


class Endpoint(BaseHTTPRequestHandler):
    """A vision endpoint that speaks the real protocol and always sees a star."""

    asked: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (url,) = [
            part["image_url"]["url"]
            for message in body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]
        type(self).asked.append(base64.b64decode(url.split(",")[1]))
        reply = {
            "id": "1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '"star."'}}
            ],
            "usage": {"prompt_tokens": 900, "completion_tokens": 3, "total_tokens": 903},
        }
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    Endpoint.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()


def test_a_models_texts_are_asked_for_once_and_judged_as_any_other(
    methods: TinyProject, endpoint: str, tmp_path: Path
) -> None:
    project = methods.copy_to(tmp_path / "assay")
    run = ["sweep=one", "explainer=llm", "explainer.model=vlm", "scoring=oracle", "unit=neuron,latent"]
    planned = project.run_here("plan", *run, f"explainer.base_url={endpoint}")
    assert "llm (vlm at" in planned and "$0.00" in planned
    project.run_here("run", *run, f"explainer.base_url={endpoint}")
    assert all(image.startswith(b"\x89PNG") for image in Endpoint.asked)
    scores = pd.read_csv(project.root / "results/sweeps/one/latest/scores.csv")
    assert set(scores["description"].dropna()) == {"star"}
    n_asked = scores["description"].notna().sum()  # a dead latent is no question
    assert len(Endpoint.asked) == n_asked >= 6
    # Another port is no change; more units ask only about the new ones; lost results cost nothing.
    assert project.to_run(*run[1:], "explainer.base_url=http://127.0.0.1:9/v1", sweep="one") == {}
    shutil.rmtree(project.root / "results")
    project.run_here("run", *run, "explainer.base_url=http://127.0.0.1:9/v1")
    assert len(Endpoint.asked) == n_asked
    project.run_here("run", *run, "unit.indices=[0,1,2,3,4,5]", f"explainer.base_url={endpoint}")
    assert n_asked < len(Endpoint.asked) <= n_asked + 2


def test_units_stands_in_the_stage_table_for_activations_or_latents(methods: TinyProject) -> None:
    for meta in methods.meta("units"):
        assert UNITS not in meta["upstream"]
    assert sorted(str(list(meta["upstream"])) for meta in methods.meta("units")) == [
        "['activations']",
        "['latents']",
    ]


def test_another_scorer_of_the_explainer_is_another_variant_of_those_that_see_with_it(
    methods: TinyProject,
) -> None:
    both = ["explainer=clip_dissect,random", "explainer_scorer=shared,tiny", "scoring=oracle"]
    points = methods.prepare(*both, sweep="one").build.points
    names = sorted((point.choices["explainer"], point.variant) for point in points)
    shown = [("clip_dissect", f"explainer_scorer={name}") for name in ("shared", "tiny")]
    assert names == [*shown, ("random", "")]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["explainer=le_siglip", "explainer.split=all", "scoring=automatic"], "fitted to them"),
        (["explainer=le_siglip", "evaluation.split=train", "scoring=oracle"], "judge itself"),
        (
            [
                "explainer=clip_dissect",
                "explainer_scorer=shared",
                "evaluation.split=validation",
                "scoring=oracle",
            ],
            "the scorer's calibration",
        ),
        (
            ["explainer=invert", "explainer.length=1", "estimator=combined", "aggregation=bragg_em"],
            "with NOT",
        ),
    ],
)
def test_what_would_judge_itself_is_refused_whoever_scores(
    methods: TinyProject, overrides: list[str], message: str
) -> None:
    assert message in methods.run_here("plan", "sweep=one", *overrides, code=2)


def test_ratings_of_a_frozen_study_are_never_shown_under_two_variants(
    methods: TinyProject, tmp_path: Path
) -> None:
    """A study of composites: frozen, rated as simulated, read again; then asked for too much."""
    project = methods.copy_to(tmp_path / "assay")
    project.run_here("study", "freeze", "mine", "sweep=one")
    study = project.root / "studies" / "mine"
    inputs = pd.read_csv(study / "inputs.csv", keep_default_na=False)
    assert set(inputs["description"]) == {"red", "circle", "star", "square"}
    assert "distinct inputs" in project.run_here("cost", "--study", "mine")
    project.run_here("run", "sweep=one")
    (simulated,) = (
        project.root / "results/crowd" / str(meta["key"])
        for meta in project.meta("crowd")
        if set(pd.read_parquet(project.root / f"results/crowd/{meta['key']}/ratings.parquet")["description"])
        == {"red", "circle", "star", "square"}
    )
    shutil.copy(simulated / "ratings.parquet", study / "ratings.parquet")
    project.run_here("run", "sweep=one", "crowd=files", "crowd.study=mine")
    read = pd.read_csv(project.root / "results/sweeps/one/latest/scores.csv")
    project.run_here("run", "sweep=one")
    drawn = pd.read_csv(project.root / "results/sweeps/one/latest/scores.csv")
    pd.testing.assert_frame_equal(
        read[["unit", "description", "estimate"]], drawn[["unit", "description", "estimate"]]
    )
    both = ["crowd=files", "crowd.study=mine", "explainer.on_duplicate=stop,first"]
    assert "read the same ratings" in project.run_here("plan", "sweep=one", *both, code=2)


def test_a_unit_that_is_still_on_the_evaluation_images_is_not_asked_about(methods: TinyProject) -> None:
    folder = methods.root / "results"
    for meta in methods.meta("sampling"):
        undrawn = pd.read_parquet(folder / "sampling" / str(meta["key"]) / "undrawn.parquet")
        study = pd.read_parquet(folder / "sampling" / str(meta["key"]) / "study.parquet")
        assert study["activation"].notna().all()
        assert set(undrawn["unit"]).isdisjoint(study["unit"])
