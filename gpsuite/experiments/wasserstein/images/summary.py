"""Tables, figures and statistics of the image experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Report
from gpsuite.experiments.wasserstein.images import figures
from gpsuite.experiments.wasserstein.images.claims import claims
from gpsuite.experiments.wasserstein.images.settings import ImageSettings
from gpsuite.experiments.wasserstein.images.tables import (
    COMPARED,
    DETECTION,
    SCORES,
    UNCERTAINTY,
    detection_rows,
    differences,
    scored_frame,
    shift_rows,
    wide,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.statistics.estimates import Estimate, corrected_mean, mean

if TYPE_CHECKING:
    import pandas as pd

CHOICES = "learning rate, batch, epoch, temperature and precision chosen on validation rows alone"


def summarise(report: Report[ImageSettings]) -> list[Statistic]:
    """Write scores, detection, shifts and label noise by method; draw them; return statistics and claims."""
    clean = report.records(label_noise=0.0)
    if not clean:
        return []
    every, frame = scored_frame(report.records()), scored_frame(clean)
    name = report.request.prepared[0].shown_name
    bins, ratio = report.settings.bins, split_ratio(report)
    tidy = summarise_groups(frame, ["method"], [*SCORES, *UNCERTAINTY], _estimate(ratio))
    repeated = "random splits, corrected for shared rows" if ratio else "repetitions, given the test rows"
    caption = (
        f"{name}: mean ± standard error over {frame.groupby('method').size().min()} {repeated}; "
        f"ECE with {bins} equal-width bins; {CHOICES}"
    )
    report.table(wide(tidy, report.titles, [*SCORES, *UNCERTAINTY]), "scores", caption)
    report.table(tidy, "scores_tidy", caption)
    report.table(
        differences(frame, report.titles, ratio),
        "differences",
        f"{name}: GWI minus each method over the same {repeated}, 95 % t intervals",
    )
    detection = summarise_groups(detection_rows(frame), ["method", "outside"], DETECTION, _estimate(ratio))
    report.table(
        detection,
        "out_of_distribution",
        f"{name}: other images told from test images by entropy (AUROC, AUPR, FPR95) and by mutual information",
    )
    figures.draw_reliability(report, clean)
    figures.draw_entropies(report, clean)
    figures.draw_risk_coverage(report, clean)
    figures.draw_images(report, clean)
    if report.settings.shifts:
        _shifts(report, frame, name)
    if every["label_noise"].max() > 0.0:
        _label_noise(report, every, name)
    report.answer.extend(_named_labels(report.request.prepared[0]))
    return [
        *metric_statistics(tidy, ["method"]),
        *metric_statistics(detection, ["method", "outside"]),
        *claims(frame, every, ratio),
    ]


def split_ratio(report: Report[ImageSettings]) -> float:
    """Return test rows over training rows of a random split; 0 where the dataset has a split of its own."""
    data, settings = report.request.prepared[0], report.settings
    if data.spec.get("test_rows"):
        return 0.0
    test = round(settings.test_share * data.rows)
    train = data.rows - test
    return min(settings.test_rows, test) / min(settings.train_rows or train, train)


def _estimate(test_over_training: float) -> Callable[[Sequence[float]], Estimate]:
    return partial(corrected_mean, test_over_training=test_over_training) if test_over_training else mean


def _named_labels(data: PreparedDataset) -> list[str]:
    """Return a line on the numbers that stand for the labels of a file of the user's own."""
    if data.spec.get("n_classes") is not None:
        return []
    names = load(data).label_names or ()
    if names == tuple(map(str, range(len(names)))):
        return []
    return ["labels are numbered: " + ", ".join(f"{number} = {name}" for number, name in enumerate(names))]


def _shifts(report: Report[ImageSettings], frame: pd.DataFrame, name: str) -> None:
    """Write and draw accuracy, NLL and ECE against the noise added to the test images."""
    shifts = summarise_groups(
        shift_rows(frame), ["method", "shift"], COMPARED, _estimate(split_ratio(report))
    )
    report.table(shifts, "shifts", f"{name}: test images with normal noise added")
    noise_label = "deviation of the added noise, largest grey level 1"
    figures.draw_curves(report, shifts, "shift", noise_label, "shifts")


def _label_noise(report: Report[ImageSettings], every: pd.DataFrame, name: str) -> None:
    """Write and draw accuracy, NLL and ECE against the share of wrong training labels."""
    chosen = every[every["method"].isin(report.settings.noise_methods)]
    noisy = summarise_groups(chosen, ["method", "label_noise"], COMPARED, _estimate(split_ratio(report)))
    report.table(noisy, "label_noise", f"{name}: training labels replaced by another class")
    figures.draw_curves(report, noisy, "label_noise", "share of wrong training labels", "label_noise")
