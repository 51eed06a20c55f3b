"""What finished runs said, against means that are adjusted for who rated each image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from measured import measured
from uol.errors import CallError, UolError
from uol.experiments.adjusting import figures_of
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.ratings.rater_effects import adjusted_means
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale
from uol.runs.bootstrap import draws, interval
from uol.runs.result import write_result


@pytest.fixture
def gappy_panel() -> RatedImages:
    """Forty images, each rated by three of nine raters whose leniency differs more than images do."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(5, 1, (40, 1)) + rng.normal(0, 2, 9) + rng.normal(0, 0.3, (40, 9))
    for row in matrix:
        row[rng.permutation(9)[3:]] = np.nan
    names = [f"{k:02}.jpg" for k in range(40)]
    ratings = Ratings(matrix, tuple(names), tuple("abcdefghi"))
    return RatedImages(
        name="gappy",
        images=np.zeros((40, 8, 8, 3), np.uint8),
        names=names,
        scores=ratings.mean,
        variances=ratings.variance,
        counts=ratings.count,
        scale=Scale(0.0, 10.0),
        ratings=ratings,
    )


def said(folder, rated: RatedImages, rows, values, place="evaluations/gappy.csv", scores=None, **changes):
    """A finished run that said this of some of the images; its predictions."""
    folder.mkdir(parents=True)
    write_result(folder / "result.json", measured(**changes))
    scores = rated.scores[rows] if scores is None else scores
    table = pd.DataFrame({"image": [rated.names[row] for row in rows], "score": scores, "value": values})
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / place, index=False, float_format="%.6g")
    return pd.read_csv(folder / place)["value"].to_numpy()


def test_figures_are_means_over_networks_with_either_mean(gappy_panel, tmp_path):
    rng = np.random.default_rng(1)
    adjusted = adjusted_means(gappy_panel.ratings)
    rows = np.arange(40)
    values = [
        said(
            tmp_path / f"fold-{k}",
            gappy_panel,
            rows,
            adjusted + rng.normal(0, 0.3, 40),
            split=f"fold-{k}",
            scores=1 + 0.4 * gappy_panel.scores,  # as scores on another data set are kept: mapped to the panel's scale
        )
        for k in (1, 2)
    ]
    (row,) = figures_of([tmp_path], gappy_panel)
    assert (row["run"], row["folds"], row["images"]) == (str(tmp_path), 2, 40)
    for truth, pc, ends in (
        (gappy_panel.scores, row["pc"], row["interval"]),
        (adjusted, row["adjusted_pc"], row["adjusted_interval"]),
    ):
        assert pc == pytest.approx(np.mean([metrics.pearson(truth, value) for value in values]))
        drawn = [np.repeat(np.arange(40), times.astype(int)) for times in draws("gappy", "whole", 40)]
        slow = [np.mean([np.corrcoef(truth[chosen], value[chosen])[0, 1] for value in values]) for chosen in drawn]
        assert ends == pytest.approx(interval(slow), abs=1e-4)
    assert row["adjusted_pc"] > row["pc"] + 0.1


@pytest.mark.parametrize("beside", [False, True])
def test_a_split_that_tested_the_run_is_drawn_as_its_result_draws_it(gappy_panel, tmp_path, beside):
    rows = np.arange(10, 30)
    used = measured().provenance.data.model_dump() | {"name": "gappy", "fingerprint": gappy_panel.fingerprint}
    changes = {"provenance": {"data": used}, "trained_on": "gappy", "experiment": "gappy"}
    place = "predictions.csv"
    if beside:
        first = measured().provenance.data.model_dump()
        panels = [{**one, "split": split, "left_out": 0} for one, split in ((first, "fold-1"), (used, "2022"))]
        joint = {"experiment": "scut-fbp5500+gappy", "trained_on": "scut-fbp5500+gappy"}
        changes = {"provenance": {"panels": panels}, **joint}
        place = "panels/gappy/predictions.csv"
    values = said(tmp_path / "run", gappy_panel, rows, gappy_panel.scores[rows] ** 2, place, **changes)
    (row,) = figures_of([tmp_path / "run"], gappy_panel)
    assert (row["folds"], row["images"]) == (1, 20)
    weights = draws(gappy_panel.fingerprint, "2022" if beside else "fold-1", 20)
    drawn = [np.repeat(np.arange(20), times.astype(int)) for times in weights]
    for truth, ends in (
        (gappy_panel.scores[rows], row["interval"]),
        (adjusted_means(gappy_panel.ratings)[rows], row["adjusted_interval"]),
    ):
        slow = [np.corrcoef(truth[chosen], values[chosen])[0, 1] for chosen in drawn]
        assert ends == pytest.approx(interval(slow), abs=1e-4)
    (tmp_path / "run" / place).unlink()
    with pytest.raises(CallError, match="it learnt from gappy and kept none of its images to test on"):
        figures_of([tmp_path / "run"], gappy_panel)


