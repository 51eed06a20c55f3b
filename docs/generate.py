"""Pages of the reference that come from the code: commands, settings, recipes, data sets, model cards."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any

MADE = "% Written by docs/generate.py: change the code that it describes.\n\n"


def write_pages(folder: Path) -> None:
    """Write every generated page; a page that is the same as before keeps its time, and is not built again."""
    pages = {"commands.md": commands(), "settings.md": settings(), "recipes.md": recipes(), "data-sets.md": data_sets()}
    pages |= {f"{name}.md": card(name) for name in released()}
    pages |= {"results.md": outside("results/README.md"), "results-archive.md": outside("results/archive/README.md")}
    folder.mkdir(parents=True, exist_ok=True)
    for stale in set(folder.glob("*.md")) - {folder / name for name in pages}:
        stale.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or " "


# -------------------------------------------------------------------- commands


def commands() -> str:
    """Every command with its arguments and options, as the command line itself describes them."""
    import typer

    from uol.cli import app

    top = typer.main.get_command(app)
    return MADE + "\n".join(["# Commands\n", plain(top.help or ""), *_command_parts(top, "uol")])


def _command_parts(command: Any, name: str) -> Iterator[str]:
    for word, inner in getattr(command, "commands", {}).items():
        if inner.hidden:
            continue
        full = f"{name} {word}"
        yield f"\n## {full}\n\n{plain(inner.help or '')}"
        if not hasattr(inner, "commands"):
            yield from _parameters(inner, full)
        yield from _command_parts(inner, full)


def _parameters(command: Any, name: str) -> Iterator[str]:
    shown = [one for one in command.params if not one.hidden and one.name != "help"]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    options = [one for one in shown if one.param_type_name == "option"]
    words = [_argument(one) for one in arguments]
    yield f"\n```text\n{' '.join([name, '[OPTIONS]', *words])}\n```\n"
    if arguments:
        rows = [[f"`{(one.metavar or one.name).lower()}`", plain(one.help or "")] for one in arguments]
        yield table(["Argument", "What it is"], rows)
    yield "\n" + table(["Option", "What it does", "Default"], map(_option, options))


def _argument(argument: Any) -> str:
    word = (argument.metavar or argument.name).upper() + ("…" if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _option(option: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    default = getattr(option.default, "value", option.default)
    if option.is_flag or default in (None, (), []) or callable(default):
        default = ""
    shown = "required" if option.required else f"`{default}`" if default != "" else ""
    return [f"{names} {_kind(option)}", plain(option.help or ""), shown]


def _kind(option: Any) -> str:
    """The values of an option: its choices, or what kind of word it takes."""
    kind = option.type_descriptor.annotation
    if option.is_flag:
        return ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " / ".join(f"`{one.value}`" for one in kind)
    if option.metavar:
        return option.metavar
    words = {"Path": "PATH", "int": "NUMBER", "float": "NUMBER", "tuple[float, float]": "LOW HIGH"}
    return words.get(kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind), "TEXT")


def plain(text: str) -> str:
    """Help as Markdown: without the colours of a terminal, examples as code."""
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|green|yellow|red)[^\]]*\]", "", inspect.cleandoc(text))
    text = re.sub(r"^(Examples?): (uol .*)$", r"\1:\n\n```sh\n\2\n```", text, flags=re.M)
    return _literal(text)


def _literal(text: str) -> str:
    """Options and angle brackets in prose as code; fenced lines stay as they are."""
    parts = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.S)
    for number in range(0, len(parts), 2):
        parts[number] = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", parts[number])
        parts[number] = parts[number].replace("<", "\\<").replace("*", "\\*")
    return "".join(parts)


# -------------------------------------------------------------------- settings


def settings() -> str:
    """Every setting of a recipe, as pydantic checks it."""
    from uol.order.config import ModelConfig, ScoringConfig
    from uol.training.recipe import Augmentation, Recipe

    groups = [
        ("Training", Recipe, "", "`--set NAME=VALUE` changes one; in a recipe file it is `NAME: VALUE`."),
        ("Network: `model`", ModelConfig, "model.", "`--set model.NAME=VALUE`. A model folder stores them."),
        ("Scoring: `scoring`", ScoringConfig, "scoring.", "`--set scoring.NAME=VALUE`. A model folder stores them."),
        ("Augmentation: `augmentation`", Augmentation, "augmentation.", "`--set augmentation.NAME=VALUE`."),
    ]
    parts = [MADE, "# Settings\n\nA setting that does not exist, or a value out of bounds, is refused in one line.\n"]
    for title, kind, prefix, words in groups:
        rows = [_setting(prefix + name, field) for name, field in kind.model_fields.items() if name not in GROUPS]
        parts.append(f"\n## {title}\n\n{words}\n\n{table(['Setting', 'Values', 'Default', 'What it does'], rows)}")
    return "".join(parts)


GROUPS = ("model", "scoring", "augmentation")


def _setting(name: str, field: Any) -> list[str]:
    default = field.default if not isinstance(field.default, tuple) else list(field.default)
    shown = "" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    return [f"`{name}`", _values(field), shown, _literal(field.description or "")]


def _values(field: Any) -> str:
    from typing import Literal, get_args, get_origin

    if get_origin(field.annotation) is Literal:
        return " / ".join(f"`{value}`" for value in get_args(field.annotation))
    word = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
    word = {"str": "text", "bool": "true / false", "int": "whole number", "float": "number"}.get(word, word)
    word = re.sub(r"typing\.|, FieldInfo\(.*", "", word)
    word = (
        "list" if word.startswith("tuple") else word.replace("str | None", "text").replace("int | None", "whole number")
    )
    return word + _bounds(field)


def _bounds(field: Any) -> str:
    words = {"Gt": "above {gt}", "Ge": "from {ge}", "Lt": "below {lt}", "Le": "to {le}"}
    found = [words[type(one).__name__].format(**one.__dict__ if hasattr(one, "__dict__") else _slots(one))
             for one in field.metadata if type(one).__name__ in words]  # fmt: skip
    return f", {' '.join(found)}" if found else ""


def _slots(bound: Any) -> dict[str, Any]:
    return {name: getattr(bound, name) for name in ("gt", "ge", "lt", "le") if hasattr(bound, name)}


def recipes() -> str:
    """The recipes that ship, each as its file."""
    from uol.training.recipe import shipped

    folder = resources.files("uol.training") / "recipes"
    words = (
        "`uol train --recipe NAME` takes one; a file of yours begins with `base: NAME` and has what differs. "
        "[Settings](settings.md) lists every setting; what a recipe does not name has its default.\n"
    )
    parts = [MADE, "# Recipes\n\n", words]
    for name in shipped():
        text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
        parts.append(f"\n## {name}\n\n```yaml\n{text}```\n")
    return "".join(parts)


# -------------------------------------------------------------------- data sets and models


def data_sets() -> str:
    """What every loader expects, and the owners' terms."""
    from uol import datasets

    rows = []
    for name in datasets.names():
        known = datasets.info(name)
        scale = f"{known.scale.low:g} to {known.scale.high:g}" if known.scale else "unrated, or yours"
        words = [known.title, str(known.images or "any"), scale, known.expects, known.terms]
        rows.append([f"`{name}`", *map(_literal, words)])
    head = ["Name", "Title", "Images", "Scale", "What the loader expects", "Terms"]
    words = "What `uol data list` prints. [Data sets](../datasets.md) has a card for each.\n\n"
    return MADE + "# Loaders\n\n" + words + table(head, rows)


def released() -> list[str]:
    """The models that ship."""
    from uol.scoring import released

    return released.names()


def card(name: str) -> str:
    """The card of a model that ships, without its metadata."""
    from uol.scoring.cards import without_metadata
    from uol.scoring.released import find_model

    return MADE + without_metadata((find_model(name) / "README.md").read_text(encoding="utf-8"))


def outside(path: str) -> str:
    """A document of the repository that is not among the documentation's files; its links become words."""
    text = (Path(__file__).parents[1] / path).read_text(encoding="utf-8")
    return MADE + re.sub(r"\[([^\]]*)\]\((?!http)[^)]*\)", r"\1", text)
