"""The two regressions of a table, and what is proved of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.checks import few_different
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.experiments.pac_bayes.methods.pac_gp import PacGPOptions
from gpsuite.experiments.pac_bayes.shared.method import risk_method
from gpsuite.experiments.pac_bayes.shared.settings import LEAST_TRAINING_ROWS
from gpsuite.experiments.pac_bayes.shared.training import Training
from gpsuite.methods.conformal import LeaveOneOut, split_radius
from gpsuite.methods.pac_bayes import PAPER_GRID, BandLoss, FullGPPosterior
from gpsuite.methods.pac_bayes.bounds.certificates import Certificate, Terms, certify
from gpsuite.methods.pac_bayes.bounds.held_out import binomial_upper_bound
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.methods.robustness.regression.prediction_range import MEAN, prediction_range
from gpsuite.methods.robustness.search.regions import box
from gpsuite.models.latent import LatentPosterior
from gpsuite.seeds import stream

KERNEL = "squared_exponential"  # of the family's certified regressions
LEAST_TEST_ROWS, LEAST_PREPARATION = 5, 2

TRAINING = PacGPOptions(
    builder="pac_gp", title="kl-PAC-GP", reference="Reeb et al. 2018, Sec. 3.1", objective="kl"
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A regression, trained on some rows in standardised units, and the way back.

    Attributes:
        posterior: at hyperparameters rounded to the grid.
        rows: its training rows' numbers in the dataset, [N].
        inputs: what standardises inputs.
        target: what standardises the target.
        fault: why the training did not end well; empty if it did.
    """

    posterior: FullGPPosterior
    rows: IntArray
    inputs: Standardiser
    target: Standardiser
    fault: str = ""

    @property
    def scale(self) -> float:
        """One standard deviation of the target, in its own units."""
        return float(self.target.scale[0])

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return prediction [B] and standard deviation [B] of a new target, in own units, at inputs [B, D]."""
        mean, variance = self.posterior.predict(self.inputs.transform(X))
        noise = self.posterior.hyperparameters.noise_variance
        return self.target.inverse(mean[:, None])[:, 0], self.scale * np.sqrt(variance + noise)


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged regression.

    Attributes:
        fitted: trained without the test rows.
        test: numbers of the test rows, [H].
        errors: absolute errors there, in own units, [H].
        leave_one_out: models with its hyperparameters on its rows and the `held` test rows but one.
        held: numbers of these test rows.
    """

    fitted: Fitted
    test: IntArray
    errors: FloatArray
    leave_one_out: LeaveOneOut
    held: IntArray


def order_of(rows: int, learning: Learning) -> IntArray:
    """Return the random order of the rows; the last `test_share` of it are test rows, its first prepare."""
    return stream(learning.seed, "rows").permutation(rows)


