"""A participant's trials, from the settings, the seed and the participant's number: pure functions.

Numbers of participants begin at 0. The same study and number always give the same practice, places, order, repeats and
checks; only adaptive pairs depend on earlier answers too, and with the same answers they are the same again.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from itertools import count
from math import gcd

import numpy as np

from uol.study.answers import Answer, Trial, TrialKind
from uol.study.folder import Study
from uol.study.pairs import adaptive_pairs, round_robin
from uol.study.settings import SIMILAR, StudySettings

Set = tuple[str, ...]
"""Ids of the images of one trial, in the places in which they are shown."""

_Item = tuple[str, TrialKind, Set, str | None]
_Rounds = Callable[[Study, int], list[Set]]

_MANY_PAIRS = 100_000  # of more, a participant's part of the first round is made without the rest
_FILLED_LAST = 1000  # attempts to have the images that are shown twice in the last set of a round


def choose_sets(study: Study, number: int, answers: Sequence[Answer] = (), pending: Sequence[Set] = ()) -> list[Set]:
    """The images of each of a participant's main trials.

    Adaptive pairs are chosen by `answers`, the answers so far in the order of the log, and `pending`, sets that others
    are about to judge; other choices use neither. If all participants finish, every image (or pair) is shown equally
    often, within one; in sets of four of images that four does not divide, within two. Each participant sees a pair
    (or a set of four) once.
    """
    if study.settings.kind == "pairs":
        return _choose_pairs(study, number, answers, pending)
    if study.settings.kind == "ratings":
        return _slice_of_rounds(study, number, study.trials, _image_rounds)
    return _choose_quartets(study, number, study.trials)


def participant_trials(study: Study, number: int, sets: Sequence[Set]) -> list[Trial]:
    """The whole session of a participant: practice, then the sets in random order with repeats and checks among them.

    A repeat comes in the second half for a trial of the first half; the images of a repeated pair change sides.
    """
    settings, rng = study.settings, _rng(study.settings, number, "order")
    main: list[_Item] = [
        (f"trial-{place + 1}", "trial", sets[row], None) for place, row in enumerate(rng.permutation(len(sets)))
    ]
    half = (len(main) + 1) // 2
    first, second = list(main[:half]), list(main[half:])
    again = sorted(rng.permutation(len(first))[: settings.repeats].tolist())
    for turn, row in enumerate(again, 1):
        name, _, images, _ = main[row]
        shown = tuple(reversed(images)) if len(images) == 2 else images
        second.insert(int(rng.integers(len(second) + 1)), (f"repeat-{turn}", "repeat", shown, name))
    session = [*first, *second]
    for turn, check in enumerate(settings.checks, 1):
        shown = check.images if check.question is not None else _placed(check.images, rng)
        # Checks are spread over the session: each at a random place of its equal part.
        begin, end = ((len(session) * part) // len(settings.checks) for part in (turn - 1, turn))
        session.insert(int(rng.integers(begin, max(end, begin) + 1)), (f"check-{turn}", "check", shown, str(turn)))
    practice: list[_Item] = [
        (f"practice-{turn}", "practice", images, None) for turn, images in enumerate(_practice_sets(study, number), 1)
    ]
    return [
        Trial(name, order, kind, images, of) for order, (name, kind, images, of) in enumerate([*practice, *session], 1)
    ]


def is_correct(settings: StudySettings, trial: Trial, answer: int | str) -> bool | None:
    """Whether an answer to an attention check is one of those accepted; None for other trials."""
    if trial.kind != "check" or trial.of is None:
        return None
    return answer in settings.checks[int(trial.of) - 1].accepted


def is_possible(settings: StudySettings, trial: Trial, answer: object) -> bool:
    """Whether a participant can give this answer to this trial."""
    if settings.kind == "ratings":
        return type(answer) is int and answer in settings.scale.levels
    return isinstance(answer, str) and (answer in trial.images or (settings.similar and answer == SIMILAR))


def question(settings: StudySettings, trial: Trial, language: str) -> str:
    """The question of a trial: that of the study, or of an attention check that asks something else."""
    asked = settings.question
    if trial.kind == "check" and trial.of is not None:
        asked = settings.checks[int(trial.of) - 1].question or asked
    return settings.text(asked, language)


def _choose_pairs(study: Study, number: int, answers: Sequence[Answer], pending: Sequence[Set]) -> list[Set]:
    settings, ids = study.settings, study.ids
    if settings.pairs.choice == "adaptive":
        assert settings.trials is not None
        shown = [answer for answer in answers if answer.counts]
        return adaptive_pairs(ids, shown, pending, settings.trials, settings.seed)
    if settings.pairs.choice == "given":
        return _slice_of_rounds(study, number, study.trials, _given_rounds)
    begin, end = number * study.trials, (number + 1) * study.trials
    if study.one_round > _MANY_PAIRS and end <= study.one_round:
        chosen = round_robin(len(ids), _rng(settings, 0, "round"), end)[begin:]
        return [_turned((ids[a], ids[b]), settings.seed, 0) for a, b in chosen]
    return _slice_of_rounds(study, number, study.trials, _pair_rounds)


def _slice_of_rounds(study: Study, number: int, each: int, per_round: _Rounds) -> list[Set]:
    """The next `each` sets of an endless list of rounds, after those of the participants before; none twice.

    A participant who begins at the end of one round goes on in the next: there, the sets that this participant has seen
    already are moved behind those that are still due.
    """
    size = study.one_round
    begin, end = number * each, (number + 1) * each
    found: list[Set] = []
    first, (seen,) = _nearest_round(study, begin // size, size % each == 0, [[]])
    for turn in range(first, (end - 1) // size + 1):
        if turn == begin // size:
            _keep_round(study, turn, [seen])
        due = each - len(seen)
        known = set(map(frozenset, seen))
        head = [images for images in per_round(study, turn) if frozenset(images) not in known][: due if seen else 0]
        known = set(map(frozenset, head))
        sets = head + [images for images in per_round(study, turn) if frozenset(images) not in known]
        start = turn * size
        found += sets[max(begin - start, 0) : max(end - start, 0)]
        seen = sets[size - (start + size) % each :] if (start + size) % each else []
    return found


def _nearest_round(study: Study, turn: int, alone: bool, nothing: list[list[Set]]) -> tuple[int, list[list[Set]]]:
    """A round at or before this one from which on rounds can be made, and what those before it have left to say.

    Rounds that stand alone begin anywhere. Others follow from the ones before: participants enter one after another,
    and the round at which the last one began is known.
    """
    if alone:
        return turn, nothing
    return max((one for one in study.known_rounds.items() if one[0] <= turn), default=(0, nothing))


def _keep_round(study: Study, turn: int, left: list[list[Set]]) -> None:
    if turn not in study.known_rounds:
        study.known_rounds.clear()
        study.known_rounds[turn] = left


def _image_rounds(study: Study, turn: int) -> list[Set]:
    """Every image once, in random order."""
    return [(study.ids[row],) for row in _rng(study.settings, turn, "round").permutation(len(study.ids))]


def _choose_quartets(study: Study, number: int, each: int) -> list[Set]:
    """The next `each` sets of four, after those of the participants before, of rounds that have every image."""
    size = study.one_round
    begin, end = number * each, (number + 1) * each
    found: list[Set] = []
    together = each // size - 1 if each % size == 0 else 0 if size % each == 0 else -(-each // size)
    first, kept = _nearest_round(study, begin // size, not together, [])
    latest = deque(kept, maxlen=together)  # rounds of which a participant may see parts, and of the next
    for turn in range(first, -(-end // size)):
        if turn == begin // size:
            _keep_round(study, turn, list(latest))
        known = {frozenset(images) for before in latest for images in before}
        sets = _quartet_round(study, turn, known)
        latest.append(sets)
        found += sets[max(begin - turn * size, 0) : max(end - turn * size, 0)]
    return found


def _quartet_round(study: Study, turn: int, known: Container[frozenset[str]]) -> list[Set]:
    """Every image once in sets of four, none of them known; the last one is filled up with others of the round."""
    rng, fillers = _rng(study.settings, turn, "round"), _fillers(study, turn)
    for attempt in count():
        order = [*rng.permutation(len(study.ids)).tolist(), *fillers]
        if attempt >= _FILLED_LAST:  # a participant knows every last set that these could fill
            order = rng.permutation(order).tolist()
        sets = [tuple(study.ids[row] for row in order[start : start + 4]) for start in range(0, len(order), 4)]
        if all(len(set(images)) == 4 and frozenset(images) not in known for images in sets):
            return sets
    raise AssertionError  # never: count() is endless


def _fillers(study: Study, turn: int) -> list[int]:
    """Images that are shown twice in a round: each in turn, in an order that changes when all were as often."""
    images = len(study.ids)
    each = -images % 4
    cycle, place = divmod(turn, images // gcd(images, each))
    order = _rng(study.settings, cycle, "fillers").permutation(images).tolist()
    return [order[(place * each + one) % images] for one in range(each)]


def _pair_rounds(study: Study, turn: int) -> list[Set]:
    """Every pair once, balanced at every moment; the sides of a pair change from one turn to the next."""
    return _all_pairs(study.ids, study.settings.seed, turn)


@lru_cache(maxsize=16)  # participants who follow each other see parts of the same rounds
def _all_pairs(ids: tuple[str, ...], seed: int, turn: int) -> list[Set]:
    pairs = round_robin(len(ids), _seeded(seed, turn, "round"))
    return [_turned((ids[a], ids[b]), seed, turn) for a, b in pairs]


def _given_rounds(study: Study, turn: int) -> list[Set]:
    """Every given pair once, in random order; the sides of a pair change from one turn to the next."""
    order = _rng(study.settings, turn, "round").permutation(len(study.given))
    return [_turned(study.given[row], study.settings.seed, turn) for row in order]


def _turned(pair: tuple[str, str], seed: int, turn: int) -> Set:
    """The sides of a pair: random at first, and the other way round in every next turn."""
    low, high = sorted(pair)
    swapped = (zlib.crc32(f"{seed}\0{low}\0{high}".encode()) >> 7) + turn & 1
    return (high, low) if swapped else (low, high)


def _practice_sets(study: Study, number: int) -> list[Set]:
    """Random sets to practise with."""
    rng, size = _rng(study.settings, number, "practice"), study.settings.set_size
    return [
        tuple(study.ids[row] for row in rng.permutation(len(study.ids))[:size]) for _ in range(study.settings.practice)
    ]


def _placed(images: Set, rng: np.random.Generator) -> Set:
    return tuple(images[row] for row in rng.permutation(len(images)))


def _rng(settings: StudySettings, number: int, what: str) -> np.random.Generator:
    """Random numbers for one purpose and one participant (or turn) of a study."""
    return _seeded(settings.seed, number, what)


def _seeded(seed: int, number: int, what: str) -> np.random.Generator:
    return np.random.default_rng([seed, number, zlib.crc32(what.encode())])
