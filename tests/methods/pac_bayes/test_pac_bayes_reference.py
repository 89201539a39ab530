"""Comparison with the independently computed numbers of pac_bayes.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.pac_bayes.bounds import OBJECTIVES, PAPER_GRID, BoundObjective, Terms, certify, penalty
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse
from gpsuite.methods.pac_bayes.losses import LOSSES, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior, RiskAndKL, gibbs_risk
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters
from tests.arrays import Array

pytestmark = pytest.mark.reference

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "pac_bayes.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
INVERSE_TOLERANCE = 1e-12
TOLERANCE, ILL_CONDITIONED_TOLERANCE = 1e-9, 1e-6
ILL_CONDITIONED = 3e5  # condition number, where the note does not say so
# The file's gradients are differences of the bound: their error is far below this, but one gradient is 1e-38.
GRADIENT_FLOOR = 1e-16
VANISHING = 1e-15  # a KL of 1e-211 is zero in float64
MODELS = {"full", "sparse"}


def _cases() -> list[Any]:
    known = [c for c in REFERENCE.get("cases", []) if c["model"] in MODELS]
    return [pytest.param(case, id=case["name"]) for case in known]


def _rows(section: str, *keys: str) -> list[Any]:
    return [pytest.param(r, id="-".join(f"{r[k]:g}" for k in keys)) for r in REFERENCE.get(section, [])]


def _tolerance(case: dict[str, Any]) -> float:
    ill = any(word in case["note"] + case["name"] for word in ("ill-conditioned", "illconditioned", "singular"))
    ill = ill or (case["model"] == "full" and _condition(case) > ILL_CONDITIONED)
    return ILL_CONDITIONED_TOLERANCE if ill else TOLERANCE


def _condition(case: dict[str, Any]) -> float:
    """Return the condition number of a full model's K + noise."""
    X, _, h, _ = _setting(case)
    scaled = X / np.array(h.lengthscales)
    K = h.variance * np.exp(-0.5 * np.sum((scaled[:, None] - scaled) ** 2, axis=-1))
    return float(np.linalg.cond(K + h.noise_variance * np.eye(len(K))))


def _setting(case: dict[str, Any]) -> tuple[Array, Array, Hyperparameters, Loss]:
    X = np.asarray(case["X"], dtype=np.float64).reshape(len(case["X"]), -1)
    y = np.asarray(case["Y"], dtype=np.float64).ravel()
    h = Hyperparameters(case["variance"], tuple(np.ravel(case["lengthscales"]).tolist()), case["noise_variance"])
    return X, y, h, LOSSES.get(case["loss"])(case["epsilon"])


def _inducing(case: dict[str, Any]) -> Array:
    return np.asarray(case["Z"], dtype=np.float64).reshape(len(case["Z"]), -1)


def _posterior(case: dict[str, Any], X: Array, y: Array, h: Hyperparameters) -> Posterior:
    if case["model"] == "full":
        return FullGPPosterior.fit(h, X, y)
    posterior = SparseGPPosterior.fit(h, X, y, _inducing(case), case["alpha"])
    assert posterior.inducing.jitter == 0.0
    return posterior


@pytest.mark.parametrize("row", _rows("kl_inverse", "q", "c"))
def test_the_kl_inverse_and_its_slopes_equal_the_references(row: dict[str, Any]) -> None:
    inverse = kl_inverse(row["q"], row["c"])
    for key in ("p", "one_minus_p", "dp_dq", "dp_dc"):
        if row[key] is not None:
            assert float(getattr(inverse, key)) == pytest.approx(row[key], rel=INVERSE_TOLERANCE, abs=0.0), key
    if row["dp_dc"] is None and row["q"] > 0.0:
        assert inverse.dp_dc == np.inf
    if row["dp_dq"] is None and row["q"] == 0.0:
        assert inverse.dp_dq == np.inf


@pytest.mark.parametrize("row", _rows("rounding", "value"))
def test_the_grid_rounds_as_the_reference_does(row: dict[str, Any]) -> None:
    rounded = float(PAPER_GRID.round(row["value"]))
    assert rounded == pytest.approx(row["rounded"], rel=1e-15)
    assert np.log(rounded) == pytest.approx(row["log_rounded"], abs=1e-14)


