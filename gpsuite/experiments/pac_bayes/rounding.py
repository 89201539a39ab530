"""pac_bayes/rounding: what the hyperparameter grid costs and changes (Sec. 3.1 and App. F of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.pac_bayes.fitting import Split, read_split
from gpsuite.experiments.pac_bayes.frames import dataset_statistics, metric_statistics, summarise_splits
from gpsuite.experiments.pac_bayes.settings import (
    AGREEMENT,
    Fit,
    SplitSettings,
    check_epsilon,
    request_dataset,
    split_tasks,
)
from gpsuite.experiments.pac_bayes.trainers import Trained, Training, minimise_bound
from gpsuite.methods.pac_bayes.certificates import certify
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.hyperparameters import HyperparameterGrid
from gpsuite.methods.pac_bayes.losses import LOSSES, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, gibbs_risk
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import mean_and_error, write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PAPER_DECIMALS = 2
NEGLIGIBLE = 1e-4  # a change of the bound that nobody would notice
MAX_DECIMALS = 6
PAC = "kl_pac_gp"

# of a record -> how tables call them
RECORDED = {
    "bound_kl": "upper bound B_kl",
    "log_theta_over_n": "penalty ln|Θ|/n (nats)",
    "bound_change": "change of the bound by rounding alone, same penalty (10⁻⁶)",
    "mean_change": "largest change of the predictive mean (std. of target)",
    "gibbs_risk_test": "Gibbs test risk",
    "mse_test": "test MSE (variances of target)",
}
AGAINST_PAPER = "bound_against_two_decimals"
METRICS = {**RECORDED, AGAINST_PAPER: "bound − bound at 2 decimals"}
MILLIONTHS = 1e6

# the figure's panels: metric -> label of the vertical axis and title
PANELS = {
    "bound_kl": ("upper bound B_kl (probability)", "the bound, its grid paid for"),
    AGAINST_PAPER: ("difference of B_kl, paired by split", "the bound against 2 decimals"),
    "bound_change": ("|B_kl after − before rounding|", "rounding alone, same penalty"),
}


@dataclass
class RoundingSettings(SplitSettings):
    """Settings of the rounding study.

    Attributes:
        epsilons: accuracy goals, in standard deviations of the target.
        decimals: decimals of the natural logarithms of variance and lengthscales, one grid each.
    """

    epsilons: list[float] = field(default_factory=lambda: [0.2, 0.6, 1.0])
    decimals: list[int] = field(default_factory=lambda: [0, 1, 2, 3])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        for name, values in (("epsilons", self.epsilons), ("decimals", self.decimals)):
            require(bool(values), name, values, "needs at least one value")
            require(len(set(values)) == len(values), name, values, "has a value twice")
        for epsilon in self.epsilons:
            check_epsilon("epsilons", epsilon)
        for decimals in self.decimals:
            require(
                0 <= decimals <= MAX_DECIMALS, "decimals", decimals, f"must lie between 0 and {MAX_DECIMALS}"
            )


def plan(request: Request) -> list[Task]:
    """Return one task per split, method, epsilon and grid; the grids of a training share it."""
    settings: RoundingSettings = request.settings
    dataset, ard = request_dataset(request), request.model.ard
    fits = [
        Fit(name, options, dataset, ard, {"epsilon": epsilon}, {"epsilon": epsilon, "decimals": decimals})
        for name, options in request.methods.items()
        for epsilon in settings.epsilons
        for decimals in settings.decimals
    ]
    return [_of_its_own_kind(task) for task in split_tasks(request, settings, fits)]


def _of_its_own_kind(task: Task) -> Task:
    axes = task.axes
    return replace(
        task,
        params={**task.params, "kind": "rounding", "decimals": axes["decimals"]},
        group=f"{axes['method']}/{axes['epsilon']}/{axes['split']}",
    )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Train on the bound, round to the task's grid, certify with that grid's penalty, compare with no rounding."""
    params = task.params
    split = shared.once("split", lambda: read_split(task))
    loss = LOSSES.get(params["loss"]["name"])(params["loss"]["epsilon"])
    trained = shared.once(
        "trained",
        lambda: minimise_bound(
            Training(split.X, split.y, params, task.budget_seconds, shared.observer), loss
        ),
    )
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    numbers = compare_rounding(split, trained, loss, params["delta"], HyperparameterGrid(params["decimals"]))
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
    found = evaluate(rounded, split.X_test, split.y_test, loss, delta, grid)
    n, counted = len(split.y), trained.hyperparameters.n_kernel
    formula = certify(gibbs_risk(kept, loss), kept.kl, n, counted, delta, grid=grid)
    return {
        "bound_kl": found.bound_kl,
        "bound_unrounded": formula.bound_kl,
        "bound_change": found.bound_kl - formula.bound_kl,
        "mean_change": float(np.abs(rounded.predict(split.X_test)[0] - kept.predict(split.X_test)[0]).max()),
        "log_theta_over_n": found.certificate.penalty.log_theta / n,
        "kl_over_n": found.kl_over_n,
        "gibbs_risk_train": found.gibbs_risk_train,
        "gibbs_risk_test": found.gibbs_risk_test,
        "mse_test": found.mse_test,
        "n_hyperparameters": counted,
    }


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the tables and the figure of the bound against the decimals; return what decides App. F's claims."""
    frame = records_frame(records)
    by = ["method", "epsilon", "decimals"]
    tidy = summarise_splits(frame, by, list(METRICS))
    titles = {name: options.title for name, options in request.methods.items()}
    splits = frame.groupby(by).size().min()
    caption = (
        f"{request_dataset(request).name}: ln of variance and lengthscales rounded to d decimals in [-6, 6] after "
        f"training, mean ± standard error over {splits} random splits; bounds hold with probability "
        f"{1 - request.settings.delta:g}{f' ({note})' if note else ''}"
    )
    write_table(_wide(tidy, titles), folder / "tables", "rounding", caption)
    write_table(tidy, folder / "tables", "rounding_tidy", caption)
    _draw(frame, titles, folder / "figures", note)
    means = metric_statistics(tidy[tidy["mean"].notna() & (tidy["metric"] != "log_theta_over_n")], by)
    return [*dataset_statistics(request), *means, *claims(frame[frame["method"] == PAC])]


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
        rows.setdefault(place, start)[METRICS[line["metric"]]] = cell
    return pd.DataFrame(list(rows.values()))


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the statistics of App. F.

    Args:
        frame: rows of `records_frame` of one method.
    """
    fine = frame[frame["decimals"] == PAPER_DECIMALS].dropna(subset=["bound_change", "mean_change"])
    if not len(fine):
        return []
    change = fine["bound_change"].abs()
    note = f"largest change of the predictive mean {fine['mean_change'].max():.2g} standard deviations of the target"
    return [
        Statistic("max_bound_change", float(change.max()), n=len(fine), note=note),
        Statistic(
            "share_bound_change_below_1e_4", float((change < NEGLIGIBLE).mean()), n=len(fine), note=note
        ),
        *_coarser(frame),
    ]


def _coarser(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the smallest mean paired change of the bound from two decimals to fewer."""
    coarse = frame[frame["decimals"] < PAPER_DECIMALS].dropna(subset=[AGAINST_PAPER])
    means = coarse.groupby(["decimals", "epsilon"])[AGAINST_PAPER].mean().reset_index()
    if not len(means):
        return
    cells = means.to_dict("records")
    listed = (
        f"{cell['decimals']:g} decimals, ε {cell['epsilon']:g}: {cell[AGAINST_PAPER]:+.4f}" for cell in cells
    )
    lowest = float(means[AGAINST_PAPER].min())
    yield Statistic("min_bound_change_coarser_rounding", lowest, n=len(coarse), note="; ".join(listed))


