"""A model of several panels to be given away: which panel answers by default, and what its card says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from uol import datasets
from uol.errors import CallError
from uol.experiments.card_parts import filled, groups_text, network_rows, taught_by
from uol.experiments.leave_one_out import LEAVE_ONE_OUT, LeftOut, read_left_out
from uol.experiments.leave_one_out_tables import pc_interval
from uol.experiments.rows import Cells, interval_of, mean
from uol.experiments.summary_tables import CHOSEN_ON
from uol.reports.formats import format_interval, markdown
from uol.runs.bootstrap import mean_of
from uol.runs.result import Metrics, PanelFigures, Result
from uol.scoring.cards import LICENCE, metadata
from uol.scoring.scorer import Scorer


class PanelSummary(NamedTuple):
    """Means of a panel's figures over networks, a table of them, and each network's figures by group."""

    pc: float | None
    mae: float | None
    rmse: float | None
    table: str
    groups: list[dict[str, Any]]
    same_images: bool


def best_reader(found: Sequence[LeftOut], panels: Sequence[str]) -> str:
    """The panel on whose scale panels left out are predicted best.

    Panels left out differ in how well any network predicts them. Therefore a panel is judged by how far its PC is above
    the mean of all panels that read the same images: the mean of that over panels left out.
    """
    gains: dict[str, list[float]] = {}
    for one in found:
        read = {panel: figures.pc for panel, figures in one.readings.items() if figures.pc is not None}
        known = {panel: pc for panel, pc in read.items() if panel in panels}
        for panel, pc in known.items() if len(known) > 1 else ():
            gains.setdefault(panel, []).append(pc - fmean(known.values()))
    if not gains:
        raise CallError("no two panels read the same panel left out: which answers by default cannot be chosen")
    return max(gains, key=lambda panel: fmean(gains[panel]))


def with_first(scorer: Scorer, name: str) -> Scorer:
    """The same network, which answers by default on the scale of another panel that it knows."""
    scorers = {panel.name: scorer.on_panel(panel.name) for panel in scorer.panels}
    first = scorers.pop(name)
    return first.with_panels([scorers[name] for name in sorted(scorers)])  # as a folder has them


def left_out_of(made: Mapping[str, Any], results: Path) -> list[LeftOut]:
    """What networks measured on panels left out of them: of the recipe named for this, then of the model's own."""
    recipe = made["left_out"]
    names = {one["name"] for one in made["panels"]}
    found = [
        one
        for one in (read_left_out(results / LEAVE_ONE_OUT) if (results / LEAVE_ONE_OUT).is_dir() else [])
        if one.method == made["settings"]["method"]
        and one.recipe in (recipe, made["recipe"])
        and {one.left_out, *(panel.name for panel in one.panels)} <= names
    ]
    if not any(one.recipe == recipe for one in found):
        raise CallError(
            f"{results / LEAVE_ONE_OUT}: no results of recipe {recipe} on panels left out; name another with --left-out"
        )
    return sorted(found, key=lambda one: one.recipe != recipe)


def panels_card(
    name: str,
    scorer: Scorer,
    made: Mapping[str, Any],
    results: Sequence[Result],
    tested: str,
    left_out: Sequence[LeftOut],
) -> list[str]:
    """What the card of several panels says of the network, of its figures on each and on panels left out."""
    first, others = scorer.panel.name, [panel.name for panel in scorer.panels[1:]]
    figures = {panel["name"]: panel_figures(panel["name"], results, "split" in made) for panel in made["panels"]}
    says = f"""It says what each of {1 + len(others)} panels would say of a photograph of a face: the panel's mean score
        on its scale, a 95 % interval for that mean, and how widely single raters would differ. Without a panel's name
        it answers for {first}, the one that predicts panels left out best. **It measures nothing about a person.** It
        must not be used to judge, select, rank for a decision, or identify anyone."""
    numbers = {one: {"pearsonr": found.pc, "mae": found.mae, "rmse": found.rmse} for one, found in figures.items()}
    parts = [
        metadata(first, name, LICENCE, numbers[first], {other: numbers[other] for other in others}),
        f"""# {name}

{filled(says)}

```python
from uol import Scorer

Scorer.from_pretrained("{name}").score(["photo.jpg"])
Scorer.from_pretrained("{name}", panel="{others[0]}").score(["photo.jpg"])
```

| | |
|---|---|
{network_rows(scorer)}
| recipe | `{results[0].recipe}`{taught_by(made["settings"]["teachers"])} |
| settings chosen on | {CHOSEN_ON.get(results[0].recipe, "unknown")} |

{panels_table(scorer, made)}
{tested}
""",
    ]
    for panel in scorer.panels:
        found = figures[panel.name]
        parts += [
            f"\n## How well it agrees with the panel of {panel.name}\n",
            found.table,
            "\nBy group, on the same test images (the interval is of the images drawn; bias is prediction − score):\n",
            groups_text(found.groups, found.same_images),
        ]
    parts += ["\n## Panels it never saw\n\n", left_out_table(first, left_out)]
    for one in left_out:
        if first in one.readings:
            parts += [
                f"\n## If {one.left_out} is left out: a network of `{one.recipe}`, not this one, read on {first}\n",
                f"\nMAE and bias are on the scale of {first}.\n",
                groups_text([one.readings[first].groups or {}], same_images=True),
            ]
    return parts