@pytest.mark.parametrize("case", _cases())
def test_posterior_and_certificate_equal_the_references(case: dict[str, Any]) -> None:
    X, y, h, loss = _setting(case)
    exact, near = case["exact"], _tolerance(case)
    posterior = _posterior(case, X, y, h)
    new = np.asarray(case["Xnew"], dtype=np.float64).reshape(-1, X.shape[1])
    mean, variance = posterior.predict(new)
    risk = gibbs_risk(posterior, loss)
    certificate = certify(RiskAndKL(risk, posterior.kl), Terms(len(y), h.n_kernel, case["delta"]))
    c_fixed = penalty(posterior.kl, Terms(len(y), 0, case["delta"])).per_point
    values = {
        "KL": posterior.kl,
        "gibbs_risk": risk,
        "log_theta": certificate.penalty.log_theta,
        "penalty_kl": certificate.penalty.per_point,
        "bound_kl": certificate.bound_kl,
        "bound_sqrt": certificate.bound_sqrt,
        "bound_kl_no_theta": OBJECTIVES.get("kl")(risk, c_fixed)[0],
        "bound_sqrt_no_theta": OBJECTIVES.get("sqrt")(risk, c_fixed)[0],
        "new_mean": mean,
        "new_var_latent": variance,
        "new_var_noisy": variance + h.noise_variance,
        "train_mean": posterior.train_mean[: len(exact["train_mean"])],
        "train_var": posterior.train_variance[: len(exact["train_var"])],
    }
    for key, value in values.items():
        np.testing.assert_allclose(value, exact[key], rtol=near, atol=VANISHING if key == "KL" else 0.0, err_msg=key)
    for name, expected in exact["gibbs_risk_all_losses"].items():
        other = gibbs_risk(posterior, LOSSES.get(name)(case["epsilon"]))
        assert other == pytest.approx(expected, rel=near), name
    bayes = LOSSES.get("band01")(case["epsilon"]).pointwise(y, posterior.train_mean)
    assert bayes.mean() == pytest.approx(exact["bayes_risk_band01"])


@pytest.mark.parametrize("objective", ["kl", "sqrt"])
@pytest.mark.parametrize("case", _cases())
def test_objective_and_gradient_equal_the_references(case: dict[str, Any], objective: str) -> None:
    X, y, h, loss = _setting(case)
    ard, near = len(h.lengthscales) == X.shape[1], _tolerance(case)
    expected = case["exact_grad"][f"bound_{objective}"]
    natural = np.concatenate([np.ravel(expected[k]) for k in ("variance", "lengthscales", "noise_variance")])
    floor = max(GRADIENT_FLOOR, 0.1 * near * float(np.abs(natural).max()))  # sums that cancel
    within = {"rtol": near, "atol": floor}
    if case["model"] == "full":
        bound = FullGPObjective(RiskProblem(X, y, loss, case["delta"], objective, ard))
        value, gradient, _ = bound.value_and_gradient(h.to_log())
    else:
        Z = _inducing(case)
        sparse = SparseGPObjective(RiskProblem(X, y, loss, case["delta"], objective, ard), case["alpha"], len(Z))
        value, gradient, d_Z, _ = sparse.value_and_gradient(h.to_log(), Z)
        if "Z" in expected:
            np.testing.assert_allclose(d_Z, np.reshape(expected["Z"], Z.shape), **within, err_msg="Z")
    assert value == pytest.approx(case["exact"][f"bound_{objective}"], rel=near)
    _assert_slopes(gradient, natural, h, near)


def _assert_slopes(found: Array, natural: Array, h: Hyperparameters, near: float) -> None:
    """Compare slopes in the hyperparameters, to a share of the largest, or of that in logarithms, where sums cancel."""
    values = np.exp(h.to_log())
    largest = np.maximum(np.abs(natural).max(), np.abs(natural * values).max() / values)
    error = np.abs(found / values - natural)
    assert np.all(error <= near * np.abs(natural) + np.maximum(GRADIENT_FLOOR, 0.1 * near * largest)), error


@pytest.mark.parametrize("objective", ["quadratic", "lambda", "catoni"])
@pytest.mark.parametrize("case", _cases())
def test_objectives_without_their_own_rows_follow_by_the_chain_rule(case: dict[str, Any], objective: str) -> None:
    # the file holds risk, KL and their gradients: the chain rule gives the gradient of any bound
    X, y, h, loss = _setting(case)
    near, slopes = _tolerance(case), case["exact_grad"]
    problem = RiskProblem(X, y, loss, case["delta"], objective, len(h.lengthscales) == X.shape[1])
    head = BoundObjective(objective, Terms(len(y), h.n_kernel, case["delta"]))
    expected, d_risk, d_kl = head.value_and_gradient(case["exact"]["gibbs_risk"], case["exact"]["KL"])

    def chained(*keys: str) -> Array:
        risk, kl = (np.concatenate([np.ravel(slopes[q][k]) for k in keys]) for q in ("gibbs_risk", "KL"))
        return np.asarray(d_risk * risk + d_kl * kl)

    natural = chained("variance", "lengthscales", "noise_variance")
    if case["model"] == "full":
        value, gradient, _ = FullGPObjective(problem).value_and_gradient(h.to_log())
    else:
        Z = _inducing(case)
        value, gradient, d_Z, _ = SparseGPObjective(problem, case["alpha"], len(Z)).value_and_gradient(h.to_log(), Z)
        if "Z" in slopes["KL"]:
            floor = max(GRADIENT_FLOOR, 0.1 * near * float(np.abs(natural).max()))
            np.testing.assert_allclose(d_Z, chained("Z").reshape(Z.shape), rtol=near, atol=floor)
    assert value == pytest.approx(expected, rel=near)
    _assert_slopes(gradient, natural, h, near)
