"""The SAE track from images to tables: what it writes, and what a change must rerun."""

import fcntl
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import copy_project
from workflow_project import TinyProject, fill

from pipeline.errors import AssayError
from pipeline.matching import fbmp, match_score
from pipeline.plan.batches import batch_up
from pipeline.report.sae_figures import FIGURES
from pipeline.stages.sae_comparison import TABLES
from pipeline.stages.sparse import read_codes

BLOCK = """- - track=sae
  - dataset=shapes
  - dataset.n_images=100
  - dataset.size=32
  - model=tiny
  - layer=blocks.3
  - pairs=tiny
  - numerics.threads=1
  - stats.n_bootstrap=50
  - probe.max_epochs=3
  - sae.dictionary_size=16
  - sae.seed=0,1
"""
PAIRS = "name: shapes\nn_pairs: 14\nsize: 32\nseed: 0\n"
SWEEP = (
    f"{BLOCK}  - sae=topk,jumprelu\n  - sae.epochs=2\n  - sae.batch_size=16\n"
    f"{BLOCK}  - sae=frozen,random\n  - sae.k=4\n"
)

N = 8
ALL = {
    "images": 1,
    "splits": 1,
    "labels": 1,
    "activations": 1,
    "pairs": 1,
    "pair_activations": 1,
    "probe": 1,
    "sae": N,
    "latents": N,
    "pair_latents": N,
    "matching": N,
    "perturbation": N,
    "sanity": N,
    "sae_comparison": 1,
    "report": 1,
    "tracking": 1,
}
END = {"sae_comparison": 1, "report": 1, "tracking": 1}
FROM_MATCHING = {"matching": N, "perturbation": N, **END}


def all_but(*stages: str) -> dict[str, int]:
    return {stage: n for stage, n in ALL.items() if stage not in stages}


