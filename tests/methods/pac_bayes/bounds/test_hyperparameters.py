import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, HyperparameterGrid
from gpsuite.models.config import Hyperparameters


@given(log_value=st.floats(-6.0, 6.0))
def test_rounding_moves_a_logarithm_by_at_most_half_a_step(log_value: float) -> None:
    assert abs(np.log(PAPER_GRID.round(np.exp(log_value))) - log_value) <= 0.005 + 1e-12


@given(value=st.floats(1e-300, 1e300))
def test_rounding_is_idempotent_and_lands_on_the_grid(value: float) -> None:
    once = PAPER_GRID.round(value)
    np.testing.assert_array_equal(PAPER_GRID.round(once), once)
    assert PAPER_GRID.contains(once)


def test_log_size_counts_the_grid_points() -> None:
    grid = HyperparameterGrid(decimals=1, half_width=2)
    values = {float(v) for v in np.round(np.log(grid.round(np.exp(np.linspace(-3, 3, 5001)))), 6)}
    assert grid.size == len(values)
    assert grid.log_size(3) == pytest.approx(3 * np.log(len(values)))


def test_only_the_kernel_is_rounded() -> None:
    rounded = PAPER_GRID.rounded(Hyperparameters(1.2345, (0.777, 9.99), 0.12345))
    assert rounded.noise_variance == 0.12345
    assert PAPER_GRID.holds(rounded)
    assert not PAPER_GRID.holds(Hyperparameters(1.2345, (1.0,), 1.0))


def test_logarithms_round_trip() -> None:
    original = Hyperparameters(1.5, (0.3, 2.0, 7.0), 0.01)
    back = Hyperparameters.from_log(original.to_log())
    np.testing.assert_allclose(back.to_log(), original.to_log(), rtol=1e-15)
    assert (original.n_kernel, len(back.lengthscales)) == (4, 3)


@pytest.mark.parametrize(
    "values", [(0.0, (1.0,), 1.0), (1.0, (), 1.0), (1.0, (1.0, np.nan), 1.0), (1.0, (1.0,), -1.0)]
)
def test_rejects_what_is_not_positive(values: tuple[float, tuple[float, ...], float]) -> None:
    with pytest.raises(ValueError, match=r"must be positive and finite|at least one"):
        Hyperparameters(*values)
    with pytest.raises(ValueError, match="must be positive"):
        PAPER_GRID.round([1.0, 0.0])


def test_the_narrowest_grid_that_is_allowed() -> None:
    assert HyperparameterGrid(0, 1).size == 3
    assert HyperparameterGrid(2, 1).size == 201


@pytest.mark.parametrize("logarithm", [-6.01, 6.01, 7.0])
def test_whole_hundredths_beyond_the_range_are_not_on_the_grid(logarithm: float) -> None:
    """ln|Theta| counts 1201 values: a value outside of them would not be paid for."""
    assert PAPER_GRID.contains(np.exp([-6.0, 6.0]))
    assert not PAPER_GRID.contains(np.exp(logarithm))
    assert not PAPER_GRID.holds(Hyperparameters(1.0, (1.0, float(np.exp(logarithm))), 1.0))
