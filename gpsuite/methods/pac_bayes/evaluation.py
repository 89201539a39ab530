"""Copies among the rows: bounds that hold whether all are repeated draws or all are one draw stored again.

If equal rows are independent draws that happen to agree, the mean loss over all n rows bounds the risk, with n rows or
fewer. If each is one draw stored several times, the mean over the m different rows bounds it, with m rows. A row that
also decided something, such as the prior, counts as an error. The larger of the two means with m rows is sound in both
cases. It is not sound in a mixture of rows drawn again and rows stored again.

Equation: derived, copies among the rows
Equation: Reeb et al. 2018, Sec. 4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.splits import DifferentRows
from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import (
    PAPER_GRID,
    Certificate,
    HyperparameterGrid,
    Terms,
    binomial_upper_bound,
    certify,
)
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import Posterior, RiskAndKL, checked_data, gibbs_risk
from gpsuite.models.config import Hyperparameters


class FewDifferentError(UserError):
    """Every test row of a split repeats a training row."""


@dataclass(frozen=True)
class Copies:
    """Points that are copies of others.

    Attributes:
        train: the different training points. None if all are different.
        test: the different test points. Training may have used some.
    """

    train: DifferentRows | None = None
    test: DifferentRows | None = None

    @classmethod
    def of_split(cls, train: IntArray, test: IntArray, groups: IntArray | None) -> Copies:
        """Return which rows of a split are copies. `groups` [N] numbers the first row equal to each, or None.

        Raises:
            FewDifferentError: if every test row repeats a training row.
        """
        found = cls(DifferentRows.of(train, train[:0], groups), DifferentRows.of(test, train, groups))
        for side in (found.train, found.test):
            if side is not None and not len(side.places):
                told = "every test row of the split repeats a training row: add different rows"
                raise FewDifferentError(f"test_share: {told}", key="test_share")
        return found


ALL_DIFFERENT = Copies()


def means(losses: FloatArray, different: DifferentRows | None) -> tuple[float, float]:
    every = float(losses.mean())
    if different is None:
        return every, every
    return every, float(np.where(different.seen, 1.0, losses[different.places]).mean())


def cautious_upper_bound(errors: BoolArray, different: DifferentRows | None, delta: float) -> float:
    """Return the upper limit of an error rate: the larger limit of all held-out points [H] and the different ones."""
    every = binomial_upper_bound(int(errors.sum()), len(errors), delta)
    if different is None:
        return every
    lost = errors[different.places] | different.seen
    if not len(lost):
        return 1.0
    return max(every, binomial_upper_bound(int(lost.sum()), len(lost), delta))


def cautious_risk(posterior: Posterior, loss: Loss, copies: Copies) -> tuple[float, float, int]:
    """Return the middle of the two training risks, half of their distance, and the number of different points."""
    y = posterior.y
    if copies.train is None:
        return gibbs_risk(posterior, loss), 0.0, len(y)
    losses = loss.expected(y, posterior.train_mean, posterior.train_variance)
    every, different = (min(mean, 1.0) for mean in means(losses, copies.train))
    return 0.5 * (every + different), 0.5 * abs(every - different), len(copies.train.places)


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of one trained GP: bounds from the training data, risks and errors on both parts.

    Attributes:
        certificate: bounds B_kl and B_sqrt with the split of the penalty.
        gibbs_risk_train: risk of a random draw of the latent value, mean over the training points.
        gibbs_risk_test: mean over the test points. If some are copies, it is at least the mean over the different
            points.
        mse_train: mean squared error of the posterior mean, in squared units of y.
        nll_test: mean negative log density of the test targets in nats, noise variance included.
    """

    certificate: Certificate
    hyperparameters: Hyperparameters
    gibbs_risk_train: float
    gibbs_risk_test: float
    bayes_risk_train: float
    bayes_risk_test: float
    mse_train: float
    mse_test: float
    nll_test: float
    n_test: int

    @property
    def bound_kl(self) -> float:
        return self.certificate.bound_kl

    @property
    def bound_sqrt(self) -> float:
        return self.certificate.bound_sqrt

    @property
    def lower_kl(self) -> float:
        """Lower inverse-kl bound on the true Gibbs risk, valid together with B_kl."""
        return self.certificate.lower_kl

    @property
    def kl_over_n(self) -> float:
        return self.certificate.penalty.kl / self.certificate.n


def certify_posterior(
    posterior: Posterior,
    loss: Loss,
    delta: float,
    grid: HyperparameterGrid = PAPER_GRID,
    n_settings: int = 1,
    copies: Copies = ALL_DIFFERENT,
) -> Certificate:
    """Return the bounds of the true risk of a posterior whose hyperparameters are on the grid.

    Args:
        n_settings: number of settings (widths, numbers M) that the data chose this one from, 1 if it was fixed before.
        copies: record of the training points that are copies of others. The bound holds whether these are draws or not.

    Raises:
        ValueError: if the hyperparameters are not on the grid (ln|Theta| would not cover them), no training point is
            left to count, n_settings < 1 or delta is outside (0, 1).
    """
    hyperparameters = posterior.hyperparameters
    if not grid.holds(hyperparameters):
        raise ValueError(f"a certificate needs hyperparameters rounded to the grid, got {hyperparameters}")
    risk, slack, independent = cautious_risk(posterior, loss, copies)
    terms = Terms(independent, hyperparameters.n_kernel, delta, grid, n_settings)
    rounding = posterior.rounding(loss)
    if copies.train is not None:  # rounding can move the mean over the different points by more than the mean over all
        rounding = RiskAndKL(rounding.risk * len(posterior.y) / independent + slack, rounding.kl)
    return certify(RiskAndKL(risk, posterior.kl), terms, rounding)


def evaluate(
    posterior: Posterior,
    Xtest: FloatArray,
    ytest: FloatArray,
    loss: Loss,
    delta: float,
    grid: HyperparameterGrid = PAPER_GRID,
    n_settings: int = 1,
    copies: Copies = ALL_DIFFERENT,
) -> Evaluation:
    """Return certificate and metrics of any posterior whose hyperparameters are on the grid. See `certify_posterior`.

    Raises:
        ValueError: as `certify_posterior`, or if shapes disagree or values are not finite.
    """
    certificate = certify_posterior(posterior, loss, delta, grid, n_settings, copies)
    Xtest, ytest = checked_data(Xtest, ytest)
    y, fitted = posterior.y, posterior.train_mean
    mean, variance = posterior.predict(Xtest)
    return Evaluation(
        certificate=certificate,
        hyperparameters=posterior.hyperparameters,
        gibbs_risk_train=gibbs_risk(posterior, loss),
        gibbs_risk_test=max(means(loss.expected(ytest, mean, variance), copies.test)),
        bayes_risk_train=float(loss.pointwise(y, fitted).mean()),
        bayes_risk_test=max(means(loss.pointwise(ytest, mean), copies.test)),
        mse_train=float(np.mean((y - fitted) ** 2)),
        mse_test=float(np.mean((ytest - mean) ** 2)),
        nll_test=_mean_nll(ytest, mean, variance + posterior.hyperparameters.noise_variance),
        n_test=len(ytest) if copies.test is None else len(copies.test.places),
    )


def _mean_nll(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    return float(np.mean(0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)))
