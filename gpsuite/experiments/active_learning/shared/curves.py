"""Records of repetitions as learning curves: a metric over the number of measured values, one line per repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.experiments.base import Record
from gpsuite.statistics.estimates import finite, mean
from gpsuite.statistics.paired import Paired

VALUE = "value"  # the metric of `Curves.paired`


DIAGNOSTICS = ("outputs_", "safety_")  # prefixes of what the samplers report


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one method.

    Attributes:
        n_sum: number N_sum of measured output values at each model [T].
        lines: [R, T], one row per repetition; NaN where a repetition has no value.
        repetitions: their numbers [R].
    """

    n_sum: IntArray
    lines: FloatArray
    repetitions: tuple[int, ...]

    def at(self, n_sum: int) -> FloatArray:
        """Return the values of every repetition at one N_sum [R].

        Raises:
            KeyError: if there is no model with so many values.
        """
        found = np.flatnonzero(self.n_sum == n_sum)
        if not len(found):
            raise KeyError(n_sum)
        column: FloatArray = self.lines[:, found[0]]
        return column

    @property
    def mean(self) -> FloatArray:
        """Mean over the repetitions [T]; NaN where none has a value."""
        counts = np.isfinite(self.lines).sum(axis=0)
        total = np.where(np.isfinite(self.lines), self.lines, 0.0).sum(axis=0)
        return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the mean [T]; NaN where fewer than two repetitions have a value."""
        return np.array([mean(finite(column)).error for column in self.lines.T])

    @property
    def heights(self) -> FloatArray:
        """Mean of each repetition over its finite values [R]."""
        found: FloatArray = np.nanmean(self.lines, axis=1)
        return found

    def area(self, first: int, last: int) -> FloatArray:
        """Return each repetition's mean height between two N_sum, by the trapezoidal rule [R]."""
        inside = (self.n_sum >= first) & (self.n_sum <= last)
        x, y = self.n_sum[inside].astype(np.float64), self.lines[:, inside]
        if len(x) < 2:
            return np.asarray(y.mean(axis=1))
        return np.asarray(((y[:, 1:] + y[:, :-1]) / 2.0) @ np.diff(x) / (x[-1] - x[0]))


def paired_curves(first: Curve, second: Curve) -> tuple[Curve, Curve]:
    """Return both curves at the N_sum and in the repetitions that they share, NaN where either has no value."""
    n_sum, left, right = np.intersect1d(first.n_sum, second.n_sum, return_indices=True)
    shared = tuple(repetition for repetition in first.repetitions if repetition in second.repetitions)
    a = first.lines[[first.repetitions.index(r) for r in shared]][:, left]
    b = second.lines[[second.repetitions.index(r) for r in shared]][:, right]
    known = np.isfinite(a) & np.isfinite(b)
    return (
        Curve(n_sum, np.where(known, a, np.nan), shared),
        Curve(n_sum, np.where(known, b, np.nan), shared),
    )


@dataclass(frozen=True)
class Curves:
    """The repetitions of several methods.

    Attributes:
        runs: method -> repetition -> its record, methods in the order asked for.
    """

    runs: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)

    @classmethod
    def from_records(cls, records: Sequence[Record], methods: Sequence[str]) -> Curves:
        """Sort usable records by method and repetition; methods without any are left out."""
        runs: dict[str, dict[int, Record]] = {}
        for method in methods:
            found = {
                int(record.axes["repetition"]): record
                for record in records
                if record.usable and record.axes["method"] == method
            }
            if found:
                runs[method] = dict(sorted(found.items()))
        return cls(runs)

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that have a record."""
        return tuple(self.runs)

    def has(self, method: str, metric: str) -> bool:
        """Return whether the method was run and its records hold this metric."""
        return method in self.runs and all(metric in run.arrays for run in self.runs[method].values())

    def curve(self, method: str, metric: str) -> Curve:
        """Return a metric over the iterations.

        Raises:
            KeyError: if the method has no such metric.
        """
        runs = self.runs[method]
        longest = max((run.arrays["n_sum"] for run in runs.values()), key=len)
        values = np.full((len(runs), len(longest)), np.nan)
        for line, run in zip(values, runs.values(), strict=True):
            found = np.asarray(run.arrays[metric], dtype=np.float64)
            line[: len(found)] = found
        return Curve(np.asarray(longest), values, tuple(runs))

    def per_run(self, method: str, metric: str) -> FloatArray:
        """Return the mean over each repetition's iterations [R], e.g. of what was safe: the share of safe queries."""
        return np.array([float(np.mean(run.arrays[metric])) for run in self.runs[method].values()])

    def final(self, method: str) -> int:
        """Return the last N_sum that a repetition of the method reached."""
        return max(int(run.arrays["n_sum"][-1]) for run in self.runs[method].values())

    @property
    def last(self) -> int:
        """The last N_sum that a repetition of any method reached."""
        return max(self.final(method) for method in self.methods)

    def paired(self, values: Mapping[str, FloatArray]) -> Paired:
        """Return numbers of some methods, one per repetition [R], over all repetitions; the metric is `VALUE`."""
        rows = [
            (method, repetition, float(value))
            for method, found in values.items()
            for repetition, value in zip(self.runs[method], found, strict=True)
        ]
        columns = zip(*rows, strict=True)
        return Paired(dict(zip(("method", "repetition", VALUE), columns, strict=True)), ["repetition"])

    def records(self) -> Iterator[tuple[str, Record]]:
        """Return every record with its method."""
        for method, runs in self.runs.items():
            for record in runs.values():
                yield method, record
