"""pac_bayes/loss_exp: the exponential loss in place of the 0-1 band loss (Reeb et al. 2018, Table 3 and Fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    MethodOptions,
    Record,
    Request,
    Task,
    only_arrays,
    require,
)
from gpsuite.experiments.pac_bayes.exponential_claims import (
    BAND,
    EXP,
    KL,
    LIKELIHOOD,
    exponential_claims,
    mse_changes,
)
from gpsuite.experiments.pac_bayes.fitting import run_fit
from gpsuite.experiments.pac_bayes.frames import (
    metric_statistics,
    records_frame,
    summarise_splits,
    timing_table,
    wide_table,
)
from gpsuite.experiments.pac_bayes.inducing import COST
from gpsuite.experiments.pac_bayes.methods import PacSGPOptions
from gpsuite.experiments.pac_bayes.settings import (
    AGREEMENT,
    SplitSettings,
    check_epsilon,
    sparse_fit,
    split_tasks,
)
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, math_label, method_style, save_figure
from gpsuite.reporting.tables import mean_and_error, write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

BY = ["dataset", "inducing", "method", "trained_on"]
METRICS = (
    "mse_test", "bound_kl", "gibbs_risk_train", "gibbs_risk_test", "bound_kl_exp", "gibbs_risk_test_exp",
    "kl_over_n", "noise_variance",
)  # fmt: skip
TRAINED_ON = {BAND: "0-1 band loss", EXP: "exponential loss", LIKELIHOOD: "its own likelihood"}
FILLED = {BAND: "none", EXP: "full", LIKELIHOOD: "full"}  # markers tell the two trainings of one method apart
CHANGE = "test MSE of kl-PAC-SGP, exponential against 0-1 band loss: mean over n splits of the change on each"

# loss in LOSSES -> title and line of Fig. 5
SHAPES = {
    "band01": ("0-1 band", "--"),
    "exp": ("exponential, 1 − exp(−r²/ε²)", "-"),
    "capped_square": ("capped square, min(r²/ε², 1)", "-."),
    "capped_abs": ("capped absolute, min(|r|/ε, 1)", ":"),
}


@dataclass
class ExponentialSettings(SplitSettings):
    """Settings of the comparison of losses.

    Attributes:
        epsilon: width of both losses, in standard deviations of the target.
        inducing: numbers M of inducing inputs; the paper's claims are decided at the largest.
        single_lengthscale: datasets whose inputs share a lengthscale although `model` has one per input.
    """

    epsilon: float = 0.6
    inducing: list[int] = field(default_factory=lambda: [500])
    single_lengthscale: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_epsilon("epsilon", self.epsilon)
        inducing, known = self.inducing, dataset_names(shipped_conf_dir())
        require(bool(inducing), "inducing", inducing, "needs at least one number")
        require(min(inducing) >= 1, "inducing", inducing, "must be 1 or more")
        require(len(set(inducing)) == len(inducing), "inducing", inducing, "has a number twice")
        for name in self.single_lengthscale:
            if name not in known:
                raise unknown_name("single_lengthscale", name, known)


def plan(request: Request) -> list[Task]:
    """Return one task per dataset, M, split, method and loss to train on; likelihoods have no loss to choose."""
    settings: ExponentialSettings = request.settings
    tasks = []
    for name, data in request.datasets.items():
        ard = request.model.ard and name not in settings.single_lengthscale
        for inducing in settings.inducing:
            fits = []
            for method, options in request.methods.items():
                for trained_on in _trainings(options):
                    loss = EXP if trained_on == EXP else BAND
                    fit = sparse_fit(method, options, inducing, data, ard, settings.epsilon, loss)
                    fits.append(replace(fit, axes={"dataset": name, "trained_on": trained_on, **fit.axes}))
            tasks += split_tasks(request, settings, fits)
    return tasks


def _trainings(options: MethodOptions) -> tuple[str, ...]:
    return (BAND, EXP) if isinstance(options, PacSGPOptions) else (LIKELIHOOD,)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the tables, draw changes, bounds and the losses; return means, changes and the paper's claims."""
    frame, tables = records_frame(records), folder / "tables"
    tidy, changes = summarise_splits(frame, BY, METRICS), mse_changes(frame)
    titles = {name: options.title for name, options in request.methods.items()}
    settings: ExponentialSettings = request.settings
    shown = f" ({note})" if note else ""
    caption = (
        f"ε = {settings.epsilon:g}, mean ± standard error over at least {frame.groupby(BY).size().min()} random "
        "splits; bound and Gibbs risks under the loss trained on (the 0-1 band for VFE and FITC), then under the "
        f"exponential loss; each bound holds with probability {1 - settings.delta:g}{shown}"
    )
    wide, timing = wide_table(tidy, BY, titles), timing_table(records, BY, titles)
    for table in (wide, timing):
        table["trained_on"] = table["trained_on"].map(TRAINED_ON)
    heads = {"trained_on": "trained on", "inducing": "M"}
    write_table(wide, tables, "loss_exp", caption, heads)
    write_table(tidy, tables, "loss_exp_tidy", caption)
    write_table(timing, tables, "loss_exp_timing", COST, heads)
    if changes:
        write_table(_change_table(tidy, changes), tables, "loss_exp_mse", f"{CHANGE}{shown}")
    draw(tidy, changes, titles, f"ε = {settings.epsilon:g}", folder / "figures", note)
    draw_shapes(settings.epsilon, folder / "figures")
    return [*metric_statistics(tidy, BY), *changes.values(), *exponential_claims(frame)]


