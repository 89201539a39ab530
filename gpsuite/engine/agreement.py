"""How far two records of the same task agree: bitwise, up to rounding, up to a stated tolerance, or not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.experiments.base import ROUNDING, Record

NEGLIGIBLE = 1e-12  # absolute: what is left of numbers that are zero but for rounding
# in the name of a metric or array: what the work took, so never compared
EFFORT = ("seconds", "evaluations")
# Where searches end along flat directions: hyperparameters, by a word of their names, may differ by this much.
FLAT, FLAT_TOLERANCE = ("lengthscale", "variance"), 0.1
# What else such a search gives is compared relative to no less than this: a probability of 2e-4 is no measure of
# itself, but a variance of 1e-6 is.
LEAST = 0.01
# Shares of test rows, and a bound on such a share from those rows, are whole rows apart: 3 of 4000 with the kernels of
# another processor.
SHARES, LEAST_SHARE = ("risk_test", "test_bound_bayes"), 0.1
LEVELS = ("bitwise", "rounding", "tolerance", "not")


@dataclass(frozen=True)
class Agreement:
    """How a record computed here agrees with the published one.

    Attributes:
        counts: level of `LEVELS` -> how many numbers (metrics and array entries) agree at it and at no stricter one.
        worst: the name that differs most, with both values where it is a single number; empty if all are equal.
        difference: its relative difference.
    """

    counts: Mapping[str, int]
    worst: str
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether every number agrees at some level."""
        return self.counts["not"] == 0


def compare_records(published: Record, ours: Record, tolerance: float) -> Agreement:
    """Hold a record computed here against the published one; `EFFORT` is left out.

    Args:
        published: with the arrays that were published.
        ours: computed here.
        tolerance: largest relative difference that counts as agreement; above `ROUNDING` it is that of searches along
            flat directions, and `FLAT_TOLERANCE`, `LEAST` and `LEAST_SHARE` hold too.
    """
    counts = dict.fromkeys(LEVELS, 0)
    worst, largest = "", 0.0
    searched = tolerance > ROUNDING
    for name, size, difference, shown in _differences(published, ours, LEAST if searched else 0.0):
        flat = searched and _is_flat(name)
        counts[level(difference, max(tolerance, FLAT_TOLERANCE) if flat else tolerance)] += size
        if difference > largest:
            worst, largest = f"{name}{shown}", difference
    return Agreement(counts, worst, largest)


def _is_flat(name: str) -> bool:
    return any(word in name for word in FLAT)


def _least_of(name: str, least: float) -> float:
    """Return the size that a metric's difference is measured by at least, `least` being that of a search's numbers."""
    if _is_flat(name):
        return 0.0
    return LEAST_SHARE if least and any(word in name for word in SHARES) else least


def level(difference: float, tolerance: float) -> str:
    """Return the strictest of `LEVELS` at which a relative difference is agreement."""
    if difference == 0.0:
        return "bitwise"
    if difference <= ROUNDING:
        return "rounding"
    return "tolerance" if difference <= tolerance else "not"


def _differences(published: Record, ours: Record, least: float) -> Iterator[tuple[str, int, float, str]]:
    """Yield name, how many numbers, their largest relative difference, and both values of a single one."""
    yield (
        "status",
        1,
        0.0 if published.status == ours.status else math.inf,
        f" {published.status} / {ours.status}",
    )
    for name in {**published.metrics, **ours.metrics}:
        if not any(word in name for word in EFFORT):
            value, other = published.metrics.get(name), ours.metrics.get(name)
            yield name, 1, _of_values(value, other, _least_of(name, least)), f" {value} / {other}"
    for name, array in published.arrays.items():
        if not any(word in name for word in EFFORT):
            mine = ours.arrays.get(name)
            yield (
                name,
                max(array.size, 1),
                math.inf if mine is None else _of_arrays(array, np.asarray(mine), least),
                "",
            )


def _of_values(first: Any, second: Any, least: float) -> float:
    """Return the relative difference of two metrics; infinite for different words, or where one is missing."""
    # JSON has no NaN: what was not finite is stored as None
    second = None if isinstance(second, float) and not math.isfinite(second) else second
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in (first, second)]
    if first == second:
        return 0.0
    return _of_arrays(np.array(float(first)), np.array(float(second)), least) if all(numbers) else math.inf


def _of_arrays(first: NDArray[Any], second: NDArray[Any], least: float) -> float:
    """Return the largest difference relative to the larger of both arrays' largest finite entries, `least` or more."""
    if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
        return math.inf
    if first.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(first, second) else math.inf
    a, b = first.astype(np.float64), second.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not (np.isfinite(a[~same]).all() and np.isfinite(b[~same]).all()):
        return math.inf
    largest = float(np.max(np.abs(a[~same] - b[~same])))
    finite = np.concatenate([np.abs(a[np.isfinite(a)]), np.abs(b[np.isfinite(b)])])
    relative = largest / max(float(finite.max()), least)
    return min(relative, ROUNDING) if largest <= NEGLIGIBLE else relative
