"""The stage table: what each stage reads, what it comes after, and what else its numbers depend on.

A stage may have several rows; the first whose `when` fits a point's config is the point's stage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from pipeline.errors import AssayError


@dataclass(frozen=True)
class Stage:
    """One cached step.

    reads: dotted config keys; with `after` they alone can make the stage stale.
    ignores: keys inside `reads` that are left out of its slice.
    after: upstream stages; UNITS stands for the one that `units_stage` names.
    speed: keys that change speed and no result; never in a key.
    opens: paths that the stage opens and whose content upstream keys already cover.
    libraries: distributions whose versions enter the key.
    variants: (config key, package): the module that the key's value names is part of the code.
    files: project files that are not Python. when: config values that choose this row, one or several.
    process: runs in its own process, because it imports torch or much memory.
    together: jobs that differ only in these keys, and in the results of the stages in `shares`, share one
    pass. batch: keys per job at most.
    resumable: keeps what it has done of a job as it goes, so that a killed one goes on from there.
    big: a large intermediate that may go once what follows exists.
    study: files of the frozen study (`crowd.study`) that the stage reads.
    """

    reads: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    when: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    scope: Literal["point", "sweep"] = "point"
    process: bool = False
    together: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    resumable: bool = False
    batch: int = 32
    big: bool = False
    study: tuple[str, ...] = ()


TORCH = ("torch", "timm", "torchvision", "pillow")
LOADED_SCORER = (*TORCH, "open_clip_torch")
SPEED = ("loader", "device")
DATASET = (("dataset.name", "pipeline.datasets"),)
MODEL = (("model.name", "pipeline.models"),)
SCORER = (("scorer.name", "pipeline.scorers"),)
EXPLAINER = (("explainer.name", "pipeline.explainers"),)
UNITS = "unit_activations"
"""In `after`: the stage with the activations of the judged units, by `unit.name`."""
AGGREGATION = (
    ("aggregation.name", "pipeline.crowd.aggregation"),
    ("estimator.name", "pipeline.crowd.estimators"),
)
SIMILARITY = (("explainer.similarity", "pipeline.explainers.similarities"),)
SOLVER = "scikit-learn"
SCORING = ("numpy", "pandas", "scipy")
RUNS = (("track", "pipeline.stages.runs"),)
SAE = (("sae.name", "pipeline.saes"),)
ENDPOINT = tuple(
    f"explainer.{name}"
    for name in (
        "base_url",
        "api_key_env",
        "timeout",
        "max_retries",
        "concurrency",
        "price_input",
        "price_output",
        "image_tokens",
        "max_cost",
    )
)
"""Where a model is served and what it may cost, which no answer depends on."""
VLM = (("vlm.name", "pipeline.vlms"),)
QUESTIONS = (("questions.name", "pipeline.vqa"),)
ATTRIBUTION = (("attribution.name", "pipeline.attributions"),)
LOADED_VLM = ("torch", "transformers", "pillow", "numpy")
TEMPLATES = "pipeline/report/templates"
SAMPLE_SHEETS = tuple(
    f"{TEMPLATES}/{name}" for name in ("page.css", "vlm_samples.css", "vlm_sheet.html", "vlm_sheets.html")
)
SAMPLE_PAGE = (*SAMPLE_SHEETS, *(f"{TEMPLATES}/vlm_samples.{kind}" for kind in ("html", "js")))
REPORT_PAGE = (*SAMPLE_SHEETS, *(f"{TEMPLATES}/report.{kind}" for kind in ("html", "css", "js")))
OF_BLURRED = ("ig", "occlusion", "inverted_occlusion")
"""Explainers that see the game's zero state."""
CROWD_KIT = ("dawid_skene", "glad", "mace")
ASKING = (
    "crowd.inputs_per_task",
    "crowd.reward",
    "crowd.image_base_url",
    "crowd.attention_checks",
    "crowd.error_rate",
)
"""How people are asked, which goes into a study at its freeze, and what is believed of them; no simulated
rater sees it."""


