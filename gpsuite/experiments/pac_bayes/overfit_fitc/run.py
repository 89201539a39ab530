"""One data set of pac_bayes/overfit_fitc: train, certify, and predict along the input."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import sample_gaussian, squared_exponential
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.pac_bayes.overfit_fitc.plan import OverfitTask
from gpsuite.experiments.pac_bayes.shared.method import risk_method
from gpsuite.experiments.pac_bayes.shared.run import Split, training_of
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.copies import ALL_DIFFERENT, Copies
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import Posterior
from gpsuite.seeds import stream

CURVE_POINTS = 301


# of a record, in the order of the table
METRICS = (
    "noise_std", "gibbs_risk_train", "gibbs_risk_test", "gap", "mse_train", "mse_test", "nll_test", "bound_kl",
    "kl_over_n",
)  # fmt: skip


def draw_split(params: OverfitTask, dataset: PreparedDataset | None) -> Split:
    """Return training and test rows, standardised by the training rows.

    Without a dataset f is drawn from a GP with squared exponential kernel, y = f(x) + noise_std N(0, 1).
    """
    rng, rows, copies = stream(params.split_seed, "data"), params.rows, ALL_DIFFERENT
    if dataset is None:
        X = rng.uniform(0.0, params.input_range, (rows + params.test_rows, 1))
        covariance = squared_exponential(X, X, params.signal_std**2, params.lengthscale)
        y = sample_gaussian(rng, covariance, 1)[0] + params.noise_std * rng.standard_normal(len(X))
    else:
        data = load(dataset)
        order = rng.permutation(len(data.X))
        train, test = order[:rows], order[rows:]
        X, y = data.X[order], data.y[order, 0]
        copies = Copies.of_split(train, test, data.groups)
    inputs, target = Standardiser.fit(X[:rows]), Standardiser.fit(y[:rows, None])
    X, y = inputs.transform(X), target.transform(y[:, None])[:, 0]
    return Split(X[:rows], y[:rows], X[rows:], y[rows:], float(target.scale[0]), copies)


def run(task: Task[OverfitTask], shared: SharedWork) -> Outcome:
    """Train one method on one data set, certify it and measure it on the test rows.

    The noise is returned in units of y, all else in units of the standardised target; the arrays hold the curve of
    one-dimensional data and the inducing inputs.
    """
    params = task.params
    split = draw_split(params, task.dataset)
    loss = BandLoss(params.epsilon)
    method = risk_method(params.method)
    trained = method.train(training_of(params, split, task.budget_seconds, shared), loss)
    if trained.status == DIVERGED or trained.Z is None:
        return Outcome({}, DIVERGED, trained.reason)
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = method.certify(params.method, rounded, split.X, split.y, trained)
    found = evaluate(posterior, split.X_test, split.y_test, loss, params.delta, copies=split.copies)
    numbers = {
        "noise_std": rounded.noise_variance**0.5 * split.scale,
        "gap": found.gibbs_risk_test - found.gibbs_risk_train,
        **{name: float(getattr(found, name)) for name in METRICS if name not in ("noise_std", "gap")},
    }
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else found.certificate.reason,
        arrays=_curve(posterior, trained.Z, split),
        headline=f"noise {numbers['noise_std']:.3f}, gap {numbers['gap']:+.3f}",
    )


def _curve(posterior: Posterior, Z: FloatArray, split: Split) -> dict[str, FloatArray]:
    """Return mean and predictive standard deviation along the input, empty for more than one."""
    if split.X.shape[1] != 1:
        return {}
    x = np.linspace(split.X.min(), split.X.max(), CURVE_POINTS)
    mean, variance = posterior.predict(x[:, None])
    deviation = np.sqrt(variance + posterior.hyperparameters.noise_variance)
    return {"x": x, "mean": mean, "std": deviation, "Z": Z[:, 0]}
