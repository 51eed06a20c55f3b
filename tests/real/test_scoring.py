"""Photographs as people have them, scored by the model that ships: odd files as plain ones, broken ones named."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from uol.cli import app
from uol.scoring import released

pytestmark = pytest.mark.skipif(not released.names(), reason="no model ships")
runner = CliRunner()


@pytest.fixture(scope="module")
def photograph(shared_data):
    return shared_data / "scut-fbp5500" / "Images" / "AF1000.jpg"


def scored(*arguments):
    done = runner.invoke(app, ["score", *map(str, arguments), "--json"])
    return done.exit_code, json.loads(done.stdout)


def variants(photograph, folder):
    image = Image.open(photograph).convert("RGB")
    image.rotate(180).save(folder / "turned.jpg", quality=95, exif=_turned(image))
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257).save(folder / "sixteen.png")
    image.convert("L").save(folder / "grey.jpg", quality=95)
    clear = image.convert("RGBA")
    clear.putalpha(255)
    clear.save(folder / "clear.png")
    image.save(folder / "small.jpg", quality=40)
    image.resize((4000, 4000), Image.Resampling.BICUBIC).save(folder / "large.png", compress_level=0)


def _turned(image):
    exif = image.getexif()
    exif[0x0112] = 3  # upside down
    return exif


def test_odd_files_get_the_score_of_the_same_photograph(photograph, tmp_path):
    variants(photograph, tmp_path)
    assert (tmp_path / "small.jpg").stat().st_size < 12_000
    assert (tmp_path / "large.png").stat().st_size > 40_000_000
    code, rows = scored(photograph, tmp_path)
    assert code == 0
    plain, *others = (row["value"] for row in rows)
    names = [row["image"].rsplit("/", 1)[-1] for row in rows[1:]]
    for name, value in zip(names, others, strict=True):
        colourless = name in ("grey.jpg", "sixteen.png")
        assert value == pytest.approx(plain, abs=0.6 if colourless else 0.25), name


def test_broken_files_and_walls_are_named_and_the_rest_is_scored(photograph, tmp_path):
    for number in range(6):
        shutil.copy(photograph, tmp_path / f"good-{number}.jpg")
    (tmp_path / "broken.jpg").write_bytes(photograph.read_bytes()[:3000])
    (tmp_path / "empty.jpg").touch()
    Image.new("RGB", (300, 300), "beige").save(tmp_path / "wall.jpg")
    code, rows = scored(tmp_path)
    assert code == 1
    assert sum(row["value"] is not None for row in rows) == 6
    wrong = {row["image"].rsplit("/", 1)[-1]: row["error"] for row in rows if row["error"]}
    assert set(wrong) == {"broken.jpg", "empty.jpg", "wall.jpg"}
    assert "no face" in wrong["wall.jpg"]


def test_models_that_ship_agree_on_what_a_panel_says(shared_data):
    faces = sorted((shared_data / "scut-fbp5500" / "Images").glob("CF1*.jpg"))[:12]
    read = ("--panel", "scut-fbp5500")
    values = [[row["value"] for row in scored(*faces, "--model", name, *read)[1]] for name in released.names()]
    assert len(values) > 1
    assert np.corrcoef(values).min() > 0.9
