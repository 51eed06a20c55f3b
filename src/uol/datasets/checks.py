"""Check a data set before training: unreadable files, copies, and copies on both sides of a split."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from uol.datasets.dataset_info import examples
from uol.datasets.near_duplicates import SAME, SIDE, grey_square, near_pairs, perceptual_hashes
from uol.errors import CallError, ImageError, counted
from uol.images.read import ImageLike, Images, read_image
from uol.ratings.numerics import connected_sets
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.storage.cores import available_cores

Progress: TypeAlias = Callable[[int, int], None]

_IN_STRATUM = 4  # images of one stratum that go to each fold: few enough that folds agree closely in their scores
_AT_ONCE = 256


class Unreadable(NamedTuple):
    """An image that cannot be decoded, and why."""

    image: str
    reason: str


class NearDuplicate(NamedTuple):
    """Two pictures that show the same photograph: the bits in which their hashes differ, and whether mirrored."""

    first: str
    second: str
    distance: int
    mirrored: bool
    score_difference: float


class Leak(NamedTuple):
    """A test image whose photograph is also among the training images; distance 0 and `exact` for the same file."""

    test: str
    train: str
    exact: bool
    distance: int
    mirrored: bool


class SplitCheck(NamedTuple):
    """What a split's test images share with its training images: whole images, and photographs."""

    split: str
    train: int
    test: int
    shared: Sequence[str]
    leaks: Sequence[Leak]

    @property
    def exact(self) -> int:
        """Test images that are copies of training images, byte for byte."""
        return sum(leak.exact for leak in self.leaks)


@dataclass(frozen=True)
class CheckReport:
    """What `check` found in a data set; `problems` are what would harm a training, one line each."""

    name: str
    images: int
    notes: Sequence[str]
    unreadable: Sequence[Unreadable]
    exact: Sequence[Sequence[str]]
    near: Sequence[NearDuplicate]
    splits: Sequence[SplitCheck]
    problems: Sequence[str]

    @property
    def harmful(self) -> bool:
        """Whether training on these data would be harmed."""
        return bool(self.problems)

    def as_json(self) -> dict[str, Any]:
        """The report as plain lists and mappings."""
        return {
            "name": self.name,
            "images": self.images,
            "harmful": self.harmful,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "unreadable": [entry._asdict() for entry in self.unreadable],
            "exact_duplicates": [list(copies) for copies in self.exact],
            "near_duplicates": [pair._asdict() for pair in self.near],
            "splits": [
                {
                    **{"split": split.split, "train": split.train, "test": split.test, "shared": list(split.shared)},
                    **{"exact": split.exact, "near": len(split.leaks) - split.exact},
                    "leaks": [leak._asdict() for leak in split.leaks],
                }
                for split in self.splits
            ],
        }


@dataclass(frozen=True, eq=False)
class Contents:
    """The different files among n images: each image's file number (−1: unreadable), and which files resemble.

    `first`, `second`, `distance` and `mirrored` are the near-duplicate files, as `near_pairs` gives them.
    """

    file: Indices
    first: Indices
    second: Indices
    distance: npt.NDArray[np.uint16]
    mirrored: npt.NDArray[np.bool_]
    errors: dict[int, str]

    @property
    def groups(self) -> Indices:
        """A number per image, the same for copies and near-duplicates; an unreadable image is alone."""
        files = int(self.file.max(initial=-1)) + 1
        unreadable = self.file < 0
        labels = np.append(connected_sets(np.stack([self.first, self.second], 1), files), -1)[self.file]
        labels[unreadable] = files + np.arange(unreadable.sum())
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def check(rated: RatedImages, threshold: int = SAME, progress: Progress | None = None) -> CheckReport:
    """Decode every image, look for copies and near-duplicates, and for those that cross a split."""
    found = read_contents(rated.images, threshold, progress)
    names = rated.names
    unreadable = [Unreadable(names[i], reason) for i, reason in found.errors.items()]
    members = _members(found.file)
    near = []
    for a, b, distance, mirrored in zip(found.first, found.second, found.distance, found.mirrored, strict=True):
        i, j = members[a][0], members[b][0]
        difference = abs(float(rated.scores[i] - rated.scores[j]))
        near.append(NearDuplicate(names[i], names[j], int(distance), bool(mirrored), difference))
    splits = [_check_split(name, split, found, members, names) for name, split in rated.splits.items()]
    return CheckReport(
        name=rated.name,
        images=len(rated),
        notes=rated.notes,
        unreadable=unreadable,
        exact=[[names[i] for i in copies] for copies in members if len(copies) > 1],
        near=near,
        splits=splits,
        problems=_problems(rated, unreadable, splits),
    )


