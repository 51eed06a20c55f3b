"""Do the corners of aligned faces, where the photograph ends, tell anything of the score?

    python benchmarks/black_corners.py --root SCUT-FBP5500_v2                    # the geometry: a minute
    python benchmarks/black_corners.py --root SCUT-FBP5500_v2 --run runs/fast    # and networks: 0.2 s an image and core
    python benchmarks/black_corners.py --root SCUT-FBP5500_v2 --run MODEL --split fold-1

Geometry. Where the photograph ends inside the aligned frame follows from the face's five points and the photograph's
size, without a look at its colours: the share of each of the twelve outer cells of a 4 × 4 grid that lies beyond it,
and for each side whether any of that side's outermost pixels does. A ridge regression of the score on these, and one on
these with all their products, are fitted on each official fold's training images (strength by leave-one-out) and
tested on its test images; so is the mean score of each gender × ethnicity group, and both together. Within a group all
is fitted and tested on its images alone. Figures are means over folds, with 95 % intervals by bootstrap over test
images. No border can hide what a file shows of its source by itself: most are padded with white to a square, and some
show an oval cut out on white. "white" is the share of white pixels in each of the file's own twelve outer cells; the
last rows are of ovals alone, and of all but them.

Networks. Each is asked for its test images with its own border and with the others. Pixels that a network did not see
in training can only harm it: that another border is worse does not show that its own helps it to guess. What the
measurement can show is how far scores hang on these pixels at all, and (last line) whether the network's errors go
with what the geometry tells of the score.

Faces are taken from the face cache; those that are not there yet are looked for, once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from uol import datasets
from uol.errors import CallError, UolError
from uol.images.face_cache import FaceCache
from uol.images.faces import Border, Face, align_face, beyond
from uol.images.read import fit_square, read_image
from uol.ratings import metrics
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.runs.bootstrap import Difference, draws, interval, mean_of, paired, replicated
from uol.runs.folder import run_folders
from uol.runs.result import read_result
from uol.scoring.base import AskedWithImages
from uol.scoring.scorer import Scorer

Floats = npt.NDArray[np.float64]
FRAME, CELLS = 224, 4
WHITE = 245  # of 255, in every channel; JPEG leaves little less on plain white
OVAL = 0.1  # of the width
STRENGTHS = np.logspace(-4, 4, 33)
BATCH = 32
FEWEST = 100  # images of a part that is worth a row


class Corners(NamedTuple):
    """Of N images: their faces and photographs' sizes, and what lies beyond the photographs."""

    faces: list[Face]
    shares: Floats  # (N, 12), of the outer cells, row by row
    sides: Floats  # (N, 4), whether the photograph ends inside: top, right, bottom, left
    whole: Floats  # (N,), share of the frame
    white: Floats  # (N, 12), of the outer cells of the photograph itself, as a file has it
    oval: npt.NDArray[np.bool_]  # (N,), whether that is an oval on white

    @property
    def features(self) -> Floats:
        """(N, 16)"""
        return np.hstack([self.shares, self.sides])


class Tested(NamedTuple):
    """A figure of predictions, its mean over folds, with the replicates of that mean; None where it is undefined."""

    figure: float
    replicates: Floats | None

    def __str__(self) -> str:
        if self.replicates is None:
            return "undefined"
        low, high = interval(self.replicates)
        return f"{self.figure:.4f} [{low:.4f}, {high:.4f}]"


# -------------------------------------------------------------------- geometry


def corners_of(rated: RatedImages) -> Corners:
    """Where each photograph ends inside its aligned frame."""
    cache = FaceCache()
    faces, shares, sides, whole, white, ovals = [], [], [], [], [], []
    for image in rated.images:
        face, photo = cache.get(image).face, read_image(image)
        mask = beyond(face, photo.size, FRAME)
        faces.append(face)
        shares.append(outer_cells(mask))
        sides.append([edge.any() for edge in (mask[0], mask[:, -1], mask[-1], mask[:, 0])])
        whole.append(mask.mean())
        pale = fit_square(photo, FRAME).min(axis=2) >= WHITE
        white.append(outer_cells(pale))
        ovals.append(is_oval(pale))
    return Corners(
        faces, np.array(shares), np.array(sides, np.float64), np.array(whole), np.array(white), np.array(ovals)
    )


