"""The queue: bounded, with time limits, and with a process that is replaced when it fails or leaves when idle."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys

import pytest

from uol.errors import ImageError
from uol.images.read import ImageBytes
from uol.serve import engine as engine_module
from uol.serve.engine import BusyError, Engine, LostError, SlowError
from uol.serve.limits import Limits
from uol.serve.worker import Answer, Batch, Cancel, Job, Loaded


class FakeProcess:
    """A process of which the test sends the answers."""

    made: list[FakeProcess]

    def __init__(self, model, threads, loop, handler):
        self.sent, self.killed, self.stopped, self.pid = [], False, False, 1
        self._handler = handler
        self.made.append(self)

    def send(self, message):
        self.sent.append(message)

    def give(self, message):
        self._handler(self, message)

    def kill(self):
        self.killed = True
        self.give(None)

    def stop(self):
        self.stopped = True


@pytest.fixture
def made(monkeypatch):
    FakeProcess.made = []
    monkeypatch.setattr(engine_module, "_Process", FakeProcess)
    return FakeProcess.made


def images(count):
    return tuple(ImageBytes(str(number), b"") for number in range(count))


async def asking(engine, count=1):
    """Ask, and let the engine send the job."""
    task = asyncio.create_task(engine.ask("score", images(count)))
    await asyncio.sleep(0)
    return task


def test_an_answer_and_an_image_at_fault(made):
    async def scenario():
        engine = Engine("m", Limits())
        first, second = await asking(engine), await asking(engine)
        (process,) = made
        process.give(Loaded())
        assert (engine.loaded, engine.images) == (True, 2)
        process.give(Answer(1, error="1: no face"))
        process.give(Answer(0, [["row"]]))
        assert await first == [["row"]]
        with pytest.raises(ImageError, match="no face"):
            await second
        assert engine.images == 0

    asyncio.run(scenario())


def test_a_full_queue_refuses_and_names_the_seconds_to_wait(made):
    async def scenario():
        engine = Engine("m", Limits(queue=3))
        task = await asking(engine, 2)
        with pytest.raises(BusyError) as refused:
            await engine.ask("score", images(2))
        assert 1 <= refused.value.after <= 60
        assert len(made[0].sent) == 1
        engine.check_room(1)
        made[0].give(Answer(0, []))
        await task
        engine.check_room(3)

    asyncio.run(scenario())


def test_bodies_in_memory_are_bounded(made):
    engine = Engine("m", Limits(body_bytes=100, memory_bytes=150))
    with engine.body(60):
        with engine.body(90), pytest.raises(BusyError), engine.body(1):
            pass
        with pytest.raises(BusyError), engine.body(None):  # of unknown size: as large as allowed
            pass
    with engine.body(None):
        assert engine.body_bytes == 100
    assert engine.body_bytes == 0


def test_a_body_is_refused_before_it_is_read_if_others_fill_the_queue(made):
    engine = Engine("m", Limits(queue=32))
    engine.images = 22
    with engine.body(800_000) as arrived:  # eight images, by the size of usual ones
        with pytest.raises(BusyError), engine.body(300_000):
            pass
        with engine.body(200_000):
            pass
        arrived(1)  # it was one large photograph
        with engine.body(300_000):
            pass
    for _ in range(100):
        with engine.body(800_000) as arrived:
            arrived(1)
    with engine.body(800_000), engine.body(800_000), engine.body(None):
        pass
    with Engine("m", Limits(queue=1)).body(10_000_000):
        pass


def test_a_slow_job_is_cancelled_and_a_process_that_hangs_is_ended(made):
    async def scenario():
        engine = Engine("m", Limits(seconds=0.05))
        with pytest.raises(SlowError, match="within 0.05 s"):
            await engine.ask("score", images(1))
        (process,) = made
        assert process.sent[1:] == [Cancel(0)]
        assert engine.images == 1  # it may still be busy with it
        await asyncio.sleep(0.2)
        assert process.killed
        assert engine.images == 0
        task = await asking(engine)
        assert len(made) == 2
        made[1].give(Answer(1, ["again"]))
        assert await task == ["again"]

    asyncio.run(scenario())


def test_a_confirmed_cancellation_leaves_the_process_alone(made):
    async def scenario():
        engine = Engine("m", Limits(seconds=0.05))
        with pytest.raises(SlowError):
            await engine.ask("score", images(1))
        made[0].give(Answer(0, error="cancelled"))
        await asyncio.sleep(0.2)
        assert not made[0].killed
        assert engine.images == 0

    asyncio.run(scenario())


def test_a_client_that_leaves_cancels_its_job(made):
    async def scenario():
        engine = Engine("m", Limits())
        task = await asking(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made[0].sent[1:] == [Cancel(0)]

    asyncio.run(scenario())


def test_a_process_that_ends_fails_its_jobs_and_the_next_starts_another(made):
    async def scenario():
        engine = Engine("m", Limits())
        lost = await asking(engine)
        made[0].give(None)
        with pytest.raises(LostError, match="try again"):
            await lost
        assert (engine.images, engine.loaded) == (0, False)
        await asking(engine)
        assert [type(message) for message in made[1].sent] == [Job]

    asyncio.run(scenario())


def test_a_model_that_cannot_be_loaded_says_why(made):
    async def scenario():
        engine = Engine("m", Limits())
        task = await asking(engine)
        made[0].give(Loaded("m: damaged"))
        made[0].give(None)
        with pytest.raises(LostError, match="m: damaged"):
            await task
        assert not engine.ready
        assert engine.load_error == "m: damaged"
        again = await asking(engine)  # the reason may have gone
        made[1].give(Loaded())
        made[1].give(Answer(1, []))
        assert await again == []
        assert engine.load_error is None

    asyncio.run(scenario())


def test_an_idle_model_leaves_memory_and_returns_on_demand(made):
    async def scenario():
        engine = Engine("m", Limits(idle_seconds=0.1))
        await engine.start()
        await asyncio.sleep(0.3)
        assert not made[0].stopped  # it is being loaded
        made[0].give(Loaded())
        busy = await asking(engine)
        await asyncio.sleep(0.3)
        assert not made[0].stopped  # it has work
        made[0].give(Answer(0, []))
        await busy
        await asyncio.sleep(0.4)
        assert made[0].stopped
        assert (engine.loaded, engine.ready) == (False, True)
        await asking(engine)
        assert len(made) == 2
        await engine.close()
        assert made[1].stopped

    asyncio.run(scenario())


def test_batches_are_reported(made):
    async def scenario():
        engine, seen = Engine("m", Limits()), []
        engine.on_batch = seen.append
        await asking(engine)
        made[0].give(Batch(7))
        assert seen == [7]

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks on this system")
def test_ctrl_c_waits_while_a_process_begins():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with engine_module._without_interrupts():
        process = multiprocessing.get_context("spawn").Process(target=_blocks_interrupts)
        process.start()
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    process.join()
    assert process.exitcode == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == blocked


def _blocks_interrupts() -> None:
    sys.exit(signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []))
