"""The demonstration end to end, on fewer faces and epochs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from quick import quick_recipe
from uol import demo
from uol.errors import CallError
from uol.scoring.scorer import Scorer


@pytest.mark.slow
def test_demo_trains_three_methods_and_writes_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TRAINING", 60)
    monkeypatch.setattr(demo, "TEST", 30)
    monkeypatch.setattr(demo, "ANCHORS", 20)
    monkeypatch.setattr(demo, "SIZE", 32)
    monkeypatch.setattr(
        demo, "demo_recipe", lambda seed=0, method="uol": quick_recipe(seed=seed, method=method, epochs=2)
    )
    steps = []
    result = demo.run_demo(tmp_path / "out", seed=3, report=lambda done, word: steps.append(done))
    assert steps == [1, 2, 3, 4, 5, 6]
    assert [row["method"] for row in result["rows"]] == ["regression", "order-learning", "uol", "uol, 20 anchors"]
    stored = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert stored["rows"][2]["pc"] == pytest.approx(result["rows"][2]["pc"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 6
    assert Scorer.from_pretrained(tmp_path / "out" / "model").panel.name == "synthetic-a"


def test_the_demo_is_not_put_among_other_files(tmp_path):
    (tmp_path / "photo.jpg").write_text("mine")
    with pytest.raises(CallError, match=r"other files in it \(photo.jpg\)"):
        demo.run_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_shown_faces_are_spread_over_the_ranking_and_over_skin_tones(drawn):
    value = np.random.default_rng(0).normal(size=len(drawn))
    chosen = demo.shown_faces(value, drawn, 9)
    assert len(set(chosen)) == 9
    tones = drawn.groups["skin"].to_numpy()
    assert len({tones[i] for i in chosen[:3]}) == len(set(tones))
    assert (np.diff(value[chosen]) > -0.5).all()
