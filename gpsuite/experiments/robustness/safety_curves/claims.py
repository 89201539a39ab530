"""The statistics of the safety experiments that are held against the paper's statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.classes import SYNTHETIC2D_SHIFT
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety_curves.display import DisplayedPoint, attacked
from gpsuite.methods.robustness.decision import HALF, binary_contest
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import OF_POINTS, corrected_mean, share
from gpsuite.statistics.paired import Paired

PRINTED = {"not spam": "benign"}  # label -> the paper's word


def of_points(name: str, hits: Iterable[object], note: str = "") -> Statistic:
    """Return the share of points, which share one classifier and one training draw; NaN without points."""
    return Statistic.of(name, share(hits, OF_POINTS), note=note)


def crosses(record: Record, name: str) -> bool:
    """Tell whether an attack, or the bounds (`cross`), reach the other class at any radius."""
    return record.metrics[f"{name}_gamma"] is not None


def point_statistics(shown: Sequence[DisplayedPoint], records: Sequence[Record]) -> list[Statistic]:
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
        Statistic.of("share_points_with_checked_witness", share(checked), note=rules),
        of_points("share_monotone_curves", [bool(record.metrics["monotone"]) for record in records]),
        of_points("share_attack_fails_although_adversarial", fails, "all test points of the panels"),
        of_points("share_adversarial", [crosses(record, "cross") for record in records], "largest radius"),
        *(
            of_points(f"share_attacked[attack={name}]", [crosses(record, name) for record in records])
            for name in ("gpfgs", "gpjm", "strong")
        ),
    ]


def gpfgs_statistics(shown: Sequence[DisplayedPoint], records: Sequence[Record] = ()) -> list[Statistic]:
    """Return how GPFGS fares at the displayed points.

    Args:
        shown: the displayed points.
        records: the run's, some of which follow GPFGS to larger radii.
    """
    if not shown:
        return []
    points = [each.record for each in shown]
    whole_curves = [attacked(record, records) for record in points]
    rising = any(_still_rising(record, curve) for record, curve in zip(points, whole_curves, strict=True))
    largest = max(float(curve.max()) for curve in whole_curves)
    undecided = f"{largest:.5f} where the radii end, still rising" if rising and largest <= HALF else ""
    failing = [
        crosses(record, "cross") and not binary_contest(int(record.number("sign"))).crossed(curve).any()
        for record, curve in zip(points, whole_curves, strict=True)
    ]
    with_bounds = [_with_the_bounds(record) for record in points]
    whole = [_fails_at_the_end(record) for record in points]
    linear = ", ".join(f"{record.number('linear_r2'):.3f}" for record in points)
    return [
        Statistic(
            "max_attack_probability", float("nan") if undecided else largest, n=len(points), note=undecided
        ),
        claim("attack_fails_although_adversarial", [] if undecided else failing, undecided),
        Statistic.of(
            "share_attack_crosses_with_bounds", share(with_bounds), note=f"R² of the linear fit: {linear}"
        ),
        Statistic("largest_gamma_attack_fails", min(map(_last_failure, points)), n=len(points)),
        Statistic.of("share_attack_fails_at_whole_range", share(whole)),
    ]


def never_attacked(points: Sequence[Record], records: Sequence[Record]) -> list[Statistic]:
    """Return the share of points at which GPFGS fails at every radius though an adversarial example exists.

    Args:
        points: the curves of one panel.
        records: the run's; nothing is returned unless some follow GPFGS to larger radii.
    """
    if not any(record.axes.get("part") == "attack" for record in records):
        return []
    never = [
        crosses(point, "cross")
        and not binary_contest(int(point.number("sign"))).crossed(attacked(point, records)).any()
        for point in points
    ]
    return [
        of_points(
            "share_attack_never_crosses", never, "all test points, up to the largest radius of the attack"
        )
    ]


def _still_rising(record: Record, curve: FloatArray) -> bool:
    """Tell whether the attack's curve moves towards the other class where the radii end."""
    towards = int(record.number("sign")) * curve
    return len(towards) > 1 and bool(towards[-1] > towards[-2])


def _with_the_bounds(record: Record) -> bool:
    """Tell whether the attack crosses at most one radius after the bounds."""
    if not (crosses(record, "cross") and crosses(record, "gpfgs")):
        return False
    gammas = record.arrays["gamma"].tolist()
    first, attack = (gammas.index(record.number(f"{name}_gamma")) for name in ("cross", "gpfgs"))
    return bool(attack <= first + 1)


def _attack_crosses(record: Record) -> Any:
    return binary_contest(int(record.number("sign"))).crossed(record.arrays["gpfgs"])


def _fails_at_the_end(record: Record) -> bool:
    both = binary_contest(int(record.number("sign"))).crossed(record.arrays["inner"])
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


def accuracy_gain(
    records: Sequence[Record], ours: str, other: str, test_over_training: float
) -> list[Statistic]:
    """Return the paired difference of test accuracy over splits, which share rows; nothing with fewer than two.

    Args:
        records: of the accuracy tasks.
        ours: the dataset with the chosen inputs.
        other: that with all.
        test_over_training: test rows over training rows of a split.
    """
    own = [record for record in records if record.axes.get("part") == "accuracy"]
    rows = {
        "features": [str(record.axes["features"]) for record in own],
        "split": [int(record.axes["point"]) for record in own],
        "accuracy": [record.number("test_accuracy") for record in own],
    }
    chosen, every = Paired(rows, ["split"], ["features"]).pair("accuracy", ours, other)
    if len(chosen) < 2:
        return []
    return [Statistic.of("accuracy_gain", corrected_mean(chosen - every, test_over_training))]
