from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from uol import datasets
from uol.datasets.missing_codes import guess_scale
from uol.datasets.own import load_own
from uol.errors import CallError, UolError
from uol.ratings.scale import Scale

FILES = ["f/001.jpg", "f/002.png", "m/003.jpg", "m/004.JPG"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("faces")
    for name in FILES:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    return root


@pytest.fixture
def table(tmp_path):
    """Write a table of text and give its path."""

    def write(text, name="ratings.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


WIDE = "image,ann,bob,cay,gender\n001,1,2,,female\n002.png,5,4,3,female\nm/003,2,,,male\n"


def test_wide_table(folder, table):
    images = load_own(folder, table(WIDE))
    assert images.name == "ratings"
    assert images.names == FILES[:3]
    assert images.images[0] == folder / "f" / "001.jpg"
    assert images.scores.tolist() == [1.5, 4, 2]
    assert images.variances[:2].tolist() == [0.5, 1]
    assert np.isnan(images.variances[2])  # one rating: disagreement cannot be known
    assert images.counts.tolist() == [2, 3, 1]
    assert images.ratings is not None
    assert images.ratings.raters == ("ann", "bob", "cay")
    assert images.groups.to_dict("list") == {"gender": ["female", "female", "male"]}
    assert images.scale == Scale(1, 5)
    assert images.histograms is not None
    assert images.histograms.sum(axis=1).tolist() == [2, 3, 1]
    assert images.notes == (
        "read as a wide table: images in column image, 3 raters (ann, bob, cay)",
        "not in the table: 1 image of the folder",
        "scale guessed from the data: 1 to 5",
    )


def test_long_table_with_subfolders_gaps_and_unknown_images(folder, table):
    text = (
        "Participant,Stimulus,Response,age,sex\np1,f/001.jpg,7,20,m\np2,f/001.jpg,5,20,f\np1,002,NA,30,m\n"
        "p2,002,1,30,f\np1,003,,40,m\np1,gone.jpg,3,50,m\n"
    )
    images = load_own(folder, table(text))
    assert images.names == FILES[:2]
    assert images.scores.tolist() == [6, 1]
    assert images.scale == Scale(1, 7)
    assert images.groups.to_dict("list") == {"age": ["20", "30"]}
    assert images.notes == (
        "read as a long table: images in column Stimulus, raters in Participant, ratings in Response",
        "left out: 1 image of ratings.csv without a file: gone.jpg",
        "left out: 1 of 6 rows, with the images that have no file",
        "not in the table: 1 image of the folder",
        "scale guessed from the data: 1 to 7",
        "left out: 2 rows without a rating",
        "left out: 1 image without a rating: m/003.jpg",
        "columns that differ within an image were left out of the groups: sex",
    )


def test_long_table_with_other_names(folder, table):
    text = "Bild,vp,Urteil,trial\n001,1,80,1\n002,1,20,2\n001,2,60,1\n"
    images = load_own(folder, table(text), rater="vp", rating="urteil", scale=(0, 100))
    assert images.scores.tolist() == [70, 20]
    assert images.scale == Scale(0, 100)
    assert images.histograms is None  # 101 levels are too many
    assert images.notes == (
        "read as a long table: images in column Bild, raters in vp, ratings in Urteil",
        "not in the table: 2 images of the folder",
    )


def test_ratings_without_raters(folder, table):
    images = load_own(folder, table("file,rating\n001,1\n001,3\n002,5\n"))
    assert images.counts.tolist() == [2, 1]
    assert images.ratings is None
    assert images.variances[0] == 2
    assert "raters unknown" in images.notes[0]


def test_row_per_rater_and_column_per_image(folder, table):
    images = load_own(folder, table("id,001.jpg,002.png,003.jpg\n1,1,2,3\n2,3,,5\n"))
    assert images.names == FILES[:3]
    assert images.scores.tolist() == [2, 2, 4]
    assert images.notes[1] == "the table has a row per rater and a column per image"


@given(st.lists(st.lists(st.sampled_from([None, 1, 2, 3, 4, 5]), min_size=3, max_size=3), min_size=4, max_size=4))
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_all_shapes_of_a_table_hold_the_same_ratings(folder, tmp_path, cells):
    stems = ["001", "002", "003", "004"]
    wide = pd.DataFrame(cells, columns=["r0", "r1", "r2"], index=pd.Index(stems, name="image"), dtype=float)
    wide.loc["001", "r0"] = 1.0
    long = wide.rename_axis(columns="rater").stack().rename("rating").reset_index()
    tables = {"wide": wide.reset_index(), "long": long, "turned": wide.T.rename_axis("rater").reset_index()}
    found = {}
    for name, frame in tables.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        found[name] = load_own(folder, tmp_path / f"{name}.csv", scale=(1, 5))
    rated = wide.dropna(how="all")
    for images in found.values():
        by_name = pd.Series(images.scores, [name[2:5] for name in images.names])
        pd.testing.assert_series_equal(
            by_name.sort_index(), rated.mean(axis=1), check_names=False, check_index_type=False
        )
        spread = pd.Series(images.variances, [name[2:5] for name in images.names])
        pd.testing.assert_series_equal(
            spread.sort_index(), rated.var(axis=1), check_names=False, check_index_type=False
        )


def test_summary_with_sd_and_count(folder, table):
    images = load_own(
        folder, table("name\tMean Score\tSD\tn\tluminance\n001\t3.5\t0.5\t20\t99\n002\t2\t\t1\t80\n", "t.tsv")
    )
    assert images.scores.tolist() == [3.5, 2]
    assert images.variances[0] == 0.25
    assert np.isnan(images.variances[1])
    assert images.counts.tolist() == [20, 1]
    assert images.ratings is None
    assert images.notes[0] == "read as a summary table: images in column name, means in Mean Score, spread in SD"


def test_variance_of_one_rating_is_not_known(folder, table):
    images = load_own(folder, table("image,mean,variance,count\n001,3,0,1\n002,4,0,2\n"))
    assert np.isnan(images.variances[0])
    assert images.variances[1] == 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("image,score\n001,3\n002,4\n", "summary"),
        ("image,beauty\n001,3.5\n002,4\n", "summary"),
        ("image,beauty\n001,3\n002,4\n", "wide"),
        ("image,mean,r1,r2\n001,3,2,4\n002,4,4,4\n", "wide"),
        ("image,mean,brightness,contrast\n001,3,90,40\n002,4,80,20\n", "summary"),
        ("image,subject,r1,r2\n001,1,2,4\n002,2,4,4\n", "wide"),
        ("image,judge,beauty\n001,1,2\n001,2,4\n", "long"),
    ],
)
def test_kinds_are_told_apart(folder, table, text, kind):
    images = load_own(folder, table(text))
    assert images.notes[0].startswith(f"read as a {kind} table")
    assert images.scores[0] == pytest.approx(3.5 if "3.5" in text else 3)


