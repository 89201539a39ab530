"""The range of a posterior's operator: what rounding is measured by is no larger than it must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.operator_range import operator_range
from gpsuite.models.radial import kappa
from tests.methods.robustness.made_up_posteriors import random_posterior


@pytest.mark.parametrize("scale", [0.05, 40.0])
def test_the_size_is_the_largest_weight_times_the_largest_eigenvalue_both_at_least_one(scale: float) -> None:
    posterior = random_posterior(np.random.default_rng(3), "squared_exponential", "probit", 6, 2)
    posterior = replace(posterior, root=scale * posterior.root, weights=np.array([-0.5] * 5 + [-3.0]))
    apart = (posterior.X[:, None] - posterior.X) / posterior.lengthscales
    gram = posterior.root @ kappa(posterior.kernel, np.sum(apart**2, axis=2)) @ posterior.root.T
    largest = posterior.variance * float(np.linalg.eigvalsh(gram)[-1])
    assert (largest < 1.0) == (scale < 1.0)
    assert operator_range(posterior).size == pytest.approx(3.0 * max(1.0, largest), rel=1e-8)
    assert operator_range(posterior).above == pytest.approx(1.0, rel=1e-12)
