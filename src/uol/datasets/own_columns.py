"""Which column of a user's table holds what: named by the user, or guessed from names and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from uol.datasets.column_names import GROUPS, IMAGE, NEITHER, ROLES
from uol.datasets.dataset_info import examples
from uol.datasets.matching import ImageIndex
from uol.datasets.tables import find_column, find_columns, has_numbers, numbers, texts
from uol.errors import CallError

Kind = Literal["long", "wide", "summary"]

_WORDS = ("rater", "split")  # roles of columns that need not hold numbers


@dataclass(frozen=True)
class Columns:
    """Which column holds what; `values` is one column of ratings or means, or a column per rater in a wide table."""

    kind: Kind
    image: str
    values: tuple[str, ...]
    rater: str | None = None
    variance: str | None = None
    sd: str | None = None
    count: str | None = None
    split: str | None = None
    groups: tuple[str, ...] = ()

    def described(self) -> str:
        """One line on how the table was read."""
        start = f"read as a {self.kind} table: images in column {self.image}"
        if self.kind == "wide":
            return f"{start}, {len(self.values)} raters ({examples(self.values)})"
        if self.kind == "long":
            return f"{start}, raters {f'in {self.rater}' if self.rater else 'unknown'}, ratings in {self.values[0]}"
        spread = self.variance or self.sd
        return f"{start}, means in {self.values[0]}, spread {f'in {spread}' if spread else 'unknown'}"


def find_image_column(table: pd.DataFrame, chosen: str | None, index: ImageIndex) -> str | None:
    """The column of image names: as chosen, else one whose cells are files in the folder; None if there is none.

    Columns of a usual name go first, then the one with the most files, not of numbers if there is one of a usual name.
    Where more column headings than cells are files, the images are in the columns.
    """
    if chosen is not None:
        return find_column(table, chosen, (), "image")
    usual = [column for name in IMAGE for column in find_columns(table, [name])]
    files = {column: sum(bool(index.find(name)) for name in set(texts(table[column])) if name) for column in table}
    others = [column for column in table if not (usual and has_numbers(table[column]))]  # 25 is a rating, not 25.jpg
    best = next((column for column in (*usual, *sorted(others, key=lambda name: -files[name])) if files[column]), None)
    return str(best) if best is not None and files[best] and files[best] >= len(_image_headings(table, index)) else None


def melt_raters_in_rows(table: pd.DataFrame, rater: str | None, index: ImageIndex) -> pd.DataFrame | None:
    """A table with a row per rater and a column per image, as survey tools write it, made long; None if it is not."""
    images = _image_headings(table, index)
    if not images:
        return None
    found = find_column(table, rater, ROLES["rater"], "rater")
    raters = texts(table[found]) if found is not None else [f"row {row}" for row in table.index]
    return pd.DataFrame(
        {
            "image": np.repeat(np.array(images, object), len(table)),
            "rater": raters * len(images),
            "rating": [cell for image in images for cell in table[image]],
        },
        index=np.tile(table.index, len(images)),
    )


def find_roles(
    table: pd.DataFrame, image: str, kind: Kind | None, chosen: Mapping[str, str | None], groups: Sequence[str]
) -> Columns:
    """What each column except that of image names holds; `chosen` are the columns that the user named."""
    if kind is not None and kind not in get_args(Kind):
        raise CallError(f"unknown kind of table {kind!r}: there are {', '.join(get_args(Kind))}")
    rest = table.drop(columns=image)
    numeric = [column for column in rest.columns if has_numbers(rest[column])]
    rater = find_column(rest, chosen.get("rater"), ROLES["rater"], "rater")
    # A column of words called "note" is no column of ratings, unless nothing else can be one.
    figures = rest[numeric] if any(column != rater for column in numeric) else rest
    role = {
        name: find_column(rest if name in _WORDS or chosen.get(name) else figures, chosen.get(name), usual, name)
        for name, usual in ROLES.items()
    }
    named = [column for name in groups if (column := find_column(rest, name, (), "groups"))]
    named += [column for column in find_columns(rest, GROUPS) if column not in chosen.values()]
    spoken_for = {role["variance"], role["sd"], role["count"], role["split"], *named, *find_columns(rest, NEITHER)}
    numeric = [column for column in numeric if column not in spoken_for and column != role["rater"]]
    if role["rating"] is None and role["rater"] is not None and len(numeric) == 1:
        role["rating"] = numeric[0]
    raters = [column for column in numeric if column != role["mean"]]
    if kind is None:
        kind = _guess_kind(table, image, role, chosen, numeric, raters)
    values = _values(kind, role, numeric, raters)
    used = {*values, *(column for name, column in role.items() if name != "rater" or kind == "long")}
    words = [column for column in rest.columns if column not in used and _is_group(rest[column])]
    return Columns(
        kind=kind,
        image=image,
        values=values,
        rater=role["rater"] if kind == "long" else None,
        variance=role["variance"],
        sd=role["sd"],
        count=role["count"],
        split=role["split"],
        groups=tuple(column for column in dict.fromkeys([*named, *words]) if column not in used),
    )


def _guess_kind(
    table: pd.DataFrame,
    image: str,
    role: Mapping[str, str | None],
    chosen: Mapping[str, str | None],
    numeric: Sequence[str],
    raters: Sequence[str],
) -> Kind:
    repeated = bool(table[image].duplicated().any())
    if chosen.get("rater") or chosen.get("rating") or (role["rating"] and (role["rater"] or repeated)):
        return "long"
    if role["mean"]:
        summarised = chosen.get("mean") or role["variance"] or role["sd"] or role["count"]
        return "summary" if summarised or not _are_raters(table, role["mean"], raters) else "wide"
    if len(numeric) == 1 and np.any(np.mod(numbers(table[numeric[0]].dropna(), "the table"), 1) > 0):
        return "summary"  # one column with fractions: means, not ratings
    return "wide"


def _are_raters(table: pd.DataFrame, mean: str, columns: Sequence[str]) -> bool:
    """Whether the column of means can be the mean of the other columns of numbers: always between their extremes."""
    if len(columns) < 2:
        return False
    cells = np.column_stack([numbers(table[column], "the table") for column in columns])
    rated = ~np.isnan(cells).all(axis=1)
    means = numbers(table[mean], "the table")[rated]
    low, high = np.nanmin(cells[rated], axis=1), np.nanmax(cells[rated], axis=1)
    return bool(np.all((means >= low - 1e-6) & (means <= high + 1e-6) | np.isnan(means)))


def _values(
    kind: Kind, role: Mapping[str, str | None], numeric: Sequence[str], raters: Sequence[str]
) -> tuple[str, ...]:
    """The columns of ratings or means for a kind of table."""
    if kind == "wide":
        found = tuple(raters)
    else:
        column = role["rating"] if kind == "long" else role["mean"]
        found = (column,) if column else tuple(numeric[:1]) if len(numeric) == 1 else ()
    if not found:
        wanted = {"long": "rating=…", "summary": "mean=…", "wide": "image=…, rater=… and rating=…, or mean=…"}[kind]
        raise CallError(f"no column of ratings found in the table: name its columns with --read ({wanted})")
    return found


def _is_group(column: pd.Series[Any]) -> bool:
    """Whether a column that has no other use sorts the images into groups: words, some of them repeated."""
    words = [word for word in texts(column) if word]
    return bool(words) and not has_numbers(column) and (len(set(words)) < len(words) or len(column) == 1)


def _image_headings(table: pd.DataFrame, index: ImageIndex) -> list[str]:
    return [column for column in table.columns if index.find(column)]
