"""From a composed config to typed plain values, with one message for each mistake."""

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from pipeline.errors import AssayError
from pipeline.plan.schema import GROUPS

OF_TRUTH = ("combined", "disattenuated")
PAIRS_OF = {"shapes": "shapes", "syncub": "cub", "syncoco": "coco"}
"""Sources of pairs whose attributes are those of one dataset."""
POSTERIORS = ("bragg_em", "bragg_siglip")
BY_LABELS = ("top_concept", "network_dissection", "invert", "le_label")
"""Explainers that read the labels of their split."""
BY_ATTENTION = ("rollout", "grad_rollout")
"""Explainers of vision-language models that read attentions."""
BY_SCORER = ("clip_dissect", "le_siglip")
"""Explainers that see images with a scorer."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known words are nearest to `word`, or list a few."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are: {', '.join(known[:20])}"


@cache
def _adapter(group: str) -> TypeAdapter[Any]:
    return TypeAdapter(GROUPS[group])


class Validator:
    """Validates configs and remembers each group's choices, so that a sweep pays once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[str, tuple[Any, Any]] = {}
        self._same: dict[tuple[str, int], tuple[Any, tuple[Any, Any]]] = {}
        self._filled: dict[tuple[int, str, str], Mapping[str, Any]] = {}

    def validate(self, config: Mapping[str, Any], where: Mapping[str, str]) -> "Validated":
        """Return typed values; raises AssayError that lists every mistake at once.

        `where` says for a group which file or override it came from.
        """
        problems = [f"unknown key {key!r}: {nearest(key, GROUPS)}" for key in config if key not in GROUPS]
        problems += [f"{key} is missing: set it in conf/config.yaml" for key in GROUPS if key not in config]
        values: dict[str, Any] = {}
        models: dict[str, Any] = {}
        for group in GROUPS:
            if group in config:
                try:
                    values[group], models[group] = self._group(group, config[group])
                except ValidationError as error:
                    problems += _explain(group, error, where.get(group, "conf/config.yaml"))
        if not problems:
            problems = list(_crosswise(values))
        if problems:
            raise AssayError("\n".join(problems))
        if "path" in values["explainer"]:
            values["explainer"] = self._filled_path(values)
        return Validated(values, models)

    def _group(self, group: str, value: Any) -> tuple[Any, Any]:
        """Return a group's typed values and model: the same ones for the same object, and for equal ones."""
        known = self._same.get((group, id(value)))
        if known is None or known[0] is not value:
            self._same[group, id(value)] = known = (value, self._equal(group, value))
        return known[1]

    def _filled_path(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        name = (id(values["explainer"]), values["layer"], values["model"]["arch"])
        if name not in self._filled:
            self._filled[name] = _fill_path(values["explainer"], values)
        return self._filled[name]

    def _equal(self, group: str, value: Any) -> tuple[Any, Any]:
        name = f"{group}:{value!r}"
        if name not in self._seen:
            model = _adapter(group).validate_python(value)
            plain = model.model_dump(mode="python") if isinstance(model, BaseModel) else model
            self._seen[name] = (_absolute(plain, self._root), model)
        return self._seen[name]


def _fill_path(explainer: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Put the layer and the architecture where an explanations file's name says {layer} and {arch}."""
    name = str(explainer["path"])
    name = name.replace("{layer}", values["layer"]).replace("{arch}", values["model"]["arch"])
    return {**explainer, "path": Path(name)}


class Validated:
    """A point's typed values (paths absolute) and its settings models by group."""

    def __init__(self, values: dict[str, Any], models: dict[str, Any]) -> None:
        self.values = values
        self.models = models


def _absolute(value: Any, root: Path) -> Any:
    if isinstance(value, Path):
        return (root / value.expanduser()).resolve()
    if isinstance(value, dict):
        return {key: _absolute(item, root) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_absolute(item, root) for item in value]
    return value


def _explain(group: str, error: ValidationError, where: str) -> list[str]:
    return [_one(group, item, where) for item in error.errors(include_url=False)]


def _one(group: str, item: Any, where: str) -> str:
    steps = [str(step) for step in item["loc"]]
    kind = item["type"]
    fields = [step for step in steps if step not in _tags(group)] if steps else []
    key = ".".join([group, *fields])
    if kind == "extra_forbidden":
        return (
            f"{key} ({where}): unknown key {fields[-1]!r}; {nearest(fields[-1], _fields(group, fields[:-1]))}"
        )
    if kind == "missing":
        return f"{key} ({where}) is missing: set {key}=..."
    if kind.startswith("union_tag"):
        return f"{key}.name ({where}): {item['msg']}"
    return f"{key}={item['input']!r} ({where}): {item['msg'].removeprefix('Value error, ')}"


@cache
def _tags(group: str) -> frozenset[str]:
    schema = _adapter(group).json_schema()
    tags: set[str] = set()
    _collect_tags(schema, tags)
    return frozenset(tags)


def _collect_tags(node: Any, tags: set[str]) -> None:
    if isinstance(node, dict):
        tags |= (
            set(node.get("discriminator", {}).get("mapping", {}))
            if isinstance(node.get("discriminator"), dict)
            else set()
        )
        for item in node.values():
            _collect_tags(item, tags)
    elif isinstance(node, list):
        for item in node:
            _collect_tags(item, tags)


def _fields(group: str, inside: list[str]) -> set[str]:
    definitions = _adapter(group).json_schema()
    every = [definitions, *definitions.get("$defs", {}).values()]
    return {name for part in every for name in part.get("properties", {})} - set(inside)


def _crosswise(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield what is wrong between groups of the point's track."""
    yield from {"crowd": _crowd, "sae": _sae, "vlm": _vlm}[values["track"]](values)


def _vlm(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield questions that the small model never learnt, and attentions that nobody returns."""
    vlm, questions, explainer = values["vlm"], values["questions"], values["attribution"]["name"]
    if vlm["name"] == "tiny_llava" and questions["name"] != "shapes_vqa":
        yield (
            f"questions={questions['name']}: vlm=tiny_llava knows the words of questions=shapes_vqa alone; "
            "take that, or vlm=llava, qwen2_5_vl or internvl"
        )
    learnt = vlm.get("kinds", questions.get("kinds", ()))
    if unknown := [kind for kind in questions.get("kinds", ()) if kind not in learnt]:
        yield (
            f"questions.kinds={questions['kinds']}: vlm=tiny_llava is trained on vlm.kinds={learnt}; "
            f"add {', '.join(unknown)} there (it then wants more vlm.n_steps)"
        )
    if vlm["attention"] != "eager" and explainer in BY_ATTENTION:
        yield (
            f"vlm.attention={vlm['attention']}: attribution={explainer} reads attentions, which it does not "
            "return; take vlm.attention=eager"
        )


def _sae(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield why the pairs cannot be of the dataset, and why matching would judge itself."""
    pairs, dataset = values["pairs"]["name"], values["dataset"]["name"]
    wanted = PAIRS_OF.get(pairs)
    if wanted and dataset != wanted:
        yield (
            f"pairs={pairs}: its attributes are those of dataset={wanted}, not of dataset={dataset}; "
            f"take pairs=none, or pairs=edited with pairs of this dataset's attributes"
        )
    split, mode = values["evaluation"]["split"], values["matching"]["mode"]
    if mode == "corrected" and split in ("all", "train"):
        yield (
            f"evaluation.split={split}: matching chooses latents on the training split, so it would judge "
            "itself; take evaluation.split=test, or matching.mode=reference"
        )
    if split == "validation":
        yield (
            "evaluation.split=validation: it chose the SAE's weights and the probe's thresholds; "
            "take evaluation.split=test"
        )


def _crowd(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield labels that judge their own products, and estimators without priors."""
    yield from _estimator(values)
    yield from _composites(values)
    yield from _latents(values)
    evaluation = values["evaluation"]["split"]
    explainer = values["explainer"]
    uses = {f"the explainer (explainer.split={split})": split for split in _splits_of(explainer)}
    shared = values["explainer_scorer"]["name"] == "shared"
    if values["scoring"]["name"] != "oracle" or (explainer["name"] in BY_SCORER and shared):
        uses |= _scorer_uses(values["scorer"], "the scorer")
    if explainer["name"] in BY_SCORER and not shared:
        uses |= _scorer_uses(values["explainer_scorer"], "the explainer's scorer")
    users = [user for user, split in uses.items() if "all" in (split, evaluation) or split == evaluation]
    if users:
        yield (
            f"evaluation.split={evaluation}: {' and '.join(users)} saw the labels of these images or was "
            "fitted to them, so it would judge itself; keep the two apart (evaluation.split=test, and train "
            "or validation for the other)"
        )


def _splits_of(explainer: Mapping[str, Any]) -> list[str]:
    """Return the split that an explainer reads labels of, or fits a regression to; looking is no label."""
    return [explainer["split"]] if explainer["name"] in (*BY_LABELS, "le_siglip") else []


def _scorer_uses(scorer: Mapping[str, Any], whose: str) -> dict[str, str]:
    uses = {f"{whose}'s training": "train"} if scorer["name"] == "siglip_tiny" else {}
    if scorer["calibration"]["source"] == "fitted":
        uses[f"{whose}'s calibration"] = scorer["calibration"]["split"]
    return uses


def _makes(explainer: Mapping[str, Any]) -> str:
    """Say what an explainer's texts may be made of: "" (one concept each), formula, or sum."""
    name = explainer["name"]
    if name in ("le_label", "le_siglip"):
        return "sum" if explainer["max_concepts"] > 1 else ""
    if name == "published" and explainer["format"] == "linear_explanations":
        return "sum" if explainer["max_concepts"] != 1 else ""
    if name == "csv":
        return "sum" if explainer["composition_column"] else ""
    maia = name == "published" and explainer["format"] == "maia" and explainer["text"] != "description"
    return "formula" if name == "invert" or maia else ""


def _composites(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield what cannot work with texts that are made of several concepts."""
    made = _makes(values["explainer"])
    if not made or values["scoring"]["name"] != "crowd":
        return
    explainer, estimator = values["explainer"]["name"], values["estimator"]["name"]
    if estimator in OF_TRUTH:
        yield (
            f"estimator={estimator}: it estimates the correlation with one presence, and "
            f"explainer={explainer} may make texts of several concepts, or with NOT; take "
            "estimator=difference or self_normalised"
        )
    if made == "sum" and (sampler := values["sampler"]["name"]) in ("active", "stratified"):
        yield (
            f"sampler={sampler}: it wants a probability, and explainer={explainer} may make weighted sums; "
            "take sampler=mgis"
        )


def _latents(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield what would judge latents on images that their SAE was trained on."""
    split = values["evaluation"]["split"]
    if values["unit"]["name"] == "latent" and split in ("all", "train", "validation"):
        yield (
            f"evaluation.split={split}: unit=latent, and the SAE was trained on the training split and "
            "chosen on the validation split; take evaluation.split=test"
        )


def _estimator(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield why the estimator cannot work with the aggregation."""
    name, aggregation = values["estimator"]["name"], values["aggregation"]["name"]
    if values["scoring"]["name"] == "crowd" and name in OF_TRUTH and aggregation not in POSTERIORS:
        yield (
            f"estimator={name}: it estimates the truth from posteriors, and aggregation={aggregation} gives "
            f"none that use the scorer; take aggregation={' or '.join(POSTERIORS)}, or estimator=difference"
        )
