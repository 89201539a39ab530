"""100,000 random (model, region, point) triples of 2 to 10 classes against oracles; the oracles themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.robustness.multiclass import softmax_bound
from gpsuite.methods.robustness.multiclass.latent_differences import CovarianceChange
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError
from gpsuite.models.config import KERNEL_NAMES
from tests.methods.robustness.multiclass.softmax_study import faults, study
from tests.models.softmax_oracle import DOUBLE_ERROR, Long, direct_probabilities, utility_probabilities

TRIPLES = 3_744  # of each of 27 combinations


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("C", range(2, 11))
def test_nothing_is_outside_and_no_witness_overclaims(C: int, kernel: str) -> None:
    counts = study([2026, *map(ord, kernel)], C, kernel, TRIPLES)
    print({name: count for name, count in counts.items() if count})  # shown by pytest -rP
    assert counts["triples"] >= TRIPLES
    assert counts["witnesses"] >= counts["regions"]
    assert faults(counts) == 0


def test_a_small_part_of_the_study_has_no_fault() -> None:
    counts = study([7], 3, "matern52", 48)
    assert counts["triples"] >= 48 and counts["witnesses"] > 0
    assert faults(counts) == 0


@pytest.mark.parametrize("C", [2, 3])
def test_two_oracles_agree_to_eighteen_digits(C: int) -> None:
    rng = np.random.default_rng(C)
    for scale in (0.1, 1.0):
        mean, deviation, shared = (scale * rng.standard_normal((3, C))).astype(Long)
        deviation = np.abs(deviation)
        direct = direct_probabilities(mean, np.diag(deviation**2) + np.outer(shared, shared))
        assert np.max(np.abs(direct - utility_probabilities(mean, deviation, shared))) < 1e-16


@pytest.mark.parametrize("C", [3, 5])
def test_the_double_oracle_is_within_its_stated_error(C: int) -> None:
    rng = np.random.default_rng(C)
    for scale in (0.1, 0.7):
        mean, deviation, shared = (scale * rng.standard_normal((3, C))).astype(Long)
        deviation, shared = np.abs(deviation), shared / 4
        exact = utility_probabilities(mean, deviation, shared)
        assert np.max(np.abs(utility_probabilities(mean, deviation, shared, np.float64) - exact)) < DOUBLE_ERROR
        if C == 3:
            covariance = np.diag(deviation**2) + np.outer(shared, shared)
            assert np.max(np.abs(direct_probabilities(mean, covariance, np.float64) - exact)) < DOUBLE_ERROR


def test_the_oracle_knows_equal_classes_and_the_softmax_of_sure_values() -> None:
    equal = utility_probabilities(np.zeros(7, Long), np.full(7, Long(2)), np.zeros(7, Long))
    assert np.max(np.abs(equal - Long(1) / 7)) < 1e-17
    sure = np.arange(5).astype(Long)
    found = utility_probabilities(sure, np.zeros(5, Long), np.zeros(5, Long))
    assert np.max(np.abs(found - np.exp(sure) / np.exp(sure).sum())) < 1e-17


def no_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The softmax as if it were linear in the means."""
    monkeypatch.setattr(softmax_bound, "CURVATURE", 0.0)


def no_covariance_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latent covariance as if it were the reference's."""
    whole = softmax_bound.covariance_change  # type: ignore[attr-defined]

    def none(*of: Any) -> CovarianceChange:
        found: CovarianceChange = whole(*of)
        return replace(found, up=0.0 * found.up, down=0.0 * found.down, rate=0.0 * found.rate)

    monkeypatch.setattr(softmax_bound, "covariance_change", none)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [no_curvature, no_covariance_change])
def test_the_study_notices(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = 0
    for C in (2, 3, 4):
        try:
            found += faults(study([1], C, "squared_exponential", 600))
        except UnsoundBoundError:  # the search itself finds the contradiction
            found += 1
    assert found > 0
