"""The command line as a user meets it: output, exit codes, and one line for every mistake."""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from quick import quick_recipe
from uol.training.recipe import dump_recipe

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "quick.yaml"
    path.write_text(dump_recipe(quick_recipe(epochs=1)))
    return path


@pytest.fixture(scope="session")
def ratings_file(drawn, image_files, tmp_path_factory):
    """A table of ratings of the ten image files."""
    path = tmp_path_factory.mktemp("tables") / "ratings.csv"
    lines = ["image,rater,rating"]
    for name, row in zip(drawn.names[:10], drawn.ratings.matrix[:10], strict=True):
        lines += [f"{name}.png,r{j},{value:g}" for j, value in enumerate(row[:12])]
    path.write_text("\n".join(lines))
    return path


def one_line(text):
    assert len(text.strip().splitlines()) == 1, text
    assert text.startswith("uol: ")
    assert "Traceback" not in text
    return text


def test_help_imports_nothing_heavy():
    code = "import sys; sys.argv = ['uol', '--help']\nfrom uol.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "heavy = {'torch', 'timm', 'pandas', 'numpy', 'matplotlib', 'scipy', 'cv2'} & set(sys.modules)\n"
    code += "print('heavy:', sorted(heavy))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("heavy: []")
    for command in ("demo", "data", "train", "evaluate", "report", "experiment", "score", "compare", "rank", "anchor"):
        assert command in result.stdout


EARLY = ["uol.cli", "typer", "uol.cli.data", "pydantic", "uol.cli.train", "uol.storage.cores"]
INTERRUPTED = """
import os, signal, sys

class Interrupts:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == interrupted:
            os.kill(os.getpid(), signal.SIGINT)

interrupted = sys.argv.pop()
sys.argv += ["data", "list"]
sys.meta_path.insert(0, Interrupts)
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
from uol.__main__ import main
main()
"""


@pytest.mark.parametrize("module", EARLY)
def test_ctrl_c_is_one_line_while_the_command_line_is_imported(module):
    result = subprocess.run([sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "uol: interrupted\n")


def test_the_script_is_the_main_that_answers_ctrl_c():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"uol": "uol.__main__:main"}


@pytest.mark.parametrize("command", ["demo", "train", "evaluate", "report", "score", "compare", "rank", "anchor"])
def test_every_command_explains_itself_with_an_example(uol, command):
    code, out, _ = uol(command, "--help")
    assert code == 0
    assert f"uol {command}" in out


