"""Distances to HMC beside the ratios of robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.robustness.posterior_quality.claims import Quality, quality_pairs
from gpsuite.experiments.robustness.posterior_quality.settings import PosteriorQualitySettings
from gpsuite.experiments.robustness.shared.paper_protocol import STUDIES
from gpsuite.experiments.robustness.shared.probability_change_claims import by_classifier
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import LIMIT, dataset_style
from gpsuite.reporting.panels import panel, paper_marks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

APART = 0.16  # between the methods of a dataset


def draw(
    report: Report[PosteriorQualitySettings],
    statistics: Sequence[Statistic],
    found: Sequence[Quality],
    deltas: Mapping[str, pd.DataFrame],
) -> None:
    """Draw the mean distance per dataset and method, and per draw the ratio of distances against that of delta.

    Args:
        report: gives titles and settings.
        statistics: holding the mean distances.
        found: distances of converged chains.
        deltas: dataset's title -> records of delta.
    """
    import pandas as pd

    settings, titles = report.settings, report.titles
    means = [row for title in deltas for row in _means(statistics, title, titles)]
    main = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in deltas.items()}
    ratios = [
        {"panel": "ratios", "dataset": title, "distance_ratio": quality, "delta_ratio": robustness}
        for title, quality, robustness in quality_pairs(found, main, settings.hmc_evaluations)
    ]
    by = titles.get(settings.hmc_trained_by[0], settings.hmc_trained_by[0])
    with report.figure("posterior_quality", columns=2, size=(11, 4.6)) as drawing:
        left, right = drawing.axes
        if means:
            _draw_means(left, pd.DataFrame(means), titles, list(deltas))
            marks = _printed(report.printed, titles, list(deltas))
            paper_marks(left, [(method, place, value) for method, _, place, value in marks])
            left.legend(title="mean, 95 % t interval")
            means += [
                {"panel": "distance", "dataset": dataset, "method": method, "printed": value}
                for method, dataset, _, value in marks
            ]
        studies = [STUDIES[name] for name in report.request.datasets]
        radii = {study.title: study.radii[0] for study in studies if study.title in deltas}
        _draw_ratios(right, ratios, radii)
        drawing.fig.suptitle(f"Hyperparameters of {by} after {settings.hmc_evaluations} evaluations")
        drawing.data = pd.DataFrame([*means, *ratios])


def _means(
    statistics: Sequence[Statistic], dataset: str, titles: Mapping[str, str]
) -> list[dict[str, object]]:
    known = {each.name: each for each in statistics}
    rows: list[dict[str, object]] = []
    for method in titles:
        mean = known.get(statistic_name("hmc_distance", dataset=dataset, method=method))
        if mean is not None:
            interval = {"low": mean.interval_low, "high": mean.interval_high}
            rows.append(
                {"panel": "distance", "dataset": dataset, "method": method, "mean": mean.value, **interval}
            )
    return rows


def _draw_means(ax: Axes, rows: pd.DataFrame, titles: Mapping[str, str], datasets: Sequence[str]) -> None:
    tidy = rows.rename(columns={"low": "interval_low", "high": "interval_high"})
    ticks = {dataset: dataset for dataset in datasets}
    panel(ax, tidy, "dataset", titles, kind="points", error="interval", ticks=ticks, apart=APART)
    ax.set_yscale("log")
    ax.set_ylabel(metric("hmc_distance").axis)


def _printed(
    printed: Mapping[str, float], titles: Mapping[str, str], datasets: Sequence[str]
) -> list[tuple[str, str, float, float]]:
    """Return method, dataset, place on the axis and value of the distances that the paper prints."""
    found = []
    for number, method in enumerate(titles):
        for place, dataset in enumerate(datasets):
            value = printed.get(statistic_name("hmc_distance", dataset=dataset, method=method))
            if value is not None:
                found.append((method, dataset, place + APART * (number - (len(titles) - 1) / 2), value))
    return found


def _draw_ratios(ax: Axes, rows: Sequence[Mapping[str, object]], radii: Mapping[str, float]) -> None:
    """Draw one mark per draw; delta is that in the ball of a dataset's main radius."""
    for dataset, radius in radii.items():
        own = [row for row in rows if row["dataset"] == dataset]
        style = dataset_style(dataset)
        ax.plot(
            [float(str(row["distance_ratio"])) for row in own],
            [float(str(row["delta_ratio"])) for row in own],
            linestyle="",
            marker=style["marker"],
            color=style["color"],
            label=f"{dataset}, γ = {radius:g}",
        )
    if rows:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.legend(title="one mark per draw")
    ax.axhline(1.0, color=LIMIT, linewidth=1)
    ax.axvline(1.0, color=LIMIT, linewidth=1)
    ax.set_xlabel("distance to HMC, Laplace / EP")
    ax.set_ylabel("median δ, Laplace / EP")
