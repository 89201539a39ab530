"""pac_bayes/rounding: what the hyperparameter grid costs and changes (Sec. 3.1 and App. F of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    EXPERIMENTS,
    INFEASIBLE,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    finite_or_none,
)
from gpsuite.experiments.pac_bayes.fits import AGREEMENT, Fit, Split, read_split, shown_over, split_tasks, training_of
from gpsuite.experiments.pac_bayes.methods import BOUND, FULL, RISK_BOUND, risk_method
from gpsuite.experiments.pac_bayes.tables import dataset_statistics, summarise_splits
from gpsuite.experiments.pac_bayes.tasks import FitTask, Goal, SplitSettings, loss_of
from gpsuite.experiments.pac_bayes.training import Trained
from gpsuite.experiments.settings import Positive, filled, unique, within
from gpsuite.methods.pac_bayes.bounds import HyperparameterGrid, Terms, certify
from gpsuite.methods.pac_bayes.evaluation import FewDifferentError, cautious_risk, evaluate
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import headings
from gpsuite.reporting.palette import LIMIT, numbered_style, panel
from gpsuite.reporting.tables import mean_and_error, metric_statistics
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd


PAPER_DECIMALS = 2
MAX_DECIMALS = 6
PAC = "kl_pac_gp"


@dataclass
class RoundingSettings(SplitSettings):
    """Settings of the rounding study.

    Attributes:
        epsilons: accuracy goals, in standard deviations of the target.
        decimals: decimals of the natural logarithms of variance and lengthscales, one grid each.
    """

    epsilons: Annotated[list[Positive], filled, unique]
    decimals: Annotated[list[Annotated[int, within(0, MAX_DECIMALS)]], filled, unique]


@dataclass(frozen=True, kw_only=True)
class RoundingTask(FitTask):
    """A fit whose hyperparameters are rounded to a grid.

    Attributes:
        decimals: of the grid.
    """

    decimals: int
    kind: str = "rounding"


def plan(request: Request[RoundingSettings]) -> list[Task[RoundingTask]]:
    """Return one task per split, method, epsilon and grid. The grids of a training share it."""
    settings = request.settings
    dataset, ard = request.require_dataset(), request.model.ard
    fits = [
        Fit(name, options, dataset, ard, Goal(epsilon=epsilon), {"epsilon": epsilon, "decimals": decimals})
        for name, options in request.methods.items()
        for epsilon in settings.epsilons
        for decimals in settings.decimals
    ]
    return [
        request.task(
            RoundingTask(**(vars(task.params) | {"decimals": int(task.axes["decimals"]), "kind": "rounding"})),
            label=task.label,
            axes=task.axes,
            version=task.version,
            group=f"{task.axes['method']}/{task.axes['epsilon']}/{task.axes['split']}",
            cost=task.cost,
        )
        for task in split_tasks(request, fits)
    ]


# of a record, in the order of the table
RECORDED = ("bound_kl", "log_theta_over_n", "bound_change", "mean_change", "gibbs_risk_test", "mse_test")
AGAINST_PAPER = "bound_against_two_decimals"


def run(task: Task[RoundingTask], shared: SharedWork) -> Outcome:
    """Train on the bound, round to the task's grid, certify with that grid's penalty, compare with no rounding."""
    fit = task.params
    try:
        split = shared.once("split", lambda: read_split(task.require_dataset(), fit))
    except FewDifferentError as error:
        return Outcome({}, INFEASIBLE, str(error))
    loss = loss_of(fit.loss.name, fit.loss.given)
    work = training_of(fit, split, task.budget_seconds, shared)
    trained = shared.once("trained", lambda: risk_method(fit.method).train(work, loss))
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    numbers = compare_rounding(split, trained, loss, fit.delta, HyperparameterGrid(task.params.decimals))
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else "",
        headline=f"bound {numbers['bound_kl']:.4f}, rounding {numbers['bound_change']:+.1e}",
    )


def compare_rounding(
    split: Split, trained: Trained, loss: Loss, delta: float, grid: HyperparameterGrid
) -> dict[str, float]:
    """Return the certificate on a grid and what rounding to it changed.

    Off the grid the bound's formula has no guarantee: its value at the unrounded hyperparameters, with the same
    penalty, only measures the change.
    """
    kept = FullGPPosterior.fit(trained.hyperparameters, split.X, split.y)
    rounded = FullGPPosterior.fit(grid.rounded(trained.hyperparameters), split.X, split.y)
    found = evaluate(rounded, split.X_test, split.y_test, loss, delta, grid, copies=split.copies)
    counted = trained.hyperparameters.n_kernel
    risk, slack, independent = cautious_risk(kept, loss, split.copies)
    terms = Terms(independent, counted, delta, grid)
    formula = certify(RiskAndKL(risk, kept.kl), terms, RiskAndKL(slack, kept.rounding(loss).kl))
    return {
        "bound_kl": found.bound_kl,
        "bound_unrounded": formula.bound_kl,
        "bound_change": found.bound_kl - formula.bound_kl,
        "mean_change": float(np.abs(rounded.predict(split.X_test)[0] - kept.predict(split.X_test)[0]).max()),
        "log_theta_over_n": found.certificate.penalty.log_theta / independent,
        "kl_over_n": found.kl_over_n,
        "gibbs_risk_train": found.gibbs_risk_train,
        "gibbs_risk_test": found.gibbs_risk_test,
        "mse_test": found.mse_test,
        "n_hyperparameters": counted,
    }


# What Sec. 3.1 and App. F of Reeb et al. 2018 say about the grid, as statistics that decide it.


NEGLIGIBLE = 1e-4  # a change of the bound that nobody would notice
NEGLIGIBLE_MEAN = 0.05  # one of a predictive mean, in standard deviations of the target


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the statistics of App. F.

    Args:
        frame: rows of `records_frame` of one method.
    """
    fine = frame[frame["decimals"] == PAPER_DECIMALS].dropna(subset=["bound_change", "mean_change"])
    if not len(fine):
        return []
    change = fine["bound_change"].abs()
    hardly = (change < NEGLIGIBLE) & (fine["mean_change"] < NEGLIGIBLE_MEAN)
    note = f"largest change of the predictive mean {fine['mean_change'].max():.2g} standard deviations of the target"
    return [
        Statistic("max_bound_change", float(change.max()), n=len(fine), note=note),
        Statistic.of("share_predictions_hardly_changed", share(hardly), note=note),
        *_coarser(frame),
    ]