def test_score(uol, model_folder, image_files):
    code, out, err = uol("score", image_files, "--model", model_folder, "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert len(rows) == 10
    assert set(rows[0]) == {"image", "face", "value", "low", "high", "dispersion", "error"}
    assert all(row["low"] <= row["value"] <= row["high"] and row["error"] is None for row in rows)
    code, out, _ = uol("score", *sorted(image_files.iterdir())[:2], "--model", model_folder)
    assert code == 0
    assert "face-0002" in out


def test_broken_images_are_named_and_the_others_scored(uol, model_folder, image_files, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    good = sorted(image_files.iterdir())[0]
    code, out, err = uol("score", tmp_path / "broken.jpg", good, "--model", model_folder, "--json")
    broken, scored = json.loads(out)
    assert code == 1
    assert "1 of 2 images could not be scored" in err
    assert broken["value"] is None
    assert "broken.jpg" in broken["error"]
    assert scored["value"] is not None


def test_file_names_are_shown_as_they_are(uol, model_folder, image_files, tmp_path):
    (tmp_path / "d[").mkdir()
    shutil.copy(sorted(image_files.iterdir())[0], tmp_path / "d[" / "x] [red].png")
    code, out, err = uol("score", tmp_path, "--model", model_folder)
    assert (code, err) == (0, "")
    assert "d[/x] [red].png" in out


def test_compare_and_rank(uol, model_folder, image_files):
    first, second = sorted(image_files.iterdir())[:2]
    code, out, _ = uol("compare", first, second, "--model", model_folder, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["less"] + answer["similar"] + answer["greater"] == pytest.approx(1)
    code, out, _ = uol("rank", image_files, "--model", model_folder, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["value"] for row in rows] == sorted((row["value"] for row in rows), reverse=True)
    assert rows[0]["rank"] == 1


@pytest.mark.filterwarnings("default:.*left out")
def test_photographs_that_cannot_be_used_do_not_end_anchoring(uol, image_files, ratings_file, model_folder, tmp_path):
    photos, table = tmp_path / "photos", tmp_path / "ratings.csv"
    shutil.copytree(image_files, photos)
    for name in ("a-broken.png", "z-broken.png"):
        (photos / name).write_bytes(b"no picture")
    added = [f"{name},r{rater},3" for name in ("a-broken.png", "z-broken.png") for rater in range(12)]
    table.write_text("\n".join([ratings_file.read_text().rstrip(), *added]))
    code, out, err = uol("anchor", photos, table, "--model", model_folder, "--out", tmp_path / "new", "--json")
    assert code == 0, err
    assert json.loads(out)["images"] == 10
    assert "2 rated images left out: " in err
    assert "a-broken.png" in err
    assert err.count("and 1 more") == 1
    next(photos.glob("[!az]*")).write_bytes(b"no picture")
    code, _, err = uol("anchor", photos, table, "--model", model_folder, "--out", tmp_path / "none")
    assert code == 2
    assert "only 9 of 12 rated images can be used; anchoring requires at least 10 (" in err
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_train_evaluate_and_anchor(uol, recipe_file, image_files, ratings_file, model_folder, tmp_path):
    own = ("--data", "own", "--root", image_files, "--table", ratings_file)
    new = ("--data", image_files, "--table", ratings_file)
    code, _, err = uol("train", *new, "--recipe", recipe_file, "--out", tmp_path / "run")
    assert code == 0, err
    assert uol("train", *own, "--recipe", recipe_file, "--out", tmp_path / "run")[0] == 0  # the same data set
    assert uol("evaluate", tmp_path / "run", *new)[0] == 2  # on which there is no image to test
    assert (tmp_path / "run" / "model" / "config.json").is_file()
    assert yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["epochs"] == 1
    anchor = ("--model", model_folder, "--out", tmp_path / "new", "--json")
    code, out, err = uol("anchor", image_files, "--table", ratings_file, *anchor)
    assert code == 0, err
    assert uol("anchor", image_files, ratings_file, *anchor, "--replace")[:2] == (0, out)
    evaluated = [uol("evaluate", model_folder, *form, "--json")[:2] for form in (own, new)]
    assert evaluated[0] == evaluated[1]
    assert json.loads(evaluated[0][1])["images"] == 10
    assert "only 10 rated images" in err
    assert json.loads(out)["images"] == 10
    code, out, _ = uol("score", image_files, "--model", tmp_path / "new", "--json")
    assert code == 0
    assert len(json.loads(out)) == 10


@pytest.fixture
def three_folds(drawn, tmp_path):
    """Sixty drawn faces with a table that divides them into three folds."""
    folder = tmp_path / "faces"
    folder.mkdir()
    rows = ["image,mean,fold"]
    for k, (name, pixels, score) in enumerate(zip(drawn.names[:60], drawn.images, drawn.scores, strict=False)):
        Image.fromarray(np.asarray(pixels)).save(folder / f"{name}.png")
        rows.append(f"{name}.png,{score},{k % 3 + 1}")
    (tmp_path / "folds.csv").write_text("\n".join(rows))
    return ("--data", "own", "--root", folder, "--table", tmp_path / "folds.csv", "--scale", "1", "5")


@pytest.mark.slow
def test_all_folds_are_trained_tested_reported_and_added(uol, three_folds, recipe_file, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "ab" * 20)
    run = tmp_path / "run"
    code, out, err = uol("train", *three_folds, "--fold", "all", "--recipe", recipe_file, "--out", run, "--json")
    assert code == 0, err
    trained = json.loads(out)
    assert [row["split"] for row in trained] == ["fold-1", "fold-2", "fold-3"]
    assert [row["images"] for row in trained] == [20, 20, 20]
    code, out, err = uol("evaluate", run, *three_folds, "--json")
    assert code == 0, err
    for row, before in zip(json.loads(out), trained, strict=True):  # each on the images its own fold kept apart
        assert (row["model"], row["split"], row["images"]) == (before["split"], before["split"], 20)
        assert row["pc"] == pytest.approx(before["pc"], abs=1e-6)
    assert not (run / "fold-1" / "evaluations").exists()
    code, _, err = uol("evaluate", run, *three_folds, "--fold", "1")
    assert code == 2
    assert "fold-2 was trained on images of that split; its split is fold-2" in err
    code, _, err = uol("evaluate", run, "--data", "synthetic", "--fold", "all")
    assert (code, "name one split" in err) == (2, True)
    assert uol("report", run)[0] == 0
    (tmp_path / "results").mkdir()
    code, _, err = uol("experiment", "add", run, "--results", tmp_path / "results")
    assert code == 0, err
    code, out, _ = uol("experiment", "table", "folds", "--results", tmp_path / "results", "--json")
    assert json.loads(out)[0]["folds"] == 3
    before = (run / "fold-1" / "checkpoint.safetensors").stat().st_mtime_ns
    assert uol("train", *three_folds, "--fold", "all", "--recipe", recipe_file, "--out", run)[0] == 0
    assert (run / "fold-1" / "checkpoint.safetensors").stat().st_mtime_ns == before


def test_wrong_methods_weights_and_settings_are_found_before_images_are_read(uol, three_folds, recipe_file, tmp_path):
    train = ("train", *three_folds, "--fold", "1", "--recipe", recipe_file, "--out", tmp_path / "run")
    for change, told in [
        ("method=foo", "no method called 'foo'"),
        ("init=none.safetensors", "none.safetensors: no such file of weights"),
        ("model.backbone=vgg61", "did you mean"),
        ("alpha=.inf", "alpha"),
        ("augmentation.saturation=[2, 1]", "augmentation.saturation: a range from 0 up"),
        ("augmentation.saturation=[.nan, .nan]", "augmentation.saturation"),
    ]:
        code, _, err = uol(*train, "--set", change)
        assert code == 2, err
        assert told in err
        assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_score_to_a_file_from_a_list_and_again(uol, model_folder, image_files, tmp_path, monkeypatch):
    files = sorted(image_files.iterdir())
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(str, files[:4]))))
    out = tmp_path / "rows.csv"
    code, printed, err = uol("score", "-", "--model", model_folder, "--out", out)
    assert (code, printed) == (0, "")
    assert "4 rows" in err
    table = pd.read_csv(out)
    box = ["face_left", "face_top", "face_width", "face_height"]
    assert list(table) == ["image", "face", *box, "problems", "value", "low", "high", "dispersion", "error"]
    code, printed, _ = uol("score", f"{image_files}/face-000*.png", "--model", model_folder, "--csv")
    assert code == 0
    again = pd.read_csv(io.StringIO(printed))
    shared = again.set_index("image")["value"].loc[table["image"]]
    assert np.allclose(shared, table["value"], atol=1e-5)
    code, _, err = uol("score", files[0], "--model", model_folder, "--json", "--csv")
    assert (code, "choose one" in err) == (2, True)


