"""The page on a rated set shows what is known of it, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from uol.ratings.rated_images import RatedImages
from uol.ratings.ratings import Ratings
from uol.ratings.stats import data_stats
from uol.reports.data_report import write_data_report


def page(rated, path, stats=None):
    write_data_report(path, rated, stats)
    return path.read_text(encoding="utf-8")


def test_ratings_by_rater_show_raters_groups_and_reliability(drawn, tmp_path):
    matrix = drawn.ratings.matrix.copy()
    matrix[::2, 30:] = np.nan  # half of the images have fewer ratings
    ratings = Ratings(matrix, drawn.ratings.images, drawn.ratings.raters)
    groups = pd.DataFrame({"gender": ["f", "m"] * 40, "person": [f"p{k}" for k in range(80)]})
    rated = replace(
        drawn, ratings=ratings, counts=ratings.count, groups=groups, notes=("one image <b> was left out",), name="mine"
    )
    text = page(rated, tmp_path / "page.html", data_stats(rated))
    assert "80 images, 60 raters" in text
    for title in ("Scores", "Reliability", "Raters", "By gender", "Notes of the loader"):
        assert f"<h2>{title}</h2>" in text
    assert "By person" not in text  # as many groups as images say nothing
    assert "one image &lt;b&gt; was left out" in text
    assert "ICC(2,k)" in text
    assert text.count("data:image/png") == 5  # scores, disagreement, ratings per image, raters, one group
    assert "http" not in text


def test_counts_alone(drawn, tmp_path):
    text = page(replace(drawn, ratings=None, groups=pd.DataFrame()), tmp_path / "page.html")
    assert "ICC(1,k)" in text
    assert "<h2>Raters</h2>" not in text
    assert text.count("data:image/png") == 2


def test_means_alone(drawn, tmp_path):
    plain = RatedImages("plain", drawn.images, drawn.names, drawn.scores, drawn.scale)
    text = page(plain, tmp_path / "page.html")
    assert "unknown raters" in text
    assert "Only means are known" in text
    assert text.count("data:image/png") == 1
