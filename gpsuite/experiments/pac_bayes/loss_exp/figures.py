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
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.panels import panel, paper_marks

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
    import pandas as pd

    groups = sorted(set(zip(tidy["dataset"], tidy["inducing"], strict=True)))
    ticks = {f"{dataset} {inducing}": f"{dataset}\nM={inducing}" for dataset, inducing in groups}
    bounds = tidy[tidy["metric"] == "bound_kl_exp"]
    changed = _change_rows(changes, tidy)
    trained = set(zip(bounds["method"], bounds["trained_on"], strict=True))
    pairs = [(name, loss) for name in report.titles for loss in TRAINED_ON if (name, loss) in trained]
    lines = {f"{name} {loss}": (name, loss) for name, loss in pairs}
    titles = {
        line: f"{report.titles[name]}, trained on {TRAINED_ON[loss]}" for line, (name, loss) in lines.items()
    }
    styles = {line: {**method_style(name), "fillstyle": FILLED[loss]} for line, (name, loss) in lines.items()}
    with report.figure("loss_exp", columns=2, size=(max(9.0, 1.6 * len(groups) + 5.0), 4.6)) as drawing:
        left, right = drawing.axes
        left.axhline(0.0, color=LIMIT, linewidth=1.0)
        panel(left, _cells(changed), "cell", {KL: "_"}, kind="points", error="interval", ticks=ticks)
        marks = _printed(report.printed, groups)
        paper_marks(left, [(KL, float(place), value) for place, _, value in marks])
        left.set_ylabel("change of the test MSE (%)")
        left.set_title(
            "kl-PAC-SGP: exponential against 0-1 band loss\n(mean and 95 % t interval of paired splits)"
        )
        panel(
            right, _cells(bounds), "cell", titles, by="line", kind="points", ticks=ticks,
            apart=0.6 / max(len(lines), 1), styles=styles,
        )  # fmt: skip
        right.set_ylim(0.0, 1.02)
        right.set_ylabel(math_label("upper bound $B_{kl}$ (probability)"))
        right.set_title("bound under the exponential loss")
        epsilon = f"ε = {report.settings.epsilon:g}"
        drawing.legend("above", columns=2, title=f"{epsilon}; right: mean ± standard error over splits")
        drawing.data = pd.concat([changed, bounds]) if len(changed) else bounds
        rows = [
            {"dataset": name, "metric": "mse_change_percent", "printed": value} for _, name, value in marks
        ]
        drawing.data = pd.concat([drawing.data, pd.DataFrame(rows)]) if rows else drawing.data


def _printed(printed: Mapping[str, float], groups: Sequence[tuple[str, int]]) -> list[tuple[int, str, float]]:
    """Return place, dataset and value of the printed changes, at each M of the dataset: theirs is lost in the text."""
    names = [
        (place, name, f"mse_change_percent[dataset={name.removesuffix('_test')}]")
        for place, (name, _) in enumerate(groups)
    ]
    return [(place, name, printed[key]) for place, name, key in names if key in printed]


def _cells(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the tick (dataset and M) and the line (method and training) that each belongs to."""
    cells = [
        f"{dataset} {inducing}" for dataset, inducing in zip(tidy["dataset"], tidy["inducing"], strict=True)
    ]
    lines = [f"{name} {loss}" for name, loss in zip(tidy["method"], tidy["trained_on"], strict=True)]
    return tidy.assign(cell=cells, line=lines)


def _change_rows(changes: Mapping[tuple[str, int], Statistic], tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the changes as rows of a frame like the tidy one."""
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
    return pd.DataFrame(rows, columns=tidy.columns)


def draw_shapes(report: Report[ExponentialSettings]) -> None:
    """Draw the losses against the residual (Fig. 5): near 0 the exponential one follows the square."""
    import pandas as pd

    epsilon = report.settings.epsilon
    residuals = np.linspace(-3.0 * epsilon, 3.0 * epsilon, 601)
    columns = {name: LOSSES.get(name)(epsilon).pointwise(np.zeros(601), residuals) for name in SHAPES}
    with report.figure("loss_shapes", size=(6.4, 4.4)) as drawing:
        for name, (title, line) in SHAPES.items():
            drawing.ax.plot(residuals / epsilon, columns[name], line, label=title)
        drawing.ax.set_ylim(-0.03, 1.05)
        drawing.name_axes("residual r = prediction − target, in ε", "loss")
        drawing.legend("above", columns=2, title=f"losses of width ε = {epsilon:g}")
        drawing.data = pd.DataFrame({"residual": residuals, **columns})
