"""results/published/overview.png: one panel a guarantee, drawn from what is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.reporting.figures import figure
from gpsuite.reporting.palette import BLUE, LIMIT, VERMILION, method_style, tint
from gpsuite.reporting.reading import present

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAME = "overview"

_SOURCES = (
    "pac_bayes/epsilon_boston/paper/figures/epsilon_boston.csv",
    "robustness/safety_synthetic2d/paper/figures/safety_synthetic2d_accuracy.csv",
    "perturbation/region/paper/figures/region.csv",
    "active_learning/toy/paper/figures/toy_curves.csv",
)


def draw_overview(root: Path, titles: dict[str, str]) -> Path | None:
    """Write `root`/overview.png, .pdf and .csv; nothing unless all four runs are there.

    Args:
        root: the folder of published runs.
        titles: of methods.

    Raises:
        ResultsError: if it cannot be written.
    """
    if not all(present(root / source) for source in _SOURCES):
        return None
    import pandas as pd

    boston, synthetic, region, toy = (pd.read_csv(root / source) for source in _SOURCES)
    with figure(root, NAME, rows=2, columns=2, size=(10.4, 7.2)) as drawing:
        bound, safety, band, learning = drawing.axes
        shown = [
            _curves(bound, boston[boston["metric"] == "bound_kl"], "epsilon", titles),
            _certified(safety, synthetic),
            _band(band, region[region["model"] == region["model"].iloc[0]]),
            _curves(learning, toy[toy["metric"] == toy["metric"].iloc[0]], "n_sum", titles),
        ]
        bound.set(
            title="certified share of wrong predictions, Boston (PAC-Bayes)",
            xlabel="accuracy goal ε",
            ylabel="bound ± s.e. over splits",
        )
        safety.set(
            title="proved under moving inputs, Synthetic2D (robustness)",
            xlabel="radius γ",
            ylabel="share of points",
        )
        band.set(
            title="exact regions, any symmetric noise (perturbation)", xlabel="bmi", ylabel="progression"
        )
        learning.set(
            title="safe active learning, toy (active learning)",
            xlabel="measured values",
            ylabel="RMSE ± s.e.",
        )
        for ax in drawing.axes:
            ax.legend()
        drawing.data = pd.concat(shown, keys=range(4), names=["panel"]).reset_index(level=0)
    return root / f"{NAME}.png"


def _curves(ax: Axes, rows: pd.DataFrame, x: str, titles: dict[str, str]) -> pd.DataFrame:
    for method, line in rows.groupby("method", sort=False):
        style = method_style(str(method))
        ax.errorbar(
            line[x], line["mean"], line["standard_error"], label=titles.get(str(method), str(method)),
            color=style["color"], marker=style["marker"], markersize=3.5,
        )  # fmt: skip
    return rows


def _certified(ax: Axes, rows: pd.DataFrame) -> pd.DataFrame:
    first: pd.DataFrame = rows[rows["features"] == rows["features"].iloc[0]]
    ax.plot(first["gamma"], first["certified"], color=BLUE, marker="o", markersize=3.5, label="proved")
    left = first[[name for name in first.columns if name.startswith("under ")]].min(axis=1)
    ax.plot(first["gamma"], left, color=VERMILION, linestyle="--", label="left by the best of three attacks")
    return first


def _band(ax: Axes, rows: pd.DataFrame) -> pd.DataFrame:
    for level, share in (("10", 0.25), ("50", 0.55)):
        low, high = rows[f"pointwise_lower_{level}"], rows[f"pointwise_upper_{level}"]
        ax.fill_between(
            rows["x"], low, high, color=tint(BLUE, share), linewidth=0, label=f"{100 - int(level)} %"
        )
    ax.plot(rows["x"], rows["estimate"], color=LIMIT, label="estimate")
    return rows
