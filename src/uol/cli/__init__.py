"""The command line: one file per group of commands, which import heavy modules only when they run."""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from functools import cache
from typing import Annotated, Any

import typer

import uol
from uol.cli import data, demo, experiment, export, report, score, serve, study, train
from uol.cli.output import say
from uol.errors import OF_TRAINING, MissingTorchError, UolError, install
from uol.storage.cores import let_waiting_threads_sleep

app = typer.Typer(
    name="uol",
    help="Learn the order of images from raters who disagree, and predict how a panel would rate new images: a score "
    "on its scale, an interval, and how much raters would differ. Nothing here measures a person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(demo.demo)
app.add_typer(data.app, name="data")
app.command("train")(train.train)
app.command("evaluate")(train.evaluate)
app.command("report")(report.report)
app.command("score")(score.score)
app.command("compare")(score.compare)
app.command("rank")(score.rank)
app.command("anchor")(score.anchor)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.add_typer(study.app, name="study")
app.add_typer(experiment.app, name="experiment")


def _join_lines(group: typer.Typer) -> None:
    """Let help wrap paragraphs, not lines: those of a docstring are as long as the code allows."""
    for command in group.registered_commands:
        paragraphs = inspect.cleandoc((command.callback and command.callback.__doc__) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _join_lines(inner.typer_instance)


_join_lines(app)

_INTERRUPTED = 130
_RESUMED = ("train", "experiment run", "data align")

_state = {"debug": False}


def _version(wanted: bool) -> None:
    if wanted:
        print(uol.__version__)
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _state["debug"] = debug


@cache
def _commands() -> Any:
    """The commands with their options, which take typer a tenth of a second to read."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line: results on stdout, messages on stderr; exit 0, 1 (the work failed) or 2 (a wrong call)."""
    # Pillow's on large images, whose size `uol.images.read` checks, and on damaged EXIF, which it does without.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    warnings.filterwarnings("ignore", "Glyph .* missing")  # matplotlib's, on names in scripts that its font lacks
    warnings.showwarning = _show_warning
    let_waiting_threads_sleep()
    _prepare_streams()
    try:
        try:
            _commands()()
        finally:
            sys.stdout.flush()  # here, where it is answered if the output is full or closed
    except UolError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in OF_TRAINING:
            command = _command()
            missing = MissingTorchError(f"uol {command}", "export" if command == "export" else "train")
            _fail(str(missing), missing.exit_code)
        if error.name == "scipy":
            _fail(f"uol {_command()} needs scipy: {install('study')}", 1)
        _fail(f"{error.name} is not installed: pip install {error.name}", 1)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != _INTERRUPTED:  # typer's code for Ctrl-C
            raise
        resume = "; run the same command to resume" if _command() in _RESUMED else ""
        _fail(f"interrupted{resume}", _INTERRUPTED)
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if _state["debug"]:
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            if error.filename is None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _fail(f"no space is left where {error.filename or 'the output'} goes", 1)
        lines = str(error).splitlines()
        _fail(f"unexpected {type(error).__name__}: {lines[0] if lines else ''} (uol --debug … shows the traceback)", 1)


def _prepare_streams() -> None:
    """Let output be closed, and let a character that its encoding does not have be written as its number."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            null = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (until the end)
            setattr(sys, name, null)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """A warning as one line; the place in the code is of no use on the shell."""
    say(f"uol: {message}")


def _command() -> str:
    """The command that was called, with its group: "experiment run"."""
    found, command = [], _commands()
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
        if command.name == word:
            found.append(word)
    return " ".join(found)


def _fail(message: str, code: int) -> None:
    if _state["debug"] and sys.exc_info()[0] is not None and code in (1, 2):
        import traceback

        traceback.print_exc()
    say(f"uol: {message}")
    sys.exit(code)
