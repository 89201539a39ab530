"""Comparison with the independently computed posteriors of robustness.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.models.classification.approximation import BinaryProblem, GPCFit
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec

pytestmark = pytest.mark.reference

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] == "binary"]
# The file: points agree to 1e-6, believed accurate to 1e-10 (Laplace) and 1e-9 (EP); extrema found by search to 1e-6.
TOLERANCE: dict[str, Any] = {"laplace": 1e-9, "ep": 1e-7}
SEARCHED = 1e-6


def _fit(case: dict[str, Any]) -> GPCFit:
    X = np.asarray(case["X"], dtype=np.float64).reshape(len(case["X"]), -1)
    h = Hyperparameters(case["kernel"]["variance"], tuple(case["kernel"]["lengthscales"]))
    infer, link = INFERENCES.get(case["inference"]), LINKS.get(case["likelihood"])
    return infer(BinaryProblem(X, np.asarray(case["y"], dtype=np.float64), ModelSpec(ard=True), link), h, None)


@pytest.mark.parametrize("case", CASES)
def test_the_posterior_equals_the_references(case: dict[str, Any]) -> None:
    fit, near = _fit(case), TOLERANCE[case["inference"]]
    posterior = fit.require_converged()
    assert fit.log_marginal_likelihood == pytest.approx(case["log_marginal_likelihood"], abs=near)
    points = np.array([point["x"] for point in case["points"]])
    values = (*posterior.latent(points), posterior.probability(points))
    for key, value in zip(("latent_mean", "latent_variance", "prob_positive"), values, strict=True):
        np.testing.assert_allclose(value, [point[key] for point in case["points"]], rtol=near, atol=near, err_msg=key)
    if "latent_mode_at_train" in case:
        mode = posterior.latent(posterior.X)[0]
        np.testing.assert_allclose(mode, case["latent_mode_at_train"], rtol=near, atol=near)


@pytest.mark.parametrize("case", CASES)
def test_values_at_the_extrema_of_boxes_equal_the_references(case: dict[str, Any]) -> None:
    posterior = _fit(case).require_converged()
    for box in case["boxes"]:
        for side in ("min", "max"):
            probability = posterior.probability(np.array([box[f"pi_arg{side}"]]))
            mean = posterior.latent(np.array([box[f"mean_arg{side}"]]))[0]
            variance = posterior.latent(np.array([box[f"variance_arg{side}"]]))[1]
            assert probability[0] == pytest.approx(box[f"pi_{side}"], abs=SEARCHED), box["name"]
            assert mean[0] == pytest.approx(box[f"mean_{side}"], abs=SEARCHED), box["name"]
            assert variance[0] == pytest.approx(box[f"variance_{side}"], abs=SEARCHED), box["name"]


@pytest.mark.parametrize("case", CASES)
def test_attacks_follow_the_sign_of_the_mean_gradient_as_in_the_reference(case: dict[str, Any]) -> None:
    posterior = _fit(case).require_converged()
    for attack in case.get("gpfgs", []):
        x0, reached = np.array([attack["x0"]]), np.array([attack["x_adv"]])
        assert posterior.probability(x0)[0] == pytest.approx(attack["prob_x0"], abs=SEARCHED)
        assert posterior.probability(reached)[0] == pytest.approx(attack["prob_adv"], abs=SEARCHED)
        slope = posterior.latent_with_gradient(x0)[2]
        away = -1.0 if attack["prob_x0"] > 0.5 else 1.0
        np.testing.assert_allclose(x0 + away * attack["gamma"] * np.sign(slope), reached, atol=1e-12)