def panels_table(scorer: Scorer, made: Mapping[str, Any]) -> str:
    """Each panel's scale and images, and how many references it has."""
    used = {one["name"]: one for one in made["panels"]}
    references = {scorer.panel.name: len(scorer.references.scores)}
    references |= {name: len(parts.references.score) for name, parts in scorer.other_panels.items()}
    rows: list[Cells] = [
        {
            "panel": panel.name,
            "scale": f"{panel.low:g} to {panel.high:g}",
            "training": used[panel.name]["training"],
            "held_out": used[panel.name]["held_out"],
            "references": references[panel.name],
        }
        for panel in scorer.panels
    ]
    columns = {"panel": "panel", "scale": "scale", "training": "images that trained",
               "held_out": "images that calibrate", "references": "references"}  # fmt: skip
    return markdown(rows, columns)


def panel_figures(name: str, results: Sequence[Result], of_itself: bool = False) -> PanelSummary:
    """Figures on a panel's test images: of the first that trained the networks, or of another of theirs.

    They are of the network itself or, if all images trained it, of others.
    """
    if results[0].provenance.data.name == name:
        found: Sequence[Metrics] = [result.metrics for result in results]
        drawn = [result.replicates for result in results]
        groups = [result.groups or {} for result in results]
        same = len({result.split for result in results}) == 1
    else:
        panels: list[PanelFigures] = [
            result.beside[name] for result in results if result.beside and name in result.beside
        ]
        if len(panels) < len(results):
            raise CallError(f"a result of {results[0].recipe} has no figures on {name}, which its networks learnt from")
        found, drawn, groups = panels, [one.replicates for one in panels], [one.groups or {} for one in panels]
        same = len({one.split for one in panels}) == 1
    means = {key: mean(getattr(one, key) for one in found) for key in (*_NAMES, *_MORE)}
    ends = {key: mean_of([None if one is None else getattr(one, key) for one in drawn]) for key in _NAMES}
    rows: list[Cells] = [
        {"figure": words, "value": means[key], "interval": format_interval(interval_of(ends[key]))}
        for key, words in _NAMES.items()
    ]
    rows += [{"figure": words, "value": means[key], "interval": None} for key, words in _MORE.items()]
    value = "value" if of_itself else "mean over networks"
    shown = {"figure": "", "value": value, "interval": "95 % interval over images"}
    table = "\n" + markdown(rows, shown)
    return PanelSummary(means["pc"], means["mae"], means["rmse"], table, groups, same)


_NAMES = {"pc": "Pearson correlation", "mae": "mean absolute error", "rmse": "root mean squared error"}
_MORE = {
    "spearman": "Spearman correlation",
    "coverage": "share of panel means inside their 95 % interval",
    "dispersion_pc": "correlation of predicted and real spread of ratings",
}


def left_out_table(first: str, found: Sequence[LeftOut]) -> str:
    """Figures on panels left out of training, by the panel that reads them."""
    rows: list[Cells] = [
        {
            "recipe": f"`{one.recipe}`",
            "left_out": one.left_out,
            "trained": " + ".join(panel.name for panel in one.panels),
            "read_on": panel,
            "pc": figures.pc,
            "interval": format_interval(pc_interval(figures)),
        }
        for one in found
        for panel, figures in one.readings.items()
    ]
    columns = {"recipe": "recipe", "left_out": "left out", "trained": "trained on", "read_on": "read on", "pc": "PC",
               "interval": "95 % interval"}  # fmt: skip
    text = f"""Other networks than this one, trained on all images of the other panels and tested on all images of the
        one left out. The default panel is {first}: with `{found[0].recipe}` its PC is highest above the mean of the
        panels that read the same images. For the mean of a panel that nobody has seen, use `--interval new-panel`."""
    return f"{filled(text)}\n\n{markdown(rows, columns)}"


def licences(panels: Sequence[str]) -> str:
    """The terms of every data set that the weights were learnt from."""
    lines = [f"- {_title(name)}: {_terms(name)}." for name in panels]
    text = """The weights are for non-commercial research only, after the terms of all data sets they were learnt from.
        The code has its own licence."""
    return f"{filled(text)}\n\n" + "\n".join(lines)


def _title(name: str) -> str:
    return datasets.info(name).title if name in datasets.names() else name


def _terms(name: str) -> str:
    return datasets.info(name).terms if name in datasets.names() else "its owner's terms"
