"""EP one site after another, as the code of Blaas et al. 2020 runs it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gpsuite.models.classification.expectation_propagation as ep
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.expectation_propagation import expectation_propagation, sequential_ep
from gpsuite.models.classification.links import LINKS
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import NonFiniteMatrixError, NotPositiveDefiniteError
from tests.models.gpc_problems import two_classes

AT = Hyperparameters(4.0, (1.5,))


def problem(link: str = "probit", count: int = 70) -> BinaryProblem:
    return BinaryProblem(*two_classes(1, count), ModelSpec(), LINKS.get(link))


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_many_sweeps_reach_the_fixed_point_of_parallel_updates(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ep, "SWEEP_TOLERANCE", 1e-12)
    one, all_at_once = sequential_ep(problem(link), AT, sweeps=60), expectation_propagation(problem(link), AT)
    assert one.log_marginal_likelihood == pytest.approx(all_at_once.log_marginal_likelihood, rel=1e-9)
    np.testing.assert_allclose(one.gradient, all_at_once.gradient, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.state, all_at_once.state, rtol=1e-4, atol=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for block in (1, 7, 50, 1000):
        monkeypatch.setattr(ep, "BLOCK", block)
        found[block] = sequential_ep(problem(), AT)
    for block, fit in found.items():
        np.testing.assert_allclose(fit.state, found[1].state, rtol=1e-9, atol=1e-12, err_msg=str(block))
        assert fit.iterations == found[1].iterations


def test_few_sweeps_are_a_failure_and_no_rough_answer() -> None:
    fit = sequential_ep(problem(), Hyperparameters(1e4, (1.5,)), sweeps=3)
    assert fit.iterations == 3 and not fit.converged
    assert sequential_ep(problem(), AT).converged


def test_at_least_two_sweeps_are_made_and_near_sites_need_no_more() -> None:
    first = sequential_ep(problem(), AT)
    again = sequential_ep(problem(), AT, first.state)
    assert first.iterations > again.iterations == 2
    assert again.log_marginal_likelihood == pytest.approx(first.log_marginal_likelihood, abs=1e-4)


def test_sites_that_are_worse_than_none_are_not_started_from() -> None:
    bad = sequential_ep(problem(), AT).state * np.array([[1.0], [-5.0]])
    np.testing.assert_array_equal(sequential_ep(problem(), AT, bad).state, sequential_ep(problem(), AT).state)


def test_sites_whose_log_z_is_not_defined_make_the_call_fail() -> None:
    # at a huge variance the covariance of old sites loses all digits; the code then fails, and the step is halved
    old, huge = sequential_ep(problem(), AT).state, Hyperparameters(1e14, (1.5,))
    with contextlib.suppress(NonFiniteMatrixError, NotPositiveDefiniteError):
        assert not sequential_ep(problem(), huge, old, sweeps=60).converged
    assert sequential_ep(problem(), huge, sweeps=60).converged
