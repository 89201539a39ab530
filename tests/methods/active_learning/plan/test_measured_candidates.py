"""Candidates that were measured already: what a plan leaves out, and what it warns of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.methods.active_learning.plan.ask_tell import NothingToMeasureError
from tests.methods.active_learning.plan.test_measurement_planner import new, told


def test_the_safest_candidate_is_one_that_can_still_be_measured() -> None:
    planner = told()
    planner.tell(np.array([[1.3]]), np.zeros((1, 2)), np.full(1, np.nan))
    plan = planner.ask(np.array([[1.9], [1.3], [-2.0]]), 1, "safest")
    assert int(np.argmax(plan.probability_safe)) == 1
    assert plan.safest != 1
    assert [each.row for each in plan.proposals] == [plan.safest]


LAST = 1.0 + 2.0**-52


@pytest.mark.parametrize("rewritten", [lambda x: x * LAST, lambda x: float(f"{x:.15g}")])
def test_a_table_that_a_program_wrote_anew_is_the_same_table(rewritten: Callable[[float], float]) -> None:
    """pandas reads a last digit wrongly, a spreadsheet writes 15 of 17; two digits further on is another number."""
    X, z = (
        np.array([[1000.0, 50.0], [1186.154770299128, 36.53229387871448]]),
        np.array([20.0 / 3.0, 0.7 / 3.0]),
    )
    Y = X[:, :1] / 7.0
    again = [np.vectorize(rewritten)(each) for each in (X, Y, z)]
    planner = new()
    planner.tell(X, Y, z)
    assert planner.lost(*again) == 0
    planner.tell(*again)
    assert planner.n_values == 4
    with pytest.raises(NothingToMeasureError):
        planner.check(again[0][1:])
    planner.check(X * (1.0 + 1e-13))
    other = new()
    other.tell(X * (1.0 + 1e-13), Y, z)
    assert other.lost(*again) == 4


def test_a_rewritten_candidate_is_told_of_that_was_measured_unsafe() -> None:
    X = 1e6 + np.linspace(0.0, 1.0, 60)[:, None]
    z = 0.5 + 0.25 * np.random.default_rng(1).standard_normal(60)
    planner = new()
    planner.tell(X, np.sin(X), z)
    plan = planner.ask(np.vstack([X[z > 1.0] * LAST, [[1e6 + 0.501]]]), 1)
    assert plan.safe.all()
    assert any(f"at {(z > 1.0).sum()} of the safe candidates" in text for text in plan.warnings)


@pytest.mark.parametrize(("known", "offered"), [(-0.0, 0.0), (0.0, -0.0)])
def test_zero_has_no_sign_where_it_was_measured_unsafe(known: float, offered: float) -> None:
    X = np.arange(-30.0, 31.0)[:, None] / 32.0  # of mean 0 exactly: the planner's own units leave the sign
    X[30] = known
    z = 0.5 + 0.25 * np.random.default_rng(1).standard_normal(61)
    z = np.minimum(z, 0.9)
    z[30] = 1.2
    planner = new()
    planner.tell(X, np.sin(X), z)
    plan = planner.ask(np.array([[offered], [1e-4]]), 1)
    assert plan.safe.all()
    assert any("at 1 of the safe candidates" in text for text in plan.warnings)


def test_only_safe_candidates_are_told_of_that_were_measured_unsafe() -> None:
    rng = np.random.default_rng(1)
    X = np.append(np.linspace(0.0, 1.0, 60), 3.0)[:, None]
    z = np.append(0.5 + 0.25 * rng.standard_normal(60), 5.0)
    planner = new()
    planner.tell(X, np.sin(X), z)
    unsafe = X[:60][z[:60] > 1.0]
    plan = planner.ask(np.vstack([unsafe, unsafe[:1] + 1e-4, [[3.0]]]), 1)
    assert plan.safe.tolist() == [True] * (len(unsafe) + 1) + [False]
    assert any(f"at {len(unsafe)} of the safe candidates" in text for text in plan.warnings)
