"""The process that scores: images of all requests, decoded by a few threads and scored in common batches.

It is separate from the process that answers requests: a decoder that crashes or hangs costs only the requests that it
had, refusals stay fast while all cores compute, and when it ends, the system has all of its memory again.
"""

from __future__ import annotations

import io
import os
import queue
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from uol.errors import ImageError, UolError
from uol.images.framing import FaceRecord, FramedFile
from uol.images.read import ImageBytes
from uol.scoring.base import BaseScorer, Interval
from uol.scoring.bulk import submit_batch, submit_on_all_panels
from uol.scoring.released import ALL_PANELS, open_model

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Kind: TypeAlias = Literal["score", "compare", "explain"]

_SAME_PLACE = 0.5  # the share that a box and a face have in common if they are of the same face


class Job(NamedTuple):
    """The images of one request and what to do with them.

    `panel` is the one whose scale scores are on, by default the first; `face` is the place of the face to explain;
    `interval` says whose mean intervals are for.
    """

    number: int
    kind: Kind
    images: tuple[ImageBytes, ...]
    all_faces: bool = False
    panel: str | None = None
    face: FaceRecord | None = None
    interval: Interval = "panel"


class Cancel(NamedTuple):
    """A job that nobody waits for any more."""

    number: int


class Answer(NamedTuple):
    """The result of a job, or why it has none; `fault` is True if the images are not the reason."""

    number: int
    result: Any = None
    error: str | None = None
    fault: bool = False


class Loaded(NamedTuple):
    """The model is in memory, or the reason why it is not."""

    error: str | None = None


class Batch(NamedTuple):
    """Images were scored together."""

    images: int


Message: TypeAlias = Answer | Loaded | Batch


@dataclass(eq=False)
class _Running:
    """A job with what is done of it: images are started in order, and end in any order."""

    job: Job
    images: list[ImageBytes | None]
    results: list[Any] = field(default_factory=list)
    started: int = 0
    ended: int = 0
    error: Answer | None = None


_Framed: TypeAlias = tuple[_Running, int, list[FramedFile]]  # an image of a job, by its index


class Worker:
    """Threads that decode images and find faces, taking one image from each job in turn, and one that scores."""

    def __init__(self, scorer: BaseScorer, send: Callable[[Message], None], threads: int) -> None:
        self._scorer, self._framer = scorer, scorer.config.framer()
        self._panels: dict[tuple[str | None, Interval], BaseScorer] = {}
        self._send = send
        self._changed = threading.Condition()
        self._turns: deque[_Running] = deque()
        self._running: dict[int, _Running] = {}
        self._closed = False
        self._ready: queue.SimpleQueue[_Framed | Callable[[], None] | None]
        self._ready = queue.SimpleQueue()
        self._drawing = ThreadPoolExecutor(1)  # matplotlib draws in one thread at a time
        for _ in range(threads):
            threading.Thread(target=self._frame_images, daemon=True).start()
        threading.Thread(target=self._score_images, daemon=True).start()

    def take(self, job: Job) -> None:
        """Begin a job."""
        running = _Running(job._replace(images=()), list(job.images), [None] * len(job.images))
        with self._changed:
            self._running[job.number] = running
            self._turns.append(running)
            self._changed.notify_all()

    def cancel(self, number: int) -> None:
        """Start no more images of a job; it is answered when those that were started have ended."""
        with self._changed:
            running = self._running.get(number)
            if running is None:
                return
            running.error = running.error or Answer(number, error="cancelled")
            if running in self._turns:
                self._turns.remove(running)
            finished = running.started == running.ended
        if finished:
            self._reply(running, running.error)

    def close(self) -> None:
        """End the threads after what they are doing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._ready.put(None)

    def _next_image(self) -> tuple[_Running, int] | None:
        """The next image of the job whose turn it is; waits for one."""
        with self._changed:
            while not self._turns and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            running = self._turns.popleft()
            index, running.started = running.started, running.started + 1
            if running.started < len(running.images):
                self._turns.append(running)
            return running, index

    def _frame_images(self) -> None:
        while (picked := self._next_image()) is not None:
            running, index = picked
            image, running.images[index] = running.images[index], None  # its bytes are needed no more
            assert image is not None
            framed = self._framer.frame(image, running.job.all_faces)
            if running.job.kind == "score":
                self._ready.put((running, index, framed))
            else:
                self._end(running, index, framed)

    def _score_images(self) -> None:
        """Score what is ready, whichever jobs it belongs to, without waiting for a batch to fill."""
        while (item := self._ready.get()) is not None:
            if callable(item):
                item()
                continue
            batch, later = [item], None
            while sum(len(framed) for _, _, framed in batch) < self._scorer.batch_size:
                try:
                    item = self._ready.get_nowait()
                except queue.Empty:
                    break
                if item is None or callable(item):
                    later = item
                    break
                batch.append(item)
            self._score_batch(batch)
            if later is not None:
                later()

    def _score_batch(self, batch: list[_Framed]) -> None:
        for key in dict.fromkeys((running.job.panel, running.job.interval) for running, _, _ in batch):
            self._score_on(*key, [one for one in batch if (one[0].job.panel, one[0].job.interval) == key])

    def _score_on(self, panel: str | None, interval: Interval, batch: list[_Framed]) -> None:
        """Score images on the scale of a panel, with the functions that score files."""
        waiting = list(enumerate(framed for _, _, framed in batch))
        try:
            submit = submit_on_all_panels if panel == ALL_PANELS else submit_batch
            rows = dict(submit(self._on(panel, interval), waiting)())
        except Exception as error:
            for running, index, _ in batch:
                running.error = running.error or _fault(running.job, error)
                self._end(running, index, None)
            return
        if scored := sum(one.pixels is not None for _, framed in waiting for one in framed):
            self._send(Batch(scored))
        for place, (running, index, _) in enumerate(batch):
            self._end(running, index, rows[place])

    def _on(self, panel: str | None, interval: Interval = "panel") -> BaseScorer:
        """The model on the scale of a panel, with intervals for its mean or for that of a new panel."""
        key = (None if panel == ALL_PANELS else panel, interval)
        if key not in self._panels:
            scorer = self._scorer if key[0] is None else self._scorer.on_panel(key[0])
            self._panels[key] = scorer.for_new_panel() if interval == "new-panel" else scorer
        return self._panels[key]

    def _end(self, running: _Running, index: int, result: Any) -> None:
        """Store the result of an image; after the last one, answer or take the job's last step."""
        with self._changed:
            running.results[index] = result
            running.ended += 1
            expected = len(running.images) if running.error is None else running.started
            if running.ended < expected or (running.error is not None and running in self._turns):
                return
        if running.error is not None:
            self._reply(running, running.error)
        elif running.job.kind == "score":
            self._reply(running, Answer(running.job.number, running.results))
        elif running.job.kind == "compare":
            self._ready.put(lambda: self._finish(running, lambda: self._compare(running)))
        else:
            self._drawing.submit(self._finish, running, lambda: self._explain(running))

    def _finish(self, running: _Running, work: Callable[[], Any]) -> None:
        try:
            answer = Answer(running.job.number, work())
        except ImageError as error:
            answer = Answer(running.job.number, error=str(error))
        except Exception as error:
            answer = _fault(running.job, error)
        self._reply(running, answer)

    def _compare(self, running: _Running) -> dict[str, Any]:
        """What `uol compare --json` prints."""
        first, second = (_readable(framed)[0] for framed in running.results)
        assert first.pixels is not None
        assert second.pixels is not None
        compared = self._on(running.job.panel).compare_pixels(first.pixels, second.pixels)
        return {"first": first.image, "second": second.image, **compared._asdict()}

    def _explain(self, running: _Running) -> bytes:
        """The picture that `uol score --explain` draws, as a PNG file."""
        from uol.reports.explain import explain_pixels

        framed, face = _readable(running.results[0]), running.job.face
        pixels = (framed[0] if face is None else _face_at(framed, face["box"])).pixels
        assert pixels is not None
        picture = io.BytesIO()
        explain_pixels(self._on(running.job.panel), pixels, framed[0].image).savefig(picture, format="png")
        return picture.getvalue()

    def _reply(self, running: _Running, answer: Answer) -> None:
        with self._changed:
            known = self._running.pop(running.job.number, None)
        if known is not None:
            self._send(answer)


