"""What the records of active_learning/convergence say about Lemma 1 and Theorems 2, 3 and 9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.convergence.settings import (
    FULL,
    PARTIAL,
    SAFE,
    TITLES,
    UNCONSTRAINED,
)
from gpsuite.experiments.base import Record
from gpsuite.experiments.params import choice
from gpsuite.methods.active_learning.convergence import Kernel
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import Estimate, mean

LMC = ("se", "matern52")


@dataclass(frozen=True)
class ProcessRuns:
    """The runs of one kernel, D, region and kind of outputs.

    Attributes:
        kernel: se, matern52 or convolution.
        inputs: D.
        region: unconstrained or safe.
        outputs: partial or full.
        records: one per run, at least one.
    """

    kernel: Kernel
    inputs: int
    region: str
    outputs: str
    records: Sequence[Record]

    def values(self, metric: str) -> FloatArray:
        """Return a metric of each run."""
        return np.array([record.number(metric) for record in self.records])

    def mean(self, metric: str) -> Estimate:
        """Return a metric's mean over the runs."""
        return mean(self.values(metric))

    @property
    def excess(self) -> float:
        """Log-log slope of the mean variance over the rate, less one standard error: at most 0 if the rate holds.

        A single run has no error to subtract.
        """
        found = self.mean("excess")
        return found.value - (found.error if found.n > 1 else 0.0)


def group_runs(records: Sequence[Record]) -> list[ProcessRuns]:
    """Group records by everything but the run, in the order of the records."""
    groups: dict[tuple[Kernel, int, str, str], list[Record]] = {}
    for record in records:
        axes, kernel = record.axes, choice(str(record.axes["kernel"]), TITLES)
        key = (kernel, int(axes["inputs"]), str(axes["region"]), str(axes["outputs"]))
        groups.setdefault(key, []).append(record)
    return [ProcessRuns(*key, records=found) for key, found in groups.items()]


def statistics(cells: Sequence[ProcessRuns]) -> list[Statistic]:
    """Return the statistics that conf/paper names; rates by single outputs, the lemma for the LMC."""
    partial = [cell for cell in cells if cell.outputs == PARTIAL]
    free = [cell for cell in partial if cell.region == UNCONSTRAINED]
    found = []
    for kernel, name in (
        ("matern52", "max_slope_excess"),
        ("se", "variance_to_rate_slope_excess"),
        ("convolution", "variance_to_rate_slope_excess"),
    ):
        found += _largest_excess(statistic_name(name, kernel=kernel), _of(free, (kernel,)))
    for outputs in (PARTIAL, FULL):
        found += _violations(outputs, [cell for cell in _of(cells, LMC) if cell.outputs == outputs])
    for region in (UNCONSTRAINED, SAFE):
        inside = [cell for cell in partial if cell.region == region]
        found += _reached(statistic_name("share_rate_reached", region=region), _of(inside, LMC))
        name = statistic_name("share_rate_reached", region=region, model="convolution")
        found += _reached(name, _of(inside, ("convolution",)))
    return found


def _of(cells: Sequence[ProcessRuns], kernels: Sequence[str]) -> list[ProcessRuns]:
    return [cell for cell in cells if cell.kernel in kernels]


def _largest_excess(name: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    if not cells:
        return []
    parts = [(cell.inputs, cell.mean("excess")) for cell in cells]
    note = "; ".join(f"D={inputs}: {estimate_text(each)}" for inputs, each in parts)
    return [
        Statistic(
            name, max(cell.excess for cell in cells), n=sum(len(cell.records) for cell in cells), note=note
        )
    ]


def _violations(outputs: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    if not cells:
        return []
    checked = int(sum(cell.values("queries").sum() for cell in cells))
    largest = max(float(cell.values("largest_ratio").max()) for cell in cells)
    count = int(sum(cell.values("violations").sum() for cell in cells))
    note = f"largest mean / bound {largest:.3f}"
    return [Statistic(statistic_name("violations_of_lemma_1", outputs=outputs), count, n=checked, note=note)]


def _reached(name: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    return [claim(name, [cell.excess <= 0.0 for cell in cells])] if cells else []
