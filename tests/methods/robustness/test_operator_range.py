"""The range of a posterior's operator: what rounding is measured by is no larger than it must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import LinAlgError, eigvalsh

from gpsuite.methods.robustness import Budget, LatentPosterior, linf_ball, prediction_range
from gpsuite.methods.robustness import operators as module
from gpsuite.methods.robustness.operators import operator_range
from gpsuite.models.composite import single_kernel
from gpsuite.models.radial import kappa
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import random_posterior


@pytest.mark.parametrize("scale", [0.05, 40.0])
def test_the_size_is_the_largest_weight_times_the_largest_eigenvalue_both_at_least_one(scale: float) -> None:
    posterior = random_posterior(np.random.default_rng(3), "squared_exponential", "probit", 6, 2)
    posterior = replace(posterior, root=scale * posterior.root, weights=np.array([-0.5] * 5 + [-3.0]))
    apart = (posterior.X[:, None] - posterior.X) / posterior.lengthscales
    gram = posterior.root @ kappa(single_kernel(posterior.kernel, "test"), np.sum(apart**2, axis=2)) @ posterior.root.T
    largest = posterior.variance * float(np.linalg.eigvalsh(gram)[-1])
    assert (largest < 1.0) == (scale < 1.0)
    assert operator_range(posterior).size == pytest.approx(3.0 * max(1.0, largest), rel=1e-8)
    assert operator_range(posterior).above == pytest.approx(1.0, rel=1e-12)


def test_where_the_search_for_one_eigenvalue_fails_all_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = random_posterior(np.random.default_rng(3), "matern52", "probit", 6, 2)
    expected, found = operator_range(posterior), eigvalsh

    def fail(matrix: Array, **chosen: object) -> Array:
        if chosen:
            raise LinAlgError("Internal Error.")
        return np.asarray(found(matrix))

    monkeypatch.setattr(module, "eigvalsh", fail)
    again = operator_range(replace(posterior))
    assert again.size == pytest.approx(expected.size, rel=1e-12)
    assert again.above == pytest.approx(expected.above, rel=1e-12)


@pytest.mark.parametrize(
    "names", [("lengthscales",), ("root", "weights"), ("X", "lengthscales", "alpha", "root", "weights")]
)
def test_narrow_floats_are_bounded_as_they_are_stored(names: tuple[str, ...]) -> None:
    """In float32 the products, too, would round there, and the proved range miss the prediction by 1e-2."""
    X = np.linspace(-2.0, 2.0, 30)[:, None]
    gram = np.exp(-0.5 * (X - X.T) ** 2 / 1.3**2)
    root = np.linalg.inv(np.linalg.cholesky(gram + 1e-4 * np.eye(30)))
    stored = {"X": X, "lengthscales": np.array([1.3]), "alpha": root.T @ root @ np.sin(3 * X[:, 0]),
              "root": root, "weights": -np.ones(30)}  # fmt: skip
    stored |= {name: stored[name].astype(np.float32) for name in names}
    posterior = LatentPosterior(kernel="squared_exponential", variance=1.0, operator_bound=1.0, **stored)
    wide = {name: values.astype(np.longdouble) for name, values in stored.items()}
    k = np.exp(-(((np.longdouble(0.3) - wide["X"][:, 0]) / wide["lengthscales"]) ** 2) / 2)
    mean = k @ wide["alpha"]
    variance = max(np.longdouble(0), 1 + (((wide["root"] @ k) ** 2) * wide["weights"]).sum())
    ranges = prediction_range(posterior, 1e-4, linf_ball([0.3], 0.0), [0.5, 0.95], 1e-6, Budget(seconds=5))
    for each, z in zip(ranges, (0.0, 1.6448536269514722), strict=True):
        truth = float(mean + z * np.sqrt(variance + np.longdouble(1e-4)))
        assert each.lowest_proved - 1e-12 <= truth <= each.highest_proved + 1e-12
