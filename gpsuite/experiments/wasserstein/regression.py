"""wasserstein/regression: GWI regression against the exact and the sparse GP on folds of regression datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import without_copies
from gpsuite.experiments.base import (
    DIVERGED,
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
from gpsuite.experiments.wasserstein.methods import NUMBERS, RegressorOptions, regressor_version
from gpsuite.methods.wasserstein.fitting import DivergedError, FewDifferentRowsError
from gpsuite.methods.wasserstein.scoring import ExactPredictionsError
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.metrics import UNTEMPERED, metric
from gpsuite.reporting.palette import panel, paper_marks
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
# Wild et al. 2022, Table 1: the method with the lower NLL, the other, and the datasets for which it is printed
BETTER = ("gwi_regression", "gwi_kernel_regression")
CLAIMED = ("boston", "concrete", "energy_cooling", "kin8nm", "power", "wine_red", "yacht")


@dataclass
class RegressionSettings(CommonSettings):
    """Settings of regression.

    Attributes:
        folds: number of folds of the rows. Each is the test part once.
        used_folds: number of folds that are run.
        inducing: M as multiples of sqrt(N). Of several the NLL of the validation rows chooses, fold by fold.
        kernel_inducing: values to try if the mean is a kernel's: GWI with a kernel mean, and the sparse GP.
        chosen_rows: number of rows above which no M is chosen. The value of `inducing` or `kernel_inducing` nearest 1
            is taken.
        exact_rows: among several datasets the exact GP runs on those with fewer rows.
        lucky_trials: number of trainings per fold, each on a random split with a random M, whose least test NLL
            counts. This is what the authors' script reports, and shows what it gains. 0: none.
    """

    folds: Annotated[int, within(2, 50)]
    used_folds: Annotated[int, within(1, 50)]
    inducing: Annotated[list[Positive], filled, unique]
    kernel_inducing: Annotated[list[Positive], filled, unique]
    chosen_rows: Count
    exact_rows: Count
    lucky_trials: Annotated[int, within(0, 1000)]

    def check(self) -> None:
        """Refuse more folds than there are."""
        require(self.used_folds <= self.folds, "used_folds", self.used_folds, f"at most folds={self.folds}")

    def multiples(self, options: MethodOptions, rows: int) -> tuple[float, ...]:
        """Return the multiples of sqrt(N) that a method chooses M from."""
        if _is(options, "exact_gp"):
            return tuple(self.inducing[:1])
        tried = self.kernel_inducing if _is(options, "gwi_kernel", "svgp") else self.inducing
        return tuple(tried) if rows <= self.chosen_rows else (min(tried, key=lambda multiple: abs(multiple - 1.0)),)


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


@dataclass(frozen=True, kw_only=True)
class TrialTask:
    """A regression trained on a random split with a random M.

    Attributes:
        method: which regression.
        training: how, M drawn already.
        seed: of the split and the training.
        folds: the test part is one of so many.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    folds: int
    kind: str = "wasserstein_trial"


def plan(request: Request[RegressionSettings]) -> list[Task[FoldTask] | Task[TrialTask]]:
    """Return one task per dataset, fold and method, and their lucky trials."""
    if not request.datasets:
        return _tasks(request, request.require_dataset(), {})
    tasks: list[Task[FoldTask] | Task[TrialTask]] = []
    for name, data in request.datasets.items():
        few = data.rows < request.settings.exact_rows
        methods = {key: options for key, options in request.methods.items() if few or not _is(options, "exact_gp")}
        tasks += _tasks(replace(request, methods=methods), data, {"dataset": name})
    return tasks


