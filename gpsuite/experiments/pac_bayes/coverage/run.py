"""A block of repetitions of pac_bayes/coverage: bounds, and the true risk by quadrature."""

from __future__ import annotations

import numpy as np
from scipy.special import roots_legendre

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.experiments.pac_bayes.coverage.plan import CoverageTask
from gpsuite.experiments.pac_bayes.coverage.settings import DOMAIN, TRUTH
from gpsuite.experiments.pac_bayes.shared.method import risk_method
from gpsuite.experiments.pac_bayes.shared.training import Training
from gpsuite.methods.pac_bayes.bounds.certificates import Terms, certify
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import Posterior, RiskAndKL, gibbs_risk

NODES = 200  # Gauss-Legendre nodes over the domain; the integrand is smooth


def run(task: Task[CoverageTask], shared: SharedWork) -> Outcome:
    """Train on every data set of the batch; compare its bounds with its true risk."""
    params = task.params
    sample = kernel_regression(
        np.random.default_rng(params.seed),
        (params.count, params.rows),
        function=TRUTH,
        noise="gaussian",
        noise_scale=params.noise_scale,
        domain=DOMAIN,
    )
    pairs = [_bounds_and_risk(X, y, params) for X, y in zip(sample.X, sample.y, strict=True)]
    bounds, risks = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    held = (risks[:, None] <= bounds).sum(axis=0)
    metrics = {f"held_{delta:g}": int(count) for delta, count in zip(params.deltas, held, strict=True)}
    means = {"mean_bound": float(bounds[:, 0].mean()), "mean_risk": float(risks.mean())}
    return Outcome(
        {"count": params.count, **metrics, **means},
        arrays={"bounds": bounds, "risks": risks},
        headline=f"{held[0]} of {params.count} held",
    )


def _bounds_and_risk(X: FloatArray, y: FloatArray, params: CoverageTask) -> tuple[list[float], float]:
    """Return the bound at every delta, and the true Gibbs risk of the trained posterior."""
    loss, deltas, options = BandLoss(params.epsilon), params.deltas, params.method
    method = risk_method(options)
    work = Training(X, y, options, False, deltas[0], params.max_evaluations, params.seed)
    fit = method.train(work, loss)
    rounded = PAPER_GRID.rounded(fit.hyperparameters)
    posterior = method.certify(options, rounded, X, y, fit)
    found, counted = RiskAndKL(gibbs_risk(posterior, loss), posterior.kl), rounded.n_kernel
    bounds = [certify(found, Terms(len(y), counted, delta)).bound_kl for delta in deltas]
    return bounds, true_gibbs_risk(posterior, params.epsilon, params.noise_scale)


def true_gibbs_risk(posterior: Posterior, epsilon: float, noise_scale: float) -> float:
    """Return P(|y - f(x)| > epsilon) over new x, y and f drawn from the posterior, exact up to quadrature.

    For Gaussian noise y - f is N(truth - mean, variance + noise_scale^2) at every x; x is integrated by
    Gauss-Legendre quadrature over its uniform distribution.
    """
    nodes, weights = roots_legendre(NODES)
    half = 0.5 * (DOMAIN[1] - DOMAIN[0])
    x = DOMAIN[0] + half * (nodes + 1.0)
    mean, variance = posterior.predict(x[:, None])
    loss = BandLoss(epsilon).expected(FUNCTIONS[TRUTH](x), mean, variance + noise_scale**2)
    return float(0.5 * weights @ loss)