def _capture(images: str, root: str) -> tuple[Stage, ...]:
    """Return the rows of a stage that runs a model on the images of `images`, which may lie at `root`."""
    row = Stage(
        reads=("model", "layer", "numerics"),
        after=(images,),
        opens=(root,),
        speed=SPEED,
        libraries=TORCH,
        variants=MODEL,
        process=True,
        together=("layer",),
        batch=1000,
        big=True,
    )
    open_clip = replace(row, when={"model.name": "open_clip"}, libraries=(*TORCH, "open_clip_torch"))
    return (open_clip, row)


def _scorer(group: str) -> tuple[Stage, ...]:
    """Return the rows of a stage that trains a scorer, or states what a pretrained one is."""
    pretrained = Stage(
        reads=(group,),
        ignores=(f"{group}.calibration",),
        libraries=LOADED_SCORER,
        variants=((f"{group}.name", "pipeline.scorers"),),
        process=True,
    )
    trained = replace(
        pretrained,
        when={f"{group}.name": "siglip_tiny"},
        reads=(group, "numerics"),
        after=("images", "splits", "labels"),
        opens=("dataset.root",),
        speed=SPEED,
    )
    return (trained, pretrained)


def _image_embeddings(group: str, scorer: str) -> tuple[Stage, ...]:
    row = Stage(
        reads=(group, "numerics"),
        ignores=(f"{group}.calibration",),
        after=("images", scorer),
        opens=("dataset.root",),
        speed=SPEED,
        libraries=LOADED_SCORER,
        variants=((f"{group}.name", "pipeline.scorers"),),
        process=True,
        big=True,
    )
    return (row,)


def _by_scorer(row: Stage) -> tuple[Stage, ...]:
    """Return the rows of an explainer that compares images with words: by the judge's scorer or its own."""
    return tuple(
        replace(
            row,
            when={**row.when, **when},
            reads=(*row.reads, scorer, "numerics"),
            ignores=tuple(f"{scorer}.{name}" for name in row.ignores),
            after=("splits", "labels", UNITS, "units", scorer, embeddings),
            speed=SPEED,
            libraries=(*LOADED_SCORER, "numpy", "scipy", *row.libraries),
            variants=(*EXPLAINER, (f"{scorer}.name", "pipeline.scorers"), *row.variants),
            process=True,
        )
        for scorer, embeddings, when in (
            ("scorer", "image_embeddings", {"explainer_scorer.name": "shared"}),
            ("explainer_scorer", "explainer_embeddings", {}),
        )
    )


def _asking(row: Stage) -> Stage:
    """Return the row of a stage that asks a model about samples, and so opens both."""
    return replace(
        row,
        reads=(*row.reads, "questions", "vlm.attention", "numerics"),
        opens=("vlm.weights",),
        speed=SPEED,
        libraries=(*LOADED_VLM, *row.libraries),
        variants=(*VLM, *QUESTIONS, *row.variants),
        process=True,
        batch=1000,
    )


def _report(track: str, after: tuple[str, ...]) -> Stage:
    return Stage(
        when={"track": track},
        reads=("track",),
        after=after,
        libraries=("numpy", "pandas", "altair", "vl-convert-python", "jinja2", "pillow"),
        variants=(("track", "pipeline.report.sections"),),
        files=REPORT_PAGE,
        scope="sweep",
        process=True,
    )


