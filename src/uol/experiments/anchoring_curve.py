"""What anchoring is worth: errors on another panel's test images, by how many of its rated images are anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

import uol
from uol.errors import CallError
from uol.ratings.rated_images import RatedImages, Split
from uol.runs.evaluation import Evaluation, evaluate
from uol.runs.result import ANCHORING as PREFIX
from uol.runs.result import Hardware, Name
from uol.scoring.base import FEWEST_ANCHORS, BaseScorer, Embedded
from uol.scoring.released import find_model, fingerprint
from uol.storage import provenance
from uol.storage.files import write_json
from uol.storage.validation import Strict, read_validated
from uol.training.predictions import Predictions

SIZES = (10, 30, 100, 300)


class Figures(Strict):
    """Figures on the test images, in units of the model's own scale; None where undefined."""

    pc: float | None
    mae: float | None
    rmse: float | None
    coverage: float | None
    interval_width: float | None
    dispersion_pc: float | None


class Point(Strict):
    """Means over draws of anchors, and standard deviations.

    `anchors` is 0 for the model as it is, with scores mapped linearly between the two scales.
    """

    anchors: int = Field(ge=0)
    draws: int = Field(ge=1)
    mean: Figures
    sd: Figures


class Anchoring(Strict):
    """A model's curve on one panel, with what it takes to repeat it."""

    name: Name
    model: str = Field(description="a digest of the model folder")
    trained_on: str
    data: Name
    fingerprint: str
    split: str
    test: int = Field(ge=1)
    seed: int
    points: list[Point]
    command: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    told: bool
    uol: str
    hardware: Hardware
    made: str


def anchoring_curve(
    scorer: BaseScorer,
    rated: RatedImages,
    embedded: Embedded,
    split: Split,
    sizes: Sequence[int] = SIZES,
    draws: int = 10,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Point]:
    """Anchor with random training images of a split, `draws` times for each size, and test on its test images.

    `embedded` is what `scorer.embed_pixels` makes of all images. Last comes the whole training part, which can only be
    drawn once.
    """
    import torch  # here and below: a table of curves need not wait for torch

    if not len(split.test) or len(split.train) < FEWEST_ANCHORS:
        raise CallError(f"{rated.name}: anchoring needs a split with test images and {FEWEST_ANCHORS} others")
    if small := [size for size in sizes if size < FEWEST_ANCHORS]:
        raise CallError(f"{small[0]} anchors: at least {FEWEST_ANCHORS} are needed")
    unit = scorer.panel.scale.unit / rated.scale.unit
    test, there = rated.subset(split.test), embedded.rows(torch.from_numpy(split.test))
    plain = evaluate(test.rescaled(scorer.panel.scale), Predictions.of(scorer.score_embedded(there)))
    points = [_point(0, [plain], 1.0)]
    wanted = [size for size in sizes if size < len(split.train)]
    for number, size in enumerate([*wanted, len(split.train)]):
        found = []
        for draw in range(draws if number < len(wanted) else 1):
            rng = np.random.default_rng([seed, size, draw])
            chosen = np.sort(rng.choice(split.train, size, replace=False))
            anchored = scorer.anchor_embedded(rated.subset(chosen), embedded.rows(torch.from_numpy(chosen)))
            found.append(evaluate(test, Predictions.of(anchored.score_embedded(there))))
            if progress is not None:
                progress(number * draws + draw + 1)
        points.append(_point(size, found, unit))
    return points


def _point(anchors: int, found: Sequence[Evaluation], unit: float) -> Point:
    in_units = {"mae", "rmse", "interval_width"}
    means: dict[str, float | None] = {}
    deviations: dict[str, float | None] = {}
    for key in Figures.model_fields:
        column = [float(one[key]) * (unit if key in in_units else 1.0) for one in found]  # type: ignore[literal-required]
        known = bool(np.isfinite(column).all())
        means[key] = float(np.mean(column)) if known else None
        deviations[key] = float(np.std(column, ddof=1)) if known and len(column) > 1 else None
    return Point(anchors=anchors, draws=len(found), mean=Figures(**means), sd=Figures(**deviations))


def measure_anchoring(
    model: str,
    rated: RatedImages,
    split: str,
    name: str,
    draws: int = 10,
    progress: Callable[[int], None] | None = None,
) -> Anchoring:
    """A model's curve on a data set, with its provenance."""
    import torch

    from uol.runs.lineage import read_lineage
    from uol.scoring.folder import load_model
    from uol.training.packed import PackedImages

    code = provenance.checked_out("curve")
    folder = find_model(model)
    scorer = load_model(folder)
    lineage = read_lineage(folder)
    if rated.name == scorer.panel.name or (lineage is not None and rated.name in lineage.made.learnt_from):
        raise CallError(f"{rated.name}: a panel that {model} was trained on; anchoring is for another")
    scorer.to("cuda" if torch.cuda.is_available() else "cpu")
    embedded = scorer.embed_pixels(PackedImages.pack(rated, scorer.config).centre)
    points = anchoring_curve(scorer, rated, embedded, rated.splits[split], draws=draws, progress=progress)
    return Anchoring(
        name=name,
        model=fingerprint(folder),
        trained_on=scorer.panel.name,
        data=rated.name,
        fingerprint=rated.fingerprint,
        split=split,
        test=len(rated.splits[split].test),
        seed=0,
        points=points,
        command=provenance.command(),
        commit=code,
        told=provenance.commit().from_environment,
        uol=uol.__version__,
        hardware=Hardware.model_validate(provenance.hardware()),
        made=provenance.now(),
    )


def write_anchoring(results: Path, found: Anchoring) -> Path:
    """Keep a curve among the results, in the folder of its data set."""
    path = results / found.data / f"{PREFIX}{found.name}.json"
    write_json(path, found.model_dump())
    return path


def read_anchorings(folder: Path) -> list[Anchoring]:
    """The curves in a folder of results."""
    return [read_validated(Anchoring, path) for path in sorted(folder.glob(f"{PREFIX}*.json"))]
