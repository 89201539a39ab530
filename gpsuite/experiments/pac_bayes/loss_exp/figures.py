"""Fig. 5 of Reeb et al. 2018, and the changes of MSE and bound under the exponential loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.loss_exp.claims import BAND, EXP, KL, LIKELIHOOD
from gpsuite.experiments.pac_bayes.loss_exp.settings import ExponentialSettings
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd


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
    report: Report[ExponentialSettings], tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]
) -> None:
    """Draw the change of the MSE, and every bound under the exponential loss, by dataset and M."""
    groups = sorted(set(zip(tidy["dataset"], tidy["inducing"], strict=True)))
    ticks = {f"{dataset}\nM={inducing}": f"{dataset}\nM={inducing}" for dataset, inducing in groups}
    shown = _drawn(tidy, changes)
    places = [f"{dataset}\nM={m}" for dataset, m in zip(shown["dataset"], shown["inducing"], strict=True)]
    lines = shown["method"] + "/" + shown["trained_on"]
    placed = shown.assign(place=places, line=lines)
    titles = {
        f"{name}/{loss}": f"{title}, trained on {words}"
        for name, title in report.titles.items()
        for loss, words in TRAINED_ON.items()
    }
    styles = {
        f"{name}/{loss}": {**method_style(name), "fillstyle": FILLED[loss]}
        for name in report.titles
        for loss in TRAINED_ON
    }
    heading = f"ε = {report.settings.epsilon:g}; right: mean ± standard error over splits"
    size = (max(9.0, 1.6 * len(groups) + 5.0), 4.6)
    with report.figure("loss_exp", columns=2, size=size) as drawing:
        left, right = drawing.axes
        changed = placed[placed["metric"] == "mse_change_percent"]
        left.axhline(0.0, color=LIMIT, linewidth=1.0)
        panel(left, changed, "place", {KL: "_"}, kind="points", error="interval", ticks=ticks)
        left.set_ylabel("change of the test MSE (%)")
        left.set_title(
            "kl-PAC-SGP: exponential against 0-1 band loss\n(mean and 95 % t interval of paired splits)"
        )
        bounds = placed[placed["metric"] == "bound_kl_exp"]
        apart = 0.6 / max(bounds["line"].nunique(), 1)
        panel(
            right, bounds, "place", titles, by="line", kind="points", ticks=ticks, apart=apart, styles=styles
        )
        right.set_ylim(0.0, 1.02)
        right.set_ylabel(math_label("upper bound $B_{kl}$ (probability)"))
        right.set_title("bound under the exponential loss")
        drawing.legend(columns=2, title=heading)
        drawing.data = shown


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


def draw_shapes(report: Report[ExponentialSettings]) -> None:
    """Draw the losses against the residual (Fig. 5): near 0 the exponential one follows the square."""
    import pandas as pd

    epsilon = report.settings.epsilon
    residuals = np.linspace(-3.0 * epsilon, 3.0 * epsilon, 601)
    columns = {name: LOSSES.get(name)(epsilon).pointwise(np.zeros(601), residuals) for name in SHAPES}
    with report.figure("loss_shapes", size=(6.4, 4.4)) as drawing:
        ax = drawing.ax
        for name, (title, line) in SHAPES.items():
            ax.plot(residuals / epsilon, columns[name], line, label=title)
        ax.set_ylim(-0.03, 1.05)
        ax.set_xlabel("residual r = prediction − target, in ε")
        ax.set_ylabel("loss")
        drawing.legend(columns=2, title=f"losses of width ε = {epsilon:g}")
        drawing.data = pd.DataFrame({"residual": residuals, **columns})
