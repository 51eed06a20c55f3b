"""A row per participant: how much, how fast, how consistent; who is flagged, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from uol.ratings.rated_images import RatedImages
from uol.ratings.summaries import rater_summary
from uol.study.answers import Answer
from uol.study.rated import rated_of_ratings
from uol.study.results import Results, intransitivity, repeats
from uol.study.votes import PairVotes

_ENOUGH = 20  # decided votes, below which nobody is flagged for them
_SAME_SIDE = 0.95
_FASTEST_MS = 250  # a median below this is no judgement
_FEWEST_REPEATS = 5
_CONSISTENT = 0.5  # of repeats of pairs: a coin would give as much


def participant_table(results: Results) -> pd.DataFrame:
    """A row per participant, those left out too: answers, checks, repeats, speed, agreement, `flagged` and `reason`.

    Flagged: failed an attention check; repeated judgements the same no more often than by chance (five repeats or
    more); nearly always the same side; a median response below 250 ms; agreement with the scale no better than chance;
    and for ratings, what `rater_summary` flags. A flag is a reason to look, not to exclude.
    """
    kind = results.study.settings.kind
    again = repeats(results.answers)
    by_rating = {} if results.ratings is None else _rating_reasons(rated_of_ratings(results))
    rows = []
    for name, own in _by_participant(results.answers).items():
        checks = [answer for answer in own if answer.kind == "check"]
        failed = sum(answer.correct is False for answer in checks)
        same = again.loc[again["participant"] == name, "same"]
        main = [answer for answer in own if answer.counts]
        median = float(np.median([answer.response_ms for answer in main])) if main else np.nan
        row: dict[str, object] = {
            "participant": name, "sessions": len({answer.session for answer in own}), "answers": len(main),
            "checks": len(checks), "checks_failed": failed, "repeats": len(same),
            "repeats_same": float(same.mean()) if len(same) else np.nan, "median_ms": median,
        }  # fmt: skip
        reasons = [f"failed {failed} of {len(checks)} checks"] if failed else []
        if median < _FASTEST_MS:
            reasons.append(f"half of the answers took less than {_FASTEST_MS} ms")
        if kind != "ratings":
            if len(same) >= _FEWEST_REPEATS and same.mean() <= _CONSISTENT:
                reasons.append(f"{same.mean():.0%} of {len(same)} repeated trials were answered the same")
            row |= _of_votes(results, main, reasons)
        reasons += by_rating.get(name, [])
        row |= {"left_out": name in results.left_out, "flagged": bool(reasons), "reason": "; ".join(reasons)}
        rows.append(row)
    return pd.DataFrame(rows)


def _by_participant(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.participant, []).append(answer)
    return found


def _of_votes(results: Results, main: Sequence[Answer], reasons: list[str]) -> dict[str, object]:
    """Sides, agreement with everybody's scale and circular triads of one participant."""
    sides = [answer.side for answer in main if answer.side is not None]
    left = sides.count("left") / len(sides) if sides else np.nan
    if len(sides) >= _ENOUGH and max(left, 1 - left) >= _SAME_SIDE:
        reasons.append(f"chose the {'left' if left > 0.5 else 'right'} image in {max(left, 1 - left):.0%} of pairs")
    fit = results.scale
    row: dict[str, object] = {"left_share": left} if results.study.settings.kind == "pairs" else {}
    if fit is None or not main:
        return row | {"agreement": np.nan, "circular_share": np.nan}
    single = Results(results.study, main)
    votes = PairVotes(*single.votes)
    sign = votes.outcome - 1
    decided = sign != 0
    right = np.sign(fit.value[votes.first] - fit.value[votes.second])[decided] == sign[decided]
    agreement = float(right.mean()) if right.size else np.nan
    chance = 0.5 + 1.645 * 0.5 / np.sqrt(max(right.size, 1))
    if right.size >= _ENOUGH and agreement < chance:
        reasons.append(f"{agreement:.0%} of {right.size} votes follow the scale, no better than chance")
    share = intransitivity(votes, len(fit.value))["share"]
    return row | {"agreement": agreement, "circular_share": np.nan if share is None else share}


def _rating_reasons(rated: RatedImages) -> dict[str, list[str]]:
    table = rater_summary(rated)
    return {rater: [reason] for rater, reason in zip(table["rater"], table["reason"], strict=True) if reason}
