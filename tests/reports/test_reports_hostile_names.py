"""Names that people choose, of images, groups, raters, panels, recipes and columns, are text in every page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import yaml

from uol.ratings.ratings import Ratings
from uol.ratings.stats import data_stats
from uol.reports.contact_sheet import write_contact_sheet
from uol.reports.data_report import write_data_report
from uol.reports.run_report import write_run_report
from uol.scoring.config import PanelConfig

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='alert(1)", "{{ 7 * 7 }}{% raw %}",
    r"$\undefined{$", "</title></style></p>", "javascript:alert(1)", "a\0b\x1b[31m", "&lt;b&gt;",
]  # fmt: skip
ALL = " ".join(HOSTILE)

TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section", "ol", "ul", "li", "div",
    "span", "i", "b", "img", "table", "thead", "tbody", "tr", "th", "td", "footer",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "name", "content", "class", "style", "src", "alt", "loading", "decoding"}
pytestmark = pytest.mark.filterwarnings("ignore:Glyph .* missing")  # matplotlib's font draws no control characters


class _Tags(HTMLParser):
    """Fails at a tag or an attribute that no template has."""

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            assert name != "src" or value.startswith("data:image/"), value


def check(path):
    """No tag, attribute or template of a name is alive."""
    text = path.read_text(encoding="utf-8")
    _Tags().feed(text)
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", text, flags=re.S)[0]


def every(count):
    """All hostile names in turn, each with a number."""
    return [f"{HOSTILE[k % len(HOSTILE)]}{k}" for k in range(count)]


def test_the_page_of_a_data_set(drawn, tmp_path):
    images, matrix = every(len(drawn)), drawn.ratings.matrix
    groups = pd.DataFrame({f"{ALL}column": [HOSTILE[k % len(HOSTILE)] for k in range(len(drawn))]})
    ratings = Ratings(matrix, images, every(matrix.shape[1]))
    rated = replace(drawn, name=ALL, names=tuple(images), ratings=ratings, groups=groups, notes=tuple(HOSTILE))
    write_data_report(tmp_path / "page.html", rated, data_stats(rated))
    check(tmp_path / "page.html")


@pytest.mark.parametrize("name", HOSTILE)
def test_the_page_of_a_ranking(tmp_path, name):
    figures = {"value": 3.0, "low": 2.0, "high": 4.0, "dispersion": 0.5}
    face = {"box": [0.0, 0.0, 9.0, 9.0], "confidence": 1.0, "problems": [name]}
    rows = [
        {"rank": 1, "tied": False, "image": f"{name}/{name}.jpg", "face": face, **figures, "error": None},
        {"rank": None, "tied": False, "image": name, "face": None, **dict.fromkeys(figures), "error": name},
    ]
    write_contact_sheet(tmp_path / "page.html", rows, PanelConfig(name=name, low=1, high=5), lambda path: None)
    check(tmp_path / "page.html")


def test_the_page_of_a_run(tmp_path):
    rng, name = np.random.default_rng(0), ALL
    score = rng.uniform(1.5, 4.5, 90)
    table = pd.DataFrame(
        {
            "image": every(90), "score": score, "rating_sd": 0.5,
            "value": score + rng.normal(0, 0.2, 90), "low": score - 0.4, "high": score + 0.4, "dispersion": 0.5,
            f"{name}column": HOSTILE * 10,
        }
    )  # fmt: skip
    run = tmp_path / "run"
    run.mkdir()
    table.to_csv(run / "predictions.csv", index=False)
    (run / "recipe.yaml").write_text(yaml.safe_dump({"method": name, "model": {"backbone": name}, "init": name}))
    made = {"command": name, "settings": {"method": name}, "changes": {name: name}, "data": {"name": name}}
    found = {"method": name, "recipe": name, "trained_on": name, "split": name, "seed": 0, "provenance": made}
    (run / "result.json").write_text(json.dumps(found | {"metrics": {"images": 90, "pc": 0.9}}))
    write_run_report(run, tmp_path / "page.html")
    check(tmp_path / "page.html")
