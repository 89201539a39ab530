"""Out-of-distribution scores against scikit-learn, by counting pairs, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from gpsuite.methods.wasserstein.scoring import auroc, average_precision, false_positives_at_95
from tests.arrays import Array


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(1, 40), levels=st.sampled_from([2, 5, 0])
)
def test_against_scikit_learn_with_and_without_ties(seed: int, n: int, m: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    inside, outside = rng.standard_normal(n), rng.standard_normal(m) + 0.5
    if levels:
        inside, outside = np.round(inside * levels), np.round(outside * levels)
    truth, scores = np.repeat([0, 1], [n, m]), np.concatenate([inside, outside])
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    assert average_precision(inside, outside) == pytest.approx(
        average_precision_score(truth, scores), abs=1e-12
    )
    # scikit-learn's curve with the inside inputs positive and small scores meaning inside
    false, true, _ = roc_curve(1 - truth, -scores, drop_intermediate=False)
    assert false_positives_at_95(inside, outside) == pytest.approx(false[np.argmax(true >= 0.95 - 1e-12)])


def test_limits() -> None:
    low, high = np.arange(10.0), np.arange(10.0) + 100.0
    assert (auroc(low, high), average_precision(low, high), false_positives_at_95(low, high)) == (
        1.0,
        1.0,
        0.0,
    )
    assert (auroc(high, low), false_positives_at_95(high, low)) == (0.0, 1.0)
    same = np.ones(7)
    assert (auroc(same, same), average_precision(same, same), false_positives_at_95(same, same)) == (
        0.5,
        0.5,
        1.0,
    )


def test_only_the_order_counts() -> None:
    rng = np.random.default_rng(0)
    inside, outside = rng.standard_normal(30), rng.standard_normal(20) + 1.0
    for score in (auroc, average_precision, false_positives_at_95):
        assert score(np.exp(inside) - 3.0, np.exp(outside) - 3.0) == score(inside, outside)


@pytest.mark.parametrize("bad", [np.zeros(0), np.array([np.nan]), np.zeros((2, 1))])
def test_what_is_no_sample_is_refused(bad: Array) -> None:
    for score in (auroc, average_precision, false_positives_at_95):
        with pytest.raises(ValueError, match="inside scores"):
            score(bad, np.ones(2))
        with pytest.raises(ValueError, match="outside scores"):
            score(np.ones(2), bad)
