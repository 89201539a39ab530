"""Figures of the image experiments: calibration, detection, selective prediction, shifts, noise, images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.wasserstein.images.run import COVERAGES, ENTROPY_BINS, SHOWN
from gpsuite.experiments.wasserstein.images.settings import ImageSettings
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd

FAMILY = "wasserstein"
LINES = ("-", "--", ":", "-.")
RARE = 1e-3  # error rates below are drawn on a linear axis
FEW = 20  # images of a bin, whose accuracy says little


def line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return each method's style, with a line of its own among the methods of one colour."""
    drawn: Counter[str] = Counter()
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        style = method_style(name)
        styles[name] = {**style, "linestyle": LINES[drawn[style["color"]] % len(LINES)]}
        drawn[style["color"]] += 1
    return styles


def draw_reliability(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw accuracy against confidence, and how many images that rests on, all repetitions of a method together."""
    import pandas as pd

    lines = []
    for name, title in report.titles.items():
        own = [record for record in records if record.axes["method"] == name]
        if not own:
            continue
        counts = np.array([record.arrays["bin counts"] for record in own])
        for b, count in enumerate(counts.sum(axis=0)):
            if count > 0:
                means = {
                    part: sum(
                        c * record.arrays[f"bin {part}"][b]
                        for c, record in zip(counts[:, b], own, strict=True)
                    )
                    / count
                    for part in ("confidence", "accuracy")
                }
                lines.append({"method": name, "title": title, "count": int(count), **means})
    frame, styles = pd.DataFrame(lines), line_styles(report.titles)
    with report.figure("reliability", rows=2, size=(6.0, 7.6), sharex=True, height_ratios=[3, 1]) as drawing:
        for name, title in report.titles.items():
            own_rows = frame[frame["method"] == name]
            enough = own_rows[own_rows["count"] >= FEW]
            for ax, shown, rows in zip(drawing.axes, ("accuracy", "count"), (enough, own_rows), strict=True):
                if len(rows):
                    ax.plot(rows["confidence"], rows[shown], label=title, **styles[name])
        drawing.ax.plot([0, 1], [0, 1], color=LIMIT, linestyle="--", label="calibrated")
        drawing.name_axes("confidence: mean largest probability in a bin", "images in the bin")
        drawing.ax.set_ylabel("accuracy in the bin")
        drawing.axes[1].set_yscale("log")
        drawing.legend("below", title=f"accuracy of bins of {FEW} images or more")
        drawing.data = frame


def draw_entropies(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the histograms of the entropy of test and outside images, one panel per method."""
    import pandas as pd

    names = [name for name in report.titles if any(r.axes["method"] == name for r in records)]
    columns = 4
    rows = -(-len(names) // columns)
    lines = []
    with report.figure(
        "entropies", rows=rows, columns=columns, size=(12.0, 2.4 * rows + 0.8), sharex=True
    ) as drawing:
        for ax, name in zip(drawing.axes, names, strict=False):
            own = [record for record in records if record.axes["method"] == name]
            for part in [key for key in own[0].arrays if key.startswith("entropy ")]:
                counts = np.sum([record.arrays[part] for record in own], axis=0)
                shares = counts / counts.sum()
                edges = np.linspace(0.0, 1.0, ENTROPY_BINS + 1)
                ax.stairs(shares, edges, label=part.removeprefix("entropy "))
                lines += [
                    {"method": name, "images": part, "left": left, "share": share}
                    for left, share in zip(edges[:-1], shares, strict=True)
                ]
            ax.set_title(report.titles[name])
        drawing.name_axes("entropy / ln C", "share of images")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)


def draw_risk_coverage(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the error rate among the most certain images against their share."""
    import pandas as pd

    lines, styles = [], line_styles(report.titles)
    with report.figure("risk_coverage", size=(6.4, 5.0)) as drawing:
        for name, title in report.titles.items():
            own = [record.arrays["risk"] for record in records if record.axes["method"] == name]
            if own:
                risk = np.mean(own, axis=0)
                drawing.ax.plot(COVERAGES, risk, label=title, markevery=10, **styles[name])
                lines += [
                    {"method": name, "coverage": c, "risk": r} for c, r in zip(COVERAGES, risk, strict=True)
                ]
        # rates of a thousandth are told apart; a method without an error has none to take the logarithm of
        drawing.ax.set_yscale("symlog", linthresh=RARE)
        drawing.ax.set_ylim(bottom=0.0)
        drawing.name_axes("share of images predicted, most certain first", "error rate among them")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)


def draw_curves(report: Report[ImageSettings], tidy: pd.DataFrame, x: str, label: str, name: str) -> None:
    """Draw accuracy, NLL and ECE against a shift or a share of noisy labels."""
    names, styles = list(dict.fromkeys(tidy["metric"])), line_styles(report.titles)
    levels = {level: f"{level:g}" for level in sorted(set(tidy[x]))}
    with report.figure(name, columns=len(names), size=(4.4 * len(names), 4.6)) as drawing:
        for ax, one in zip(drawing.axes, names, strict=True):
            panel(ax, tidy[tidy["metric"] == one], x, report.titles, styles=styles)
            ax.set_xticks(list(levels), list(levels.values()))
            ax.set_ylabel(metric(one, FAMILY).axis)
            ax.set_xlabel(label)
        drawing.legend(
            "below", columns=4, title="mean ± standard error; no mean where a repetition's is infinite"
        )
        drawing.data = tidy


def draw_images(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the images of which the first method is most and least certain; only where the data are embedded."""
    import pandas as pd

    shown = [record for record in records if "certain images" in record.arrays]
    if not shown:
        return
    images, entropies = shown[0].arrays["certain images"], shown[0].arrays["certain entropies"]
    side = int(np.sqrt(images.shape[1]))
    with report.figure("certain_images", rows=2, columns=SHOWN, size=(1.5 * SHOWN, 3.8)) as drawing:
        for ax, image, value in zip(drawing.axes, images, entropies, strict=True):
            ax.imshow(image.reshape(side, side), cmap="gray_r", vmin=0.0, vmax=1.0)
            ax.set_title(f"{value:.2f} nats", fontsize=9)
            ax.set_xticks([])
            ax.set_yticks([])
        title = report.titles[str(shown[0].axes["method"])]
        drawing.fig.suptitle(f"{title}: most certain (above) and least certain test images, entropy")
        drawing.data = pd.DataFrame({"image": range(len(entropies)), "entropy": entropies})
