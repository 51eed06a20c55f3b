"""Scoring many files: the same rows whatever the batches and threads, and no bad file ends the run."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uol.datasets.synthetic import load_synthetic
from uol.images import framing, packages
from uol.images.faces import AlignedFace, Face, FaceError
from uol.order.config import ModelConfig
from uol.scoring import bulk
from uol.scoring.base import BaseScorer, Score
from uol.scoring.bulk import score_files

WHOLE = ModelConfig(backbone="test_byobnet", resize=16, crop=12)
FACE = ModelConfig(backbone="test_byobnet", resize=16, crop=12, framing="face")


class Brightness(BaseScorer):
    """Scores an image by its mean brightness, and notes how many come at once."""

    members = embed = embed_pixels = score_embedded = anchor_embedded = leave_one_out = save_pretrained = to = None

    def __init__(self, config=WHOLE):
        self._config = config
        self.batches = []

    @property
    def config(self):
        return self._config

    def compare_pixels(self, first, second):
        raise NotImplementedError

    def score_pixels(self, pixels):
        assert pixels.dtype == np.uint8
        assert pixels.shape[1:] == (3, 12, 12)
        self.batches.append(len(pixels))
        values = pixels.reshape(len(pixels), -1).mean(1) / 64
        return [Score(float(v), float(v) - 0.5, float(v) + 0.5, float("nan"), 0.1) for v in values]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(23):
        level = rng.integers(0, 256)
        Image.fromarray(np.full((20, 30, 3), level, np.uint8)).save(tmp_path / f"{k:02}.png")
    (tmp_path / "07.png").write_bytes(b"broken")
    (tmp_path / "11.png").unlink()
    return [tmp_path / f"{k:02}.png" for k in range(23)]


@pytest.mark.parametrize("batch_size", [1, 4, 100])
@pytest.mark.parametrize("workers", [1, 3])
def test_rows_do_not_depend_on_batches_or_threads(files, batch_size, workers):
    scorer = Brightness()
    found = list(score_files(scorer, files, batch_size=batch_size, workers=workers))
    assert [index for index, _ in found] == list(range(23))
    for index, (row,) in found:
        assert row["image"] == str(files[index])
        assert row["face"] is row["dispersion"] is None
        if index in (7, 11):
            assert row["value"] is None
            assert str(files[index]) in row["error"]
        else:
            level = np.asarray(Image.open(files[index])).mean()
            assert row["value"] == pytest.approx(level / 64)
            assert row["error"] is None
    assert max(scorer.batches) <= batch_size
    assert sum(scorer.batches) == 21


def test_a_run_may_be_left_in_the_middle(files):
    before = threading.active_count()
    rows = score_files(Brightness(), files, batch_size=2, workers=2)
    next(rows)
    rows.close()
    assert threading.active_count() == before


def test_nothing_to_score():
    assert list(score_files(Brightness(), [])) == []


def test_a_fault_of_a_decoder_costs_one_image(files, monkeypatch):
    real = framing.read_image

    def faulty(path):
        if Path(path).name == "03.png":
            raise ZeroDivisionError("in a decoder")
        return real(path)

    monkeypatch.setattr(framing, "read_image", faulty)
    rows = [row for _, found in score_files(Brightness(), files[:6]) for row in found]
    assert [row["error"] is None for row in rows] == [True, True, True, False, True, True]
    assert "ZeroDivisionError: in a decoder" in rows[3]["error"]


@pytest.fixture
def faces(monkeypatch):
    """Every photograph shows two faces, except the fourth."""
    pytest.importorskip("cv2")

    def found(path, count):
        if Path(path).name == "03.png":
            raise FaceError(f"{path}: no face found")
        crop = np.asarray(Image.open(path).resize((256, 256)))
        return [
            AlignedFace(crop // (k + 1), Face((1.0, 2.0, 30.25, 40.0), np.ones((5, 2)), 0.99), ("turned away",))
            for k in range(count)
        ]

    monkeypatch.setattr(framing, "find_face", lambda path: found(path, 1)[0])
    monkeypatch.setattr(framing, "find_faces", lambda path: found(path, 2))


def test_faces_have_their_place_in_the_row(files, faces):
    rows = [row for _, found in score_files(Brightness(FACE), files[:5]) for row in found]
    assert len(rows) == 5
    assert rows[0]["face"] == {"box": [1.0, 2.0, 30.2, 40.0], "confidence": 0.99, "problems": ["turned away"]}
    assert "no face found" in rows[3]["error"]


def test_all_faces_have_a_row_each(files, faces):
    found = dict(score_files(Brightness(FACE), files[:5], all_faces=True, batch_size=3))
    assert [len(found[index]) for index in range(5)] == [2, 2, 2, 1, 2]
    assert found[0][0]["value"] == pytest.approx(2 * found[0][1]["value"], abs=0.02)


def test_framing_equals_packing(files):
    from uol.images.framing import pack_images

    (one,) = WHOLE.framer().frame(files[2])
    assert np.array_equal(one.pixels, pack_images([files[2]], 16, 12)[0])


class OnGpu(Brightness):
    """Asked as a GPU is: many files framed by processes, the next batch begun before the last is waited for."""

    @property
    def on_gpu(self):
        return True

    @property
    def batch_size(self):
        return 4


@pytest.mark.parametrize("many", [5, 2000])
def test_asked_as_a_gpu_is_the_rows_are_the_same(files, monkeypatch, many):
    monkeypatch.setitem(bulk.MANY, "whole", many)
    rng = np.random.default_rng(1)
    for k in range(0, 23, 2):
        size = 16 if k % 4 else 20  # of the model's own size, or to be resized
        image = Image.fromarray(rng.integers(0, 256, (size, size, 3), np.uint8))
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(files[k], "JPEG", exif=exif if k == 6 else b"", quality=90)  # content decides, not the name
    for count in (1, 2, 9, 23):
        expected = list(score_files(Brightness(), files[:count], workers=2))
        found = list(score_files(OnGpu(), files[:count], workers=3))
        assert found == expected
    assert list(score_files(OnGpu(), [])) == []


def test_asked_as_a_gpu_is_faces_have_their_rows(files, faces):
    class FacesOnGpu(OnGpu):
        batch_size = 3

    for all_faces in (False, True):
        expected = list(score_files(Brightness(FACE), files[:6], all_faces))
        assert list(score_files(FacesOnGpu(FACE), files[:6], all_faces)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Brightness, OnGpu])
def test_faces_found_by_processes_have_the_rows_of_threads(tmp_path, monkeypatch, kind):
    for k, image in enumerate(load_synthetic(n=6, test=2, size=256).images):
        Image.fromarray(np.asarray(image)).save(tmp_path / f"{k}.png")
    Image.new("RGB", (90, 90)).save(tmp_path / "7.png")
    (tmp_path / "8.jpg").write_bytes(b"broken")
    paths = [*sorted(tmp_path.iterdir()), tmp_path / "missing.png"] * 2
    expected = list(score_files(Brightness(FACE), paths, batch_size=5))
    assert sum(row["face"] is not None for _, (row,) in expected) == 12
    scorer = kind(FACE)
    monkeypatch.setitem(bulk.MANY, "face", 3)
    assert list(score_files(scorer, paths, batch_size=5, workers=2)) == expected
    assert scorer.batches == ([5, 5, 2] if kind is Brightness else [5, 2, 5])


@pytest.mark.parametrize("fault", ["submit", "wait"])
def test_a_fault_of_the_scorer_ends_the_run(files, fault):
    class Faulty(OnGpu):
        def submit(self, images):
            if fault == "submit":
                raise RuntimeError("out of memory")
            return super().submit(images)

        def score_pixels(self, pixels):
            raise RuntimeError("out of memory")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="out of memory"):
        list(score_files(Faulty(), files))
    assert threading.active_count() == before


def test_a_run_for_a_gpu_may_be_left_in_the_middle(files):
    before = threading.active_count()
    rows = score_files(OnGpu(), files * 3, workers=2)
    assert [next(rows)[0] for _ in range(6)] == list(range(6))
    rows.close()
    assert threading.active_count() == before


def test_faces_found_before_are_not_looked_for_again(files, faces, monkeypatch, tmp_path):
    from uol.images import face_cache
    from uol.images.face_cache import FaceCache

    looked = []

    def find(path, size):
        looked.append(path)
        return framing.find_face(path)

    monkeypatch.setattr(face_cache, "find_face", find)
    cache = FaceCache(tmp_path / "cache")
    first = list(score_files(Brightness(FACE), files[:3], cache=cache))
    assert len(looked) == 3
    assert list(score_files(Brightness(FACE), files[:3], cache=cache)) == first
    assert list(score_files(Brightness(FACE), files[:3])) == first
    assert len(looked) == 3


def test_opencv_has_one_thread_for_each_file(files, monkeypatch):
    cv2 = packages.opencv()
    before = cv2.getNumThreads()
    seen = []

    def find(image, size=256):
        seen.append(cv2.getNumThreads())
        raise FaceError("no face found")

    monkeypatch.setattr(framing, "find_face", find)
    cv2.setNumThreads(3)
    try:
        list(score_files(Brightness(FACE), files, workers=2))
        assert seen == [1] * len(files)
        assert cv2.getNumThreads() == 3
    finally:
        cv2.setNumThreads(before)