def test_kind_can_be_said(folder, table):
    text = "image,mean,x,y\n001,3,2,4\n002,4,4,4\n"
    assert load_own(folder, table(text), kind="summary").ratings is None
    assert load_own(folder, table(text), mean="x").scores.tolist() == [2, 4]
    with pytest.raises(CallError, match="unknown kind of table 'tall': there are long, wide, summary"):
        load_own(folder, table(text), kind="tall")


def test_a_single_image_and_a_single_rater(folder, table):
    images = load_own(folder, table("image,rater,rating\n001,ann,4\n"))
    assert len(images) == 1
    assert np.isnan(images.variances).all()


def test_groups_splits_and_folds(folder, table):
    text = (
        "image,r1,r2,hair,luma,split\n001,1,2,dark,7,train\n002,3,4,fair,8,test\n003,4,5,dark,9,val\n"
        "004,4,5,dark,9,Train\n"
    )
    images = load_own(folder, table(text), groups=["luma"])
    assert images.ratings is not None
    assert images.ratings.raters == ("r1", "r2")
    assert images.groups.to_dict("list") == {"luma": ["7", "8", "9", "9"], "hair": ["dark", "fair", "dark", "dark"]}
    assert images.splits["split"].train.tolist() == [0, 3]
    assert images.splits["split"].test.tolist() == [1]
    assert images.splits["split-validation"].test.tolist() == [2]
    folds = load_own(folder, table("image,r1,r2,fold\n001,1,2,1\n002,3,4,2\n003,4,5,1\n")).splits
    assert list(folds) == ["fold-1", "fold-2"]
    assert folds["fold-1"].test.tolist() == [0, 2]
    assert folds["fold-1"].train.tolist() == [1]


