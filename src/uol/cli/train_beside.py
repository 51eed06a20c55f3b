"""uol train --with: panels that train the same network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from uol.cli.data import load
from uol.cli.output import progress_bar, say
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.order.config import ModelConfig
    from uol.ratings.rated_images import RatedImages, Split
    from uol.runs.multi_panel import Divided
    from uol.runs.result import KnownRaters, Result


class _Loaded(NamedTuple):
    rated: RatedImages
    name: str
    split: Split


def load_beside(main: RatedImages, words: Sequence[str], reading: Sequence[str]) -> list[_Loaded]:
    """The panels that --with names, each with its split."""
    from uol import datasets
    from uol.cli.train import splits_of

    found: list[_Loaded] = []
    asked = [parsed(word) for word in words]
    for name, _, _ in asked:
        datasets.info(name)  # which says so if there is none
    told = _reading(reading, {name for name, _, _ in asked})
    for name, folder, split in asked:
        options = told.get(name, [])
        table = next((Path(word.removeprefix("table=")) for word in options if word.startswith("table=")), None)
        scale = next((_scale(word) for word in options if word.startswith("scale=")), None)
        rest = [word for word in options if not word.startswith(("table=", "scale="))]
        rated = load(name, folder, table, scale, rest)
        names = [main.name, *(other.rated.name for other in found)]
        if rated.name in names:
            raise CallError(f"--with {name}: there is a panel called {rated.name} already")
        if split == "all":
            raise CallError(f"--with {name}: name one split, not all")
        if split is None and len(rated.splits) > 1:
            raise CallError(f"--with {name}=FOLDER:SPLIT: {name} has several splits, {', '.join(rated.splits)}")
        ((chosen, parts),) = splits_of(rated, split).items()
        found.append(_Loaded(rated, chosen, parts))
    return found


def pack_beside(others: Sequence[_Loaded], model: ModelConfig) -> list[Divided]:
    """Their images, framed as the network wants them."""
    from uol.runs.multi_panel import Divided
    from uol.training.batches import PackedImages

    packed = []
    for rated, name, split in others:
        with progress_bar(f"reading {rated.name}", len(rated)) as update:
            images = PackedImages.pack(rated, model, lambda done, _, update=update: update(done))  # type: ignore[misc]
        packed.append(Divided(images, name, split))
        say(f"with {rated.name}, {name}: {len(split.train)} images train too")
    return packed


def rows_beside(result: Result, folder: Path) -> list[dict[str, Any]]:
    """A row for each other panel's test images; and what was left out of the training is said."""
    from uol.runs.multi_panel import PANELS

    for panel in result.provenance.panels or ():
        if panel.left_out:
            say(f"{panel.name}: {panel.left_out} training images left out, copies of test images")
    rows = []
    for name, figures in (result.beside or {}).items():
        say(f"model on the scale of {name}: {folder / PANELS / name / 'model'}")
        told = figures.model_dump(exclude={"trained", "score_sd", "replicates", "known_raters", "split"})
        say_known_raters(f"{name}, {figures.split}", figures.known_raters)
        rows.append({"data": name, "split": figures.split, **told, **known_row(figures.known_raters)})
    return rows


def say_known_raters(name: str, known: KnownRaters | None) -> None:
    """Say how near predictions are that are told who rated each test image."""
    if known is not None and known.pc is not None:
        say(f"{name}: told who rated each image, PC {known.pc:.4f}, MAE {known.mae:.4f}, RMSE {known.rmse:.4f}")


def known_row(known: KnownRaters | None) -> dict[str, Any]:
    """The same for --json; nothing where it is not known."""
    return {} if known is None else {"known_raters": known.model_dump(include={"pc", "mae", "rmse"})}


def parsed(word: str) -> tuple[str, Path | None, str | None]:
    """NAME, NAME=FOLDER or NAME=FOLDER:SPLIT; a folder that is there may have a colon in its name."""
    name, _, place = word.partition("=")
    if not name:
        raise CallError(f"--with {word}: write it as NAME=FOLDER or NAME=FOLDER:SPLIT")
    if not place or Path(place).exists():
        return name, Path(place) if place else None, None
    folder, colon, split = place.rpartition(":")
    if not colon:
        return name, Path(place), None
    return name, Path(folder) if folder else None, split or None


def _reading(words: Sequence[str], names: set[str]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for word in words:
        name, colon, rest = word.partition(":")
        if not colon or "=" not in rest:
            raise CallError(f"--with-read {word}: write it as NAME:name=value")
        if name not in names:
            raise CallError(f"--with-read {word}: no --with names {name}")
        told.setdefault(name, []).append(rest)
    return told


def _scale(word: str) -> tuple[float, float]:
    try:
        low, high = (float(number) for number in word.removeprefix("scale=").split(","))
    except ValueError:
        raise CallError(f"--with-read …:{word}: give the lowest and the highest rating, as scale=1,10") from None
    return low, high
