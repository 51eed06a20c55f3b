"""The process that scores: images of several jobs in common batches, each job in turn, faults and cancellations."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from uol.images.framing import FramedFile
from uol.images.read import ImageBytes
from uol.scoring.base import Comparison, Score
from uol.serve.worker import Answer, Batch, Job, Worker


class FakeFramer:
    """Frames an image when the test lets it; content b"bad" has an error."""

    def __init__(self):
        self.gate, self.order = threading.Semaphore(0), []

    def frame(self, image, all_faces=False):
        self.gate.acquire()
        self.order.append(image.name)
        if image.content == b"bad":
            return [FramedFile(image.name, None, error=f"{image.name}: bad")]
        count = 2 if all_faces else 1
        return [FramedFile(image.name, np.zeros((3, 2, 2), np.uint8)) for _ in range(count)]


class FakeScorer:
    batch_size = 4

    def __init__(self):
        self.framer = FakeFramer()
        self.config = SimpleNamespace(framer=lambda: self.framer)
        self.fault = None
        self.hold = threading.Event()
        self.hold.set()

    def submit(self, pixels):
        self.hold.wait(30)
        if self.fault:
            raise self.fault
        return lambda: [Score(3.0, 2.0, 4.0, 1.0, 0.1) for _ in pixels]

    def compare_pixels(self, first, second):
        return Comparison(0.2, 0.3, 0.5)

    def on_panel(self, name):
        assert name == "other"
        return self


@pytest.fixture
def worker():
    scorer, inbox = FakeScorer(), queue.Queue()
    made = Worker(scorer, inbox.put, threads=1)
    made.scorer, made.inbox = scorer, inbox
    yield made
    scorer.framer.gate.release(100)
    made.close()


def job(number, count=1, kind="score", content=b"", **more):
    return Job(number, kind, tuple(ImageBytes(f"{number}-{at}", content) for at in range(count)), **more)


def answer(worker):
    """The next answer, without the messages before it."""
    while isinstance(message := worker.inbox.get(timeout=30), Batch):
        pass
    return message


def test_rows_in_order_with_an_error_for_each_image(worker):
    worker.scorer.framer.gate.release(3)
    images = (ImageBytes("a", b""), ImageBytes("b", b"bad"), ImageBytes("c", b""))
    worker.take(Job(1, "score", images))
    found = answer(worker)
    assert [row["image"] for rows in found.result for row in rows] == ["a", "b", "c"]
    assert [row["error"] for rows in found.result for row in rows] == [None, "b: bad", None]


def test_jobs_take_turns(worker):
    worker.take(job(1, 4))
    worker.take(job(2, 1))
    worker.take(job(3, 2))
    worker.scorer.framer.gate.release(7)
    assert [answer(worker).number for _ in range(3)] == [2, 3, 1]
    first = worker.scorer.framer.order[:4]
    assert sorted(first[:3]) == ["1-0", "1-1", "2-0"] or sorted(first[:3]) == ["1-0", "2-0", "3-0"]
    assert worker.scorer.framer.order[-1] == "1-3"


def test_images_of_several_jobs_are_scored_together(worker):
    worker.scorer.hold.clear()
    worker.scorer.framer.gate.release(4)
    for number in range(4):
        worker.take(job(number))
    while len(worker.scorer.framer.order) < 4:
        pass
    worker.scorer.hold.set()
    batches = []
    answers = []
    while len(answers) < 4:
        message = worker.inbox.get(timeout=30)
        (batches if isinstance(message, Batch) else answers).append(message)
    assert sum(batch.images for batch in batches) == 4
    assert len(batches) <= 3


def test_panels_are_scored_apart(worker):
    worker.scorer.framer.gate.release(2)
    worker.take(job(1, panel="other"))
    worker.take(job(2))
    assert {answer(worker).number, answer(worker).number} == {1, 2}


def test_every_face_has_a_row(worker):
    worker.scorer.framer.gate.release()
    worker.take(job(1, all_faces=True))
    assert len(answer(worker).result[0]) == 2


def test_comparisons_name_the_images(worker):
    worker.scorer.framer.gate.release(4)
    worker.take(job(1, 2, "compare"))
    assert answer(worker).result == {"first": "1-0", "second": "1-1", "less": 0.2, "similar": 0.3, "greater": 0.5}
    worker.take(job(2, 2, "compare", content=b"bad"))
    assert answer(worker) == Answer(2, error="2-0: bad")


def test_a_fault_of_the_network_is_no_fault_of_the_image(worker):
    worker.scorer.fault = MemoryError("no room")
    worker.scorer.framer.gate.release(3)
    worker.take(job(1, 3))
    assert answer(worker) == Answer(1, error="MemoryError: no room", fault=True)
    worker.scorer.fault = None
    worker.scorer.framer.gate.release()
    worker.take(job(2))
    assert answer(worker).error is None


def test_a_cancelled_job_starts_no_more_images(worker):
    worker.take(job(1, 50))
    worker.take(job(2))
    worker.cancel(1)
    worker.scorer.framer.gate.release(3)
    answers = {answer(worker).number: None for _ in range(2)}
    assert set(answers) == {1, 2}
    assert len(worker.scorer.framer.order) <= 2
    worker.cancel(1)  # of a job that is gone


def test_a_job_that_waits_is_cancelled_at_once(worker):
    worker.take(job(1))
    while worker._turns:
        pass
    worker.take(job(2, 5))
    worker.cancel(2)
    assert answer(worker) == Answer(2, error="cancelled")