def kept_model(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Fitted:
    """Return the regression that is kept, of all rows but those that chose its scale; trained once per group."""

    def attempt() -> Fitted:
        order = order_of(dataset.rows, learning)
        count = max(round(learning.preparation * len(order)), LEAST_PREPARATION)
        return _fit(dataset, learning, order[:count], order[count:][: learning.most_rows], shared)

    return shared.once(f"kept {learning}", attempt)


def judged_rows(dataset: PreparedDataset, learning: Learning) -> tuple[IntArray, IntArray]:
    """Return the training rows and the test rows of the model that is judged.

    Raises:
        UserError: if no test row is left without copies of training rows.
    """
    order, groups = order_of(dataset.rows, learning), load(dataset).groups
    first = len(order) - max(math.ceil(learning.test_share * len(order)), LEAST_TEST_ROWS)
    train = order[: min(first, learning.most_rows)]
    test = order[len(train) :]
    if groups is not None:  # a copy of a training row tells nothing
        test = test[~np.isin(groups[test], groups[train])]
        if not len(test):
            raise few_different(dataset.name, groups)
    return train, test


def judged_model(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Judged:
    """Return the regression that test rows judge, trained in the same way without them; once per group."""

    def attempt() -> Judged:
        data, (train, test) = load(dataset), judged_rows(dataset, learning)
        fitted = _fit(dataset, learning, train, train, shared)
        errors = np.abs(fitted.predict(data.X[test])[0] - data.y[test, 0])
        held = test[: max(learning.most_rows // 2, LEAST_TEST_ROWS)]
        rows = np.concatenate([train, held])
        models = LeaveOneOut.fit(
            fitted.inputs.transform(data.X[rows]),
            fitted.target.transform(data.y[rows, :1])[:, 0],
            np.arange(len(train), len(rows)),
            KERNEL,
            fitted.posterior.hyperparameters,
        )
        return Judged(fitted, test, errors, models, held)

    return shared.once(f"judged {learning}", attempt)


def _fit(
    dataset: PreparedDataset, learning: Learning, scaled_by: IntArray, rows: IntArray, shared: SharedWork
) -> Fitted:
    data = load(dataset)
    if len(rows) < LEAST_TRAINING_ROWS:
        fault = f"{len(rows)} rows are left to learn from, a bound needs {LEAST_TRAINING_ROWS}"
        raise UserError(f"dataset={dataset.name}: {fault}", key="dataset")
    inputs, target = Standardiser.fit(data.X[scaled_by]), Standardiser.fit(data.y[scaled_by, :1])
    X, y = inputs.transform(data.X[rows]), target.transform(data.y[rows, :1])[:, 0]
    width = learning.goal / float(target.scale[0]) if learning.own else learning.goal
    method = risk_method(TRAINING)
    work = Training(
        X, y, TRAINING, False, learning.delta, learning.max_evaluations, learning.seed, None, shared.observer
    )
    found = method.train(work, BandLoss(width))
    posterior = method.certify(TRAINING, PAPER_GRID.rounded(found.hyperparameters), X, y, found)
    assert isinstance(posterior, FullGPPosterior)
    return Fitted(posterior, rows, inputs, target, "" if found.status != "diverged" else found.reason)


def errors_of(fitted: Fitted, learning: Learning, widths: Sequence[float]) -> tuple[FloatArray, int]:
    """Return the errors t in standard deviations, increasing, the goal among them, and the goal's number."""
    goal = learning.goal / fitted.scale if learning.own else learning.goal
    values = np.unique([*widths, goal])
    return values, int(np.flatnonzero(values == goal)[0])


def mean_bounds(fitted: Fitted, learning: Learning, widths: FloatArray) -> list[Certificate]:
    """Return PAC-Bayes certificates at each error; together they hold with probability 1 - delta.

    The union bound over the errors is paid as `grid_size`; `bound_bayes` bounds the posterior mean's share.
    """
    posterior = fitted.posterior
    terms = Terms(
        len(posterior.y),
        posterior.hyperparameters.n_kernel,
        learning.delta,
        PAPER_GRID,
        grid_size=len(widths),
    )
    found = []
    for width in widths:
        loss = BandLoss(float(width))
        found.append(
            certify(RiskAndKL(posterior.gibbs_risk(loss), posterior.kl), terms, posterior.rounding(loss))
        )
    return found


def held_out_bounds(errors: FloatArray, own: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
    """Return the share of test errors above each t, and its upper bounds, together valid with 1 - delta."""
    counts = [int(np.count_nonzero(~(errors <= t))) for t in own]
    bounds = [binomial_upper_bound(count, len(errors), delta / len(own)) for count in counts]
    return np.array(counts) / len(errors), np.array(bounds)


def conformal_radius(judged: Judged, coverage: float) -> float:
    """Return the half width of split conformal intervals, in the target's own units."""
    return split_radius(judged.errors, coverage)


def latent_posterior(posterior: FullGPPosterior) -> LatentPosterior:
    """Return the posterior in the form that bounds of its range and stored models need."""
    n, inputs = posterior.X.shape
    prior = posterior.hyperparameters
    lengthscales = np.broadcast_to(np.array(prior.lengthscales), (inputs,)).copy()
    root = np.tril(np.linalg.inv(posterior.factor))
    return LatentPosterior(
        posterior.X, KERNEL, prior.variance, lengthscales, posterior.alpha, root, -np.ones(n), 1.0
    )


def proved_ranges(
    fitted: Fitted,
    latent: LatentPosterior,
    X: FloatArray,
    tolerances: Sequence[float],
    boxes: int,
    tolerance: float,
) -> FloatArray:
    """Return lowest and highest prediction [B, K, 2], own units, if every input is off by at most each tolerance.

    Args:
        fitted: the regression.
        latent: its posterior.
        X: inputs in own units [B, D].
        tolerances: in standard deviations, K.
        boxes: limit for each row and tolerance.
        tolerance: largest gap between attained and proved value, in standard deviations of the target.
    """
    noise = fitted.posterior.hyperparameters.noise_variance
    found = np.empty((len(X), len(tolerances), 2))
    for row, x in enumerate(fitted.inputs.transform(X)):
        for place, radius in enumerate(tolerances):
            region = box(x, np.full(len(x), radius))
            (mean,) = prediction_range(latent, noise, region, [MEAN], tolerance, Budget(boxes=boxes))
            found[row, place] = mean.lowest_proved, mean.highest_proved
    own = float(fitted.target.mean[0]) + fitted.scale * found
    slack = 1e-14 * (abs(float(fitted.target.mean[0])) + np.abs(own))  # what the change of units rounds
    return np.asarray(own + np.where(np.isfinite(slack), slack, 0.0) * np.array([-1.0, 1.0]))