def run_worker(connection: Connection, model: str, threads: int) -> None:
    """Load a model and answer jobs until the connection closes: the main function of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the service ends it, after the last answer
        signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders write about images there
    warnings.simplefilter("ignore")
    lock = threading.Lock()

    def send(message: Message) -> None:
        try:
            with lock:
                connection.send(message)
        except OSError:  # nobody is there to read it
            os._exit(0)

    try:
        worker = Worker(_opened(model), send, threads)
    except Exception as error:
        send(Loaded(str(error) if isinstance(error, UolError) else f"{type(error).__name__}: {error}"))
        return
    send(Loaded())
    while (message := _received(connection)) is not None:
        if isinstance(message, Job):
            worker.take(message)
        else:
            worker.cancel(message.number)
    os._exit(0)  # threads may be inside a decoder


def _opened(model: str) -> BaseScorer:
    """The model with onnxruntime if it has a graph, else with torch, on the processor."""
    scorer = open_model(model, "auto", "cpu")
    scorer.config.framer().check_packages()
    return scorer


def _received(connection: Connection) -> Job | Cancel | None:
    try:
        message: Job | Cancel | None = connection.recv()
    except (EOFError, OSError):
        return None
    return message


def _readable(framed: list[FramedFile]) -> list[FramedFile]:
    """The faces of an image; `ImageError` if it could not be read or has none."""
    if framed[0].error is not None:
        raise ImageError(framed[0].error)
    return framed


def _face_at(framed: list[FramedFile], box: Sequence[float]) -> FramedFile:
    """The face of an image that is at a place; `ImageError` if there is none."""
    found = max(framed, key=lambda one: _overlap(one.face["box"], box) if one.face else 0.0)
    if found.face is None or _overlap(found.face["box"], box) < _SAME_PLACE:
        raise ImageError(f"{found.image}: box: no face there; scores with all_faces report the boxes of all faces")
    return found


def _overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """The part that two boxes (left, top, width, height) share, of all that they cover."""
    sides = [min(first[k] + first[k + 2], second[k] + second[k + 2]) - max(first[k], second[k]) for k in (0, 1)]
    both = max(sides[0], 0.0) * max(sides[1], 0.0)
    whole = first[2] * first[3] + second[2] * second[3] - both
    return both / whole if whole > 0 else 0.0


def _fault(job: Job, error: Exception) -> Answer:
    return Answer(job.number, error=f"{type(error).__name__}: {error}", fault=True)
