"""The bootstrap over repetitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray

BOOTSTRAP_INTERVAL = "95 % bootstrap interval over the runs"
FEWEST_RUNS = 20  # that have one; below, it is too narrow


def resampled_means(lines: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    """Return means over repetitions drawn with replacement.

    Args:
        lines: one row per repetition, [R, T]. NaN if a repetition ended before.
        rng: of equal state for equal R, paired lines stay paired.

    Returns:
        [samples, T]. Each mean is over the drawn repetitions that have a value, NaN if none has.
    """
    runs = len(lines)
    drawn = rng.integers(runs, size=(samples, runs))
    counts = np.stack([(drawn == run).sum(axis=1) for run in range(runs)], axis=1)
    known = np.isfinite(lines)
    weights = counts @ known.astype(np.float64)
    sums = counts @ np.where(known, lines, 0.0)
    return np.asarray(np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0.0))


def percentile_interval(values: npt.ArrayLike) -> tuple[float, float]:
    """Return the ends that leave 2.5 % of the bootstrap's values outside on each side. They may be infinite."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    tail = int(np.floor(0.025 * len(ordered)))
    return float(ordered[tail]), float(ordered[-1 - tail])
