"""Figures draw, and the report is one self-contained page."""

from __future__ import annotations

import numpy as np
import pytest

from uol.order.bradley_terry import BradleyTerry, probabilities
from uol.ratings.scale import Scale
from uol.reports import figures
from uol.reports.html import MEANING, Section, write_report
from uol.training.predictions import Predictions

rng = np.random.default_rng(0)
TRUTH = rng.uniform(1, 5, 40)
VALUE = TRUTH + rng.normal(0, 0.3, 40)
PREDICTIONS = Predictions(VALUE, VALUE - 0.5, VALUE + 0.5, rng.uniform(0.4, 0.9, 40))
SCALE = Scale(1, 5)
REFERENCES = np.linspace(1, 5, 30)
MODEL = BradleyTerry(6.0, 1.0)

FIGURES = {
    "truth": lambda: figures.score_against_truth(TRUTH, {"uol": PREDICTIONS, "other": PREDICTIONS}, SCALE, "the panel"),
    "dispersion": lambda: figures.dispersion_against_spread(PREDICTIONS.dispersion, rng.uniform(0.4, 0.9, 40)),
    "places": lambda: figures.places_on_scale(
        [np.zeros((16, 16, 3), np.uint8)] * 5, Predictions(*(part[:5] for part in PREDICTIONS)), TRUTH[:5], SCALE
    ),
    "likelihood": lambda: figures.likelihood_of_one(
        probabilities(3.1 - REFERENCES, MODEL), REFERENCES, MODEL, (3.1, 2.7, 3.5), None, SCALE
    ),
    "losses": lambda: figures.loss_curves({"uol": [1.0, 0.5], "regression": [2.0, 0.1]}),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_draw(name, tmp_path):
    FIGURES[name]().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_the_likelihood_peaks_at_the_score():
    top = FIGURES["likelihood"]().axes[0]
    curve = top.lines[0]
    assert curve.get_xdata()[np.argmax(curve.get_ydata())] == pytest.approx(3.1, abs=0.01)


def test_the_report_is_one_page_with_everything_in_it(tmp_path):
    rows = [{"method": "uol <b>", "pc": 0.91234}, {"method": "none", "pc": float("nan")}]
    section = Section("Title & more", "Words.", {"method": "method", "pc": "PC"}, rows, [FIGURES["losses"]()])
    write_report(tmp_path / "report.html", "A report", "Lead.", [section])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "0.9123" in page
    assert "–" in page
    assert "uol &lt;b&gt;" in page
    assert "Title &amp; more" in page
    assert "data:image/png;base64," in page
    assert MEANING in page
    assert "http" not in page.replace("http-equiv", "")