def test_nothing_is_written_over_what_is_scored(uol, model_folder, image_files, tmp_path):
    shutil.copytree(image_files, tmp_path / "photos")
    image = sorted((tmp_path / "photos").iterdir())[0]
    before = {path.name: path.read_bytes() for path in (tmp_path / "photos").iterdir()}
    for call in (
        ("rank", image, "--out", image),
        ("rank", image, "--html", image),
        ("score", image, "--explain", image),
        ("score", tmp_path / "photos", "--explain", tmp_path / "photos"),
        ("score", image, "--out", image),
    ):
        code, _, err = uol(*call, "--model", model_folder)
        assert code == 2
        assert "choose another name" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "photos").iterdir()} == before


def test_lists_may_have_blank_lines_and_missing_files(uol, model_folder, image_files, tmp_path, monkeypatch):
    good = sorted(image_files.iterdir())[0]
    monkeypatch.chdir(image_files)  # a blank line must not stand for this folder
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\ufeff{good}\n\n  \n{tmp_path / 'gone.jpg'}\n"))
    code, out, err = uol("score", "-", "--model", model_folder, "--json")
    rows = json.loads(out)
    assert code == 1
    assert [row["image"] for row in rows] == [str(good), str(tmp_path / "gone.jpg")]
    assert "no such image file" in rows[1]["error"]
    assert "1 of 2 images" in err


