"""What a problem of active learning refuses, and how pool and monitors share inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning.problem import Monitor, Pool
from gpsuite.models.multi_output.observations import ContradictionError, Observations
from tests.methods.active_learning.exploration_problems import tiny

PROBLEM = tiny()[0]
ONE = np.zeros((1, 1))


def data(x: list[float], p: list[int], y: list[float]) -> Observations:
    return Observations(np.array(x)[:, None], np.array(p), np.array(y))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, "delta=0.0"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"limit": None}, "together with their limit"),
        ({"safety": None}, "together with their limit"),
        ({"outputs": Observations(np.empty((0, 1)), np.empty(0, int), np.empty(0))}, "outputs: at least one"),
        ({"safety": Observations(np.zeros((1, 2)), np.zeros(1, int), np.zeros(1))}, "safety has 2 inputs"),
        ({"outputs": data([0.0], [2], [0.0])}, "from 0 to 1"),
        ({"outputs": data([0.0], [-1], [0.0])}, "from 0 to 1"),
        ({"monitors": {"a": Monitor(np.zeros((1, 2)))}}, "monitor a"),
        ({"monitors": {"a": Monitor(ONE, np.zeros((1, 3)))}}, "monitor a"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PROBLEM, **changes)


def test_two_values_of_one_output_at_one_input_contradict() -> None:
    with pytest.raises(ContradictionError, match="output 1"):
        replace(PROBLEM, outputs=data([0.5, 0.5, 0.5], [0, 1, 1], [1.0, 1.0, 2.0]))


@pytest.mark.parametrize(
    ("X", "available"),
    [
        (np.zeros(3), np.ones((3, 1), bool)),
        (np.empty((0, 1)), np.ones((0, 1), bool)),
        (np.full((1, 1), np.nan), np.ones((1, 1), bool)),
        (np.zeros((3, 1)), np.ones((2, 1), bool)),
        (np.zeros((3, 1)), np.ones(3, bool)),
        (np.zeros((3, 1)), np.ones((3, 0), bool)),
    ],
)
def test_a_pool_of_wrong_shape_is_refused(X: Any, available: Any) -> None:
    with pytest.raises(ValueError, match="has shape"):
        Pool(X, available)


@pytest.mark.parametrize(("X", "Y"), [(np.zeros(2), None), (np.empty((0, 1)), None), (ONE, np.zeros((2, 2)))])
def test_a_monitor_of_wrong_shape_is_refused(X: Any, Y: Any) -> None:
    with pytest.raises(ValueError, match="has shape"):
        Monitor(X, Y)


def test_inputs_of_pool_and_monitors_stand_once() -> None:
    x = PROBLEM.pool.X
    new = np.array([[7.0], [8.0]])
    monitors = {"old": Monitor(x[[3, 1]]), "new": Monitor(new), "both": Monitor(np.vstack([new[1:], x[:1]]))}
    inputs, rows = replace(PROBLEM, monitors=monitors).joined_inputs()
    np.testing.assert_array_equal(inputs, np.vstack([x, new]))
    assert {name: list(found) for name, found in rows.items()} == {"old": [3, 1], "new": [15, 16], "both": [16, 0]}


def test_observed_pairs_leave_the_pool() -> None:
    pool = Pool(np.array([[0.0], [1.0], [0.0]]), np.ones((3, 2), dtype=bool))
    left = pool.without(data([0.0, 5.0], [1, 0], [0.0, 0.0]))
    np.testing.assert_array_equal(left, [[True, False], [True, True], [True, False]])
    assert pool.available.all()
