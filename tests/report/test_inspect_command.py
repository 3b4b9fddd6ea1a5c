"""`assay inspect`: from results on disk to a unit's page, and what it says where something is not there."""

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from scipy.sparse import csr_array

from pipeline.cli import cli
from pipeline.composition import And, Not, linear
from pipeline.crowd.arrays import standardised
from pipeline.errors import AssayError
from pipeline.explainers.explanations import text_columns
from pipeline.files import read_json, write_json
from pipeline.inspect_command import inspect, write_units
from pipeline.inspect_results import UnitsResult
from pipeline.inspect_views import UnitViews
from pipeline.plan.project import Project
from pipeline.plan.store import Store
from pipeline.report.unit_page import Score, Text, UnitView
from pipeline.stages.sparse import write_codes

N_TRAIN, N_TEST, N_UNITS = 4, 30, 5
N = N_TRAIN + N_TEST
IDS = [f"image{i:02d}" for i in range(N)]
JUDGED, CONSTANT = (0, 2, 4), 4
KEYS = {
    "images": "k0000000000a1",
    "splits": "k0000000000a2",
    "activations": "k0000000000a3",
    "sae": "k0000000000a4",
    "latents": "k0000000000a5",
    "units": "kaaaaaaaaaaa1",
}
MODEL = {"name": "timm", "arch": "net"}
WORDS, FORMULA = linear([(0.5, "red"), (-1.25, "wet fur")]), And(("red", Not("blue")))


def activations() -> np.ndarray:
    """Return activations (N, U): unit 0 falls by image, but for a tie of the test split's first two."""
    found = np.random.default_rng(0).normal(size=(N, N_UNITS)).astype(np.float32)
    found[:, 0] = -np.arange(N)
    found[N_TRAIN : N_TRAIN + 2, 0] = 7
    found[:, CONSTANT] = 1
    return found


