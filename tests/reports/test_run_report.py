"""The page on a run shows what its folder holds, and no more; its tables are those a slow reader would make."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import save_file
from scipy.stats import norm, t

from uol.errors import CallError, UolError
from uol.ratings import metrics
from uol.ratings.stats import groupings
from uol.reports import figures, run_tables
from uol.reports.run_folder import read_run, read_runs
from uol.reports.run_report import write_run_report
from uol.runs.evaluation import figures_of
from uol.runs.folder import RunFolder

RECIPE = {"method": "uol", "epochs": 100, "batch_size": 32, "threshold": 0.2, "seed": 0, "model": {"backbone": "vgg16"}}


@pytest.fixture(autouse=True)
def _sketch(request, monkeypatch):
    """Pictures take most of the time: only tests about drawing draw them."""
    if "draw" not in request.node.name:
        monkeypatch.setattr("uol.reports.html._picture", lambda figure: "data:image/png;base64,")


def losses(epochs=30, seed=0):
    """The table that training writes."""
    rng = np.random.default_rng(seed)
    x = np.arange(1, epochs + 1)
    order = 0.25 + 0.8 * np.exp(-x / 12) + rng.normal(0, 0.01, epochs)
    return pd.DataFrame(
        {
            "epoch": x, "total": order * 1.02, "order": order, "ordinal": 900 * np.exp(-x / 5) + 20,
            "dispersion": 0.02 * np.exp(-x / 20), "learning_rate": 1e-4 * (1 + np.cos(np.pi * x / epochs)) / 2 + 1e-6,
            "seconds": 1.5,
        }
    )  # fmt: skip


def predictions(images=60, seed=0):
    """Predictions whose errors shrink high scores, with two groupings."""
    rng = np.random.default_rng(seed)
    score = np.clip(rng.normal(2.9, 0.7, images), 1.02, 4.75)
    value = np.clip(2.9 + 0.9 * (score - 2.9) + rng.normal(0, 0.25, images), 1, 5)
    half = rng.uniform(0.4, 0.6, images)
    spread = rng.uniform(0.4, 0.9, images)
    return pd.DataFrame(
        {
            "image": [f"face-{seed}-{k}.jpg" for k in range(images)], "score": score, "rating_sd": spread,
            "value": value, "low": np.clip(value - half, 1, 5), "high": np.clip(value + half, 1, 5),
            "dispersion": spread * 0.6 + 0.25 + rng.normal(0, 0.05, images),
            "gender": rng.choice(["female", "male"], images), "ethnicity": rng.choice(["Asian", "Caucasian"], images),
        }
    )  # fmt: skip


def result(table, split="fold-1", **changes):
    """The result of a run with these predictions."""
    provenance = {
        "command": f"uol train --data scut-fbp5500 --fold all --out runs/{changes.get('method', 'uol')}",
        "commit": "0123456789abcdef0123456789abcdef01234567", "modified": False, "uol": "0.1.0",
        "started": "2026-11-15T07:00:00+00:00", "settings": RECIPE, "changes": {"precision": "bf16-mixed"},
        "data": {"name": "scut-fbp5500", "fingerprint": "ab" * 32, "training": 4180, "held_out": 220, "test": 1100},
        "hardware": {"machine": "x86_64, 16 cores", "gpu": None, "python": "3.12.3", "torch": "2.11.0"},
        "seconds": 104.2, "seconds_per_epoch": 1.02,
    }  # fmt: skip
    told = figures_of(table, 0.2)
    return {
        "experiment": "scut-fbp5500", "method": "uol", "recipe": "paper", "trained_on": "scut-fbp5500", "split": split,
        "seed": 0, "ensemble": 1, "metrics": {k: None if v != v else v for k, v in told.items()}, "score_sd": 0.69,
        "transfer": {"mifs": {"images": 90, "pc": 0.4321}}, "provenance": provenance,
    } | changes  # fmt: skip


def add_model(folder, seed=0, images=400):
    """The parts of a model folder that the report reads."""
    scores = np.random.default_rng(seed).uniform(1.2, 4.6, images)
    config = {
        "panel": {"name": "a", "low": 1.0, "high": 5.0},
        "bradley_terry": {"k": 6.25, "delta": 0.75},
        "calibration": {"level": 0.95},
    }
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(config))
    save_file({"score": scores, "mean": np.zeros((images, 4))}, folder / "model" / "references.safetensors")


def make_run(folder, table=None, epochs=30, split="fold-1", model=True, **changes):
    """A run folder; without predictions, one that has not finished."""
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    losses(epochs).to_csv(folder / "metrics.csv", index=False)
    (folder / "log.txt").write_text("07:00 started\n07:01 epoch 30 done\n")
    if table is not None:
        table.to_csv(folder / "predictions.csv", index=False)
        (folder / "result.json").write_text(json.dumps(result(table, split, **changes)))
        (folder / "evaluations").mkdir()
        other = {"data": "mebeauty", "split": "test", "images": 2550, "pc": 0.6543, "mae": 0.5, "by_group": {}}
        (folder / "evaluations" / "mebeauty.json").write_text(json.dumps(other))
    if model and table is not None:
        add_model(folder, seed=len(split) + ord(split[-1]))
    return folder


def page(folder):
    write_run_report(folder, folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def titles(text):
    return [unescape(title) for title in re.findall("<h2>(.*?)</h2>", text)]


def rows_of(text, title):
    """The cells of a section's table, by the first of each row."""
    body = text.split(f"<h2>{title}</h2>")[1].split("</table>")[0]
    rows = [re.findall("<td.*?>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", body)]
    return {unescape(row[0]): row[1:] for row in rows if row}


