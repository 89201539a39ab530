from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import exploration_grid, initial_inputs, sin_sigmoid
from gpsuite.data.generators.sin_sigmoid import Form, true_outputs, true_safety


@given(x=st.floats(-50, 50))
def test_both_forms_of_the_sigmoid(x: float) -> None:
    """The sum and difference of the outputs undo the formula; s = 2 at x is s = 1 at 2x."""
    for form, steepness in (("paper", 2.0), ("code", 1.0)):
        first, second = true_outputs(np.array(x), form)  # type: ignore[arg-type]
        assert first + second == pytest.approx(2 * np.sin(10 * x), abs=1e-12)
        assert first - second == pytest.approx(1 + np.tanh(steepness * x / 2), abs=1e-12)


def test_safe_inputs_are_the_papers_interval() -> None:
    """Between 0.1 -+ sqrt(-2 log 0.7), 84 of the 200 points of the grid."""
    x = exploration_grid()[:, 0]
    assert (x[0], x[-1], len(x)) == (-2.0, 2.0, 200)
    safe = true_safety(x) > 0.7
    assert safe.sum() == 84
    half = np.sqrt(-2 * np.log(0.7))
    np.testing.assert_array_equal(safe, (x > 0.1 - half) & (x < 0.1 + half))
    assert (round(0.1 - half, 2), round(0.1 + half, 2)) == (-0.74, 0.94)


def test_starting_inputs_are_safe() -> None:
    X = initial_inputs(np.random.default_rng(0), (200, 12))
    assert X.shape == (200, 12, 1)
    assert np.abs(X).max() <= 0.6
    assert true_safety(X).min() > 0.78
    assert abs((X > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(2400)


@pytest.mark.parametrize("form", ["paper", "code"])
def test_noise_levels(form: Form) -> None:
    sample = sin_sigmoid(np.random.default_rng(1), exploration_grid(), form=form, repetitions=(50,))
    assert sample.Y.shape == (50, 200, 2)
    assert sample.z.shape == (50, 200)
    assert sample.F.shape == (200, 2)
    assert sample.threshold == 0.7
    for noise, deviation in (((sample.Y - sample.F)[..., 0], 0.4), (sample.z - sample.h, 0.05)):
        assert abs(noise.mean()) < 5 * deviation / np.sqrt(noise.size)
        assert abs(noise.std() / deviation - 1) < 5 / np.sqrt(2 * noise.size)
    first, second = (sample.Y - sample.F).reshape(-1, 2).T
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(10_000)


def test_forms_share_the_noise_and_inputs_may_differ_per_repetition() -> None:
    X = initial_inputs(np.random.default_rng(2), (3, 5))
    paper = sin_sigmoid(np.random.default_rng(3), X)
    code = sin_sigmoid(np.random.default_rng(3), X, form="code")
    assert paper.Y.shape == (3, 5, 2)
    np.testing.assert_allclose(paper.Y - paper.F, code.Y - code.F, atol=1e-14)
    np.testing.assert_array_equal(paper.z, code.z)
    assert np.abs(paper.F - code.F).max() > 0.01


def test_inputs_must_be_one_column() -> None:
    for X in (np.zeros(3), np.zeros((3, 2))):
        with pytest.raises(ValueError, match="N, 1"):
            sin_sigmoid(np.random.default_rng(0), X)
