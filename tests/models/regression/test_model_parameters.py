from __future__ import annotations

import gpflow
import numpy as np
import pytest

from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import (
    build_fitc,
    build_gpr,
    build_sgpr,
    hyperparameters_of,
    kind_of,
    spec_of,
)
from tests.arrays import Array
from tests.models.regression_problems import START

Problem = tuple[Array, Array]


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("ard", [False, True])
def test_spec_and_hyperparameters_come_back(problem: Problem, name: str, ard: bool) -> None:
    spec = ModelSpec(name, ard=ard, noise_floor=1e-4)
    values = Hyperparameters(2.0, (0.3, 4.0) if ard else (0.3,), 0.01)
    model = build_gpr(*problem, spec, values)
    assert spec_of(model) == spec
    back = hyperparameters_of(model)
    np.testing.assert_allclose(back.lengthscales, values.lengthscales, rtol=1e-14)
    np.testing.assert_allclose(
        [back.variance, back.noise_variance], [values.variance, values.noise_variance], rtol=1e-13
    )


def test_kinds(problem: Problem) -> None:
    X, Y = problem
    assert kind_of(build_gpr(X, Y, ModelSpec(), START)) == "GPR"
    assert kind_of(build_sgpr(X, Y, X[:3], ModelSpec(), START)) == "SGPR"
    assert kind_of(build_fitc(X, Y, X[:3], ModelSpec(), START)) == "GPRFITC"


def test_foreign_models_are_refused(problem: Problem) -> None:
    kernel = gpflow.kernels.SquaredExponential()
    with pytest.raises(TypeError, match="VGP"):
        kind_of(gpflow.models.VGP(problem, kernel, gpflow.likelihoods.Gaussian()))
    with pytest.raises(TypeError, match="Constant"):
        spec_of(gpflow.models.GPR(problem, kernel, mean_function=gpflow.functions.Constant()))
    with pytest.raises(TypeError, match="StudentT"):
        spec_of(gpflow.models.VGP(problem, kernel, gpflow.likelihoods.StudentT()))
