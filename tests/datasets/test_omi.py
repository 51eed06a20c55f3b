from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest

from uol.datasets.omi import LEVELS, load_omi
from uol.errors import CallError, UolError
from uol.ratings.scale import Scale

ETHNICITIES = ("asian", "middle-eastern", "hispanic", "islander", "native", "black", "white")
FACES = 12  # the last is perceived as too young
RATINGS = 6


def ratings_of(face, attribute):
    rng = np.random.default_rng([face, len(attribute)])
    return rng.integers(0, 101, RATINGS)


def write(root, rows, table):
    root.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(root / "attribute_means.csv", index=False)
    with zipfile.ZipFile(root / "attribute_ratings.zip", "w") as packed:
        packed.writestr("attribute_ratings.csv", table.to_csv(index=False))


def means():
    rows = []
    for face in range(1, FACES + 1):
        row = {"stimulus": face, "trustworthy": 50.0, "attractive": float(ratings_of(face, "attractive").mean())}
        row |= {"age": 19.9 if face == FACES else 20.0 + face, "gender": 50.0 if face % 2 else 49.9}
        rows.append(row | {name: 90.0 if i == face % 7 else 10.0 for i, name in enumerate(ETHNICITIES)})
    return rows


def trials():
    rows = []
    for attribute in ("attractive", "trustworthy"):
        for face in range(1, FACES + 1):
            rows += [(r, attribute, "normal", face) for r in ratings_of(face, attribute)]
            rows += [(0, attribute, "repeat", face), (100, attribute, "fill-in", face)]
        rows.append((50, attribute, "normal", 3000))  # a face that is not in the download
    return pd.DataFrame(rows, columns=["rating", "attribute", "rating_type", "stimulus"])


@pytest.fixture
def root(tmp_path):
    from PIL import Image

    base = tmp_path / "omi"
    write(base, means(), trials())
    (base / "images").mkdir()
    rng = np.random.default_rng(0)
    for face in range(1, FACES + 1):
        pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((32, 32)).save(base / "images" / f"{face}.jpg")
    return base


def test_faces_of_adults_with_their_normal_ratings(root):
    images = load_omi(root.parent)
    assert images.name == "omi"
    assert images.scale == Scale(0, 100)
    assert images.names == [f"{face}.jpg" for face in range(1, FACES)]
    assert all(path.is_file() for path in images.images)
    said = np.array([ratings_of(face, "attractive") for face in range(1, FACES)])
    np.testing.assert_allclose(images.scores, said.mean(axis=1))
    np.testing.assert_allclose(images.variances, said.var(axis=1, ddof=1))
    assert set(images.counts) == {RATINGS}
    assert images.ratings is None  # who rated is not known
    assert "1 faces are left out: their mean perceived age is below 20" in images.notes


def test_histograms_have_whole_ratings_at_the_nearest_ten(root):
    images = load_omi(root)
    assert images.histograms is not None
    assert images.levels is not None
    assert images.levels.tolist() == LEVELS.tolist() == list(range(0, 101, 10))
    assert (images.histograms.sum(axis=1) == RATINGS).all()
    assert np.abs(images.histograms @ images.levels / RATINGS - images.scores).max() <= 5
    assert (images.histograms % 1 == 0).all()


def test_groups_are_what_was_perceived(root):
    groups = load_omi(root).groups
    assert groups["gender"].tolist() == ["male" if face % 2 else "female" for face in range(1, FACES)]
    assert groups["ethnicity"].tolist() == [ETHNICITIES[face % 7] for face in range(1, FACES)]


def test_five_folds_cover_all_and_are_the_same_for_every_attribute(root):
    images, other = load_omi(root), load_omi(root, attribute="trustworthy")
    assert list(images.splits) == [f"fold-{k}" for k in range(1, 6)]
    tested = np.concatenate([split.test for split in images.splits.values()])
    assert np.array_equal(np.sort(tested), np.arange(len(images)))
    for name, split in images.splits.items():
        assert np.intersect1d(split.train, split.test).size == 0
        assert np.array_equal(split.test, other.splits[name].test)


def test_another_attribute_is_another_panel(root):
    images = load_omi(root, attribute="trustworthy")
    assert images.name == "omi-trustworthy"
    np.testing.assert_allclose(images.scores[0], ratings_of(1, "trustworthy").mean())


def test_the_table_may_have_been_unpacked(root):
    packed = load_omi(root)
    with zipfile.ZipFile(root / "attribute_ratings.zip") as opened:
        opened.extractall(root)
    (root / "attribute_ratings.zip").unlink()
    assert load_omi(root).fingerprint == packed.fingerprint


def test_missing_images_and_ratings_are_noted(root):
    (root / "images" / "3.jpg").unlink()
    table = trials()
    write(root, means(), table[table["stimulus"] != 5])
    images = load_omi(root)
    assert "3.jpg" not in images.names
    assert "5.jpg" not in images.names
    assert "1 faces have no image file: 3" in images.notes
    assert "1 faces have no rating of attractive: 5" in images.notes


def test_an_unknown_attribute_is_refused_with_the_nearest(root):
    with pytest.raises(CallError, match=r"unknown attribute 'atractive': did you mean attractive\? there are trust"):
        load_omi(root, attribute="atractive")


@pytest.mark.parametrize("name", ["images", "attribute_means.csv", "attribute_ratings.zip"])
def test_what_is_missing_is_named(root, name):
    (root / name).rename(root / "elsewhere")
    with pytest.raises(CallError, match=rf"not the One Million Impressions download.*missing: {name[:17]}"):
        load_omi(root)


def test_no_folder(tmp_path):
    with pytest.raises(CallError, match="no such folder; omi expects a folder with images/"):
        load_omi(tmp_path / "nowhere")


def test_damaged_files_are_one_line(root):
    table = trials()
    table.loc[3, "rating"] = 101
    write(root, means(), table)
    with pytest.raises(UolError, match=r"attribute_ratings.zip, row 5: rating 101 is not within 0 to 100"):
        load_omi(root)
    (root / "attribute_ratings.zip").write_bytes(b"no zip")
    with pytest.raises(UolError, match="attribute_ratings.zip: cannot be read as the download's table of ratings"):
        load_omi(root)
    write(root, means(), trials().rename(columns={"rating_type": "type"}))
    with pytest.raises(UolError, match="cannot be read as the download's table of ratings"):
        load_omi(root)
    write(root, [{key: row[key] for key in row if key != "age"} for row in means()], trials())
    with pytest.raises(UolError, match="no column age"):
        load_omi(root)
    write(root, [*means(), means()[0]], trials())
    with pytest.raises(UolError, match="face 1 has two rows"):
        load_omi(root)
    write(root, [means()[0] | {"age": None}, *means()[1:]], trials())
    with pytest.raises(UolError, match="face 1 has gaps"):
        load_omi(root)


def test_no_face_is_here(root):
    for path in (root / "images").iterdir():
        path.rename(path.with_stem(f"face{path.stem}"))
    with pytest.raises(UolError, match="none of the faces that attribute_means.csv names"):
        load_omi(root)


def test_the_command_line_reads_an_attribute(root, uol):
    code, out, err = uol("data", "stats", "omi", root, "--read", "attribute=trustworthy")
    assert code == 0, err
    assert "omi-trustworthy" in out