def test_a_missing_file_among_several_costs_only_its_row(uol, model_folder, image_files, tmp_path):
    good, gone = sorted(image_files.iterdir())[0], tmp_path / "gone.jpg"
    (tmp_path / "film.mov").write_text("")
    shutil.copy(good, tmp_path / "copy.png")
    code, out, err = uol("score", good, gone, "x" * 300, tmp_path, "--model", model_folder, "--json")
    rows = json.loads(out)
    assert code == 1
    assert [row["error"] is None for row in rows] == [True, False, False, True]
    assert "no such image file" in rows[1]["error"]
    assert "passed over 1 other: 1 .mov" in err
    code, out, err = uol("score", gone, tmp_path / "nowhere.jpg", "--model", model_folder, "--json")
    assert (code, out) == (2, "")
    assert "gone.jpg: no such file or folder" in err


def test_wrong_calls_are_refused_before_anything_is_scored(uol, model_folder, image_files, ratings_file, tmp_path):
    model = ("--model", model_folder)
    for call, told in [
        (("score", image_files, "--explain", tmp_path / "one.png"), "cannot hold 10 pictures"),
        (("score", image_files, "--explain", tmp_path / "one.jpg"), "pictures are PNG files"),
        (("score", image_files, "--all-faces"), "scores whole images"),
        (("score", image_files, "--out", tmp_path), "must end in"),
        (("rank", image_files, "--out", tmp_path / "x.txt"), "must end in"),
        (("anchor", image_files, ratings_file, "--votes", "--scale", "1", "5", "--out", tmp_path / "n"), "--scale"),
        (("anchor", image_files, ratings_file, "--out", model_folder), "the model itself"),
    ]:
        code, out, err = uol(*call, *model)
        assert (code, out) == (2, ""), err
        assert told in err
        assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_ranking_as_a_page_and_a_score_explained(uol, model_folder, image_files, tmp_path):
    code, _, err = uol("rank", image_files, "--model", model_folder, "--html", tmp_path / "page.html")
    assert code == 0, err
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<img") == 10
    image = sorted(image_files.iterdir())[0]
    code, _, err = uol("score", image, "--model", model_folder, "--explain", tmp_path / "why.png")
    assert code == 0, err
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width >= 1000


@pytest.mark.slow
def test_mistakes(uol, model_folder, image_files, recipe_file, ratings_file, tmp_path):
    image = sorted(image_files.iterdir())[0]
    (tmp_path / "empty").mkdir()
    (tmp_path / "nan.csv").write_text("image,rater,rating\nface-0001.png,a,nan\nface-0002.png,a,\n")
    (tmp_path / "typo.yaml").write_text("epoch: 3")
    train = ("train", "--data", "synthetic", "--out", tmp_path / "run", "--recipe", recipe_file)
    own = ("--data", "own", "--root", image_files, "--table")
    cases = [
        (2, ("score", tmp_path / "nowhere.jpg", "--model", model_folder), "no such file or folder"),
        (2, ("score", tmp_path / "empty", "--model", model_folder), "no images in this folder"),
        (2, ("score", image, "--model", tmp_path / "nowhere"), "no such model folder"),
        (1, ("score", image, "--model", tmp_path / "empty"), "config.json is missing"),
        (2, ("compare", image, tmp_path / "nowhere.jpg", "--model", model_folder), "no such image file"),
        (2, ("anchor", image_files, ratings_file, "--model", model_folder, "--out", image_files), "other files in it"),
        (2, (*train, "--set", "x=["), "not readable"),
        (2, (*train, "--data", "own", "--root", image_files), "--table"),
        (2, (*train[:-1], tmp_path / "typo.yaml"), "did you mean 'epochs'"),
        (2, (*train, "--data", "scut"), "unknown data set"),
        (2, (*train, "--data", "mebeauty"), "needs a folder"),
        (2, (*train, "--set", "epochs"), "name=value"),
        (2, (*train, "--set", "epochs=none"), "epochs"),
        (2, (*train, "--data", "synthetic", "--split", "7"), "no split"),
        (1, (*train, *own, tmp_path / "nan.csv"), "rating"),
        (2, (*train, *own, tmp_path / "nowhere.csv"), "nowhere.csv"),
    ]
    for expected, arguments, words in cases:
        code, out, err = uol(*arguments)
        assert code == expected, (arguments, err)
        assert out == ""
        assert words in one_line(err)
    assert not (tmp_path / "run").exists()


def test_wrong_options_exit_with_two(uol):
    code, _, err = uol("score", "--colour")
    assert code == 2
    assert "Traceback" not in err


