"""The slow forms of `oracles.py`, importable as `matching_oracles`."""

import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("matching_oracles", Path(__file__).with_name("oracles.py"))
ORACLES = importlib.util.module_from_spec(SPEC)
sys.modules["matching_oracles"] = ORACLES
SPEC.loader.exec_module(ORACLES)
