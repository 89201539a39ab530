"""Fig. 5 of Reeb et al. 2018, and the changes of MSE and bound under the exponential loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.loss_exp.claims import BAND, EXP, KL, LIKELIHOOD
from gpsuite.experiments.pac_bayes.loss_exp.settings import ExponentialSettings
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, math_label, method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


TRAINED_ON = {BAND: "0-1 band loss", EXP: "exponential loss", LIKELIHOOD: "its own likelihood"}


FILLED = {BAND: "none", EXP: "full", LIKELIHOOD: "full"}  # markers tell the two trainings of one method apart


# loss in LOSSES -> title and line of Fig. 5
SHAPES = {
    "band01": ("0-1 band", "--"),
    "exp": ("exponential, 1 − exp(−r²/ε²)", "-"),
    "capped_square": ("capped square, min(r²/ε², 1)", "-."),
    "capped_abs": ("capped absolute, min(|r|/ε, 1)", ":"),
}


def draw(
    tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic], report: Report[ExponentialSettings]
) -> None:
    """Draw the change of the MSE, and every bound under the exponential loss, by dataset and M."""
    import matplotlib.pyplot as plt

    groups = sorted(set(zip(tidy["dataset"], tidy["inducing"], strict=True)))
    ticks = [f"{dataset}\nM={inducing}" for dataset, inducing in groups]
    with figure_style():
        fig, axes = plt.subplots(1, 2, figsize=(max(9.0, 1.6 * len(groups) + 5.0), 4.6))
        _draw_changes(axes[0], groups, changes)
        _draw_bounds(axes[1], groups, tidy[tidy["metric"] == "bound_kl_exp"], report.titles)
        for ax in axes:
            ax.set_xticks(range(len(groups)), ticks)
            ax.set_xlim(-0.5, len(groups) - 0.5)
        fig.legend(
            *axes[1].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=2,
            title=f"ε = {report.settings.epsilon:g}; right: mean ± standard error over splits",
        )
        report.figure(fig, _drawn(tidy, changes), "loss_exp")


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


def draw_shapes(report: Report[ExponentialSettings]) -> None:
    """Draw the losses against the residual (Fig. 5): near 0 the exponential one follows the square."""
    epsilon = report.settings.epsilon
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
        report.figure(fig, pd.DataFrame({"residual": residuals, **columns}), "loss_shapes")
