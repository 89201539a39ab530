"""wasserstein/regression: GWI regression against the exact and the sparse GP on folds of any regression dataset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.data.loading import load
from gpsuite.data.splits import without_copies
from gpsuite.experiments.base import (
    DONE,
    EXPERIMENTS,
    INFEASIBLE,
    Experiment,
    MethodOptions,
    Outcome,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    frame_of,
    require,
)
from gpsuite.experiments.settings import within
from gpsuite.experiments.wasserstein.fitting import (
    LEVEL,
    TrainingParams,
    TrainingSettings,
    fit_regression,
    regression_scores,
)
from gpsuite.experiments.wasserstein.images import wide
from gpsuite.experiments.wasserstein.methods import NUMBERS
from gpsuite.methods.wasserstein.fitting import FewDifferentRowsError
from gpsuite.methods.wasserstein.scoring import ExactPredictionsError
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import UNTEMPERED, metric
from gpsuite.reporting.palette import panel
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import corrected_mean

SHOWN = ("rmse_test_own_units", "nll_own", "crps", "interval_coverage", "interval_width", "tempering")
BEFORE = tuple(f"{name}{UNTEMPERED}" for name in SHOWN[1:-1])
_WITHOUT_COPIES = 1  # added to the method's version where rows have copies: none is trained on and validates
AGREEMENT = 1e-3  # as the images


@dataclass
class RegressionSettings(TrainingSettings):
    """Settings of regression.

    Attributes:
        folds: of the rows; each is the test part once.
        used_folds: how many of them are run.
    """

    folds: Annotated[int, within(2, 50)]
    used_folds: Annotated[int, within(1, 50)]

    def check(self) -> None:
        """Refuse more folds than there are."""
        require(self.used_folds <= self.folds, "used_folds", self.used_folds, f"at most folds={self.folds}")


@dataclass(frozen=True, kw_only=True)
class FoldTask:
    """A regression trained without one fold and tested on it.

    Attributes:
        method: which regression.
        training: how.
        seed: of the folds, the same for all of them.
        fold: its number.
        folds: how many there are.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    fold: int
    folds: int
    kind: str = "wasserstein_fold"


def plan(request: Request[RegressionSettings]) -> list[Task[FoldTask]]:
    """Return one task per fold and method."""
    settings, rows = request.settings, request.require_dataset().rows
    require(settings.folds <= rows // 4, "folds", settings.folds, f"at most {rows // 4} with {rows} rows")
    settings.check_inducing(rows - -(-rows // settings.folds))
    copies = 0 if load(request.require_dataset()).groups is None else _WITHOUT_COPIES
    return [
        request.task(
            FoldTask(
                method=options,
                training=settings.work,
                seed=derived_seed(request.seed, "regression"),
                fold=fold,
                folds=settings.folds,
            ),
            label=f"{options.title}  fold {fold}",
            axes={"method": name, "fold": fold},
            version=options.method.version + copies,
            cost=3.0 + 1e-5 * rows * settings.epochs,
        )
        for fold in range(settings.used_folds)
        for name, options in request.methods.items()
    ]


def fold_rows(rows: int, folds: int, fold: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return the row numbers (train, test) of one fold of a random order."""
    parts = np.array_split(stream(seed, "folds").permutation(rows), folds)
    return np.concatenate([part for number, part in enumerate(parts) if number != fold]), parts[fold]


def run(task: Task[FoldTask], shared: SharedWork) -> Outcome:
    """Train on the other folds, score on this one."""
    params, data = task.params, load(task.require_dataset())
    train, test = fold_rows(len(data.X), params.folds, params.fold, params.seed)
    train = without_copies(train, test, data.groups)
    if not len(train):
        return Outcome({}, INFEASIBLE, "dataset: every training row of the fold repeats a test row: add different rows")
    y = data.y[:, 0]
    budget = shared.budget(task.budget_seconds)
    seed = derived_seed(params.seed, "fold", params.fold)
    try:
        groups = None if data.groups is None else data.groups[train]
        model = fit_regression(
            params.method, params.training, data.X[train], y[train], seed, budget, shared.states, groups
        )
    except ExactPredictionsError as error:
        return Outcome({}, INFEASIBLE, f"{error}; the target is a function of the inputs, without noise")
    except FewDifferentRowsError as error:
        return Outcome({}, INFEASIBLE, str(error))
    metrics = regression_scores(model, data.X[test], y[test])
    headline = f"RMSE {metrics['rmse_test_own_units']:.4g}, NLL {metrics['nll_own']:.3f}"
    reason = "" if model.status == DONE else model.found.reason
    return Outcome(metrics, model.status, reason, headline=headline)


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write and draw the scores by method, corrected for folds that share training rows."""
    records = report.records()
    if not records:
        return []
    frame, folds = frame_of(records), report.settings.folds
    estimate = partial(corrected_mean, test_over_training=1.0 / (folds - 1))
    tidy = summarise_groups(frame, ["method"], [*SHOWN, *BEFORE], estimate)
    name = report.request.require_dataset().shown_name
    caption = (
        f"{name}: mean ± standard error over {report.settings.used_folds} of {folds} folds, corrected for shared "
        f"training rows; intervals of {100 * LEVEL:g} %; variances tempered on validation rows"
    )
    report.table(wide(tidy, report.titles, SHOWN), "regression", caption)
    labels = {name: metric(name, "wasserstein").heading for name in BEFORE}
    report.table(wide(tidy, report.titles, BEFORE), "regression_untempered", caption, labels)
    report.table(tidy, "regression_tidy", caption)
    with report.figure("regression", columns=4, size=(15.0, 4.6)) as drawing:
        shown = tidy[tidy["metric"].isin(SHOWN[:4])]
        for ax, one in zip(drawing.axes, SHOWN, strict=False):
            rows = shown[shown["metric"] == one]
            panel(ax, rows, "metric", report.titles, kind="bars", error="interval", ticks={one: ""})
            ax.set_ylabel(metric(one, "wasserstein").axis)
            if one == "interval_coverage":
                ax.axhline(LEVEL, color="0.4", linestyle="--")
        drawing.legend("below", columns=5, title="mean and 95 % interval over folds")
        drawing.data = shown
    return metric_statistics(tidy, ["method"])


EXPERIMENTS.register("wasserstein/regression")(
    Experiment(
        RegressionSettings,
        plan,
        run,
        summarise,
        method_traits=(NUMBERS,),
        dataset_tasks=("regression",),
        parts=("methods", "used_folds"),
        agreement=AGREEMENT,
        model_keys=(),
        published=every_array,
    )
)
