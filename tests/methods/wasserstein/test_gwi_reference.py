"""Comparison with the independently computed numbers of gwi.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from gpsuite.methods.wasserstein import scoring as scores
from gpsuite.methods.wasserstein.distance import wasserstein_by_eigenvalues, wasserstein_on_points
from gpsuite.methods.wasserstein.gwi import WassersteinObjective
from gpsuite.methods.wasserstein.scoring import auroc, negative_log_density, variance_factor
from gpsuite.models.classification import robust_max
from gpsuite.models.random_elements.elements import NNGP, GaussianElement, InducingBasis, SparseKernel
from gpsuite.models.random_elements.likelihoods import GaussianNoise, RobustMax
from tests.methods.wasserstein.class_problems import squared_gaussian_wasserstein

pytestmark = pytest.mark.reference

FloatArray = npt.NDArray[np.float64]
HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "gwi.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}

TOLERANCE = 1e-9
QUADRATURE = 1e-10  # what the composite rule leaves, absolute: probabilities go down to 1e-63
GAUSS_HERMITE = 1e-10  # the file's own
EIGENVALUES = 1e-6  # the file's own: square roots of eigenvalues of a product
SUM = 1e-8


def _cases(section: str) -> list[Any]:
    cases = REFERENCE.get(section, {}).get("cases", [])
    return [pytest.param(case, id=case["name"]) for case in cases]


def _matrix(values: Any) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    return values.reshape(len(values), -1)


def _array(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


@pytest.mark.parametrize("case", _cases("robustmax"))
def test_robust_max_equals_the_reference_in_probabilities_and_likelihood(case: dict[str, Any]) -> None:
    mean, variance, label = _array(case["mean"])[None], _array(case["variance"])[None], case["label"]
    S = robust_max.largest_probabilities(mean, variance)
    np.testing.assert_allclose(S[0], case["S_exact"], rtol=TOLERANCE, atol=QUADRATURE)
    assert robust_max.sum_error(S) < SUM
    own = robust_max.label_probability(mean, variance, np.array([label])).value
    np.testing.assert_allclose(own, case["S_exact"][label], rtol=TOLERANCE, atol=QUADRATURE)
    classes, epsilon = mean.shape[1], case["epsilon"]
    expected = robust_max.expected_log_likelihood(own[0], classes, epsilon)
    assert expected == pytest.approx(case["expected_log_likelihood_exact"], rel=TOLERANCE)
    prediction = RobustMax(classes, epsilon).predict(mean, variance)
    np.testing.assert_allclose(
        prediction.probabilities[0], case["predictive_probabilities_exact"], rtol=TOLERANCE, atol=QUADRATURE
    )
    nll = scores.negative_log_likelihood(prediction.probabilities, np.array([label]))
    assert nll == pytest.approx(case["negative_log_predictive_probability_of_label"], rel=1e-8)
    total, knowledge = prediction.total_uncertainty[0], prediction.knowledge_uncertainty[0]
    assert total == pytest.approx(case["total_uncertainty_entropy"], rel=1e-8)
    assert prediction.data_uncertainty[0] == pytest.approx(case["expected_data_uncertainty"], rel=TOLERANCE)
    assert knowledge == pytest.approx(case["knowledge_uncertainty_mutual_information"], rel=1e-8, abs=10 * QUADRATURE)


@pytest.mark.parametrize("case", _cases("robustmax"))
def test_gauss_hermite_misses_as_much_as_the_reference_says(case: dict[str, Any]) -> None:
    mean, variance = _array(case["mean"])[None], _array(case["variance"])[None]
    for order, expected in case["S_gauss_hermite"].items():
        S = robust_max.gauss_hermite_probabilities(mean, variance, int(order))
        np.testing.assert_allclose(S[0], expected, rtol=GAUSS_HERMITE, atol=1e-15)
        assert S.sum() == pytest.approx(case["gauss_hermite_sum"][order], rel=GAUSS_HERMITE)
        error = np.abs(S[0] - case["S_exact"]).max()
        assert error == pytest.approx(case["gauss_hermite_max_error"][order], rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("case", _cases("robustmax"))
def test_the_known_wrong_formula_is_not_ours(case: dict[str, Any]) -> None:
    S = robust_max.largest_probabilities(_array(case["mean"])[None], _array(case["variance"])[None])
    wrong = _array(case["WRONG_S_if_variance_replaces_sd_and_1e3_is_added_to_cdf"])
    if np.abs(wrong - case["S_exact"]).max() > 1e-6:
        assert np.abs(S[0] - wrong).max() > 0.5 * np.abs(wrong - case["S_exact"]).max()


def _kernel_matrices(case: dict[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Return K and R over all points, R by the package's variational kernel."""
    X = _matrix(case["X"])
    kernel = gpflow.kernels.SquaredExponential(
        _value(case, "prior_variance", "variance"), _array(case.get("prior_lengthscales", case.get("lengthscale")))
    )
    basis = InducingBasis(kernel, _matrix(case["Z"]), case["jitter_on_Kzz"])
    variational = SparseKernel.from_plain(basis, _array(case["L_factor"])[None])
    inputs = tf.constant(X)
    diagonal, R = variational.evaluate(inputs, basis.features(inputs), len(X))
    np.testing.assert_allclose(diagonal.numpy()[:, 0], case["r_diag"], rtol=1e-8)
    return kernel(X).numpy(), R.numpy()[0]


