"""Gaussian processes of scikit-learn: Laplace classifier, one-vs-rest classifier and regression.

Its classifier integrates a sum of five error functions in place of the logistic link (Williams & Barber 1998). The sum
is within `LINK_ERROR` of the link everywhere. So its probabilities are within `LINK_ERROR` of the exact ones. Its
classes come from the sign of the latent mean, which needs no link.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.utils.validation import check_is_fitted

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LOGISTIC
from gpsuite.models.given.given import NO_SHIFT, GivenModel, Latent, OneVsRestPosterior, shifted
from gpsuite.models.given.kernels import sklearn_kernel
from gpsuite.models.latent import LatentPosterior

LINK_ERROR = 4.35e-4  # the largest distance of the five error functions from the logistic function is 4.347e-4
TWO_CLASSES = (
    f"the class probability: scikit-learn's predict_proba and the exact one, which differ by {LINK_ERROR} at most"
)
ONE_VS_REST = (
    "the largest of the classes' one-against-rest probabilities, as predict takes it. The range is that of "
    "predict_proba, divided by the sum"
)
MEAN = "the predictive mean, that of predict"
NOISE_BY_ROW = "there is no certificate format for noise that differs from row to row"


def from_sklearn(model: Any) -> GivenModel:
    """Return the posterior of a fitted scikit-learn Gaussian process.

    Raises:
        UserError: if the model or its kernel is unknown, or it is not fitted.
    """
    if not isinstance(model, GaussianProcessClassifier | GaussianProcessRegressor):
        raise UserError(
            f"model {type(model).__name__}: certify takes scikit-learn's GaussianProcessClassifier and "
            "GaussianProcessRegressor, also in a Pipeline"
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise UserError(f"model {type(model).__name__} is not fitted: call fit first") from None
    if isinstance(model, GaussianProcessRegressor):
        return _regression(model)
    return _classifier(model)


def _regression(model: GaussianProcessRegressor) -> GivenModel:
    if not hasattr(model, "X_train_"):
        raise UserError("model GaussianProcessRegressor is not fitted: call fit first")
    X, alpha = np.asarray(model.X_train_, dtype=np.float64), np.asarray(model.alpha_, dtype=np.float64)
    if alpha.ndim == 2 and alpha.shape[1] != 1:
        raise UserError(f"{alpha.shape[1]} targets: certify takes a regression with one")
    kernel, columns = sklearn_kernel(model.kernel_, X.shape[1])
    scale, offset = (float(np.ravel(part)[0]) for part in (model._y_train_std, model._y_train_mean))
    root = solve_triangular(model.L_, np.eye(len(X)), lower=True)
    posterior = LatentPosterior(
        X, kernel.kernel, kernel.variance, kernel.lengthscales, alpha.ravel(), root, -np.ones(len(X)), 1.0
    )

    def own(inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        with warnings.catch_warnings():  # a model trained on a table misses the names, which say nothing here
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            mean, deviation = model.predict(inputs, return_std=True)
        return (np.ravel(mean) - offset) / scale, (np.ravel(deviation) / scale) ** 2 - kernel.white

    each_row = np.ptp(model.alpha) > 0.0
    return GivenModel(
        posterior,
        X.shape[1],
        columns,
        (),
        MEAN,
        own,
        uncertified=NOISE_BY_ROW if each_row else "",
        noise=kernel.white + float(np.mean(model.alpha)),
        scale=scale,
        offset=offset,
        targets=np.ravel(model.y_train_),
    )


def _classifier(model: GaussianProcessClassifier) -> GivenModel:
    labels, inputs = tuple(model.classes_.tolist()), model.n_features_in_
    if len(labels) == 2:
        part = model.base_estimator_
        posterior, fault = _laplace(part, inputs), ""
        if hasattr(posterior, "spread"):
            fault = NO_SHIFT
        return GivenModel(
            posterior, inputs, np.arange(inputs), labels, TWO_CLASSES, _own(part), LINK_ERROR, uncertified=fault
        )
    if model.multi_class != "one_vs_rest":
        raise UserError("multi_class='one_vs_one': certify knows one_vs_rest, which has class probabilities")
    parts = model.base_estimator_.estimators_
    together = OneVsRestPosterior(tuple(_laplace(part, inputs) for part in parts), LINK_ERROR)
    each = [_own(part) for part in parts]

    def own(X: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = [latent(X) for latent in each]
        mean, variance = (np.stack([one[place] for one in found], axis=1) for place in (0, 1))
        return mean, variance

    fault = "there is no certificate format for one-against-rest classifiers"
    return GivenModel(together, inputs, np.arange(inputs), labels, ONE_VS_REST, own, LINK_ERROR, uncertified=fault)


def _laplace(part: Any, inputs: int) -> GPCPosterior:
    """Return the posterior of scikit-learn's classifier of two classes (Rasmussen & Williams 2006, Algorithm 3.2)."""
    kernel, _ = sklearn_kernel(part.kernel_, inputs)
    X = np.asarray(part.X_train_, dtype=np.float64)
    root = solve_triangular(part.L_, np.diag(part.W_sr_), lower=True)
    plain = GPCPosterior(
        X, kernel.kernel, kernel.variance, kernel.lengthscales, part.y_train_ - part.pi_, root, -np.ones(len(X)), 1.0,
        LOGISTIC,
    )  # fmt: skip
    return shifted(plain, 0.0, kernel.white)


def _own(part: Any) -> Latent:
    """Return the latent moments as scikit-learn computes them, from its own kernel."""

    def moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
        across = part.kernel_(part.X_train_, X)
        v = solve_triangular(part.L_, part.W_sr_[:, None] * across, lower=True)
        return across.T @ (part.y_train_ - part.pi_), part.kernel_.diag(X) - np.einsum("ij,ij->j", v, v)

    return moments