def test_networks_of_several_seeds_are_runs_of_their_own(gappy_panel, tmp_path):
    rows = np.arange(40)
    for name, seed in (("fold-1", 0), ("fold-2", 0), ("fold-1-seed-1", 1)):
        said(tmp_path / name, gappy_panel, rows, rows * (0.1 + seed), split=name[:6], seed=seed)
    found = figures_of([tmp_path], gappy_panel)
    assert [(row["run"], row["folds"]) for row in found] == [(f"{tmp_path} (seed 0)", 2), (f"{tmp_path} (seed 1)", 1)]
    said(tmp_path / "inner", gappy_panel, rows, rows, split="fold-1-inner")
    assert figures_of([tmp_path], gappy_panel) == found
    said(tmp_path / "longer", gappy_panel, rows, rows, split="fold-2")
    with pytest.raises(CallError, match="fold-2 and longer are both of fold-2; name one of them"):
        figures_of([tmp_path], gappy_panel)


def test_adjusted_means_that_no_rater_connects_are_not_compared(gappy_panel, tmp_path):
    matrix = np.full((40, 4), np.nan)
    matrix[:20, :2], matrix[20:, 2:] = np.arange(40).reshape(20, 2), np.arange(40).reshape(20, 2) ** 1.5
    ratings = replace(gappy_panel.ratings, matrix=matrix, raters=tuple("abcd"))
    rated = replace(gappy_panel, ratings=ratings, scores=ratings.mean)
    said(tmp_path / "run", rated, np.arange(40), np.arange(40))
    (row,) = figures_of([tmp_path / "run"], rated)
    assert row["pc"] > 0.5
    assert row["adjusted_pc"] is row["adjusted_interval"] is None


def test_what_cannot_be_told(gappy_panel, tmp_path):
    rows = np.arange(40)
    said(tmp_path / "run", gappy_panel, rows, np.full(40, 3.0))
    (row,) = figures_of([tmp_path / "run"], gappy_panel)
    assert row["pc"] is row["interval"] is row["adjusted_pc"] is row["adjusted_interval"] is None
    with pytest.raises(CallError, match="gappy: who gave which rating is not known"):
        figures_of([tmp_path / "run"], replace(gappy_panel, ratings=None))
    with pytest.raises(CallError, match=r"gappy.csv: 39.jpg is not an image of gappy as given here"):
        figures_of([tmp_path / "run"], gappy_panel.subset(rows[:39]))
    corrected = gappy_panel.scores.copy()
    corrected[:2] += 0.5
    few = {"few": rows[:2], "same": rows[:5]}
    scores = {"other": corrected, "few": gappy_panel.scores[:2], "same": np.full(5, 3.0)}
    for name, foreign in scores.items():
        chosen = few.get(name, rows)
        said(tmp_path / name, gappy_panel, chosen, chosen * 0.1, scores=foreign)
        with pytest.raises(
            CallError, match="its images have other scores than in gappy as given here, or are fewer than 3"
        ):
            figures_of([tmp_path / name], gappy_panel)
    (tmp_path / "other" / "evaluations" / "gappy.csv").write_text("name,score,value\n")
    with pytest.raises(UolError, match="gappy.csv: not readable as predictions"):
        figures_of([tmp_path / "other"], gappy_panel)
    (tmp_path / "other" / "evaluations" / "gappy.csv").unlink()
    with pytest.raises(CallError, match="it was not asked about gappy"):
        figures_of([tmp_path / "other"], gappy_panel)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "recipe.yaml").touch()
    with pytest.raises(CallError, match="begun: no finished run in it"):
        figures_of([tmp_path / "begun"], gappy_panel)
