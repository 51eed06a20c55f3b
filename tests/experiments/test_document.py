"""Only what is between markers is made again, and the document in the repository is what its results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from measured import five_folds, measured
from uol.errors import CallError, UolError
from uol.experiments.document import DOCUMENTS, block, render, rendered
from uol.experiments.rows import Source
from uol.runs.result import write_result

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
