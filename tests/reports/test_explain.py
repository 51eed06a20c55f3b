"""The picture of one score says what the numbers say, and every word can be read."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from uol.errors import CallError
from uol.order.bradley_terry import BradleyTerry, estimate, log_likelihood, probabilities
from uol.order.calibration import Calibration
from uol.order.order import Order
from uol.ratings.scale import Scale
from uol.reports import explain as explain_module
from uol.reports.explain import (
    BAR,
    RATINGS_TOP,
    drawable,
    explain,
    explain_rows,
    picture_paths,
    ratings_to_expect,
    ticks,
)
from uol.reports.figures import OUTCOME_COLOURS, likelihood_curve
from uol.scoring.base import Score
from uol.scoring.config import PanelConfig

CROP = np.zeros((64, 48, 3), np.uint8)
MODEL = BradleyTerry(6.0, 1.5)
PANEL = PanelConfig(name="ours", low=1, high=5)


def scored(raw, count, calibration, panel=PANEL, dispersion=0.6):
    """A score as a scorer makes it, from an image whose Bradley-Terry score is `raw`, with what it came from."""
    references = np.random.default_rng(0).uniform(panel.low, panel.high, count)
    outcomes = probabilities(raw - references, MODEL)
    found = estimate(outcomes[None], references, MODEL, panel.scale)
    value = float(calibration.value(found.value, panel.scale)[0])
    half = float(calibration.half_width(found.standard_error)[0]) + 0.4
    low, high = np.clip([value - half, value + half], *panel.scale)
    score = Score(value, float(low), float(high), dispersion, float(found.standard_error[0]))
    return score, outcomes, references


def drawn(raw=3.2, count=40, calibration=None, panel=PANEL, dispersion=0.6, title="a.jpg", levels=None):
    calibration = calibration or Calibration(images=50)
    score, outcomes, references = scored(raw, count, calibration, panel, dispersion)
    figure = explain(CROP, score, outcomes, references, MODEL, calibration, panel, title, levels)
    return figure, score, outcomes, references


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


LINES = [Calibration(), Calibration(intercept=-0.3, slope=1.1), Calibration(intercept=0.6, slope=0.8)]


@pytest.mark.parametrize("calibration", LINES)
@pytest.mark.parametrize("raw", [1.0, 1.7, 3.2, 4.9, 5.0])
@pytest.mark.parametrize("count", [10, 340])
def test_the_likelihood_peaks_at_the_value(calibration, raw, count):
    score, outcomes, references = scored(raw, count, calibration)
    x, y = likelihood_curve(outcomes, references, MODEL, PANEL.scale, calibration)
    assert x[np.argmax(y)] == pytest.approx(score.value, abs=1e-6)
    assert y.max() == 1
    assert x.min() >= PANEL.low
    assert x.max() <= PANEL.high


def test_the_curve_is_the_likelihood_moved_along_the_line():
    calibration = LINES[1]
    _, outcomes, references = scored(3.2, 40, calibration)
    x, y = likelihood_curve(outcomes, references, MODEL, PANEL.scale, calibration)
    highest = max(log_likelihood([s], outcomes, references, MODEL)[0] for s in np.linspace(3.1, 3.3, 2001))
    for place in np.flatnonzero((x > 1) & (x < 5))[::100]:
        raw = (x[place] + 0.3) / 1.1
        expected = np.exp(log_likelihood([raw], outcomes, references, MODEL)[0] - highest)
        assert y[place] == pytest.approx(expected, abs=1e-5)


def test_marks_lie_at_the_references_and_have_the_colour_of_their_outcome():
    figure, _, outcomes, references = drawn()
    marks = {line.get_label(): line for line in figure.axes[2].lines}
    for order in Order:
        mine = [r for r, p in zip(references, outcomes, strict=True) if max(range(3), key=lambda k: p[k]) == order]
        line = marks[order.name]
        assert sorted(line.get_xdata()) == sorted(mine)
        assert set(line.get_ydata()) == {order}
        assert line.get_color() == OUTCOME_COLOURS[order]
    said = [label.get_text() for label in figure.axes[2].get_yticklabels()]
    counts = [len(marks[order.name].get_xdata()) for order in Order]
    assert said == [f"below {counts[0]}", f"similar to {counts[1]}", f"above {counts[2]}"]
    assert references[outcomes.argmax(-1) == Order.GREATER].max() < references[outcomes.argmax(-1) == Order.LESS].min()


def test_score_interval_and_words():
    figure, score, _, _ = drawn(title="a $x$ b.jpg")
    dot, interval, *_ = figure.axes[1].lines
    assert list(dot.get_xdata()) == [score.value]
    assert list(interval.get_xdata()) == [score.low, score.high]
    assert set(dot.get_ydata()) | set(interval.get_ydata()) == {BAR}
    text = "\n".join(words(figure))
    assert f"{score.value:.2f}  (95 % interval {score.low:.2f} to {score.high:.2f})" in text
    assert "95 % interval, learnt from 50 rated images" in text
    assert "single ratings to expect (sd 0.60)" in text
    assert "What the panel ours would say; it measures nothing about a person." in text
    assert "a $x$ b.jpg" in text


def test_the_mean_of_a_histogram_is_marked_beside_the_score():
    figure, *_ = drawn(levels=3.6)
    mark = figure.axes[1].lines[-1]
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([3.6], [BAR])
    assert "mean of the predicted histogram" in words(figure)


def test_ratings_to_expect_are_normal_within_the_scale():
    ratings, height = ratings_to_expect(Score(4.5, 4, 5, 0.7, 0.1), Scale(1, 5))
    assert (ratings.min(), ratings.max()) == (1, 5)
    assert ratings[np.argmax(height)] == 4.5
    assert np.interp(4.5 - 0.7, ratings, height) == pytest.approx(np.exp(-0.5), abs=1e-3)
    figure, score, _, _ = drawn()
    area = figure.axes[1].collections[0].get_paths()[0].vertices
    assert area[np.argmax(area[:, 1])] == pytest.approx([score.value, RATINGS_TOP])


def test_an_unknown_dispersion_is_left_out():
    figure, *_ = drawn(dispersion=float("nan"))
    assert not figure.axes[1].collections
    assert "nan" not in "".join(words(figure))


@pytest.mark.parametrize(("raw", "count", "levels"), [(1.0, 10, None), (3.0, 340, 3.2), (10.0, 10, None)])
def test_no_words_overlap_or_leave_the_picture(raw, count, levels):
    panel = PanelConfig(name="a panel 我们 " + "x" * 90, low=1, high=10)
    figure, *_ = drawn(raw, count, panel=panel, title="照片 " + "long name " * 20 + "\n.jpg", levels=levels)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    assert width == 1200
    seen = (text for text in figure.findobj(Text) if text.get_text() and text.get_visible())
    visible = list({tuple(box.extents): box for box in (text.get_window_extent() for text in seen)}.values())
    ticks_above = figure.axes[1].get_xticklabels()  # hidden: the lower plot has the numbers
    assert not any(label.get_visible() and label.get_text() for label in ticks_above)
    assert len(visible) > 15
    for box in visible:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    for one, other in combinations(visible, 2):
        assert not one.padded(-1).overlaps(other.padded(-1)), (one, other)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ((1, 5), [1, 2, 3, 4, 5]),
        ((1, 10), range(1, 11)),
        ((0, 100), [0, 25, 50, 75, 100]),
        ((0, 1), [0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ticks_have_both_ends(scale, expected):
    assert list(ticks(Scale(*scale))) == list(expected)


@pytest.mark.parametrize(
    ("scale", "decimals"), [((1, 5), 2), ((1, 10), 2), ((0, 100), 1), ((0, 1), 3), ((0, 10000), 0)]
)
def test_decimals_follow_the_scale(scale, decimals):
    assert Scale(*scale).decimals == decimals


def test_drawable_text():
    assert drawable("a\nb  c", 20) == "a b c"
    assert drawable("照.jpg", 20) == "□.jpg"
    assert drawable("0123456789", 5) == "01…89"


def test_paths_of_pictures(tmp_path):
    assert picture_paths(["x/a.jpg"], tmp_path / "one.PNG") == [tmp_path / "one.PNG"]
    assert [path.name for path in picture_paths(["x/a.jpg", "y/A.jpg", "y/b.jpg", "x/a.jpg"], tmp_path)] == [
        "a.png", "A (2).png", "b.png", "a (3).png",
    ]  # fmt: skip
    with pytest.raises(CallError, match="give a folder"):
        picture_paths(["a", "b"], tmp_path / "one.png")


@pytest.mark.slow
def test_rows_become_pictures(trained, image_files, tmp_path):
    files = sorted(image_files.iterdir())[:2]
    rows = [{"image": str(path), "face": None} for path in files]
    paths = list(explain_rows(trained.scorer, rows, tmp_path / "pictures"))
    assert [path.name for path in paths] == [path.name for path in files]
    with Image.open(paths[0]) as picture:
        assert picture.width == 1200


def test_a_model_that_tells_histograms_has_their_mean_in_its_picture(trained, image_files, tmp_path, monkeypatch):
    drawn_with = []
    real = explain_module.explain
    monkeypatch.setattr(explain_module, "explain", lambda *parts: drawn_with.append(parts[-1]) or real(*parts))
    row = {"image": str(sorted(image_files.iterdir())[0]), "face": None}
    scorer = copy.copy(trained.scorer)
    list(explain_rows(scorer, [row], tmp_path / "a.png"))
    scorer.levels = lambda gaussians: np.array([3.5])
    list(explain_rows(scorer, [row], tmp_path / "b.png"))
    assert drawn_with == [None, pytest.approx(float(scorer.calibration.value([3.5], (1, 5))[0]))]
