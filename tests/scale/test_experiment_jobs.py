"""The networks of an experiment as tasks of Ray have the results of the same networks one after another."""

from __future__ import annotations

import pytest

from uol.experiments.plans import PlanRow
from uol.experiments.runner import Bench, jobs_of, run_jobs
from uol.scale.experiment_jobs import run_jobs_on_ray
from uol.scale.ray_session import ray_session

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

ORDER = PlanRow("b", "order-learning", "matched")
READS = PlanRow("c", "order-learning", "matched-consistency", network=ORDER, read_by="consistency")
TINY = {
    "model.backbone": "test_byobnet", "model.resize": 32, "model.crop": 32, "model.framing": "whole",
    "model.dimensions": 16, "model.hidden": 16, "epochs": 1, "batch_size": 16, "pairs_per_image": 6,
}  # fmt: skip


def test_tasks_have_the_results_of_a_sequence(folded, tmp_path):
    numbers = []
    jobs = [*jobs_of((READS, ORDER), folded, ["1"], 0), *jobs_of((READS,), folded, ["2"], 0)]
    with ray_session(cpus=2):
        done = run_jobs_on_ray(jobs, Bench(folded, tmp_path / "ray", TINY), lambda number, _: numbers.append(number))
    assert numbers == [1, 2, 3]
    found = {(outcome.job.row.label, outcome.job.split): outcome for outcome in done}
    assert [found[key].state for key in (("b", "fold-1"), ("c", "fold-1"))] == ["done", "done"], done
    assert "not trained yet" in found["c", "fold-2"].problem
    alone = run_jobs(jobs_of((ORDER,), folded, ["1"], 0), Bench(folded, tmp_path / "alone", TINY), lambda *_: None)
    assert found["b", "fold-1"].result.metrics.pc == pytest.approx(alone[0].result.metrics.pc, abs=1e-6)
    again = run_jobs(jobs_of((ORDER, READS), folded, ["1"], 0), Bench(folded, tmp_path / "ray", TINY), lambda *_: None)
    assert [outcome.state for outcome in again] == ["there", "there"]
