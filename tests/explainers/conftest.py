"""The slow forms of `le_oracles.py`, importable by the tests beside it."""

import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("le_oracles", Path(__file__).with_name("le_oracles.py"))
ORACLES = importlib.util.module_from_spec(SPEC)
sys.modules["le_oracles"] = ORACLES
SPEC.loader.exec_module(ORACLES)
