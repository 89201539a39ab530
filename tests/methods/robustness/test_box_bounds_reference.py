"""The bounds enclose independently found extrema of every binary box of robustness.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import BoundingFunction
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.lines import binary_lines
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.arrays import Array

pytestmark = pytest.mark.reference

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] == "binary"]
# The file's extrema are believed accurate to 1e-8, and EP's moments to 1e-9 times the variance.
NEAR = 1e-7


def posterior_of(case: dict[str, Any]) -> GPCPosterior:
    X = np.asarray(case["X"], dtype=np.float64).reshape(len(case["X"]), -1)
    h = Hyperparameters(case["kernel"]["variance"], tuple(case["kernel"]["lengthscales"]))
    infer, link = INFERENCES.get(case["inference"]), LINKS.get(case["likelihood"])
    return infer(
        BinaryProblem(X, np.asarray(case["y"], dtype=np.float64), ModelSpec(ard=True), link), h, None
    ).require_converged()


def assert_encloses(bound: BoundingFunction, box: dict[str, Any], low: Array, high: Array) -> None:
    b = bound.bounds(low[None], high[None])
    p_low, p_high = bound.outward_probability(b.low, b.high)
    for least, most, key in (
        (p_low, p_high, "pi"),
        (b.mean_low, b.mean_high, "mean"),
        (b.variance_low, b.variance_high, "variance"),
    ):
        assert least[0] <= box[f"{key}_min"] + NEAR, (bound.name, box["name"], key)
        assert most[0] >= box[f"{key}_max"] - NEAR, (bound.name, box["name"], key)


@pytest.mark.parametrize("case", CASES)
def test_the_bounds_enclose_the_reference_ranges_of_boxes(case: dict[str, Any]) -> None:
    posterior = posterior_of(case)
    for box in case["boxes"]:
        lower, upper = np.array(box["lower"]), np.array(box["upper"])
        moving = np.flatnonzero(upper > lower)
        free = moving if len(moving) else np.arange(len(lower))
        for dims in (free, np.arange(len(lower))):
            bound = level_bound(posterior, lower, dims)
            assert_encloses(bound, box, lower[dims], upper[dims])
        assert_encloses(paper_bound(posterior, lower, free), box, lower[free], upper[free])
        if not len(moving):
            values = bound.bounds(lower[None], upper[None])
            assert values.high[0] - values.low[0] < 1e-6


@pytest.mark.parametrize("case", [each for each in CASES if "one_sided_metric" in each.values[0]])
def test_the_one_sided_metric_encloses_the_references(case: dict[str, Any]) -> None:
    metric, posterior = case["one_sided_metric"], posterior_of(case)
    point, rows = np.array([metric["x"]]), metric["dimensions"]
    inputs = np.array([row["dimension"] for row in rows])
    found = one_sided_ranges(
        binary_lines(posterior, point, inputs), point, inputs, metric["gamma"], (-np.inf, np.inf), 1e-5, Budget()
    )
    delta = np.array([row["Delta"] for row in rows])
    least, most = found.delta_range
    assert found.closed.all()
    assert np.all(least[0] <= delta + 1e-6) and np.all(delta - 1e-6 <= most[0])
    np.testing.assert_allclose(found.delta[0], delta, atol=5e-5)