def _value(case: dict[str, Any], *names: str) -> float:
    return next(float(case[name]) for name in names if name in case)


@pytest.mark.parametrize("case", _cases("wasserstein_svgp"))
def test_the_distance_by_inducing_points_equals_the_references(case: dict[str, Any]) -> None:
    K, R = _kernel_matrices(case)
    m_p, m_q, few = _array(case["m_P"]), _array(case["m_Q"]), np.asarray(case["subsample_indices"])
    paper = wasserstein_by_eigenvalues(m_p, m_q, np.diagonal(K), np.diagonal(R), R[few], K[:, few])
    assert paper.squared_distance == pytest.approx(case["W2hat"], rel=EIGENVALUES)
    for name, expected in case["terms"].items():
        assert getattr(paper, name) == pytest.approx(expected, rel=EIGENVALUES), name
    exact = wasserstein_on_points(m_p, m_q, K, R).squared_distance
    assert exact == pytest.approx(case["exact_W2_on_empirical_measure"], rel=EIGENVALUES)
    part = np.ix_(few, few)
    batch = wasserstein_on_points(m_p[few], m_q[few], K[part], R[part]).squared_distance
    assert batch == pytest.approx(case["W2hat_same_batch_on_subsample"], rel=EIGENVALUES)
    assert paper.squared_distance != pytest.approx(case["WRONG_W2_product_of_sorted_eigenvalues"], rel=EIGENVALUES)


@pytest.mark.parametrize("case", _cases("wasserstein_finite_dimensional"))
def test_the_distance_of_finitely_many_features_equals_the_references(case: dict[str, Any]) -> None:
    A, B = _array(case["A"]), _array(case["B"])
    p, q = _array(case["mean_coeff_P"]), _array(case["mean_coeff_Q"])
    assert squared_gaussian_wasserstein(p, A, q, B) == pytest.approx(case["exact_W2"], rel=1e-9)
    example = case["small_example"]
    psi, count = _legendre(_array(example["x"]), len(A)), example["N_S"]
    K, R = psi @ A @ psi.T, psi @ B @ psi.T
    found = wasserstein_by_eigenvalues(psi @ p, psi @ q, np.diagonal(K), np.diagonal(R), R[:count], K[:, :count])
    assert found.squared_distance == pytest.approx(example["W2hat"], rel=EIGENVALUES)
    terms = (found.mean, found.trace_prior, found.trace_variational, found.cross)
    np.testing.assert_allclose(terms, example["terms"], rtol=EIGENVALUES)


@pytest.mark.parametrize("case", _cases("wasserstein_finite_dimensional"))
def test_the_estimate_converges_as_recorded(case: dict[str, Any]) -> None:
    A, B = _array(case["A"]), _array(case["B"])
    p, q = _array(case["mean_coeff_P"]), _array(case["mean_coeff_Q"])
    rng = np.random.default_rng(0)
    for setting, expected in case["estimator_convergence"].items():
        N, few = (int(part.split("=")[1]) for part in setting.split(","))
        if N > 2000:
            continue  # the same law at more cost
        found = []
        for _ in range(40):
            psi = _legendre(rng.uniform(-1, 1, N), len(A))
            diagonals = (np.einsum("nk,kl,nl->n", psi, M, psi) for M in (A, B))
            r, k = psi[:few] @ B @ psi.T, psi @ A @ psi[:few].T
            found.append(wasserstein_by_eigenvalues(psi @ p, psi @ q, *diagonals, r, k).squared_distance)  # type: ignore[call-arg]
        spread = 4.0 * expected["sd"] / np.sqrt(40)  # of one dimension there is none but rounding
        assert np.mean(found) == pytest.approx(expected["mean"], rel=EIGENVALUES, abs=spread)


