"""Tasks of safe optimisation: what is drawn is safe at the start, has something to gain, and judges fairly."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.data.generators.safe_tuning import DRAWN, KINDS, PLAIN, RKHS_NORM, STARTS, TRAPS, draw_task, known_norm
from gpsuite.seeds import stream


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_starts_safely_with_something_to_gain(kind: str) -> None:
    for number in range(5):
        task, same = (draw_task(kind, stream(3, kind, number)) for _ in range(2))
        np.testing.assert_array_equal(task.F, same.F)
        assert len(task.starts) == STARTS
        assert (task.h[task.starts] <= 0.0).all() and task.reachable[task.starts].all()
        assert (task.h[task.reachable] <= 0.0).all()
        assert 0.2 < (task.h <= 0.0).mean() < 0.8
        best = np.flatnonzero(task.reachable)[[np.argmin(task.F[task.reachable, 0])]]
        assert task.regret(np.empty(0, dtype=np.int64)) == 1.0
        assert task.regret(best) == 0.0


def test_an_unsafe_query_gains_nothing() -> None:
    task = draw_task("edge", stream(0, "edge"))
    unsafe = np.flatnonzero(task.h > 0.0)
    assert task.F[unsafe, 0].min() < task.best
    assert task.regret(unsafe) == 1.0


def test_there_are_thirteen_kinds_besides_the_drawn_functions() -> None:
    assert len(PLAIN) + len(TRAPS) == 13
    assert set(KINDS) == {*PLAIN, *TRAPS, *DRAWN}


def test_a_function_of_known_norm_is_bounded_by_it() -> None:
    """|f(x)| <= ||f|| sqrt(k(x, x))."""
    X = np.random.default_rng(0).uniform(0.0, 1.0, (500, 2))
    for number in range(20):
        assert np.abs(known_norm(np.random.default_rng(number), X)).max() <= RKHS_NORM
