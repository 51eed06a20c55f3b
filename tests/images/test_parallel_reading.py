"""Decoding in processes: the pixels and the errors that Pillow gives in this one, and no end to a run."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from PIL import Image

from uol.images.framing import Framer
from uol.images.parallel_reading import ParallelReader, can_share
from uol.scoring.bulk import whole_batches

FRAMER = Framer(16, 12)

pytestmark = pytest.mark.skipif(not can_share(), reason="this system has no anonymous shared memory")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "plain.jpg")
    image.save(tmp_path / "turned.jpg", exif=exif)
    image.convert("CMYK").save(tmp_path / "cmyk.jpg")
    image.convert("RGBA").save(tmp_path / "clear\udce9 \n.png")  # a name that is no text, on two lines
    Image.fromarray(rng.integers(0, 65536, (20, 30)).astype(np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "broken.jpg").write_bytes(b"broken")
    return [*map(str, sorted(tmp_path.iterdir())), str(tmp_path / "missing.jpg")]


def started(reader, count):
    """Wait until all processes are there, so that no thread does their work."""
    until = time.monotonic() + 30
    while reader._idle.qsize() < count and time.monotonic() < until:
        time.sleep(0.01)
    assert reader._idle.qsize() == count


def check(reader, files, place):
    errors = reader.read(place, files)
    for k, (path, error) in enumerate(zip(files, errors, strict=True)):
        if path.endswith(("broken.jpg", "missing.jpg")):
            assert path in error
        else:
            assert error is None
            assert np.array_equal(reader.pixels[place + k], FRAMER.pixels(path))


def test_processes_give_what_threads_give(files):
    reader = ParallelReader(20, FRAMER, processes=2)
    try:
        started(reader, 2)
        reader._read = None  # not to be asked
        check(reader, files, 0)
        check(reader, files[::-1], 9)
    finally:
        reader.close()
    assert [process.poll() is not None for process in reader._started] == [True, True]


def test_a_process_that_dies_leaves_its_work_to_the_threads(files):
    reader = ParallelReader(20, FRAMER, processes=1)
    try:
        started(reader, 1)
        reader._started[0].kill()
        check(reader, files, 3)
        check(reader, files, 0)
        assert reader._idle.empty()
    finally:
        reader.close()


def test_threads_do_where_no_process_may_be_started(files, monkeypatch):
    def refused(*_):
        raise BlockingIOError("too many processes")

    monkeypatch.setattr("uol.images.parallel_reading._start", refused)
    reader = ParallelReader(20, FRAMER, processes=2)
    check(reader, files, 1)
    reader.close()


def test_nothing_is_read_once_it_is_closed(files):
    reader = ParallelReader(20, FRAMER, processes=1)
    reader.close()
    assert reader.read(0, files) == ["stopped"] * len(files)


@pytest.mark.parametrize("processes", [False, True])
def test_batches_in_order_in_bounded_memory(files, processes):
    paths = [files[k % len(files)] for k in range(103)]
    before = threading.active_count()
    seen = []
    for waiting in whole_batches(paths, FRAMER, 10, 3, processes):
        assert len(waiting) <= 10
        for index, (one,) in waiting:
            seen.append(index)
            assert one.image == paths[index]
            if one.pixels is None:
                assert paths[index] in one.error
                continue
            difference = one.pixels.transpose(1, 2, 0) - FRAMER.pixels(paths[index]).astype(int)
            assert np.abs(difference).max() <= (0 if processes else 2)
    assert seen == list(range(103))
    assert threading.active_count() == before


@pytest.mark.parametrize("processes", [False, True])
def test_a_run_left_in_the_middle_leaves_nothing_behind(files, processes):
    before = threading.active_count()
    batches = whole_batches(files * 20, FRAMER, 4, 2, processes)
    next(batches)
    batches.close()
    assert threading.active_count() == before
