"""The paper's figures: complete, possible, and under the names that users type."""

from __future__ import annotations

import pytest

from uol import datasets
from uol.runs.result import least_rmse
from uol.studies.published import FIVE_FOLDS, TRANSFER, elsewhere, five_folds, order_of_methods

METHODS = {
    "regression", "ldl", "uncertain-regression", "order-learning", "uol", "r3cnn", "crnet", "aanet", "comboloss",
    "co-attention", "cnn-er",
}  # fmt: skip


def test_every_table_has_every_method():
    assert set(FIVE_FOLDS) == set(TRANSFER) == {"scut-fbp5500"}
    assert set(FIVE_FOLDS["scut-fbp5500"]) == METHODS
    assert set(TRANSFER["scut-fbp5500"]) == {"mebeauty", "hot-or-not"} <= set(datasets.names())
    assert all(set(found) == METHODS for found in TRANSFER["scut-fbp5500"].values())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_figures_can_be_true_together(method):
    figures = five_folds("scut-fbp5500", method)
    assert figures is not None
    assert 0.85 < figures.pc < 0.95
    assert figures.mae < figures.rmse
    possible = figures.rmse >= least_rmse(figures.pc, 0.688)
    assert possible == (method != "order-learning")  # as printed, and below by .0015: docs/results-appendix.md says so
    assert all(0.2 < found[method].pc < 0.6 for found in TRANSFER["scut-fbp5500"].values())


def test_lookups():
    assert five_folds("scut-fbp5500", "uol") == (0.9240, 0.1975, 0.2633)
    assert elsewhere("scut-fbp5500", "mebeauty", "uol") == (0.5532, 0.5230, 0.6489)
    assert elsewhere("scut-fbp5500", "hot-or-not", "co-attention") == (0.2697, 0.5613, 0.7080)
    assert five_folds("mebeauty", "uol") is five_folds("scut-fbp5500", "mine") is None
    assert elsewhere("mebeauty", "scut-fbp5500", "uol") is elsewhere("scut-fbp5500", "own", "uol") is None
    assert sorted(["zeta", "cnn-er", "alpha", "uol", "regression"], key=order_of_methods) == [
        "regression", "uol", "cnn-er", "alpha", "zeta",
    ]  # fmt: skip


# Tables 3, 2 and 8 of the paper once more, as printed: PC, MAE, RMSE.
ELSEWHERE = """
mebeauty    r3cnn              .5039 .5329 .6691
mebeauty    crnet              .4380 .5645 .9019
mebeauty    aanet              .3746 .6102 .7548
mebeauty    comboloss          .5078 .5481 .6888
mebeauty    co-attention       .4976 .5476 .6907
mebeauty    cnn-er             .4911 .5753 .6973
mebeauty    uol                .5532 .5230 .6489
mebeauty    matched-order      .5457 .5252 .6543
mebeauty    matched-hinge      .5463 .5231 .6508
mebeauty    matched-dispersion .5397 .5290 .6592
hot-or-not  r3cnn              .3555 .5741 .7140
hot-or-not  crnet              .3250 .5811 .7294
hot-or-not  aanet              .2893 .5923 .7399
hot-or-not  comboloss          .3329 .6154 .7677
hot-or-not  co-attention       .2697 .5613 .7080
hot-or-not  cnn-er             .3513 .5269 .6653
hot-or-not  uol                .4073 .5410 .6779
hot-or-not  matched-order      .4007 .5419 .6844
hot-or-not  matched-hinge      .4036 .5410 .6793
hot-or-not  matched-dispersion .4036 .5426 .6792
"""


@pytest.mark.parametrize("line", ELSEWHERE.strip().splitlines())
def test_figures_on_other_data_sets_are_those_printed(line):
    tested_on, name, *figures = line.split()
    method, recipe = ("uol", name) if name.startswith("matched-") else (name, "matched")
    assert elsewhere("scut-fbp5500", tested_on, method, recipe) == tuple(map(float, figures))


def test_the_ablation_of_modules_has_correlations_alone_on_other_data_sets():
    printed = {"regression": (0.3675, 0.5122), "ldl": (0.3228, 0.5338), "uncertain-regression": (0.3895, 0.5367),
               "order-learning": (0.3958, 0.5442)}  # fmt: skip
    for method, correlations in printed.items():
        for tested_on, pc in zip(("hot-or-not", "mebeauty"), correlations, strict=True):
            assert elsewhere("scut-fbp5500", tested_on, method) == (pc, None, None)
