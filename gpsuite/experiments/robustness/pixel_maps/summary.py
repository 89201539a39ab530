"""Table, maps and statistics of robustness/explain_mnist358."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.explain.figures import heat_map
from gpsuite.experiments.robustness.pixel_maps.settings import PixelMapSettings
from gpsuite.experiments.robustness.shared.free_inputs import image_order
from gpsuite.experiments.robustness.shared.records import dataset_statistics
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLACK

if TYPE_CHECKING:
    import pandas as pd

CREDIT = "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)"
TOWARDS = "8"  # what the paper's 5 becomes
COLUMNS = ("row", "probability", "whitened_probability", "drop", "p_value", "gains_most", "patch_size", "patch_row",
           "patch_column", "top_left_size", "boxes")  # fmt: skip


def summarise(report: Report[PixelMapSettings]) -> list[Statistic]:
    """Write what whitening does, draw image and maps; return the paper's statements on the three digits."""
    dataset, settings = report.request.require_dataset(), report.settings
    records = [record for record in report.records() if "part" not in record.axes]
    integrals = report.records(part="integrals")
    statistics = dataset_statistics(dataset) + integral_statistics(integrals)
    if not records:
        return statistics
    import pandas as pd

    rows = [
        {"digit": record.axes["digit"], **{name: record.metrics[name] for name in COLUMNS}}
        for record in records
    ]
    caption = (
        f"{dataset.name}: largest connected patch of pixels whose effect at γ = {settings.gamma:g} is below "
        f"−{settings.negative:g} of the largest, and the class probability with the patch white; p value against "
        f"{settings.random_patches} random connected patches of its size"
    )
    report.table(pd.DataFrame(rows), "explain_mnist358", caption)
    seconds = [
        {"digit": record.axes["digit"], "CPU seconds of the map": record.metrics["map_cpu_seconds"]}
        for record in records
    ]
    report.table(pd.DataFrame(seconds), "explain_mnist358_timing", "one pixel map, both directions")
    draw(report, records, load(dataset), "" if dataset.stand_in else CREDIT)
    return statistics + [each for record in records for each in image_statistics(record)]


def integral_statistics(records: Sequence[Record]) -> list[Statistic]:
    """Return how many masses of rectangles lie outside Prop. 4, corrected, and whether any does as printed."""
    if not records:
        return []
    n = int(sum(record.number("rectangles") for record in records))
    outside, printed = (
        float(sum(record.number(name) for record in records)) for name in ("violations", "printed_violations")
    )
    width = np.median([record.number("median_relative_width") for record in records])
    correlation = max(record.number("largest_correlation") for record in records)
    note = f"latent correlations up to {correlation:.2g}; bounds {width:.2g} times as wide as the mass in the median"
    return [
        Statistic("violations_corrected_formula", outside, n=n, note=note),
        Statistic("printed_formula_fails", float(printed > 0.0), n=n, note=f"{printed:.0f} masses outside"),
    ]


def image_statistics(record: Record) -> list[Statistic]:
    """Return the statements of conf/paper/blaas2020.yaml on one image."""
    digit = str(record.axes["digit"])

    def named(name: str) -> str:
        return statistic_name(name, digit=digit)

    row, column = (
        float("nan") if record.metrics[name] is None else record.number(name)
        for name in ("patch_row", "patch_column")
    )
    drop = record.number("drop")
    found = [
        Statistic(named("patch_left_of_centre"), float(column < 0.5)),
        Statistic(named("patch_in_top_left"), float(row < 0.5 and column < 0.5)),
        Statistic(named("patch_pixels"), record.number("top_left_size"), note="in the top left quadrant"),
        Statistic(named("patch_permutation_p_value"), record.number("p_value")),
        Statistic(named("class_probability_drop"), drop),
        Statistic(named("gains_most_is_8"), float(record.metrics["gains_most"] == TOWARDS)),
    ]
    if digit == "3":
        found.append(Statistic("class3_probability_before", record.number("probability")))
        found.append(Statistic("class3_probability_drop", drop))
    return found


def draw(report: Report[PixelMapSettings], records: Sequence[Record], data: Dataset, credit: str) -> None:
    """Draw the images, the effects of their pixels with the negative patch framed, and LIME's slopes."""
    order = image_order(data.input_names)
    size = (0.8 + 2.4 * len(records), 7.4)
    with report.figure("explain_mnist358", remark=credit, rows=3, columns=len(records), size=size) as drawing:
        for column, record in enumerate(records):
            image, effect, lime = drawing.grid[:, column]
            pixels = data.X[int(record.number("row"))][order]
            image.imshow(pixels, cmap="gray", vmin=float(data.X.min()), vmax=float(data.X.max()))
            image.set_xticks([])
            image.set_yticks([])
            p, white = record.number("probability"), record.number("whitened_probability")
            image.set_title(f"digit {record.axes['digit']}\np {p:.2f}, patch white {white:.2f}", fontsize=9)
            heat_map(effect, record.arrays["delta"][order])
            patch = record.arrays["patch"]
            if patch.any() and not patch.all():
                effect.contour(np.asarray(patch, dtype=float), levels=[0.5], colors=BLACK, linewidths=1.2)
            heat_map(lime, record.arrays["lime"][order])
        for ax, name in zip(drawing.grid[:, 0], ("image", "effect", "LIME"), strict=True):
            ax.set_ylabel(name)
        drawing.data = _numbers(records, data.input_names)


def _numbers(records: Sequence[Record], input_names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    parts = [
        pd.DataFrame(
            {
                "digit": record.axes["digit"],
                "input": list(input_names),
                "effect": record.arrays["delta"],
                "proved_low": record.arrays["delta_low"],
                "proved_high": record.arrays["delta_high"],
                "LIME slope": record.arrays["lime"],
            }
        )
        for record in records
    ]
    return pd.concat(parts)