@pytest.fixture(scope="session")
def built_sae(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The tiny SAE sweep, run once for all tests; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-sae"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.is_dir():
            building = shared.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            project = TinyProject(fill(copy_project(building)))
            (project.root / "conf" / "sweep" / "tiny_sae.yaml").write_text(SWEEP)
            (project.root / "conf" / "pairs" / "tiny.yaml").write_text(PAIRS)
            project.run_here("run", "sweep=tiny_sae")
            building.rename(shared)
    return TinyProject(shared).copy_to(tmp_path_factory.mktemp("built-sae") / "assay")


CHANGES = [
    ([], {}),
    (["device=cpu", "loader.batch_size=7"], {}),
    # What only the crowd track reads changes nothing here.
    (["scorer=siglip_tiny", "explainer=random", "sampler=uniform", "crowd.miss=0.1", "unit.n=3"], {}),
    (["dataset.seed=1"], ALL),
    (["dataset.splits.test=0.4"], all_but("images", "labels", "activations", "pairs", "pair_activations")),
    (["dataset.labels.min_count=3"], all_but("images", "splits", "activations", "sae", "latents")),
    (["model.pool=max"], all_but("images", "splits", "labels", "pairs")),
    (["pairs.seed=1"], {"pairs": 1, "pair_activations": 1, "pair_latents": N, "perturbation": N, **END}),
    (["pairs=none"], END),
    (["matching.k=2"], FROM_MATCHING),
    (["matching.mode=reference"], FROM_MATCHING),
    (["matching=one_to_one"], FROM_MATCHING),
    (["sanity.cknna_k=5"], {"sanity": N, **END}),
    (["probe.seed=1"], {"probe": 1, **END}),
    (["stats.confidence=0.9"], END),
    (["tracking.project=other"], {"tracking": 1}),
]


@pytest.mark.parametrize(
    ("overrides", "expected"), CHANGES, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_changed_setting_reruns_exactly_its_stage_and_what_follows(
    built_sae: TinyProject, overrides: list[str], expected: dict[str, int]
) -> None:
    assert built_sae.to_run(*overrides, sweep="tiny_sae") == expected


def test_a_changed_k_trains_a_new_sae_and_never_takes_the_old_one(built_sae: TinyProject) -> None:
    """The reference silently reused an SAE of another K."""

    def saes(*overrides: str) -> set[tuple[str, str]]:
        jobs = built_sae.prepare(*overrides, sweep="tiny_sae").build.jobs
        return {job for job in jobs if job[0] == "sae"}

    assert saes("sae=topk", "sae.k=3").isdisjoint(saes("sae=topk", "sae.k=4"))


def test_saes_that_share_activations_train_in_one_process(built_sae: TinyProject) -> None:
    prepared = built_sae.prepare("dataset.seed=1", sweep="tiny_sae")
    batches = batch_up(prepared.build.jobs, prepared.status.to_run)
    assert [len(batch.jobs) for batch in batches if batch.stage == "sae"] == [N]


def latest(project: TinyProject) -> Path:
    return project.root / "results" / "sweeps" / "tiny_sae" / "latest"


def test_the_sweep_ends_in_tables_figures_and_words(built_sae: TinyProject) -> None:
    names = {path.name for path in latest(built_sae).iterdir()}
    tables = {f"{name}.csv" for name in (*TABLES, "points")}
    figures = {f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg")}
    assert names == tables | figures | {"methods.txt", "report.html"}
    assert "does the metric tell trained from untrained?" in (latest(built_sae) / "methods.txt").read_text()


def test_a_row_of_the_table_is_a_point_and_names_the_keys_of_its_numbers(built_sae: TinyProject) -> None:
    saes = pd.read_csv(latest(built_sae) / "saes.csv")
    assert sorted(saes["variant"]) == sorted(["topk", "jumprelu", "frozen", "random"] * 2)
    assert saes.loc[saes["variant"] == "topk", "n_frozen"].tolist() == [2, 2]
    for _, row in saes.iterrows():
        folder = built_sae.root / "results" / "matching" / row["matching_key"]
        attributes = pd.read_parquet(folder / "attributes.parquet")
        assert row["match_score"] == pytest.approx(attributes["f1"].mean())
        pairs = pd.read_parquet(
            built_sae.root / "results" / "perturbation" / row["perturbation_key"] / "pairs.parquet"
        )
        assert row["tapa_score"] == pytest.approx(pairs["contribution"].mean())
        assert row["tapa_score"] == pytest.approx(pairs["delta_add"].mean() - pairs["delta_rem"].mean())


def test_match_scores_are_of_the_test_split_and_coalitions_of_the_training_split(
    built_sae: TinyProject,
) -> None:
    """The reference chose and judged latents on the same images."""
    meta = next(m for m in built_sae.meta("matching"))
    folder = {name: built_sae.root / "results" / name / key for name, key in meta["upstream"].items()}  # type: ignore[attr-defined]
    split = pd.read_parquet(folder["splits"] / "splits.parquet")["split"].to_numpy()
    labels = np.load(folder["labels"] / "attributes.npy").astype(bool)
    codes = read_codes(folder["latents"])
    matching = fbmp(codes[split == "train"], labels[split == "train"], 0.5, 20)
    found = pd.read_parquet(built_sae.root / "results" / "matching" / str(meta["key"]) / "attributes.parquet")
    assert found["n_latents"].tolist() == [len(coalition) for coalition in matching.coalitions]
    expected = match_score(matching, codes[split == "test"], labels[split == "test"])
    assert found["f1"].mean() == pytest.approx(expected)


def test_pairs_of_another_dataset_and_a_split_that_judges_itself_are_refused(
    built_sae: TinyProject,
) -> None:
    for override, message in (
        ("pairs=syncub", "attributes are those of dataset=cub"),
        ("evaluation.split=train", "would judge itself"),
        ("evaluation.split=validation", "it chose the SAE's weights"),
        ("matching.beta=0.7", "not among betas"),
    ):
        with pytest.raises(AssayError, match=message):
            built_sae.prepare(override, sweep="tiny_sae")


def test_two_tracks_in_one_sweep_are_refused(built_sae: TinyProject) -> None:
    with pytest.raises(AssayError, match="track varies within the sweep"):
        built_sae.prepare("track=sae,crowd", sweep="tiny_sae")


def test_without_pairs_nothing_is_perturbed_and_the_tables_say_nothing_of_it(
    built_sae: TinyProject, tmp_path: Path
) -> None:
    copy = built_sae.copy_to(tmp_path / "assay")
    printed = copy.run_here("run", "sweep=tiny_sae", "pairs=none", "sae.seed=0", "tracking=none")
    assert "TAPAScore" not in printed.split("does the metric")[0]
    assert pd.read_csv(latest(copy) / "saes.csv")["tapa_score"].isna().all()


def test_an_sae_from_a_file_is_judged_like_the_one_that_it_is_a_copy_of(
    built_sae: TinyProject, tmp_path: Path
) -> None:
    copy = built_sae.copy_to(tmp_path / "assay")
    saes = pd.read_csv(latest(copy) / "saes.csv")
    row = saes[saes["variant"] == "topk"].iloc[0]
    file = copy.root / "results" / "sae" / row["sae_key"] / "sae.safetensors"
    block = BLOCK.replace(
        "  - sae.dictionary_size=16\n  - sae.seed=0,1\n", f"  - sae=file\n  - sae.path={file}\n"
    )
    (copy.root / "conf" / "sweep" / "foreign.yaml").write_text(block + "  - tracking=none\n")
    copy.run_here("run", "sweep=foreign")
    found = pd.read_csv(copy.root / "results" / "sweeps" / "foreign" / "latest" / "saes.csv").iloc[0]
    assert found["variant"] == "file"
    for name in ("match_score", "tapa_score", "explained_variance", "l0", "ms", "fms"):
        assert found[name] == pytest.approx(row[name]), name


def test_a_foreign_sae_is_known_by_its_files_whether_a_folder_or_a_weight_file_names_it(
    built_sae: TinyProject, tmp_path: Path
) -> None:
    copy = built_sae.copy_to(tmp_path / "assay")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "sae_weights.safetensors").write_bytes(b"weights")
    (folder / "cfg.json").write_text("{}")

    def key(path: Path) -> str:
        jobs = copy.prepare("sae=file", f"sae.path={path}", sweep="foreign").build.jobs
        return next(key for stage, key in jobs if stage == "sae")

    block = BLOCK.replace("  - sae.dictionary_size=16\n  - sae.seed=0,1\n", "  - tracking=none\n")
    (copy.root / "conf" / "sweep" / "foreign.yaml").write_text(block)

    for path in (folder, folder / "sae_weights.safetensors"):
        before = key(path)
        assert key(path) == before
        (folder / "cfg.json").write_text('{"architecture": "topk"}')
        assert key(path) != before
        (folder / "cfg.json").write_text("{}")
        assert key(path) == before
