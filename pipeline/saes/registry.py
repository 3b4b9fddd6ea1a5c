"""SAE variants by the name in `sae.name`.

A trained variant's module has `rule(*, n_saes, n_latents, device, **settings) -> Rule`: what the one trainer
(`training.fit_together`) asks of it. An untrained variant's module has `build(d, **settings) -> Sae` and sees
no data. `settings` are the keys of the variant's file in conf/sae/ without `name`.
"""

import importlib
from types import ModuleType

from pipeline.errors import AssayError

UNTRAINED = ("frozen", "random", "file")
NAMES = ("topk", "batchtopk", "matryoshka", "jumprelu", *UNTRAINED)


def sae_module(name: str) -> ModuleType:
    """Return the variant's module; raises AssayError for an unknown name."""
    if name not in NAMES:
        raise AssayError(f"sae.name={name!r} is not known; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.saes.{name}")
