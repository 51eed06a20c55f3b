"""The rooms: tests mirror them, few modules lie outside them, and none of their modules is left over."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "uol"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
TEST_FILES = sorted(TESTS.glob("*/test_*.py"))


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = ("uol", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def mentioned(path: Path) -> set[str]:
    """Every name that a file imports; in the registry of a room, every text, which may name a module of the room."""
    found, room = set(), ".".join(("uol", *path.relative_to(PACKAGE).parent.parts))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path.stem == "__init__":
            found |= {node.value, f"{room}.{node.value}"}
    return found


def test_tests_mirror_the_rooms():
    folders = {path.parent.name for path in TEST_FILES}
    assert folders - {"real"} == ROOMS  # `real` needs data that belong to others


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_test_files_are_named_after_modules(path):
    room = path.parent.name
    if room != "real":
        modules = {file.stem for file in (PACKAGE / room).glob("*.py")} | {room}
        subject = path.stem.removeprefix("test_")
        assert any(subject == module or subject.startswith(f"{module}_") for module in modules)


def test_few_modules_lie_outside_the_rooms():
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_every_module_is_imported():
    files = list(PACKAGE.rglob("*.py"))
    modules = {module_name(path) for path in files if path.stem not in ("__init__", "__main__")}
    used = set().union(*(mentioned(path) - {module_name(path)} for path in files))
    assert modules <= used, modules - used
