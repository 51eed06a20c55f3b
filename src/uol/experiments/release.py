"""A model ready to be given away: weights in 16 bits, graphs for onnxruntime, and a card with measured figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uol.errors import CallError, UolError
from uol.experiments.anchoring_curve import Anchoring, read_anchorings
from uol.experiments.card_parts import filled, groups_text, network_rows, taught_by, tested_text
from uol.experiments.kept_predictions import kept_words
from uol.experiments.leave_one_out import LeftOut
from uol.experiments.release_panels import best_reader, left_out_of, licences, panels_card, with_first
from uol.experiments.rows import Row, make_rows, of_one_seed
from uol.experiments.summary_tables import CHOSEN_ON
from uol.reports.formats import format_interval, markdown
from uol.runs.folder import RunFolder
from uol.runs.result import Data, Result, is_fold
from uol.runs.result_checks import other_setting, read_results
from uol.scoring.cards import LICENCE, metadata
from uol.scoring.folder import PROVENANCE, check_target, load_scorer, save_scorer
from uol.scoring.onnx_export import write_graphs
from uol.scoring.released import CARD, fingerprint
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing_folder, write_json, write_text
from uol.storage.validation import read_object

_WATTS = {"H200": 700, "H100": 700, "A100": 400}
_PANELS = {
    "scut-fbp5500": " This one was sixty\n  raters, of frontal photographs of Asian and Caucasian faces.",
}


def release(run: Path, out: Path, recipe: str, results: Path, left_out: str | None = None) -> tuple[int, float]:
    """Write a model folder from a run; its size in bytes, and how far graphs are from PyTorch.

    The card's figures are those that the run measured on its test images. A run on whole data sets has none: then they
    are those of networks that the same recipe made of the data set's folds. Of several panels, the first, on whose
    scale the model answers by default, is the one that reads panels left out best in the results of the recipe
    `left_out`, by default the same recipe.
    """
    made = {**provenance_of(RunFolder(run)), "recipe": recipe}
    found = results_of(made, results)
    check_target(out)
    scorer = load_scorer(RunFolder(run).model)
    if made.get("panels"):
        made["left_out"] = left_out or recipe
        measured = [one for one in left_out_of(made, results) if one.recipe == made["left_out"]]
        scorer = with_first(scorer, best_reader(measured, [one["name"] for one in made["panels"]]))
    with replacing_folder(out) as temporary:
        save_scorer(scorer, temporary, half=True)
        difference = write_graphs(load_scorer(temporary), temporary)
        write_json(temporary / PROVENANCE, made)
        write_text(temporary / CARD, _card(out.name, scorer, made, found, temporary, results))
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file()), difference


def renewed_card(folder: Path, results: Path) -> str:
    """The card of a released model as the results make it."""
    made = _known(folder / PROVENANCE, read_object(folder / PROVENANCE))
    return _card(folder.name, load_scorer(folder), made, results_of(made, results), folder, results)


def _card(
    name: str, scorer: Scorer, made: Mapping[str, Any], found: Sequence[Result], folder: Path, results: Path
) -> str:
    curves = curves_of(folder, results)
    left_out = left_out_of(made, results) if made.get("panels") else ()
    kept = kept_words(found, results / _data_of(made)) == "yes"
    return card(name, scorer, made, found, curves, left_out, kept)


def card(
    name: str,
    scorer: Scorer,
    made: Mapping[str, Any],
    results: Sequence[Result],
    curves: Sequence[Anchoring] = (),
    left_out: Sequence[LeftOut] = (),
    kept: bool = True,
) -> str:
    """The model card: what it says, how well, for whom, and what must not be done with it.

    `kept` says whether the predictions behind its figures are kept.
    """
    (row,) = make_rows(results)
    tested = tested_text(made, row["folds"], kept)
    if left_out:
        begin = panels_card(name, scorer, made, results, tested, left_out)
    else:
        begin = _of_one(name, scorer, made, results, row, tested)
    return "".join([*begin, *(_anchored(curve) for curve in curves), _closing(scorer, made)])


def _of_one(
    name: str, scorer: Scorer, made: Mapping[str, Any], results: Sequence[Result], row: Row, tested: str
) -> list[str]:
    """What the card of one panel says of the network and its figures."""
    data, panel = made["data"], scorer.panel
    says = f"""It says what the panel of {panel.name} would say of a photograph of a face: the panel's mean score from
        {panel.low:g} to {panel.high:g}, a 95 % interval for that mean, and how widely single raters would differ. **It
        measures nothing about a person.** It must not be used to judge, select, rank for a decision, or identify
        anyone."""
    parts = [
        metadata(panel.name, name, LICENCE, {"pearsonr": row["pc"], "mae": row["mae"], "rmse": row["rmse"]}),
        f"""# {name}

