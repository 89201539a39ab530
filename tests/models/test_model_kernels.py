from __future__ import annotations

import gpflow
import numpy as np
import pytest

from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.kernels import KERNELS, build_kernel, kernel_name
from gpsuite.models.radial import kappa_and_slope
from tests.models.regression_problems import closed_form_kernel, make_problem

# GPflow expands |x - x'|^2: its rounding, about 1e-16, appears under a square root on the diagonal of Matern kernels.
EXPANDED_DISTANCE = 1e-7


def test_table_and_config_agree() -> None:
    assert set(KERNELS) == set(KERNEL_NAMES)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("ard", [False, True])
def test_kernel_equals_closed_form(name: str, ard: bool) -> None:
    X, _ = make_problem(0)
    values = Hyperparameters(variance=1.7, lengthscales=(0.6, 1.9) if ard else (0.6,))
    kernel = build_kernel(ModelSpec(name, ard=ard), values, 2)
    assert kernel_name(kernel) == name
    assert kernel.ard == ard
    np.testing.assert_allclose(
        kernel(X).numpy(), closed_form_kernel(name, X, X, values), atol=EXPANDED_DISTANCE
    )


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("q", [1e7, 1e308, np.inf])
def test_a_kernel_vanishes_however_far(name: str, q: float) -> None:
    with np.errstate(over="raise", invalid="raise"):
        assert [part.tolist() for part in kappa_and_slope(name, np.array([q]))] == [[0.0], [0.0]]


def test_one_lengthscale_is_repeated_for_ard() -> None:
    kernel = build_kernel(ModelSpec(ard=True), Hyperparameters(lengthscales=(0.5,)), 3)
    np.testing.assert_allclose(kernel.lengthscales.numpy(), [0.5, 0.5, 0.5])


@pytest.mark.parametrize(("ard", "count"), [(False, 3), (True, 2)])
def test_wrong_number_of_lengthscales(ard: bool, count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} lengthscales given for D=3"):
        build_kernel(ModelSpec(ard=ard), Hyperparameters(lengthscales=(1.0,) * count), 3)


def test_foreign_kernel_has_no_name() -> None:
    with pytest.raises(TypeError, match="Cosine"):
        kernel_name(gpflow.kernels.Cosine())
