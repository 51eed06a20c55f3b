from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from uol.datasets import load
from uol.datasets.votes import read_votes
from uol.errors import CallError, UolError
from uol.order.order import Order

LESS, SIMILAR, GREATER = Order.LESS, Order.SIMILAR, Order.GREATER


@pytest.fixture
def folder(tmp_path):
    for name in ("x.jpg", "y.jpg", "z.jpg", "1.jpg", "2.jpg"):
        (tmp_path / name).touch()
    return tmp_path


def write(folder, text):
    (folder / "votes.csv").write_text(text)
    return folder / "votes.csv"


@pytest.mark.parametrize(
    ("winner", "outcome"),
    [
        *[(word, GREATER) for word in ("x.jpg", "x", "A", "left", "1", "first")],
        *[(word, LESS) for word in ("y.jpg", "Y", "b", "Right", "2")],
        *[(word, SIMILAR) for word in ("tie", "Draw", "0", "same")],
    ],
)
def test_winners_in_all_spellings(folder, winner, outcome):
    votes = read_votes(folder, write(folder, f"image_a,image_b,winner\nx,y,{winner}\n"))
    assert votes.outcome.tolist() == [outcome]


def test_votes_index_the_images(folder):
    text = "Voter,Left,Right,Choice\nann,y,x,left\nbob,x,z.jpg,z\nann,z,y,tie\n,x,y,\nann,gone,y,a\n"
    votes = read_votes(folder, write(folder, text))
    assert votes.names == ["y.jpg", "x.jpg", "z.jpg"]
    assert [path.name for path in votes.images] == votes.names
    assert votes.first.tolist() == [0, 1, 2]
    assert votes.second.tolist() == [1, 2, 0]
    assert votes.outcome.tolist() == [GREATER, LESS, SIMILAR]
    assert votes.voter == ["ann", "bob", "ann"]
    assert len(votes) == 3
    assert votes.notes == (
        "left out: 1 image of votes.csv without a file: gone",
        "left out: 1 of 5 rows, where an image has no name or no file",
        "left out: 1 row without a winner",
    )


def test_images_may_be_called_1_and_2(folder):
    votes = read_votes(folder, write(folder, "a,b,winner\n2,1,1\n2,1,2\n2,1,a\n"))
    assert votes.outcome.tolist() == [LESS, GREATER, GREATER]
    assert votes.voter == ["", "", ""]


def test_columns_can_be_named(folder):
    votes = read_votes(folder, write(folder, "p,q,r\nx,y,x\n"), first="p", second="q", winner="r")
    assert votes.outcome.tolist() == [GREATER]
    with pytest.raises(CallError, match=r"votes\.csv: no column for the first image; name the columns"):
        read_votes(folder, folder / "votes.csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,x.jpg,a", r"row 2: x is compared with itself"),
        ("x,y,z", r"row 2: winner 'z' is neither image"),
        ("x,y,", r"no row names a winner"),
        ("p,q,p", r"no image of votes\.csv is in"),
    ],
)
def test_mistakes_are_named(folder, row, message):
    with pytest.raises(UolError, match=message):
        read_votes(folder, write(folder, f"image_a,image_b,winner\n{row}\n"))


def test_votes_become_rated_images(tmp_path):
    for name in "abc":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")
    votes = tmp_path / "votes.csv"
    votes.write_text("image_a,image_b,winner\n" + "a.png,b.png,a\n" * 6 + "b.png,c.png,b\n" * 5 + "a.png,c.png,tie\n")
    rated = load("votes", tmp_path, table=votes)
    assert list(np.argsort(-rated.scores)) == [0, 1, 2]
    assert rated.counts.tolist() == [7, 11, 6]
    assert rated.scores.sum() == pytest.approx(0, abs=1e-9)
    assert rated.scale.low <= rated.scores.min() <= rated.scores.max() <= rated.scale.high
    assert np.isnan(rated.variances).all()
    with pytest.raises(CallError, match="needs a table of votes"):
        load("votes", tmp_path)


def test_votes_as_winner_and_loser(folder):
    votes = read_votes(folder, write(folder, "winner,loser,voter\nx,y,ann\nz,x.jpg,bob\n"))
    assert votes.names == ["x.jpg", "y.jpg", "z.jpg"]
    assert votes.outcome.tolist() == [GREATER, GREATER]
    assert votes.voter == ["ann", "bob"]
    named = read_votes(folder, write(folder, "best,worst\nx,y\n"), winner="best", loser="worst")
    assert named.outcome.tolist() == [GREATER]
    german = read_votes(folder, write(folder, "Bild A;Bild B;Gewinner;Versuchsperson\nx;y;rechts;1\nx;y;gleich;2\n"))
    assert german.outcome.tolist() == [LESS, SIMILAR]
    assert german.voter == ["1", "2"]


def test_voters_and_repeated_votes_are_reported(folder):
    text = "a,b,winner,voter\nx,y,a,ann\ny,x,b,ann\nx,y,b,ann\nx,z,a,bob\nx,y,a,\n"
    votes = read_votes(folder, write(folder, text))
    assert votes.notes == (
        "2 votes repeat a pair by the same voter, 1 with another outcome; all of them count",
        "1 votes have no voter in column voter; they count, but for no voter",
    )
    rated = load("votes", folder, table=folder / "votes.csv")
    assert rated.people == 2
    assert (rated.standard_errors > 0).all()
    write(folder, "a,b,winner\nx,y,a\n")
    assert load("votes", folder, table=folder / "votes.csv").people is None
