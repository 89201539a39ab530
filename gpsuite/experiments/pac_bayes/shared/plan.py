"""Tasks of fits on splits of a dataset: what is trained, on what, at which cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.pac_bayes.shared.method import LIKELIHOOD, PUBLISHED, risk_method, sparse_options
from gpsuite.experiments.pac_bayes.shared.settings import LEAST_TRAINING_ROWS, SplitSettings
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask, Goal
from gpsuite.seeds import derived_seed

AGREEMENT = (
    1e-2  # long searches over objectives with flat directions: hyperparameters differ more than bounds
)


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
        goal: the loss that is bounded, and its width; PAC-GPs are trained on its bound.
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
        Fit(name, options, dataset, ard, goal, goal.axes)
        for name, options in request.methods.items()
        for goal in goals
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
    shown = "  ".join(f"{axis} {value:g}" if isinstance(value, float) else f"{axis} {value}"
                      for axis, value in fit.axes.items())  # fmt: skip
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
    """Return which tasks share one training: a marginal likelihood knows neither goal nor posterior."""
    training = risk_method(fit.options).shares_training(fit.options)
    return f"{fit.dataset.name}/{training}/{fit.ard}/{split}" if training else ""


def _params(request: Request[SplitSettings], fit: Fit, split: int) -> FitTask:
    settings = request.settings
    return FitTask(
        method=fit.options,
        ard=fit.ard,
        loss=fit.goal,
        also=fit.also,
        delta=settings.delta,
        split_seed=split_seed(request.seed, split),
        test_share=settings.test_share,
        scaling=settings.scaling,
        max_evaluations=settings.max_evaluations,
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
    fault = f"leaves {training} training rows of {rows}; the bounds need {LEAST_TRAINING_ROWS} or more"
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
