"""Change the mathematics, methods and recipes in one place at a time, and see whether a test notices.

Works on a copy of the tree. Prints each change that no test noticed, then how many were tried, noticed and not.

    python benchmarks/mutations.py                    all, some ten minutes
    python benchmarks/mutations.py losses.py          those of files whose path contains a word
"""

from __future__ import annotations

import compileall
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import lightning  # noqa: F401 (imported once, for all the tests)
import pandas  # noqa: F401
import pytest
import timm  # noqa: F401
import torch

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "results", "docs", "pyproject.toml", "README.md")
TIMEOUT = 180  # seconds for the tests of one change; a change that makes them hang is noticed
HAND = "tests/methods/test_methods_total_loss.py"
METHODS = (HAND, "tests/methods/test_methods.py")
RECIPES = ("tests/training/test_recipe.py", "tests/experiments/test_plans_results.py")
TESTS = {
    "order/losses.py": ("tests/order/test_losses.py", "tests/order/test_losses_of_methods.py", HAND),
    "order/gaussians.py": ("tests/order/test_gaussians.py", "tests/order/test_losses.py", HAND),
    "order/bradley_terry.py": ("tests/order/test_bradley_terry.py",),
    "order/calibration.py": ("tests/order/test_calibration.py",),
    "order/order.py": ("tests/order/test_order.py",),
    "order/references.py": ("tests/order/test_references.py",),
    "order/consistency.py": ("tests/order/test_consistency.py",),
    "order/norms.py": ("tests/order/test_norms.py",),
    "order/model.py": ("tests/order/test_model.py", HAND),
    "ratings/metrics.py": ("tests/ratings/test_metrics.py",),
    "ratings/numerics.py": ("tests/ratings/test_numerics.py",),
    "runs/evaluation.py": ("tests/runs/test_evaluation.py",),
    "runs/bootstrap.py": ("tests/runs/test_bootstrap.py",),
}


