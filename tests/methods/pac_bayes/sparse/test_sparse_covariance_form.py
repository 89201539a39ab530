import numpy as np
import pytest

from gpsuite.methods.pac_bayes.sparse.algebra import (
    CovarianceForm,
    InducingKernel,
    WhitenedPosterior,
    WhitenedSums,
    is_accurate,
)

Z = np.linspace(-3.0, 3.0, 6)[:, None]


def _sums(inducing: InducingKernel, noise: float) -> WhitenedSums:
    rng = np.random.default_rng(2)
    V = inducing.whitened(inducing.features(rng.normal(size=(40, 1))), np.empty((6, 40)))
    return WhitenedSums(np.asfortranarray(V @ V.T / noise), V @ rng.normal(size=40) / noise)


def test_factor_and_mean_are_those_of_the_definition() -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.2, 0.0, -1.0]))
    sums = _sums(inducing, 0.4)
    form = CovarianceForm.derive(inducing, sums, WhitenedPosterior.condition(sums))
    assert form is not None
    S = np.linalg.inv(np.eye(6) + sums.gram)
    inverse = np.linalg.inv(inducing.factor)
    np.testing.assert_array_equal(np.tril(form.factor, -1), 0.0)
    np.testing.assert_allclose(form.factor @ form.factor.T, inverse.T @ (np.eye(6) - S) @ inverse, atol=1e-12)
    np.testing.assert_allclose(form.mean, inverse.T @ S @ sums.target, atol=1e-12)


def test_no_form_without_a_positive_definite_reduction() -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.2, 0.0, -1.0]))
    sums = _sums(inducing, 0.4)
    posterior = WhitenedPosterior.condition(sums)
    assert CovarianceForm.derive(inducing, WhitenedSums(-sums.gram, sums.target), posterior) is None


@pytest.mark.parametrize(
    ("log_lengthscale", "noise", "accurate"), [(0.0, 1.0, True), (0.0, 1e-6, False), (1.5, 1.0, False)]
)
def test_accuracy_is_a_matter_of_condition_and_noise(
    log_lengthscale: float, noise: float, accurate: bool
) -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.0, log_lengthscale, 0.0]))
    assert is_accurate(inducing, noise) == accurate
