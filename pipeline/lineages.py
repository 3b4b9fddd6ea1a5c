"""What a result on disk was made of, and with which settings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.files import canonical
from pipeline.plan.store import Store

Settings = dict[str, Any]
"""Dotted config keys to values."""


class Lineages:
    """Reads of metas which results a result was made of; a result that is gone ends its line."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def of(self, stage: str, key: str) -> dict[str, str]:
        """Return stage to key, the result itself included."""
        if (stage, key) not in self._known:
            found = {stage: key}
            meta = self._store.meta(stage, key)
            for name, above in (meta["upstream"] if meta else {}).items():
                if isinstance(above, str):  # a sweep's result has lists
                    found |= self.of(name, above)
            self._known[stage, key] = found
        return self._known[stage, key]

    def settings(self, lineage: Mapping[str, str]) -> Settings:
        """Return the settings of all results of a lineage that are still there."""
        found: Settings = {}
        for stage, key in lineage.items():
            meta = self._store.meta(stage, key)
            found |= flat(meta["slice"]) if meta else {}
        return found


def flat(settings: Mapping[str, Any], above: str = "") -> Settings:
    """Return nested settings by dotted keys."""
    found: Settings = {}
    for name, value in settings.items():
        found |= flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def differences(listed: Sequence[Settings]) -> list[str]:
    """Say for each of several settings in what it differs from the others: "sampler.seed=1, ...".

    Where groups differ in their name, the name stands for the whole group if that tells all apart.
    """
    keys = list(dict.fromkeys(key for settings in listed for key in settings))
    changing = [key for key in keys if len({canonical(_known(one, key)) for one in listed}) > 1]
    named = {key.removesuffix(".name") for key in changing if key.endswith(".name")}
    short = [key for key in changing if key.endswith(".name") or key.split(".")[0] not in named]
    told = [_words(one, short) for one in listed]
    distinct = len({canonical(one) for one in listed})
    return told if len(set(told)) >= distinct else [_words(one, changing) for one in listed]


def _known(settings: Settings, key: str) -> list[Any]:
    return [settings[key]] if key in settings else []


def _words(settings: Settings, keys: Iterable[str]) -> str:
    told = ((key, settings[key]) for key in keys if key in settings)
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in told
    )
