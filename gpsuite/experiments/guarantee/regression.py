"""The two regressions of a table, and what is proved about both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import DifferentRows, Standardiser, set_aside
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, SharedWork
from gpsuite.experiments.guarantee.checks import Searches, few_different, nested
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS
from gpsuite.experiments.robustness.classifiers import numbers_of
from gpsuite.methods.conformal import LeaveOneOut, split_radius
from gpsuite.methods.pac_bayes import PAPER_GRID, BandLoss, FullGPPosterior
from gpsuite.methods.pac_bayes.bounds import Certificate
from gpsuite.methods.pac_bayes.evaluation import Copies, cautious_upper_bound, certify_posterior
from gpsuite.methods.pac_bayes.full_gp import relevance_lengthscales, train_full_gp
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.methods.robustness.regression import MEAN, prediction_range
from gpsuite.methods.robustness.search.regions import Region, box
from gpsuite.models.config import Hyperparameters
from gpsuite.models.latent import LatentPosterior
from gpsuite.seeds import stream

KERNEL = "squared_exponential"  # of the family's certified regressions
LEAST_TEST_ROWS, LEAST_PREPARATION = 5, 2
OBJECTIVE = "kl"  # kl-PAC-GP of Reeb et al. 2018, Sec. 3.1
MOST_INFORMING = 500  # rows that choose lengthscales, for time


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of a table in the units of a regression that has one lengthscale.

    Attributes:
        inputs: what standardises inputs, and divides each by its lengthscale.
        target: what standardises the target.
        standard: one standard deviation in these units, the geometric mean of the inputs'.
    """

    inputs: Standardiser
    target: Standardiser
    standard: float

    @classmethod
    def fit(cls, data: Dataset, scaled_by: IntArray, informing: IntArray) -> Scales:
        """Return those that rows `scaled_by` standardise, and whose lengthscales rows `informing` choose.

        The bound of a regression in these units holds on other rows.
        """
        inputs, target = Standardiser.fit(data.X[scaled_by]), Standardiser.fit(data.y[scaled_by, :1])
        first = informing[:MOST_INFORMING]
        lengthscales = relevance_lengthscales(
            inputs.transform(data.X[first]), target.transform(data.y[first, :1])[:, 0]
        )
        standard = math.exp(-float(np.mean(np.log(lengthscales))))
        return cls(Standardiser(inputs.mean, inputs.scale * lengthscales), target, standard)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A regression, trained on some rows in standardised units, and the way back.

    Attributes:
        posterior: at hyperparameters rounded to the grid.
        rows: its training rows' numbers in the dataset, [N].
        inputs: what standardises inputs, and divides each by its lengthscale.
        target: what standardises the target.
        fault: why the training did not end well. Empty if it did.
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
        """Return prediction [B] and standard deviation [B] of a new target, in original units, at inputs [B, D]."""
        mean, variance = self.posterior.predict(self.inputs.transform(X))
        noise = self.posterior.hyperparameters.noise_variance
        return self.target.inverse(mean[:, None])[:, 0], self.scale * np.sqrt(variance + noise)


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged regression.

    Attributes:
        fitted: trained without the test rows.
        aside: numbers of the rows that were set aside, [H'].
        all_errors: absolute errors there, in original units, [H'].
        different: of the rows that were set aside. None if all are.
        leave_one_out: models with its hyperparameters on its rows and the `held` rows but one.
        held: numbers of these rows, the first that were set aside.
        held_different: as `held`, `seen` also if another row repeats it. None if all are.
    """

    fitted: Fitted
    aside: IntArray
    all_errors: FloatArray
    different: DifferentRows | None
    leave_one_out: LeaveOneOut
    held: IntArray
    held_different: DifferentRows | None

    @property
    def test(self) -> IntArray:
        """Numbers of the test rows, no copies of training rows or of each other, [H]."""
        return self.aside[unseen(self.aside, self.different)]

    @property
    def errors(self) -> FloatArray:
        """Absolute errors on the test rows, in original units, [H]."""
        return self.all_errors[unseen(self.aside, self.different)]


def order_of(rows: int, learning: Learning, clusters: IntArray | None = None) -> IntArray:
    """Return the random order of the rows, those of a group together.

    The last `test_share` of it are test rows, unless time or groups choose them. Its first prepare.
    """
    rng = stream(learning.seed, "rows")
    order = rng.permutation(rows)
    if clusters is None:
        return order
    return order[np.argsort(rng.permutation(int(clusters.max()) + 1)[clusters[order]], kind="stable")]


def kept_model(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Fitted:
    """Return the regression that is kept, of all rows but those that chose its scale. Trained once per group."""

    def attempt() -> Fitted:
        scaled_by, rows = kept_rows(dataset, learning)
        return _fit(dataset, learning, Scales.fit(load(dataset), scaled_by, scaled_by), rows, shared)

    return shared.once(f"kept {learning}", attempt)


def kept_rows(dataset: PreparedDataset, learning: Learning) -> tuple[IntArray, IntArray]:
    """Return the rows that choose scale and lengthscales of the model that is kept, and its training rows.

    The former are the first of the order: a share, more until their target varies, and up to twice as many
    until all numbers do. When to stop is decided by rows seen so far, so that the others are still draws.
    """
    data = load(dataset)
    order = order_of(dataset.rows, learning, data.clusters)
    share = max(round(learning.preparation * len(order)), LEAST_PREPARATION)
    numbers = data.X[order][:, numbers_of(data.input_names, data.level_inputs)]
    all_vary = int(_first_to_vary(numbers).max(initial=0))
    count = max(share, min(2 * share, all_vary), int(_first_to_vary(data.y[order, :1])[0]))
    if data.clusters is not None:  # no group on both sides
        own = data.clusters[order]
        count = int(np.flatnonzero(own == own[count - 1])[-1]) + 1
    return order[:count], order[count:][: learning.most_rows]


def _first_to_vary(columns: FloatArray) -> IntArray:
    """Return how many of the first rows of each column [N, D] hold two different values, [D]. N if none do."""
    changed = columns != columns[0]
    return np.where(changed.any(axis=0), np.argmax(changed, axis=0) + 1, len(columns))


def kept_copies(dataset: PreparedDataset, learning: Learning) -> Copies:
    """Return which training rows of the model that is kept are copies of others, or of rows that chose its scale.

    Raises:
        UserError: if all of them are copies of the latter.
    """
    data, (scaled_by, rows) = load(dataset), kept_rows(dataset, learning)
    if data.clusters is not None:
        return Copies(_one_of_each(data.clusters[rows]))
    groups = data.groups
    different = DifferentRows.of(rows, scaled_by, groups)
    if groups is not None and not len(unseen(rows, different)):
        raise few_different(dataset.name, groups)
    return Copies(different)


def _one_of_each(clusters: IntArray) -> DifferentRows:
    """Return the first of the rows of each group, whose order is random: new groups are like these [m] of rows [N]."""
    first = np.sort(np.unique(clusters, return_index=True)[1])
    return DifferentRows(first, np.zeros(len(first), dtype=bool))


def judged_rows(dataset: PreparedDataset, learning: Learning) -> tuple[IntArray, IntArray]:
    """Return the training rows of the model that is judged and all that are set aside, copies included.

    Raises:
        UserError: if every one of these is a copy of a training row.
    """
    data, order = load(dataset), order_of(dataset.rows, learning)
    groups, count = data.groups, max(math.ceil(learning.test_share * len(order)), LEAST_TEST_ROWS)
    train, aside = np.split(order, [min(len(order) - count, learning.most_rows)])
    if data.order == "time" or data.clusters is not None:
        aside, train = set_aside(data, np.arange(len(order)), count, stream(learning.seed, "rows"))
        train = train[: learning.most_rows]
    if groups is not None and not len(unseen(aside, DifferentRows.of(aside, train, groups))):
        raise few_different(dataset.name, groups)
    return train, aside


def check_rows(dataset: PreparedDataset, learning: Learning) -> None:
    """Refuse a table of too few rows, too few different ones, or targets that do not vary, for both models.

    Raises:
        UserError: if it is one.
    """
    kept_copies(dataset, learning)
    left = {
        "test_share": (learning.test_share, len(judged_rows(dataset, learning)[0]), LEAST_TEST_ROWS),
        "preparation": (
            learning.preparation,
            _draws(load(dataset), kept_rows(dataset, learning)[1]),
            LEAST_PREPARATION,
        ),
    }
    for key, (share, rows, aside) in left.items():
        if rows < LEAST_TRAINING_ROWS:
            fault = f"{dataset.rows} rows leave {rows} to learn from, a bound needs {LEAST_TRAINING_ROWS}"
            if dataset.rows - aside < LEAST_TRAINING_ROWS:
                raise UserError(f"dataset={dataset.name}: {fault}\nadd rows", key="dataset")
            raise UserError(f"{key}={share:g}: {fault}\ntake a smaller share, or add rows", key=key)
    targets, name = load(dataset).y[judged_rows(dataset, learning)[0], 0], load(dataset).target_names[0]
    if np.all(targets == targets[0]):
        fault = f"{name} is {targets[0]:g} in all {len(targets)} rows that the judged model would learn from"
        raise UserError(f"dataset.target: {fault}\nadd rows with other values", key="dataset.target")


def _draws(data: Dataset, rows: IntArray) -> int:
    """Return how many of the rows count as draws: all, or one of each group."""
    return len(rows) if data.clusters is None else len(np.unique(data.clusters[rows]))


def unseen(rows: IntArray, different: DifferentRows | None) -> IntArray:
    """Return the positions in `rows` of the different ones without a copy elsewhere."""
    return np.arange(len(rows)) if different is None else different.places[~different.seen]


def judged_model(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Judged:
    """Return the regression that test rows judge, trained in the same way without them. Once per group."""

    def attempt() -> Judged:
        data, (train, aside) = load(dataset), judged_rows(dataset, learning)
        informing = train[: len(kept_rows(dataset, learning)[0])]  # as many as the kept model's
        fitted = _fit(dataset, learning, Scales.fit(data, train, informing), train, shared)
        errors = np.abs(fitted.predict(data.X[aside])[0] - data.y[aside, 0])
        different = DifferentRows.of(aside, train, data.groups)
        held = aside[: max(learning.most_rows // 2, LEAST_TEST_ROWS)]
        rows = np.concatenate([train, held])
        models = LeaveOneOut.fit(
            fitted.inputs.transform(data.X[rows]),
            fitted.target.transform(data.y[rows, :1])[:, 0],
            np.arange(len(train), len(rows)),
            KERNEL,
            fitted.posterior.hyperparameters,
        )
        models = replace(models, errors=models.errors + rounding(models, fitted.target))
        return Judged(fitted, aside, errors, different, models, held, _once(held, train, data.groups))

    return shared.once(f"judged {learning}", attempt)


def _once(held: IntArray, train: IntArray, groups: IntArray | None) -> DifferentRows | None:
    """Return which rows are different, `seen` where a training row or another of them repeats one."""
    found = DifferentRows.of(held, train, groups)
    if found is None or groups is None:
        return None
    kinds, copies = np.unique(groups[held], return_counts=True)
    repeated = copies[np.searchsorted(kinds, groups[held[found.places]])] > 1
    return replace(found, seen=found.seen | repeated)


def rounding(models: LeaveOneOut, target: Standardiser) -> float:
    """Return how far two evaluations of one prediction may be apart: a row of equal error must stay inside.

    In standardised units. To original units the target's mean is added, which rounds, too.

    A sum of N products has an error below N u times the sum of their sizes, to first order. Taken twice, for errors
    and ends, and twice as large.
    """
    sizes = np.abs(models.alpha).sum() + np.abs(models.changes).sum(axis=0).max(initial=0.0)
    offset = 4.0 * abs(float(target.mean[0] / target.scale[0]))
    return float(4.0 * np.finfo(float).eps * ((len(models.X) + 50) * (1.0 + models.variance * sizes) + offset))


def _fit(dataset: PreparedDataset, learning: Learning, scales: Scales, rows: IntArray, shared: SharedWork) -> Fitted:
    data, inputs, target = load(dataset), scales.inputs, scales.target
    X, y = inputs.transform(data.X[rows]), target.transform(data.y[rows, :1])[:, 0]
    width = learning.goal / float(target.scale[0]) if learning.own else learning.goal
    problem = RiskProblem(X, y, BandLoss(width), learning.delta, OBJECTIVE, ard=False)
    found = _trained(problem, learning.max_evaluations, scales.standard, shared)
    posterior = FullGPPosterior.fit(PAPER_GRID.rounded(found.hyperparameters), X, y)
    return Fitted(posterior, rows, inputs, target, "" if found.status != DIVERGED else found.reason)


def _trained(problem: RiskProblem, max_evaluations: int, standard: float, shared: SharedWork) -> TrainedGP:
    """Minimise the bound from two starts, and return the smaller one. It holds for both ends.

    At the first all hyperparameters are 1: lengthscales as other rows chose them. These may have been few, so that the
    second is the published one, of a lengthscale of one standard deviation.
    """
    starts = (None, Hyperparameters(1.0, (standard,), 1.0))
    found = []
    for number, start in enumerate(starts, start=1):
        budget = Budget(evaluations=max_evaluations, run=number, runs=len(starts), observer=shared.observer)
        found.append(train_full_gp(problem, Search(budget, start)))
    return min(found, key=lambda each: (each.status == DIVERGED, each.objective_value))


def errors_of(fitted: Fitted, learning: Learning, widths: Sequence[float]) -> tuple[FloatArray, int]:
    """Return the errors t in standard deviations, increasing, the goal among them, and the goal's number.

    Their number is the same for every model: a goal in original units may equal a width for one model and not for
    another.
    """
    goal = learning.goal / fitted.scale if learning.own else learning.goal
    values = np.sort([*widths, goal]) if learning.own else np.unique([*widths, goal])
    return values, int(np.searchsorted(values, goal))


def mean_bounds(fitted: Fitted, learning: Learning, widths: FloatArray, copies: Copies) -> list[Certificate]:
    """Return PAC-Bayes certificates at each error. Together they hold with probability 1 - delta.

    The union bound over the errors is paid as `n_settings`. `bound_bayes` bounds the posterior mean's share.
    """
    return [
        certify_posterior(fitted.posterior, BandLoss(float(width)), learning.delta, PAPER_GRID, len(widths), copies)
        for width in widths
    ]


def held_out_bounds(judged: Judged, own: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
    """Return the share of test errors above each t, and its upper bounds, together valid with 1 - delta.

    The bounds hold whether rows that repeat others are draws or copies.
    """
    above = [~(judged.all_errors <= t) for t in own]
    bounds = [cautious_upper_bound(each, judged.different, delta / len(own)) for each in above]
    return np.array([float(np.mean(~(judged.errors <= t))) for t in own]), np.array(bounds)


def conformal_radius(judged: Judged, coverage: float) -> float:
    """Return the half width of split conformal intervals, in the target's own units. Copies as in the bounds."""
    errors = judged.all_errors + judged.fitted.scale * rounding(judged.leave_one_out, judged.fitted.target)
    radius = split_radius(errors, coverage)
    if judged.different is None:
        return radius
    lost = np.where(judged.different.seen, np.inf, errors[judged.different.places])
    return max(radius, split_radius(lost, coverage))


def latent_posterior(posterior: FullGPPosterior) -> LatentPosterior:
    """Return the posterior in the form that bounds of its range and stored models need."""
    n, inputs = posterior.X.shape
    prior = posterior.hyperparameters
    lengthscales = np.broadcast_to(np.array(prior.lengthscales), (inputs,)).copy()
    root = np.tril(np.linalg.inv(posterior.factor))
    return LatentPosterior(posterior.X, KERNEL, prior.variance, lengthscales, posterior.alpha, root, -np.ones(n), 1.0)


def regions(fitted: Fitted, X: FloatArray, deviations: FloatArray, radius: float) -> list[Region]:
    """Return what scaled inputs may be if original ones [B, D] are off by at most so many deviations [D]."""
    return [box(x, radius * deviations / fitted.inputs.scale) for x in fitted.inputs.transform(X)]


def proved_ranges(
    fitted: Fitted,
    latent: LatentPosterior,
    X: FloatArray,
    deviations: FloatArray,
    tolerances: Sequence[float],
    searches: Searches,
    tolerance: float,
) -> FloatArray:
    """Return lowest and highest prediction [B, K, 2], in original units, if inputs are off by at most each tolerance.

    NaN if the seconds did not let a search begin.

    Args:
        fitted: the regression.
        latent: its posterior.
        X: inputs in original units [B, D].
        deviations: standard deviation of every input in the table [D], 0 of those that stay. The few rows that scale
            the regression may say another.
        tolerances: in these deviations, K.
        searches: one for each row and tolerance.
        tolerance: largest gap between attained and proved value, in standard deviations of the target.
    """
    noise = fitted.posterior.hyperparameters.noise_variance
    found = np.full((len(X), len(tolerances), 2), np.nan)
    around = [regions(fitted, X, deviations, radius) for radius in tolerances]
    for row, boxes in enumerate(zip(*around, strict=True)):
        for place, region in enumerate(boxes):
            if not searches.may_begin():
                continue
            (mean,) = prediction_range(latent, noise, region, [MEAN], tolerance, searches.budget())
            searches.ended(mean.minimum.reason, mean.maximum.reason)
            found[row, place] = mean.lowest_proved, mean.highest_proved
    found = nested(found, tolerances)
    own = float(fitted.target.mean[0]) + fitted.scale * found
    slack = 1e-14 * (abs(float(fitted.target.mean[0])) + np.abs(own))  # what the change of units rounds
    return np.asarray(own + np.where(np.isfinite(slack), slack, 0.0) * np.array([-1.0, 1.0]))
