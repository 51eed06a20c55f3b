"""What the service says about its model."""

from __future__ import annotations

from quick import untrained
from uol.scoring.cards import ANCHORS, FORMER_CARD
from uol.serve.facts import model_facts

FORMER = """## How well it agrees with its panel

| group | images | PC | 95 % | MAE | bias |
|---|---|---|---|---|---|
| male | 100 | 0.5 | 0.4–0.6 | 0.30 | -0.10 |

## Limits

- This one was sixty raters, of frontal photographs.
"""


def test_an_anchored_model_has_the_limits_of_the_former_but_not_its_raters_and_figures(tmp_path):
    untrained().save_pretrained(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    own = card.read_text()
    card.write_text(f"{own}\n{ANCHORS}\n\n---\n\n{FORMER_CARD}\n\n{FORMER}")
    facts = model_facts(str(tmp_path / "model"))
    assert facts.weak == []
    assert facts.panels[0].raters == "the raters of panel"
    assert facts.limits == ["This one was sixty raters, of frontal photographs."]
    for whole in (FORMER, f"{own}\n---\n\n{FORMER_CARD}\n\n{FORMER}"):  # released, and saved again as it is
        card.write_text(whole)
        weak = model_facts(str(tmp_path / "model")).weak
        assert [one.heading for one in weak] == ["How well it agrees with its panel"]


def test_a_folder_anchored_by_an_earlier_version_has_no_figures_of_the_former(tmp_path):
    untrained().save_pretrained(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    earlier = "The card of the model that was anchored, whose terms hold for this one too:"
    card.write_text(f"{card.read_text()}\n{ANCHORS}\n---\n\n{earlier}\n\n{FORMER}")
    assert model_facts(str(tmp_path / "model")).weak == []
