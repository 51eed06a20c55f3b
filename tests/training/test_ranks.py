"""Two processes train one network as one process does, and one continues what two began."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

import train_on_ranks
from quick import quick_recipe
from uol.errors import CallError
from uol.runs.run import check_before_reading
from uol.training import ranks

TESTS = Path(__file__).parents[1]
# Not Adam: it divides by the size of a gradient, and makes a step of full length of what is rounding alone.
SETTINGS = {"batch_size": 15, "optimizer": "sgd", "learning_rate": 0.001}


def _environment():
    """Variables of a process that finds the modules of tests."""
    return os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def reported(printed):
    return [json.loads(line) for line in printed.splitlines() if line.startswith("[")]


def trained_on_two(checkpoint, epochs=3):
    """Train on two ranks, and the reports of the first rank."""
    call = [sys.executable, TESTS / "train_on_ranks.py", 2, checkpoint, epochs, json.dumps(SETTINGS)]
    ended = subprocess.run(
        [str(word) for word in call], capture_output=True, text=True, timeout=300, env=_environment()
    )
    assert ended.returncode == 0, ended.stderr
    return reported(ended.stdout)


def check_same(first, second):
    """The weights of two checkpoints are the same to 1e-5."""
    one, other = load_file(first), load_file(second)
    assert one.keys() == other.keys()
    for name in one:
        assert (one[name].double() - other[name].double()).abs().max() < 1e-5, name


@pytest.mark.slow
def test_two_ranks_train_as_one_and_one_resumes_what_two_began(tmp_path, capsys):
    alone, both, resumed = (tmp_path / f"{name}.safetensors" for name in ("alone", "both", "resumed"))
    train_on_ranks.main(1, alone, 3, SETTINGS)
    reports, shared = reported(capsys.readouterr().out), trained_on_two(both)
    check_same(alone, both)
    for (epoch, losses, held_out), (epoch_2, losses_2, held_out_2) in zip(reports, shared, strict=True):
        assert epoch == epoch_2
        assert losses == pytest.approx(losses_2, abs=1e-5)
        assert held_out == pytest.approx(held_out_2, abs=1e-5, nan_ok=True)
    assert [epoch for epoch, _, _ in trained_on_two(resumed, 1)] == [1]
    train_on_ranks.main(1, resumed, 3, SETTINGS)
    assert [epoch for epoch, _, _ in reported(capsys.readouterr().out)] == [2, 3]
    check_same(alone, resumed)


@pytest.mark.slow
def test_uol_train_on_two_devices_makes_one_model(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "photographs").mkdir()
    for number in range(30):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(tmp_path / f"photographs/{number}.png")
    ratings = "".join(f"{n}.png,{','.join(map(str, rng.integers(1, 6, 5)))}\n" for n in range(30))
    (tmp_path / "ratings.csv").write_text(f"image,r1,r2,r3,r4,r5\n{ratings}")
    recipe = quick_recipe(epochs=1).with_changes({"model.framing": "whole"})
    (tmp_path / "tiny.yaml").write_text(json.dumps(recipe.model_dump(mode="json")))
    given = "--data photographs --table ratings.csv --scale 1 5 --recipe tiny.yaml --out run --devices 2 --json"
    call = [sys.executable, "-m", "uol", "train", *given.split()]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=_environment())
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("30 images, 1 epoch") == 1  # the second process prints nothing
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("place", "heard"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"}, True),
        ({"RANK": "8", "LOCAL_RANK": "0", "GROUP_RANK": "1"}, False),  # the first process of torchrun's second machine
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}, True),
        ({"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0"}, False),
        ({"SLURM_PROCID": "8", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"}, False),
        ({"LOCAL_RANK": "1"}, False),
    ],
)
def test_only_the_first_rank_prints(monkeypatch, place, heard):
    for name in list(os.environ):
        if "RANK" in name or "SLURM" in name:
            monkeypatch.delenv(name)
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    silenced = []
    monkeypatch.setattr(os, "dup2", lambda _, stream: silenced.append(stream))
    ranks.silence_others(1, 1)  # several trainings next to each other
    assert silenced == []
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    ranks.silence_others(2, 1)
    assert silenced == ([] if heard else [1, 2])


@pytest.mark.slow
def test_an_error_that_all_ranks_have_is_printed_once():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "uol"]
    call = [*torchrun, "train", "--data", "x", "--out", "run", "--recipe", "none", "--devices", "2"]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=120, env=_environment())
    assert ended.returncode == 1
    assert ended.stderr.count("uol: none: neither a recipe file") == 1


def test_one_process_launches_nothing():
    ranks.launch(1, 1)
    assert (ranks.count(), ranks.is_first(), ranks.agree("x")) == (1, True, "x")
    with pytest.raises(CallError, match="at least 1"):
        ranks.launch(0, 1)


def test_a_method_that_needs_whole_batches_is_refused():
    with pytest.raises(CallError, match="aanet is trained on one device"):
        check_before_reading(quick_recipe(method="aanet"), devices=2)
