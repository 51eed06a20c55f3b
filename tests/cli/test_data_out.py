"""`uol data stats`: the tables it writes, votes, groups, and tables without raters."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image


@pytest.fixture
def uol(uol):
    return lambda *arguments: uol("data", "stats", *arguments)


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ["=1+1.png", *(f"f{k}.png" for k in range(11))]:
        Image.new("RGB", (4, 4)).save(folder / name)
    return folder


@pytest.fixture
def ratings(photos, tmp_path):
    random = np.random.default_rng(0)
    names = sorted(path.name for path in photos.iterdir())
    rows = [
        (name, f"r{j}", int(np.clip(round(1 + k / 2 + random.normal(0, 0.5)), 1, 7)), "f" if k % 2 else "m")
        for k, name in enumerate(names)
        for j in range(8)
    ]
    table = pd.DataFrame(rows, columns=["image", "rater", "rating", "gender"])
    table.to_csv(tmp_path / "ratings.csv", index=False)
    return tmp_path / "ratings.csv"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_row_per_image_and_per_rater(uol, photos, ratings, tmp_path, suffix):
    images, raters = tmp_path / f"images.{suffix}", tmp_path / f"raters.{suffix}"
    code, out, err = uol(photos, "--table", ratings, "--out", images, "--raters-out", raters, "--json")
    assert code == 0, err
    read = pd.read_csv if suffix == "csv" else pd.read_parquet
    table, people = read(images), read(raters)
    given = pd.read_csv(ratings).groupby("image")["rating"]
    assert table["mean"].tolist() == pytest.approx(given.mean().tolist())
    assert table["sd"].tolist() == pytest.approx(given.std().tolist())
    assert table["n"].tolist() == [8] * 12
    assert table.filter(like="rated_").sum(axis=1).tolist() == [8] * 12
    assert table["gender"].tolist() == ["m", "f"] * 6
    assert people["rater"].tolist() == [f"r{j}" for j in range(8)]
    assert not people["flagged"].any()
    assert json.loads(out)["flagged_raters"] == []
    if suffix == "csv":
        assert "\n'=1+1.png," in images.read_text()
        again = tmp_path / "again.csv"  # what was written can be read as a table of means
        code, _, err = uol(photos, "--table", images, "--scale", 1, 7, "--out", again)
        assert code == 0, err
        assert pd.read_csv(again)["image"].tolist() == table["image"].tolist()
        assert pd.read_csv(again)["mean"].tolist() == pytest.approx(table["mean"].tolist())


def test_bad_names_of_files_are_refused_before_anything_is_read(uol, photos, ratings, tmp_path):
    for words in (["--out", "images.xls"], ["--raters-out", "raters"]):
        code, _, err = uol(photos, "--table", ratings, *words)
        assert (code, ".csv or .parquet" in err, err.count("\n")) == (2, True, 1)
    same = tmp_path / "a.csv"
    code, _, err = uol(photos, "--table", ratings, "--out", same, "--raters-out", same)
    assert (code, "name two files" in err) == (2, True)


def test_groups_differ_with_effect_size_and_interval(uol, photos, ratings):
    code, out, err = uol(photos, "--table", ratings)
    assert code == 0
    assert "Hedges' g" in out
    assert "bootstrap draws of raters and images" in err
    found = json.loads(uol(photos, "--table", ratings, "--json")[1])
    (row,) = found["differences"]["gender"]["rows"]
    assert row["difference_low_95"] < row["difference"] < row["difference_high_95"]
    assert {"mean_low_95", "mean_high_95"} <= set(found["by_group"]["gender"][0])


def test_votes_have_voters_errors_and_intervals(uol, photos, tmp_path):
    lines = [f"f{a}.png,f{b}.png,v{(a + b) % 3}" for a in range(5) for b in range(5) if a < b]
    (tmp_path / "votes.csv").write_text("\n".join(["winner,loser,voter", *lines]))
    code, out, err = uol(photos, "--table", tmp_path / "votes.csv", "--votes", "--json", "--out", tmp_path / "o.csv")
    assert code == 0, err
    found = json.loads(out)
    assert found["raters"] == 3
    rows = found["scale_values"]
    assert [row["image"] for row in rows] == [f"f{k}.png" for k in range(5)]
    assert all(row["scale_value_low_95"] < row["scale_value"] < row["scale_value_high_95"] for row in rows)
    written = pd.read_csv(tmp_path / "o.csv")
    assert written["scale_value"].tolist() == pytest.approx([row["scale_value"] for row in rows])
    code, out, _ = uol(photos, "--table", tmp_path / "votes.csv", "--votes")
    assert "standard error" in out
    assert "voters" in out
    code, _, err = uol(photos, "--table", tmp_path / "votes.csv", "--votes", "--raters-out", tmp_path / "r.csv")
    assert (code, "raters are not known" in err) == (2, True)


@pytest.mark.parametrize("slider", [False, True])
def test_a_long_table_without_raters_reports_none(uol, photos, ratings, tmp_path, slider):
    table = pd.read_csv(ratings).drop(columns="rater")
    if slider:
        table["rating"] = table["rating"] * 13 + np.arange(len(table)) % 7 + 0.5
    table.to_csv(tmp_path / "t.csv", index=False)
    code, out, err = uol(photos, "--table", tmp_path / "t.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["raters"] is None
    assert 0.5 < found["reliability"]["icc_1_k"] <= 1
    assert found["mean_rating_variance"] > 0
    code, _, err = uol(
        photos, "--table", tmp_path / "t.csv", "--raters-out", tmp_path / "r.csv", "--out", tmp_path / "o.csv"
    )
    assert (code, "raters are not known" in err) == (2, True)
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("option", ["--out", "--raters-out", "--html"])
def test_what_is_read_is_not_overwritten(uol, photos, ratings, option):
    before = ratings.read_bytes()
    code, _, err = uol(photos, "--table", ratings, option, ratings)
    assert (code, "would overwrite what this command reads" in err) == (2, True)
    assert ratings.read_bytes() == before


def test_only_tables_that_it_wrote_are_replaced(uol, photos, ratings, tmp_path):
    other = tmp_path / "other.csv"
    for content in (ratings.read_bytes(), b"\xff" * 200_000):
        other.write_bytes(content)
        for option in ("--out", "--raters-out"):
            code, _, err = uol(photos, "--table", ratings, option, other)
            assert (code, err.count("\n")) == (2, 1), err
            assert "exists, and is no table that this command wrote; choose another name" in err
            assert other.read_bytes() == content
    for _ in range(2):
        code, _, err = uol(photos, "--table", ratings, "--out", tmp_path / "i.csv", "--raters-out", tmp_path / "r.csv")
        assert code == 0, err


@pytest.mark.parametrize("wrong", ["17", "1", "a,b", ",", "1,2,3"])
def test_a_scale_that_is_none_is_one_line(uol, photos, ratings, wrong):
    code, _, err = uol(photos, "--table", ratings, "--read", f"scale={wrong}")
    assert (code, err) == (2, f"uol: --read scale={wrong}: give the lowest and the highest rating, as scale=1,10\n")
    code, _, err = uol(photos, "--table", ratings, "--read", "scale=1,7")
    assert code == 0, err
    code, _, err = uol(photos, "--table", ratings, "--read", "scale=1,7", "--scale", 1, 5)
    assert (code, err) == (2, "uol: --scale and --read scale=: give one of them\n")
    code, _, err = uol(photos, "--table", ratings, "--read", "scale=1,inf")
    assert (code, err) == (2, "uol: the scale must have ends, not go from 1 to inf\n")


def test_images_that_the_table_does_not_name_are_counted(uol, photos, ratings):
    table = pd.read_csv(ratings)
    table[table["image"].isin(["f0.png", "f1.png", "f2.png"])].to_csv(ratings, index=False)
    code, _, err = uol(photos, "--table", ratings)
    assert code == 0
    assert "not in the table: 9 images of the folder" in err
