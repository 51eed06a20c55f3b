"""The log: JSON lines that never hold up a request, without the text of exceptions."""

from __future__ import annotations

import io
import json
import logging
import threading

from uol.serve import log as log_module
from uol.serve.log import Log, LogHandler


def test_entries_are_lines_with_their_time():
    stream = io.StringIO()
    log = Log(stream)
    log.write({"route": "/v1/score", "status": 200})
    log.close()
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("Z")
    assert entry == {"route": "/v1/score", "status": 200}


def test_a_reader_that_stalls_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(log_module, "_MOST_WAITING", 3)
    reads, written = threading.Event(), []

    class Stalled:
        def write(self, line):
            reads.wait(30)
            written.append(json.loads(line))

        def flush(self):
            pass

    log = Log(Stalled())
    for number in range(20):
        log.write({"number": number})  # returns at once
    reads.set()
    log.close()
    assert 3 <= len(written) <= 4
    assert [entry["number"] for entry in written] == list(range(len(written)))


def test_exceptions_of_other_packages_are_named_by_their_type():
    stream = io.StringIO()
    log = Log(stream)
    logger = logging.Logger("elsewhere")
    logger.addHandler(LogHandler(log))
    try:
        raise ValueError("secret.png")
    except ValueError:
        logger.exception("it failed\nsecret")
    logger.info("not a warning")
    log.close()
    (line,) = stream.getvalue().splitlines()
    assert "secret" not in line
    assert json.loads(line)["failure"] == "ValueError"
