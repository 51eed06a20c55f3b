"""Documents: links lead to files and headings, the README is short, and the examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import uol

ROOT = Path(__file__).parents[1]
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted(path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts)]
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
DOCUMENTED = re.findall(r"^   (uol\S*)$", (ROOT / "docs/reference/python.md").read_text(encoding="utf-8"), re.M)


def text_of(path):
    return re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.S)


def anchors(path):
    """The addresses of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_made_by_the_build(path):
    return path.parent == ROOT / "docs" / "reference" / "generated"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if is_made_by_the_build(target):
            continue
        assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
        if heading:
            assert heading in anchors(target), f"{page.relative_to(ROOT)}: {link}"


def test_the_readme_is_short():
    assert len(TOP[0].read_text(encoding="utf-8").splitlines()) <= 90


def test_pages_say_what_a_prediction_is():
    for name in ("README.md", "docs/index.md", "docs/start/first-score.md", "docs/understand/use.md", "docs/models.md"):
        words = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        assert re.search(r"measures? nothing about (a|the) person", words), name


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("name", sorted({*uol.__all__} - {"__version__"}))
def test_what_uol_exports_has_an_example(name):
    assert "\n    >>> " in getattr(uol, name).__doc__


@pytest.mark.parametrize("name", DOCUMENTED)
def test_everything_public_has_a_docstring(name):
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [word for word in vars(module) if not word.startswith("_")])
    for word in names:
        thing = getattr(module, word)
        if callable(thing) and getattr(thing, "__module__", "").startswith("uol") and not hasattr(thing, "__origin__"):
            assert (thing.__doc__ or "").strip(), f"{name}.{word}"
