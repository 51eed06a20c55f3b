"""Pairwise votes: which of two images people preferred."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from uol.datasets.dataset_info import DatasetInfo
from uol.datasets.matching import ImageIndex, match_names
from uol.datasets.tables import find_column, read_table, texts
from uol.errors import CallError, UolError
from uol.images.read import find_images
from uol.order.order import Integers, Order
from uol.order.scale_values import scale_values
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale

_FIRST = ("image_a", "a", "image_1", "first", "left", "first_image", "image_left", "stimulus_a", "file_a")
_SECOND = ("image_b", "b", "image_2", "second", "right", "second_image", "image_right", "stimulus_b", "file_b")
_WINNER = ("winner", "chosen", "choice", "preferred", "vote", "outcome", "result", "response")
_VOTER = ("voter", "rater", "rater_id", "participant", "participant_id", "subject", "user", "judge")
_WORDS = {
    **dict.fromkeys(("a", "left", "1", "first"), Order.GREATER),
    **dict.fromkeys(("b", "right", "2", "second"), Order.LESS),
    **dict.fromkeys(("tie", "draw", "equal", "same", "similar", "0"), Order.SIMILAR),
}


@dataclass(frozen=True)
class Votes:
    """n votes on m images: `first` and `second` index `names`, `outcome` is an `Order` seen from the first image.

    `voter` names who voted, empty where that is not known; `notes` say what was left out.
    """

    images: Sequence[Path]
    names: Sequence[str]
    first: Integers
    second: Integers
    outcome: Integers
    voter: Sequence[str]
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.outcome)


def read_votes(
    folder: str | os.PathLike[str],
    table: str | os.PathLike[str],
    *,
    first: str | None = None,
    second: str | None = None,
    winner: str | None = None,
    voter: str | None = None,
    sheet: str | int = 0,
) -> Votes:
    """Read votes on pairs of images of a folder: columns of the two images, the winner and, if known, the voter.

    The winner is one of the two names, or a/left/1/first, b/right/2/second, or tie/draw/equal/same/0. Rows without
    a winner and rows whose images are not in the folder are left out and noted.
    """
    base, label = Path(folder), Path(table).name
    index = ImageIndex(base, find_images(base))
    frame = read_table(table, sheet)
    wanted = {"first image": (first, _FIRST), "second image": (second, _SECOND), "winner": (winner, _WINNER)}
    columns = {what: find_column(frame, chosen, usual, what) for what, (chosen, usual) in wanted.items()}
    absent = [what for what, column in columns.items() if column is None]
    if absent:
        raise CallError(f"{label}: no column for the {absent[0]}; name the columns (first=…, second=…, winner=…)")
    lefts, rights, winners = (texts(frame[column]) for column in columns.values())
    by = find_column(frame, voter, _VOTER, "voter")
    voters = texts(frame[by]) if by is not None else [""] * len(frame)
    notes: list[str] = []
    matched = match_names(filter(None, [*lefts, *rights]), index, label, notes)
    paths: dict[Path, int] = {}
    rows: list[tuple[int, int, int, str]] = []
    undecided = 0
    for row, left, right, won, who in zip(frame.index, lefts, rights, winners, voters, strict=True):
        if left not in matched or right not in matched:
            continue
        pair = matched[left], matched[right]
        if pair[0] == pair[1]:
            raise UolError(f"{label}, row {row}: {left} is compared with itself; correct or remove the row")
        if not won:
            undecided += 1
            continue
        outcome = _outcome(won, pair, index)
        if outcome is None:
            raise UolError(f"{label}, row {row}: winner {won!r} is neither image nor a, b, left, right, 1, 2 or tie")
        one, other = (paths.setdefault(path, len(paths)) for path in pair)
        rows.append((one, other, outcome, who))
    if undecided:
        notes.append(f"{undecided} rows have no winner and were left out")
    if not rows:
        raise UolError(f"{label}: no row names a winner of two images that are in {base}")
    ones, others, outcomes, by_whom = zip(*rows, strict=True)
    return Votes(
        images=list(paths),
        names=[path.relative_to(base).as_posix() for path in paths],
        first=np.array(ones, np.int64),
        second=np.array(others, np.int64),
        outcome=np.array(outcomes, np.int64),
        voter=list(by_whom),
        notes=tuple(notes),
    )


def _outcome(winner: str, pair: tuple[Path, Path], index: ImageIndex) -> Order | None:
    """The order of the pair by a vote; names of images go before words, since an image may be called 1."""
    found = [path for path in index.find(winner) if path in pair]
    if len(found) == 1:
        return Order.GREATER if found[0] == pair[0] else Order.LESS
    return _WORDS.get(winner.lower())


def load_votes(
    root: str | os.PathLike[str],
    table: str | os.PathLike[str],
    *,
    first: str | None = None,
    second: str | None = None,
    winner: str | None = None,
    voter: str | None = None,
    sheet: str | int = 0,
) -> RatedImages:
    """Votes on pairs as rated images: each image's score is its scale value in logits, centred on zero.

    Rating variances stay unknown: votes show how often images change places, not how individuals would rate them.
    """
    votes = read_votes(root, table, first=first, second=second, winner=winner, voter=voter, sheet=sheet)
    found = scale_values(votes.first, votes.second, votes.outcome, len(votes.names))
    notes = list(votes.notes)
    if found.islands > 1:
        notes.append(f"{found.islands} sets of images share no vote: their order relative to each other is a guess")
    ends = np.array([found.value.min(), found.value.max()])
    low, high = np.floor(ends[0] - 1e-9), np.ceil(ends[1] + 1e-9)
    return RatedImages(
        name=Path(table).stem,
        images=votes.images,
        names=votes.names,
        scores=found.value,
        scale=Scale(float(low), float(high)),
        counts=np.bincount(np.r_[votes.first, votes.second], minlength=len(votes.names)),
        notes=notes,
    )


DATASET = DatasetInfo(
    name="votes",
    title="Votes on pairs of one's own images",
    images=0,
    scale=None,
    terms="yours",
    expects="a folder of images, and --table with image a, image b, winner (or tie), voter",
    load=load_votes,
)
