"""Scale values from simulated votes: recovered, with honest errors, and finite for the unbeaten."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from uol.order.bradley_terry import BradleyTerry, probabilities
from uol.order.order import Order
from uol.order.scale_values import scale_values


def simulate(truth, votes, delta, seed):
    rng = np.random.default_rng(seed)
    first, second = np.array([rng.choice(len(truth), 2, replace=False) for _ in range(votes)]).T
    p = probabilities(truth[first] - truth[second], BradleyTerry(1.0, delta))
    return first, second, (rng.random((votes, 1)) > p.cumsum(-1)[:, :2]).sum(-1)


@pytest.mark.parametrize("delta", [0.8, 1e-9])
def test_known_values_are_recovered_inside_their_errors(delta):
    truth = np.random.default_rng(0).normal(0, 1.5, 60)
    truth -= truth.mean()
    found = scale_values(*simulate(truth, 6000, delta, 1), 60)
    assert np.corrcoef(truth, found.value)[0, 1] > 0.99
    assert (np.abs(found.value - truth) <= 1.96 * found.standard_error).mean() > 0.9
    assert found.delta == pytest.approx(delta, abs=0.08)
    assert found.islands == 1


def test_it_is_the_maximum():
    truth = np.array([-1.0, 0.0, 0.5, 1.2])
    first, second, outcome = simulate(truth, 80, 0.5, 2)
    found = scale_values(first, second, outcome, 4)

    def negative(parameters):
        value, delta = parameters[:-1], np.exp(parameters[-1])
        p = probabilities(value[first] - value[second], BradleyTerry(1.0, delta))
        return -np.log(p[np.arange(80), outcome]).sum() + 0.5 * np.square(value / 3).sum()

    direct = minimize(negative, np.zeros(5), method="BFGS").x
    assert found.value == pytest.approx(direct[:-1] - direct[:-1].mean(), abs=1e-3)
    assert (
        np.abs(approx_fprime(np.append(found.value + direct[:-1].mean(), np.log(found.delta)), negative)).max() < 0.01
    )


def test_the_unbeaten_and_the_uncompared_stay_finite():
    found = scale_values([0, 0, 0], [1, 1, 1], [Order.GREATER] * 3, 4)
    assert found.value[0] > found.value[1]
    assert np.abs(found.value).max() < 6
    assert found.standard_error[2] == pytest.approx(3.0 * np.sqrt(3 / 4))  # of the difference from the mean of four
    assert found.islands == 3
    with pytest.raises(ValueError, match="at least one vote"):
        scale_values([], [], [], 3)


def test_swapping_sides_changes_nothing():
    first, second, outcome = simulate(np.linspace(-1, 1, 8), 200, 0.4, 3)
    forth, back = scale_values(first, second, outcome, 8), scale_values(second, first, 2 - outcome, 8)
    assert forth.value == pytest.approx(back.value, abs=1e-4)
    assert forth.standard_error == pytest.approx(back.standard_error, rel=1e-3)