def _legendre(x: FloatArray, size: int) -> FloatArray:
    return np.polynomial.legendre.legvander(x, size - 1) * np.sqrt(2.0 * np.arange(size) + 1.0)


class FixedMean:
    """A mean function known at the data only."""

    def __init__(self, values: FloatArray) -> None:
        self.values, self.variables = values[:, None], []  # type: ignore[var-annotated]

    def __call__(self, X: Any, features: Any) -> Any:
        return tf.constant(self.values)


@pytest.mark.parametrize("case", _cases("regression"))
def test_a_regression_has_the_references_variance_and_objective(case: dict[str, Any]) -> None:
    X, y, s2 = _matrix(case["X"]), _array(case["y"]), case["noise_variance"]
    kernel = gpflow.kernels.SquaredExponential(case["variance"], case["lengthscale"])
    basis = InducingBasis(kernel, _matrix(case["Z"]), case["jitter_on_Kzz"])
    _, covariance = basis.regression(X, y[:, None], s2)
    sparse = SparseKernel.from_covariance(basis, covariance, 1)
    # the file's L: Cholesky factor of (K_ZZ + K_ZX K_XZ / s2)^-1, with jitter on K_ZZ
    plain = SparseKernel.from_plain(basis, _array(case["L_factor"])[None])
    for one in (sparse, plain):
        element = GaussianElement(0.0, kernel, FixedMean(_array(case["m_Q"])), one, basis, X.shape[1])
        likelihood = GaussianNoise(s2)
        mean, variance = element.predict(X)
        np.testing.assert_allclose(variance[:, 0], case["r_diag"], rtol=1e-7)
        fit = tf.reduce_sum(likelihood.expected_log(tf.constant(mean), tf.constant(variance), y, None))
        assert float(fit) == pytest.approx(case["expected_log_likelihood"], rel=1e-8)
        objective = WassersteinObjective(element, likelihood.expected_log, len(X), len(X))
        loss = float(objective.loss(tf.constant(X), tf.constant(y), None))
        assert loss == pytest.approx(case["objective"], rel=1e-7)
        assert loss + float(fit) == pytest.approx(case["W2_full_batch"], rel=EIGENVALUES)
        predictive = variance[:, 0] + s2
        nll = negative_log_density(y, mean[:, 0], predictive)
        assert nll == pytest.approx(case["mean_predictive_nll"], rel=1e-7)
        alpha = variance_factor(y, mean[:, 0], predictive)
        assert alpha == pytest.approx(case["optimal_tempering_factor"], rel=1e-8)
        tempered = negative_log_density(y, mean[:, 0], alpha * predictive)
        assert tempered == pytest.approx(case["mean_predictive_nll_tempered"], rel=1e-7)


@pytest.mark.parametrize("case", _cases("nngp"))
def test_kernels_of_infinitely_wide_networks_equal_the_references(case: dict[str, Any]) -> None:
    X = _matrix(case["X"])
    for depth, expected in case["kernel_by_depth"].items():
        kernel = NNGP(int(depth), case["activation"], case["weight_variance"], case["bias_variance"])
        np.testing.assert_allclose(kernel(X).numpy(), expected, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(kernel(X, full_cov=False).numpy(), np.diagonal(expected), rtol=1e-8)


@pytest.mark.parametrize("case", _cases("uncertainty_metrics"))
def test_uncertainty_metrics_equal_the_references(case: dict[str, Any]) -> None:
    inside, outside = (_array(case[f"member_probabilities_{part}"]) for part in ("in", "ood"))
    y, p, q = np.asarray(case["labels"]), inside.mean(axis=0), outside.mean(axis=0)
    total, knowledge = scores.entropy(p), scores.mutual_information(inside)
    found = {
        "accuracy": scores.accuracy(p, y),
        "nll": scores.negative_log_likelihood(p, y),
        "brier_sum_over_classes": scores.brier_score(p, y),
        "ece_15_equal_width_bins": scores.calibration_error(p, y, 15),
        "ece_10_equal_width_bins": scores.calibration_error(p, y, 10),
        "mean_total_uncertainty_in": total.mean(),
        "mean_expected_data_uncertainty_in": (total - knowledge).mean(),
        "mean_mutual_information_in": knowledge.mean(),
        "auroc_ood_entropy": auroc(total, scores.entropy(q)),
        "auroc_ood_mutual_information": auroc(knowledge, scores.mutual_information(outside)),
        "auroc_ood_one_minus_max_probability": auroc(1.0 - p.max(axis=1), 1.0 - q.max(axis=1)),
    }
    for name, value in found.items():
        assert value == pytest.approx(case[name], rel=TOLERANCE), name