def _change_table(tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]) -> pd.DataFrame:
    import pandas as pd

    mse = tidy[(tidy["method"] == KL) & (tidy["metric"] == "mse_test")]
    names = zip(mse["dataset"], mse["inducing"], mse["trained_on"], strict=True)
    texts = [mean_and_error(*pair) for pair in zip(mse["mean"], mse["standard_error"], strict=True)]
    cells = dict(zip(names, texts, strict=True))
    rows = []
    for (dataset, inducing), change in changes.items():
        rows.append(
            {
                "dataset": dataset,
                "M": inducing,
                "MSE, 0-1 band loss": cells[dataset, inducing, BAND],
                "MSE, exponential loss": cells[dataset, inducing, EXP],
                "change (%)": change.value,
                "from (%)": change.interval_low,
                "to (%)": change.interval_high,
                "interval": change.interval,
                "n": change.n,
            }
        )
    return pd.DataFrame(rows)


def draw(
    tidy: pd.DataFrame,
    changes: Mapping[tuple[str, int], Statistic],
    titles: Mapping[str, str],
    heading: str,
    folder: Path,
    note: str | None,
) -> None:
    """Draw the change of the MSE, and every bound under the exponential loss, by dataset and M."""
    import matplotlib.pyplot as plt

    groups = sorted(set(zip(tidy["dataset"], tidy["inducing"], strict=True)))
    ticks = [f"{dataset}\nM={inducing}" for dataset, inducing in groups]
    with figure_style():
        fig, axes = plt.subplots(1, 2, figsize=(max(9.0, 1.6 * len(groups) + 5.0), 4.6))
        _draw_changes(axes[0], groups, changes)
        _draw_bounds(axes[1], groups, tidy[tidy["metric"] == "bound_kl_exp"], titles)
        for ax in axes:
            ax.set_xticks(range(len(groups)), ticks)
            ax.set_xlim(-0.5, len(groups) - 0.5)
        fig.legend(
            *axes[1].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=2,
            title=f"{heading}; right: mean ± standard error over splits",
        )
        save_figure(fig, _drawn(tidy, changes), folder, "loss_exp", note)