def _coarser(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the smallest mean paired change of the bound from two decimals to fewer."""
    coarse = frame[frame["decimals"] < PAPER_DECIMALS].dropna(subset=[AGAINST_PAPER])
    means = coarse.groupby(["decimals", "epsilon"])[AGAINST_PAPER].mean().reset_index()
    if not len(means):
        return
    cells = means.to_dict("records")
    listed = (f"{cell['decimals']:g} decimals, ε {cell['epsilon']:g}: {cell[AGAINST_PAPER]:+.4f}" for cell in cells)
    lowest = float(means[AGAINST_PAPER].min())
    yield Statistic("min_bound_change_coarser_rounding", lowest, n=len(coarse), note="; ".join(listed))


# the figure's panels: metric -> label of the vertical axis and title
PANELS = {
    "bound_kl": ("upper bound B_kl (probability)", "the bound, with the grid's penalty"),
    AGAINST_PAPER: ("difference of B_kl, paired by split", "the bound against 2 decimals"),
    "bound_change": ("|B_kl after − before rounding|", "only rounding, same penalty:\nmedian and range over splits"),
}


def draw(report: Report[RoundingSettings], frame: pd.DataFrame) -> None:
    """Draw bound, its difference to two decimals and the effect of only rounding.

    The first two with 95 % t intervals. Of the last, positive and spread over decades, median and range.
    """
    sizes = frame.assign(bound_change=frame["bound_change"].abs())
    by = ["method", "epsilon", "decimals"]
    tidy = _with_range(summarise_splits(sizes, by, list(PANELS)), sizes, by)
    lines = tidy.assign(line=[f"{name} {goal}" for name, goal in zip(tidy["method"], tidy["epsilon"], strict=True)])
    named = lines[["line", "method", "epsilon"]].drop_duplicates().itertuples(index=False, name=None)
    titles = {line: f"{report.titles[method]}, ε = {goal:g}" for line, method, goal in named}
    styles = {line: numbered_style(number) for number, line in enumerate(titles)}
    with report.figure("rounding", columns=len(PANELS), size=(13, 4.2)) as drawing:
        for ax, (name, (label, title)) in zip(drawing.axes, PANELS.items(), strict=True):
            part = lines[lines["metric"] == name]
            panel(ax, part, "decimals", titles, by="line", error="interval", apart=0.06, styles=styles)
            ax.set_xticks(sorted(part["decimals"].unique()))
            ax.set_xlabel("decimals of ln(variance), ln(lengthscale)")
            ax.set_ylabel(label)
            ax.set_title(title)
        drawing.axes[1].axhline(0.0, color=LIMIT, linewidth=0.8)
        drawing.axes[2].set_yscale("log")
        drawing.legend("above", columns=4, title="mean and 95 % t interval over splits")
        drawing.data = tidy


def _with_range(tidy: pd.DataFrame, sizes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows with median and range over the splits, not mean and t interval, for the effect of rounding."""
    tidy, grouped = tidy.copy(), sizes.groupby(by)["bound_change"]
    own = tidy["metric"] == "bound_change"
    keys = list(tidy.loc[own, by].itertuples(index=False, name=None))
    for column, values in (
        ("mean", grouped.median()),
        ("interval_low", grouped.min()),
        ("interval_high", grouped.max()),
    ):
        tidy.loc[own, column] = values.reindex(keys).to_numpy()
    tidy.loc[own, "interval"] = "median and range"
    return tidy


METRICS = (*RECORDED, AGAINST_PAPER)
MILLIONTHS = 1e6
HEADINGS = headings(METRICS) | {"bound_kl": "upper bound B_kl"}


def summarise(report: Report[RoundingSettings]) -> list[Statistic]:
    """Write the tables and the figure of the bound against the decimals. Return what decides App. F's claims."""
    frame = records_frame(report.records())
    by = ["method", "epsilon", "decimals"]
    tidy = summarise_splits(frame, by, list(METRICS))
    shown = shown_over(frame.groupby(by).size())
    caption = (
        f"{report.request.require_dataset().name}: ln of variance and lengthscales rounded to d decimals in [-6, 6] "
        f"after training, {shown}. Bounds hold with probability {1 - report.settings.delta:g}"
    )
    report.table(_wide(tidy, report.titles), "rounding", caption)
    report.table(tidy, "rounding_tidy", caption)
    draw(report, frame)
    means = metric_statistics(tidy[tidy["mean"].notna() & (tidy["metric"] != "log_theta_over_n")], by)
    return [*dataset_statistics(report.request), *means, *claims(frame[frame["method"] == PAC])]


def records_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: axes, recorded metrics and the bound against that at two decimals (or NaN)."""
    import pandas as pd

    rows = [{**record.axes, **{name: record.number(name) for name in RECORDED}} for record in records]
    frame = pd.DataFrame(rows)
    cell = ["method", "epsilon", "split"]
    paper = frame.loc[frame["decimals"] == PAPER_DECIMALS].set_index(cell)["bound_kl"].to_dict()
    places = frame[cell].itertuples(index=False, name=None)
    frame[AGAINST_PAPER] = frame["bound_kl"] - [paper.get(place, float("nan")) for place in places]
    return frame


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[tuple[str, float, int], dict[str, Any]] = {}
    for line in tidy.to_dict("records"):
        place = (str(line["method"]), float(line["epsilon"]), int(line["decimals"]))
        start = {"method": titles[place[0]], "ε": place[1], "decimals d": place[2]}
        unit = MILLIONTHS if line["metric"] == "bound_change" else 1.0
        cell = mean_and_error(unit * line["mean"], unit * line["standard_error"])
        rows.setdefault(place, start)[HEADINGS[line["metric"]]] = cell
    return pd.DataFrame(list(rows.values()))


EXPERIMENTS.register("pac_bayes/rounding")(
    Experiment(
        RoundingSettings,
        plan,
        run,
        summarise,
        method_traits=(RISK_BOUND, FULL, BOUND),
        model_keys=("ard",),
        dataset_tasks=("regression",),
        agreement=AGREEMENT,
        published=every_array,
    )
)
