"""The links of `links` as GPflow likelihoods and TensorFlow functions, safe in the tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow.likelihoods.utils import inv_probit

from gpsuite.models.classification.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link


def log_sigma(link: Link) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return log p(y=1|f) as a TensorFlow function.

    Raises:
        ValueError: if the link is neither probit nor logistic.
    """
    if link == PROBIT:
        log_cdf: Callable[[tf.Tensor], tf.Tensor] = tfp.distributions.Normal(
            np.float64(0.0), np.float64(1.0)
        ).log_cdf
        return log_cdf
    if link == LOGISTIC:
        log_sigmoid: Callable[[tf.Tensor], tf.Tensor] = tf.math.log_sigmoid
        return log_sigmoid
    raise ValueError(f"link {link.name}: probit or logistic is needed")


def exact_probit(f: tf.Tensor) -> tf.Tensor:
    """Return Phi(f), without GPflow's squeeze to [1e-3, 1 - 1e-3]."""
    return 0.5 * tf.math.erfc(-f / np.sqrt(2.0))


class StableBernoulli(gpflow.likelihoods.Bernoulli):  # type: ignore[misc]
    """GPflow's Bernoulli with log p computed without 1 - p, which rounds to zero from f = 9 (probit) on.

    Args:
        link: probit or logistic.

    Raises:
        ValueError: for another link.
    """

    def __init__(self, link: Link) -> None:
        self._log_sigma = log_sigma(link)
        super().__init__(invlink=exact_probit if link == PROBIT else tf.math.sigmoid)

    def _scalar_log_prob(self, X: Any, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        return self._log_sigma(tf.where(tf.equal(Y, 1.0), F, -F))

    def _predict_mean_and_var(self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if self.invlink is not exact_probit:
            mean, variance = super()._predict_mean_and_var(X, Fmu, Fvar)
            return mean, variance
        p = exact_probit(Fmu / tf.sqrt(1.0 + Fvar))
        return p, p - tf.square(p)


def build_bernoulli(link: Link) -> gpflow.likelihoods.Bernoulli:
    """Return the GPflow likelihood of a link; GPflow's own for the squeezed probit.

    Raises:
        ValueError: if GPflow has no such likelihood.
    """
    if link == SQUEEZED_PROBIT:
        return gpflow.likelihoods.Bernoulli()
    return StableBernoulli(link)


def link_of(likelihood: gpflow.likelihoods.Likelihood) -> Link:
    """Return the link of a Bernoulli likelihood.

    Raises:
        TypeError: for another likelihood or an unknown inverse link.
    """
    if type(likelihood) in (gpflow.likelihoods.Bernoulli, StableBernoulli):
        for inverse, link in (
            (inv_probit, SQUEEZED_PROBIT),
            (exact_probit, PROBIT),
            (tf.math.sigmoid, LOGISTIC),
            (tf.nn.sigmoid, LOGISTIC),
        ):
            if likelihood.invlink is inverse:
                return link
    raise TypeError(
        f"likelihood {type(likelihood).__name__}: only Bernoulli with a known link can be converted"
    )
