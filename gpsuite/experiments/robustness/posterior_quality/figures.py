"""Distances to HMC beside the ratios of robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpsuite.experiments.robustness.posterior_quality.claims import Quality, quality_pairs
from gpsuite.experiments.robustness.shared.probability_change_claims import by_classifier
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.figures import figure_style, method_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Sampled(Protocol):
    """The settings a heading needs."""

    hmc_evaluations: int
    hmc_trained_by: list[str]


def draw(
    statistics: Sequence[Statistic],
    found: Sequence[Quality],
    deltas: Mapping[str, pd.DataFrame],
    titles: Mapping[str, str],
    settings: Sampled,
    folder: Path,
    note: str | None,
) -> None:
    """Draw the mean distance per dataset and method, and per draw the ratio of distances against that of delta.

    Args:
        statistics: holding the mean distances.
        found: distances of converged chains.
        deltas: dataset's title -> records of delta.
        titles: method -> title.
        settings: of the experiment.
        folder: the run's figures folder.
        note: drawn small at the bottom.
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    means = [row for title in deltas for row in _means(statistics, title, titles)]
    main = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in deltas.items()}
    ratios = [
        {"panel": "ratios", "dataset": title, "distance_ratio": quality, "delta_ratio": robustness}
        for title, quality, robustness in quality_pairs(found, main, settings.hmc_evaluations)
    ]
    by = titles.get(settings.hmc_trained_by[0], settings.hmc_trained_by[0])
    with figure_style():
        fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
        _draw_means(left, means, titles, list(deltas))
        _draw_ratios(right, ratios, list(deltas))
        fig.suptitle(f"Hyperparameters of {by} after {settings.hmc_evaluations} evaluations")
        save_figure(fig, pd.DataFrame([*means, *ratios]), folder, "posterior_quality", note)


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


def _draw_means(
    ax: Axes, rows: Sequence[Mapping[str, object]], titles: Mapping[str, str], datasets: Sequence[str]
) -> None:
    for place, (method, title) in enumerate(titles.items()):
        own = [row for row in rows if row["method"] == method]
        style, offset = method_style(method), 0.16 * (place - (len(titles) - 1) / 2)
        mean = [float(str(row["mean"])) for row in own]
        ends = [[_end(row[end], at) for row, at in zip(own, mean, strict=True)] for end in ("low", "high")]
        ax.errorbar(
            [datasets.index(str(row["dataset"])) + offset for row in own],
            mean,
            yerr=[
                [at - low for at, low in zip(mean, ends[0], strict=True)],
                [high - at for at, high in zip(mean, ends[1], strict=True)],
            ],
            fmt=style["marker"],
            color=style["color"],
            capsize=4,
            label=title,
        )
    if rows:
        ax.set_yscale("log")
        ax.legend(title="mean, 95 % t interval")
    ax.set_xticks(range(len(datasets)), list(datasets))
    ax.set_xlim(-0.5, len(datasets) - 0.5)
    ax.set_ylabel("2-Wasserstein distance to HMC (latent units)")


def _end(value: object, mean: float) -> float:
    return mean if value is None else float(str(value))


def _draw_ratios(ax: Axes, rows: Sequence[Mapping[str, object]], datasets: Sequence[str]) -> None:
    for dataset in datasets:
        own = [row for row in rows if row["dataset"] == dataset]
        style = method_style(f"dataset {dataset}")
        ax.plot(
            [float(str(row["distance_ratio"])) for row in own],
            [float(str(row["delta_ratio"])) for row in own],
            linestyle="",
            marker=style["marker"],
            color=style["color"],
            label=dataset,
        )
    if rows:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.legend(title="one mark per draw")
    ax.axhline(1.0, color="0.5", linewidth=1)
    ax.axvline(1.0, color="0.5", linewidth=1)
    ax.set_xlabel("distance to HMC, Laplace / EP")
    ax.set_ylabel("median δ, Laplace / EP")
