"""The bootstrap over repetitions."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.statistics.resampling import percentile_interval, resampled_means


def test_paired_lines_stay_paired_and_means_are_of_drawn_runs() -> None:
    lines = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    found = resampled_means(lines, 500, np.random.default_rng(1))
    assert found.shape == (500, 2)
    assert np.allclose(found[:, 1], 10.0 * found[:, 0])
    assert np.all((found >= lines.min(axis=0)) & (found <= lines.max(axis=0)))
    shifted = resampled_means(lines + 1.0, 500, np.random.default_rng(1))
    assert np.allclose(shifted, found + 1.0)  # equal state, equal runs


def test_a_repetition_that_ended_early_is_left_out_where_it_has_no_value() -> None:
    lines = np.random.default_rng(4).standard_normal((30, 3))
    full = resampled_means(lines, 200, np.random.default_rng(1))
    lines[7, 1] = np.nan
    lines[:, 2] = np.nan
    lines[0, 2] = 5.0
    found = resampled_means(lines, 200, np.random.default_rng(1))
    assert np.array_equal(found[:, 0], full[:, 0])
    drawn = np.random.default_rng(1).integers(30, size=(200, 30))
    others = [np.mean([lines[run, 1] for run in runs if run != 7]) for runs in drawn]
    assert found[:, 1] == pytest.approx(others)
    has = (drawn == 0).any(axis=1)
    assert (found[has, 2] == 5.0).all() and np.isnan(found[~has, 2]).all() and 0 < has.sum() < 200


@pytest.mark.guarantee
def test_the_bootstrap_error_is_that_of_the_mean() -> None:
    lines = np.random.default_rng(2).standard_normal((40, 1))
    found = resampled_means(lines, 4000, np.random.default_rng(3))
    assert found.std() == pytest.approx(lines.std() / np.sqrt(40), rel=0.05)  # 4000 draws: about 1 %


def test_the_interval_leaves_a_fortieth_outside_on_each_side() -> None:
    assert percentile_interval(np.arange(2000.0)) == (50.0, 1949.0)
    assert percentile_interval([1.0, np.inf, 2.0]) == (1.0, np.inf)
