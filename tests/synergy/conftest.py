"""The analytic games and slow forms of `games.py`, importable as `synergy_games`."""

import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("synergy_games", Path(__file__).with_name("games.py"))
GAMES = importlib.util.module_from_spec(SPEC)
sys.modules["synergy_games"] = GAMES
SPEC.loader.exec_module(GAMES)