STAGES: dict[str, tuple[Stage, ...]] = {  # upstream first
    "images": (
        Stage(
            reads=("dataset",),
            ignores=("dataset.labels", "dataset.splits", "dataset.split_seed"),
            libraries=("pillow", "numpy", "pyarrow"),
            variants=DATASET,
            process=True,
        ),
    ),
    "labels": (
        Stage(
            reads=("dataset",),
            ignores=("dataset.splits", "dataset.split_seed"),
            after=("images",),
            libraries=("pandas", "pyarrow", "timm", "scipy"),
            variants=DATASET,
            process=True,
        ),
    ),
    "splits": (
        Stage(reads=("dataset.splits", "dataset.split_seed"), after=("images",), libraries=("pandas",)),
    ),
    "activations": _capture("images", "dataset.root"),
    "sae": (
        Stage(
            reads=("sae", "numerics"),
            after=("splits", "activations"),
            speed=("device",),
            libraries=("torch", "numpy"),
            variants=SAE,
            process=True,
            together=("sae",),
        ),
    ),
    "latents": (
        Stage(
            reads=("numerics",),
            after=("activations", "sae"),
            speed=("device",),
            libraries=("torch", "scipy"),
            process=True,
            big=True,
        ),
    ),
    "units": (Stage(reads=("unit",), after=(UNITS,), libraries=("numpy", "scipy")),),
    "scorer": _scorer("scorer"),
    "image_embeddings": _image_embeddings("scorer", "scorer"),
    "explainer_scorer": _scorer("explainer_scorer"),
    "explainer_embeddings": _image_embeddings("explainer_scorer", "explainer_scorer"),
    "responses": (
        Stage(
            reads=("explainer", "model.arch", "layer"),
            ignores=("explainer.method", *ENDPOINT),
            after=("images", "splits", UNITS, "units"),
            opens=("dataset.root",),
            speed=ENDPOINT,
            libraries=("pillow", "numpy"),
            process=True,
        ),
    ),
    "explanations": (
        Stage(
            when={"explainer.name": "csv"},
            reads=("explainer", "layer"),
            after=("units",),
            libraries=("pandas",),
            variants=EXPLAINER,
        ),
        Stage(
            when={"explainer.name": "published"},
            reads=("explainer", "layer"),
            after=("units",),
            libraries=("pandas",),
            variants=(*EXPLAINER, ("explainer.format", "pipeline.explainers.formats")),
        ),
        Stage(
            when={"explainer.name": "llm"},
            reads=("explainer.name", "explainer.method"),
            after=("units", "responses"),
            libraries=("pandas",),
            variants=EXPLAINER,
        ),
        Stage(
            when={"explainer.name": ("top_concept", "network_dissection", "invert")},
            reads=("explainer",),
            after=("splits", "labels", UNITS, "units"),
            libraries=("numpy", "scipy"),
            variants=EXPLAINER,
            process=True,
        ),
        Stage(
            when={"explainer.name": "le_label"},
            reads=("explainer", "model.arch", "layer"),
            after=("splits", "labels", UNITS, "units"),
            libraries=("numpy", "scipy", SOLVER),
            variants=EXPLAINER,
            process=True,
        ),
        Stage(
            when={"explainer.name": "random"},
            reads=("explainer", "model.arch", "layer"),
            after=("labels", "units"),
            libraries=("numpy",),
            variants=EXPLAINER,
        ),
        *_by_scorer(
            Stage(
                when={"explainer.name": "clip_dissect"},
                reads=("explainer",),
                ignores=("calibration",),
                variants=SIMILARITY,
            )
        ),
        *_by_scorer(
            Stage(
                when={"explainer.name": "le_siglip"},
                reads=("explainer", "model.arch", "layer"),
                libraries=(SOLVER,),
            )
        ),
    ),
    "probabilities": (
        Stage(
            when={"scorer.calibration.source": "fitted"},
            reads=("scorer", "numerics"),
            after=("splits", "labels", "scorer", "image_embeddings", "explanations"),
            speed=SPEED,
            libraries=(*LOADED_SCORER, "numpy", "scipy"),
            variants=SCORER,
            process=True,
            big=True,
        ),
        Stage(
            reads=("scorer", "numerics"),
            after=("scorer", "image_embeddings", "explanations"),
            speed=SPEED,
            libraries=(*LOADED_SCORER, "numpy"),
            variants=SCORER,
            process=True,
            big=True,
        ),
    ),
    "sampling": (
        Stage(
            when={"crowd.name": "files"},
            reads=("dataset.name", "model.arch", "layer", "explainer.name", "explainer.method"),
            study=("study.parquet", "undrawn.parquet", "facts.json", "population.parquet"),
            libraries=("pandas",),
        ),
        Stage(
            reads=("sampler", "evaluation", "model.arch", "layer"),
            after=("splits", UNITS, "units", "explanations", "probabilities"),
            libraries=("numpy",),
            variants=(("sampler.name", "pipeline.crowd.samplers"),),
        ),
    ),
    "crowd": (
        Stage(
            when={"crowd.name": "files"},
            reads=("crowd.name",),
            after=("sampling",),
            study=("ratings.parquet", "study.parquet"),
            libraries=("pandas",),
        ),
        Stage(
            when={"crowd.stop": "decisive"},
            reads=("crowd", "aggregation"),
            ignores=ASKING,
            after=("images", "labels", "sampling"),
            libraries=("numpy", "scipy"),
        ),
        Stage(
            reads=("crowd",),
            ignores=ASKING,
            after=("images", "labels", "sampling"),
            libraries=("numpy",),
        ),
    ),
    "scoring": (
        Stage(
            when={"scoring.name": "automatic"},
            reads=("scoring", "evaluation"),
            after=("splits", UNITS, "units", "explanations", "probabilities"),
            libraries=("numpy",),
        ),
        Stage(
            when={"scoring.name": "oracle"},
            reads=("scoring", "evaluation"),
            after=("splits", UNITS, "units", "explanations", "labels"),
            libraries=("numpy",),
        ),
        Stage(
            when={"aggregation.name": CROWD_KIT},
            reads=("scoring", "aggregation", "estimator"),
            after=("sampling", "crowd"),
            libraries=(*SCORING, "crowd-kit"),
            variants=AGGREGATION,
        ),
        Stage(
            when={"crowd.error_rate": "gold"},
            reads=("scoring", "aggregation", "estimator", "crowd.error_rate"),
            after=("images", "labels", "sampling", "crowd"),
            libraries=SCORING,
            variants=AGGREGATION,
        ),
        Stage(
            reads=("scoring", "aggregation", "estimator", "crowd.error_rate"),
            after=("sampling", "crowd"),
            libraries=SCORING,
            variants=AGGREGATION,
        ),
    ),
    "gallery": (
        Stage(
            reads=("evaluation",),
            after=("images", "splits", UNITS, "units"),
            opens=("dataset.root",),
            libraries=("numpy", "pillow"),
            process=True,
        ),
    ),
    "pairs": (
        Stage(
            reads=("pairs",),
            after=("labels",),
            libraries=("pillow", "numpy", "pandas"),
            variants=(("pairs.name", "pipeline.pairs"),),
        ),
    ),
    "pair_activations": _capture("pairs", "pairs.root"),
    "pair_latents": (
        Stage(
            reads=("numerics",),
            after=("pair_activations", "sae"),
            speed=("device",),
            libraries=("torch", "scipy"),
            process=True,
        ),
    ),
    "matching": (
        Stage(
            reads=("matching", "evaluation"),
            after=("splits", "labels", "latents"),
            libraries=("numpy", "scipy"),
            variants=(("matching.name", "pipeline.matching"),),
        ),
    ),
    "perturbation": (
        Stage(
            reads=("matching.k", "matching.mode"),
            after=("labels", "pairs", "pair_latents", "matching"),
            libraries=("numpy", "scipy"),
        ),
    ),
    "sanity": (
        Stage(
            reads=("sanity", "evaluation"),
            after=("splits", "labels", "activations", "latents"),
            libraries=("numpy", "scipy"),
        ),
    ),
    "probe": (
        Stage(
            reads=("probe", "evaluation"),
            after=("splits", "labels", "activations"),
            libraries=("numpy", "scipy"),
        ),
    ),
    "vlm": (
        Stage(
            when={"vlm.name": "tiny_llava"},
            reads=("vlm", "numerics.threads"),
            ignores=("vlm.attention", "vlm.max_new_tokens"),
            libraries=("torch", "transformers", "numpy", "pillow"),
            variants=(*VLM, ("vlm.name", "pipeline.vlms.training")),
            process=True,
        ),
        Stage(
            reads=("vlm",),
            ignores=("vlm.attention", "vlm.max_new_tokens"),
            libraries=("transformers",),
            variants=VLM,
            process=True,
        ),
    ),
    "questions": (
        Stage(
            reads=("questions",),
            libraries=("numpy", "pandas", "pyarrow", "pillow"),
            variants=QUESTIONS,
            process=True,
        ),
    ),
    "answers": (_asking(Stage(reads=("vlm.max_new_tokens",), after=("vlm", "questions"))),),
    "attributions": tuple(
        _asking(
            Stage(
                when=when,
                reads=("attribution", *game),
                after=("vlm", "questions", "answers"),
                variants=ATTRIBUTION,
                libraries=("scipy",),
                together=("attribution", "game"),
                resumable=True,
            )
        )
        for when, game in (({"attribution.name": OF_BLURRED}, ("game",)), ({}, ()))
    ),
    "synergy": (
        _asking(
            Stage(
                reads=("synergy", "game"),
                after=("vlm", "questions", "answers", "attributions"),
                shares=("attributions",),
                resumable=True,
            )
        ),
    ),
    "sii": (
        _asking(
            Stage(
                reads=("sii", "synergy.seed", "game"),
                after=("vlm", "questions", "answers", "attributions"),
                libraries=("shapiq",),
                shares=("attributions",),
                resumable=True,
            )
        ),
    ),
    "vlm_comparison": (
        Stage(
            reads=("stats",),
            after=("answers", "attributions", "synergy", "sii"),
            libraries=("numpy", "pandas", "scipy", "matplotlib", "pillow", "jinja2"),
            files=SAMPLE_PAGE,
            scope="sweep",
            process=True,
        ),
    ),
    "sae_comparison": (
        Stage(
            reads=("stats",),
            after=("sae", "matching", "perturbation", "sanity", "probe"),
            libraries=("numpy", "pandas", "matplotlib"),
            scope="sweep",
            process=True,
        ),
    ),
    "comparison": (
        Stage(
            reads=("stats",),
            after=("images", "labels", "sampling", "crowd", "scoring"),
            libraries=("numpy", "pandas", "scipy", "matplotlib"),
            scope="sweep",
            process=True,
        ),
    ),
    "report": (
        _report("vlm", ("answers", "attributions", "synergy", "sii", "vlm_comparison")),
        _report("sae", ("sae_comparison",)),
        _report("crowd", ("gallery", "comparison")),
    ),
    "tracking": (
        Stage(
            when={"track": "sae"},
            reads=("track", "tracking"),
            after=("sae", "matching", "perturbation", "sanity", "probe", "sae_comparison", "report"),
            libraries=("wandb",),
            variants=RUNS,
            scope="sweep",
            process=True,
        ),
        Stage(
            when={"track": "vlm"},
            reads=("track", "tracking"),
            after=("answers", "attributions", "synergy", "sii", "vlm_comparison", "report"),
            libraries=("wandb",),
            variants=RUNS,
            scope="sweep",
            process=True,
        ),
        Stage(
            reads=("track", "tracking"),
            after=("scoring", "gallery", "comparison", "report"),
            libraries=("wandb",),
            variants=RUNS,
            scope="sweep",
            process=True,
        ),
    ),
}

