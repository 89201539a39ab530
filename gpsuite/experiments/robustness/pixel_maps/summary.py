"""Table, maps and statistics of robustness/explain_mnist358."""

from __future__ import annotations

from collections import Counter
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
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd

CREDIT = "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)"
TOWARDS = {"3": "8", "5": "8", "8": "3"}  # what the paper's digits become
IMAGES = (
    "of each digit's correctly classified images: for how many the statements on the shown one hold, which class gains "
    "most when the patch is white, and median and middle 95 % of drop and patch size"
)
COLUMNS = ("row", "probability", "whitened_probability", "drop", "p_value", "gains_most", "patch_size", "patch_row",
           "patch_column", "top_left_size", "boxes")  # fmt: skip


def summarise(report: Report[PixelMapSettings]) -> list[Statistic]:
    """Write what whitening does, draw image and maps; return the paper's statements on the three digits."""
    dataset, settings = report.request.require_dataset(), report.settings
    maps = [record for record in report.records() if "part" not in record.axes]
    integrals = report.records(part="integrals")
    statistics = dataset_statistics(dataset) + integral_statistics(integrals)
    records = [record for record in maps if record.axes["image"] == 0]
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
    several = [each for each in by_digit(maps) if len(each) > 1]
    if several:
        report.table(pd.DataFrame([images_row(each) for each in several]), "explain_mnist358_images", IMAGES)
    seconds = [
        {
            "digit": record.axes["digit"],
            "image": record.axes["image"],
            "CPU seconds of the map": record.metrics["map_cpu_seconds"],
        }
        for record in maps
    ]
    report.table(pd.DataFrame(seconds), "explain_mnist358_timing", "one pixel map, both directions")
    draw(report, records, load(dataset), "" if dataset.stand_in else CREDIT)
    statistics += [each for record in records for each in image_statistics(record)]
    return statistics + [each for own in several for each in images_statistics(own)]


def by_digit(maps: Sequence[Record]) -> list[list[Record]]:
    """Return the maps of the images that are classified correctly, digit by digit."""
    digits = dict.fromkeys(record.axes["digit"] for record in maps)
    correct = [record for record in maps if record.metrics["correct"]]
    return [[record for record in correct if record.axes["digit"] == digit] for digit in digits]


def images_row(records: Sequence[Record]) -> dict[str, float | int | str]:
    """Return how far the statements on one image hold for all images of its digit."""
    drops = np.quantile([record.number("drop") for record in records], (0.5, 0.025, 0.975))
    sizes = np.quantile([record.number("top_left_size") for record in records], (0.5, 0.025, 0.975))
    gains = Counter(str(record.metrics["gains_most"]) for record in records)
    return {
        "digit": str(records[0].axes["digit"]),
        "images": len(records),
        "patch left of the centre": sum(_left(record) for record in records),
        "in the top left quadrant": sum(_top_left(record) for record in records),
        "p value at most .05": sum(record.number("p_value") <= 0.05 for record in records),
        "gains most": ", ".join(f"{name}: {count}" for name, count in gains.most_common()),
        "drop, median": drops[0],
        "drop, from": drops[1],
        "drop, to": drops[2],
        "top left pixels, median": sizes[0],
        "top left pixels, from": sizes[1],
        "top left pixels, to": sizes[2],
    }


def images_statistics(records: Sequence[Record]) -> list[Statistic]:
    """Return in what share of a digit's images each statement on one image holds."""
    digit = str(records[0].axes["digit"])
    holds = {
        "share_patch_left_of_centre": [_left(record) for record in records],
        "share_patch_in_top_left": [_top_left(record) for record in records],
        "share_lowers_more_than_random": [record.number("p_value") <= 0.05 for record in records],
        "share_class_probability_falls": [record.number("drop") > 0.0 for record in records],
    }
    if towards := TOWARDS.get(digit):
        holds[f"share_gains_most_is_{towards}"] = [r.metrics["gains_most"] == towards for r in records]
    return [
        Statistic.of(
            statistic_name(name, digit=digit), share(found), note=f"{sum(found)} of {len(found)} images"
        )
        for name, found in holds.items()
    ]


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

    drop = record.number("drop")
    found = [
        Statistic(named("patch_pixels"), record.number("top_left_size"), note="in the top left quadrant"),
    ]
    if towards := TOWARDS.get(digit):
        found.append(
            Statistic(named(f"gains_most_is_{towards}"), float(record.metrics["gains_most"] == towards))
        )
    if digit == "3":
        found.append(Statistic("class3_probability_before", record.number("probability")))
        found.append(Statistic("class3_probability_drop", drop))
    return found


def _left(record: Record) -> bool:
    return record.metrics["patch_column"] is not None and record.number("patch_column") < 0.5


def _top_left(record: Record) -> bool:
    return _left(record) and record.number("patch_row") < 0.5


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
        names = ("image", f"effect Δ, γ = {report.settings.gamma:g}", "LIME slope a unit")
        for ax, name in zip(drawing.grid[:, 0], names, strict=True):
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