def outer_cells(mask: npt.NDArray[np.bool_]) -> Floats:
    """The share of each outer cell of a grid that a mask (FRAME, FRAME) covers: (12,), row by row."""
    cells = mask.reshape(CELLS, FRAME // CELLS, CELLS, FRAME // CELLS).mean(axis=(1, 3))
    outer = np.ones((CELLS, CELLS), bool)
    outer[1:-1, 1:-1] = False
    found: Floats = cells[outer]
    return found


def is_oval(white: npt.NDArray[np.bool_]) -> bool:
    """Whether the white left and right of a picture is wider near its top and bottom than in its middle.

    Padding is as wide everywhere; an ellipse that fills the square leaves 28 % more on either side at 5 % from its top.
    """
    near, middle = FRAME // 20, FRAME // 2

    def margin(row: npt.NDArray[np.bool_]) -> int:
        return len(row) if row.all() else int(np.argmin(row))

    return all(
        min(margin(lines[near]), margin(lines[-near - 1])) - margin(lines[middle]) > OVAL * FRAME
        for lines in (white, white[:, ::-1])
    )


def with_products(features: Floats) -> Floats:
    """Features (N, F) beside their squares and products: (N, F + F (F + 1) / 2)."""
    one, two = np.triu_indices(features.shape[1])
    return np.hstack([features, features[:, one] * features[:, two]])


def per_group(features: Floats, member: Floats) -> list[Floats]:
    """Features (N, F) for each group, 0 for images of others."""
    return [features * column[:, None] for column in member.T]


def ridge(train: Floats, score: Floats, test: Floats) -> Floats:
    """Scores of `test` (M, F) by a ridge regression fitted on `train` (N, F), each feature in its standard deviations.

    The strength has the least leave-one-out error, which the singular values give without fitting again: the residual
    of each image divided by 1 − its leverage.
    """
    mean, spread = train.mean(axis=0), train.std(axis=0)
    known = spread > 1e-9
    x, y = (train[:, known] - mean[known]) / spread[known], score - score.mean()
    U, singular, Vt = np.linalg.svd(x, full_matrices=False)
    projected, errors = U.T @ y, []
    for strength in STRENGTHS * len(x):
        kept = singular**2 / (singular**2 + strength)
        leverage = (U**2) @ kept + 1 / len(x)
        errors.append(float((((y - U @ (kept * projected)) / (1 - leverage)) ** 2).mean()))
    strength = STRENGTHS[int(np.argmin(errors))] * len(x)
    weights = Vt.T @ (singular / (singular**2 + strength) * projected)
    predicted: Floats = score.mean() + (test[:, known] - mean[known]) / spread[known] @ weights
    return predicted


def predictions(features: Floats, scores: Floats, splits: Mapping[str, Split]) -> Floats:
    """Each image's score (N,), predicted in the fold that tests on it; NaN where none does."""
    predicted = np.full(len(scores), np.nan)
    for split in splits.values():
        predicted[split.test] = ridge(features[split.train], scores[split.train], features[split.test])
    return predicted


def only(splits: Mapping[str, Split], rows: npt.NDArray[np.bool_]) -> dict[str, Split]:
    """Splits with some of their images alone."""
    return {name: Split(split.train[rows[split.train]], split.test[rows[split.test]]) for name, split in splits.items()}


def figures_of(rated: RatedImages, predicted: Floats, splits: Mapping[str, Split], what: str = "") -> dict[str, Tested]:
    """PC and MAE of predictions; `what` names a part of the images, which has draws of its own."""
    figures: dict[str, list[float]] = {"pc": [], "mae": []}
    replicates: dict[str, list[list[float] | None]] = {"pc": [], "mae": []}
    for name, split in splits.items():
        truth, told = rated.scores[split.test], predicted[split.test]
        figures["pc"].append(metrics.pearson(truth, told))
        figures["mae"].append(metrics.mae(truth, told))
        found = replicated(truth, told, draws(rated.fingerprint, f"{name}{what}", len(truth)))
        replicates["pc"].append(found.pc)
        replicates["mae"].append(found.mae)
    return {key: Tested(float(np.mean(figures[key])), mean_of(replicates[key])) for key in figures}


def difference(one: Tested, other: Tested) -> str:
    """One figure minus another of the same images."""
    if one.replicates is None or other.replicates is None:
        return "undefined"
    return shown(paired(one.figure, other.figure, one.replicates, other.replicates))


def shown(found: Difference) -> str:
    return f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}], p {found.p:.3f}"


