"""A short form of benchmarks/chaos.py: hostile files and a few kills, none of which gives what must not happen."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_hostile_files_are_answered_rightly_or_refused_in_one_line(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.setenv("UOL_CACHE", "")  # set by the run, and restored
    chaos = importlib.import_module("chaos")
    try:
        done = chaos.run(images=40, models=40, tables=40, recipes=40, kills=2, seed=1, torch_every=0)
    finally:
        for name in ("chaos", "hostile"):
            sys.modules.pop(name, None)
    assert [example for counts in done for example in counts.examples] == []
    found = {counts.kind: counts.found for counts in done}
    assert found["model folders"] == {"clean errors": 40}
    assert found["images"]["answered"] > 10
    assert found["tables"]["answered"] > 10
    assert found["kills: score"]["answered"] == 2
    assert all(not counts.found[what] for counts in done for what in chaos.BAD)
