"""The page of a ranking: order, ties, places of the bars, names and failures, all in one file."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from uol.ratings.scale import Scale
from uol.reports.contact_sheet import SIDE, bar, rank_groups, short_names, thumbnail, write_contact_sheet
from uol.reports.html import MEANING
from uol.scoring.base import Score, rank_with_ties
from uol.scoring.config import PanelConfig

PANEL = PanelConfig(name="our <panel>", low=1, high=5)


def ranked(values, half=0.2, face=None):
    """Rows as a ranking makes them, from values in any order."""
    values = sorted(values, reverse=True)
    ranks = rank_with_ties([Score(value, value - half, value + half, 0.5, 0.1) for value in values])
    return [
        {
            "rank": rank, "tied": ranks.count(rank) > 1, "image": f"photos/{value}.jpg", "face": face,
            "value": value, "low": value - half, "high": value + half, "dispersion": 0.5, "error": None,
        }
        for rank, value in zip(ranks, values, strict=True)
    ]  # fmt: skip


def failed(image, error):
    empty = dict.fromkeys(("rank", "face", "value", "low", "high", "dispersion"))
    return {**empty, "tied": False, "image": image, "error": error}


def page(tmp_path, rows, thumbnails=lambda path: None):
    size = write_contact_sheet(tmp_path / "sheet.html", rows, PANEL, thumbnails)
    assert size == (tmp_path / "sheet.html").stat().st_size
    text = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    _Balanced().check(text)
    return text


class _Balanced(HTMLParser):
    """Fails where a tag is not closed, or not in its place."""

    def check(self, text):
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def found(pattern, text):
    return re.findall(pattern, text)


def test_best_first_with_ties_and_bars(tmp_path):
    rows = ranked([4.5, 3.0, 3.1, 2.9, 1.2])
    text = page(tmp_path, rows[::-1])
    assert found(r'class="rank">(.*?)<', text) == ["1", "=2", "=2", "=2", "5"]
    assert found(r'class="value">(.*?)<', text) == ["4.50", "3.10", "3.00", "2.90", "1.20"]
    assert found(r'class="name">(.*?)<', text) == ["4.5.jpg", "3.1.jpg", "3.0.jpg", "2.9.jpg", "1.2.jpg"]
    assert found(r"<h2>(.*?)</h2>", text) == ["Rank 1", "Rank 2, shared by 3", "Rank 5"]
    for row, left, width, at in zip(rows, *(map(float, found(pattern, text)) for pattern in (
        r'<i style="left:(.*?)%', r";width:(.*?)%", r'<b style="left:(.*?)%',
    )), strict=True):  # fmt: skip
        assert left == pytest.approx((row["low"] - 1) / 4 * 100, abs=0.01)
        assert left + width == pytest.approx((row["high"] - 1) / 4 * 100, abs=0.02)
        assert at == pytest.approx((row["value"] - 1) / 4 * 100, abs=0.01)
    assert text.count("raters ± 0.50") == 5


def test_what_the_numbers_mean_is_said_before_them(tmp_path):
    text = page(tmp_path, ranked([3.0]))
    assert text.index(MEANING) < text.index('class="card"')
    assert "on its scale of 1 to" in text
    assert "our &lt;panel&gt;" in text
    assert "<panel>" not in text
    assert "1 image, ranked" in text


def test_the_page_needs_nothing_else(tmp_path):
    text = page(tmp_path, ranked([3.0]), lambda path: b"JPEG")
    assert "http" not in text
    assert "url(" not in text
    assert "<script" not in text
    assert f'src="data:image/jpeg;base64,{base64.b64encode(b"JPEG").decode()}"' in text


def test_names_are_escaped_and_need_not_be_text(tmp_path):
    rows = [
        {**ranked([3.0])[0], "image": 'x/<img src=q onerror="1">&.jpg'},
        failed("x/\udcff.jpg", "x/\udcff.jpg: bad <b>"),
    ]
    text = page(tmp_path, rows)
    assert "&lt;img src=q onerror=&#34;1&#34;&gt;&amp;.jpg" in text
    assert "<img" not in text
    assert "?.jpg" in text
    assert "bad &lt;b&gt;" in text


def test_failed_images_come_last_with_the_reason(tmp_path):
    rows = [failed("photos/bad.jpg", "photos/bad.jpg: no face found"), *ranked([3.0, 2.0])]
    text = page(tmp_path, rows)
    assert text.index("3.0.jpg") < text.index("2.0.jpg") < text.index("bad.jpg")
    assert "Without a score: 1" in text
    assert found(r'class="error">(.*?)<', text) == ["no face found"]
    assert "2 images, ranked" in text
    assert "Without a score" not in page(tmp_path, ranked([3.0]))


def test_only_failures(tmp_path):
    assert "0 images, ranked" in page(tmp_path, [failed("a.jpg", "a.jpg: broken")])


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_an_unknown_dispersion_is_left_out(tmp_path, unknown):
    text = page(tmp_path, [{**ranked([3.0])[0], "dispersion": unknown}])
    assert "raters ±" not in text


def test_faces_of_one_photograph_are_told_apart(tmp_path):
    rows = ranked([4.0, 3.0])
    for row, left in zip(rows, (120.0, 10.0), strict=True):
        row |= {"image": "two.jpg", "face": {"box": [left, 0, 50, 50], "confidence": 1.0, "problems": ["turned away"]}}
    text = page(tmp_path, rows)
    notes = found(r'class="note">(.*?)<', text)
    assert notes == ["face 2 of 2 from the left; turned away", "face 1 of 2 from the left; turned away"]


def test_each_thumbnail_is_made_once(tmp_path):
    made = []
    rows = ranked([4.0, 3.0])
    page(tmp_path, [{**row, "image": "same.jpg"} for row in rows], lambda path: made.append(path) or b"x")
    assert made == ["same.jpg"]


def test_groups_merge_ranks_of_one():
    rows = ranked([5.0, 4.5, 3.0, 2.95, 2.0, 1.5, 1.0])
    groups = list(rank_groups(rows))
    assert [group.title for group in groups] == ["Ranks 1 to 2", "Rank 3, shared by 2", "Ranks 5 to 7"]
    assert [row for group in groups for row in group.rows] == rows


def test_neighbouring_shared_ranks_stay_apart():
    titles = [group.title for group in rank_groups(ranked([4.0, 3.9, 2.0, 1.9]))]
    assert titles == ["Rank 1, shared by 2", "Rank 3, shared by 2"]


def test_names_lose_what_they_share():
    assert short_names(["a/b/x.jpg", "a/c/y.jpg"]) == {"a/b/x.jpg": "b/x.jpg", "a/c/y.jpg": "c/y.jpg"}
    assert short_names(["/p/x.jpg", "/p/y.jpg"]) == {"/p/x.jpg": "x.jpg", "/p/y.jpg": "y.jpg"}
    assert short_names(["x.jpg"]) == {"x.jpg": "x.jpg"}
    assert short_names(["x.jpg", "/p/y.jpg"]) == {"x.jpg": "x.jpg", "/p/y.jpg": "/p/y.jpg"}
    assert short_names([]) == {}


def test_bars_stay_on_the_scale():
    assert bar(Score(1.0, 0.0, 9.0, 0.5, 0.1), Scale(1, 5)) == {"left": 0.0, "width": 100.0, "at": 0.0}


def test_thumbnails_are_small_and_upright(tmp_path):
    pixels = np.zeros((300, 600, 3), np.uint8)
    pixels[:, :300] = (255, 0, 0)  # the left half is red; turned by a quarter to the right, it is on top
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif)
    data = thumbnail(tmp_path / "turned.jpg")
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.format == "JPEG"
        assert picture.size == (SIDE // 2, SIDE)
        assert picture.getpixel((40, 20))[0] > 200
        assert picture.getpixel((40, 140))[0] < 50
        assert not picture.getexif()
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    assert thumbnail(tmp_path / "broken.jpg") is None
    assert thumbnail(tmp_path / "missing.jpg") is None


def test_small_images_are_not_enlarged(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "small.png")
    with Image.open(io.BytesIO(thumbnail(tmp_path / "small.png"))) as picture:
        assert picture.size == (20, 10)