class Shop:
    """Writes results that look like a sweep's."""

    def __init__(self, folder: Path, *, latents: bool = False) -> None:
        (folder / "conf").mkdir(parents=True)
        (folder / "Snakefile").touch()
        self.project, self.n_made = Project(folder), 0
        self._units(latents)

    def put(
        self,
        stage: str,
        key: str,
        upstream: dict[str, str],
        settings: Any = None,
        at: float = 0.0,
        outputs: tuple[str, ...] = (),
    ) -> Path:
        """Write the meta of a result, which names its `outputs`, and return its folder."""
        place = self.project.result(stage, key)
        place.mkdir(parents=True)
        empty: dict[str, Any] = {name: {} for name in ("inputs", "code", "libraries", "files")}
        told = {"stage": stage, "key": key, "slice": settings or {}, "upstream": upstream}
        told["outputs"] = {name: {"size": 0, "sha256": ""} for name in outputs}
        write_json(place / "meta.json", {**told, "notes": [], "started": at, **empty})
        return place

    def key(self) -> str:
        self.n_made += 1
        return f"kc{self.n_made:011x}"

    def _units(self, latents: bool) -> None:
        images = {"images": KEYS["images"]}
        self._images(self.put("images", KEYS["images"], {}, {"dataset": {"name": "shapes"}}))
        splits = self.put("splits", KEYS["splits"], images)
        split = ["train"] * N_TRAIN + ["test"] * N_TEST
        pd.DataFrame({"image_id": IDS, "split": split}).to_parquet(splits / "splits.parquet")
        place = {"model": MODEL, "layer": "block.1"}
        layer = self.put("activations", KEYS["activations"], images, place, outputs=("block.1.npy",))
        np.save(layer / "block.1.npy", activations())
        source = {"activations": KEYS["activations"]}
        if latents:
            sae = self.put("sae", KEYS["sae"], {"splits": KEYS["splits"], **source})
            write_json(sae / "facts.json", {"variant": "topk", "dictionary_size": N_UNITS})
            codes = self.put("latents", KEYS["latents"], {"sae": KEYS["sae"], **source})
            write_codes(csr_array(np.maximum(activations(), 0)), codes)
            source = {"latents": KEYS["latents"]}
        units = self.put("units", KEYS["units"], source)
        sd = activations()[:, JUDGED].std(axis=0)
        table = pd.DataFrame({"unit": JUDGED, "n_units": N_UNITS, "mean": 0.0, "sd": sd, "maximum": 9.0})
        flags = ["constant_activation" if unit == CONSTANT else "" for unit in JUDGED]
        table.assign(positive_share=0.5, flags=flags).to_parquet(units / "units.parquet")

    def _images(self, place: Path) -> None:
        rows = []
        for i, image_id in enumerate(IDS):
            stream = io.BytesIO()
            Image.new("RGB", (12, 8), (8 * i, 0, 0)).save(stream, "PNG")
            (place / f"{image_id}.png").write_bytes(stream.getvalue())
            checksum = hashlib.sha256(stream.getvalue()).hexdigest()
            rows.append((image_id, "result", f"{image_id}.png", "", "", 12, 8, checksum))
        columns = ["image_id", "source", "path", "member", "split", "width", "height", "checksum"]
        pd.DataFrame(rows, columns=columns).to_parquet(place / "images.parquet")

    def explain(
        self,
        method: str,
        texts: dict[int, Any],
        reasons: dict[int, str] | None = None,
        at: float = 0.0,
        **settings: Any,
    ) -> str:
        """Write an explanations result; texts: unit to a composition."""
        key = self.key()
        place = self.put(
            "explanations", key, {"units": KEYS["units"]}, {"explainer": {"name": method, **settings}}, at
        )
        rows = [{"method": method, "unit": unit, **text_columns(text)} for unit, text in texts.items()]
        pd.DataFrame(rows).assign(score=0.5).to_parquet(place / "explanations.parquet")
        left = [{"unit": unit, "reason": why, "method": method} for unit, why in (reasons or {}).items()]
        pd.DataFrame(left, columns=["unit", "reason", "method"]).to_parquet(place / "unexplained.parquet")
        return key

    def probabilities(self, explanations: str, values: dict[str, float]) -> str:
        """Write a probabilities result: image i has the value of its text plus i / 100."""
        key = self.key()
        place = self.put("probabilities", key, {"explanations": explanations}, {"scorer": {"name": "tiny"}})
        pd.DataFrame({"description": list(values)}).to_parquet(place / "texts.parquet")
        np.save(place / "probabilities.npy", np.add.outer(np.arange(N) / 100, list(values.values())))
        return key

    def ratings(
        self, sampling: str, rated: list[tuple[str, str, str, bool]], settings: dict[str, Any] | None = None
    ) -> str:
        """Write a crowd result; rated: worker, image, text, yes or no."""
        key = self.key()
        place = self.put("crowd", key, {"sampling": sampling}, {"crowd": settings or {"name": "simulated"}})
        columns = ["worker", "image_id", "description", "rating"]
        pd.DataFrame(rated, columns=columns).to_parquet(place / "ratings.parquet")
        return key

    def drawn(self, sampling: str, draws: list[tuple[str, str]]) -> None:
        """Write a study's draws: image and text."""
        table = pd.DataFrame(draws, columns=["image_id", "description"]).assign(probability=0.5)
        table.to_parquet(self.project.result("sampling", sampling) / "study.parquet")

    def read(self, stage: str, key: str, files: dict[str, str]) -> None:
        """Say of a result which files it read: setting to checksum."""
        path = self.project.result(stage, key) / "meta.json"
        write_json(path, {**read_json(path), "files": files})

    def ran(self, *points: tuple[str, str]) -> None:
        """Write the table of a run: overrides and the key of explanations."""
        path = self.project.results / "sweeps" / "mine" / "k1" / "points.csv"
        path.parent.mkdir(parents=True)
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([["overrides", "explanations_key"], *points])

    def score(
        self,
        kind: str,
        upstream: dict[str, str],
        estimates: dict[tuple[str, int, str], float],
        at: float = 0.0,
        **settings: Any,
    ) -> str:
        """Write a scoring result; estimates: method, unit, text to a score."""
        key = self.key()
        place = self.put("scoring", key, upstream, {"scoring": {"name": kind}, **settings}, at)
        rows = [(*name, value, value - 0.1, value + 0.1) for name, value in estimates.items()]
        table = pd.DataFrame(rows, columns=["method", "unit", "description", "estimate", "low", "high"])
        counts = table.assign(target="rated", n_images=9, n_ratings=27, flags="")
        counts.to_parquet(place / "scoring.parquet")
        return key


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "p")