class Mutation(NamedTuple):
    """Text that occurs once in a file, and what it becomes."""

    file: str
    old: str
    new: str

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that should notice."""
        if self.file.startswith("methods/"):
            return METHODS
        return RECIPES if "recipes/" in self.file else TESTS[self.file]


MUTATIONS = [
    # The three losses and their sum
    Mutation("order/losses.py", "order + alpha * ordinal + beta * dispersion, order", "order + alpha * ordinal, order"),
    Mutation("order/losses.py", "order + alpha * ordinal + beta", "order + beta * ordinal + alpha"),
    Mutation("order/losses.py", "LossParts(order + alpha * ordinal", "LossParts(order + ordinal"),
    Mutation("order/losses.py", "F.relu(to_near + margin - to_far)", "F.relu(to_near - to_far)"),
    Mutation("order/losses.py", "F.relu(to_near + margin - to_far)", "F.relu(to_far + margin - to_near)"),
    Mutation("order/losses.py", "F.relu(to_near + margin - to_far)", "(to_near + margin - to_far)"),
    Mutation("order/losses.py", "q = degree / degree.sum().clamp_min(eps)", "q = degree"),
    Mutation("order/losses.py", "p = truth / truth.sum()", "p = truth.sqrt() / truth.sqrt().sum()"),
    Mutation("order/losses.py", "torch.xlogy(p, p) - torch.xlogy(p, q", "torch.xlogy(q, q) - torch.xlogy(q, p"),
    Mutation("order/losses.py", "degree = torch.where(known, dispersion_degree(log_variance), 0.0)",
             "degree = dispersion_degree(log_variance)"),
    Mutation("order/losses.py", "F.cross_entropy(logits.mean(0), target", "F.cross_entropy(logits[0], target"),
    Mutation("order/losses.py", " if weight is None else weighted_mean(loss, weight)\n\n\ndef ordinal",
             "\n\n\ndef ordinal"),
    Mutation("order/losses.py", "ndtr((difference - threshold", "ndtr((difference + threshold"),
    Mutation("order/losses.py", "torch.stack([less, 1 - less - greater, greater], -1)",
             "torch.stack([greater, 1 - less - greater, less], -1)"),
    Mutation("order/losses.py", "similar / (3 * count.clamp_min(1))", "similar / (2 * count.clamp_min(1))"),
    Mutation("order/losses.py", "(valid - similar) * 2 / (3", "(valid - similar) / (3"),
    Mutation("order/losses.py", "0.4 * entropy + 0.6 * error", "0.6 * entropy + 0.4 * error"),
    Mutation("order/losses.py", "2 * error + expectation + entropy", "error + expectation + entropy"),
    Mutation("order/losses.py", "2 * error + expectation + entropy", "2 * error + entropy"),
    Mutation("order/losses.py", "F.cross_entropy(logits, classes, weight)", "F.cross_entropy(logits, classes)"),
    Mutation("order/losses.py", "margin: float = 3.0", "margin: float = 1.0"),
    Mutation("order/losses.py", "furthest: float = 1.0", "furthest: float = 2.0"),
    Mutation("order/losses.py", "delta * (n - delta / 2)", "delta * (n - delta)"),
    Mutation("order/losses.py", "1 - inside**3", "1 - inside**2"),
    Mutation("order/losses.py", "n + beta.square() / 2 - beta", "n - beta / 2"),
    Mutation("order/losses.py", "(levels - mean[:, None]).square()).sum(-1).sqrt()",
             "(levels - mean[:, None]).square()).sum(-1)"),
    Mutation("order/losses.py", "negative_entropy + histogram", "histogram"),
    Mutation("order/losses.py", "(values * weight).sum() / torch", "values.sum() / torch"),
    # Gaussians
    Mutation("order/gaussians.py", "(0.5 * self.log_variance).exp()", "self.log_variance.exp()"),
    Mutation("order/gaussians.py", "gaussians.mean + gaussians.deviation * noise", "gaussians.mean + noise"),
    Mutation("order/gaussians.py", " + (first.deviation - second.deviation).square().sum(-1)", ""),
    Mutation("order/gaussians.py", "(0.5 * log_variance.logsumexp(-1)).exp()", "log_variance.logsumexp(-1).exp()"),
    Mutation("order/gaussians.py", "torch.where(apart, squared, 1.0).sqrt()", "torch.where(apart, squared, 1.0)"),
    Mutation("order/gaussians.py", "+ deviation * density", "+ density"),
    # Comparator
    Mutation("order/model.py", "self.left(points)[:, first], self.right(points)[:, second]",
             "self.left(points)[:, second], self.right(points)[:, first]"),
    Mutation("order/model.py", "self.first.weight[:, dimensions:] = -self", "self.first.weight[:, dimensions:] = self"),
    Mutation("order/model.py", "own_right[:, rows, None]).flip(-1)", "own_right[:, rows, None])"),
    Mutation("order/model.py", "weight = self.first.weight.square()", "weight = self.first.weight.abs()"),
    # Bradley-Terry
    Mutation("order/bradley_terry.py", "less, greater = expit(-x - model.delta), expit(x - model.delta)",
             "less, greater = expit(x - model.delta), expit(-x - model.delta)"),
    Mutation("order/bradley_terry.py", "* -np.expm1(-2 * model.delta)", "* -np.expm1(-model.delta)"),
    Mutation("order/bradley_terry.py", "_product(not_less, expit(model.delta - x)) - _product(not_greater,",
             "_product(not_less, expit(model.delta - x)) - _product(not_less,"),
    Mutation("order/bradley_terry.py", "falling = not_greater * sigma_v", "falling = not_greater * sigma_u"),
    Mutation("order/bradley_terry.py", "information = k**2 * (", "information = k * ("),
    Mutation("order/bradley_terry.py", "margin = 0.1 * (high - low)", "margin = 0.2 * (high - low)"),
    Mutation("order/bradley_terry.py", "error = 1 / np.sqrt(np", "error = 1 / (np"),
    Mutation("order/bradley_terry.py", "similar * 2 / np.expm1(2 * delta)", "similar / np.expm1(2 * delta)"),
    Mutation("order/bradley_terry.py", "float(found[0] / span)", "float(found[0])"),
    Mutation("order/bradley_terry.py", "tie = log_expit(-u) + log_expit(v) + np.log(-np.expm1(-2 * delta))",
             "tie = log_expit(-u) + log_expit(v)"),
    Mutation("order/bradley_terry.py", "k = min(model.k, STEEPEST / (high - low))", "k = model.k"),
    # Calibration
    Mutation("order/calibration.py", "np.hypot(self.scale * np.asarray(standard_error, np.float64), self.floor)",
             "self.scale * np.asarray(standard_error, np.float64) + self.floor"),
    Mutation("order/calibration.py", "self.intercept + self.slope * np", "self.slope * np"),
    Mutation("order/calibration.py", "np.log(np.maximum(probabilities, 1e-300)) / temperature",
             "np.log(np.maximum(probabilities, 1e-300)) * temperature"),
    Mutation("order/calibration.py", "rank = min(int(np.ceil((n + 1) * level)), n)", "rank = int(n * 0.9)"),
    Mutation("order/calibration.py", "np.sqrt(n / free)", "1.0"),
    Mutation("order/calibration.py", "0.5 * np.log(y[known])", "np.log(y[known])"),
    Mutation("order/calibration.py", "more = diagonal * square / len(x)", "more = 0.0"),
    Mutation("order/calibration.py", "_LEAST_SLOPE)\n", "-9.0)\n"),
    Mutation("order/calibration.py", "student_quantile(free, 0.5 + level / 2)", "normal_quantile(0.5 + level / 2)"),
    Mutation("order/calibration.py", "floor = max(error * unit,", "floor = max(error,"),
    Mutation("order/calibration.py", "by_variance = (1 - relative / variance) / variance",
             "by_variance = (1 - relative) / variance"),
    # Order, pairs and triplets
    Mutation("order/order.py", "np.abs(difference) <= threshold + TOLERANCE\n", "np.abs(difference) < threshold\n"),
    Mutation("order/order.py", "np.where(difference < 0, Order.LESS, Order.GREATER)",
             "np.where(difference > 0, Order.LESS, Order.GREATER)"),
    Mutation("order/order.py", "lacking += found * (1 / 3 - similar", "lacking += found * (1 / 2 - similar"),
    Mutation("order/order.py", "& (uses < limit) &", "&"),
    Mutation("order/order.py", "open_to[rows, i, partners] = open_to[rows, partners, i] = False",
             "open_to[rows, i, partners] = False"),
    Mutation("order/order.py", "near = np.where(third_is_near, third, neighbour)",
             "near = np.where(third_is_near, neighbour, third)"),
    Mutation("order/order.py", "excluded = (gap <= TOLERANCE) |", "excluded ="),
    Mutation("order/order.py", "right += int((orders[0] == orders[1]).sum())",
             "right += int((orders[0] != orders[1]).sum())"),
    Mutation("order/order.py", "1 + start, count)", "1, count)"),
    # Numerics in place of scipy's
    Mutation("ratings/numerics.py", "np.where(x >= 0, 1.0, small)", "np.where(x >= 0, small, 1.0)"),
    Mutation("ratings/numerics.py", "np.minimum(x, 0.0) - np.log1p", "np.minimum(x, 0.0) + np.log1p"),
    Mutation("ratings/numerics.py", "(freedom + 1) / 2 * math.log1p(t * t / freedom)",
             "freedom / 2 * math.log1p(t * t)"),
    Mutation("ratings/numerics.py", "(2 * k - 1 + odd) / (2 * k + odd)", "(2 * k - 1) / (2 * k + odd)"),
    Mutation("ratings/numerics.py", "2 / math.pi * (math.atan(t / math.sqrt(freedom))", "2 / math.pi * (math.atan(t)"),
    Mutation("ratings/numerics.py", "np.minimum.at(root, high, low)", "root[high] = 0"),
    Mutation("ratings/numerics.py", "(x <= low) & (gradient > 0)", "(x <= low) & (gradient < 0)"),
    Mutation("ratings/numerics.py", "moved = np.clip(x + step, low, high)", "moved = x + step"),
    Mutation("ratings/numerics.py", "if at_left <= at_right:", "if at_left > at_right:"),
    # References, consistency, norms
    Mutation("order/references.py", "scores / width + 1e-6", "scores / width"),
    Mutation("order/references.py", "place_in_bin < per_bin", "place_in_bin <= per_bin"),
    Mutation("order/references.py", "shuffled = rng.permutation(len(scores))", "shuffled = np.arange(len(scores))"),
    Mutation("order/consistency.py", "order_of(candidates[:, None], r[None], threshold)",
             "order_of(r[None], candidates[:, None], threshold)"),
    Mutation("order/consistency.py", "(most * candidates).sum(1) / most.sum(1)", "candidates[most.argmax(1)]"),
    Mutation("order/norms.py", "norm.momentum = None", "norm.momentum = 0.1"),
    Mutation("order/norms.py", "norm.reset_running_stats()", "pass"),
    Mutation("order/norms.py", "if len(rows) > 1 or len(images) == 1:", "if True:"),
    Mutation("order/norms.py", "norm.track_running_stats = False", "pass"),
    # Figures
    Mutation("ratings/metrics.py", "np.abs(np.asarray(truth", "np.square(np.asarray(truth"),
    Mutation("runs/evaluation.py", "stored_numbers(values) for name", "np.asarray(values) for name"),
    Mutation("runs/evaluation.py", "threshold * rated.scale.unit", "threshold"),
    Mutation("runs/bootstrap.py", "2 * (rarer + 1) / (gaps.size + 1)", "2 * rarer / gaps.size"),
    # Methods
    Mutation("methods/uol.py", "recipe.alpha, recipe.beta)._asdict()", "recipe.beta, recipe.alpha)._asdict()"),
    Mutation("methods/uol.py", "recipe.alpha, recipe.beta)._asdict()", "recipe.alpha, 0.0)._asdict()"),
    Mutation("methods/uol.py", "self.recipe.score_weight * losses", "losses"),
    Mutation("methods/uol.py", "self.recipe.histogram_weight * losses", "losses"),
    Mutation("methods/uol.py", "batch.scores / self.scale.unit", "batch.scores"),
    Mutation("methods/uol.py", "sample(gaussians, recipe.samples)", "sample(gaussians, 1)"),
    Mutation("methods/uol.py", "batch.near, batch.far, recipe.margin", "batch.far, batch.near, recipe.margin"),
    Mutation("methods/uol.py", "batch.target, batch.pair_weight)", "batch.target)"),
    Mutation("methods/uol.py", "recipe.margin, batch.triplet_weight)", "recipe.margin)"),
    Mutation("methods/order_learning.py", "order_cross_entropy(logits, batch.target, batch.pair_weight)",
             "order_cross_entropy(logits, batch.target)"),
    Mutation("methods/uncertain_regression.py", "score + self.recipe.beta * dispersion", "score"),
    Mutation("methods/uncertain_regression.py", "self.recipe.beta * dispersion", "self.recipe.alpha * dispersion"),
    Mutation("methods/r3cnn.py", "_RANKING_WEIGHT = 0.1", "_RANKING_WEIGHT = 1.0"),
    Mutation("methods/r3cnn.py", "2 * epoch >= epochs", "epoch >= epochs"),
    Mutation("methods/cnn_er.py", '2 * losses["squared"] + 2', '2 * losses["squared"] + 1'),
    Mutation("methods/cnn_er.py", "_THRESHOLD, _TUKEY = (0.7, 0.3)", "_THRESHOLD, _TUKEY = (0.7, 0.7)"),
    Mutation("methods/ldl.py", "histogram_divergence(logits.float()", "2 * histogram_divergence(logits.float()"),
    Mutation("methods/crnet.py", "self.in_units(batch.scores), nearest", "batch.scores, nearest"),
    Mutation("methods/comboloss.py", "self.class_weight.copy_(inverse_frequency(classes, _CLASSES))", "pass"),
    Mutation("methods/regression.py", "self.in_units(batch.scores)", "batch.scores"),
    Mutation("methods/aanet.py", "self.in_units(batch.scores)", "batch.scores"),
    Mutation("methods/co_attention.py", "self.in_units(batch.scores)", "batch.scores"),
    Mutation("methods/score_method.py", "return scores / self.scale.unit", "return scores"),
]  # fmt: skip


def recipe_mutations() -> list[Mutation]:
    """Each numeric setting on a line of a recipe that ships, changed by a tenth or by one: two of each recipe."""
    found = []
    for path in sorted((ROOT / "src/uol/training/recipes").glob("*.yaml")):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.count(": ") == 1]
        for line in [line for line in lines if _number(line) is not None and path.stem != "demo"][:2]:
            value = _number(line) or 0.0
            changed = f"{value + 1:g}" if value == int(value) else f"{value * 1.1:g}"
            found.append(Mutation(f"training/recipes/{path.name}", line, f"{line.partition(': ')[0]}: {changed}"))
    return found


def main(words: list[str]) -> int:
    """Try the mutations; 1 if a test noticed one of them not."""
    chosen = [m for m in [*MUTATIONS, *recipe_mutations()] if not words or any(word in m.file for word in words)]
    survived, started = [], time.monotonic()
    torch.set_num_threads(1)
    sys.dont_write_bytecode = True  # of a changed file: its length and second may be those of the next
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        compileall.compile_dir(tree / "src", quiet=1)
        for tests in sorted({mutation.tests for mutation in chosen}):
            if not _passes(tree, tests):
                print(f"these tests fail before anything is changed: {' '.join(tests)}")
                return 1
        for number, mutation in enumerate(chosen, 1):
            path = tree / "src/uol" / mutation.file
            text = path.read_text(encoding="utf-8")
            if text.count(mutation.old) < 1:
                print(f"{mutation.file}: has no {mutation.old!r}; write this mutation again")
                return 1
            path.write_text(text.replace(mutation.old, mutation.new, 1), encoding="utf-8")
            if _passes(tree, mutation.tests):
                survived.append(mutation)
                print(f"SURVIVED {mutation.file}: {mutation.old!r} → {mutation.new!r}", flush=True)
            path.write_text(text, encoding="utf-8")
            print(f"{number} of {len(chosen)}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"tried {len(chosen)}, noticed {len(chosen) - len(survived)}, survived {len(survived)}")
    return 1 if survived else 0


def _passes(tree: Path, tests: tuple[str, ...]) -> bool:
    """Whether tests pass, in a child of this process, which has imported what takes long to import."""
    child = multiprocessing.get_context("fork").Process(target=_run, args=(tree, tests))
    child.start()
    child.join(TIMEOUT)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode == 0


def _run(tree: Path, tests: tuple[str, ...]) -> None:
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path[:0] = [str(tree / "src"), str(tree)]
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    options = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-xq", "-p", "no:xdist", "-p", "no:cacheprovider"]
    options += ["-m", "not slow"] if tests in (METHODS, RECIPES) else []  # the others train nothing
    os._exit(int(pytest.main([*options, *tests])))


def _number(line: str) -> float | None:
    try:
        return float(line.partition(": ")[2].split("#")[0])
    except ValueError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
