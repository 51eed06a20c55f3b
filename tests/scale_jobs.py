"""Images, checks and processes of bulk jobs: the workers that a driver started are found by their parents."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image


def workers_of(driver: int, title: str = "PartScorer") -> list[int]:
    """The ids of a driver's workers."""
    parents = {}
    titles = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            number = int(place.name)
            parents[number] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            titles[number] = (place / "cmdline").read_bytes().decode(errors="replace")
        except (OSError, ValueError):  # ended meanwhile
            continue

    def below(number: int) -> bool:
        while number in parents and number != driver:
            number = parents[number]
        return number == driver

    return [
        number for number, words in titles.items() if words.startswith("ray::") and title in words and below(number)
    ]


def jpeg(seed):
    colours = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(colours).resize((48, 48)).save(buffer, "JPEG")
    return buffer.getvalue()


def check_once(out, keys):
    """Every key has exactly one row in the parts of a job."""
    from pyarrow import parquet

    found = Counter(parquet.read_table(out, columns=["key"]).column("key").to_pylist())
    assert set(found) == set(keys)
    assert set(found.values()) == {1}