def _tasks(
    request: Request[RegressionSettings], data: PreparedDataset, axes: Mapping[str, str]
) -> list[Task[FoldTask] | Task[TrialTask]]:
    settings, rows = request.settings, data.rows
    require(settings.folds <= rows // 4, "folds", settings.folds, f"at most {rows // 4} with {rows} rows")
    for key in ("inducing", "kernel_inducing"):
        settings.check_multiple(key, max(getattr(settings, key)), rows - -(-rows // settings.folds))
    copies = 0 if load(data).groups is None else _WITHOUT_COPIES
    tasks: list[Task[FoldTask] | Task[TrialTask]] = []
    for fold in range(settings.used_folds):
        for name, options in request.methods.items():
            first, *further = settings.multiples(options, rows)
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
                version=regressor_version(options) + copies,
                cost=3.0 + 1e-5 * rows * settings.epochs * (1 + len(further)),
            )
            tasks.append(task)
            tasks += _trials(request, data, axes, name, copies, fold)
    return tasks


def _trials(
    request: Request[RegressionSettings],
    data: PreparedDataset,
    axes: Mapping[str, str],
    method: str,
    copies: int,
    fold: int,
) -> list[Task[TrialTask]]:
    settings, options = request.settings, request.methods[method]
    tasks = []
    for trial in range(settings.lucky_trials):
        seed = derived_seed(request.seed, "lucky", fold, trial)
        multiple = float(stream(seed, "inducing").choice(settings.multiples(options, data.rows)))
        params = TrialTask(method=options, training=settings.params(multiple), seed=seed, folds=settings.folds)
        task = request.task(
            params,
            label="  ".join([*axes.values(), options.title, f"fold {fold}", f"trial {trial}"]),
            axes={**axes, "method": method, "group": fold, "trial": trial},
            dataset=data,
            version=regressor_version(options) + copies,
            cost=3.0 + 1e-5 * data.rows * settings.epochs,
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
    """Train on the other folds with every number of inducing inputs, score the best by validation on this one."""
    params, data = task.params, load(task.require_dataset())
    train, test = fold_rows(len(data.X), params.folds, params.fold, params.seed)
    seed = derived_seed(params.seed, "fold", params.fold)
    return _scored(task, shared, params.training, params.further, (train, test), seed)


def run_trial(task: Task[TrialTask], shared: SharedWork) -> Outcome:
    """Train on a random split."""
    params, data = task.params, load(task.require_dataset())
    rows = fold_rows(len(data.X), params.folds, 0, params.seed)
    return _scored(task, shared, params.training, (), rows, params.seed)


def _scored(
    task: Task[FoldTask] | Task[TrialTask],
    shared: SharedWork,
    training: TrainingParams,
    further: tuple[float, ...],
    rows: tuple[IntArray, IntArray],
    seed: int,
) -> Outcome:
    data, (train, test) = load(task.require_dataset()), rows
    train = without_copies(train, test, data.groups)
    if not len(train):
        return Outcome({}, INFEASIBLE, "dataset: every training row of the fold repeats a test row: add different rows")
    X, y = data.X, data.y[:, 0]
    budget, groups = shared.budget(task.budget_seconds), None if data.groups is None else data.groups[train]
    diverged, found = "", list[tuple[OwnUnits, float]]()
    for multiple in (training.inducing, *further):
        states = shared.states if not further else _part(shared.states, f"inducing-{multiple:g}")
        with_multiple = replace(training, inducing=multiple)
        work = (task.params.method, with_multiple, X[train], y[train], seed, budget, states, groups)
        try:
            found.append((fit_regression(*work), multiple))
        except ExactPredictionsError as error:
            return Outcome({}, INFEASIBLE, f"{error}. The target is a function of the inputs, without noise")
        except FewDifferentRowsError as error:
            return Outcome({}, INFEASIBLE, str(error))
        except DivergedError as error:
            diverged = str(error)
    if not found:
        return Outcome({}, DIVERGED, diverged)
    model, multiple = min(found, key=lambda each: each[0].validation_nll)
    metrics = regression_scores(model, X[test], y[test])
    if further or isinstance(task.params, TrialTask):
        metrics |= {CHOSEN: multiple, "nll_validation": model.validation_nll}
    headline = f"RMSE {metrics['rmse_test_own_units']:.4g}, NLL {metrics['nll_own']:.3f}"
    reason = "" if model.status == DONE else model.found.reason
    return Outcome(metrics, model.status, reason, headline=headline)


def _part(states: Path | None, name: str) -> Path | None:
    if states is None:
        return None
    (states / name).mkdir(parents=True, exist_ok=True)
    return states / name


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write and draw the scores by dataset and method, corrected for folds that share training rows."""
    records = report.records()
    if not any("fold" in record.axes for record in records):
        return []
    frame, folds = frame_of([record for record in records if "fold" in record.axes]), report.settings.folds
    by = ["dataset", "method"] if report.request.datasets else ["method"]
    estimate = partial(corrected_mean, test_over_training=1.0 / (folds - 1))
    chosen = [name for name in (CHOSEN,) if name in frame]
    tidy = summarise_groups(frame, by, [*SHOWN, *BEFORE, *chosen], estimate)
    tidy = tidy[(tidy["metric"] != CHOSEN) | (tidy["n"] > 0)]  # the exact GP chooses none
    _tables(report, tidy)
    _figure(report, tidy)
    claims = network_claim(frame) if report.request.datasets else []
    lucky = lucky_scores(frame_of([record for record in records if "trial" in record.axes]), by)
    if len(lucky):
        caption = (
            f"mean ± standard error over {report.settings.used_folds} groups of {report.settings.lucky_trials} trials"
        )
        report.table(lucky, "lucky_trials", caption)
        claims += metric_statistics(lucky, by)
    return [*metric_statistics(tidy, by), *claims]


def lucky_scores(trials: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return, over groups of trials, means of the least test NLL, of the mean one, and of what the choice gains.

    Args:
        trials: one row per trial, with the columns `by`, group and nll_own.
        by: the axes of a mean.
    """
    if trials.empty:
        return trials
    nll = trials.groupby([*by, "group"], observed=True)["nll_own"]
    groups = nll.agg(nll_luckiest="min", nll_mean="mean").reset_index()
    groups["nll_gain_by_test_rows"] = groups["nll_mean"] - groups["nll_luckiest"]
    return summarise_groups(groups, by, ["nll_luckiest", "nll_mean", "nll_gain_by_test_rows"])


def _tables(report: Report[RegressionSettings], tidy: pd.DataFrame) -> None:
    single, settings = not report.request.datasets, report.settings
    caption = (
        f"{f'{report.request.require_dataset().shown_name}: ' if single else ''}mean ± standard error over "
        f"{settings.used_folds} of {settings.folds} folds, corrected for shared training rows. "
        f"Intervals of {100 * LEVEL:g} %. Variances tempered on validation rows"
    )
    if (tidy["metric"] == CHOSEN).any():
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
    columns = 3 if len(panels) % 4 and not len(panels) % 3 else min(len(panels), 4)
    rows = -(-len(panels) // columns)
    size = (max(5.0, 2.6 * columns), 1.0 + 3.4 * rows)
    apart = 0.7 / max(shown["method"].nunique(), 1)
    with report.figure("regression", columns=columns, rows=rows, size=size) as drawing:
        for ax, one in zip(drawing.axes, panels, strict=False):
            panel(
                ax,
                shown[shown[by] == one],
                by,
                report.titles,
                kind="points",
                error="interval",
                ticks={one: ""},
                apart=apart,
            )
            drawn = shown[shown[by] == one]["method"]
            paper_marks(ax, _printed(report, one, [name for name in report.titles if (drawn == name).any()], apart))
            axis = metric(SHOWN[1] if names else one, "wasserstein").axis
            ax.set_ylabel(f"{one}: {axis}" if names else axis)
            if one == "interval_coverage":
                ax.axhline(LEVEL, color="0.4", linestyle="--")
        drawing.legend("below", title="mean and 95 % interval over folds")
        drawing.data = shown


def _printed(
    report: Report[RegressionSettings], dataset: str, methods: Sequence[str], apart: float
) -> list[tuple[str, float, float]]:
    """Return method, place and value of each printed NLL of a dataset, next to the marks that `panel` draws."""
    values = {name: report.printed.get(statistic_name(SHOWN[1], dataset=dataset, method=name)) for name in methods}
    places = {name: apart * (number - (len(methods) - 1) / 2) for number, name in enumerate(methods)}
    return [(name, places[name] + 0.1, value) for name, value in values.items() if value is not None]


def network_claim(frame: pd.DataFrame) -> list[Statistic]:
    """Return the share of the paper's datasets where a network's mean has the lower NLL. Nothing if one is missing.

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
        {FoldTask: run, TrialTask: run_trial},
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