@pytest.mark.slow
def test_a_whole_run_draws(tmp_path):
    table = predictions()
    text = page(make_run(tmp_path / "run", table))
    assert titles(text) == [
        "What was trained", "Figures", "Training", "Scores", "Error by score", "Error by gender", "Error by ethnicity",
        "Error by gender × ethnicity", "Calibration", "Raters who disagree", "The reference set", "Worst cases",
        "Other data sets",
    ]  # fmt: skip
    assert "<h1>uol on scut-fbp5500, fold-1</h1>" in text
    assert text.count("data:image/png") == 9
    assert "http" not in text
    facts = rows_of(text, "What was trained")
    assert facts["recipe"] == ["paper"]
    assert facts["changed settings"] == ["precision=bf16-mixed"]
    assert facts["images"] == ["4180 training, 220 held out, 1100 test"]
    assert facts["hardware"] == ["x86_64, 16 cores, no GPU, Python 3.12.3, torch 2.11.0"]
    assert facts["time"] == ["104 s, 1.02 s per epoch"]
    assert rows_of(text, "The reference set")["400"][-2:] == ["6.2500", "0.7500"]
    others = rows_of(text, "Other data sets")
    assert others["mebeauty"][:3] == ["test", "2550", "0.6543"]
    assert others["mifs"][1:3] == ["90", "0.4321"]


def test_tables_are_those_of_slow_recomputation(tmp_path):
    table = predictions()
    text = page(make_run(tmp_path / "run", table))
    error = table["value"] - table["score"]
    women = table[table["gender"] == "female"]
    wrong = error[women.index]
    half = t.ppf(0.975, len(wrong) - 1) * wrong.std() / len(wrong) ** 0.5
    held = [low <= score <= high for low, score, high in zip(women["low"], women["score"], women["high"], strict=True)]
    men = table[table["gender"] == "male"]
    pc, other = (np.corrcoef(part["score"], part["value"])[0, 1] for part in (women, men))
    own, others = (
        np.tanh(np.arctanh(r) + np.array([-1, 1]) * norm.ppf(0.975) / (len(part) - 3) ** 0.5)
        for r, part in ((pc, women), (other, men))
    )
    low = pc - other - ((pc - own[0]) ** 2 + (others[1] - other) ** 2) ** 0.5
    high = pc - other + ((own[1] - pc) ** 2 + (other - others[0]) ** 2) ** 0.5
    found = rows_of(text, "Error by gender")["female"]
    assert found[:3] == [str(len(women)), f"{pc:.4f}", f"{own[0]:.4f}–{own[1]:.4f}"]
    assert found[3:6] == [f"{other:.4f}", f"{pc - other:.4f}", f"{low:+.4f} to {high:+.4f}"]
    cells = [wrong.abs().mean(), (wrong**2).mean() ** 0.5]
    cells += [wrong.mean(), wrong.mean() - half, wrong.mean() + half, np.mean(held)]
    assert found[6:] == [f"{cell:.4f}" for cell in cells]
    behind = ("female", other - pc) if pc < other else ("male", pc - other)
    assert f"Largest gap: {behind[0]}, PC {behind[1]:.4f} below all others" in unescape(text)
    assert next(iter(rows_of(text, "Error by gender"))) == behind[0]

    inside = [e for e, score in zip(error, table["score"], strict=True) if 3 <= score < 3.5]
    images, bias, _, mae, _ = rows_of(text, "Error by score")["3.0 to 3.5"]
    assert (images, bias) == (str(len(inside)), f"{np.mean(inside):.4f}")
    assert mae == f"{np.mean(np.abs(inside)):.4f}"

    worst = rows_of(text, "Worst cases")
    order = sorted(range(60), key=lambda k: -abs(error[k]))[:20]
    assert list(worst) == [table["image"][k] for k in order]
    assert worst[table["image"][order[0]]][-2:] == [table["gender"][order[0]], table["ethnicity"][order[0]]]

    inside = 0
    for score, value, low, high in zip(table["score"], table["value"], table["low"], table["high"], strict=True):
        inside += abs(score - value) <= max(value - low, high - value) * norm.ppf(0.9) / norm.ppf(0.975)
    assert f"80 % → {100 * inside / 60:.1f} %" in text