def test_missing_codes_and_ratings_off_the_scale(folder, table):
    file = table("image,r1,r2\n001,1,99\n002,3,7\n")
    with pytest.raises(UolError, match=r"ratings\.csv, row 2: 99 in column r2 is not within the scale 1 to 7"):
        load_own(folder, file, scale=(1, 7))
    images = load_own(folder, file, scale=(1, 7), missing=[99])
    assert images.scores.tolist() == [1, 5]
    with pytest.raises(CallError, match="the scale must go from low to high"):
        load_own(folder, file, scale=(7, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,rater,rating\n001,a,good\n", r"row 2: 'good' in column rating is not a number"),
        ("image,r1,r2\n001,1,2\n002,1,bad\n", r"row 3: 'bad' in column r2 is not a number; .* add --read missing=bad"),
        ("image,r1,r2\nx1,1,2\n", r"no image of ratings\.csv is in .* such as 'x1', .* such as 'f/001\.jpg'"),
        ("image,r1,r2\n001,1,2\n001.jpg,1,3\n", r"image f/001\.jpg has 2 rows; keep one"),
        ("image,mean\n001,1\n001,2.5\n", r"image f/001\.jpg has 2 rows; keep one"),
        ("image,rater,rating\n001,,3\n", r"row 2: no rater in column rater"),
        ("image,rater,rating\n001,a,\n", r"no image has a rating in column rating"),
        ("image,mean,sd\n001,2,-1\n", r"row 2: sd is negative"),
        ("image,hair\n001,dark\n", r"no column of ratings found in the table"),
    ],
)
def test_mistakes_are_named(folder, table, text, message):
    with pytest.raises(UolError, match=message) as caught:
        load_own(folder, table(text))
    assert "\n" not in str(caught.value)


def test_ratings_are_not_taken_for_numbered_photographs(table, tmp_path):
    photographs = tmp_path / "numbered"
    photographs.mkdir()
    for number in range(1, 41):
        (photographs / f"{number}.jpg").touch()
    rows = "".join(f"face_{i:03}.png,{1 + i % 40},{1 + (7 * i) % 40}\n" for i in range(20))
    for text in (f"image,anna,ben\n{rows}", "image,mean\nx1.jpg,3\nx2.jpg,4\n"):
        with pytest.raises(UolError, match=r"no image of ratings\.csv is in"):
            load_own(photographs, table(text))
    numbered = load_own(photographs, table("image,r1,r2\n1,3,4\n2,5,4\n"), scale=(1, 7))
    assert numbered.scores.tolist() == [3.5, 4.5]


def test_many_different_values_are_no_split(folder, table, tmp_path):
    for i in range(60):
        (tmp_path / f"{i:02}.jpg").touch()
    rows = "".join(f"{i:02},{1 + i % 5},{1 + i % 3},s{i}\n" for i in range(60))
    with pytest.raises(UolError, match="column split has 60 different values"):
        load_own(tmp_path, table("image,r1,r2,split\n" + rows))


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 4], (1, 5)),
        ([1, 7], (1, 7)),
        ([2, 6.5], (1, 7)),
        ([0, 1], (0, 1)),
        ([-2, 2.2], (-3, 3)),
        ([0, 9], (0, 10)),
        ([1, 10], (1, 10)),
        ([0, 88], (0, 100)),
        ([400, 712.5], (400, 713)),
        ([400, 400], (400, 401)),
        ([np.nan, 3, 3], (1, 5)),
    ],
)
def test_scales_are_guessed_from_the_values(values, scale):
    assert guess_scale(np.array(values)) == Scale(*scale)


def test_spreadsheet_through_the_registry(folder, tmp_path):
    file = tmp_path / "ratings.xlsx"
    pd.DataFrame({"image": ["001", "002"], "a": [1, 2], "b": [3.0, None]}).to_excel(file, index=False)
    images = datasets.load("own", folder, table=file)
    assert images.scores.tolist() == [2, 2]
    with pytest.raises(CallError, match="own needs a table of ratings"):
        datasets.load("own", folder)
    with pytest.raises(CallError, match="no such folder"):
        datasets.load("own", tmp_path / "absent", table=file)


def test_a_table_without_names_of_columns_is_refused_before_its_first_image_is_lost(folder, table):
    with pytest.raises(UolError, match=r"'001\.jpg' is in the first line, which must hold the names"):
        load_own(folder, table("001.jpg,2.5\n002.png,3.5\n003.jpg,4\n"))
