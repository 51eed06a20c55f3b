"""What `--help` says: every command has an example that it accepts; what maintains the tables is not listed."""

from __future__ import annotations

import re
import shlex

import pytest
import typer.main

from uol.cli import app

MAINTENANCE = {"reliability", "add", "docs", "release", "anchoring", "panel", "held-out", "adjusted"}


def commands(group, names=()):
    """Every command with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_that_it_accepts(words):
    command = COMMANDS[words]
    (example,) = re.findall(r"Example: (uol .*)$", command.help, re.M)
    called = shlex.split(example)[1:]
    assert tuple(called[: len(words)]) == words
    context = command.make_context(" ".join(words), called[len(words) :])  # parses it, without running it
    assert context.params.keys() == {parameter.name for parameter in command.params} - {"help"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_explained_in_plain_words(words):
    command = COMMANDS[words]
    texts = [command.help, *(parameter.help for parameter in command.params)]
    assert all(texts)
    for text in texts:
        assert not re.search(r"\b(told|tells|otherwise|at hand|anew|that which|lacks|its own)\b", text), text


def test_help_wraps_paragraphs(uol, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = uol("evaluate", "--help")
    text = out[out.index("On the data set") : out.index("Example:")].strip().splitlines()
    assert all(len(line.strip()) > 60 for line in text[:-1]), text


def test_old_names_and_needless_options_are_accepted_and_not_listed(uol, tmp_path):
    _, out, _ = uol("data", "align", "--help")
    assert not {"--table", "--scale", "--votes"} & set(out.split())
    _, out, _ = uol("experiment", "run", "--help")
    assert {"--makeup-votes", "--makeup-takes"} <= set(out.split())
    assert not {"--votes", "--takes"} & set(out.split())
    command = COMMANDS["experiment", "run"]
    words = ["modules", "--root", str(tmp_path), "--votes", "votes.csv", "--takes", "mean"]
    assert str(command.make_context("run", words).params["votes"]) == "votes.csv"
    command = COMMANDS["data", "align"]
    assert str(command.make_context("align", ["a", "--table", "b", "--out", "c"]).params["table"]) == "b"


def test_maintenance_is_hidden_but_works(uol):
    hidden = {words[-1] for words, command in COMMANDS.items() if command.hidden}
    assert hidden == MAINTENANCE
    code, out, _ = uol("experiment", "--help")
    listed = set(re.findall(r"^│ ([a-z][a-z-]*) ", out, re.M))
    assert (code, listed) == (0, {"list", "run", "ensemble", "groups", "table", "figure", "verify"})
    for name in MAINTENANCE:
        code, out, _ = uol("experiment", name, "--help")
        assert code == 0
        assert "For maintainers of the result tables" in out
