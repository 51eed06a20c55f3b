"""An export has every table, a page, and lines of R that run."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from planned_study import answer, study_of
from uol.errors import CallError
from uol.runs.makeup import Votes, read_votes
from uol.study.export import export_study, summary
from uol.study.results import Results
from uol.study.simulate import People, draw_values, simulate_answers


def exported(tmp_path, kind="pairs", **settings):
    study = study_of(10, kind, trials=8, repeats=2, **settings)
    values = draw_values(10, 1.0, np.random.default_rng(0))
    results = Results(study, simulate_answers(study, values, 12, people=People(careless=0.2)))
    return results, export_study(results, tmp_path / "out")


@pytest.mark.parametrize("kind", ["ratings", "pairs", "best-of-four"])
def test_every_file_is_written_and_read_again(tmp_path, kind):
    results, names = exported(tmp_path, kind)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    assert len(pd.read_csv(out / "answers.csv")) == len(results.answers)
    assert len(pd.read_csv(out / "scale.csv")) == 10
    assert len(pd.read_csv(out / "participants.csv")) == 12
    assert ("pairs.csv" in names) == (kind != "ratings")
    found = json.loads((out / "summary.json").read_text())
    assert found["participants"] == 12
    assert found["repeats"]["number"] == 24
    page = (out / "report.html").read_text()
    assert "measures nothing about the people" in page
    assert ("with two votes or more" in page) == (kind != "ratings")
    assert "except" not in page
    assert "measures nothing about the people" in (out / "README.md").read_text()
    (out / "analysis.R").write_text("# mine")
    (out / "pairs.csv").write_text("of an earlier export")
    export_study(results, out)
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "analysis.R"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ratings", "pairs", "best-of-four"])
def test_the_lines_of_r_run(tmp_path, kind):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    exported(tmp_path, kind)
    text = (tmp_path / "out" / "README.md").read_text()
    lines = text.partition("```r\n")[2].partition("```")[0]
    assert lines.count("\n") == 3
    done = subprocess.run(["Rscript", "-e", lines], cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_makeup_votes_are_those_that_evaluate_reads(tmp_path):
    given = (("i001", "i000"), ("i002", "i003"))
    study = study_of(4, given=given, people=("7", "8"), pairs={"choice": "given", "table": "p.csv"})
    answers = [answer((0, 1), 1, f"p{k}") for k in range(6)] + [answer((1, 0), 0, "p6"), answer((2, 3), 3, "p1")]
    export_study(Results(study, answers), tmp_path / "out")
    assert read_votes(tmp_path / "out" / "makeup-votes.csv") == {"7": Votes(6, 1), "8": Votes(0, 1)}


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(CallError, match="no earlier export"):
        exported(tmp_path)
    assert (tmp_path / "out" / "thesis.tex").exists()


def test_a_study_without_answers_can_be_exported(tmp_path):
    results = Results(study_of(4), [])
    export_study(results, tmp_path / "out")
    assert summary(results)["answers"] == 0
    assert "Nobody has answered yet" in (tmp_path / "out" / "report.html").read_text()
