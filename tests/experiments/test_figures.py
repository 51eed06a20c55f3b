"""Figures of experiments: no words lie over others, nor under a line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from uol.experiments.figures import figures_by_row, range_of_scores
from uol.experiments.rows import find_source

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def drawn():
    """A figure of the results, drawn, and what measures its parts."""

    def draw(kind, name):
        figure = kind(find_source(RESULTS, name), "title")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return figure, canvas.get_renderer()

    return draw


def test_the_legend_of_a_range_is_above_the_plot(drawn):
    figure, _ = drawn(range_of_scores, "scores")
    for ax in figure.axes:
        assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1 - 1


def test_numbers_of_neighbouring_axes_are_apart(drawn):
    figure, renderer = drawn(figures_by_row, "matched")
    for left, right in pairwise(figure.axes):
        assert left.xaxis.get_tightbbox(renderer).x1 + 8 < right.xaxis.get_tightbbox(renderer).x0
