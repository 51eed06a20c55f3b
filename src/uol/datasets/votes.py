"""Pairwise votes: which of two images people preferred."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from uol.datasets.column_names import FIRST, LEFT_WON, LOSER, RIGHT_WON, SECOND, TIED, VOTER, WINNER
from uol.datasets.dataset_info import DatasetInfo
from uol.datasets.matching import ImageIndex, match_names
from uol.datasets.tables import find_column, read_table, texts
from uol.errors import CallError, UolError, counted
from uol.images.paths import find_images
from uol.order.order import Integers, Order
from uol.order.scale_values import scale_values
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale

_OUTCOMES = {
    **dict.fromkeys(LEFT_WON, Order.GREATER),
    **dict.fromkeys(RIGHT_WON, Order.LESS),
    **dict.fromkeys(TIED, Order.SIMILAR),
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
    sheet: str | int = 0,
    encoding: str | None = None,
    **columns: str | None,
) -> Votes:
    """Read votes on pairs of images of a folder: columns of the two images, the winner and, if known, the voter.

    The winner is one of the two names, or a/left/1/first, b/right/2/second, or tie/draw/equal/same/0; a table may also
    have the two images as winner and loser. `columns` names these columns: first, second, winner, loser, voter. Rows
    without a winner and rows whose images are not in the folder are left out and noted.
    """
    base, label = Path(folder), Path(table).name
    index = ImageIndex(base, find_images(base))
    frame = read_table(table, sheet, encoding)
    notes: list[str] = list(frame.attrs["notes"])
    lefts, rights, winners = _pairs(frame, label, columns)
    by = find_column(frame, columns.get("voter"), VOTER, "voter")
    voters = texts(frame[by]) if by is not None else [""] * len(frame)
    matched = match_names(filter(None, [*lefts, *rights]), index, label, notes)
    paths: dict[Path, int] = {}
    rows: list[tuple[int, int, int, str]] = []
    undecided = lost = 0
    for row, left, right, won, who in zip(frame.index, lefts, rights, winners, voters, strict=True):
        if left not in matched or right not in matched:
            lost += 1
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
    if lost:
        notes.append(f"left out: {lost} of {counted(len(frame), 'row')}, where an image has no name or no file")
    if undecided:
        notes.append(f"left out: {counted(undecided, 'row')} without a winner")
    if not rows:
        raise UolError(f"{label}: no row names a winner of two images that are in {base}")
    ones, others, outcomes, by_whom = zip(*rows, strict=True)
    notes += _repeated(rows)
    if by is not None and "" in by_whom:
        notes.append(f"{by_whom.count('')} votes have no voter in column {by}; they count, but for no voter")
    return Votes(
        images=list(paths),
        names=[path.relative_to(base).as_posix() for path in paths],
        first=np.array(ones, np.int64),
        second=np.array(others, np.int64),
        outcome=np.array(outcomes, np.int64),
        voter=list(by_whom),
        notes=tuple(notes),
    )


def _pairs(frame: pd.DataFrame, label: str, chosen: dict[str, str | None]) -> tuple[list[str], list[str], list[str]]:
    """The two images and the winner of each row; of winner and loser, the winner goes first."""
    usual = {"first": FIRST, "second": SECOND, "winner": WINNER, "loser": LOSER}
    found = {what: find_column(frame, chosen.get(what), names, what) for what, names in usual.items()}
    if found["winner"] and found["loser"] and (chosen.get("loser") or not (found["first"] and found["second"])):
        winners, losers = texts(frame[found["winner"]]), texts(frame[found["loser"]])
        return winners, losers, winners
    absent = [what for what in ("first", "second", "winner") if found[what] is None]
    if absent:
        what = {"first": "first image", "second": "second image"}.get(absent[0], absent[0])
        raise CallError(
            f"{label}: no column for the {what}; name the columns (--read first=…, second=…, winner=…, or winner=…, "
            "loser=…)"
        )
    lefts, rights, winners = (texts(frame[found[what]]) for what in ("first", "second", "winner"))
    return lefts, rights, winners


def _repeated(rows: Sequence[tuple[int, int, int, str]]) -> list[str]:
    """A note on votes by one voter on a pair that this voter has had before, in any order; all of them count."""
    seen: dict[tuple[int, int, str], int] = {}
    again = contradicting = 0
    for one, other, outcome, who in rows:
        if who:
            turned = outcome if one < other else Order.GREATER - outcome  # LESS is 0
            before = seen.setdefault((min(one, other), max(one, other), who), turned)
            contradicting += before != turned
            again += 1
    again -= len(seen)
    if not again:
        return []
    return [f"{again} votes repeat a pair by the same voter, {contradicting} with another outcome; all of them count"]


def _outcome(winner: str, pair: tuple[Path, Path], index: ImageIndex) -> Order | None:
    """The order of the pair by a vote; names of images go before words, since an image may be called 1."""
    found = [path for path in index.find(winner) if path in pair]
    if len(found) == 1:
        return Order.GREATER if found[0] == pair[0] else Order.LESS
    return _OUTCOMES.get(winner.lower())


def load_votes(
    root: str | os.PathLike[str],
    table: str | os.PathLike[str],
    *,
    first: str | None = None,
    second: str | None = None,
    winner: str | None = None,
    loser: str | None = None,
    voter: str | None = None,
    sheet: str | int = 0,
    encoding: str | None = None,
) -> RatedImages:
    """Votes on pairs as rated images: each image's score is its scale value in logits, centred on zero.

    Rating variances stay unknown: votes show how often images change places, not how individuals would rate them.
    """
    columns = {"first": first, "second": second, "winner": winner, "loser": loser, "voter": voter}
    votes = read_votes(root, table, sheet, encoding, **columns)
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
        people=len(set(votes.voter) - {""}) or None,
        standard_errors=found.standard_error,
        notes=notes,
    )


DATASET = DatasetInfo(
    name="votes",
    title="Votes on pairs of one's own images",
    images=0,
    scale=None,
    terms="yours",
    expects="a folder of images, and --table with image a, image b, winner (or tie), voter; or winner, loser, voter",
    load=load_votes,
)
