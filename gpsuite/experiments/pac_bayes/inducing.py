"""pac_bayes/inducing_*: bounds and risks against the number of inducing inputs (Reeb et al. 2018, Fig. 3, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request, Task, only_arrays, require
from gpsuite.experiments.pac_bayes.fitting import run_fit
from gpsuite.experiments.pac_bayes.frames import (
    CERTIFICATES,
    METRICS,
    PANELS,
    dataset_statistics,
    metric_statistics,
    records_frame,
    summarise_splits,
    timing_table,
    wide_table,
)
from gpsuite.experiments.pac_bayes.inducing_claims import inducing_claims
from gpsuite.experiments.pac_bayes.settings import (
    AGREEMENT,
    KERNELS,
    SplitSettings,
    check_epsilon,
    request_dataset,
    sparse_fit,
    split_tasks,
)
from gpsuite.methods.pac_bayes.certificates import certify
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, method_style, save_figure
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COST = "CPU seconds and evaluations per training, mean over the splits; trainings shared by two rows are in the first"
CHOICE = "M chosen per split by the smallest bound; ln(number of M tried) is paid for the choice"
SELECTED = ("bound_of_choice", "bound_kl", "chosen_m", "gibbs_risk_test", "mse_test")
KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}


@dataclass
class InducingSettings(SplitSettings):
    """Settings of the scan over numbers of inducing inputs.

    Attributes:
        epsilon: half-width of the 0-1 band, in standard deviations of the target.
        inducing: numbers M of inducing inputs.
        other_kernel: methods trained also with the kernel that `model` does not name: ARD or a single lengthscale.
        other_kernel_inducing: the numbers M at which they are.
    """

    epsilon: float = 0.6
    inducing: list[int] = field(default_factory=lambda: [100, 200, 300, 400, 500])
    other_kernel: list[str] = field(default_factory=list)
    other_kernel_inducing: list[int] = field(default_factory=lambda: [100, 200, 300, 400, 500])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_epsilon("epsilon", self.epsilon)
        require(bool(self.inducing), "inducing", self.inducing, "needs at least one number")
        require(min(self.inducing) >= 1, "inducing", self.inducing, "must be 1 or more")
        require(
            len(set(self.inducing)) == len(self.inducing), "inducing", self.inducing, "has a number twice"
        )


def plan(request: Request) -> list[Task]:
    """Return one task per M, split, method and kernel, in the order of M: an interrupted run has whole columns."""
    settings: InducingSettings = request.settings
    data, ard = request_dataset(request), request.model.ard
    for name in settings.other_kernel:
        advice = f"not a method of this run\nvalid: other_kernel=[], or any of {', '.join(request.methods)}"
        require(name in request.methods, "other_kernel", name, advice)
    tasks = []
    for inducing in settings.inducing:
        also = settings.other_kernel if inducing in settings.other_kernel_inducing else []
        fits = [
            sparse_fit(name, options, inducing, data, chosen, settings.epsilon)
            for name, options in request.methods.items()
            for chosen in ((ard, not ard) if name in also else (ard,))
        ]
        tasks += split_tasks(request, settings, fits)
    return tasks


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the tables and the five panels against M; return means and the paper's claims as statistics."""
    frame, name = records_frame(records), request.experiment.split("/")[1]
    metrics = [*METRICS, *CERTIFICATES]
    tidy = summarise_splits(frame, ["inducing", "kernel", "method"], metrics)
    titles = {method: options.title for method, options in request.methods.items()}
    counted = frame.groupby(["inducing", "kernel", "method"]).size()
    splits = f"{counted.min()}" if counted.min() == counted.max() else f"{counted.min()} to {counted.max()}"
    settings: InducingSettings = request.settings
    caption = (
        f"{request_dataset(request).name}, ε = {settings.epsilon:g}: mean ± standard error over {splits} random "
        f"splits; bounds hold with probability {1 - settings.delta:g}{f' ({note})' if note else ''}"
    )
    tables = folder / "tables"
    by, further = ["inducing", "kernel", "method"], tidy["metric"].isin(list(CERTIFICATES))
    write_table(wide_table(tidy[~further], by, titles), tables, name, caption)
    write_table(wide_table(tidy[further], by, titles), tables, f"{name}_certificates", caption)
    write_table(tidy, tables, f"{name}_tidy", caption)
    write_table(timing_table(records, by, titles), tables, f"{name}_timing", COST)
    kernel = KERNELS[request.model.ard]
    chosen = summarise_splits(
        selected(frame[frame["kernel"] == kernel], settings.delta), ["method"], list(SELECTED)
    )
    write_table(wide_table(chosen, ["method"], titles), tables, f"{name}_selected", f"{caption}; {CHOICE}")
    heading = f"{request_dataset(request).name}, {KERNEL_TITLES[kernel]}: mean ± s.e. over {splits} splits"
    draw(tidy[tidy["kernel"] == kernel], titles, heading, folder / "figures", name, note)
    means = metric_statistics(tidy, ["method", "kernel", "inducing"])
    return [*dataset_statistics(request), *means, *inducing_claims(frame, kernel)]


def selected(frame: pd.DataFrame, delta: float) -> pd.DataFrame:
    """Return, per method and split, the M whose bound is smallest, with the bound that pays for choosing it.

    A union bound over the numbers tried: ln(how many) enters the penalty, so that the bound of the M chosen on the
    training data holds with probability 1 - delta.
    """
    tried = frame["inducing"].nunique()
    best = frame.loc[frame.groupby(["method", "split"])["bound_kl"].idxmin()].copy()
    columns = ["gibbs_risk_train", "kl", "n_train", "n_hyperparameters"]
    best["bound_of_choice"] = [
        certify(risk, kl, int(n), int(t), delta, grid_size=tried).bound_kl
        for risk, kl, n, t in best[columns].astype(float).to_numpy()
    ]
    return best.assign(chosen_m=best["inducing"].astype(float))


def draw(
    tidy: pd.DataFrame, titles: dict[str, str], heading: str, folder: Path, name: str, note: str | None
) -> None:
    """Draw the paper's five panels against the number of inducing inputs: means and their standard errors."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(16, 3.8))
        for ax, (metric, label) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], titles, label)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), title=heading)
        save_figure(fig, tidy[tidy["metric"].isin(list(PANELS))], folder, name, note)


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: dict[str, str], label: str) -> None:
    numbers = sorted(part["inducing"].unique())
    for method, title in titles.items():
        style = method_style(method)
        rows = part[part["method"] == method].set_index("inducing").reindex(numbers)
        ax.errorbar(
            numbers,
            rows["mean"],
            yerr=rows["standard_error"].fillna(0.0),
            label=title,
            linestyle="--" if method == "vfe_fitc_posterior" else "-",
            capsize=3,
            color=style["color"],
            marker=style["marker"],
        )
    ax.set_xticks(numbers)
    ax.set_xlabel("inducing inputs M")
    ax.set_ylim(bottom=0.0)
    ax.set_title(label)


for _name in ("inducing_pol", "inducing_kin40k", "inducing_sarcos"):
    EXPERIMENTS.register(f"pac_bayes/{_name}")(
        Experiment(
            InducingSettings,
            plan,
            run_fit,
            summarise,
            builders=("pac_sgp", "sparse_gp"),
            dataset_tasks=("regression",),
            parts=("repetitions", "inducing", "methods", "other_kernel_inducing"),
            published=only_arrays(
                "lengthscales"
            ),  # all that is drawn; the other arrays are the model, for a certificate
            agreement=AGREEMENT,
        )
    )
