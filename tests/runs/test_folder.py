"""Run folders: which folders are runs, where their files are, and that one process at a time writes them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import uol
from quick import quick_recipe
from uol.errors import CallError
from uol.runs.folder import RunFolder, run_folders
from uol.runs.run import run
from uol.training.packed import PackedImages

ROOMS = ("runs", "reports", "experiments", "cli")  # those that may import RunFolder
FILES = re.compile(
    r"""["'/](recipe\.yaml|checkpoint\.safetensors|metrics\.csv|result\.json|predictions\.csv|held-out\.csv|log\.txt"""
    r"""|provenance\.json|panels/)|/ f?["'](model|panels|evaluations)["']"""
)


def test_no_other_module_knows_the_names_of_a_runs_files():
    package = Path(uol.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for room in ROOMS
        for path in sorted((package / room).glob("*.py"))
        if path not in (package / "runs" / "folder.py", package / "cli" / "demo.py")  # the demo makes no run
        for line in path.read_text(encoding="utf-8").splitlines()
        if FILES.search(line)
    ]
    assert found == []


def test_the_run_of_a_model_folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.panel("b").model.mkdir(parents=True)
    run.model.mkdir()
    for folder in (run.path, run.model, run.panel("b").path, run.panel("b").model):
        assert RunFolder.of_model(folder).path.resolve() == run.path.resolve()
    named_so = RunFolder(tmp_path / "panels" / "first")  # the user's folder, which no run made
    named_so.model.mkdir(parents=True)
    named_so.recipe.write_text("")
    assert RunFolder.of_model(named_so.model).path == named_so.path


def test_runs_in_a_folder_are_in_the_order_of_their_numbers(tmp_path):
    for name in ("fold-10", "fold-2", "notes"):
        (tmp_path / name).mkdir()
    for name in ("fold-10", "fold-2"):
        RunFolder(tmp_path / name).recipe.write_text("")
    assert [found.name for found in run_folders(tmp_path)] == ["fold-2", "fold-10"]
    RunFolder(tmp_path).recipe.write_text("")
    with pytest.raises(CallError, match="a run with other runs in it"):
        run_folders(tmp_path)
    with pytest.raises(CallError, match="not a run folder"):
        run_folders(tmp_path / "notes")
    with pytest.raises(CallError, match="no such run folder"):
        run_folders(tmp_path / "nothing")


HOLD = """
import sys, time
from uol.runs.folder import RunFolder
with RunFolder(sys.argv[1]).locked():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def held(tmp_path):
    """A run folder that another process is writing."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield tmp_path / "run", process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_folder_that_another_process_writes_is_refused_and_left_alone(held, drawn, uol):
    folder, process = held
    before = sorted(path.name for path in folder.iterdir())
    packed = PackedImages.pack(drawn, quick_recipe().model)
    with pytest.raises(CallError, match=r"run: another command is writing this folder; wait for it to end or choose"):
        run(packed, quick_recipe(epochs=1), folder)
    code, out, err = uol("train", "--data", "synthetic", "--recipe", "demo", "--out", folder)
    assert (code, out) == (2, "")
    assert err.strip().splitlines()[-1].endswith("wait for it to end or choose another folder")
    assert sorted(path.name for path in folder.iterdir()) == before
    process.kill()  # which releases it
    process.wait()
    run(packed, quick_recipe(epochs=1), folder)
    assert RunFolder(folder).checkpoint.is_file()
    assert not (folder / ".lock").exists()


def test_an_evaluation_is_not_written_while_another_process_writes(held, finished_run, drawn_b, uol, monkeypatch):
    folder, process = held
    shutil.copytree(finished_run, folder, dirs_exist_ok=True)
    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: drawn_b)
    called = ("evaluate", folder / "model", "--data", "synthetic", "--json")
    code, out, err = uol(*called)
    assert (code, out) == (2, "")
    assert "another command is writing this folder; wait for it to end" in err.strip().splitlines()[-1]
    assert not (folder / "evaluations").exists()
    process.kill()
    process.wait()
    assert uol(*called)[0] == 0
    assert (folder / "evaluations" / "synthetic-b.json").is_file()
    assert not (folder / ".lock").exists()


@pytest.mark.slow
def test_a_lock_counts_once_in_one_process_and_leaves_nothing(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    with folder.locked():
        with RunFolder(tmp_path / "a" / "run").locked():
            pass
        code = f"from uol.runs.folder import RunFolder\nRunFolder({str(folder)!r}).check_unlocked()"
        refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another command is writing this folder" in refused.stderr
    assert not (tmp_path / "a").exists()