def test_bins_hold_every_image_once():
    table = predictions(500)
    for rows in (run_tables.error_rows(table), run_tables.coverage_rows(table)):
        assert sum(row["images"] for row in rows) == 500
        assert len(rows) <= 10
    coverage = [row["coverage"] * row["images"] for row in run_tables.coverage_rows(table)]
    assert sum(coverage) / 500 == pytest.approx(metrics.coverage(table["score"], table["low"], table["high"]))
    constant = run_tables.error_rows(table.assign(score=3.0))
    assert [row["images"] for row in constant] == [500]


def test_an_unfinished_run_has_curves_and_a_sentence(tmp_path):
    folder = make_run(tmp_path / "run")
    text = page(folder)
    assert titles(text) == ["What was trained", "Training"]
    assert "training has not finished (30 of 100 epochs done)" in text
    assert "epoch 30 done" in text
    (folder / "metrics.csv").unlink()
    assert titles(page(folder)) == ["What was trained"]


@pytest.mark.slow
def test_one_epoch_and_losses_that_are_no_numbers_draw(tmp_path):
    folder = make_run(tmp_path / "run", epochs=1)
    assert "1 of 100" in page(folder)
    losses().assign(total=np.nan, order=np.inf).to_csv(folder / "metrics.csv", index=False)
    assert "Training" in titles(page(folder))


def test_what_is_missing_is_left_out(tmp_path):
    table = predictions().drop(columns=["rating_sd", "dispersion", "gender", "ethnicity"])
    folder = make_run(tmp_path / "run", table.assign(rating_sd=np.nan, dispersion=np.nan), model=False, transfer={})
    (folder / "evaluations" / "mebeauty.json").unlink()
    expected = [
        "What was trained", "Figures", "Training", "Scores", "Error by score", "Calibration", "Worst cases",
    ]  # fmt: skip
    assert titles(page(folder)) == expected
    table.drop(columns=["low", "high"]).to_csv(folder / "predictions.csv", index=False)
    (folder / "result.json").unlink()
    text = page(folder)
    assert titles(text) == [title for title in expected if title != "Calibration"]
    assert "intervals hold" not in text
    assert rows_of(text, "Figures")["60"][-4:] == ["–", "–", "–", "–"]  # order, coverage, width, dispersion


def test_figures_come_from_the_predictions_where_no_result_tells_them(tmp_path):
    folder = make_run(tmp_path / "run", predictions())
    told = rows_of(page(folder), "Figures")
    (folder / "result.json").unlink()
    assert rows_of(page(folder), "Figures") == told


def test_a_result_without_predictions_keeps_its_figures(tmp_path):
    folder = make_run(tmp_path / "run", predictions(), model=False)
    for name in ("predictions.csv", "recipe.yaml", "metrics.csv"):
        (folder / name).unlink()
    text = page(folder)
    assert "figures, but not the predictions" in text
    assert titles(text) == ["What was trained", "Figures", "Other data sets"]


def test_predictions_that_are_no_numbers_are_counted(tmp_path):
    table = predictions()
    table.loc[:2, "value"] = np.nan
    text = page(make_run(tmp_path / "run", table, metrics={}))
    assert "57 test images" in text
    assert "Left out without a finite score or value: 3 predictions." in text
    text = page(make_run(tmp_path / "diverged", table.assign(value=np.nan), metrics={}))
    assert "Left out without a finite score or value: 60 predictions." in text


@pytest.mark.slow
def test_five_folds_make_one_page(tmp_path):
    folds = {f"fold-{k}": predictions(40, seed=k) for k in range(1, 6)}
    for name, table in folds.items():
        make_run(tmp_path / "runs" / name, table, split=name)
    make_run(tmp_path / "runs" / "fold-10")
    (tmp_path / "runs" / "notes").mkdir()
    text = page(tmp_path / "runs")
    assert "<h1>uol on scut-fbp5500, 6 runs</h1>" in text
    assert "Without predictions so far: fold-10." in text
    rows = rows_of(text, "Figures")
    assert list(rows) == [*folds, "fold-10", "mean", "standard deviation", "pooled"]
    pc = [np.corrcoef(table["score"], table["value"])[0, 1] for table in folds.values()]
    assert rows["mean"][1] == f"{np.mean(pc):.4f}"
    assert rows["standard deviation"][1] == f"{np.std(pc, ddof=1):.4f}"
    pooled = pd.concat(folds.values())
    assert rows["pooled"][:3] == [
        "200", f"{np.corrcoef(pooled['score'], pooled['value'])[0, 1]:.4f}",
        f"{(pooled['score'] - pooled['value']).abs().mean():.4f}",
    ]  # fmt: skip
    assert rows_of(text, "Other data sets")["mebeauty"][1] == "mean"  # the last of its rows
    assert rows_of(text, "What was trained")["split"] == ["; ".join(folds)]


