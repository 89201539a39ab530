"""pac_bayes/epsilon_boston: bounds and risks against the accuracy goal (Fig. 2 and Table 1 of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request, Task, only_arrays, require
from gpsuite.experiments.pac_bayes.claims import boston_claims
from gpsuite.experiments.pac_bayes.fitting import run_fit
from gpsuite.experiments.pac_bayes.frames import (
    METRICS,
    PANELS,
    dataset_statistics,
    metric_statistics,
    records_frame,
    summarise_fits,
    wide_table,
)
from gpsuite.experiments.pac_bayes.settings import AGREEMENT, SplitSettings, check_epsilon, fit_tasks
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, method_style, save_figure
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass
class EpsilonSettings(SplitSettings):
    """Settings of the scan over accuracy goals.

    Attributes:
        epsilons: half-widths of the 0-1 band, in standard deviations of the target.
    """

    epsilons: list[float] = field(default_factory=lambda: [0.2, 0.4, 0.6, 0.8, 1.0])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        require(bool(self.epsilons), "epsilons", self.epsilons, "needs at least one value")
        require(len(set(self.epsilons)) == len(self.epsilons), "epsilons", self.epsilons, "has a value twice")
        for value in self.epsilons:
            check_epsilon("epsilons", value)


def plan(request: Request) -> list[Task]:
    """Return one task per split, method and epsilon."""
    settings: EpsilonSettings = request.settings
    goals = [{"epsilon": value} for value in settings.epsilons]
    return fit_tasks(request, settings, goals, "epsilon")


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the table and the five-panel figure; return means and the paper's claims as statistics."""
    frame = records_frame(records)
    tidy = summarise_fits(frame, ["method", "epsilon"], METRICS)
    titles = {name: options.title for name, options in request.methods.items()}
    count = frame.groupby(["method", "epsilon"]).size().min()
    caption = (
        f"Boston housing, mean ± standard error over {count} random splits; "
        f"bounds hold with probability {1 - request.settings.delta:g}"
    )
    if note:
        caption += f" ({note})"
    write_table(wide_table(tidy, ["epsilon", "method"], titles), folder / "tables", "epsilon_boston", caption)
    write_table(tidy, folder / "tables", "epsilon_boston_tidy", caption)
    draw(tidy, titles, f"bars: mean over {count} splits; ticks: standard error", folder / "figures", note)
    means = metric_statistics(tidy, ["method", "epsilon"])
    return [*dataset_statistics(request), *means, *boston_claims(frame, request.settings.delta)]


def draw(tidy: pd.DataFrame, titles: dict[str, str], heading: str, folder: Path, note: str | None) -> None:
    """Draw the paper's five panels against epsilon: bars are means, ticks their standard errors."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(15, 3.6))
        for ax, (metric, label) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], titles, label)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), title=heading)
        shown = tidy[tidy["metric"].isin(list(PANELS))]
        save_figure(fig, shown, folder, "epsilon_boston", note)


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: dict[str, str], label: str) -> None:
    goals = sorted(part["epsilon"].unique())
    width = 0.8 / len(titles)
    for number, (name, title) in enumerate(titles.items()):
        rows = part[part["method"] == name].set_index("epsilon").reindex(goals)
        places = [k + (number - (len(titles) - 1) / 2) * width for k in range(len(goals))]
        ax.bar(
            places,
            rows["mean"],
            width,
            yerr=rows["standard_error"].fillna(0.0),
            label=title,
            color=method_style(name)["color"],
            error_kw={"ecolor": "0.35", "elinewidth": 1.5, "capsize": 2},
        )
    ax.set_xticks(range(len(goals)), [f"{goal:g}" for goal in goals])
    ax.set_xlabel("accuracy goal ε (std. of target)")
    ax.set_title(label)


EXPERIMENTS.register("pac_bayes/epsilon_boston")(
    Experiment(
        EpsilonSettings,
        plan,
        run_fit,
        summarise,
        builders=("pac_gp", "full_gp"),
        parts=("repetitions",),
        published=only_arrays(
            "lengthscales"
        ),  # all that is drawn; the other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
