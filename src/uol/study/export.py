"""Everything that a study found, as files: CSV tables, a page, and a README with three lines of R."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import uol
from uol.errors import CallError
from uol.storage.csv_text import frame_text
from uol.storage.files import write_json, write_text
from uol.study.participants import participant_table
from uol.study.progress import progress
from uol.study.report import MEANING, write_study_report
from uol.study.results import (
    Results,
    answer_table,
    intransitivity,
    pair_table,
    repeats,
    scale_table,
    side_share,
    study_reliability,
)

_R = {
    "ratings": """answers <- subset(read.csv("answers.csv"), kind == "trial")
means <- aggregate(rating ~ image, answers, function(r) c(mean = mean(r), sd = sd(r), n = length(r)))
anova(lm(rating ~ image + participant, answers))""",
    "pairs": """pairs <- read.csv("pairs.csv"); ids <- union(pairs$first, pairs$second)
X <- sapply(ids[-1], function(id) (pairs$first == id) - (pairs$second == id))
summary(glm(cbind(prefer_first, prefer_second) ~ 0 + X, binomial, pairs))  # values relative to ids[1]""",
    "best-of-four": """answers <- subset(read.csv("answers.csv"), kind == "trial")
scale <- read.csv("scale.csv"); scale <- scale[order(scale$bradley_terry), ]
with(scale, { plot(bradley_terry); segments(seq_along(image), bradley_terry_low_95, y1 = bradley_terry_high_95) })""",
}
_FILES = {
    "answers.csv": "every answer, practice and attention checks included (column `kind`)",
    "scale.csv": "a row per image: its place on the scale with standard error and 95 % interval",
    "pairs.csv": "a row per pair: votes for either image, agreement, and whether more than 5 of 7 voters agreed",
    "participants.csv": "a row per participant; `flagged` is a reason to look; all count except those `left_out`",
    "makeup-votes.csv": "votes with and without make-up, as `uol experiment run --makeup-votes` reads them",
    "summary.json": "reliability, intransitivity, consistency of repeats, sides",
    "report.html": "all of this on a page with figures",
}
_COLUMNS = """Columns of scale.csv: `bradley_terry` in logits; `thurstone_5` and `thurstone_3` are Thurstone's Cases V
and III in standard deviations of a comparison; `_se`, `_low_95` and `_high_95` are standard errors and 95 % intervals.
"""


def summary(results: Results) -> dict[str, object]:
    """Figures of a study that are no table, ready for JSON."""
    same = repeats([answer for answer in results.answers if answer.participant not in results.left_out])
    found: dict[str, object] = {
        **progress(results)._asdict(),
        "left_out": sorted(results.left_out),
        "reliability": study_reliability(results),
        "repeats": {"number": len(same), "same": float(same["same"].mean()) if len(same) else None},
    }
    if results.scale is not None:
        left, decided = side_share(results)
        found |= {
            "intransitivity": intransitivity(results.votes, len(results.study.ids)),
            "ties": {name: fit.delta for name, fit in results.scales.items()},
            "widths": {name: fit.width for name, fit in results.scales.items()},
        }
        if results.study.settings.kind == "pairs":
            found["left_side"] = {"chosen": left, "of": decided}
    return found


def export_study(results: Results, out: Path) -> list[str]:
    """Write all files to a folder, each in one step, and return their names; other files in the folder stay."""
    if out.exists() and not (out / "summary.json").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise CallError(f"{out}: exists and is no earlier export; choose another folder")
    tables = {
        "answers.csv": answer_table(results.study, results.answers),
        "scale.csv": scale_table(results),
        "participants.csv": participant_table(results),
    }
    if results.scale is not None:
        tables["pairs.csv"] = pair_table(results)
        if results.study.people:
            tables["makeup-votes.csv"] = makeup_votes(results)
    figures = summary(results)
    out.mkdir(parents=True, exist_ok=True)
    for name in {name for name in _FILES if name.endswith(".csv")} - set(tables):
        (out / name).unlink(missing_ok=True)  # of an earlier export
    write_json(out / "summary.json", {"uol": uol.__version__, **figures})
    for name, table in tables.items():
        write_text(out / name, frame_text(table))
    write_study_report(out / "report.html", results, figures, tables)
    write_text(out / "README.md", _readme(results, [*tables, "summary.json", "report.html"]))
    return [*tables, "summary.json", "report.html", "README.md"]


def makeup_votes(results: Results) -> pd.DataFrame:
    """How many voters preferred each person's photograph with make-up (the first of a given pair), and without."""
    people = {frozenset(pair): who for pair, who in zip(results.study.given, results.study.people, strict=True)}
    rows = [
        (people[frozenset((row["first"], row["second"]))], row["prefer_first"], row["prefer_second"])
        for row in pair_table(results).to_dict("records")
    ]
    return pd.DataFrame(rows, columns=["person", "with", "without"])


def _readme(results: Results, names: list[str]) -> str:
    settings = results.study.settings
    title = settings.text(settings.title, settings.languages[0])
    files = "".join(f"- `{name}`: {_FILES[name]}\n" for name in names)
    columns = "" if settings.kind == "ratings" else f"\n{_COLUMNS}"
    return f"# {title}\n\n{MEANING}\n\n{files}{columns}\nIn R:\n\n```r\n{_R[settings.kind]}\n```\n"
