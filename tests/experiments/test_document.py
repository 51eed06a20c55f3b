"""Only what is between markers is made again, and the document in the repository is what its results say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from measured import five_folds, measured
from uol.errors import CallError, UolError
from uol.experiments.document import DOCUMENTS, block, render, rendered
from uol.experiments.kept_predictions import kept_path, kept_words
from uol.experiments.leave_one_out import LEAVE_ONE_OUT
from uol.experiments.plans import PLANS
from uol.experiments.rows import Source, find_source
from uol.runs.result import Result, write_result

REPOSITORY = Path(__file__).parents[2]
TEXT = (
    "# Prose\r\n\n<!-- table: scut-fbp5500 -->\nold\n<!-- end -->\nbetween\n<!-- table: other folds -->\n<!-- end -->"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS, ids=str)
def test_documents_are_what_the_results_say(name):
    document = REPOSITORY / name
    assert rendered(document, REPOSITORY / "results" / DOCUMENTS[name]) == document.read_text(encoding="utf-8"), (
        f"{name} differs from results/: run uol experiment docs --out {name}"
    )


# What the page says of the results that have predictions.
SAID = """the headline, the ladder's first ten rows, the settings on SCUT-FBP5500, panels nobody has seen, networks of
three panels, and of the other tables `paper` and `matched-landmarks` alone"""


@pytest.mark.slow
def test_the_page_says_which_of_its_tables_can_be_computed_again():
    page = (REPOSITORY / "docs/results.md").read_text(encoding="utf-8")
    assert " ".join(SAID.split()) in " ".join(page.split())
    kept = {}
    for name, kind, recipes in re.findall(r"^<!-- table: (\S+)(?: (\S+))?(.*) -->$", page, flags=re.M):
        if kind in ("headline", "earlier"):  # one shows what is kept, the other the rest
            continue
        source = find_source(REPOSITORY / "results", name).only(recipes.split())
        kept[f"{name} {kind}".strip()] = [(one.recipe, kept_of(one)) for one in [*source.results, *source.left_out]]
    assert {words for name in ("brief", "means") for _, words in kept.pop(f"leave-one-out {name}")} == {"yes"}
    assert {words for _, words in kept.pop("sensitivity settings")} == {"not on mebeauty"}
    assert {table: {recipe for recipe, words in found if words == "yes"} for table, found in kept.items()} == {
        "ladder": {row.recipe for row in PLANS["ladder"].rows[:10]},
        "methods published": {"matched-landmarks"},
        "mebeauty main": {"paper"},
    }
    three = find_source(REPOSITORY / "results", "scut-fbp5500+mebeauty+omi").results
    assert {kept_of(one) for one in three} == {"yes"}


def kept_of(one):
    """Whether all predictions of a result are kept."""
    folder = REPOSITORY / "results"
    if isinstance(one, Result):
        return kept_words([one], folder / one.trained_on)
    found = [kept_path(folder / LEAVE_ONE_OUT / one.file_name, panel).is_file() for panel in one.readings]
    return "yes" if all(found) else "no"


@pytest.mark.parametrize("name", ["README.md", "docs/results.md"])
def test_every_row_named_for_a_headline_is_in_it_or_in_the_table_of_those_that_are_none(name):
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    found = re.findall(r"^<!-- table: scut-fbp5500 (headline|earlier)([^\n]*) -->$(.*?)<!-- end -->", text, re.M | re.S)
    assert [kind for kind, *_ in found] == ["headline", "earlier"][: len(found)]
    assert found, "no headline"
    assert len({recipes for _, recipes, _ in found}) == 1
    shown = re.findall(r"^\| `(.*?)`", "".join(table for *_, table in found), flags=re.M)
    assert sorted(shown) == sorted(found[0][1].split())


def source_of(name):
    return Source(five_folds() if name == "scut-fbp5500" else [])


def test_only_blocks_change():
    found = render(TEXT, source_of)
    assert found.startswith("# Prose\r\n\n<!-- table: scut-fbp5500 -->\n\n| method |")
    assert "\nold\n" not in found
    assert "| uol | paper | 1 | 5 | 0.9200 |" in found
    assert found.endswith("\n\n<!-- end -->\nbetween\n<!-- table: other folds -->\n\nNo results yet.\n\n<!-- end -->")
    assert render(found, source_of) == found


def test_blocks_with_nothing_to_show():
    assert "No results yet" in block("main", Source())
    assert "more than one seed" in block("seeds", Source(five_folds()))
    assert "another data set" in block("transfer", Source(five_folds()))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("<!-- table: scut-fbp5500 -->\n", "<!-- table: scut-fbp5500 --> has no line"),
        ("<!-- table: scut-fbp5500 -->\n<!-- table: b -->\n<!-- end -->\n", "<!-- table: scut-fbp5500 --> has no line"),
        ("<!-- end -->\n", "without a block"),
        ("<!-- table: scut-fbp5500 best -->\n<!-- end -->\n", "no table called 'best'"),
    ],
)
def test_broken_markers(tmp_path, text, match):
    (tmp_path / "results.md").write_text(text)
    with pytest.raises(UolError, match=match) as caught:
        rendered(tmp_path / "results.md", tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "results.md"))


def test_from_files(tmp_path):
    write_result(tmp_path / "results" / "scut-fbp5500" / "one.json", measured())
    (tmp_path / "results" / "other").mkdir()
    (tmp_path / "results.md").write_text(TEXT)
    assert "| uol | paper | 1 | 1 | 0.9000 |" in rendered(tmp_path / "results.md", tmp_path / "results")
    with pytest.raises(CallError, match="absent.md: not there"):
        rendered(tmp_path / "absent.md", tmp_path)
    (tmp_path / "prose.md").write_text("# Nothing but prose\n")
    with pytest.raises(CallError, match="nothing to make"):
        rendered(tmp_path / "prose.md", tmp_path)
    (tmp_path / "typo.md").write_text("<!-- table: scut-fbp550 -->\n<!-- end -->\n")
    with pytest.raises(UolError, match="scut-fbp550 -->: no table of that name"):
        rendered(tmp_path / "typo.md", tmp_path)