def read_contents(images: Images, threshold: int = SAME, progress: Progress | None = None) -> Contents:
    """Decode all images; find copies by a digest of their bytes and near-duplicates by perceptual hash.

    `progress(done, total)` counts half of an image when it is decoded and half when it is compared.
    """
    numbers: dict[bytes, int] = {}
    errors: dict[int, str] = {}
    greys: list[npt.NDArray[np.uint8]] = []
    file = np.full(len(images), -1, np.intp)
    with ThreadPoolExecutor(available_cores()) as pool:
        for start in range(0, len(images), _AT_ONCE):
            for i, result in enumerate(pool.map(_read, images[start : start + _AT_ONCE]), start):
                if isinstance(result, ImageError):
                    errors[i] = str(result)
                else:
                    digest, grey = result
                    file[i] = numbers.setdefault(digest, len(numbers))
                    if file[i] == len(greys):
                        greys.append(grey)
                if progress is not None:
                    progress((i + 1) // 2, len(images))

    def compared(done: int) -> None:
        if progress is not None:
            progress(len(images) * (len(greys) + done) // (2 * len(greys)), len(images))

    hashed = perceptual_hashes(np.array(greys, np.uint8).reshape(-1, SIDE, SIDE), compared)
    return Contents(file, *near_pairs(hashed, threshold), errors)


def split_folds(
    rated: RatedImages, folds: int = 5, seed: int = 0, groups: npt.ArrayLike | None = None
) -> dict[str, Split]:
    """Folds of equal size and like scores that keep each group on one side: `fold-1` tests on the first fold, ….

    `groups` (n,) has the same number for images that belong together; without it near-duplicates do. Images are
    ranked by score and cut into strata; larger groups are placed first, then stratum by stratum, each where the
    fold has fewest images of the same strata, then where it is smallest, then at random.
    """
    labels = read_contents(rated.images).groups if groups is None else np.asarray(groups)
    if labels.shape != (len(rated),):
        raise CallError(f"groups must have one number per image: {len(rated)} images, groups of shape {labels.shape}")
    members = _by_label(np.unique(labels, return_inverse=True)[1])
    if not 2 <= folds <= len(members):
        raise CallError(f"{rated.name}: from 2 to {len(members)} folds can be made of its images; got {folds}")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(rated))
    rank = np.empty(len(rated), np.intp)
    rank[shuffled[np.argsort(rated.scores[shuffled], kind="stable")]] = np.arange(len(rated))
    stratum = rank // (folds * _IN_STRATUM)
    placed = np.zeros((folds, stratum.max() + 1), np.int64)
    size = np.zeros(folds, np.int64)
    fold_of = np.empty(len(rated), np.intp)
    chance = rng.random(len(members))
    for g in sorted(range(len(members)), key=lambda g: (-len(members[g]), stratum[members[g][0]], chance[g])):
        own = stratum[members[g]]
        fold = np.lexsort((rng.random(folds), size, placed[:, own].sum(axis=1)))[0]
        np.add.at(placed[fold], own, 1)
        size[fold] += len(own)
        fold_of[members[g]] = fold
    return {f"fold-{k + 1}": Split(np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)) for k in range(folds)}


def _read(image: ImageLike) -> tuple[bytes, npt.NDArray[np.uint8]] | ImageError:
    """A digest of an image's bytes and its small grey picture, or why there is none."""
    try:
        picture = read_image(image)
        if isinstance(image, str | os.PathLike):
            digest = hashlib.sha256(Path(image).read_bytes())
        else:
            digest = hashlib.sha256(f"{picture.size} ".encode() + picture.tobytes())
        return digest.digest(), grey_square(picture)
    except ImageError as error:
        return error
    except Exception as error:  # a file that vanishes between two looks, a decoder's fault: costs this image alone
        return ImageError(f"{image if isinstance(image, str | os.PathLike) else 'image'}: cannot be read ({error})")


def _check_split(
    name: str, split: Split, found: Contents, members: Sequence[Sequence[int]], names: Sequence[str]
) -> SplitCheck:
    """One leak at most per test image: its copy in training, else the nearest near-duplicate there."""
    shared = [names[i] for i in np.intersect1d(split.train, split.test)]
    training = set(split.train.tolist())
    in_training = [next((i for i in copies if i in training), -1) for copies in members]
    nearest: dict[int, tuple[int, int, bool]] = {}  # of each file: training image, distance, mirrored
    for a, b, distance, mirrored in zip(found.first, found.second, found.distance, found.mirrored, strict=True):
        for own, other in ((a, b), (b, a)):  # the nearest pairs come first
            if in_training[other] >= 0:
                nearest.setdefault(int(own), (in_training[other], int(distance), bool(mirrored)))
    leaks = []
    for i in split.test.tolist():
        file = int(found.file[i])
        if file < 0 or i in training:
            continue
        if in_training[file] >= 0:
            leaks.append(Leak(names[i], names[in_training[file]], True, 0, False))
        elif file in nearest:
            twin, distance, mirrored = nearest[file]
            leaks.append(Leak(names[i], names[twin], False, distance, mirrored))
    return SplitCheck(name, len(split.train), len(split.test), shared, leaks)


def _problems(rated: RatedImages, unreadable: Sequence[Unreadable], splits: Sequence[SplitCheck]) -> list[str]:
    problems = []
    if unreadable:
        listed = examples([entry.image for entry in unreadable])
        problems.append(f"{len(unreadable)} of {len(rated)} images cannot be read: {listed}")
    if not rated.rated:
        problems.append("nobody rated these images: they can be scored, but not trained on")
    elif np.ptp(rated.scores) == 0:
        problems.append(f"all images have the same score, {rated.scores[0]:g}: there is no order to learn")
    for split in splits:
        if split.shared:
            problems.append(
                f"split {split.split}: {counted(len(split.shared), 'image')} in both train and test: "
                + examples(split.shared)
            )
        copies = [f"{leak.test} = {leak.train}" for leak in split.leaks if leak.exact]
        if copies:
            problems.append(
                f"split {split.split}: {len(copies)} test images are copies of training images: {examples(copies)}"
            )
    return problems


def _members(file: Indices) -> list[list[int]]:
    """The images of each file number, in order."""
    members: list[list[int]] = [[] for _ in range(int(file.max(initial=-1)) + 1)]
    for i, number in enumerate(file.tolist()):
        if number >= 0:
            members[number].append(i)
    return members


def _by_label(labels: Indices) -> list[Indices]:
    """The places of each label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
