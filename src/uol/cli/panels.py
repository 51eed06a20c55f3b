"""The options --with and --with-read: further panels of one network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from uol.cli.output import load
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.ratings.rated_images import RatedImages, Split

WithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        help="Train on another panel too: NAME=FOLDER:SPLIT, or FOLDER:SPLIT; {split} is the split's name; repeatable.",
    ),
]
WithReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with-read", help="How to read it: FOLDER:table=FILE, FOLDER:scale=1,10, NAME:image=COLUMN; repeatable."
    ),
]

_FOLLOWS = "{split}"  # in the split of --with: the name of the first panel's split


class Panel(NamedTuple):
    """A panel that --with names; its split by name, as {split} for that of the first panel, or None: its only one."""

    rated: RatedImages
    split: str | None

    def at(self, split: str) -> tuple[RatedImages, str, Split]:
        """The panel, its split's name and images, for a split of the first panel."""
        from uol.ratings.splits import choose_splits

        named = None if self.split is None else self.split.replace(_FOLLOWS, split)
        ((name, parts),) = choose_splits(self.rated, named).items()
        return self.rated, name, parts


def load_panels(main: RatedImages, words: Sequence[str] | None, reading: Sequence[str] | None) -> list[Panel]:
    """The panels that --with names, read as --with-read says."""
    from uol.datasets.choosing import choose_panels

    found: list[Panel] = []
    for chosen, split in choose_panels(words or [], reading or []):
        rated = load(chosen)
        if rated.name in [main.name, *(other.rated.name for other in found)]:
            raise CallError(f"--with {chosen.data}: another panel has the name {rated.name}")
        if split == "all":
            raise CallError(
                f"--with {chosen.data}: name one split, not all; {_FOLLOWS} follows the folds of {main.name}"
            )
        if split is None and len(rated.splits) > 1:
            place = f"{chosen.data}=FOLDER" if chosen.named else chosen.data
            raise CallError(f"--with {place}:SPLIT: {rated.name} has several splits, {', '.join(rated.splits)}")
        found.append(Panel(rated, split))
    return found
