"""What the service says about its model."""

from __future__ import annotations

from quick import untrained
from uol.scoring.cards import FORMER_CARD
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
    card.write_text(f"{card.read_text()}\n---\n\n{FORMER_CARD}\n\n{FORMER}")
    facts = model_facts(str(tmp_path / "model"))
    assert facts.weak == []
    assert facts.panels[0].raters == "the raters of panel"
    assert facts.limits == ["This one was sixty raters, of frontal photographs."]
    card.write_text(FORMER)
    assert [one.heading for one in model_facts(str(tmp_path / "model")).weak] == ["How well it agrees with its panel"]
