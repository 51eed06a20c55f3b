"""Plans as they are run: every row on every fold, once; what fails does not stop the rest."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol.errors import CallError
from uol.experiments import runner
from uol.experiments.listing import count_there
from uol.experiments.plans import PLANS, Plan, PlanRow
from uol.experiments.rescoring import Consistency
from uol.experiments.runner import Bench, Outcome, jobs_of, run_jobs, time_left
from uol.order.consistency import estimate_by_consistency
from uol.ratings import metrics
from uol.runs.folder import RunFolder
from uol.runs.makeup import Votes
from uol.runs.read_run import read_run
from uol.runs.train_and_test import Origin, train_and_test
from uol.runs.transfer import BY_DEFAULT, MakeupRule, OtherDataset, judged, load_other
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages

ORDER = PlanRow("b", "order-learning", "matched")
ROWS = (
    PlanRow("a", "regression", "matched"),
    ORDER,
    PlanRow("c", "order-learning", "matched-consistency", network=ORDER, read_by="consistency"),
)


@pytest.fixture(autouse=True, scope="module")
def _quick():
    """Rows train the tiny network of tests, for two epochs."""

    def settings(row, changes):
        return quick_recipe(epochs=2, method=row.method).with_changes({**changes, **row.changes})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanRow, "settings", settings)
        yield


@pytest.fixture(scope="module")
def planned(folded, _quick, tmp_path_factory):
    """All rows of fold-1, to be read or copied but not changed."""
    folder = tmp_path_factory.mktemp("plan")
    run_all(Bench(folded, folder, {}), folds=["1"])
    return folder


@pytest.fixture(scope="module")
def unrated(drawn):
    """Ten people of whom there are two photographs with make-up and two without."""
    groups = pd.DataFrame(
        [(f"{p:03}", side, take) for p in range(10) for side in ("with", "without") for take in (1, 2)],
        columns=["person", "makeup", "take"],
    )
    return replace(drawn.subset(np.arange(40)), name="mifs", scores=np.full(40, np.nan), groups=groups)


def run_all(bench, rows=ROWS, folds=()):
    told = []
    outcomes = run_jobs(jobs_of(rows, bench.rated, folds, 0), bench, lambda n, what: told.append((n, what)))
    return outcomes, told


@pytest.mark.slow
def test_a_plan_is_run_once_and_tested_on_other_sets(folded, drawn_b, unrated, tmp_path):
    others = [OtherDataset(replace(drawn_b, name="mebeauty")), OtherDataset(unrated)]
    bench = Bench(folded, tmp_path, {}, others)
    outcomes, told = run_all(bench)
    assert [o.state for o in outcomes] == ["done"] * 6
    assert [n for n, what in told if isinstance(what, Outcome)] == [1, 2, 3, 4, 5, 6]
    for outcome in outcomes:
        folder = tmp_path / outcome.job.place
        result = read_run(RunFolder(folder))
        assert (result.method, result.recipe, result.split) == (*outcome.job.row.key, outcome.job.split)
        assert result.transfer["mebeauty"].images == 80
        assert len(result.replicates.mae) == 500
        assert (result.metrics.pc is None) <= (result.replicates.pc is None)
        assert (result.makeup.pairs, result.makeup.answer, result.makeup.takes) == (10, "with make-up", "first")
        table = pd.read_csv(folder / "evaluations" / "mebeauty.csv")
        assert np.allclose(table["score"], drawn_b.scale.rescale(drawn_b.scores, folded.scale), rtol=1e-5)
        pairs = pd.read_csv(folder / "evaluations" / "mifs.csv")
        with_makeup, without = (pairs["value"][start::4].to_numpy() for start in (0, 2))
        assert result.makeup.right == (with_makeup > without).sum()
    packs = set(bench._packed)
    assert [o.state for o in run_all(bench)[0]] == ["there"] * 6
    assert set(bench._packed) == packs
    assert len(packs) == 3

    # A data set that comes later is tested without training: from the checkpoint, or from the model.
    more = replace(drawn_b, name="hot-or-not")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*/result.json")}
    assert [o.state for o in run_all(Bench(folded, tmp_path, {}, [*others, OtherDataset(more)]))[0]] == ["done"] * 6
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*/result.json")}
    for place in tmp_path.glob("*/*"):
        one, two = (pd.read_csv(place / "evaluations" / f"{name}.csv")["value"] for name in ("mebeauty", "hot-or-not"))
        assert np.allclose(one, two, atol=1e-5)


@pytest.mark.slow
def test_maximum_consistency_reads_the_same_network(folded, planned):
    network, reading = (
        read_run(RunFolder(planned / f"order-learning-{recipe}" / "fold-1"))
        for recipe in ("matched", "matched-consistency")
    )
    scorer = Scorer.from_pretrained(planned / "order-learning-matched" / "fold-1" / "model")
    test = folded.subset(folded.splits["fold-1"].test)
    outcomes = scorer.outcomes(scorer.embed(test.images)).argmax(-1)
    wanted = estimate_by_consistency(outcomes, scorer.references.scores, 0.2, (1, 5))
    found = pd.read_csv(planned / "order-learning-matched-consistency" / "fold-1" / "predictions.csv")["value"]
    assert np.allclose(found, wanted, atol=1e-4)
    assert reading.metrics.rmse == pytest.approx(metrics.rmse(test.scores, wanted), abs=1e-4)
    assert reading.metrics.coverage is None
    assert network.metrics.coverage is not None
    assert "order-learning-matched-fold-1-seed-0.json" in reading.provenance.changes["network"]
    assert not (planned / "order-learning-matched-consistency" / "fold-1" / "checkpoint.safetensors").exists()


@pytest.mark.slow
def test_what_fails_is_told_and_the_rest_runs(folded, tmp_path, monkeypatch):
    def broken(packed, name, split, recipe, *rest, **more):
        if recipe.method == "regression" and name == "fold-1":
            raise RuntimeError("out of memory\nand more")
        return whole(packed, name, split, recipe, *rest, **more)

    whole = runner.train_and_test
    monkeypatch.setattr(runner, "train_and_test", broken)
    outcomes, _ = run_all(Bench(folded, tmp_path, {}), ROWS[:1])
    assert [(o.state, o.problem) for o in outcomes] == [("failed", "RuntimeError: out of memory"), ("done", "")]
    monkeypatch.setattr(runner, "train_and_test", whole)
    alone, _ = run_all(Bench(folded, tmp_path, {}), ROWS[2:], ["2"])
    assert alone[0].state == "failed"
    assert "not trained yet" in alone[0].problem


@pytest.mark.slow
def test_a_stopped_plan_goes_on_where_it_was(folded, tmp_path):
    """Stopped after an epoch of the second network: the first is there, the second trains what is left of it."""
    epochs = []

    def stop(epoch):
        epochs.append(epoch.epoch)
        if len(epochs) == 3:
            raise KeyboardInterrupt

    jobs = jobs_of(ROWS[:1], folded, [], 0)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, Bench(folded, tmp_path / "a", {}), lambda *_: None, stop)
    outcomes = run_jobs(jobs, Bench(folded, tmp_path / "a", {}), lambda *_: None, lambda e: epochs.append(e.epoch))
    assert [o.state for o in outcomes] == ["there", "done"]
    assert epochs in ([1, 2, 1, 2], [1, 2, 1, 1, 2])  # lost is at most the epoch whose checkpoint was being written
    run_jobs(jobs, Bench(folded, tmp_path / "b", {}), lambda *_: None)
    one, two = (pd.read_csv(tmp_path / run / "regression-matched/fold-2/predictions.csv") for run in "ab")
    assert np.array_equal(one["value"], two["value"])


@pytest.mark.slow
def test_slim_runs_keep_what_results_need(folded, unrated, tmp_path):
    outcomes, _ = run_all(Bench(folded, tmp_path, {}, slim=True), folds=["fold-1"])
    assert [o.state for o in outcomes] == ["done"] * 3
    assert not list(tmp_path.glob("*/*/checkpoint.safetensors"))
    assert [o.state for o in run_all(Bench(folded, tmp_path, {}), folds=["1"])[0]] == ["there"] * 3
    later, _ = run_all(Bench(folded, tmp_path, {}, [OtherDataset(unrated)]), folds=["1"])
    assert [o.state for o in later] == ["failed", "failed", "done"]
    assert "checkpoint is gone" in later[0].problem


@pytest.mark.slow
def test_a_reading_has_nothing_of_the_network_before(folded, drawn_b, planned, tmp_path, monkeypatch):
    """Another network takes the place of the one that was read, and the first call to read it is stopped."""
    me, other = (OtherDataset(replace(drawn_b, name=name)) for name in ("mebeauty", "hot-or-not"))
    shutil.copytree(planned, tmp_path, dirs_exist_ok=True)
    run_all(Bench(folded, tmp_path, {}, [me, other]), ROWS[1:], ["1"])
    reading = tmp_path / "order-learning-matched-consistency" / "fold-1"
    before = pd.read_csv(reading / "evaluations" / "mebeauty.csv")["value"]
    shutil.rmtree(tmp_path / "order-learning-matched")
    bench = Bench(folded, tmp_path, {"learning_rate": 3e-2}, [me])
    monkeypatch.setattr("uol.storage.provenance.now", lambda: "2026-01-01T00:00:00+00:00")  # however fast the first was
    run_all(bench, ROWS[1:2], ["1"])
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_judge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_all(bench, ROWS[2:], ["1"])
    assert not (reading / "result.json").exists()
    assert not (reading / "evaluations").exists()
    assert run_all(bench, ROWS[2:], ["1"])[0][0].state == "done"
    found = pd.read_csv(reading / "evaluations" / "mebeauty.csv")["value"]
    network = Consistency(RunFolder(tmp_path / "order-learning-matched" / "fold-1"), quick_recipe())
    wanted = network.predict(bench.packed(me, quick_recipe()).centre).value
    assert np.allclose(found, wanted, rtol=1e-5)
    assert not np.allclose(found, before, rtol=1e-5)
    assert read_run(RunFolder(reading)).transfer.keys() == {"mebeauty"}
    assert run_all(bench, ROWS[2:], ["1"])[0][0].state == "there"


@pytest.mark.slow
def test_other_ratings_or_another_rule_are_judged_again(folded, drawn_b, unrated, planned, tmp_path):
    me, pairs = OtherDataset(replace(drawn_b, name="mebeauty")), OtherDataset(unrated)
    votes = {f"{p:03}": Votes(0, 7) for p in range(10)}
    shutil.copytree(planned, tmp_path, dirs_exist_ok=True)
    run_all(Bench(folded, tmp_path, {}, [me, pairs]), ROWS[:1], ["1"])
    folder = tmp_path / "regression-matched" / "fold-1"

    def again(others, rule=BY_DEFAULT, slim=False):
        (outcome,), _ = run_all(Bench(folded, tmp_path, {}, others, rule, slim=slim), ROWS[:1], ["1"])
        return outcome

    assert again([me, pairs]).state == "there"
    for rule in (MakeupRule(None, "mean"), MakeupRule(votes, "mean"), MakeupRule(votes | {"000": Votes(7, 0)}, "mean")):
        assert again([pairs], rule).state == "done"
        assert again([pairs], rule).state == "there"
        answer = "with make-up" if rule.votes is None else "majority of votes"
        assert (read_run(RunFolder(folder)).makeup.takes, read_run(RunFolder(folder)).makeup.answer) == ("mean", answer)
    reversed_ = OtherDataset(replace(me.rated, scores=me.rated.scores[::-1].copy()))
    first = read_run(RunFolder(folder)).transfer["mebeauty"]
    assert again([reversed_]).state == "done"
    second = read_run(RunFolder(folder)).transfer["mebeauty"]
    assert (first.fingerprint, second.fingerprint) == (me.rated.fingerprint, reversed_.rated.fingerprint)
    assert first.mae != second.mae

    # An older evaluation does not say: it is judged again, or kept where the network is gone.
    path = folder / "evaluations" / "mebeauty.json"
    older = {key: value for key, value in json.loads(path.read_text()).items() if key != "fingerprint"}
    path.write_text(json.dumps(older))
    assert judged(RunFolder(folder), me, BY_DEFAULT) is None
    assert again([me], slim=True).state == "done"
    assert judged(RunFolder(folder), me, BY_DEFAULT) is True
    path.write_text(json.dumps(older))
    assert again([me]).state == "there"
    assert json.loads(path.read_text()) == older
    assert "checkpoint is gone, so it cannot be tested on mifs as asked" in again([me, pairs]).problem
    path.write_text(json.dumps(older | {"split": "test"}))
    assert judged(RunFolder(folder), me, BY_DEFAULT) is False
    path.write_text("[")
    assert judged(RunFolder(folder), me, BY_DEFAULT) is False


@pytest.mark.slow
def test_a_pupil_of_each_splits_teacher_is_tested_later(folded, unrated, tmp_path):
    recipe = quick_recipe(epochs=1)
    packed = PackedImages.pack(folded, recipe.model)
    train_and_test(
        packed, "fold-1", folded.splits["fold-1"], recipe, tmp_path / "teacher" / "fold-1", Origin("quick", {})
    )
    changes = {"teachers": [str(tmp_path / "teacher" / "{split}")]}
    for others in ([], [OtherDataset(unrated)]):
        (outcome,), _ = run_all(Bench(folded, tmp_path / "runs", changes, others), ROWS[1:2], ["1"])
        assert (outcome.state, outcome.problem) == ("done", "")


@pytest.mark.slow
def test_a_scorer_is_made_again_for_a_reading(folded, drawn_b, tmp_path):
    """With other references the same network says something else; the row is read once for each network and rule."""
    fewer = PlanRow("d", "order-learning", "matched-fewer", {"references_per_bin": 1}, network=ORDER)
    bench = Bench(folded, tmp_path, {}, slim=True)
    assert [o.state for o in run_all(bench, [ORDER, fewer], ["1"])[0]] == ["done", "done"]
    network, reading = (tmp_path / f"order-learning-{recipe}" / "fold-1" for recipe in ("matched", "matched-fewer"))
    result = read_run(RunFolder(reading))
    assert result.provenance.settings["references_per_bin"] == 1
    assert result.provenance.changes["references_per_bin"] == 1
    assert result.metrics.coverage is not None
    assert result.metrics.mae != read_run(RunFolder(network)).metrics.mae
    assert len(Scorer.from_pretrained(reading).references) < len(Scorer.from_pretrained(network).references)
    held_out = [pd.read_csv(folder / "held-out.csv") for folder in (network, reading)]
    assert held_out[0]["image"].equals(held_out[1]["image"])
    assert not held_out[0]["value"].equals(held_out[1]["value"])
    assert run_all(bench, [fewer], ["1"])[0][0].state == "there"
    later = Bench(folded, tmp_path, {}, [OtherDataset(replace(drawn_b, name="mebeauty"))])
    assert run_all(later, [fewer], ["1"])[0][0].state == "done"
    assert read_run(RunFolder(reading)).transfer["mebeauty"].images == 80
    assert run_all(bench, [replace(fewer, changes={"references_per_bin": 2})], ["1"])[0][0].state == "done"
    assert read_run(RunFolder(reading)).provenance.settings["references_per_bin"] == 2
    assert not (reading / "evaluations").exists()


@pytest.mark.slow
def test_a_network_is_read_with_images_framed_otherwise(folded, tmp_path, monkeypatch):
    """No face is found in drawn ones: their mirror images stand for those that are aligned."""
    real = runner.pack_other

    def pack(other, model, progress):
        packed = real(other, model.model_copy(update={"framing": "whole"}), progress)
        return replace(packed, pixels=packed.pixels.flip(-1)) if model.framing == "face" else packed

    monkeypatch.setattr(runner, "pack_other", pack)
    aligned = PlanRow("d", "order-learning", "matched-aligned", {"model.framing": "face"}, network=ORDER)
    bench = Bench(folded, tmp_path, {}, slim=True)
    assert [o.state for o in run_all(bench, [ORDER, aligned], ["1"])[0]] == ["done", "done"]
    place = tmp_path / "order-learning-matched-aligned" / "fold-1"
    network, reading = read_run(RunFolder(tmp_path / "order-learning-matched" / "fold-1")), read_run(RunFolder(place))
    whole = PackedImages.pack(folded, quick_recipe().model)
    mirrored = replace(whole, pixels=whole.pixels.flip(-1))
    assert network.provenance.data.pixels == whole.checksum
    assert reading.provenance.data.pixels == mirrored.checksum != whole.checksum
    scorer = Scorer.from_pretrained(place)
    assert scorer.config.framing == "face"
    test = mirrored.subset(folded.splits["fold-1"].test)
    told = pd.read_csv(place / "predictions.csv")["value"]
    assert np.allclose(told, [score.value for score in scorer.score_exactly(test.centre)], atol=1e-4)
    assert run_all(bench, [aligned], ["1"])[0][0].state == "there"
    shutil.rmtree(place / "model")  # as readings were kept once
    assert run_all(bench, [aligned], ["1"])[0][0].state == "done"
    assert (place / "model").is_dir()


def test_what_a_row_needs_reaches_it_alone(folded, tmp_path):
    taught = PlanRow("d", "uol", "matched-taught", needs="teachers")
    changes = {"epochs": 1, "teachers": ["runs/{split}"]}
    bench = Bench(folded, tmp_path, changes, reserved={"teachers"})
    asked = [bench.asked(job) for job in jobs_of([ORDER, taught], folded, ["1"], 2)]
    assert asked == [{"epochs": 1, "seed": 2}, {**changes, "seed": 2}]
    assert bench.recipe(jobs_of([taught], folded, ["1"], 0)[0]).teachers == ("runs/{split}",)


def test_a_checksum_is_computed_once(folded, tmp_path, monkeypatch):
    packed = PackedImages.pack(folded, quick_recipe().model)
    calls = []
    real = PackedImages.checksum.fget
    monkeypatch.setattr(PackedImages, "checksum", property(lambda self: calls.append(self) or real(self)))
    bench = Bench(folded, tmp_path, {})
    assert bench.checksum(packed) == bench.checksum(packed) == real(packed)
    assert len(calls) == 1


@pytest.mark.slow
def test_seeds_have_folders_of_their_own(folded, tmp_path):
    (job,) = jobs_of(ROWS[:1], folded, ["2"], 3)
    assert job.place.as_posix() == "regression-matched/fold-2-seed-3"
    outcomes = run_jobs([job], Bench(folded, tmp_path, {"epochs": 1}), lambda *_: None)
    assert outcomes[0].result.seed == 3
    assert outcomes[0].result.provenance.changes == {"epochs": 1, "seed": 3}


def test_mistakes(folded, drawn, tmp_path):
    with pytest.raises(CallError, match="no fold 'fold-7'; there are fold-1, fold-2"):
        jobs_of(ROWS, folded, ["7"], 0)
    with pytest.raises(CallError, match="has no folds"):
        jobs_of(ROWS, drawn, [], 0)
    with pytest.raises(CallError, match="--also scut: there are mebeauty"):
        load_other("scut", tmp_path)


def test_time_left_counts_what_was_trained():
    job = jobs_of(ROWS[:1], replace_splits(), [], 0)[0]
    outcomes = [Outcome(job, "there", None, 0.1), Outcome(job, "done", None, 30.0), Outcome(job, "done", None, 50.0)]
    assert time_left(outcomes, 10) == pytest.approx(7 * 40)
    assert time_left(outcomes[:1], 10) is None


def replace_splits():
    class Folded:
        name, splits = "folded", {"fold-1": None}

    return Folded()


def test_how_many_results_are_there():
    from measured import five_folds

    results = [*five_folds(recipe="matched"), *five_folds(seed=1, recipe="matched"), *five_folds()]
    assert count_there(PLANS["modules"], results) == (5, 25)
    inner = [result.model_copy(update={"split": f"{result.split}-inner", "method": "regression"}) for result in results]
    assert count_there(PLANS["modules"], [*results, *inner]) == (5, 25)
    assert count_there(Plan("x", "", (), None), results) == (0, 0)
