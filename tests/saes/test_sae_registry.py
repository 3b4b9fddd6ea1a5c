import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.errors import AssayError
from pipeline.saes.registry import NAMES, UNTRAINED, sae_module
from pipeline.saes.training import fit_together
from tests.saes.examples import Rows

CONF = Path(__file__).parents[2] / "conf" / "sae"


def test_every_variant_has_its_interface_and_its_file_of_settings() -> None:
    assert {path.stem for path in CONF.glob("*.yaml")} == set(NAMES)
    for name in NAMES:
        assert hasattr(sae_module(name), "build" if name in UNTRAINED else "rule")
        assert yaml.safe_load((CONF / f"{name}.yaml").read_text())["name"] == name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "file"])
def test_the_shipped_settings_are_those_that_the_code_reads(name: str, train: Rows, validation: Rows) -> None:
    shipped = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    small = {**shipped, "dictionary_size": 16} | ({} if name in UNTRAINED else {"epochs": 1})
    assert fit_together(train[:50], validation[:50], [small])[0].facts["variant"] == name


def test_an_unknown_variant_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(AssayError, match=r"sae.name='gated' is not known; choose from topk, .*, file"):
        sae_module("gated")


def test_the_registry_imports_no_variant_and_no_torch() -> None:
    code = (
        "import sys, pipeline.saes.registry; "
        "print([name for name in sys.modules if name in ('torch', 'numpy') or '.topk' in name])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
