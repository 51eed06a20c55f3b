"""What commands print while one waits."""

from __future__ import annotations

import pytest

from uol.cli.output import ProgressLines, print_table, progress_bar, say


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


def test_a_second_kind_of_work_begins_again(clock, capsys):
    lines = ProgressLines("reading", 100, clock)
    for done in range(0, 101, 10):
        clock.now += 8
        lines.update(done)
    for done in range(0, 101, 10):
        clock.now += 8
        lines.update(done, title="aligning")
    said = capsys.readouterr().err.splitlines()
    assert said[:5] == [f"reading: {done} of 100" for done in (10, 30, 50, 70, 90)]
    assert said[5:] == [f"aligning: {done} of 100" for done in (20, 40, 60, 80)]


def test_a_bar_begins_again_with_a_second_kind_of_work(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("reading", 7) as update:
        update(7)
        update(3, title="aligning")
    said = capsys.readouterr().err
    assert said.index("reading") < said.index("aligning") < said.rindex("3/7")


def test_short_work_says_nothing_in_a_pipe(capsys):
    with progress_bar("reading", 3) as update:
        for done in range(4):
            update(done)
    assert capsys.readouterr() == ("", "")


def test_a_table_in_a_pipe_has_a_line_for_each_row(capsys):
    names = ["a.jpg", "x" * 250, "two\nlines\x1b[31m.jpg", "\udcff.jpg", "[red].png", "写真.jpg", "e\u0301.jpg"]
    names += ["3.45\u202fPM.png", "\U0001f469\u200d\U0001f467.jpg", "写\u3000真.jpg"]
    rows = [{"image": name, "value": float(number)} for number, name in enumerate(names)] + [{"image": "none"}]
    print_table(rows, {"image": "image", "value": "score"})
    out = capsys.readouterr().out
    head, *lines = out.splitlines()
    assert head == "image" + " " * 248 + "score"
    assert len(lines) == len(rows)
    assert not any(line.endswith(" ") for line in (head, *lines))
    assert [line.split()[-1] for line in lines] == [f"{number:.4f}" for number in range(10)] + ["–"]
    assert [line.split()[0] for line in lines][2:5] == ["two?lines?[31m.jpg", "?.jpg", "[red].png"]
    assert len(lines[5]) == len(head) - 2  # as wide as the heading, and so is the next
    assert len(lines[6]) == len(head) + 1
    assert all(line.startswith(name) for line, name in zip(lines[7:10], names[7:], strict=True))


def test_messages_have_no_control_characters(capsys):
    say("no\x1b[31msuch\u202e.jpg\nsecond line")
    assert capsys.readouterr().err == "no?[31msuch?.jpg\nsecond line\n"


def test_a_table_on_a_terminal_has_no_control_characters(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    print_table([{"image": "a\x1b[31mb\n\u202ec.jpg"}], {"image": "image"})
    assert "a?[31mb??c.jpg" in capsys.readouterr().out
