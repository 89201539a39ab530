"""Certificate and test metrics of a trained GP, as the tables of Reeb et al. 2018 report them.

Equation: Reeb et al. 2018, Sec. 4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.bounds.certificates import Certificate, Terms, certify
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.copies import ALL_DIFFERENT, Copies, cautious_risk, means
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import Posterior, RiskAndKL, checked_data, gibbs_risk
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True)
class Evaluation:
    """What one trained GP is worth: bounds from the training data, risks and errors on both parts.

    Attributes:
        certificate: bounds B_kl and B_sqrt with the split of the penalty.
        hyperparameters: on the grid.
        gibbs_risk_train: risk of a random draw of the latent value, mean over the training points.
        gibbs_risk_test: the same over the test points; where some are copies, no less than over the different ones.
        bayes_risk_train: risk of the posterior mean, mean over the training points.
        bayes_risk_test: the same over the test points.
        mse_train: mean squared error of the posterior mean, in squared units of y.
        mse_test: the same over the test points.
        nll_test: mean negative log density of the test targets in nats, noise variance included.
        n_test: number of different test points.
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
        """B_kl (Eq. 5)."""
        return self.certificate.bound_kl

    @property
    def bound_sqrt(self) -> float:
        """B_sqrt (below Eq. 5)."""
        return self.certificate.bound_sqrt

    @property
    def lower_kl(self) -> float:
        """Lower inverse-kl bound on the true Gibbs risk, valid together with B_kl."""
        return self.certificate.lower_kl

    @property
    def kl_over_n(self) -> float:
        """KL(Q||P)/n in nats per training point."""
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
        posterior: fitted at rounded hyperparameters.
        loss: the loss whose risk is bounded.
        delta: allowed probability of failure, in (0, 1).
        grid: the hyperparameter grid, fixed before the data were seen; decides ln|Theta|.
        n_settings: number of settings (widths, numbers M) among which the data chose this one; 1 if it was fixed
            before.
        copies: which training points are copies of others; the bound holds whether they are draws or not.

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
    if copies.train is not None:  # what moves a mean over all can move that over the different ones by more
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
    """Return certificate and metrics of any posterior whose hyperparameters are on the grid.

    Args:
        posterior: fitted at rounded hyperparameters.
        Xtest: test inputs [N', D].
        ytest: test targets [N'].
        loss: as the next three, of `certify_posterior`.
        delta: in (0, 1).
        grid: of the hyperparameters.
        n_settings: of the settings.
        copies: which points are copies of others, among the test points, too.

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
    """Return the mean negative log density of y under N(mean, variance), in nats."""
    return float(np.mean(0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)))
