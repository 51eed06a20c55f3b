"""The base install: every command that asks a model works without torch; the others say in one line what they need."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from uol.scoring.onnx_export import export_onnx
from uol.scoring.released import DEFAULT

# A finder that does not find torch is nearer to an environment without it than sys.modules["torch"] = None.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.split(".")[0] in ("torch", "torchvision", "timm", "lightning", "onnx", "pyarrow", "scipy")
        return None if hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
ASKED = """
import contextlib, io, json, sys
from uol.cli import main

for line in sys.stdin:
    sys.argv, code = ["uol", *json.loads(line)], 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue(), "torch" in sys.modules]), flush=True)
"""
NEEDS = "needs torch: pip install 'uol[train]'"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str
    torch: bool


@contextlib.contextmanager
def process(code):
    """Run commands in one other process."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ran:

        def run(*arguments):
            print(json.dumps([str(word) for word in arguments]), file=ran.stdin, flush=True)
            return Done(*json.loads(ran.stdout.readline()))

        yield run
        ran.stdin.close()


@pytest.fixture(scope="module")
def run_uol():
    """Run a command in a process that cannot find torch."""
    with process(WITHOUT + ASKED) as run:
        yield run


@pytest.fixture(scope="module")
def answer(run_uol):
    """What a command prints as JSON, without torch."""

    def run(*arguments):
        done = run_uol(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def run_with_torch():
    """Run a command in a process that could import torch."""
    with process(ASKED) as run:
        yield run


@pytest.fixture(scope="module")
def place(trained, drawn, tmp_path_factory):
    """A folder with a model, with and without a graph, photographs and a table of their ratings."""
    folder = tmp_path_factory.mktemp("light")
    export_onnx(trained.scorer, folder / "model")
    trained.scorer.save_pretrained(folder / "without-graph")
    (folder / "photos").mkdir()
    lines = ["image,rater,rating"]
    for number in range(16):
        name = f"{drawn.names[number]}.png"
        Image.fromarray(drawn.images[number]).save(folder / "photos" / name)
        lines += [f"{name},r{rater},{1 + (number * 3 + rater) % 5}" for rater in range(4)]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_scores_comparisons_and_ranks(place, answer):
    first, second, *_ = sorted((place / "photos").iterdir())
    model = ("--model", place / "model", "--json")
    (row,) = answer("score", first, "--explain", place / "why.png", *model)
    assert 1 <= row["low"] <= row["value"] <= row["high"] <= 5
    with Image.open(place / "why.png") as picture:
        assert picture.width > 500
    compared = answer("compare", first, second, *model)
    assert compared["less"] + compared["similar"] + compared["greater"] == pytest.approx(1)
    assert answer("rank", place / "photos", "--html", place / "ranks.html", *model)[0]["rank"] == 1


def test_anchoring_and_then_scoring_and_evaluating(place, answer):
    data, out = (place / "photos", "--table", place / "ratings.csv"), place / "anchored"
    assert answer("anchor", *data, "--model", place / "model", "--out", out, "--json")["images"] == 16
    photo = next((place / "photos").iterdir())
    assert 1 <= answer("score", photo, "--model", out, "--json")[0]["value"] <= 5
    found = answer("evaluate", out, "--data", *data, "--json")
    assert (found["images"], found["mae"] > 0) == (16, True)


@pytest.mark.parametrize("command", ["stats", "check"])
def test_data_is_described_and_checked(place, run_uol, command):
    done = run_uol("data", command, place / "photos", "--table", place / "ratings.csv", "--json")
    assert json.loads(done.stdout)["images"] == 16, done.stderr


def test_data_is_split(place, run_uol, tmp_path):
    folds = tmp_path / "folds.csv"
    done = run_uol("data", "split", place / "photos", "--table", place / "ratings.csv", "--folds", 2, "--out", folds)
    assert done.returncode == 0, done.stderr
    assert len(folds.read_text().splitlines()) == 17


def test_experiments_are_listed(run_uol):
    done = run_uol("experiment", "list", "--results", Path(__file__).parents[1] / "results")
    assert done.returncode == 0, done.stderr
    assert "ladder" in done.stdout


@pytest.mark.parametrize("command", ["train", "demo", "export", "experiment run"])
def test_what_needs_torch_says_how_to_install_it_in_one_line(run_uol, command, tmp_path):
    named = {
        "train": ["--data", "synthetic"],
        "export": [DEFAULT],
        "experiment run": ["scut-fbp5500", "--root", tmp_path],
    }.get(command, [])
    out = [] if command == "experiment run" else ["--out", tmp_path / "out"]
    done = run_uol(*command.split(), *named, *out)
    needs = NEEDS.replace("train", "export") if command == "export" else NEEDS
    assert (done.returncode, done.stderr) == (1, f"uol: uol {command} {needs}\n")
    assert not list(tmp_path.iterdir())


def test_a_study_without_scipy_says_how_to_install_it(place, run_uol, tmp_path):
    assert run_uol("study", "new", place / "photos", "--out", tmp_path / "study").returncode == 0
    for command in ("status", "simulate", "export"):
        out = ["--out", tmp_path / "out"] if command == "export" else []
        done = run_uol("study", command, tmp_path / "study", *out)
        assert (done.returncode, done.stderr) == (
            1,
            f"uol: uol study {command} needs scipy: pip install 'uol[study]'\n",
        )


def test_a_model_without_a_graph_says_what_it_needs(place, run_uol):
    photo = next((place / "photos").iterdir())
    done = run_uol("score", photo, "--model", place / "without-graph")
    assert done.returncode == 1
    instead = "; or add ONNX graphs to it with uol export, where torch is installed"
    assert done.stderr == f"uol: {place / 'without-graph'} {NEEDS}{instead}\n"


def test_no_model_is_not_a_matter_of_torch(place, run_uol, tmp_path):
    done = run_uol("score", place / "photos", "--model", "nosuch")
    assert (done.returncode, "nosuch: no such model folder, nor a model that ships" in done.stderr) == (2, True)
    done = run_uol("score", place / "photos", "--model", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"uol: {tmp_path}: not a whole model folder: config.json is missing\n")


@pytest.mark.slow
def test_the_python_interface_works_and_fails_in_one_line(place):
    code = (
        f"{WITHOUT}\nfrom uol import Scorer, UolError\nfolder, photo = sys.argv[1:]\n"
        "print(Scorer.from_pretrained(folder + '/model').score(photo)[0].value)\n"
        "try:\n    Scorer.from_pretrained(folder + '/without-graph')\nexcept UolError as error:\n    print(error)"
    )
    photo = next((place / "photos").iterdir())
    done = subprocess.run([sys.executable, "-c", code, place, photo], capture_output=True, text=True, check=True)
    value, error = done.stdout.splitlines()
    assert 1 <= float(value) <= 5
    assert NEEDS in error


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="a GPU is used through torch")
@pytest.mark.parametrize("command", ["score", "compare", "rank", "--help"])
def test_torch_is_not_imported_where_it_is_installed(place, run_with_torch, command):
    first, second, *_ = sorted((place / "photos").iterdir())
    arguments = [] if command == "--help" else [first, second, "--model", place / "model"]
    done = run_with_torch(command, *arguments)
    assert (done.returncode, done.torch) == (0, False), done.stderr