ENDS: dict[str, tuple[str, ...]] = {
    "crowd": ("scoring", "gallery"),
    "sae": ("matching", "perturbation", "sanity", "probe"),
    "vlm": ("synergy", "sii"),
}
"""Track to the point-scope stages that a point is run for."""

SWEEP_ENDS: dict[str, tuple[str, ...]] = {
    "crowd": ("comparison", "report", "tracking"),
    "sae": ("sae_comparison", "report", "tracking"),
    "vlm": ("vlm_comparison", "report", "tracking"),
}
"""Track to the sweep-scope stages, in order; people find what the first one makes under results/sweeps/."""


def stage_for(name: str, config: Mapping[str, Any]) -> Stage:
    """Return the row of `name` that fits a config, resolved for neurons or latents."""
    for row in STAGES[name]:
        if all(lookup(config, key) in _choices(value) for key, value in row.when.items()):
            return _of_units(row, config)
    raise AssayError(f"no row of the stage {name!r} fits this config; see pipeline/plan/stages.py")


def _of_units(row: Stage, config: Mapping[str, Any]) -> Stage:
    """Put the stage of the judged units where UNITS stands; a latent's place names its SAE too."""
    if UNITS in row.after:
        row = replace(row, after=tuple(units_stage(config) if up == UNITS else up for up in row.after))
    if "model.arch" in row.reads and units_stage(config) == "latents":
        row = replace(row, reads=(*row.reads, "unit.name", "sae.name"))
    return row


