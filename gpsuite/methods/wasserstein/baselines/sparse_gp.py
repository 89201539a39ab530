"""GPflow's sparse variational GP (Hensman et al. 2015) as a classifier and a regression of the same training loop.

Equation: Hensman et al. 2015
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.scoring.classification import negative_log_likelihood
from gpsuite.methods.wasserstein.scoring.regression import negative_log_density
from gpsuite.models.random_elements.element import checked_inputs
from gpsuite.models.random_elements.likelihoods import ClassLikelihood, ClassPrediction, GaussianNoise
from gpsuite.models.random_elements.prior import fit_prior
from gpsuite.models.regression.inducing import kmeans_inducing

_ROWS = 1000


@dataclass(frozen=True, eq=False)
class SparseVariationalGP:
    """GPflow's SVGP under one of our likelihoods: kernel, inducing inputs and q(u) are trained.

    Attributes:
        model: of GPflow; its own likelihood is not used.
        likelihood: of the targets.
        prior_mean: the constant mean of the latent functions.
    """

    model: gpflow.models.SVGP
    likelihood: ClassLikelihood | GaussianNoise
    prior_mean: float

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [*self.model.trainable_variables, *getattr(self.likelihood, "variables", [])]

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the negative evidence lower bound's estimate by a batch, in nats."""
        mean, variance = self.model.predict_f(X)
        scale = self.model.num_data / tf.cast(tf.shape(X)[0], tf.float64)
        fit = tf.reduce_sum(self.likelihood.expected_log(mean + self.prior_mean, variance, y, seed))
        return self.model.prior_kl() - scale * fit

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log predictive probability or density, in nats; NaN if there is none."""
        try:
            if isinstance(self.likelihood, GaussianNoise):
                return negative_log_density(y, *self.predict_gaussian(X))
            return negative_log_likelihood(self.predict(X).probabilities, y)
        except (ArithmeticError, ValueError, tf.errors.InvalidArgumentError):
            return math.nan

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return class probabilities and their data uncertainty.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            TypeError: for a regression.
        """
        if isinstance(self.likelihood, GaussianNoise):
            raise TypeError("a regression predicts no classes")
        return self.likelihood.predict(*self.latent(X))

    def predict_gaussian(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N] and variance [N] of a regression's targets, noise included.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            TypeError: for a classifier.
        """
        if not isinstance(self.likelihood, GaussianNoise):
            raise TypeError("a classifier predicts no numbers")
        mean, variance = self.latent(X)
        return mean[:, 0], variance[:, 0] + self.likelihood.variance

    def latent(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return latent mean [N, L] and variance [N, L]."""
        X = checked_inputs(X, self.model.inducing_variable.Z.shape[1])
        parts = [self.model.predict_f(X[at : at + _ROWS]) for at in range(0, len(X), _ROWS)]
        mean, variance = (np.concatenate([part[i].numpy() for part in parts]) for i in (0, 1))
        return mean + self.prior_mean, variance


def build_sparse_gp(
    X: FloatArray,
    targets: FloatArray,
    likelihood: ClassLikelihood | GaussianNoise | None,
    prior: str,
    prior_mean: float,
    prior_evaluations: int,
    M: int,
    rng: np.random.Generator,
) -> SparseVariationalGP:
    """Build an untrained sparse GP; kernel and inducing inputs start where Gaussian Wasserstein inference has them.

    Args:
        X: training inputs [N, D].
        targets: of the regression that chooses the kernel's first parameters [N, L].
        likelihood: of the targets; None: Gaussian noise as that regression finds it.
        prior: name in `random_elements.prior.PRIORS`.
        prior_mean: constant mean.
        prior_evaluations: of that regression's marginal likelihood.
        M: inducing inputs.
        rng: draws rows and centres.
    """
    fitted = fit_prior(prior, X, targets - prior_mean, rng, Budget(evaluations=prior_evaluations))
    gpflow.set_trainable(fitted.kernel, True)
    Z = kmeans_inducing(X, min(M, len(np.unique(X, axis=0))), rng)
    model = gpflow.models.SVGP(
        fitted.kernel, gpflow.likelihoods.Gaussian(), Z, num_latent_gps=targets.shape[1], num_data=len(X)
    )
    gpflow.set_trainable(model.likelihood, False)
    return SparseVariationalGP(model, likelihood or GaussianNoise(fitted.noise_variance), prior_mean)