def view(shop: Shop, unit: int, key: str = KEYS["units"]) -> UnitView:
    return UnitViews(UnitsResult(shop.project, key)).view(unit)


def shown(made: UnitView, kind: str) -> list[str]:
    (group,) = [group for group in made.groups if group.kind == kind]
    return [picture.image_id for picture in group.pictures]


def said(made: UnitView, image_id: str) -> dict[str, str]:
    pictures = [picture for group in made.groups for picture in group.pictures]
    (picture,) = [picture for picture in pictures if picture.image_id == image_id]
    return {words.letter: words.words for words in picture.said}


def of_method(made: UnitView, method: str) -> list[Text]:
    return [text for text in made.texts if text.method == method]


def scores(made: UnitView, method: str) -> tuple[Score, ...]:
    (text,) = of_method(made, method)
    return text.scores


def run(shop: Shop, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.chdir(shop.project.root)
    return CliRunner().invoke(inspect, words, catch_exceptions=False)


def test_a_page_of_one_unit_is_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.explain("csv", {0: "red & <b>bold</b>"})
    done = run(shop, monkeypatch, "kaaa", "--unit", "0")
    folder = shop.project.results / "pages" / f"units-{KEYS['units']}"
    assert done.output == f"{folder / 'unit-0.html'}\n"
    assert [path.name for path in folder.iterdir()] == ["unit-0.html"]
    page = (folder / "unit-0.html").read_text()
    assert "red &amp; &lt;b&gt;bold&lt;/b&gt;" in page and "index.html" not in page


def test_several_units_have_an_index(shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["kaaa", "--unit", "2", "--unit", "0", "--unit", "2", "--out", str(out)]
    assert run(shop, monkeypatch, *words).output == f"{out / 'index.html'}\n"
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "unit-0.html", "unit-2.html"]
    assert 'href="index.html"' in (out / "unit-2.html").read_text()


def test_pictures_instead_of_pages(shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(shop, monkeypatch, "kaaa", "--unit", "0", "--unit", "2", "--png", "--out", str(out))
    assert done.output == f"{out / 'unit-0.png'}\n{out / 'unit-2.png'}\n"
    with Image.open(out / "unit-0.png") as sheet:
        assert sheet.width == 8 * 168 + 8


def test_the_same_results_give_the_same_page_and_none_that_a_run_would_judge(shop: Shop) -> None:
    shop.explain("csv", {0: "red"})
    before = list(Store(shop.project).all())
    (first,) = write_units(shop.project, "kaaa", [0])
    content = first.read_bytes()
    (again,) = write_units(shop.project, "kaaa", [0])
    assert again.read_bytes() == content
    assert list(Store(shop.project).all()) == before


def test_images_are_those_of_the_evaluation_split(shop: Shop) -> None:
    made = view(shop, 0)
    assert shown(made, "top") == IDS[N_TRAIN : N_TRAIN + 8]
    assert shown(made, "median") == IDS[N_TRAIN + 11 : N_TRAIN + 19]
    rest = {*IDS[N_TRAIN + 8 : N_TRAIN + 11], *IDS[N_TRAIN + 19 :]}
    assert set(shown(made, "random")) < rest and len(shown(made, "random")) == 8
    first = made.groups[0].pictures[0]
    values = activations()[N_TRAIN:, 0].astype(np.float64)
    assert (first.rank, first.activation) == (1, 7.0)
    assert first.standardised == pytest.approx((7 - values.mean()) / values.std())
    assert made.facts.mean == pytest.approx(values.mean())
    assert (made.facts.maximum, made.facts.positive_share) == (7.0, 2 / N_TEST)


def test_the_split_is_that_of_the_scores(shop: Shop) -> None:
    explained = shop.explain("csv", {0: "red"})
    upstream = {"explanations": explained, "splits": KEYS["splits"]}
    shop.score("automatic", upstream, {("csv", 0, "red"): 0.5}, evaluation={"split": "train"})
    made = view(shop, 0)
    assert shown(made, "top") == IDS[:N_TRAIN]
    assert shown(made, "median") == []


def test_latents_are_units_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", latents=True)
    views = UnitViews(UnitsResult(shop.project, "kaaa"))
    made = views.view(0)
    assert made.facts.positive_share == 2 / N_TEST
    assert [picture.activation for picture in made.groups[0].pictures[:3]] == [7, 7, 0]
    assert ("SAE", "topk") in views.about().facts
    assert views.about().place == "latents of an SAE on layer block.1 of net"
    assert views.about().name(0) == "Latent 0" and ("latents of the SAE", "5") in views.about().facts
    with pytest.raises(AssayError, match="give --unit K: the judged latents are 0, 2, 4"):
        views.require([])


def test_latents_need_no_activations_any_more(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", latents=True)
    (shop.project.result("activations", KEYS["activations"]) / "meta.json").unlink()
    assert shown(view(shop, 0), "top") == IDS[N_TRAIN : N_TRAIN + 8]


def test_from_any_key_all_methods_of_the_units_are_found(shop: Shop) -> None:
    first, second = shop.explain("csv", {0: "red"}), shop.explain("invert", {0: "blue"})
    scored = shop.score("oracle", {"explanations": second}, {("invert", 0, "blue"): 0.5})
    shop.put("units", "kbbbbbbbbbbb1", {"activations": KEYS["activations"]})
    shop.put("explanations", shop.key(), {"units": "kbbbbbbbbbbb1"})
    for key in (KEYS["units"], first, second, scored, f"scoring/{scored}"):
        made = view(shop, 0, key)
        assert [(text.letter, text.method, text.description) for text in made.texts] == [
            ("A", "csv", "red"),
            ("B", "invert", "blue"),
        ]
        assert [score.estimate for score in scores(made, "invert")] == [0.5]
        assert scores(made, "csv") == ()


def test_methods_that_say_the_same_share_a_letter(shop: Shop) -> None:
    for method, text in (("a", "red"), ("b", "blue"), ("c", "red")):
        shop.explain(method, {0: text})
    assert [text.letter for text in view(shop, 0).texts] == ["A", "B", "A"]


def test_a_score_knows_its_judge_interval_and_rank(shop: Shop) -> None:
    explained = shop.explain("csv", {0: "red", 2: "blue", 4: "dog"})
    estimates = {("csv", 0, "red"): 0.25, ("csv", 2, "blue"): 0.5, ("csv", 4, "dog"): np.nan}
    estimator = {"name": "combined", "confidence": 0.9}
    sampling = shop.put("sampling", shop.key(), {"explanations": explained}).name
    crowd = shop.ratings(sampling, [])
    shop.score(
        "crowd",
        {"sampling": sampling, "crowd": crowd},
        estimates,
        aggregation={"name": "bragg_em"},
        estimator=estimator,
    )
    (score,) = scores(view(shop, 0), "csv")
    assert score.by == "simulated raters, bragg_em, combined"
    assert (score.low, score.high, score.confidence, score.target) == (0.15, 0.35, 0.9, "rated")
    assert (score.rank, score.n_ranked, score.n_images, score.n_ratings) == (2, 2, 9, 27)
    (none,) = scores(view(shop, 4), "csv")
    assert np.isnan(none.estimate) and none.rank == 0


def test_scores_of_other_settings_say_what_differs_raters_first(shop: Shop) -> None:
    explained = shop.explain("csv", {0: "red"})
    for kind, settings, at in (
        ("automatic", {"scorer": {"name": "tiny", "seed": 1}}, 3.0),
        ("automatic", {"scorer": {"name": "tiny", "seed": 2}}, 2.0),
        ("oracle", {}, 4.0),
        ("crowd", {"aggregation": {"name": "avg"}, "estimator": {"name": "importance"}}, 1.0),
    ):
        shop.score(kind, {"explanations": explained}, {("csv", 0, "red"): at}, at, **settings)
    assert [(score.by, score.settings, score.estimate) for score in scores(view(shop, 0), "csv")] == [
        ("raters, avg, importance", "", 1.0),
        ("scorer tiny", "scorer.seed=1", 3.0),
        ("scorer tiny", "scorer.seed=2", 2.0),
        ("labels of the dataset", "", 4.0),
    ]


def test_of_equal_settings_the_newest_result_counts_or_the_one_asked_for(shop: Shop) -> None:
    old, new = (shop.explain("csv", {0: text}, at=at) for text, at in (("old", 1.0), ("new", 2.0)))
    (text,) = view(shop, 0).texts
    assert text.description == "new"
    (text,) = view(shop, 0, old).texts
    assert text.description == "old"
    assert new != old
    about = UnitViews(UnitsResult(shop.project, "kaaa")).about()
    assert ("older results of the same settings, not shown", "1") in about.facts


@pytest.mark.parametrize("setting", ["explainer.path", "explainer.prompt", "explainer.vocabulary"])
def test_another_content_of_a_file_is_another_setting(shop: Shop, setting: str) -> None:
    """A newer file with a mistake hides neither the text of the good one nor its scores."""
    good, bad = (shop.explain("csv", {0: text}, at=at) for text, at in (("good", 1.0), ("bad", 2.0)))
    shop.read("explanations", good, {setting: "123456" + "f" * 58})
    shop.read("explanations", bad, {setting: "abcdef" + "f" * 58})
    shop.score("oracle", {"explanations": good}, {("csv", 0, "good"): 0.5})
    made = view(shop, 0)
    assert [(text.settings, text.description, len(text.scores)) for text in made.texts] == [
        (f"{setting}=file abcdef", "bad", 0),
        (f"{setting}=file 123456", "good", 1),
    ]
    assert UnitsResult(shop.project, "kaaa").n_older == 0


def test_a_file_has_the_name_that_its_run_gave_it(shop: Shop) -> None:
    first, second = shop.explain("csv", {0: "red"}, at=2.0), shop.explain("csv", {0: "blue"}, at=1.0)
    again = shop.explain("csv", {0: "older code"}, at=0.0)
    for key, checksum in ((first, "1" * 64), (second, "2" * 64), (again, "2" * 64)):
        shop.read("explanations", key, {"explainer.path": checksum})
    shop.ran(
        ("explainer=csv explainer.path=my/texts.csv unit.n=5", first),
        ("+explainer.path='my/my texts.csv'", second),
    )
    assert [text.settings for text in view(shop, 0).texts] == [
        "explainer.path=texts.csv 111111",
        "explainer.path=my texts.csv 222222",
    ]
    assert UnitsResult(shop.project, "kaaa").n_older == 1


def test_ratings_that_arrived_later_make_the_earlier_scores_older(shop: Shop) -> None:
    explained = shop.explain("csv", {0: "red"})
    for at, checksum in ((1.0, "1" * 64), (2.0, "2" * 64)):
        sampling = shop.put("sampling", shop.key(), {"explanations": explained}, at=at).name
        crowd = shop.ratings(sampling, [], {"name": "files", "study": "pilot"})
        shop.read("crowd", crowd, {"crowd.study.ratings": checksum})
        shop.score("crowd", {"sampling": sampling, "crowd": crowd}, {("csv", 0, "red"): at / 4}, at)
    assert [(score.settings, score.estimate) for score in scores(view(shop, 0), "csv")] == [("", 0.5)]


def test_one_method_with_two_settings_has_two_texts(shop: Shop) -> None:
    shop.explain("clip", {0: "red"}, similarity="cos", at=2.0)
    shop.explain("clip", {0: "blue"}, similarity="wpmi", at=1.0)
    assert [(text.settings, text.description) for text in view(shop, 0).texts] == [
        ("explainer.similarity=cos", "red"),
        ("explainer.similarity=wpmi", "blue"),
    ]


def test_a_unit_without_a_text_has_the_methods_reason(shop: Shop) -> None:
    shop.explain("csv", {0: "red"}, {4: "constant activation"})
    made = view(shop, 4)
    (text,) = made.texts
    assert (text.letter, text.description, text.reason) == ("", "", "constant activation")
    assert made.facts.flags == ("constant_activation",)


def test_a_unit_with_one_activation_has_random_images_only(shop: Shop) -> None:
    (group,) = view(shop, CONSTANT).groups
    assert (group.kind, group.rule) == ("random", f"Drawn from {N_TEST} images with a fixed seed.")
    assert len({picture.image_id for picture in group.pictures} & {*IDS[N_TRAIN:]}) == 8
    assert np.isnan(group.pictures[0].standardised)


def test_a_unit_that_was_not_judged_is_shown_all_the_same(shop: Shop) -> None:
    shop.explain("csv", {0: "red"})
    made = view(shop, 1)
    values = activations()[N_TRAIN:, 1]
    assert not made.judged and made.texts == ()
    assert shown(made, "top")[0] == IDS[N_TRAIN + int(values.argmax())]


def test_pictures_have_what_scorer_and_raters_say(shop: Shop) -> None:
    """The same raters in two studies count once each; other raters are told apart."""
    explained = shop.explain("csv", {0: "red"})
    first, second = IDS[N_TRAIN], IDS[N_TRAIN + 1]
    rated = [("w1", first, "red", True), ("w2", first, "red", False), ("w1", first, "blue", True)]
    probabilities = shop.probabilities(explained, {"blue": 0.1, "red": 0.2})
    for own in (rated, [*rated, ("w3", first, "red", True), ("w1", second, "red", False)]):
        sampling = shop.put(
            "sampling",
            shop.key(),
            {"explanations": explained, "probabilities": probabilities},
            {"sampler": len(own)},
        ).name
        upstream = {"sampling": sampling, "crowd": shop.ratings(sampling, own)}
        shop.score("crowd", upstream, {("csv", 0, "red"): 0.5})
    made = view(shop, 0)
    assert said(made, first) == {"A": "24% · 2 of 3 yes"}
    assert said(made, second) == {"A": "25% · 0 of 1 yes"}
    assert said(made, IDS[N_TRAIN + 2]) == {"A": "26%"}
    crowd = shop.ratings(sampling, [("w1", first, "red", False)], {"name": "simulated", "seed": 5})
    shop.score("crowd", {"sampling": sampling, "crowd": crowd}, {("csv", 0, "red"): 0.5})
    assert said(view(shop, 0), first) == {"A": "24% · 2 of 3 yes · 0 of 1 yes (crowd.seed=5)"}


def test_probabilities_that_were_cleaned_away_are_those_of_the_draws(shop: Shop) -> None:
    explained = shop.explain("csv", {0: "red"})
    upstream = {"explanations": explained, "probabilities": "k0000000000ff"}
    sampling = shop.put("sampling", shop.key(), upstream)
    drawn = pd.DataFrame({"image_id": [IDS[N_TRAIN]] * 2, "description": "red", "probability": 0.875})
    drawn.to_parquet(sampling / "study.parquet")
    shop.score("crowd", {"sampling": sampling.name}, {("csv", 0, "red"): 0.5})
    made = view(shop, 0)
    assert said(made, IDS[N_TRAIN]) == {"A": "88%"}
    assert said(made, IDS[N_TRAIN + 1]) == {}


def test_a_composite_text_is_combined_for_the_scorer_and_told_by_concept_for_raters(shop: Shop) -> None:
    first = IDS[N_TRAIN]
    explained = shop.explain("le", {0: WORDS, 2: FORMULA})
    probabilities = shop.probabilities(explained, {"red": 0.5, "blue": 0.25, "wet fur": 0.1})
    sampling = shop.put(
        "sampling", shop.key(), {"explanations": explained, "probabilities": probabilities}
    ).name
    crowd = shop.ratings(sampling, [("w1", first, "red", True), ("w1", first, "wet fur", False)])
    shop.drawn(sampling, [(first, "0.5 red - 1.25 wet fur")])
    names = {("le", 0, "0.5 red - 1.25 wet fur"): 0.5, ("le", 2, "red AND NOT blue"): 0.25}
    shop.score("crowd", {"sampling": sampling, "crowd": crowd}, names)
    made = view(shop, 0)
    (text,) = made.texts
    assert (text.description, text.composition) == ("0.5 red - 1.25 wet fur", WORDS)
    assert text.facts == (("the method's own score", "0.5"),)
    value = 0.5 * 0.54 - 1.25 * 0.14
    assert said(made, first) == {"A": f"{value:.2f} · yes: red 1/1, wet fur 0/1"}
    formula = view(shop, 2)
    top = shown(formula, "top")[0]
    i = IDS.index(top) / 100
    assert said(formula, top)["A"].startswith(f"{100 * (0.5 + i) * (0.75 - i):.0f}%")


def test_ratings_of_a_concept_for_another_text_are_none_of_the_composite(shop: Shop) -> None:
    """Of two images on which "red" is rated, one was drawn for the sum, and one for "red" alone."""
    drawn, other = IDS[N_TRAIN : N_TRAIN + 2]
    explained, plain = shop.explain("le", {0: WORDS}), shop.explain("a", {0: "red"})
    for explanations, draws in (
        (explained, [(drawn, "0.5 red - 1.25 wet fur")]),
        (plain, [(other, "red"), (drawn, "red")]),
    ):
        sampling = shop.put("sampling", shop.key(), {"explanations": explanations}).name
        shop.drawn(sampling, draws)
        concepts = ("red", "wet fur") if explanations == explained else ("red",)
        rated = [("w1", image, concept, True) for image, _ in draws for concept in concepts]
        crowd = shop.ratings(sampling, rated)
        shop.score("crowd", {"sampling": sampling, "crowd": crowd}, {("le", 0, "x"): 0.5})
    made = view(shop, 0)
    assert [text.description for text in made.texts] == ["red", "0.5 red - 1.25 wet fur"]
    assert said(made, drawn)["A"].endswith("1 of 1 yes")
    assert said(made, drawn)["B"].endswith("yes: red 1/1, wet fur 1/1")
    assert said(made, other)["A"].endswith("1 of 1 yes")
    assert "yes" not in said(made, other).get("B", "")


def study(shop: Shop, unit: int, activation: np.ndarray) -> str:
    """Write a scoring result of a frozen study, which comes of no units."""
    place = {"dataset.name": "shapes", "model.arch": "net", "layer": "block.1", "explainer": {"name": "csv"}}
    sampling = shop.put("sampling", shop.key(), {}, place)
    draws = {"image_id": IDS[N_TRAIN:], "unit": unit, "method": "csv", "description": "red"}
    table = pd.DataFrame({**draws, "activation": activation, "probability": 0.5})
    table.to_parquet(sampling / "study.parquet")
    write_json(sampling / "facts.json", {"split": "test"})
    crowd = shop.ratings(sampling.name, [("w1", IDS[N_TRAIN], "red", True)], {"name": "files"})
    upstream = {"sampling": sampling.name, "crowd": crowd}
    return shop.score("crowd", upstream, {("csv", unit, "red"): 0.75}, aggregation={"name": "bragg_em"})


def test_scores_of_a_frozen_study_join_the_layers_texts(shop: Shop) -> None:
    shop.explain("csv", {0: "red"})
    deviations = standardised(activations()[N_TRAIN:, 0].astype(np.float64))
    key = study(shop, 0, deviations)
    for asked in (key, KEYS["units"]):
        made = view(shop, 0, asked)
        assert [(score.by, score.estimate) for score in scores(made, "csv")] == [("raters, bragg_em", 0.75)]
        assert said(made, IDS[N_TRAIN])["A"].endswith("1 of 1 yes")
        assert made.notes == ()


def test_a_study_of_a_text_that_no_result_has_is_shown_as_such(shop: Shop) -> None:
    shop.explain("csv", {0: "blue"})
    study(shop, 0, standardised(activations()[N_TRAIN:, 0].astype(np.float64)))
    assert [(text.description, text.settings) for text in view(shop, 0).texts] == [
        ("blue", ""),
        ("red", "of a study"),
    ]


def test_a_study_of_another_unit_with_that_number_is_left_out_with_a_note(shop: Shop) -> None:
    shop.explain("csv", {0: "red"})
    key = study(shop, 0, standardised(activations()[N_TRAIN:, 1].astype(np.float64)))
    made = view(shop, 0)
    assert scores(made, "csv") == () and said(made, IDS[N_TRAIN]) == {}
    (note,) = made.notes
    assert note.startswith(f"scoring/{key} is of a study of this layer (csv), and is left out")


def test_a_study_of_a_layer_without_units_says_what_to_run(shop: Shop) -> None:
    key = study(shop, 0, np.zeros(N_TEST))
    (shop.project.result("units", KEYS["units"]) / "meta.json").unlink()
    with pytest.raises(AssayError, match=r"there is no units result of shapes/net/block\.1 that says"):
        UnitsResult(shop.project, key)


def test_a_unit_that_the_layer_lacks_is_refused_before_anything_is_written(
    shop: Shop, tmp_path: Path
) -> None:
    with pytest.raises(AssayError, match=f"--unit 5: the layer of units/{KEYS['units']} has 5 units, 0 to 4"):
        write_units(shop.project, "kaaa", [0, 5], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_is_told_the_nearest(shop: Shop) -> None:
    with pytest.raises(AssayError, match=f"no result 'kaaaaaaaaaab1' in .*; nearest: '{KEYS['units']}'"):
        UnitsResult(shop.project, "kaaaaaaaaaab1")
    with pytest.raises(AssayError, match="no result 'k777'"):
        UnitsResult(shop.project, "k777")
    with pytest.raises(AssayError, match="'neurons' is no key"):
        UnitsResult(shop.project, "neurons")


def test_a_key_that_fits_several_results_is_refused(shop: Shop) -> None:
    shop.explain("a", {0: "red"}), shop.explain("b", {0: "red"})
    with pytest.raises(AssayError, match="'kc' fits 2 results"):
        UnitsResult(shop.project, "kc")


def test_a_key_from_before_the_units_is_refused(shop: Shop) -> None:
    with pytest.raises(AssayError, match="is a result of the stage images, which comes of no units"):
        UnitsResult(shop.project, KEYS["images"])


def test_activations_that_were_cleaned_away_are_named_with_the_way_back(shop: Shop) -> None:
    (shop.project.result("activations", KEYS["activations"]) / "meta.json").unlink()
    with pytest.raises(
        AssayError, match=f"activations/{KEYS['activations']}, of which .* delete results/units/"
    ):
        write_units(shop.project, "kaaa", [0])


def test_an_image_that_changed_is_named(shop: Shop) -> None:
    (shop.project.result("images", KEYS["images"]) / f"{IDS[N_TRAIN]}.png").write_bytes(b"another")
    with pytest.raises(AssayError, match=f"image '{IDS[N_TRAIN]}' changed since its manifest was made"):
        write_units(shop.project, "kaaa", [0])


def move_images(shop: Shop) -> Path:
    """Put the images into a folder of the user's."""
    place, home = shop.project.result("images", KEYS["images"]), shop.project.root / "pictures"
    home.mkdir()
    for path in place.glob("*.png"):
        path.rename(home / path.name)
    table = pd.read_parquet(place / "images.parquet")
    table.assign(source="root").to_parquet(place / "images.parquet")
    return home


def test_images_in_a_users_folder_are_found_where_the_option_says(shop: Shop) -> None:
    home = move_images(shop)
    with pytest.raises(AssayError, match="no sweep that was run with them says it: give --root FOLDER"):
        write_units(shop.project, "kaaa", [0])
    assert write_units(shop.project, "kaaa", [0], root=home)


def test_images_in_a_users_folder_are_found_where_the_run_found_them(shop: Shop) -> None:
    move_images(shop)
    project = shop.project
    (project.conf / "dataset").mkdir()
    (project.conf / "dataset" / "folder.yaml").write_text("name: folder\nroot: ???\n")
    (project.conf / "config.yaml").write_text("defaults:\n  - dataset: folder\n  - _self_\n")
    path = project.results / "sweeps" / "mine" / "k1" / "points.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as stream:
        row = ["dataset=folder dataset.root=pictures", KEYS["images"]]
        csv.writer(stream).writerows([["overrides", "images_key"], row])
    assert write_units(project, "kaaa", [0])


def test_the_command_line_has_it_and_its_mistakes_have_no_traceback(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.project.root)
    done = CliRunner().invoke(cli, ["inspect", "kaaa", "--unit", "9"])
    assert done.exit_code == 2 and "--unit 9: the layer" in done.output


def test_without_a_unit_the_judged_ones_are_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.project.root)
    done = CliRunner().invoke(cli, ["inspect", "kaaa"])
    assert done.exit_code == 2 and "give --unit K: the judged units are 0, 2, 4\n" in done.output
    path = shop.project.result("units", KEYS["units"]) / "units.parquet"
    table = pd.read_parquet(path)
    pd.concat([table.head(1).assign(unit=i) for i in range(3, 15)]).to_parquet(path)
    with pytest.raises(AssayError, match=r"are 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, \.\.\.$"):
        write_units(shop.project, "kaaa", [])
