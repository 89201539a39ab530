"""Means and tests over random splits of the same rows: the ones behind what a paper says in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import fit_standardiser, train_test_indices
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    INFEASIBLE,
    SKIPPED,
    MethodOptions,
    Outcome,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.pac_bayes.certificates import stored_certificate
from gpsuite.experiments.pac_bayes.methods import LIKELIHOOD, PUBLISHED, FitSize, risk_method, sparse_options
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS, FitTask, Goal, SplitSettings, TrainingTask, loss_of
from gpsuite.experiments.pac_bayes.training import Trained, Training
from gpsuite.experiments.tasks import take
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, binomial_upper_bound, mean_loss_upper_bound
from gpsuite.methods.pac_bayes.cost import Cost
from gpsuite.methods.pac_bayes.evaluation import ALL_DIFFERENT, Copies, Evaluation, FewDifferentError, evaluate
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.seeds import derived_seed
from gpsuite.statistics.estimates import Estimate, corrected_mean
from gpsuite.statistics.significance import corrected_t_p, shown_by_t

# Test rows over training rows of the shipped 80/20 splits, the only ones that claims are decided on.
TEST_OVER_TRAINING = 0.25


def split_mean(values: FloatArray) -> Estimate:
    """Return the mean over splits with its corrected interval. None for fewer than two values."""
    return corrected_mean(values, TEST_OVER_TRAINING)


def shown_over(counts: Iterable[int]) -> str:
    """Return what a caption says of a table's numbers, given over how many splits each of its groups was taken."""
    fewest, most = min(counts := list(counts)), max(counts)
    splits = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return "one random split" if splits == "1" else f"mean ± standard error over {splits} random splits"


def positive_p(values: FloatArray) -> float:
    """Return the one-sided p-value of the corrected t-test that a mean over splits is above 0."""
    return corrected_t_p(values, TEST_OVER_TRAINING)


def paired_p(smaller: FloatArray, larger: FloatArray) -> float:
    """Return the one-sided p-value of the corrected paired t-test for `smaller` < `larger`, 1 for fewer than two."""
    return positive_p(larger - smaller)


def positive_shown(values: FloatArray) -> bool | None:
    """Return what the corrected t-test shows of a mean over splits being above 0. None if the data show no side."""
    return shown_by_t(values, TEST_OVER_TRAINING)


def paired_shown(smaller: FloatArray, larger: FloatArray) -> bool | None:
    """Return what the corrected paired t-test shows of `smaller` < `larger`. None if the data show no side."""
    return positive_shown(larger - smaller)


AGREEMENT = 1e-2  # long searches over objectives with flat directions: hyperparameters differ more than bounds
KERNELS = {False: "se", True: "se_ard"}  # by whether every input has its own lengthscale
USUAL_EQUIVALENTS = 200  # evaluations of all rows until the staged search has converged
FULL_GP_ROWS = 20_000  # an N x N matrix of this size is 3.2 GB


def split_seed(seed: int, split: int) -> int:
    """Return the random state of a split, the same for every method.

    Experiment seed 0 is the published protocol: split k uses scikit-learn's random state k. Other seeds give
    derived states, so that no two experiments share a split.
    """
    return split if seed == 0 else derived_seed(seed, "split", split)


@dataclass(frozen=True)
class Fit:
    """A training with its certificate, on every split: what distinguishes it from the others of a plan.

    Attributes:
        method: the method's name.
        options: its options.
        dataset: what it is fitted to.
        ard: one lengthscale per input, or a single one.
        goal: the loss that is bounded, and its width. PAC-GPs are trained on its bound.
        axes: columns of records.csv, the method and the split excepted.
        also: further losses, of the same goal, under which the trained posterior is certified too.
    """

    method: str
    options: MethodOptions
    dataset: PreparedDataset
    ard: bool
    goal: Goal
    axes: dict[str, str | int | float] = field(default_factory=dict)
    also: tuple[str, ...] = ()


def fit_tasks(request: Request[SplitSettings], goals: Sequence[Goal]) -> list[Task[FitTask]]:
    """Return one task per split, method and accuracy goal.

    Args:
        request: the validated request.
        goals: losses and widths.
    """
    dataset, ard = request.require_dataset(), request.model.ard
    fits = [
        Fit(name, options, dataset, ard, goal, goal.axes) for name, options in request.methods.items() for goal in goals
    ]
    return split_tasks(request, fits)


