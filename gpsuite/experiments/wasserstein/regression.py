"""wasserstein/regression: GWI regression against the exact and the sparse GP on folds of regression datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.loading import PreparedDataset, load
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
from gpsuite.experiments.settings import Count, Positive, filled, unique, within
from gpsuite.experiments.tasks import left_out_as
from gpsuite.experiments.wasserstein.fitting import (
    LEVEL,
    CommonSettings,
    OwnUnits,
    TrainingParams,
    fit_regression,
    regression_scores,
)
from gpsuite.experiments.wasserstein.images import wide
from gpsuite.experiments.wasserstein.methods import NUMBERS, RegressorOptions
from gpsuite.methods.wasserstein.fitting import FewDifferentRowsError
from gpsuite.methods.wasserstein.scoring import ExactPredictionsError
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.metrics import UNTEMPERED, metric
from gpsuite.reporting.palette import panel
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import corrected_mean

if TYPE_CHECKING:
    import pandas as pd

SHOWN = ("rmse_test_own_units", "nll_own", "crps", "interval_coverage", "interval_width", "tempering")
CHOSEN = "inducing_multiple"  # M / sqrt(N) where validation rows choose it
BEFORE = tuple(f"{name}{UNTEMPERED}" for name in SHOWN[1:-1])
_WITHOUT_COPIES = 1  # added to the method's version where rows have copies: none is trained on and validates
AGREEMENT = 1e-3  # as the images
# Wild et al. 2022, Table 1: the method with the lower NLL, the other, and the datasets where it is printed so
BETTER = ("gwi_regression", "gwi_kernel_regression")
CLAIMED = ("boston", "concrete", "energy_cooling", "kin8nm", "power", "wine_red", "yacht")


@dataclass
class RegressionSettings(CommonSettings):
    """Settings of regression.

    Attributes:
        folds: of the rows; each is the test part once.
        used_folds: how many of them are run.
        inducing: M as multiples of sqrt(N); of several the NLL of the validation rows chooses, fold by fold.
        kernel_inducing: the same where the mean is a kernel's: GWI with a kernel mean, and the sparse GP.
        exact_rows: among several datasets the exact GP runs on those with fewer rows.
    """

    folds: Annotated[int, within(2, 50)]
    used_folds: Annotated[int, within(1, 50)]
    inducing: Annotated[list[Positive], filled, unique]
    kernel_inducing: Annotated[list[Positive], filled, unique]
    exact_rows: Count

    def check(self) -> None:
        """Refuse more folds than there are."""
        require(self.used_folds <= self.folds, "used_folds", self.used_folds, f"at most folds={self.folds}")

    def multiples(self, options: MethodOptions) -> tuple[float, ...]:
        """Return the multiples of sqrt(N) that a method chooses M from."""
        if _is(options, "exact_gp"):
            return tuple(self.inducing[:1])
        return tuple(self.kernel_inducing if _is(options, "gwi_kernel", "svgp") else self.inducing)


@dataclass(frozen=True, kw_only=True)
class FoldTask:
    """A regression trained without one fold and tested on it.

    Attributes:
        method: which regression.
        training: how.
        seed: of the folds, the same for all of them.
        fold: its number.
        folds: how many there are.
        further: multiples of sqrt(N) that are tried for M next to the training's.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    fold: int
    folds: int
    further: tuple[float, ...] = field(default=(), metadata=left_out_as(()))
    kind: str = "wasserstein_fold"


def plan(request: Request[RegressionSettings]) -> list[Task[FoldTask]]:
    """Return one task per dataset, fold and method."""
    if not request.datasets:
        return _tasks(request, request.require_dataset(), {})
    tasks = []
    for name, data in request.datasets.items():
        few = data.rows < request.settings.exact_rows
        methods = {key: options for key, options in request.methods.items() if few or not _is(options, "exact_gp")}
        tasks += _tasks(replace(request, methods=methods), data, {"dataset": name})
    return tasks


