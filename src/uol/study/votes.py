"""Answers as arrays: votes on pairs, choices among several images, and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from uol.order.order import Order
from uol.ratings.ratings import Ratings
from uol.study.answers import Answer
from uol.study.settings import SIMILAR

Indices = npt.NDArray[np.intp]


class PairVotes(NamedTuple):
    """n votes: `first` (left) and `second` (right) number images, `outcome` is an `Order` from the first's side."""

    first: Indices
    second: Indices
    outcome: Indices
    participant: tuple[str, ...]


class Choices(NamedTuple):
    """n choices of the best of several images: `images` (n, k) numbers them, `best` (n,) is the place of the chosen."""

    images: Indices
    best: Indices
    participant: tuple[str, ...]


def votes_of(answers: Iterable[Answer], ids: Sequence[str]) -> PairVotes:
    """The answers to pairs as arrays; `ids` number the images."""
    place = {name: row for row, name in enumerate(ids)}
    rows = [
        (place[answer.images[0]], place[answer.images[1]], order_of(answer), answer.participant)
        for answer in answers
        if len(answer.images) == 2
    ]
    first, second, outcome = (np.array([row[part] for row in rows], np.intp) for part in range(3))
    return PairVotes(first, second, outcome, tuple(row[3] for row in rows))


def order_of(answer: Answer) -> Order:
    """The outcome of a pair, from the side of its left image."""
    if answer.answer == SIMILAR:
        return Order.SIMILAR
    return Order.GREATER if answer.answer == answer.images[0] else Order.LESS


def choices_of(answers: Iterable[Answer], ids: Sequence[str]) -> Choices:
    """The answers to sets of more than two images as arrays."""
    place = {name: row for row, name in enumerate(ids)}
    chosen = [answer for answer in answers if len(answer.images) > 2]
    images = np.array([[place[name] for name in answer.images] for answer in chosen], np.intp)
    best = np.array([answer.images.index(str(answer.answer)) for answer in chosen], np.intp)
    return Choices(images, best, tuple(answer.participant for answer in chosen))


def pairs_of_choices(choices: Choices) -> PairVotes:
    """What choices say of pairs: the chosen image is greater than each of the others, and nothing else is known."""
    rows = np.arange(len(choices.best))
    others = choices.images.shape[1] - 1 if len(rows) else 0
    winner = np.repeat(choices.images[rows, choices.best], others) if others else np.empty(0, np.intp)
    lost = np.ones(choices.images.shape, bool)
    if others:
        lost[rows, choices.best] = False
    loser = choices.images[lost] if others else np.empty(0, np.intp)
    outcome = np.full(len(winner), int(Order.GREATER), np.intp)
    return PairVotes(winner, loser, outcome, tuple(np.repeat(np.array(choices.participant, object), others)))


def ratings_of(answers: Iterable[Answer]) -> Ratings:
    """The ratings of images by participants; a participant who rated an image twice counts with the mean."""
    rated = [answer for answer in answers if len(answer.images) == 1]
    return Ratings.from_long(
        [answer.images[0] for answer in rated],
        [answer.participant for answer in rated],
        [answer.answer for answer in rated],
    )
