"""A data set as a person names it: a NAME with its folder, or a FOLDER of images with a table of what people said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uol import datasets
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.images.read import Images
    from uol.ratings.rated_images import RatedImages

RATINGS, VOTES = "own", "votes"  # the loaders of a folder with a table


@dataclass(frozen=True)
class DataChoice:
    """Which data set to read, and how.

    `data` is a name or a folder; a name wins over a folder of the same name, which is then written `./name`. `root` is
    the folder of a named data set, `table` (with `votes`, if it has votes on pairs) belongs to a folder of images,
    `folds` is a table of image and fold, and `read` are settings of the loader, as name=value.
    """

    data: str
    root: Path | None = None
    table: Path | None = None
    votes: bool = False
    scale: tuple[float, float] | None = None
    read: Sequence[str] = ()
    folds: Path | None = None

    @property
    def named(self) -> bool:
        """Whether the data set was given by name."""
        return self.data in datasets.names()

    @property
    def inputs(self) -> list[Path]:
        """The tables, and the folder of a named data set: what a command must not overwrite."""
        folder = self.root if self.named and self.data not in (RATINGS, VOTES) else None
        return [path for path in (self.table, self.folds, folder) if path is not None]

    def with_second(self, second: Path | None) -> DataChoice:
        """The same choice with a second path: the folder of a named data set, or the table of a folder."""
        if second is None:
            return self
        taken, option = (self.root, "--root") if self.named else (self.table, "--table")
        if taken is not None:
            raise CallError(f"{second}: {option} {taken} is given already; leave one of them out")
        return replace(self, root=second) if self.named else replace(self, table=second)

    def load(self) -> RatedImages:
        """Read the data set."""
        name, folder = self._loader()
        options: dict[str, Any] = {} if self.table is None else {"table": self.table}
        if self.scale is not None:
            low, high = self.scale
            if low >= high:
                raise CallError(f"--scale {low:g} {high:g}: give the lowest rating first")
            options["scale"] = self.scale
        settings = _settings(self.read)
        if twice := sorted(options.keys() & settings.keys()):
            raise CallError(f"--{twice[0]} and --read {twice[0]}=: give one of them")
        rated = datasets.load(name, folder, **options, **settings)
        if self.folds is None:
            return rated
        from uol.datasets.folds import with_folds

        return with_folds(rated, self.folds)

    def photographs(self, out: Path, report: Callable[[str], None]) -> tuple[Images, list[str]]:
        """Images and their names, rated or not; those in the folder `out` do not count.

        `report` receives a line on the files that a folder has besides images.
        """
        if self.named or self.table is not None:
            rated = self.load()
            return rated.images, list(rated.names)
        from uol.images.paths import find_images

        folder = self._folder()
        paths = [path for path in find_images(folder, report) if out.resolve() not in path.resolve().parents]
        if not paths:
            raise CallError(f"{folder}: all images in it are those of {out}; give the folder of the photographs")
        return paths, [path.relative_to(folder).as_posix() for path in paths]

    def _loader(self) -> tuple[str, Path | None]:
        """The name of the loader, and its folder."""
        if not self.named:
            folder = self._folder()
            if self.table is None:
                raise CallError(f"{self.data}: a folder of images requires --table FILE, the table of ratings or votes")
            self._check_votes()
            return VOTES if self.votes else RATINGS, folder
        if self.data in (RATINGS, VOTES):
            self._check_votes()
            return VOTES if self.votes else self.data, self.root
        given = {"--table": self.table, "--votes": self.votes, "--scale": self.scale}
        for option in (option for option, value in given.items() if value):
            raise CallError(f"{option}: for a folder of images; {self.data} comes with ratings and a scale")
        return self.data, self.root

    def _folder(self) -> Path:
        if self.root is not None:
            raise CallError(f"--root {self.root}: for a data set given by name; {self.data} is none of them")
        folder = Path(self.data)
        if folder.is_dir():
            return folder
        if folder.exists():
            raise CallError(f"{self.data}: a file; give the folder of the images, and the table with --table FILE")
        if folder.name != self.data:  # written as a path
            raise CallError(f"{self.data}: no such folder")
        raise CallError(f"{datasets.unknown(self.data)}; and there is no folder of that name")

    def _check_votes(self) -> None:
        if self.scale is not None and (self.votes or self.data == VOTES):
            raise CallError("--scale: for ratings; the scale of votes follows from the votes")


_WHOLE_NUMBERS = frozenset({"n", "test", "seed", "size"})  # of the drawn faces


def named_folders(option: str, words: Iterable[str]) -> dict[str, str]:
    """The folder of each data set that an option names as NAME=FOLDER."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or not folder:
            raise CallError(f"{option} {word}: write it as NAME=FOLDER")
        if name in found:
            raise CallError(f"{option} {name}: given twice")
        found[name] = folder
    return found


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """Settings of a loader, as name=value; lists are separated by commas."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise CallError(f"--read {word}: write it as name=value")
        if key == "missing":
            found[key] = [*found.get(key, ()), *(_number_or_word(part) for part in value.split(","))]
        elif key in found:
            raise CallError(f"--read {key}: given twice")
        elif key in _WHOLE_NUMBERS:
            found[key] = _whole_number(key, value)
        elif key == "scale":
            found[key] = _scale(f"--read {word}", value)
        else:
            found[key] = value.split(",") if key == "groups" else value
    return found


def _whole_number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CallError(f"--read {key}={text}: a whole number is required") from None


def _number_or_word(text: str) -> float | str:
    if not text.strip():
        raise CallError("--read missing=: give numbers or words, such as 99 or -1")
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        return text.strip()


def choose_panels(words: Sequence[str], reading: Sequence[str]) -> list[tuple[DataChoice, str | None]]:
    """Data sets and their splits as --with writes them: NAME=FOLDER:SPLIT, or FOLDER:SPLIT; SPLIT may be left out.

    `reading` has what --with-read says of each, as NAME:name=value or FOLDER:name=value; `table=FILE`, `folds=FILE` and
    `scale=1,10` are the options of these names.
    """
    parsed = [parse_panel(word) for word in words]
    settings = _by_panel(reading, [data for data, _, _ in parsed])
    found = []
    for data, root, split in parsed:
        own = settings.get(data, [])
        table, folds = (
            next((Path(word.removeprefix(start)) for word in own if word.startswith(start)), None)
            for start in ("table=", "folds=")
        )
        scale = next((_scale(f"--with-read …:{word}", word[6:]) for word in own if word.startswith("scale=")), None)
        rest = [word for word in own if not word.startswith(("table=", "folds=", "scale="))]
        if data not in datasets.names() and table is None:
            raise CallError(f"--with {data}: say what people said of it: --with-read {data}:table=FILE")
        found.append((DataChoice(data, root, table, scale=scale, read=rest, folds=folds), split))
    return found


def parse_panel(word: str) -> tuple[str, Path | None, str | None]:
    """The name or folder, the folder of a name, and the split; a folder that exists may have a colon in its name."""
    data, split = (word, None) if word in datasets.names() else _without_split(word)
    if data in datasets.names() or (data and Path(data).is_dir()):
        return data, None, split
    name, equals, place = word.partition("=")
    if not name or not equals:
        raise CallError(f"--with {word}: no such data set or folder; write it as NAME=FOLDER:SPLIT or FOLDER:SPLIT")
    datasets.info(name)  # which raises if there is none
    folder, split = _without_split(place)
    return name, Path(folder) if folder else None, split


def _without_split(place: str) -> tuple[str, str | None]:
    head, colon, split = place.rpartition(":")
    return (place, None) if not colon or Path(place).exists() else (head, split or None)


def _by_panel(words: Sequence[str], panels: Sequence[str]) -> dict[str, list[str]]:
    """What --with-read says of each panel of --with."""
    found: dict[str, list[str]] = {}
    for word in words:
        named = [panel for panel in panels if word.startswith((f"{panel}:", f"{panel.rstrip('/')}:"))]
        rest = word.removeprefix(named[0].rstrip("/")).lstrip("/")[1:] if named else word.partition(":")[2]
        if "=" not in rest:
            raise CallError(f"--with-read {word}: write it as NAME:name=value or FOLDER:name=value")
        if not named:
            raise CallError(f"--with-read {word}: no --with names {word.partition(':')[0]}")
        found.setdefault(named[0], []).append(rest)
    return found


def _scale(option: str, value: str) -> tuple[float, float]:
    try:
        low, high = (float(number) for number in value.split(","))
    except ValueError:
        raise CallError(f"{option}: give the lowest and the highest rating, as scale=1,10") from None
    return low, high