{filled(says)}

```python
from uol import Scorer

Scorer.from_pretrained("{name}").score(["photo.jpg"])
```

| | |
|---|---|
{network_rows(scorer)}
| trained on | {data["name"]}: {data["training"]} images, {data["held_out"]} more to calibrate intervals |
| recipe | `{results[0].recipe}`{taught_by(made["settings"]["teachers"])} |
| settings chosen on | {CHOSEN_ON.get(results[0].recipe, "unknown")} |

## How well it agrees with its panel

{tested}
""",
        _figures(row, "split" in made),
        "\nBy group, on the same test images (the interval is of the images drawn; bias is prediction − score):\n",
        groups_text([r.groups or {} for r in results], same_images=False),
    ]
    for other in sorted({key for r in results for key in r.transfer}):
        parts += ["\n", _elsewhere(other, row, results)]
    return parts


def _closing(scorer: Scorer, made: Mapping[str, Any]) -> str:
    """What every card ends with: use, limits, licence, cost and how the model was made."""
    machine, panels = made["hardware"], [panel.name for panel in scorer.panels]
    where = machine["gpu"] or machine["machine"]
    one = f"the taste of one panel, of one time and place, and what that panel got wrong.{_PANELS.get(panels[0], '')}"
    missing = (
        "Groups that are missing in the data set are predicted worse, as the figures on other data sets show, and the"
        " error is\n  not small."
    )
    poorly = (
        "Panels and groups that are missing in the data sets are predicted worse than these panels: see the figures\n"
        "  on panels left out."
    )
    several = "the tastes of its panels, of their times and places, and what they got wrong."
    if not all(parts.embeds_alike for parts in scorer.other_panels.values()):
        poorly += (
            "\n- The network is adjusted to the photographs of each panel (its batch norms). Name the panel whose\n"
            "  photographs are most like yours: those of one of its panels are scored worse on another."
        )
    terms = """The weights are for non-commercial research only, after the terms of the data set they were learnt from.
        The code has its own licence."""
    return f"""
## Intended use

For research on perception, aesthetics and rating data: predicting what a panel like this one would say of new stimuli,
choosing and balancing stimuli, comparing images, and, with some dozens of one's own rated images (`uol anchor`), moving
the whole scale to another panel. Report the panel, the interval and the figures by group with every score.

## Out of scope

Not for decisions about people, in employment, dating, insurance, advertising, moderation or anywhere else; not for
minors; not for identification, for which it has no means.

## Limits

- It repeats {one if len(panels) == 1 else several}
- {missing if len(panels) == 1 else poorly}
- Intervals hold for photographs like those of the data set. On others they are too narrow until the model is anchored.
- Photographs of low quality, turned heads, hidden faces, make-up, filters and framing change the score.

## Licence

{filled(terms) if len(panels) == 1 else licences(panels)}

## Environmental cost

{filled(_cost(made))}

## Made by

```sh
{made["command"]}
```

