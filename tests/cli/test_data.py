"""uol data as a user meets it."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from uol.datasets.fetching import REPOSITORIES


@pytest.fixture
def uol(uol):
    """Run a `uol data` command: (exit code, stdout, stderr)."""
    return lambda *arguments: uol("data", *arguments)


@pytest.fixture
def rated_folder(drawn, tmp_path):
    """Forty drawn faces at 64 pixels with a table of ratings: (folder, table)."""
    from uol.datasets.synthetic import load_synthetic

    faces = load_synthetic(40, 10, size=64)
    folder = tmp_path / "faces"
    folder.mkdir()
    rows = []
    for name, pixels, row in zip(faces.names, faces.images, faces.ratings.matrix, strict=True):
        Image.fromarray(np.asarray(pixels)).save(folder / f"{name}.png")
        rows += [(f"{name}.png", f"r{j}", value) for j, value in enumerate(row[:15])]
    pd.DataFrame(rows, columns=["image", "rater", "rating"]).to_csv(tmp_path / "ratings.csv", index=False)
    return folder, tmp_path / "ratings.csv"


@pytest.mark.parametrize("command", ["list", "check", "stats", "align", "split", "fetch"])
def test_every_command_explains_itself_with_an_example(uol, command):
    code, out, _ = uol(command, "--help")
    assert code == 0
    assert f"uol data {command}" in out


def test_list(uol):
    code, out, _ = uol("list", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    assert {"scut-fbp5500", "mebeauty", "hot-or-not", "color-feret", "mifs", "omi", "own", "votes", "synthetic"} == set(
        rows
    )
    assert rows["mebeauty"]["scale"] == [1, 10]
    code, out, _ = uol("list")
    assert "scut-fbp5500" in out


def test_stats_as_json_table_and_page(uol, rated_folder, tmp_path):
    folder, table = rated_folder
    code, out, _ = uol("stats", folder, "--table", table, "--json", "--html", tmp_path / "page.html")
    stats = json.loads(out)
    assert code == 0
    assert {"name", "images", "raters", "mean_rating_variance", "reliability"} <= set(stats)
    assert (stats["images"], stats["raters"]) == (40, 15)
    assert stats["reliability"]["icc_2_k"] > 0.5
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "ICC(2,1)" in page
    assert page.count("data:image/png") >= 3
    code, out, _ = uol("stats", folder, "--table", table)
    assert code == 0
    assert "Krippendorff" in out


def test_scale_and_columns_can_be_told(uol, rated_folder, tmp_path):
    folder, table = rated_folder
    renamed = pd.read_csv(table).rename(columns={"image": "what", "rater": "who", "rating": "how"})
    renamed.loc[0, "how"] = 99
    renamed.to_csv(tmp_path / "odd.csv", index=False)
    told = ("--read", "image=what", "--read", "rater=who", "--read", "rating=how", "--read", "missing=99")
    code, out, err = uol("stats", folder, "--table", tmp_path / "odd.csv", "--scale", "1", "7", *told, "--json")
    assert code == 0, err
    assert json.loads(out)["scale"] == [1, 7]
    code, _, err = uol("stats", folder, "--table", table, "--scale", "5", "1")
    assert code == 2
    assert "lowest rating first" in err
    code, _, err = uol("stats", folder, "--table", table, "--read", "image")
    assert code == 2
    assert "name=value" in err


@pytest.mark.slow
def test_old_and_new_forms_read_the_same(uol, rated_folder, tmp_path, monkeypatch):
    folder, table = rated_folder
    monkeypatch.chdir(folder.parent)
    forms = [("faces/", "--table", table), ("own", "faces", "--table", table), ("faces", table),
             ("own", "--root", "faces", "--table", table)]  # fmt: skip
    assert len({uol("stats", *form, "--json")[:2] for form in forms}) == 1
    for form in forms:
        assert uol("check", *form)[0] == 0
        assert uol("split", *form, "--folds", 2, "--out", tmp_path / "folds.csv")[0] == 0
    (folder.parent / "synthetic").mkdir()  # a name wins over a folder
    assert json.loads(uol("stats", "synthetic", "--json")[1])["images"] == 1500
    code, _, err = uol("stats", "./synthetic")
    assert (code, "requires --table FILE" in err) == (2, True)


def test_votes_on_pairs_of_a_folder(uol, rated_folder, tmp_path):
    folder, _ = rated_folder
    names = sorted(path.name for path in folder.iterdir())[:4]
    lines = [f"{a},{b},{a if i % 3 else b}" for i, (a, b) in enumerate((a, b) for a in names for b in names if a < b)]
    (tmp_path / "votes.csv").write_text("\n".join(["first,second,winner", *lines]))
    found = [
        uol("stats", *form, "--table", tmp_path / "votes.csv", "--json")[:2]
        for form in ((folder, "--votes"), ("votes", folder))
    ]
    assert found[0] == found[1]
    assert json.loads(found[0][1])["images"] == 4


def test_check_finds_what_would_harm(uol, rated_folder):
    folder, table = rated_folder
    code, out, err = uol("check", folder, "--table", table, "--json")
    assert code == 0, err
    assert json.loads(out)["harmful"] is False
    (folder / "face-0003.png").write_bytes(b"broken")
    shutil.copy(folder / "face-0001.png", folder / "face-0002.png")
    code, out, err = uol("check", folder, "--table", table)
    assert code == 1
    assert "face-0003.png" in err
    report = json.loads(uol("check", folder, "--table", table, "--json")[1])
    assert len(report["unreadable"]) == 1
    assert len(report["exact_duplicates"]) == 1


def test_check_finds_a_test_image_among_the_training_images(uol, rated_folder, tmp_path):
    folder, table = rated_folder
    shutil.copy(folder / "face-0001.png", folder / "face-0002.png")
    rows = pd.read_csv(table)
    rows["split"] = np.where(rows["image"] == "face-0001.png", "test", "train")
    rows.to_csv(tmp_path / "split.csv", index=False)
    code, _, err = uol("check", folder, "--table", tmp_path / "split.csv")
    assert code == 1
    assert "copies of training images" in err


def test_split_does_not_overwrite_what_it_reads(uol, rated_folder):
    folder, table = rated_folder
    photograph = next(folder.iterdir())
    for out in (table, photograph):
        before = out.read_bytes()
        code, _, err = uol("split", folder, "--table", table, "--out", out)
        assert (code, out.read_bytes() == before, len(err.splitlines())) == (2, True, 1), err


def test_split_replaces_folds_alone(uol, rated_folder, tmp_path):
    folder, table = rated_folder
    for kept in ("image,rating,fold\na.png,3,1\n", "name,fold\na.png,1\n"):
        (tmp_path / "theirs.csv").write_text(kept)
        code, _, err = uol("split", folder, "--table", table, "--folds", 2, "--out", tmp_path / "theirs.csv")
        assert (code, "exists, and is no table that this command wrote" in err) == (2, True), err
        assert (tmp_path / "theirs.csv").read_text() == kept
    for _ in range(2):
        code, _, err = uol("split", folder, "--table", table, "--folds", 2, "--out", tmp_path / "ours.csv")
        assert code == 0, err


def test_split_keeps_copies_together(uol, rated_folder, tmp_path):
    folder, table = rated_folder
    shutil.copy(folder / "face-0001.png", folder / "face-0002.png")
    code, _, err = uol("split", folder, "--table", table, "--folds", "4", "--out", tmp_path / "folds.csv")
    assert code == 0, err
    folds = pd.read_csv(tmp_path / "folds.csv").set_index("image")["fold"]
    assert folds.value_counts().tolist() == [10, 10, 10, 10]
    names = sorted(folds.index)
    assert folds[names[0]] == folds[names[1]]


def test_align_lists_what_has_no_face(uol, tmp_path):
    pytest.importorskip("cv2", reason="needs the extra `face`")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (200, 200), "grey").save(tmp_path / "photos" / "wall.jpg")
    code, out, err = uol("align", tmp_path / "photos", "--out", tmp_path / "faces", "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["failed"][0]["image"], found["without_face"], found["unreadable"]) == ("wall.jpg", 1, 0)
    assert pd.read_csv(tmp_path / "faces" / "faces.csv")["problems"].str.contains("no face").all()
    for name in ("a.jpg", "a.png"):
        Image.new("RGB", (20, 20)).save(tmp_path / "photos" / name)
    code, _, err = uol("align", tmp_path / "photos", "--out", tmp_path / "faces")
    assert code == 1
    assert "rename one of them" in err


def test_fetch_fails_in_one_line_and_leaves_nothing(uol, tmp_path, monkeypatch):
    monkeypatch.setitem(REPOSITORIES, "mebeauty", str(tmp_path / "no-such-repository"))
    code, _, err = uol("fetch", "mebeauty", "--out", tmp_path / "copy")
    assert code == 1
    assert "could not be cloned" in err
    assert not (tmp_path / "copy").exists()
    assert uol("fetch", "scut-fbp5500", "--out", tmp_path / "copy")[0] == 2
    assert uol("fetch", "mebeauty", "--out", tmp_path)[0] == 2
    monkeypatch.setattr("shutil.which", lambda name: None)
    code, _, err = uol("fetch", "mebeauty", "--out", tmp_path / "copy")
    assert code == 1
    assert "git is not installed" in err


def test_wrong_folders_are_refused_in_one_line(uol, tmp_path):
    for name in ("scut-fbp5500", "mebeauty", "hot-or-not", "color-feret", "mifs", "omi"):
        code, out, err = uol("stats", name, tmp_path)
        assert (code, out) == (2, ""), name
        assert len(err.strip().splitlines()) == 1
        assert "missing" in err


def test_check_lists_near_duplicates(uol, rated_folder):
    folder, table = rated_folder
    with Image.open(folder / "face-0005.png") as face:
        face.resize((90, 90)).save(folder / "face-0009.png")
    code, out, err = uol("check", folder, "--table", table)
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("face-0005.png"))
    assert "face-0009.png" in line


def test_stats_from_counts_say_so(uol, drawn, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: replace(drawn, ratings=None))
    code, out, err = uol("stats", "synthetic")
    assert code == 0
    assert "ICC(1,1)" in out
    assert "raters are not identified" in err


def test_align_takes_folders_and_data_sets(uol, drawn, tmp_path, monkeypatch):
    from uol.images import face_cache
    from uol.images.faces import AlignedFace, Face

    face = Face((0.0, 0.0, 9.0, 9.0), np.zeros((5, 2)), 1.0)
    monkeypatch.setattr(face_cache, "opencv", lambda: None)
    monkeypatch.setattr(
        face_cache, "find_face", lambda _, size, *__: AlignedFace(np.zeros((size, size, 3), np.uint8), face)
    )
    (tmp_path / "photos").mkdir()
    for k in range(3):
        Image.new("RGB", (20, 20), (k, 0, 0)).save(tmp_path / "photos" / f"{k}.jpg")
    inside = tmp_path / "photos" / "faces"
    for _ in range(2):  # the faces of the first run are no photographs to the second
        code, out, err = uol("align", tmp_path / "photos", "--out", inside, "--size", "16", "--json")
        assert code == 0, err
        assert json.loads(out) == {
            "images": 3, "aligned": 3, "doubtful": 0, "without_face": 0, "unreadable": 0, "failed": [],
        }  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr("uol.datasets.load", lambda *_, **__: drawn.subset(range(5)))
        code, out, err = uol("align", "synthetic", "--out", tmp_path / "drawn", "--size", "16", "--json")
    assert code == 0, err
    assert json.loads(out)["aligned"] == len(list((tmp_path / "drawn").glob("face-*.png"))) == 5
    code, _, err = uol("align", tmp_path / "nowhere", "--out", tmp_path / "x")
    assert code == 2
    assert "no such folder" in err
    code, _, err = uol("align", "mebeauty", "--out", tmp_path / "x")
    assert code == 2
    assert "needs a folder" in err
    code, _, err = uol("align", inside, "--out", inside)
    assert code == 2
    assert "give the folder of the photographs" in err


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_fetch_clones(uol, tmp_path, monkeypatch):
    source = tmp_path / "source"
    (source / "scores").mkdir(parents=True)
    (source / "scores" / "scores.txt").write_text("one")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "data"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *command], cwd=source, check=True, capture_output=True)
    monkeypatch.setitem(REPOSITORIES, "mebeauty", source.as_uri())
    code, _, err = uol("fetch", "mebeauty", "--out", tmp_path / "copy")
    assert code == 0, err
    assert (tmp_path / "copy" / "scores" / "scores.txt").read_text() == "one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]