def _draw(frame: pd.DataFrame, titles: Mapping[str, str], folder: Path, note: str | None) -> None:
    """Draw bound, its difference to two decimals and the effect of rounding alone, with 95 % t intervals."""
    import matplotlib.pyplot as plt

    sizes = frame.assign(bound_change=frame["bound_change"].abs())
    tidy = summarise_splits(sizes, ["method", "epsilon", "decimals"], list(PANELS))
    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(13, 4.2))
        for ax, (metric, (label, title)) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], titles)
            ax.set_ylabel(label)
            ax.set_title(title)
        axes[1].axhline(0.0, color="0.4", linewidth=0.8)
        axes[2].set_yscale("log")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(
            handles, labels, loc="outside upper center", ncols=4, title="mean and 95 % t interval over splits"
        )
        save_figure(fig, tidy, folder, "rounding", note)


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    lines = list(part[["method", "epsilon"]].drop_duplicates().itertuples(index=False, name=None))
    for number, (method, epsilon) in enumerate(lines):
        rows = part[(part["method"] == method) & (part["epsilon"] == epsilon)]
        ax.errorbar(
            rows["decimals"] + 0.06 * (number - (len(lines) - 1) / 2),
            rows["mean"],
            yerr=(rows["interval_high"] - rows["mean"]).fillna(0.0),
            marker="osD^v"[number % 5],
            color=f"C{number}",
            label=f"{titles[method]}, ε = {epsilon:g}",
        )
    ax.set_xticks(sorted(part["decimals"].unique()))
    ax.set_xlabel("decimals of ln(variance), ln(lengthscale)")


EXPERIMENTS.register("pac_bayes/rounding")(
    Experiment(
        RoundingSettings,
        plan,
        run,
        summarise,
        builders=("pac_gp",),
        dataset_tasks=("regression",),
        agreement=AGREEMENT,
    )
)
