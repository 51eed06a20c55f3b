"""One picture that explains one score: what the network saw, and what its comparisons with the references add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine

from uol.errors import CallError, ImageError
from uol.images.framing import FaceRecord, FramedFile
from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import Calibration
from uol.order.order import Order
from uol.ratings.scale import Scale
from uol.reports.figures import BLUE, OUTCOME_COLOURS, PURPLE, likelihood_curve, tidy
from uol.scoring.base import BaseScorer, Score
from uol.scoring.config import PanelConfig
from uol.scoring.rows import ScoreRow
from uol.storage.files import check_output, check_replaced, replacing

Floats = npt.NDArray[np.float64]

_OURS = b"Software\0uol"  # in the PNG files that are written here
FONT = "DejaVu Sans"  # comes with matplotlib: the picture is the same everywhere
BAR = -0.16  # height of the interval, below the curves' foot at 0
RATINGS_TOP = 0.6  # height of the ratings' curve: less than the likelihood's 1, as it is the background
WORDS = {Order.GREATER: "above", Order.SIMILAR: "similar to", Order.LESS: "below"}


def explain(
    crop: npt.NDArray[np.uint8],
    score: Score,
    outcomes: Floats,
    references: Floats,
    bradley_terry: BradleyTerry,
    calibration: Calibration,
    panel: PanelConfig,
    title: str,
    levels: float | None = None,
) -> Figure:
    """The crop that the network saw, next to the panel's scale with the score and all it comes from.

    outcomes (R, 3) are as Bradley-Terry was given them, references (R,) the scores of those that the image was
    compared with. No reference is shown but as a mark at its score. `levels` is the mean of the histogram that a model
    predicts, on the scale of scores, if it contributes to them.
    """
    outcomes, references = np.asarray(outcomes, np.float64), np.asarray(references, np.float64)
    figure = Figure(figsize=(12.0, 5.8), dpi=100, layout=ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.12))
    axes = figure.subplot_mosaic(
        [["crop", "score"], ["crop", "references"]], width_ratios=[1, 2.1], height_ratios=[2.4, 1]
    )
    figure.suptitle(drawable(title, 90), x=0.01, ha="left", size=13, family=FONT, parse_math=False)
    _draw_crop(axes["crop"], crop)
    curve = likelihood_curve(outcomes, references, bradley_terry, panel.scale, calibration)
    _draw_score(axes["score"], score, curve, panel.scale, calibration, levels)
    _draw_references(axes["references"], outcomes.argmax(-1), references)
    margin = 0.06 * panel.scale.unit  # marks at the ends of the scale are seen whole
    for name in ("score", "references"):
        axes[name].axvspan(score.low, score.high, color=BLUE, alpha=0.1, lw=0, zorder=0)
        axes[name].set_xlim(panel.low - margin, panel.high + margin)
        axes[name].set_xticks(ticks(panel.scale))
        tidy(axes[name])
        axes[name].tick_params(labelsize=10)
    axes["score"].tick_params(labelbottom=False)
    figure.supxlabel(
        f"What the panel {drawable(panel.name, 60)} would say; it measures nothing about a person.",
        size=10.5, color="#444444", family=FONT, parse_math=False,
    )  # fmt: skip
    return figure


def explain_rows(scorer: BaseScorer, rows: Sequence[ScoreRow], target: Path) -> Iterator[Path]:
    """Draw how the score of each row {image, face, …} came about, and give the pictures' paths one by one.

    `target` is the .png file of a single row, or the folder for any number of them.
    """
    for row, path in zip(rows, picture_paths([row["image"] for row in rows], target), strict=True):
        figure = explain_pixels(scorer, _framed_again(scorer, row), Path(row["image"]).name)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": "uol"})
        yield path


def explain_pixels(scorer: BaseScorer, pixels: npt.NDArray[np.uint8], title: str) -> Figure:
    """Draw how the score of a framed image (3, crop, crop) came about."""
    from uol.scoring.network import read_outcomes

    (network,) = scorer.members
    gaussians = network.embed_pixels(pixels[None])
    levels = network.levels(gaussians)
    outcomes = read_outcomes(network.outcomes(gaussians), network.scoring.outcomes)[0]
    return explain(
        pixels.transpose(1, 2, 0),
        network.score_embedded(gaussians)[0],
        outcomes if outcomes.ndim == 2 else np.eye(len(Order))[outcomes],
        network.references.scores,
        network.bradley_terry,
        network.calibration,
        network.panel,
        title,
        None if levels is None else float(network.calibration.value(levels, network.panel.scale)[0]),
    )


def check_explainable(scorer: BaseScorer) -> None:
    """Refuse an ensemble before its images are scored: its score is no likelihood's maximum."""
    if len(scorer.members) > 1:
        raise CallError("--explain: draws the comparisons of one network, not of an ensemble; name one of its members")


def picture_paths(images: Sequence[str], target: Path) -> list[Path]:
    """Where the picture of each image goes; in a folder, equal names are numbered. No other picture is overwritten."""
    if not target.is_dir() and target.suffix.lower() not in ("", ".png"):
        raise CallError(f"--explain {target}: pictures are PNG files; name one, or a folder")
    if target.suffix.lower() == ".png":
        if len(images) > 1:
            raise CallError(f"{target}: one file cannot hold {len(images)} pictures; give a folder")
        for image in images:
            check_output(target, (".png",), [Path(image)])
        check_replaced(target, _OURS)
        return [target for _ in images]
    if target.resolve() in {Path(image).resolve().parent for image in images}:
        raise CallError(f"--explain {target}: contains images that are to be scored; choose another name")
    taken: set[str] = set()
    paths = []
    for image in images:
        stem = name = Path(image).stem
        number = 1
        while name.lower() in taken:  # some file systems take a.png and A.png for the same
            number += 1
            name = f"{stem} ({number})"
        taken.add(name.lower())
        paths.append(target / f"{name}.png")
        check_replaced(paths[-1], _OURS)
    return paths


