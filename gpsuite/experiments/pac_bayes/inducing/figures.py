"""Fig. 3 of Reeb et al. 2018: bounds, risks and errors against M."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.inducing.claims import FITC, KL, VFE
from gpsuite.experiments.pac_bayes.inducing.settings import InducingSettings
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLACK, LIMIT
from gpsuite.reporting.panels import PAPER, panel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}


STYLES = {"vfe_fitc_posterior": {"linestyle": "--"}}  # the training of another line


PRINTED_FACTORS = {"pol": (2.0, 2.0), "kin40k": (1.3, 2.0), "sarcos": (3.0, 3.0)}
"""The better baseline's bound over kl-PAC-SGP's as Sec. 4(c) prints it: roughly 2, 1.3 to 2, and more than 3."""


def draw(report: Report[InducingSettings], tidy: pd.DataFrame, name: str, heading: str) -> None:
    """Draw the paper's five panels against the number of inducing inputs, and the bounds' factor beside its own.

    Means and their standard errors; the factor is that of the means.
    """
    import pandas as pd

    factors = factor_frame(tidy)
    printed = PRINTED_FACTORS.get(report.request.require_dataset().name) if report.comparable else None
    with report.figure(name, columns=len(PANELS) + 1, size=(19, 3.8)) as drawing:
        for ax, shown in zip(drawing.axes, PANELS, strict=False):
            panel(ax, tidy[tidy["metric"] == shown], "inducing", report.titles, styles=STYLES)
            ax.set_xticks(sorted(tidy["inducing"].unique()))
            ax.set_xlabel("inducing inputs M")
            # the margin of a narrow range would cut the highest marker
            ax.set_ylim(0.0, max(ax.get_ylim()[1], 1.06 * ax.dataLim.y1))
            ax.set_title(metric(shown).axis)
        _draw_factors(drawing.axes[-1], factors, printed)
        drawing.legend("above", columns=len(report.titles) + 2, title=heading)
        drawing.data = pd.concat([tidy[tidy["metric"].isin(PANELS)], factors], ignore_index=True)
        if printed:
            drawing.data = drawing.data.assign(printed_low=printed[0], printed_high=printed[1])


def factor_frame(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return by M the smaller of VFE's and FITC's mean bounds over kl-PAC-SGP's; empty without all three."""
    import pandas as pd

    bounds = tidy[tidy["metric"] == "bound_kl"].pivot_table(index="inducing", columns="method", values="mean")
    if not {KL, VFE, FITC} <= set(bounds):
        return pd.DataFrame(columns=["inducing", "metric", "mean"])
    factors = bounds[[VFE, FITC]].min(axis=1) / bounds[KL]
    return pd.DataFrame({"inducing": factors.index, "metric": "bound_factor", "mean": factors.to_numpy()})


def _draw_factors(ax: Axes, factors: pd.DataFrame, printed: tuple[float, float] | None) -> None:
    if factors.empty:
        return
    ax.plot(factors["inducing"], factors["mean"], color=BLACK, marker="o")
    if printed:
        for value in dict.fromkeys(printed):
            ax.plot(
                factors["inducing"], [value] * len(factors), "o:", ms=9, mfc="none", color=LIMIT, label=PAPER
            )
    ax.set_xticks(sorted(factors["inducing"].unique()))
    ax.set_xlabel("inducing inputs M")
    ax.set_ylim(0.0, 1.06 * ax.dataLim.y1)  # as above
    ax.set_title("B_kl: min(VFE, FITC) / kl-PAC-SGP")
