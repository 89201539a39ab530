"""The linear LS-SVM without bias on two classes in the plane: what the figures of both spaces share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Record, Report, Request, Task, require
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, filled, unique
from gpsuite.methods.perturbation.quadratic import LinearLSSVM
from gpsuite.methods.perturbation.ranks import SignChanges
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.reporting.figures import Drawing
from gpsuite.seeds import derived_seed

P = TypeVar("P")
LABELS_NOTE = "±1 labels: coverage not exact"
MOST_REPETITIONS = 1_000_000

drawn_together = Rule(
    lambda repetitions: repetitions <= MOST_REPETITIONS, f"must be {MOST_REPETITIONS} or fewer: one task holds them all"
)


@dataclass
class LinearSettings:
    """Settings of both figures of the linear LS-SVM, without bias, under sign changes.

    Attributes:
        C: weight of the residuals.
        m: number of compared values.
        q_values: the regions' q, each 0 < q < m. The confidence is 1 - q/m.
        rays: directions from the estimate, equally spaced in angle.
        draws: sets of perturbations. Figures show the first.
    """

    C: Positive
    m: Annotated[int, at_least(2)]
    q_values: Annotated[list[int], filled, unique]
    rays: Annotated[int, at_least(8)]
    draws: Count

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, self.q_values)


def check_levels(m: int, q_values: Sequence[int], key: str = "q_values") -> None:
    """Refuse a q that is not below m."""
    for q in q_values:
        require(0 < q < m, key, q, f"must lie in 0 < q < m={m}. The confidence is 1 - q/m")


@dataclass(frozen=True)
class LinearProblem:
    """A region in w [2], f(x) = w'x, and the rays from its estimate.

    Attributes:
        C: weight of the residuals.
        m: number of compared values.
        q: the region's.
        rays: directions, equally spaced in angle.
        seed: of the perturbations.
    """

    C: float
    m: int
    q: int
    rays: int
    seed: int

    def region(self, dataset: PreparedDataset) -> ConfidenceRegion:
        """Return the region of a dataset of two classes in the plane."""
        X, y = two_classes(dataset)
        objective = LinearLSSVM(X, self.C, bias=False, classification=True)
        perturbations = SignChanges().draw(len(y), self.m, np.random.default_rng(self.seed))
        return ConfidenceRegion(objective, y, perturbations, self.q)


def linear_tasks(request: Request[LinearSettings], params: Callable[[LinearProblem], P]) -> Iterator[Task[P]]:
    """Yield one task per set of perturbations and q. All q of a draw see the same perturbations."""
    settings = request.settings
    for draw in range(settings.draws):
        seed = derived_seed(request.seed, "perturbations", draw)
        for q in settings.q_values:
            yield request.task(
                params(LinearProblem(settings.C, settings.m, q, settings.rays, seed)),
                label=f"linear LS-SVM  draw {draw}  q {q} of {settings.m}",
                axes={"model": "lssvm", "draw": draw, "q": q},
                cost=0.2,
            )


def two_classes(dataset: PreparedDataset) -> tuple[FloatArray, FloatArray]:
    """Return inputs [n, 2] and labels [n], -1 or 1.

    Raises:
        ValueError: on data that are not two classes in the plane.
    """
    data = load(dataset)
    values, index = np.unique(data.y[:, 0], return_inverse=True)
    if data.X.shape[1] != 2 or len(values) != 2:
        raise ValueError(f"two classes in the plane are needed, got {len(values)} in {data.X.shape[1]} inputs")
    return data.X, 2.0 * index - 1.0


def compass(rays: int) -> FloatArray:
    """Return unit vectors [rays, 2] equally spaced in angle."""
    angle = 2.0 * np.pi * np.arange(rays) / rays
    return np.column_stack([np.cos(angle), np.sin(angle)])


def confidence_text(q: int, m: int) -> str:
    """Return p with the fraction it is."""
    return f"p = {1.0 - q / m:g} ({m - q}/{m})"


@contextmanager
def confidence_panels(
    report: Report[LinearSettings], name: str, records: Sequence[Record], panel: tuple[float, float]
) -> Iterator[Drawing]:
    """Draw one panel per confidence, two per row, on common axes. Rays and unbounded ones are said below.

    Args:
        report: of the run.
        name: file name without ending.
        records: one a panel.
        panel: width and height of a panel in inches.
    """
    columns = min(len(records), 2)
    rows = -(-len(records) // columns)
    unbounded = max(record.number("unbounded_share") for record in records)
    text = f"{LABELS_NOTE}; {report.settings.rays} rays, exact ends, {unbounded:.0%} unbounded"
    size = (panel[0] * columns + 0.5, panel[1] * rows + 1.0)
    with report.figure(name, remark=text, rows=rows, columns=columns, size=size, sharex=True, sharey=True) as drawing:
        yield drawing
        drawing.legend(columns=2)