Commit {made["commit"]}, seed {made["settings"]["seed"]}, torch {machine["torch"]}, {where}.
"""


def _cost(made: Mapping[str, Any]) -> str:
    """What training took, in time and at most in energy."""
    seconds, gpu = made.get("seconds"), made["hardware"]["gpu"]
    if not seconds:
        return "How long training took is not known."
    text = f"Training took {seconds:.0f} s on {gpu or 'a processor'}"
    if gpu is None or (watts := next((most for name, most in _WATTS.items() if name in gpu), None)) is None:
        return f"{text}."
    more = [
        *(["its teachers"] if made["settings"]["teachers"] else []),
        *(["the networks of the folds"] if "split" not in made else []),
    ]
    others = f"{', '.join(more)} and what was tried on the way are" if more else "what was tried on the way is"
    energy = f"{seconds * watts / 3.6e6:.2g} kWh at most, at the {watts} W that the card may take"
    return f"{text}: {energy}. {others[0].upper()}{others[1:]} not counted."


def _figures(row: Row, of_itself: bool) -> str:
    found, ends = dict[str, Any](row), row["intervals"]
    names = {"pc": "Pearson correlation", "mae": "mean absolute error", "rmse": "root mean squared error"}
    rows = [
        {"figure": words, "value": found[key], "interval": format_interval(ends[key])} for key, words in names.items()
    ]
    rows += [
        {"figure": "Spearman correlation", "value": row["spearman"]},
        {"figure": "share of panel means inside their 95 % interval", "value": row["coverage"]},
        {"figure": "correlation of predicted and real spread of ratings", "value": row["dispersion_pc"]},
    ]
    value = "value" if of_itself else "mean over folds"
    return "\n" + markdown(rows, {"figure": "", "value": value, "interval": "95 % interval over images"})


def _elsewhere(other: str, row: Row, results: Sequence[Result]) -> str:
    found = [r.transfer[other] for r in results if other in r.transfer]
    pc, ends = row["transfer"][other], row["transfer_intervals"][other]
    held = [figures.coverage for figures in found if figures.coverage is not None]
    coverage = (
        f"; its 95 % intervals, not anchored, hold {sum(held) / len(held):.0%} of the panel's means" if held else ""
    )
    text = f"""Mean of {len(found)} networks, scores mapped linearly between the scales: PC {pc:.4f}
        ({format_interval(ends) or "no interval"}){coverage}."""
    groups = groups_text([figures.groups or {} for figures in found], same_images=True)
    return f"## On {other}, which it never saw\n\n{filled(text)}\n{groups}"


def _anchored(curve: Anchoring) -> str:
    rows = [
        {
            "anchors": point.anchors or "none",
            "mae": point.mean.mae,
            "rmse": point.mean.rmse,
            "coverage": point.mean.coverage,
        }
        for point in curve.points
    ]
    columns = {"anchors": "anchors", "mae": "MAE", "rmse": "RMSE", "coverage": "intervals that hold"}
    text = f"""Anchored with rated images of {curve.data}'s panel: this very model on its {curve.test} test images
        (split {curve.split}, means over {curve.points[1].draws} draws, errors as on the model's scale):"""
    return f"\n{filled(text)}\n\n{markdown(rows, columns)}"


def provenance_of(run: RunFolder) -> dict[str, Any]:
    """What is known of a run's network, with the name of its split, unless all images trained it."""
    if run.finished:
        result = run.read_result()
        return _known(run.result, {**result.provenance.model_dump(mode="json"), "split": result.split})
    if run.provenance.is_file():
        return _known(run.provenance, read_object(run.provenance))
    raise CallError(f"{run}: not a finished run of uol train")


def _known(path: Path, made: dict[str, Any]) -> dict[str, Any]:
    """Provenance that says which code trained; any other is refused."""
    if made["commit"] is None or made["modified"]:
        raise UolError(f"{path}: nobody knows which code this was; train from a git checkout without changes")
    return made


def results_of(made: Mapping[str, Any], results: Path) -> list[Result]:
    """The result of the model itself, or else those of its recipe on the folds, of one seed.

    Results of other settings are not the model's.
    """
    trained = made.get("panels") or [made["data"]]
    data, settings, recipe = _data_of(made), made["settings"], made["recipe"]
    rows = [
        r
        for r in read_results(results / data)
        if (r.method, r.recipe, r.ensemble) == (settings["method"], recipe, 1) and _is_of(r, made)
    ]
    if not rows:
        raise CallError(f"{results / data}: no results of recipe {recipe}; uol experiment add takes them there")
    if (difference := other_setting(rows[0].provenance.settings, settings)) is not None:
        raise UolError(f"{difference} in the results of {recipe}: their figures are not this model's")
    tested: Sequence[Data] = rows[0].provenance.panels or ()
    tested = tested or [rows[0].provenance.data]
    for one, other in zip(trained, tested, strict=True):
        if one["fingerprint"] != other.fingerprint:
            raise UolError(
                f"the results of {recipe} are of other ratings of {one['name']}: their figures are not this model's"
            )
    return of_one_seed(rows)


def _data_of(made: Mapping[str, Any]) -> str:
    """The name of the data sets that trained a model: that of the folder of its results."""
    return "+".join(one["name"] for one in made.get("panels") or [made["data"]])


def _is_of(result: Result, made: Mapping[str, Any]) -> bool:
    """Whether a result is of this network or, if no image was left to test it on, of a fold."""
    if "split" not in made:
        return is_fold(result.split)
    return (result.split, result.provenance.started) == (made["split"], made["started"])


def curves_of(folder: Path, results: Path) -> list[Anchoring]:
    """Curves that were measured on this very network."""
    kept = [curve for place in sorted(results.iterdir()) if place.is_dir() for curve in read_anchorings(place)]
    return [curve for curve in kept if curve.model == fingerprint(folder)]
