"""Laplace approximation over the last layer of a trained softmax network (Kristiadi et al. 2020).

Equation: Kristiadi et al. 2020
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.wasserstein.baselines.networks import SoftmaxNetwork, from_members
from gpsuite.methods.wasserstein.scoring.classification import negative_log_likelihood
from gpsuite.models.random_elements.element import checked_inputs
from gpsuite.models.random_elements.likelihoods import ClassPrediction, normal_points

PRECISIONS = tuple(10.0**power for power in np.arange(-2.0, 4.5, 0.5))
"""Prior precisions of the weights among which validation rows choose."""
_ROWS = 500


@dataclass(frozen=True, eq=False)
class LastLayerLaplace:
    """Normal distribution of the last layer's weights around the trained ones; features stay as they are.

    Covariance (H + tau I)^-1, H = sum_n (diag p - p p') (x) phi phi' the Gauss-Newton matrix with phi the features and
    a 1, written by its eigenvectors.

    Attributes:
        model: the trained network.
        eigenvalues: of H [C (F + 1)].
        vectors: eigenvectors, rows ordered by class, then feature [C, F + 1, C (F + 1)].
        precision: tau.
    """

    model: SoftmaxNetwork
    eigenvalues: FloatArray
    vectors: FloatArray
    precision: float

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return the mean softmax over the logits' normal distribution, at fixed points."""
        probabilities, data = [], []
        X = checked_inputs(X, self.model.network.inputs)
        for at in range(0, len(X), _ROWS):
            mean, covariance = self.logit_moments(X[at : at + _ROWS])
            jitter = 1e-10 * np.eye(mean.shape[1])
            lower = np.linalg.cholesky(covariance + jitter)
            draws = mean + np.einsum("ncd,sd->snc", lower, normal_points(mean.shape[1])[:256])
            part = from_members(softmax(draws, axis=2))
            probabilities.append(part.probabilities)
            data.append(part.data_uncertainty)
        return ClassPrediction(np.concatenate(probabilities), np.concatenate(data))

    def logit_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N, C] and covariance [N, C, C] of the logits."""
        phi = _features(self.model, X)
        weighted = self.vectors / np.sqrt(np.maximum(self.eigenvalues, 0.0) + self.precision)
        # rows of the Jacobian times a root of the covariance, one class at a time: [N, C, K]
        roots = np.stack([phi @ one for one in weighted], axis=1)
        return self.model.logits(X), roots @ roots.transpose(0, 2, 1)


def last_layer_laplace(
    model: SoftmaxNetwork, X: FloatArray, X_validation: FloatArray, y_validation: IntArray
) -> LastLayerLaplace:
    """Build the approximation from training inputs; the precision with the best validation likelihood is taken."""
    classes = model.network.outputs
    size = model.network.shapes[-2][0] + 1
    H = np.zeros((classes, size, classes, size))
    for at in range(0, len(X), _ROWS):
        phi, p = _features(model, X[at : at + _ROWS]), softmax(model.logits(X[at : at + _ROWS]), axis=1)
        for i in range(classes):
            for j in range(i + 1):
                weights = p[:, i] * ((i == j) - p[:, j])
                H[i, :, j] += (phi * weights[:, None]).T @ phi
    for i in range(classes):
        for j in range(i):
            H[j, :, i] = H[i, :, j]  # each block is symmetric
    eigenvalues, vectors = np.linalg.eigh(H.reshape(classes * size, -1))
    vectors = vectors.reshape(classes, size, -1)

    def loss(precision: float) -> float:
        candidate = LastLayerLaplace(model, eigenvalues, vectors, precision)
        return negative_log_likelihood(candidate.predict(X_validation).probabilities, y_validation)

    return LastLayerLaplace(model, eigenvalues, vectors, min(PRECISIONS, key=loss))


def _features(model: SoftmaxNetwork, X: Any) -> FloatArray:
    phi = np.asarray(model.network.features(model.variables, X).numpy(), dtype=np.float64)
    return np.concatenate([phi, np.ones((len(phi), 1))], axis=1)