def split_tasks(request: Request[SplitSettings], fits: Sequence[Fit]) -> list[Task[FitTask]]:
    """Return one task per split and fit, all fits of a split together.

    Raises:
        UserError: if a dataset has too few rows, or too many for a full GP, or M exceeds the training rows.
    """
    for fit in fits:
        _check_sizes(fit, request.settings)
    return [_task(request, fit, split) for split in range(request.settings.repetitions) for fit in fits]


def sparse_fit(
    name: str,
    options: MethodOptions,
    inducing: int,
    dataset: PreparedDataset,
    ard: bool,
    epsilon: float,
    loss: str = "band01",
) -> Fit:
    """Return a sparse fit with M inducing inputs, certified under the exponential loss too.

    The experiments on the large datasets make their fits here, so that they share records.

    Raises:
        UserError: if the method has no inducing inputs.
    """
    sparse = sparse_options(options)
    if sparse is None:
        raise UserError(f"methods: {options.title} has no inducing inputs", key="methods")
    axes: dict[str, str | int | float] = {"kernel": KERNELS[ard], "inducing": inducing}
    changed = replace(sparse, inducing=inducing)
    return Fit(name, changed, dataset, ard, Goal(loss, epsilon), axes, ("exp",))


def _task(request: Request[SplitSettings], fit: Fit, split: int) -> Task[FitTask]:
    shown = "  ".join(
        f"{axis} {value:g}" if isinstance(value, float) else f"{axis} {value}" for axis, value in fit.axes.items()
    )
    return request.task(
        _params(request, fit, split),
        label=f"{fit.options.heading}  {shown}  split {split}",
        axes={"method": fit.method, **fit.axes, **_search(fit.options), "split": split},
        dataset=fit.dataset,
        version=fit.options.method.version,
        group=_group(fit, split),
        cost=_cost(fit, request.settings),
    )


def _search(options: MethodOptions) -> dict[str, str]:
    """Return the axis of a search that is not the published one."""
    sparse = sparse_options(options)
    return {} if sparse is None or sparse.search == PUBLISHED else {"search": sparse.search}


def _group(fit: Fit, split: int) -> str:
    """Return which tasks share one training: a marginal likelihood does not depend on goal and posterior."""
    training = risk_method(fit.options).shares_training(fit.options)
    return f"{fit.dataset.name}/{training}/{fit.ard}/{split}" if training else ""


def _params(request: Request[SplitSettings], fit: Fit, split: int) -> FitTask:
    settings = request.settings
    return take(
        FitTask,
        settings,
        method=fit.options,
        ard=fit.ard,
        loss=fit.goal,
        also=fit.also,
        split_seed=split_seed(request.seed, split),
    )


def _cost(fit: Fit, settings: SplitSettings) -> float:
    """Return a rough guess of CPU seconds: evaluations times their arithmetic."""
    rows, sparse = fit.dataset.rows * (1 - settings.test_share), sparse_options(fit.options)
    method = risk_method(fit.options)
    starts, likelihood = method.starts(fit.options), LIKELIHOOD in method.traits
    if sparse is not None:
        evaluation = (3 if likelihood else 6) * rows * sparse.inducing * (sparse.inducing + 100) / 4e10
        usual = 1000 if sparse.search == PUBLISHED else USUAL_EQUIVALENTS
        return starts * min(settings.max_evaluations, usual) * evaluation + 0.1
    work = 25 * 1.5 * (rows / 1000) ** 3 / 20
    return starts * work + 0.05


def _check_sizes(fit: Fit, settings: SplitSettings) -> None:
    """Refuse a split without enough rows on both sides, more rows than a full GP can take, and M above the rows."""
    rows, sparse = fit.dataset.rows, sparse_options(fit.options)
    training = rows - math.ceil(rows * settings.test_share)
    enough = training >= LEAST_TRAINING_ROWS
    fault = f"leaves {training} training rows of {rows}. The bounds need {LEAST_TRAINING_ROWS} or more"
    require(enough, "test_share", settings.test_share, fault)
    if sparse is not None:
        fits = sparse.inducing <= training
        advice = f"must be at most the {training} training rows of {fit.dataset.name}"
        require(fits, "inducing" if "inducing" in fit.axes else "method.inducing", sparse.inducing, advice)
    elif rows > FULL_GP_ROWS:
        raise UserError(
            f"method={fit.method}: the dataset has {rows} rows, a full GP takes at most {FULL_GP_ROWS}\n"
            "use a sparse one: method=kl_pac_sgp",
            key="method",
        )


