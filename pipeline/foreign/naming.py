"""Which columns of another project's tasks CSV mean what."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError

# The names that are known without a mapping: the first that the file has.
STANDARD: Mapping[str, tuple[str, ...]] = {
    "input_id": ("input_id{j}",),
    "image_url": ("image_url{j}",),
    "weight": ("weight{j}",),
    "multiplicity": ("multiplicity{j}",),
    "activation": ("activation{j}",),
    "probability": ("probability{j}",),
    "unit": ("unit", "neuron", "neuron_id"),
    "method": ("method",),
    "description": ("description", "explanation", "concept"),
    "answer": ("image{j}",),
}
SINGLE = ("unit", "method", "description")
OPTIONAL = ("weight", "multiplicity", "activation", "probability")
WEIGHT_IS = ("p/q", "q", "1/q")

Slots = Mapping[int, str]
"""The column of each slot's number."""


@dataclass(frozen=True)
class Naming:
    """How a tasks CSV names things; "{j}" stands for a slot's number, "" for the standard names.

    `weight` may also map each method to its own columns, or be None: drawn uniformly. Activations
    are standardised over all `n_images` (N), probabilities are the scorer's; None: do not use them.
    `weight_is`: what the weight columns hold, p/q, q or 1/q with p = 1/N. `first_unit`: the number of
    the first unit. `one_based_slots`: whether j starts at 1, "auto": it does where no column has a 0.
    `answer`: the name of slot j's checkbox, as in `Answer.image3.on`.
    """

    input_id: str = ""
    image_url: str = ""
    weight: str | Mapping[str, str] | None = ""
    multiplicity: str | None = ""
    activation: str | None = ""
    probability: str | None = ""
    unit: str = ""
    method: str = ""
    description: str = ""
    answer: str = ""
    first_unit: int = 0
    one_based_slots: bool | str = "auto"
    n_images: int = 50_000
    weight_is: str = "p/q"


@dataclass(frozen=True)
class Columns:
    """The columns of a tasks CSV: one, or one a slot by its number; `weight` by method, "" for all."""

    unit: str
    method: str
    description: str
    input_id: Slots
    image_url: Slots
    weight: Mapping[str, Slots]
    multiplicity: Slots
    activation: Slots
    probability: Slots
    first_slot: int

    def standard_names(self, columns: Sequence[str]) -> dict[str, str]:
        """Return each column's standard name, where it has another one.

        A column that has a standard name but is something else gets out of the way, and so do task
        ids that assay did not give.
        """
        ours = {self.description: "description"}
        ours |= {column: f"image_url{j}" for j, column in self.image_url.items()}
        ours |= {column: f"input_id{j}" for j, column in self.input_id.items()}
        taken = {*ours.values(), "task_id"}
        standard = {name: ours.get(name, f"other_{name}" if name in taken else name) for name in columns}
        return {name: ours for name, ours in standard.items() if name != ours}


def read_naming(mapping: Path | Mapping[str, Any] | None) -> Naming:
    """Return the naming that a YAML file or a mapping gives; None: the standard names.

    Raises AssayError for a file that cannot be read, an unknown key, or a value that does not fit.
    """
    if mapping is None:
        return Naming()
    values, where = (mapping, "mapping") if isinstance(mapping, Mapping) else (_yaml(mapping), str(mapping))
    known = [field.name for field in fields(Naming)]
    if unknown := [key for key in values if key not in known]:
        raise AssayError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
    naming = Naming(**values)
    _require_templates(naming, where)
    _require_settings(naming, where)
    return naming


def find_columns(naming: Naming, columns: Sequence[str], path: Path, *, weighted: bool = True) -> Columns:
    """Look all names up; without `weighted`, weights need not be there.

    Raises AssayError, which lists what is there, for a column that is needed or named and is missing.
    """

    def slots(name: str, template: str | None, *, needed: bool = True) -> Slots:
        if template is None:
            return {}
        return _slots(name, template or STANDARD[name][0], columns, path, needed=needed or bool(template))

    def single(name: str, given: str) -> str:
        known = (given,) if given else STANDARD[name]
        return next((column for column in known if column in columns), "") or _missing(
            name, known, columns, path
        )

    weight = naming.weight if isinstance(naming.weight, Mapping) else {"": naming.weight}
    ids = slots("input_id", naming.input_id)
    one_based = 0 not in ids if naming.one_based_slots == "auto" else naming.one_based_slots
    return Columns(
        unit=single("unit", naming.unit),
        method=single("method", naming.method),
        description=single("description", naming.description),
        input_id=ids,
        image_url=slots("image_url", naming.image_url, needed=False),
        weight={method: slots("weight", template) for method, template in weight.items()} if weighted else {},
        multiplicity=slots("multiplicity", naming.multiplicity, needed=False),
        activation=slots("activation", naming.activation, needed=False),
        probability=slots("probability", naming.probability, needed=False),
        first_slot=int(one_based),
    )


def _slots(name: str, template: str, columns: Sequence[str], path: Path, *, needed: bool) -> Slots:
    before, after = map(re.escape, template.split("{j}"))
    form = re.compile(f"{before}([0-9]+){after}")
    found = [(int(match[1]), column) for column in columns if (match := form.fullmatch(column))]
    if needed and not found:
        _missing(name, (template,), columns, path)
    if len(by_number := dict(sorted(found))) < len(found):
        raise AssayError(f"{path}: two columns {template} have one number; rename one")
    return by_number


def _missing(name: str, known: Sequence[str], columns: Sequence[str], path: Path) -> str:
    raise AssayError(
        f"{path} has no column for {name} ({', '.join(known)}); it has {', '.join(columns)}. A mapping "
        f"(YAML) says which it is: `{name}: ...`"
    )


def _yaml(path: Path) -> Mapping[str, Any]:
    import yaml

    if not path.is_file():
        raise AssayError(f"{path}: no such file; a mapping is YAML such as `input_id: img_{{j}}`")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AssayError(f"{path} is no YAML: {error}") from None
    if not isinstance(values, dict):
        raise AssayError(f"{path}: expected `name: column` lines such as `input_id: img_{{j}}`")
    return values


def _require_templates(naming: Naming, where: str) -> None:
    for name in STANDARD:
        given = getattr(naming, name)
        if given is None and name in OPTIONAL:
            continue
        by_method = name == "weight" and isinstance(given, Mapping)
        for template in given.values() if by_method else [given]:
            if not isinstance(template, str):
                raise AssayError(f"{where}: {name} is {template!r}; it must be the name of a column")
            if template and name not in SINGLE and template.count("{j}") != 1:
                raise AssayError(f"{where}: {name} is {template!r}; it needs one {{j}}, as in {name}{{j}}")


def _require_settings(naming: Naming, where: str) -> None:
    if naming.weight_is not in WEIGHT_IS:
        raise AssayError(f"{where}: weight_is is {naming.weight_is!r}; known are {', '.join(WEIGHT_IS)}")
    if naming.one_based_slots not in (True, False, "auto"):
        raise AssayError(f"{where}: one_based_slots is {naming.one_based_slots!r}; true, false or auto")
    for name, least in (("n_images", 1), ("first_unit", 0)):
        value = getattr(naming, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise AssayError(f"{where}: {name} is {value!r}; it must be a whole number from {least} on")