def test_debug_shows_the_traceback(uol, tmp_path):
    code, _, err = uol("--debug", "score", tmp_path / "nowhere.jpg", "--model", tmp_path)
    assert code == 2
    assert "Traceback" in err


def test_version(uol):
    import uol as package

    assert uol("--version") == (0, package.__version__ + "\n", "")


def test_models_photographs_and_faces_are_not_written_over(uol, model_folder, image_files, ratings_file, tmp_path):
    folder, photograph = image_files, next(image_files.iterdir())
    assert uol("anchor", folder, ratings_file, "--model", model_folder, "--out", tmp_path / "ours")[0] == 0
    card = (tmp_path / "ours" / "README.md").read_text(encoding="utf-8")
    assert "anchors, each scored by comparison with the others" in card
    assert "whose terms hold for it too" in card
    code, _, err = uol("anchor", folder, ratings_file, "--model", model_folder, "--out", tmp_path / "ours")
    assert (code, "--replace" in err) == (2, True)
    for wrong, told in (
        (("rank", photograph, "--html", tmp_path / "other.jpg"), "must end in .html"),
        (("score", folder, "--face-cache", folder / "cache"), "which is to be scored"),
        (("score", photograph, "--face-cache", folder), "contains"),
        (("score", photograph, "--face-cache", ""), "--face-cache is empty; name a folder"),
    ):
        code, _, err = uol(*wrong, "--model", model_folder)
        assert (code, told in err) == (2, True), err


def test_ratings_against_the_models_order_are_remarked_on(uol, model_folder, image_files, ratings_file, tmp_path):
    table = pd.read_csv(ratings_file)
    table["rating"] = 6 - table["rating"]
    table.to_csv(tmp_path / "reversed.csv", index=False)
    code, _, err = uol(
        "anchor",
        image_files,
        tmp_path / "reversed.csv",
        "--model",
        model_folder,
        "--out",
        tmp_path / "ours",
        "--scale",
        1,
        5,
    )
    assert code == 0
    assert "hardly follow the model's order" in err
    assert ("are they reversed?" in err) == ("(PC -" in err)


@pytest.mark.slow
def test_python_runs_the_package_as_the_command():
    importlib.import_module("uol.__main__")  # as processes do that `uol serve` starts: nothing runs
    ran = subprocess.run([sys.executable, "-m", "uol", "--version"], capture_output=True, text=True, check=True)
    import uol as package

    assert ran.stdout == package.__version__ + "\n"


def test_a_printed_error_names_the_image_once(uol, model_folder, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    code, out, _ = uol("score", tmp_path / "broken.jpg", "--model", model_folder)
    assert (code, out.count("broken.jpg")) == (1, 1)


OPENING = """
import os, signal, sys, threading, time
import uol.scoring.onnx as onnx

def slow(opened, path, threads):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)

onnx._open_later = slow
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
from uol.__main__ import main
sys.argv = ["uol", "compare", *sys.argv[1:]]
main()
"""


def test_ctrl_c_does_not_wait_for_a_model_that_is_being_opened(tmp_path):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (40, 40)).save(tmp_path / name)
    command = [sys.executable, "-c", OPENING, tmp_path / "a.png", tmp_path / "b.png"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "uol: interrupted\n")


@pytest.mark.parametrize(("encoding", "redirection"), [("utf-8", ">&-"), ("ascii", "")])
def test_output_that_is_closed_or_has_few_characters_is_no_fault(encoding, redirection):
    result = in_shell(f"experiment list --results {RESULTS} {redirection}", PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_is_json_in_any_encoding(tmp_path, encoding):
    name = "é\U0001f469.png"
    (tmp_path / name).write_bytes(b"no picture")
    result = in_shell(f"score {tmp_path} {tmp_path / name} --json", PYTHONIOENCODING=encoding)
    assert [Path(row["image"]).name for row in json.loads(result.stdout)] == [name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_output_that_is_full_or_that_nobody_reads_is_one_line():
    full = in_shell(f"experiment list --results {RESULTS} > /dev/full")
    assert (full.returncode, full.stderr) == (1, "uol: no space is left where the output goes\n")
    unread = in_shell(f"experiment list --results {RESULTS} | true")
    assert (unread.returncode, unread.stderr) == (0, "")  # of the pipe's last command


def in_shell(words, **settings):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | settings
    command = ["sh", "-c", f"{sys.executable} -m uol {words}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
