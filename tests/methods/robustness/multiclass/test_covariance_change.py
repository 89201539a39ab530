"""What the covariance may do to a class probability: never more than stated, and nearly that much."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.multiclass.latent_differences import covariance_change
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments


def _differences(S: FloatArray) -> FloatArray:
    diagonal = np.einsum("bcc->bc", S)
    return np.asarray(diagonal[:, :, None] + diagonal[:, None] - 2.0 * S)


@pytest.mark.parametrize("C", [2, 3, 4])
def test_no_pair_of_covariances_moves_it_farther(C: int) -> None:
    rng = np.random.default_rng(C)
    B = {2: 1500, 3: 500, 4: 150}[C]
    mean = rng.standard_normal((B, C)) * rng.choice([0.3, 2.0, 6.0], (B, 1))
    A = rng.standard_normal((2, B, C, C)) * rng.choice([0.1, 1.0], (2, B, 1, 1))
    A[1] = A[0] + rng.choice([0.03, 0.3, 1.0], (B, 1, 1)) * A[1]
    first, second = A @ A.transpose(0, 1, 3, 2)
    before, after = (softmax_moments(mean, centred_root(S)) for S in (first, second))
    moved = _differences(second) - _differences(first)
    shares = []
    for own in range(C):
        change = covariance_change(moved, moved, own)
        p, q, slack = before.mean[:, own], after.mean[:, own], before.error + after.error
        assert np.all(q <= change.highest(p) + slack) and np.all(q >= change.lowest(p) - slack)
        shares += [(q - p) / change.up, (p - q) / change.down]
    # the constants are met within a half: a bound of half the size would fail
    assert np.nanmax(shares) > 0.5


def test_one_difference_at_the_steepest_point_meets_the_constant() -> None:
    """Two classes, where p (1 - p) (1 - 2 p) is largest: A is sharp, 0.95 of it is not enough."""
    p = 0.5 - 1.0 / np.sqrt(12.0)
    mean, step = np.array([[np.log(p / (1.0 - p)), 0.0]]), 1e-4
    S = np.array([[[step, 0.0], [0.0, 0.0]]])
    after = softmax_moments(mean, centred_root(S)).mean[0, 0]
    change = covariance_change(_differences(S), _differences(S), 0)
    assert 0.95 * change.up[0] < after - p <= change.up[0]


def test_only_the_rivals_differences_among_themselves_count_one_sided() -> None:
    low, high = np.zeros((1, 3, 3)), np.zeros((1, 3, 3))
    high[0, 1, 2] = high[0, 2, 1] = 1.0
    change = covariance_change(low, high, 0)
    # a larger difference of the rivals lowers the probability, never raises it
    assert change.up[0] == 0.0 and change.down[0] == pytest.approx(1.0 / 27.0)
