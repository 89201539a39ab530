"""The sparse GP posterior of inducing inputs, between FITC and VFE.

Equation: Reeb et al. 2018, Eq. (9), Eq. (10), Eq. (11)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.certificates.risk import SPARSE, Predictor
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL, checked_data, checked_inputs, gibbs_risk, predictor_of
from gpsuite.methods.pac_bayes.sparse.algebra import (
    LARGEST_SLACK,
    InducingKernel,
    Slopes,
    WhitenedPosterior,
    WhitenedSums,
    blocks,
    check_alpha,
    checked_inducing,
    not_positive_definite,
    sparse_slack,
    squared_norms,
)
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True)
class SparseGPPosterior:
    """A GP posterior N(a, B) of M inducing variables, carried to functions by the prior. Build it with `fit`.

    The effective noise of point i is Lambda_i = sigma^2 + alpha (k(x_i, x_i) - q_i), q = diag(K_XZ K_ZZ^-1 K_ZX).
    Q = K_ZZ + K_ZX Lambda^-1 K_XZ, a = K_ZZ Q^-1 K_ZX Lambda^-1 y, B = K_ZZ Q^-1 K_ZZ.

    With a jitter j the inducing variables are u = f(Z) + e. The noise e ~ N(0, j sigma_f^2 I) is independent of
    everything. The prior of f does not change. So Q is a valid posterior and its KL a valid bound, as without jitter.
    The certificate is for this predictor.

    Attributes:
        hyperparameters: the hyperparameters of the computation.
        kl: KL(Q||P) in nats, of the inducing variables and hence on functions.
        inducing: K_ZZ and its factor. Its `jitter` is 0 unless K_ZZ is numerically singular.
        whitened: the posterior of the whitened inducing variables.
        kl_slack: largest change of the KL by rounding of K_ZZ.

    Equation: Reeb et al. 2018, Eq. (9), Eq. (11)
    """

    hyperparameters: Hyperparameters
    X: FloatArray
    y: FloatArray
    Z: FloatArray
    alpha: float
    kl: float
    train_mean: FloatArray
    train_variance: FloatArray
    inducing: InducingKernel
    whitened: WhitenedPosterior
    kl_slack: float = math.inf

    @classmethod
    def fit(
        cls, hyperparameters: Hyperparameters, X: FloatArray, y: FloatArray, Z: FloatArray, alpha: float
    ) -> SparseGPPosterior:
        """Return the posterior, in O(N M^2) time with O(M^2 + N D) memory.

        Raises:
            ValueError: if shapes disagree, values are not finite or alpha is outside [0, 1].
            NotPositiveDefiniteError: if K_ZZ cannot be factorised even with jitter.
        """
        X, y = checked_data(X, y)
        Z = checked_inducing(Z, X.shape[1])
        check_alpha(alpha)
        if len(hyperparameters.lengthscales) not in (1, X.shape[1]):
            raise ValueError(f"{len(hyperparameters.lengthscales)} lengthscales for {X.shape[1]} inputs")
        found = None
        for inducing in InducingKernel.factorisations(Z, hyperparameters.to_log(), 0.0):
            if not inducing.is_regular or inducing.explains_too_much(X):
                continue
            found = cls._conditioned(hyperparameters, X, y, Z, alpha, inducing)
            if found.kl_slack <= LARGEST_SLACK * (1.0 + found.kl):
                break
        if found is None:
            raise not_positive_definite()
        return found  # the slack of the last jitter is part of the certificate, however large it is

    @classmethod
    def _conditioned(
        cls,
        hyperparameters: Hyperparameters,
        X: FloatArray,
        y: FloatArray,
        Z: FloatArray,
        alpha: float,
        inducing: InducingKernel,
    ) -> SparseGPPosterior:
        sums = WhitenedSums.zeros(len(Z))
        for rows in blocks(len(y)):
            V, work = _block(inducing, X[rows])
            spare = np.maximum(inducing.variance - squared_norms(V), 0.0)
            sums.add(V, hyperparameters.noise_variance + alpha * spare, y[rows], work)
        whitened = WhitenedPosterior.condition(sums)
        mean, variance = _predict(inducing, whitened, X)
        found = cls(hyperparameters, X, y, Z, alpha, whitened.kl, mean, variance, inducing, whitened)
        return replace(found, kl_slack=found._slack(Slopes.of_kl(len(y), found.kl)))

    @property
    def predictor(self) -> Predictor:
        """Description of the posterior in a certificate."""
        jitter = self.inducing.jitter
        return predictor_of(SPARSE, self.hyperparameters, self.alpha, jitter, inducing_inputs=self.Z)

    def predict(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N'] and latent variance [N'] at new inputs [N', D]. No observation noise added.

        Raises:
            ValueError: if the inputs are not [N', D].
        """
        return _predict(self.inducing, self.whitened, checked_inputs(Xnew, self.Z.shape[1]))

    def gibbs_risk(self, loss: Loss) -> float:
        return gibbs_risk(self, loss)

    def rounding(self, loss: Loss) -> RiskAndKL:
        """Return the largest changes of the Gibbs risk of a loss and of the KL by rounding of K_ZZ, to first order."""
        risk = Slopes.of_risk(loss, self.y, self.train_mean, self.train_variance)
        return RiskAndKL(self._slack(risk), self.kl_slack)

    def _slack(self, slopes: Slopes) -> float:
        noise = self.hyperparameters.noise_variance
        return sparse_slack(self.inducing, self.whitened, self.X, self.y, noise, self.alpha, slopes)


def _block(inducing: InducingKernel, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V of a block of inputs, and an uninitialised array of its shape for values computed from V."""
    shape = (len(inducing.scaled), len(X))
    return inducing.whitened(inducing.features(X), np.empty(shape)), np.empty(shape)


def _predict(inducing: InducingKernel, whitened: WhitenedPosterior, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V'b and sigma_f^2 - |V_i|^2 + V_i'S V_i, [N] each."""
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for rows in blocks(len(X)):
        V, work = _block(inducing, X[rows])
        mean[rows] = V.T @ whitened.mean
        spare = np.maximum(inducing.variance - squared_norms(V), 0.0)
        variance[rows] = spare + squared_norms(whitened.half_variance(V, work))
    return mean, variance