VACUOUS = 0.99  # an upper bound on a risk this close to 1 says nothing
OVERRUN = 1.2  # of the seconds, or one second more: what a fit may take before it is not begun
NO_DEVIATION = "the training targets are all equal: epsilon has no unit. Use scaling=all, or accuracy="


@dataclass(frozen=True)
class Split:
    """Standardised training and test rows.

    Attributes:
        X: training inputs [N, D].
        y: training targets [N].
        X_test: test inputs [N', D].
        y_test: test targets [N'].
        scale: the target's standard deviation in its own units.
        copies: which rows are copies of others.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    scale: float
    copies: Copies = ALL_DIFFERENT


def run_fit(task: Task[FitTask], shared: SharedWork) -> Outcome:
    """Train, round the prior's hyperparameters to the grid, certify, and measure on the test rows.

    Returns bound, risks, KL and errors in the units of the standardised target, and arrays with all that a check of
    the bound needs but the dataset.
    """
    params = task.params
    try:
        split = shared.once("split", lambda: read_split(task.require_dataset(), params))
    except FewDifferentError as error:
        return Outcome({}, INFEASIBLE, str(error))
    if params.loss.epsilon is not None and params.scaling == "train" and np.ptp(split.y) == 0.0:
        return Outcome({}, INFEASIBLE, NO_DEVIATION)
    epsilon = params.loss.width(split.scale)
    seconds = task.budget_seconds
    cost = None if seconds is None else _run_cost(split, params)
    if seconds is not None and cost is not None and cost.least > max(OVERRUN * seconds, seconds + 1.0):
        return Outcome({}, SKIPPED, _too_short(split, params, seconds, cost))
    work = training_of(params, split, seconds, shared, cost)
    trained = train(work, loss_of(params.loss.name, epsilon), shared)
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    return _evaluate(task.require_dataset(), split, params, epsilon, trained)


def read_split(dataset: PreparedDataset, params: FitTask) -> Split:
    """Load a dataset, split it and standardise it as the parameters say.

    Raises:
        DataError: if the data changed since the run was planned.
    """
    data = load(dataset)
    train, test = train_test_indices(len(data.X), params.test_share, params.split_seed)
    inputs = fit_standardiser(data.X, train, params.scaling)
    target = fit_standardiser(data.y[:, :1], train, params.scaling)
    X, y = inputs.transform(data.X), target.transform(data.y[:, :1])[:, 0]
    copies = Copies.of_split(train, test, data.groups)
    return Split(X[train], y[train], X[test], y[test], float(target.scale[0]), copies)


def _run_cost(split: Split, params: FitTask) -> Cost:
    """Return what an evaluation and the certificate take."""
    size = FitSize(len(split.y), len(split.y_test), split.X.shape[1], 1 + len(params.also))
    return risk_method(params.method).cost(params.method, size)


def _too_short(split: Split, params: FitTask, seconds: float, cost: Cost) -> str:
    """Return why not even one evaluation fits, and what to do."""
    sparse = sparse_options(params.method)
    model, advice = "full GP", "take a sparse one (method=kl_pac_sgp)"
    if sparse is not None:
        model, advice = (f"sparse GP with M = {sparse.inducing}", "take fewer inducing inputs (method.inducing)")
    return (
        f"budget.seconds={seconds:g} is too short. One evaluation and the certificate of a {model} with "
        f"{len(split.y)} rows take about {math.ceil(cost.least)} seconds: {advice} "
        f"or budget.seconds={math.ceil(1.5 * cost.least)}"
    )


def training_of(
    params: TrainingTask, split: Split, seconds: float | None, shared: SharedWork, cost: Cost | None = None
) -> Training[MethodOptions]:
    """Return a task's training on the training rows of a split.

    Args:
        params: of the task.
        split: its rows.
        seconds: its limit.
        shared: tells who watches.
        cost: of an evaluation, where seconds count.
    """
    return Training(
        split.X,
        split.y,
        params.method,
        params.ard,
        params.delta,
        params.max_evaluations,
        params.split_seed,
        seconds,
        shared.observer,
        cost,
        shared.began,
    )


def train(work: Training[MethodOptions], loss: Loss, shared: SharedWork) -> Trained:
    """Train as the method says, once for a group whose tasks share the training."""
    method = risk_method(work.options)
    if method.shares_training(work.options):
        return shared.once("trained", lambda: method.train(work, loss))
    return method.train(work, loss)


def _evaluate(data: PreparedDataset, split: Split, params: FitTask, epsilon: float, trained: Trained) -> Outcome:
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = risk_method(params.method).certify(params.method, rounded, split.X, split.y, trained)
    loss, delta = loss_of(params.loss.name, epsilon), params.delta
    found = evaluate(posterior, split.X_test, split.y_test, loss, delta, copies=split.copies)
    numbers = {
        **_metrics(found),
        **_held_out(found, params.loss.name, delta),
        "rmse_test_own_units": found.mse_test**0.5 * split.scale,
        "epsilon_standardised": epsilon,
        "objective": trained.objective,
        "jitter": posterior.predictor.jitter,
        **_spread(trained),
    }
    for name in params.also:
        other = evaluate(posterior, split.X_test, split.y_test, loss_of(name, epsilon), delta, copies=split.copies)
        chosen = ("bound_kl", "gibbs_risk_train", "gibbs_risk_test")
        numbers |= {f"{metric}_{name}": getattr(other, metric) for metric in chosen}
    limited = trained.status == BUDGET
    vacuous = f"the bound is vacuous: {found.bound_kl:.4f}" if found.bound_kl >= VACUOUS else ""
    return Outcome(
        {**{name: finite_or_none(value) for name, value in numbers.items()}, **_counts(found, trained)},
        BUDGET if limited else DONE,
        trained.reason if limited else found.certificate.reason or vacuous,
        arrays=stored_certificate(data, params, posterior, found),
        headline=f"bound {found.bound_kl:.4f}{' (vacuous)' if vacuous else ''}",
    )


def _held_out(found: Evaluation, loss: str, delta: float) -> dict[str, float]:
    """Return bounds from only the test rows, each valid separately with probability 1 - delta."""
    bounds = {"test_bound_gibbs": mean_loss_upper_bound(min(found.gibbs_risk_test, 1.0), found.n_test, delta)}
    if loss == "band01":
        errors = math.ceil(found.bayes_risk_test * found.n_test - 1e-6)
        bounds["test_bound_bayes"] = binomial_upper_bound(errors, found.n_test, delta)
    return bounds


def _spread(trained: Trained) -> dict[str, float]:
    """Return by how much the worst start's objective exceeds the best's, if there were several."""
    ends = [value for value in trained.objectives if math.isfinite(value)]
    return {"start_spread": max(ends) - min(ends)} if len(trained.objectives) > 1 else {}


def _metrics(found: Evaluation) -> dict[str, float]:
    penalty, prior = found.certificate.penalty, found.hyperparameters
    single = {"lengthscale": prior.lengthscales[0]} if len(prior.lengthscales) == 1 else {}
    return {
        "bound_kl": found.bound_kl,
        "bound_sqrt": found.bound_sqrt,
        "bound_bayes": found.certificate.bound_bayes,
        "lower_kl": found.certificate.lower_kl,
        "gibbs_risk_train": found.gibbs_risk_train,
        "gibbs_risk_test": found.gibbs_risk_test,
        "bayes_risk_train": found.bayes_risk_train,
        "bayes_risk_test": found.bayes_risk_test,
        "mse_train": found.mse_train,
        "mse_test": found.mse_test,
        "nll_test": found.nll_test,
        "kl": penalty.kl,
        "kl_over_n": found.kl_over_n,
        "log_theta": penalty.log_theta,
        "confidence": penalty.confidence,
        "variance": prior.variance,
        "noise_variance": prior.noise_variance,
        **single,
    }


def _counts(found: Evaluation, trained: Trained) -> dict[str, int]:
    return {
        "n_train": found.certificate.n,
        "n_test": found.n_test,
        "n_hyperparameters": found.hyperparameters.n_kernel,
        "evaluations": trained.evaluations,
    }
