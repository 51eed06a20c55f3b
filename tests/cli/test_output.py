"""What commands print while one waits."""

from __future__ import annotations

import pytest

from uol.cli.output import ProgressLines, progress_bar


@pytest.fixture
def clock():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


def test_lines_of_progress_wait_and_are_few(clock, capsys):
    lines = ProgressLines("scoring", 2000, clock)
    for done in range(1, 2001):  # ten a second
        clock.now = done / 10
        lines.update(done)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "scoring: 200 of 2,000"
    assert len(said) == 9


def test_slow_work_says_something_every_minute(clock, capsys):
    lines = ProgressLines("training", 100, clock)
    for done in range(1, 5):
        clock.now = 45.0 * done
        lines.update(done, "loss 0.5")
    assert capsys.readouterr().err.splitlines() == ["training: 2 of 100, loss 0.5", "training: 4 of 100, loss 0.5"]


def test_short_work_says_nothing_in_a_pipe(capsys):
    with progress_bar("reading", 3) as update:
        for done in range(4):
            update(done)
    assert capsys.readouterr() == ("", "")
