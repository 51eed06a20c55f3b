"""The mathematics of scoring: probabilities, likelihood, maximum, standard error, and the fit of k and δ."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from examples import examples
from uol.order.bradley_terry import BradleyTerry, default_bounds, estimate, fit, log_likelihood, probabilities
from uol.order.order import Order

MODEL = BradleyTerry(6.0, 1.2)


def simulate(scores, references, model, rng):
    p = probabilities(np.asarray(scores)[:, None] - references, model)
    return (rng.random((*p.shape[:2], 1)) > p.cumsum(-1)[..., :2]).sum(-1)


@st.composite
def comparisons(draw):
    """References, outcomes against them and a model."""
    n = draw(st.integers(1, 25))
    references = np.array(draw(st.lists(st.floats(1, 5), min_size=n, max_size=n)))
    outcomes = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    return references, outcomes, BradleyTerry(draw(st.floats(0.5, 25)), draw(st.floats(0.05, 5)))


def test_probabilities_sum_to_one_and_follow_the_score():
    p = probabilities(np.linspace(-3, 3, 101), MODEL)
    assert np.allclose(p.sum(-1), 1)
    assert (np.diff(p[:, Order.GREATER]) > 0).all()  # a higher image score makes "greater" likelier
    assert (np.diff(p[:, Order.LESS]) < 0).all()
    assert np.allclose(p[:, Order.LESS], p[::-1, Order.GREATER])
    assert p[50].argmax() == Order.SIMILAR


def test_probabilities_are_the_cumulative_logits():
    d = np.linspace(-1, 1, 9)
    below, up_to_similar = expit(-MODEL.delta - MODEL.k * d), expit(MODEL.delta - MODEL.k * d)
    expected = np.stack([below, up_to_similar - below, 1 - up_to_similar], -1)
    assert np.allclose(probabilities(d, MODEL), expected)


@given(comparisons())
@settings(max_examples=examples(60), deadline=None)
def test_estimate_is_the_maximum_of_the_likelihood(case):
    references, outcomes, model = case
    low, high = default_bounds(references)
    value = estimate(outcomes[None], references, model).value[0]
    direct = minimize_scalar(
        lambda s: -log_likelihood([s], outcomes, references, model)[0],
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert low <= value <= high
    assert log_likelihood([value], outcomes, references, model)[0] >= -direct.fun - 1e-7


def test_standard_error_is_the_curvature_at_the_maximum():
    rng = np.random.default_rng(0)
    references = rng.uniform(1, 5, 60)
    outcomes = simulate([2.7], references, MODEL, rng)
    value, error = (part[0] for part in estimate(outcomes, references, MODEL))
    h = 1e-4
    left, middle, right = log_likelihood([value - h, value, value + h], outcomes[0], references, MODEL)
    assert error == pytest.approx(((2 * middle - left - right) / h**2) ** -0.5, rel=1e-4)


@given(comparisons(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_more_wins_never_lower_the_score(case, data):
    references, outcomes, model = case
    better = outcomes.copy()
    better[data.draw(st.integers(0, len(outcomes) - 1))] = Order.GREATER
    values = estimate(np.stack([outcomes, better]), references, model).value
    assert values[1] >= values[0] - 1e-7


@given(comparisons(), st.floats(-50, 50))
@settings(max_examples=examples(60), deadline=None)
def test_shifting_references_shifts_the_score(case, shift):
    references, outcomes, model = case
    here = estimate(outcomes[None], references, model)
    there = estimate(outcomes[None], references + shift, model)
    assert there.value[0] == pytest.approx(here.value[0] + shift, abs=1e-5)
    assert there.standard_error[0] == pytest.approx(here.standard_error[0], rel=1e-3, abs=1e-5)


@given(comparisons())
@settings(max_examples=examples(60), deadline=None)
def test_reversing_outcomes_and_references_mirrors_the_score(case):
    references, outcomes, model = case
    here = estimate(outcomes[None], references, model)
    mirrored = -estimate(2 - outcomes[None], -references, model).value[0]
    reached = log_likelihood([here.value[0], mirrored], outcomes, references, model)
    assert reached[0] == pytest.approx(reached[1], abs=1e-9)
    if here.standard_error[0] < 1:  # a likelihood that is flat to the last digit has its maximum anywhere
        assert mirrored == pytest.approx(here.value[0], abs=1e-5)


def test_probabilities_generalise_hard_outcomes():
    rng = np.random.default_rng(1)
    references = rng.uniform(1, 5, 40)
    outcomes = simulate([2.0, 3.3, 4.1], references, MODEL, rng)
    hard, soft = (estimate(o, references, MODEL) for o in (outcomes, np.eye(3)[outcomes]))
    assert np.allclose(hard.value, soft.value)
    assert np.allclose(hard.standard_error, soft.standard_error)
    truth = np.array([1.5, 2.7, 4.4])
    exact = estimate(probabilities(truth[:, None] - references, MODEL), references, MODEL)
    assert np.allclose(exact.value, truth, atol=1e-7)


def test_all_wins_and_losses_stay_inside_the_bounds():
    references = np.linspace(1, 5, 50)
    outcomes = np.array([[Order.GREATER] * 50, [Order.LESS] * 50, [Order.SIMILAR] * 50])
    value, error = estimate(outcomes, references, BradleyTerry(15.0, 3.0))
    assert value == pytest.approx([5.4, 0.6, 3.0], abs=1e-6)  # the references' range and a tenth of it
    assert np.isfinite(error).all()
    assert (error <= 4.8 + 1e-9).all()
    stated = estimate(outcomes, references, MODEL, bounds=(1, 5)).value
    assert stated == pytest.approx([5.0, 1.0, 3.0], abs=1e-6)


def test_one_reference_and_equal_references():
    for references in (np.array([3.0]), np.full(7, 3.0)):
        for outcome in Order:
            value, error = estimate(np.full((1, len(references)), outcome), references, MODEL)
            assert 2.5 <= value[0] <= 3.5
            assert np.isfinite(error[0])
    with pytest.raises(ValueError, match="at least one reference"):
        estimate(np.empty((1, 0)), [], MODEL)


def test_weights_leave_comparisons_out():
    rng = np.random.default_rng(2)
    references = rng.uniform(1, 5, 30)
    outcomes = simulate([2.0, 4.0], references, MODEL, rng)
    weights = np.ones((2, 30))
    weights[:, 10:] = 0
    weighted = estimate(outcomes, references, MODEL, (1, 5), weights)
    assert np.allclose(weighted.value, estimate(outcomes[:, :10], references[:10], MODEL, (1, 5)).value)


@pytest.mark.parametrize("model", [BradleyTerry(6.0, 1.2), BradleyTerry(15.0, 3.5), BradleyTerry(2.0, 0.3)])
def test_known_scores_are_recovered_inside_their_interval(model):
    rng = np.random.default_rng(3)
    references, scores = rng.uniform(1, 5, 200), rng.uniform(1.5, 4.5, 3000)
    value, error = estimate(simulate(scores, references, model, rng), references, model)
    held = (np.abs(value - scores) <= 1.96 * error).mean()
    assert held == pytest.approx(0.95, abs=0.015)


def test_more_images_than_one_chunk():
    rng = np.random.default_rng(4)
    references, scores = rng.uniform(1, 5, 20), rng.uniform(1, 5, 1300)
    outcomes = simulate(scores, references, MODEL, rng)
    together = estimate(outcomes, references, MODEL).value
    assert np.allclose(together[[0, 600, 1299]], estimate(outcomes[[0, 600, 1299]], references, MODEL).value)


@pytest.mark.parametrize("truth", [BradleyTerry(6.0, 1.2), BradleyTerry(15.0, 4.0)])
def test_fit_recovers_k_and_delta(truth):
    rng = np.random.default_rng(5)
    scores = rng.uniform(1, 5, 200)
    first, second = np.nonzero(~np.eye(200, dtype=bool))
    outcomes = simulate(scores, scores, truth, rng)[first, second]
    found = fit(outcomes, scores[first], scores[second])
    assert found.k == pytest.approx(truth.k, rel=0.05)
    assert found.delta == pytest.approx(truth.delta, rel=0.05)
    exact = fit(probabilities(scores[first] - scores[second], truth), scores[first], scores[second])
    assert exact == pytest.approx(truth, rel=1e-4)


def test_fit_is_the_maximum():
    rng = np.random.default_rng(6)
    first, second = rng.uniform(1, 5, (2, 400))
    p = probabilities(first - second, MODEL)
    outcomes = (rng.random((400, 1)) > p.cumsum(-1)[..., :2]).sum(-1)

    def negative(parameters):
        chosen = probabilities(first - second, BradleyTerry(*np.exp(parameters)))[np.arange(400), outcomes]
        return -np.log(chosen).sum()

    direct = np.exp(minimize(negative, np.log([2.0, 2.0]), method="Nelder-Mead", options={"xatol": 1e-8}).x)
    assert fit(outcomes, first, second) == pytest.approx(direct, rel=1e-3)


def test_fit_of_faultless_or_senseless_outcomes_stays_finite():
    scores = np.linspace(1, 5, 40)
    first, second = (part.ravel() for part in np.meshgrid(scores, scores))
    faultless = np.where(np.abs(first - second) < 0.2, 1, np.where(first > second, 2, 0))
    steep = fit(faultless, first, second)
    assert np.isfinite(steep).all()
    assert steep.k <= 500 / 4 + 1e-9
    flat = fit(np.random.default_rng(0).integers(0, 3, first.size), first, second)
    assert 0 < flat.k < 0.2
    with pytest.raises(ValueError, match="different scores"):
        fit([1, 1], [3.0, 3.0], [3.0, 3.0])


def test_a_network_that_is_too_sure_overflows_nothing():
    references = np.linspace(1, 5, 41)
    outcomes = np.where(references < 2.95, Order.GREATER, Order.LESS)[None]
    found = estimate(outcomes, references, BradleyTerry(1e4, 0.5), (1.0, 5.0))
    assert found.value[0] == pytest.approx(2.95, abs=0.06)
    assert np.isfinite(found.standard_error).all()


def test_scores_are_solved_by_the_thread_that_asks():
    rng = np.random.default_rng(0)
    references, outcomes = np.linspace(1, 5, 340), rng.dirichlet([1, 1, 1], (256, 340))
    estimate(outcomes, references, MODEL)
    process, thread = time.process_time(), time.thread_time()
    for _ in range(20):
        estimate(outcomes, references, MODEL)
    thread, process = time.thread_time() - thread, time.process_time() - process
    assert process < 1.1 * thread + 0.01  # threads of a matrix product wait for each other at the cost of a core each