def ratings_to_expect(score: Score, scale: Scale) -> tuple[Floats, Floats] | None:
    """Single ratings along the scale and how usual each is compared with the commonest; None where that is unknown."""
    if not (np.isfinite(score.dispersion) and score.dispersion > 0):
        return None
    ratings = np.union1d(np.linspace(*scale, 401), [score.value])
    return ratings, np.exp(-0.5 * ((ratings - score.value) / score.dispersion) ** 2)


def ticks(scale: Scale) -> Floats:
    """Both ends of a scale and what lies between: every whole number of a short scale, quarters of others."""
    width = scale.high - scale.low
    return np.linspace(*scale, int(width) + 1 if width in range(2, 11) else 5)


def drawable(text: str, longest: int) -> str:
    """Text on one line, shortened in its middle; a character that is missing in the font becomes a box."""
    text = "".join(letter if ord(letter) in _letters() else "□" for letter in " ".join(text.split()))
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def _framed_again(scorer: BaseScorer, row: ScoreRow) -> npt.NDArray[np.uint8]:
    """The pixels that a row was scored from, (3, crop, crop); of several faces the one at the row's place."""
    found = nearest(scorer.config.framer().frame(Path(row["image"]), all_faces=True), row["face"])
    if found is None:
        raise ImageError(f"{row['image']}: can no longer be read as when it was scored")
    return found


def nearest(framed: Sequence[FramedFile], face: FaceRecord | None) -> npt.NDArray[np.uint8] | None:
    """The pixels of the face in an image that is at the place of `face`; None if it has none."""
    found = {_distance(one.face, face): one.pixels for one in framed if one.pixels is not None}
    return found[min(found)] if found else None


def _distance(first: FaceRecord | None, second: FaceRecord | None) -> float:
    """How far apart the boxes of two faces are; 0 where images are taken whole."""
    return 0.0 if first is None or second is None else float(np.abs(np.subtract(first["box"], second["box"])).sum())


def _draw_crop(ax: Axes, crop: npt.NDArray[np.uint8]) -> None:
    ax.imshow(crop, interpolation="bicubic")
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel("what the network saw", size=10.5)
    ax.set_anchor("N")
    ax.spines[:].set_visible(False)


def _draw_score(
    ax: Axes,
    score: Score,
    curve: tuple[Floats, Floats],
    scale: Scale,
    calibration: Calibration,
    levels: float | None,
) -> None:
    value, low, high, dispersion = (
        f"{number:.{scale.decimals}f}" for number in (score.value, score.low, score.high, score.dispersion)
    )
    level = f"{100 * calibration.level:g} %"
    # Said because the likelihood looks surer than the interval: it takes its comparisons for independent.
    origin = f"learnt from {calibration.images} rated images" if calibration.images else "the likelihood's own"
    ax.plot(score.value, BAR, "o", color=BLUE, ms=11, mec="white", mew=1.5, zorder=5, label=f"score {value}")
    ax.plot(
        [score.low, score.high], [BAR, BAR], color=BLUE, lw=5, alpha=0.55, solid_capstyle="butt",
        label=f"{level} interval, {origin}",
    )  # fmt: skip
    ax.plot(*curve, color="black", lw=1.4, label="likelihood of the comparisons", zorder=4)
    ratings = ratings_to_expect(score, scale)
    if ratings is not None:
        ax.fill_between(
            ratings[0], RATINGS_TOP * ratings[1], color=PURPLE, alpha=0.16, lw=0,
            label=f"single ratings to expect (sd {dispersion})",
        )  # fmt: skip
    ax.axhline(0, color="#bbbbbb", lw=0.8, zorder=1)
    pad = 50  # room for a legend of two rows
    if levels is not None:
        label = "mean of the predicted histogram"
        ax.plot(levels, BAR, "D", color=PURPLE, ms=7, mec="white", zorder=4, label=label)
        pad = 72
    ax.set_title(f"{value}  ({level} interval {low} to {high})", loc="left", size=17, color=BLUE, pad=pad)
    # Above the plot: inside it, some score would lie under the words.
    ax.legend(
        frameon=False, fontsize=10, loc="lower left", bbox_to_anchor=(-0.012, 1.0), ncols=2, borderaxespad=0.3,
        columnspacing=2.5,
    )  # fmt: skip
    ax.set(ylim=(-0.32, 1.06), yticks=[])
    ax.spines["left"].set_visible(False)


def _draw_references(ax: Axes, likeliest: npt.NDArray[np.intp], references: Floats) -> None:
    """One row of marks for each outcome, from the image's side."""
    for order, colour in OUTCOME_COLOURS.items():
        marks = references[likeliest == order]
        ax.plot(marks, np.full(len(marks), int(order)), "|", color=colour, ms=15, mew=1.3, alpha=0.7, label=order.name)
    counts = {order: int((likeliest == order).sum()) for order in Order}
    ax.set_yticks([int(order) for order in Order], [f"{WORDS[order]} {counts[order]}" for order in Order])
    ax.set_ylim(-0.6, 2.6)
    ax.set_ylabel("this image\nis judged", size=10.5)
    ax.set_xlabel(f"the panel's scale, with a mark at the score of each of {len(references)} references", size=10.5)
    ax.tick_params(axis="y", length=0)


@cache
def _letters() -> frozenset[int]:
    return frozenset(FT2Font(findfont(FONT)).get_charmap())
