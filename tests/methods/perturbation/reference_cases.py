"""The cases of perturbation.json as objectives and regions, shared by the tests that compare with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso
from gpsuite.methods.perturbation.quadratic import KernelLSSVM, KernelRidge, LinearLSSVM, Objective, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Perturbations
from gpsuite.methods.perturbation.region import ConfidenceRegion
from tests.arrays import Array

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "perturbation.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
WEIGHTINGS = {"hessian_inv_sqrt": "hessian", "K_inv_sqrt": "rkhs", "identity": "identity"}


def _gaussian(case: dict[str, Any], A: Array, B: Array) -> Array:
    chosen = case["model_parameters"]
    square = np.sum((A[:, None, :] - B[None, :, :]) ** 2, axis=-1)
    return np.asarray(chosen["variance"] * np.exp(-square / (2.0 * chosen["lengthscale"] ** 2)))


def objective_of(case: dict[str, Any]) -> Objective:
    """Return the case's objective."""
    X = np.asarray(case["x"], dtype=np.float64).reshape(len(case["x"]), -1)
    chosen, weighting = case["model_parameters"], WEIGHTINGS[case["weighting"]]
    match case["model"]:
        case "krr":
            return KernelRidge(_gaussian(case, X, X), chosen["lam"], weighting)  # type: ignore[arg-type]
        case "krr_sparse":
            centres = np.asarray(case["basis_centres"], dtype=np.float64)
            cross, square = _gaussian(case, X, centres), _gaussian(case, centres, centres)
            return SparseKernelRidge(cross, square, chosen["lam"], weighting)  # type: ignore[arg-type]
        case "lssvm_linear":
            return LinearLSSVM(X, chosen["C"], chosen["bias"], weighting=weighting)  # type: ignore[arg-type]
        case "lssvm_kernel":
            labels = bool(np.all(np.abs(case["y"]) == 1.0))
            return KernelLSSVM(_gaussian(case, X, X), chosen["C"], classification=labels, weighting=weighting)  # type: ignore[arg-type]
        case "svr":
            return EpsilonSVR(_gaussian(case, X, X), chosen["C"], chosen["eps"], weighting)  # type: ignore[arg-type]
        case "klasso":
            return KernelLasso(_gaussian(case, X, X), chosen["lam"], weighting)  # type: ignore[arg-type]
    raise ValueError(f"unknown model {case['model']}")


def region_of(case: dict[str, Any], q: int) -> ConfidenceRegion:
    """Return the case's region at a level, with its own perturbations."""
    drawn = np.asarray(case["perturbations"])
    signs = drawn.astype(np.float64) if case["group"] == "sign" else None
    order = drawn.astype(np.int64) if case["group"] == "permutation" else None
    priority = np.asarray(case["tie_break_priority"], dtype=np.int64)
    perturbations = Perturbations(case["group"], signs, order, priority)
    return ConfidenceRegion(objective_of(case), np.asarray(case["y"], dtype=np.float64), perturbations, q)


def features_of(case: dict[str, Any], X: Array) -> Array:
    """Return the rows phi(x) at inputs X [J, D] or [J] of a linear or sparse model."""
    inputs = X.reshape(len(X), -1)
    if case["model"] == "krr_sparse":
        return _gaussian(case, inputs, np.asarray(case["basis_centres"], dtype=np.float64))
    return np.column_stack([np.ones(len(X)), inputs]) if case["model_parameters"]["bias"] else inputs