@pytest.mark.slow
def test_several_runs_draw_together(tmp_path):
    curves = figures.training_curves({f"fold-{k}": losses(5, k) for k in range(6)})
    assert len(curves.legends[0].texts) == 6
    curves.savefig(tmp_path / "curves.png")
    figures.reference_scores([np.linspace(1, 5, 50), np.array([3.0])]).savefig(tmp_path / "references.png")


def test_names_are_escaped(tmp_path):
    table = predictions()
    table.loc[0, ["image", "value", "gender"]] = ["<script>a&b</script>.jpg", 5.0, "<i>$x_$</i>"]
    table.loc[0, "score"] = 1.0
    text = page(make_run(tmp_path / "run", table.rename(columns={"ethnicity": "a<b"}), recipe="<u>mine"))
    assert "<script>" not in text
    assert "<i>" not in text
    assert "<u>" not in text
    assert "&lt;script&gt;a&amp;b&lt;/script&gt;.jpg" in text
    assert "Error by gender × a<b" in titles(text)


def test_groupings_of_many_or_one_group_are_left_out():
    table = predictions(100)
    table["person"] = [f"p{k}" for k in range(100)]
    table["country"] = "one"
    table["age"] = [str(k % 25) for k in range(100)]
    table.loc[0, "gender"] = ""
    assert groupings(table[run_tables.grouping_columns(table)]) == [
        ("gender",),
        ("ethnicity",),
        ("age",),
        ("gender", "ethnicity"),
    ]
    groups = [row["group"] for row in run_tables.group_rows(table, ("gender",))]
    assert set(groups[:2]) == {"female", "male"}
    assert groups[2] == "unknown"  # one image has no correlation, and so no gap


def test_how_lenient_raters_are_is_told_and_no_group(tmp_path):
    table = predictions(60).assign(known_raters_leniency=np.arange(60) % 3 / 10)
    text = page(make_run(tmp_path / "run", table))
    known = metrics.pearson(table["score"], table["value"] + table["known_raters_leniency"])
    assert f"With the leniency of raters known from the training images, PC is {known:.4f}." in text
    assert not [title for title in titles(text) if "leniency" in title]
    assert "leniency of raters" not in page(make_run(tmp_path / "other", predictions(60)))


def test_names_that_look_like_numbers_or_gaps_stay_words(tmp_path):
    table = predictions(3).assign(image=["NA", "007", "1e5"])
    assert list(read_run(RunFolder(make_run(tmp_path / "run", table))).predictions["image"]) == ["NA", "007", "1e5"]


def test_a_folder_that_is_no_run(tmp_path, uol):
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2\n")
    for folder, words in ((tmp_path, "not a run folder"), (tmp_path / "none", "no such run folder")):
        with pytest.raises(CallError, match=words):
            write_run_report(folder, tmp_path / "report.html")
    code, _, err = uol("report", tmp_path)
    assert code == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_runs_of_different_methods_are_not_averaged(tmp_path):
    make_run(tmp_path / "runs" / "a", predictions())
    make_run(tmp_path / "runs" / "b", predictions(), method="regression")
    with pytest.raises(CallError, match=r"different methods \(regression, uol\)"):
        read_runs(tmp_path / "runs")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", "{"),
        ("result.json", "[1]"),
        ("recipe.yaml", "a: [1"),
        ("predictions.csv", "image,value\na,1\n"),
        ("predictions.csv", "image,score,value\na,1,high\n"),
        ("predictions.csv", ""),
        ("metrics.csv", "epoch,total\n1,much\n"),
        ("model/references.safetensors", "nothing"),
        ("evaluations/mebeauty.json", "\x00"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, content):
    folder = make_run(tmp_path / "run", predictions(12))
    (folder / file).write_text(content)
    with pytest.raises(UolError, match=re.escape(str(folder / file))) as error:
        write_run_report(folder, tmp_path / "report.html")
    assert "\n" not in str(error.value)


def test_the_command(tmp_path, uol):
    folder = make_run(tmp_path / "run")
    code, out, err = uol("report", folder)
    assert (code, out) == (0, "")
    assert f"report: {folder / 'report.html'}" in err
    assert (folder / "report.html").is_file()
    assert uol("report", folder, "--out", tmp_path / "pages" / "one.html")[0] == 0
    assert (tmp_path / "pages" / "one.html").is_file()
