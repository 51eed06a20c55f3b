"""Framing in processes: the pixels, the faces and the errors of this one, and no end to a run."""

from __future__ import annotations

import os
import threading
import time
import warnings

import numpy as np
import pytest
from PIL import Image

from uol.datasets.synthetic import load_synthetic
from uol.errors import UolError
from uol.images.face_cache import FaceCache
from uol.images.faces import AlignedFace, Face
from uol.images.framing import Framer
from uol.images.parallel_framing import ParallelFramer, can_share
from uol.scoring.bulk import framed_batches

FRAMER = Framer(16, 12)

pytestmark = pytest.mark.skipif(not can_share(), reason="this system has no anonymous shared memory")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "plain.jpg")
    image.resize((16, 16)).save(tmp_path / "square.jpg")
    image.save(tmp_path / "turned.jpg", exif=exif)
    image.convert("CMYK").save(tmp_path / "cmyk.jpg")
    image.convert("RGBA").save(tmp_path / "clear\udce9 \n.png")  # a name that is no text, on two lines
    Image.fromarray(rng.integers(0, 65536, (20, 30)).astype(np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "broken.jpg").write_bytes(b"broken")
    return [*map(str, sorted(tmp_path.iterdir())), str(tmp_path / "missing.jpg"), "no\ud800name.jpg"]


@pytest.fixture
def photographs(tmp_path):
    """Drawn faces, one of them twice, and two files without any."""
    for k, image in enumerate(load_synthetic(n=6, test=2, size=256).images):
        Image.fromarray(np.asarray(image)).save(tmp_path / f"{k}.png")
    Image.new("RGB", (90, 90)).save(tmp_path / "empty.png")
    (tmp_path / "broken.jpg").write_bytes(b"broken")
    return [*map(str, sorted(tmp_path.iterdir())), str(tmp_path / "0.png")]


def started(reader, count):
    """Wait until all processes have started, so that no thread does their work."""
    until = time.monotonic() + 30
    while sum(process.ready for process in reader._processes) < count and time.monotonic() < until:
        time.sleep(0.01)
    assert sum(process.ready for process in reader._processes) == count


def framed(files, processes):
    """Each file's name and error, by processes or threads."""
    batches = framed_batches(files, FRAMER, 4, 2, processes=processes)
    return [(one.image, one.error) for batch in batches for _, (one,) in batch]


def check(reader, files, place):
    found = [one for part in reader.submit(0, len(files), place) for one in part.result(timeout=60)]
    assert len(found) == len(files)
    for k, (path, one) in enumerate(zip(files, found, strict=True)):
        (framed,) = reader._framer.frame(path)
        assert one == (framed.error or framed.face)
        if framed.error is None:
            assert np.array_equal(reader.pixels[place + k].transpose(2, 0, 1), framed.pixels)


def test_processes_give_what_this_one_gives(files):
    reader = ParallelFramer(files, 20, FRAMER, 2, processes=True)
    try:
        started(reader, 2)
        reader._frame = None  # not to be asked
        check(reader, files, 0)
        check(reader, files, 9)
    finally:
        reader.close()
    assert [process.popen.poll() is not None for process in reader._processes] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("cached", [False, True])
def test_faces_are_those_that_this_process_finds(photographs, tmp_path, cached):
    cache = FaceCache(tmp_path / "cache") if cached else None
    framer = Framer(256, 224, "face", cache)
    expected = [framer._replace(cache=None).frame(path)[0] for path in photographs]
    assert [one.error is None for one in expected] == [True] * 6 + [False, False, True]
    for _ in range(2):  # found, then read from the cache
        reader = ParallelFramer(photographs, 9, framer, 2, processes=True)
        try:
            started(reader, 2)
            reader._frame = None
            check(reader, photographs, 0)
        finally:
            reader.close()
        if cached:
            assert len(list((tmp_path / "cache").rglob("*.face"))) == 7  # by content: the last is the first


def test_a_process_that_dies_leaves_its_work_to_the_threads(files):
    reader = ParallelFramer(files, 20, FRAMER, 1, processes=True)
    try:
        started(reader, 1)
        reader._processes[0].popen.kill()
        check(reader, files, 3)
        check(reader, files, 0)
        assert reader._alive == []
    finally:
        reader.close()


def test_a_process_that_dies_at_work_leaves_it_to_others(files):
    reader = ParallelFramer(files, 20, FRAMER, 2, processes=True)
    try:
        started(reader, 2)
        first, second = reader._processes
        first.popen.send_signal(19)
        second.popen.send_signal(19)
        parts = [part for at in range(5) for part in reader.submit(0, 3, 3 * at)]
        time.sleep(0.1)
        assert not any(part.done() for part in parts)
        first.popen.kill()
        second.popen.send_signal(18)
        assert [len(part.result(timeout=30)) for part in parts] == [3] * 5
    finally:
        reader.close()


def test_threads_do_where_no_process_may_be_started(files, monkeypatch):
    def refused(*_):
        raise BlockingIOError("too many processes")

    monkeypatch.setattr("uol.images.parallel_framing._Process", refused)
    reader = ParallelFramer(files, 20, FRAMER, 2, processes=True)
    check(reader, files, 1)
    reader.close()


@pytest.mark.parametrize("processes", [False, True])
def test_batches_in_order_in_bounded_memory(files, processes):
    paths = [files[k % len(files)] for k in range(103)]
    before = threading.active_count()
    seen = []
    for waiting in framed_batches(paths, FRAMER, 10, 3, processes):
        assert len(waiting) <= 10
        for index, (one,) in waiting:
            seen.append(index)
            (expected,) = FRAMER.frame(paths[index])
            assert (one.image, one.face, one.error) == (expected.image, expected.face, expected.error)
            assert one.pixels is expected.pixels is None or np.array_equal(one.pixels, expected.pixels)
    assert seen == list(range(103))
    assert threading.active_count() == before


@pytest.mark.parametrize("processes", [False, True])
def test_a_run_left_in_the_middle_leaves_nothing_behind(files, processes):
    before, handles = threading.active_count(), len(os.listdir("/proc/self/fd"))
    batches = framed_batches(files * 20, FRAMER, 4, 2, processes)
    next(batches)
    batches.close()
    assert threading.active_count() == before
    assert len(os.listdir("/proc/self/fd")) == handles


@pytest.mark.slow
def test_what_processes_warn_of_is_said_once(photographs, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    framer = Framer(256, 224, "face", FaceCache(tmp_path / "cache"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        batches = framed_batches(photographs * 6, framer, 8, 2, processes=True)
        assert sum(one.error is None for waiting in batches for _, (one,) in waiting) == 42
    assert {str(one.message).partition(":")[0] for one in warned} == {"aligned faces are not cached"}
    assert len(warned) == 1


@pytest.mark.parametrize("threads_first", [False, True])
def test_what_threads_and_processes_warn_of_is_said_once(files, tmp_path, threads_first):
    (tmp_path / "cache").write_text("a file in the way")
    cache = FaceCache(tmp_path / "cache", 16)
    aligned = AlignedFace(np.zeros((16, 16, 3), np.uint8), Face((1.0, 2.0, 3.0, 4.0), np.zeros((5, 2)), 0.9), ())
    reader = ParallelFramer(files[:1], 1, Framer(16, 12, "whole", cache), 2, processes=True)
    try:
        for process in reader._processes:
            process.texts.append("aligned faces are not cached: cannot write there")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            steps = [lambda: cache.keep(files[0], aligned), reader.warn]
            for step in steps if threads_first else steps[::-1]:
                step()
                step()
        assert len(warned) == 1
    finally:
        reader.close()


def test_what_stops_the_handing_out_is_raised_to_those_who_wait(files, monkeypatch):
    def refuse():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("uol.images.parallel_framing.selectors.DefaultSelector", refuse)
    reader = ParallelFramer(files, len(files), FRAMER, 2, processes=True)
    try:
        for _ in range(2):  # before it stops, and afterwards
            (found,) = reader.submit(0, 4, 0)
            with pytest.raises(UolError, match="no more photographs can be read: .*Too many open files"):
                found.result(timeout=30)
    finally:
        reader.close()


def test_work_goes_on_where_no_shared_memory_can_be_made(files, monkeypatch):
    def refuse(*_):
        raise OSError(27, "File too large")

    expected = framed(files, processes=False)
    monkeypatch.setattr("uol.images.framing_process.os.ftruncate", refuse)
    assert framed(files, processes=True) == expected


def test_processes_do_the_work_where_no_thread_can_be_started(files, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    expected = framed(files, processes=False)
    monkeypatch.setattr("uol.images.parallel_framing.ThreadPoolExecutor.submit", refuse)
    assert framed(files, processes=True) == expected