def units_stage(config: Mapping[str, Any]) -> str:
    """Return the stage that holds the activations of the judged units."""
    return "latents" if lookup(config, "unit.name") == "latent" else "activations"


def _choices(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def lookup(config: Mapping[str, Any], dotted: str) -> Any:
    """Return the value at a dotted key, None where there is none."""
    node: Any = config
    for step in dotted.split("."):
        if not isinstance(node, Mapping) or step not in node:
            return None
        node = node[step]
    return node


def ends_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the point-scope stages that a point is run for, without those that have nothing to do."""
    no_pairs, no_sii = lookup(config, "pairs.name") == "none", lookup(config, "sii.n_samples") == 0
    of_people = lookup(config, "crowd.name") == "files"  # a study's images are not opened again
    idle = {"perturbation": no_pairs, "sii": no_sii, "gallery": of_people}
    return tuple(end for end in ENDS[config["track"]] if not idle.get(end))


ROUTES = tuple(
    key.split(".")
    for key in sorted(
        {key for rows in STAGES.values() for row in rows for key in row.when}
        | {"track", "unit.name", "pairs.name", "sii.n_samples", "crowd.name"}
    )
)
"""Every key that decides which stages a point has and in which rows."""


def groups_of(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the groups of a config that some stage of the point reads."""
    return _groups(_route(config))


def stages_of(config: Mapping[str, Any]) -> Mapping[str, Stage]:
    """Return the point-scope stages that a config needs, upstream first; equal rows are one object."""
    return _stages(_route(config))


def _route(config: Mapping[str, Any]) -> tuple[Any, ...]:
    values = []
    for steps in ROUTES:
        node: Any = config
        for step in steps:
            node = node.get(step) if isinstance(node, dict) else None
        values.append(node)
    return tuple(values)


@cache
def _stages(route: tuple[Any, ...]) -> Mapping[str, Stage]:
    config: dict[str, Any] = {}
    for (*parents, leaf), value in zip(ROUTES, route, strict=True):
        node = config
        for step in parents:
            node = node.setdefault(step, {})
        node[leaf] = value
    return _needed(config)


@cache
def _groups(route: tuple[Any, ...]) -> frozenset[str]:
    rows = _stages(route).values()
    keys = [key for row in rows for key in (*row.reads, *row.opens, *row.when)]
    return frozenset(key.split(".")[0] for key in keys)


_ROWS: dict[str, Stage] = {}


def _needed(config: Mapping[str, Any]) -> Mapping[str, Stage]:
    needed: dict[str, Stage] = {}

    def visit(name: str) -> None:
        if name not in needed:
            row = stage_for(name, config)
            for upstream in row.after:
                visit(upstream)
            needed[name] = _ROWS.setdefault(f"{name} {row}", row)

    for end in ends_of(config):
        visit(end)
    return needed