def _tasks(
    request: Request[RegressionSettings], data: PreparedDataset, axes: Mapping[str, str]
) -> list[Task[FoldTask]]:
    settings, rows = request.settings, data.rows
    require(settings.folds <= rows // 4, "folds", settings.folds, f"at most {rows // 4} with {rows} rows")
    for key in ("inducing", "kernel_inducing"):
        settings.check_multiple(key, max(getattr(settings, key)), rows - -(-rows // settings.folds))
    copies = 0 if load(data).groups is None else _WITHOUT_COPIES
    tasks = []
    for fold in range(settings.used_folds):
        for name, options in request.methods.items():
            first, *further = settings.multiples(options)
            params = FoldTask(
                method=options,
                training=settings.params(first),
                seed=derived_seed(request.seed, "regression"),
                fold=fold,
                folds=settings.folds,
                further=tuple(further),
            )
            task = request.task(
                params,
                label="  ".join([*axes.values(), options.title, f"fold {fold}"]),
                axes={**axes, "method": name, "fold": fold},
                dataset=data,
                version=options.method.version + copies,
                cost=3.0 + 1e-5 * rows * settings.epochs * (1 + len(further)),
            )
            tasks.append(task)
    return tasks


def _is(options: MethodOptions, *regressors: str) -> bool:
    return isinstance(options, RegressorOptions) and options.regressor in regressors


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
    groups = None if data.groups is None else data.groups[train]
    try:
        model, multiple = _fit(task, shared, data.X[train], y[train], groups)
    except ExactPredictionsError as error:
        return Outcome({}, INFEASIBLE, f"{error}; the target is a function of the inputs, without noise")
    except FewDifferentRowsError as error:
        return Outcome({}, INFEASIBLE, str(error))
    metrics = regression_scores(model, data.X[test], y[test])
    if params.further:
        metrics |= {CHOSEN: multiple, "nll_validation": model.validation_nll}
    headline = f"RMSE {metrics['rmse_test_own_units']:.4g}, NLL {metrics['nll_own']:.3f}"
    reason = "" if model.status == DONE else model.found.reason
    return Outcome(metrics, model.status, reason, headline=headline)


def _fit(
    task: Task[FoldTask], shared: SharedWork, X: FloatArray, y: FloatArray, groups: IntArray | None
) -> tuple[OwnUnits, float]:
    """Train with every number of inducing inputs; return the one with the least validation NLL, and its multiple."""
    params, found = task.params, []
    budget, seed = shared.budget(task.budget_seconds), derived_seed(params.seed, "fold", params.fold)
    for multiple in (params.training.inducing, *params.further):
        states = shared.states if not params.further else _part(shared.states, f"inducing-{multiple:g}")
        training = replace(params.training, inducing=multiple)
        found.append((fit_regression(params.method, training, X, y, seed, budget, states, groups), multiple))
    return min(found, key=lambda each: each[0].validation_nll)


def _part(states: Path | None, name: str) -> Path | None:
    if states is None:
        return None
    (states / name).mkdir(parents=True, exist_ok=True)
    return states / name


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write and draw the scores by dataset and method, corrected for folds that share training rows."""
    records = report.records()
    if not records:
        return []
    frame, folds = frame_of(records), report.settings.folds
    by = ["dataset", "method"] if report.request.datasets else ["method"]
    estimate = partial(corrected_mean, test_over_training=1.0 / (folds - 1))
    chosen = [name for name in (CHOSEN,) if name in frame]
    tidy = summarise_groups(frame, by, [*SHOWN, *BEFORE, *chosen], estimate)
    _tables(report, tidy)
    _figure(report, tidy)
    claims = network_claim(frame) if report.request.datasets else []
    return [*metric_statistics(tidy, by), *claims]


def _tables(report: Report[RegressionSettings], tidy: pd.DataFrame) -> None:
    single, settings = not report.request.datasets, report.settings
    caption = (
        f"{f'{report.request.require_dataset().shown_name}: ' if single else ''}mean ± standard error over "
        f"{settings.used_folds} of {settings.folds} folds, corrected for shared training rows; "
        f"intervals of {100 * LEVEL:g} %; variances tempered on validation rows"
    )
    if len(settings.inducing) > 1 or len(settings.kernel_inducing) > 1:
        caption += ", which choose M too"
    labels = {name: metric(name, "wasserstein").heading for name in BEFORE}
    report.table(_by_dataset(tidy, report.titles, SHOWN), "regression", caption)
    report.table(_by_dataset(tidy, report.titles, BEFORE), "regression_untempered", caption, labels)
    report.table(tidy, "regression_tidy", caption)


def _by_dataset(tidy: pd.DataFrame, titles: dict[str, str], metrics: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    if "dataset" not in tidy:
        return wide(tidy, titles, metrics)
    parts = []
    for name, rows in tidy.groupby("dataset", sort=False, observed=True):
        part = wide(rows, titles, metrics)
        part.insert(0, "dataset", name)
        parts.append(part)
    return pd.concat(parts)


def _figure(report: Report[RegressionSettings], tidy: pd.DataFrame) -> None:
    """Draw four scores of one dataset, or the NLL of each of several."""
    names = list(report.request.datasets)
    by, panels = ("dataset", names) if names else ("metric", list(SHOWN[:4]))
    shown = tidy[tidy["metric"].isin(SHOWN[1:2] if names else panels)]
    columns, rows = min(len(panels), 4), -(-len(panels) // 4)
    with report.figure("regression", columns=columns, rows=rows, size=(15.0, 1.0 + 3.6 * rows)) as drawing:
        for ax, one in zip(drawing.axes, panels, strict=False):
            panel(ax, shown[shown[by] == one], by, report.titles, kind="bars", error="interval", ticks={one: ""})
            axis = metric(SHOWN[1] if names else one, "wasserstein").axis
            ax.set_ylabel(f"{one}: {axis}" if names else axis)
            if one == "interval_coverage":
                ax.axhline(LEVEL, color="0.4", linestyle="--")
        drawing.legend("below", columns=5, title="mean and 95 % interval over folds")
        drawing.data = shown


def network_claim(frame: pd.DataFrame) -> list[Statistic]:
    """Return the share of the paper's datasets where a network's mean has the lower NLL; nothing if one is missing.

    Args:
        frame: one row per dataset, method and fold.
    """
    means = frame.pivot_table("nll_own", ["dataset", "fold"], "method", observed=True)
    if not {*BETTER} <= set(means.columns):
        return []
    network, kernel = BETTER
    paired = (means[kernel] - means[network]).dropna().groupby("dataset").mean()
    if not {*CLAIMED} <= set(paired.index):
        return []
    return [claim("share_network_mean_better", [paired[name] > 0.0 for name in CLAIMED])]


EXPERIMENTS.register("wasserstein/regression")(
    Experiment(
        RegressionSettings,
        plan,
        run,
        summarise,
        method_traits=(NUMBERS,),
        dataset_tasks=("regression",),
        several_datasets=True,
        single_dataset=True,
        parts=("methods", "used_folds"),
        agreement=AGREEMENT,
        model_keys=(),
        published=every_array,
    )
)
