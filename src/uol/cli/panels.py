"""The options --with and --with-read: further panels of one network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from uol.cli.output import load
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.ratings.rated_images import RatedImages, Split

WithOption = Annotated[
    list[str] | None,
    typer.Option("--with", help="Train on another panel too: NAME=FOLDER:SPLIT, or FOLDER:SPLIT; repeatable."),
]
WithReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with-read", help="How to read it: FOLDER:table=FILE, FOLDER:scale=1,10, NAME:image=COLUMN; repeatable."
    ),
]


def load_panels(
    main: RatedImages, words: Sequence[str] | None, reading: Sequence[str] | None
) -> list[tuple[RatedImages, str, Split]]:
    """The panels that --with names, each with the name and the images of its split."""
    from uol.datasets.choosing import choose_panels
    from uol.ratings.splits import choose_splits

    found: list[tuple[RatedImages, str, Split]] = []
    for chosen, split in choose_panels(words or [], reading or []):
        rated = load(chosen)
        if rated.name in [main.name, *(other.name for other, _, _ in found)]:
            raise CallError(f"--with {chosen.data}: another panel has the name {rated.name}")
        if split == "all":
            raise CallError(f"--with {chosen.data}: name one split, not all")
        if split is None and len(rated.splits) > 1:
            place = f"{chosen.data}=FOLDER" if chosen.named else chosen.data
            raise CallError(f"--with {place}:SPLIT: {rated.name} has several splits, {', '.join(rated.splits)}")
        ((name, parts),) = choose_splits(rated, split).items()
        found.append((rated, name, parts))
    return found
