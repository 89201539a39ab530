"""Comparison with the independently computed numbers of perturbation.json: Z values, ranks, membership, estimates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.perturbation.groups import Perturbations
from gpsuite.methods.perturbation.objectives import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    SparseKernelRidge,
)
from gpsuite.methods.perturbation.region import Region

pytestmark = pytest.mark.reference

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "perturbation.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
WEIGHTINGS = {"hessian_inv_sqrt": "hessian", "K_inv_sqrt": "rkhs", "identity": "identity"}
Z_TOLERANCE = 1e-8  # of the largest Z, as the file states
RESIDUAL_TOLERANCE = 1e-9


def _cases() -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in REFERENCE.get("cases", [])]


def _gaussian(case: dict[str, Any], A: np.ndarray, B: np.ndarray) -> np.ndarray:
    chosen = case["model_parameters"]
    square = np.sum((A[:, None, :] - B[None, :, :]) ** 2, axis=-1)
    return np.asarray(chosen["variance"] * np.exp(-square / (2.0 * chosen["lengthscale"] ** 2)))


def _objective(case: dict[str, Any]) -> Objective:
    X = np.asarray(case["x"], dtype=np.float64)
    chosen, weighting = case["model_parameters"], WEIGHTINGS[case["weighting"]]
    match case["model"]:
        case "krr":
            return KernelRidge(_gaussian(case, X, X), chosen["lam"], weighting)
        case "krr_sparse":
            centres = np.asarray(case["basis_centres"], dtype=np.float64)
            cross, square = _gaussian(case, X, centres), _gaussian(case, centres, centres)
            return SparseKernelRidge(cross, square, chosen["lam"], weighting)
        case "lssvm_linear":
            return LinearLSSVM(X, chosen["C"], chosen["bias"], weighting=weighting)
        case "lssvm_kernel":
            return KernelLSSVM(_gaussian(case, X, X), chosen["C"], classification=True, weighting=weighting)
        case "svr":
            return EpsilonSVR(_gaussian(case, X, X), chosen["C"], chosen["eps"], weighting)
        case "klasso":
            return KernelLasso(_gaussian(case, X, X), chosen["lam"], weighting)
    raise ValueError(f"unknown model {case['model']}")


def _region(case: dict[str, Any], q: int) -> Region:
    drawn = np.asarray(case["perturbations"])
    signs = drawn.astype(np.float64) if case["group"] == "sign" else None
    order = drawn.astype(np.int64) if case["group"] == "permutation" else None
    priority = np.asarray(case["tie_break_priority"], dtype=np.int64)
    perturbations = Perturbations(case["group"], signs, order, priority)
    return Region(_objective(case), np.asarray(case["y"], dtype=np.float64), perturbations, q)


@pytest.mark.parametrize("case", _cases())
def test_perturbation_case(case: dict[str, Any]) -> None:
    regions = {q: _region(case, q) for q in case["q_values"]}
    region = next(iter(regions.values()))
    assert region.m == case["m"]
    alphas = np.array([row["alpha"] for row in case["evaluations"]])
    residuals = np.array([row["residuals"] for row in case["evaluations"]])
    objective = region.objective
    found = objective.residuals(region.y, alphas)
    np.testing.assert_allclose(found, residuals, atol=RESIDUAL_TOLERANCE * np.max(np.abs(residuals)))
    gradients = np.array([row["gradient_unperturbed"] for row in case["evaluations"]])
    scale = max(1.0, float(np.max(np.abs(gradients))))
    np.testing.assert_allclose(
        objective.gradient(alphas, residuals), gradients, atol=RESIDUAL_TOLERANCE * scale
    )
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
def test_perturbation_estimate(case: dict[str, Any]) -> None:
    region = _region(case, case["q_values"][0])
    fitted = region.fitted
    assert fitted.converged
    assert fitted.objective == pytest.approx(case["objective_at_alpha_hat"], rel=1e-9)
    np.testing.assert_allclose(fitted.alpha, case["alpha_hat"], rtol=0.0, atol=case["alpha_hat_tolerance"])


@pytest.mark.parametrize(
    "case", [c for c in _cases() if "expected_rank_along_direction_j" in c.values[0]], ids=str
)
def test_the_rank_never_exceeds_its_limit_along_the_null_directions(case: dict[str, Any]) -> None:
    region = _region(case, case["q_values"][0])
    for j, expected in case["expected_rank_along_direction_j"].items():
        direction = np.linalg.solve(region.objective.design, np.eye(case["n"])[int(j)])
        steps = np.array([-1e4, -100.0, -1.0, -0.1, 0.1, 1.0, 100.0, 1e4])
        ranks = region.ranks(region.estimate + steps[:, None] * direction)
        assert np.max(ranks) == expected
        assert ranks[[0, -1]].tolist() == [expected] * 2
