"""A log marginal likelihood asked for without its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.models.multi_output.convolution import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import CovarianceBatch, Observations

MODELS = {
    "coregionalization": LinearCoregionalization(3, 2),
    "independent": LinearCoregionalization(3, mixing="identity", kernel="squared_exponential"),
    "convolution": ConvolutionProcess(3, 2, 2),
}


def data(n: int) -> Observations:
    rng = np.random.default_rng(0)
    return Observations(rng.uniform(size=(n, 2)), rng.integers(0, 3, n), rng.standard_normal(n))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_value_has_the_same_bits_without_its_gradient(
    model: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several batches, a vector without a likelihood among the others, and no derivative is computed."""
    likelihood = model.likelihood(data(n))
    u = model.draw_prior(np.random.default_rng(1), 45)
    if n:
        u[7] = np.nan
    expected, _ = likelihood.value_and_gradient(u)
    assert not n or np.isneginf(expected[7])
    monkeypatch.setattr(CovarianceBatch, "adjoints", None)
    np.testing.assert_array_equal(likelihood.value(u), expected)