def groups_of(rated: RatedImages) -> npt.NDArray[np.str_]:
    """Gender and ethnicity of each image, (N,)."""
    found: npt.NDArray[np.str_] = (rated.groups["gender"] + " " + rated.groups["ethnicity"]).to_numpy(str)
    return found


def parts_of(rated: RatedImages, corners: Corners) -> dict[str, npt.NDArray[np.bool_]]:
    """The images (N,) of each group, and of those with enough ovals on white these and the others."""
    groups = groups_of(rated)
    parts: dict[str, npt.NDArray[np.bool_]] = {str(name): groups == name for name in sorted(set(groups))}
    for name in list(parts):
        ovals = parts[name] & corners.oval
        if ovals.sum() >= FEWEST:
            parts |= {f"{name}, ovals": ovals, f"{name}, no ovals": parts[name] & ~corners.oval}
    return parts


def report_geometry(rated: RatedImages, corners: Corners, splits: Mapping[str, Split]) -> Floats:
    """Print what the geometry tells; returns its predictions of the score, (N,)."""
    groups = groups_of(rated)
    names = sorted(set(groups))
    some = corners.whole > 0
    print(f"{len(rated)} images; the frame reaches beyond the photograph in {some.sum()} ({some.mean():.1%}),")
    print(f"by 1 % of it or more in {(corners.whole >= 0.01).mean():.1%}, 5 % in {(corners.whole >= 0.05).mean():.1%};")
    print(
        f"median share {np.median(corners.whole):.1%}, greatest {corners.whole.max():.1%}; by side (top, right, bottom,"
    )
    print(f"left) {', '.join(f'{share:.1%}' for share in corners.sides.mean(axis=0))}; ovals on white", end=" ")
    print(f"{', '.join(f'{corners.oval[groups == name].mean():.1%} of {name}' for name in names)}\n")

    member = np.stack([groups == name for name in names], axis=1).astype(np.float64)
    plain, products = corners.features, with_products(corners.features)
    of_score = predictions(products, rated.scores, splits)
    by_group = figures_of(rated, predictions(member, rated.scores, splits), splits)
    print("| score from | PC | PC minus that of group | MAE |\n| --- | --- | --- | --- |")
    rows = {
        "share beyond the photograph": corners.whole[:, None],
        "corners": plain,
        "corners, products": products,
        "group": member,
        "group, corners": np.hstack([member, plain]),
        "group, corners, products": np.hstack([member, products]),
        "group × corners": np.hstack([member, *per_group(plain, member)]),
    }
    oval = corners.oval[:, None].astype(np.float64)
    rows |= {
        "group × oval": np.hstack([member, *per_group(oval, member)]),
        "group × white": np.hstack([member, *per_group(corners.white, member)]),
    }
    for name, features in rows.items():
        found = figures_of(rated, predictions(features, rated.scores, splits), splits)
        print(f"| {name} | {found['pc']} | {difference(found['pc'], by_group['pc'])} | {found['mae']} |")

    print("\n| within | images | beyond | mean share | mean score | PC, corners | PC, corners, products | PC, white |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, rows_of in parts_of(rated, corners).items():
        own = only(splits, rows_of)
        sets = (plain, products, corners.white)
        told = [figures_of(rated, predictions(x, rated.scores, own), own, f" {name}")["pc"] for x in sets]
        share = f"{some[rows_of].mean():.1%} | {corners.whole[rows_of].mean():.1%} | {rated.scores[rows_of].mean():.2f}"
        print(f"| {name} | {rows_of.sum()} | {share} | {' | '.join(map(str, told))} |")
    return of_score


# -------------------------------------------------------------------- networks


def networks(place: Path, split: str | None) -> dict[str, Path]:
    """Model folders by the split whose test images they never saw."""
    if (place / "config.json").is_file():
        if split is None:
            raise CallError(f"{place}: a model folder; --split says which images it was not trained on")
        return {split: place}
    found = {read_result(run / "result.json").split: run / "model" for run in run_folders(place)}
    if split is not None and split not in found:
        raise CallError(f"{place}: no run of {split}; there are {', '.join(found)}")
    return found if split is None else {split: found[split]}


def asked(scorer: AskedWithImages, rated: RatedImages, faces: Sequence[Face], rows: Indices, border: Border) -> Floats:
    """Scores of the images in `rows`, aligned with a border."""
    config, values = scorer.config, []
    for start in range(0, len(rows), BATCH):
        pixels = []
        for row in rows[start : start + BATCH]:
            aligned = read_image(align_face(rated.images[row], faces[row], 256, border).image)
            pixels.append(fit_square(aligned, config.resize, config.crop).transpose(2, 0, 1))
        values += [score.value for score in scorer.score_pixels(np.stack(pixels))]
    return np.array(values)


def report_networks(
    rated: RatedImages, corners: Corners, of_score: Floats, models: Mapping[str, Path], splits: Mapping[str, Split]
) -> None:
    """Print how networks score with each border."""
    told: dict[str, Floats] = {border: np.full(len(rated), np.nan) for border in get_args(Border)}
    own = ""
    for name, folder in models.items():
        scorer = Scorer.from_pretrained(folder)
        config, rows = scorer.config, splits[name].test
        if config.framing != "face" or own not in ("", config.border):
            raise CallError(f"{folder}: networks of aligned faces with one border are wanted, not of {config.view}")
        own = config.border
        told[own][rows] = asked(scorer, rated, corners.faces, rows, config.border)
        cut = rows[corners.whole[rows] > 0]  # of all others every border gives the same pixels
        for border in get_args(Border):
            if border != own:
                told[border][rows] = told[own][rows]
                told[border][cut] = asked(scorer, rated, corners.faces, cut, border)
    chosen = {name: splits[name] for name in models}
    parts = {
        "all": chosen,
        "frame beyond the photograph": only(chosen, corners.whole > 0),
        "by 5 % of it or more": only(chosen, corners.whole >= 0.05),
    }
    print(f"\nNetworks of {', '.join(models)}, trained with border {own}")
    print(f"\n| images | number | border | PC | MAE | PC minus {own} | MAE minus {own} | mean change | its size |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for part, some in parts.items():
        rows = np.concatenate([split.test for split in some.values()])
        usual = figures_of(rated, told[own], some, f" {part}")
        for border in (own, *(border for border in get_args(Border) if border != own)):
            found, gap = figures_of(rated, told[border], some, f" {part}"), (told[border] - told[own])[rows]
            gaps = " | ".join(difference(found[key], usual[key]) if border != own else "" for key in ("pc", "mae"))
            moved = "" if border == own else f"{gap.mean():+.4f} | {np.abs(gap).mean():.4f}"
            print(f"| {part} | {len(rows)} | {border} | {found['pc']} | {found['mae']} | {gaps} | {moved or ' | '} |")
    print("\n| networks within | number | PC | MAE |\n| --- | --- | --- | --- |")
    for part, rows_of in parts_of(rated, corners).items():
        some = only(chosen, rows_of)
        found = figures_of(rated, told[own], some, f" {part}")
        print(f"| {part} | {sum(len(split.test) for split in some.values())} | {found['pc']} | {found['mae']} |")
    errors = told[own] - rated.scores
    pcs, replicates = [], []
    for name, split in chosen.items():
        one, other = errors[split.test], of_score[split.test]
        pcs.append(metrics.pearson(one, other))
        replicates.append(replicated(one, other, draws(rated.fingerprint, name, len(one))).pc)
    together = Tested(float(np.mean(pcs)), mean_of(replicates))
    print(f"\nPC of the networks' errors (own border) with the score that corners and products tell: {together}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder of SCUT-FBP5500")
    parser.add_argument("--run", type=Path, help="a run folder, a folder of folds, or a model folder")
    parser.add_argument("--split", help="of these runs, that of one split alone; of a model folder, what to test on")
    arguments = parser.parse_args()
    try:
        rated = datasets.load("scut-fbp5500", arguments.root)
        models = {} if arguments.run is None else networks(arguments.run, arguments.split)
        unknown = [name for name in models if name not in rated.splits]
        if unknown:
            raise CallError(f"no split {unknown[0]!r}; there are {', '.join(rated.splits)}")
        corners = corners_of(rated)
        folds = {name: split for name, split in rated.splits.items() if name.startswith("fold-")}
        of_score = report_geometry(rated, corners, folds)
        if models:
            report_networks(rated, corners, of_score, models, rated.splits)
    except UolError as error:
        sys.exit(f"black_corners: {error}")


if __name__ == "__main__":
    main()
