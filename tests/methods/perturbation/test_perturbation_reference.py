"""Comparison with the independently computed numbers of perturbation.json: Z values, ranks, membership, estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.methods.perturbation.reference_cases import REFERENCE, region_of

pytestmark = pytest.mark.reference

Z_TOLERANCE = 1e-8  # of the largest Z, as the file states
RESIDUAL_TOLERANCE = 1e-9


def _cases() -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in REFERENCE.get("cases", [])]


@pytest.mark.parametrize("case", _cases())
def test_residuals_gradients_and_ranks_equal_the_references(case: dict[str, Any]) -> None:
    regions = {q: region_of(case, q) for q in case["q_values"]}
    region = next(iter(regions.values()))
    assert region.m == case["m"]
    alphas = np.array([row["alpha"] for row in case["evaluations"]])
    residuals = np.array([row["residuals"] for row in case["evaluations"]])
    objective = region.objective
    found = objective.residuals(region.y, alphas)
    np.testing.assert_allclose(found, residuals, atol=RESIDUAL_TOLERANCE * np.max(np.abs(residuals)))
    gradients = np.array([row["gradient_unperturbed"] for row in case["evaluations"]])
    scale = max(1.0, float(np.max(np.abs(gradients))))
    np.testing.assert_allclose(objective.gradient(alphas, residuals), gradients, atol=RESIDUAL_TOLERANCE * scale)
    for values, row in zip(region.z_values(alphas), case["evaluations"], strict=True):
        expected = np.array([row["Z0"], *row["Z"]])
        np.testing.assert_allclose(values, expected, rtol=0.0, atol=Z_TOLERANCE * np.max(expected))
    ranks = region.ranks(alphas)
    assert ranks.tolist() == [row["rank"] for row in case["evaluations"]]
    assert (ranks / region.m).tolist() == [row["normalised_rank"] for row in case["evaluations"]]
    for q, at_level in regions.items():
        member = [row["member"][str(q)] for row in case["evaluations"]]
        assert at_level.contains(alphas).tolist() == member


@pytest.mark.parametrize("case", _cases())
def test_the_estimate_equals_the_references(case: dict[str, Any]) -> None:
    region = region_of(case, case["q_values"][0])
    fitted = region.fitted
    assert fitted.converged
    assert fitted.objective == pytest.approx(case["objective_at_alpha_hat"], rel=1e-9)
    np.testing.assert_allclose(fitted.alpha, case["alpha_hat"], rtol=0.0, atol=case["alpha_hat_tolerance"])


@pytest.mark.parametrize("case", [c for c in _cases() if "expected_rank_along_direction_j" in c.values[0]], ids=str)
def test_the_rank_never_exceeds_its_limit_along_the_null_directions(case: dict[str, Any]) -> None:
    region = region_of(case, case["q_values"][0])
    for j, expected in case["expected_rank_along_direction_j"].items():
        direction = np.linalg.solve(region.objective.design, np.eye(case["n"])[int(j)])
        # residual j moves by the step; far beyond the targets' scale two values differ by their rounding alone
        steps = np.array([-1e3, -100.0, -1.0, -0.1, 0.1, 1.0, 100.0, 1e3]) * np.abs(region.y).max()
        ranks = region.ranks(region.estimate + steps[:, None] * direction)
        assert np.max(ranks) == expected
        assert ranks[[0, -1]].tolist() == [expected] * 2
