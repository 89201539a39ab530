"""Several classes: comparison with the independently computed posteriors of robustness.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.softmax_problems import reference_fit

pytestmark = pytest.mark.reference

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] == "multiclass"]
NEAR = 1e-9  # the file: 1e-10 for Laplace, its cubature below 1e-10
STATED = 2e-9  # the cubature's own largest error of three classes is 1.5e-9
PRODUCT_RULE = 60.0  # prior variance; from a spread of about 11.6 on there is none for three classes
SEARCHED = 1e-6  # extrema were found by search


@pytest.mark.parametrize("case", CASES)
def test_the_posterior_of_several_classes_equals_the_references(case: dict[str, Any]) -> None:
    fit = reference_fit(case)
    assert fit.log_marginal_likelihood == pytest.approx(case["log_marginal_likelihood"], abs=NEAR)
    np.testing.assert_allclose(fit.mode.T, case["latent_mode_at_train"], rtol=NEAR, atol=NEAR)
    posterior = fit.require_converged()
    points = np.array([point["x"] for point in case["points"]])
    moments = posterior.moments(points)
    # of more classes, or at large variances, the cubature states its error, which may be larger
    if case["num_classes"] <= 3 and case["kernel"]["variance"] <= PRODUCT_RULE:
        assert moments.proved and np.all(moments.error < STATED)
    near = max(NEAR, float(moments.error.max()))
    for key, value, off in zip(
        ("latent_mean", "latent_covariance", "class_probabilities"),
        (*posterior.latent(points), moments.mean),
        (NEAR, NEAR, near),
        strict=True,
    ):
        np.testing.assert_allclose(value, [point[key] for point in case["points"]], rtol=off, atol=off, err_msg=key)


@pytest.mark.parametrize("case", CASES)
def test_probabilities_at_the_extrema_of_boxes_equal_the_references(case: dict[str, Any]) -> None:
    posterior = reference_fit(case).require_converged()
    for box in case["boxes"]:
        for each in box["classes"]:
            for side in ("min", "max"):
                moments = posterior.moments(np.array([each[f"pi_arg{side}"]]))
                near = max(SEARCHED, float(moments.error[0]))
                found = moments.mean[0, each["cls"]]
                assert found == pytest.approx(each[f"pi_{side}"], abs=near), (box["name"], each["cls"])
