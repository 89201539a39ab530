"""The statistics of the safety experiments that are held against the paper's statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.classes import SYNTHETIC2D_SHIFT
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety_choice import Shown
from gpsuite.methods.robustness.verdict import HALF, crossed
from gpsuite.reporting.comparison import Statistic

PRINTED = {"not spam": "benign"}  # label -> the paper's word
WILSON = "95 % Wilson interval"


def share(name: str, hits: Sequence[bool], note: str = "") -> Statistic:
    """Return a share of points with its Wilson interval; NaN without points."""
    n = len(hits)
    if not n:
        return Statistic(name, float("nan"), n=0, note=note)
    low, high = wilson(sum(hits), n)
    return Statistic(
        name, sum(hits) / n, n=n, interval_low=low, interval_high=high, interval=WILSON, note=note
    )


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share (Wilson 1927)."""
    z = 1.959963984540054
    middle, weight = (hits + z * z / 2) / (n + z * z), 1 / (n + z * z)
    reach = z * weight * (hits * (n - hits) / n + z * z / 4) ** 0.5
    low = 0.0 if hits == 0 else middle - reach
    return low, 1.0 if hits == n else middle + reach


def crosses(record: Record, name: str) -> bool:
    """Tell whether an attack, or the bounds (`cross`), reach the other class at any radius."""
    return record.metrics[f"{name}_gamma"] is not None


def point_statistics(shown: Sequence[Shown], records: Sequence[Record]) -> list[Statistic]:
    """Return what all three experiments say about their displayed points and about all points.

    Args:
        shown: the displayed points.
        records: all curves of the displayed points' panels.
    """
    points = [each.record for each in shown]
    rules = "; ".join(
        f"features {each.record.axes['features']}: point {each.record.axes['point']} ({each.rule})"
        for each in shown
    )
    both = [crosses(record, "cross") for record in points]
    attacked = [crosses(record, "gpfgs") for record in points]
    checked = [bool(record.metrics["witness_checked"]) for record in points]
    fails = [crosses(record, "cross") and not crosses(record, "gpfgs") for record in records]
    return [
        Statistic("decision_threshold", HALF),
        Statistic("points_both_bounds_cross", float(sum(both)), n=len(both), note=rules),
        Statistic("points_attack_crosses", float(sum(attacked)), n=len(attacked), note=rules),
        share("share_points_with_checked_witness", checked, rules),
        share("share_monotone_curves", [bool(record.metrics["monotone"]) for record in records]),
        share("share_attack_fails_although_adversarial", fails, "all test points of the panels"),
        share("share_adversarial", [crosses(record, "cross") for record in records], "largest radius"),
        *(
            share(f"share_attacked[attack={name}]", [crosses(record, name) for record in records])
            for name in ("gpfgs", "gpjm", "strong")
        ),
    ]


def gpfgs_statistics(shown: Sequence[Shown]) -> list[Statistic]:
    """Return how GPFGS fares at the displayed points."""
    if not shown:
        return []
    points = [each.record for each in shown]
    largest = max(record.number("largest_gpfgs") for record in points)
    failing = [crosses(record, "cross") and not crosses(record, "gpfgs") for record in points]
    with_bounds = [_with_the_bounds(record) for record in points]
    whole = [_fails_at_the_end(record) for record in points]
    linear = ", ".join(f"{record.number('linear_r2'):.3f}" for record in points)
    return [
        Statistic("max_attack_probability", largest, n=len(points)),
        share("attack_fails_although_adversarial", failing),
        share("share_attack_crosses_with_bounds", with_bounds, f"R² of the linear fit: {linear}"),
        Statistic("largest_gamma_attack_fails", min(map(_last_failure, points)), n=len(points)),
        share("share_attack_fails_at_whole_range", whole),
    ]


def _with_the_bounds(record: Record) -> bool:
    """Tell whether the attack crosses at most one radius after the bounds."""
    if not (crosses(record, "cross") and crosses(record, "gpfgs")):
        return False
    gammas = record.arrays["gamma"].tolist()
    first, attack = (gammas.index(record.number(f"{name}_gamma")) for name in ("cross", "gpfgs"))
    return bool(attack <= first + 1)


def _attack_crosses(record: Record) -> Any:
    return crossed(int(record.number("sign")), record.arrays["gpfgs"])


def _fails_at_the_end(record: Record) -> bool:
    both = crossed(int(record.number("sign")), record.arrays["inner"])
    return bool(both[-1] and not _attack_crosses(record)[-1])


def _last_failure(record: Record) -> float:
    """Return the largest radius at which the attack stays in the original class; NaN if there is none."""
    failing = record.arrays["gamma"][~_attack_crosses(record)]
    return float(failing.max()) if len(failing) else float("nan")


def dataset_statistics(data: Dataset) -> list[Statistic]:
    """Return the dataset's size and the share of every class, under the names the paper's rows use."""
    labels = data.y[:, 0].astype(np.int64)
    names = data.label_names or tuple(str(number) for number in range(data.n_classes))
    found = [
        Statistic("dataset_rows", float(len(data.X))),
        Statistic("dataset_inputs", float(data.X.shape[1])),
    ]
    for number, name in enumerate(names):
        if np.any(labels == number):
            percent = 100 * float(np.mean(labels == number))
            found.append(Statistic(f"class_percent[label={PRINTED.get(name, name)}]", percent))
    if data.name == "synthetic2d":
        found.append(Statistic("class_shift", SYNTHETIC2D_SHIFT))
    return found


def accuracy_gain(records: Sequence[Record], ours: str, other: str) -> list[Statistic]:
    """Return the paired difference of test accuracy over splits, with its interval's upper end.

    Args:
        records: of the accuracy tasks.
        ours: the dataset with the chosen inputs.
        other: that with all.
    """
    found: dict[str, dict[int, float]] = {ours: {}, other: {}}
    for record in records:
        if record.axes.get("part") == "accuracy":
            inputs = str(record.axes["features"])
            found[inputs][int(record.axes["point"])] = record.number("test_accuracy")
    splits = sorted(set(found[ours]) & set(found[other]))
    gains = np.array([found[ours][split] - found[other][split] for split in splits])
    if len(gains) < 2:
        return []
    from scipy.special import stdtrit

    error = float(gains.std(ddof=1)) / len(gains) ** 0.5
    mean, reach = float(gains.mean()), float(stdtrit(len(gains) - 1, 0.975)) * error
    interval = (mean - reach, mean + reach, "95 % t interval over splits")
    return [
        Statistic("accuracy_gain", mean, error, len(gains), *interval),
        Statistic("accuracy_gain_upper_limit", mean + reach, n=len(gains), note=f"mean gain {mean:.4f}"),
    ]