def _drawn(tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]) -> pd.DataFrame:
    """Return the numbers of both panels, the changes as further rows of the tidy frame."""
    import pandas as pd

    rows = [
        {
            "dataset": dataset,
            "inducing": inducing,
            "method": KL,
            "trained_on": f"{EXP} against {BAND}",
            "metric": "mse_change_percent",
            "mean": change.value,
            "standard_error": change.standard_error,
            "n": change.n,
            "interval_low": change.interval_low,
            "interval_high": change.interval_high,
            "interval": change.interval,
        }
        for (dataset, inducing), change in changes.items()
    ]
    bounds = tidy[tidy["metric"] == "bound_kl_exp"]
    return pd.concat([pd.DataFrame(rows, columns=tidy.columns), bounds]) if rows else bounds


def _draw_changes(
    ax: Axes, groups: Sequence[tuple[str, int]], changes: Mapping[tuple[str, int], Statistic]
) -> None:
    ax.axhline(0.0, color="0.5", linewidth=1.0)
    for place, group in enumerate(groups):
        change = changes.get(group)
        if change is None:
            continue
        low, high = (
            end if end is not None else change.value for end in (change.interval_low, change.interval_high)
        )
        reach = [[change.value - low], [high - change.value]]
        ax.errorbar([place], [change.value], yerr=reach, capsize=4, fmt="o", color=method_style(KL)["color"])
    ax.set_ylabel("change of the test MSE (%)")
    ax.set_title("kl-PAC-SGP: exponential against 0-1 band loss\n(mean and 95 % t interval of paired splits)")


def _draw_bounds(
    ax: Axes, groups: Sequence[tuple[str, int]], bounds: pd.DataFrame, titles: Mapping[str, str]
) -> None:
    lines = [(name, loss) for name in titles for loss in TRAINED_ON if _has(bounds, name, loss)]
    for number, (name, loss) in enumerate(lines):
        part = bounds[(bounds["method"] == name) & (bounds["trained_on"] == loss)]
        rows = part.set_index(["dataset", "inducing"]).reindex(list(groups))
        shift = (number - (len(lines) - 1) / 2) * 0.6 / len(lines)
        ax.errorbar(
            np.arange(len(groups)) + shift,
            rows["mean"],
            yerr=rows["standard_error"].fillna(0.0),
            capsize=3,
            fmt=method_style(name)["marker"],
            color=method_style(name)["color"],
            fillstyle=FILLED[loss],
            label=f"{titles[name]}, trained on {TRAINED_ON[loss]}",
        )
    ax.set_ylim(0.0, 1.02)
    ax.set_ylabel(math_label("upper bound $B_{kl}$ (probability)"))
    ax.set_title("bound under the exponential loss")


def _has(bounds: pd.DataFrame, name: str, loss: str) -> bool:
    return bool(((bounds["method"] == name) & (bounds["trained_on"] == loss)).any())


def draw_shapes(epsilon: float, folder: Path) -> None:
    """Draw the losses against the residual (Fig. 5): near 0 the exponential one follows the square."""
    import matplotlib.pyplot as plt
    import pandas as pd

    residuals = np.linspace(-3.0 * epsilon, 3.0 * epsilon, 601)
    columns = {name: LOSSES.get(name)(epsilon).pointwise(np.zeros(601), residuals) for name in SHAPES}
    with figure_style():
        fig, ax = plt.subplots(figsize=(6.4, 4.4))
        for name, (title, line) in SHAPES.items():
            ax.plot(residuals / epsilon, columns[name], line, label=title)
        ax.set_ylim(-0.03, 1.05)
        ax.set_xlabel("residual r = prediction − target, in ε")
        ax.set_ylabel("loss")
        fig.legend(loc="outside upper center", ncols=2, title=f"losses of width ε = {epsilon:g}")
        save_figure(fig, pd.DataFrame({"residual": residuals, **columns}), folder, "loss_shapes")


EXPERIMENTS.register("pac_bayes/loss_exp")(
    Experiment(
        ExponentialSettings,
        plan,
        run_fit,
        summarise,
        builders=("pac_sgp", "sparse_gp"),
        dataset_tasks=("regression",),
        several_datasets=True,
        parts=("repetitions", "inducing"),
        published=only_arrays(
            "lengthscales"
        ),  # all that is drawn; the other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
