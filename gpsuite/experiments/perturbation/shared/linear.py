"""The linear LS-SVM without bias on two classes in the plane: what the figures of both spaces share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Request, Task, require
from gpsuite.methods.perturbation.objectives.quadratic import LinearLSSVM
from gpsuite.methods.perturbation.ranks.groups import SignChanges
from gpsuite.methods.perturbation.region import Region
from gpsuite.seeds import derived_seed

Array = npt.NDArray[np.float64]
P = TypeVar("P")


LABELS_NOTE = "±1 labels: coverage not exact"


MOST_REPETITIONS = 1_000_000


@dataclass
class LinearSettings:
    """Settings of both figures of the linear LS-SVM, without bias, under sign changes.

    Attributes:
        C: weight of the residuals.
        m: number of compared values.
        q_values: the regions' q, each 0 < q < m; the confidence is 1 - q/m.
        rays: directions from the estimate, equally spaced in angle.
        draws: sets of perturbations; figures show the first.
    """

    C: float = 1.0
    m: int = 100
    q_values: list[int] = field(default_factory=lambda: [50, 25, 10, 5])
    rays: int = 720
    draws: int = 20

    def check(self) -> None:
        """Refuse impossible values."""
        check_positive("C", self.C)
        check_levels(self.m, self.q_values)
        require(self.rays >= 8, "rays", self.rays, "must be 8 or more")
        require(self.draws >= 1, "draws", self.draws, "must be 1 or more")


def check_drawn_together(repetitions: int) -> None:
    """Refuse more repetitions than one task, which draws them together, can hold."""
    allowed = f"must be {MOST_REPETITIONS} or fewer: one task holds them all"
    require(repetitions <= MOST_REPETITIONS, "repetitions", repetitions, allowed)


def check_positive(key: str, value: float) -> None:
    """Refuse a number that is not above 0 and finite."""
    require(0 < value < float("inf"), key, value, "must be a finite number above 0")


def check_levels(m: int, q_values: Sequence[int]) -> None:
    """Refuse m or q out of range."""
    require(m >= 2, "m", m, "must be 2 or more")
    require(bool(q_values), "q_values", q_values, "needs at least one value")
    require(len(set(q_values)) == len(q_values), "q_values", q_values, "has a value twice")
    for q in q_values:
        require(0 < q < m, "q_values", q, f"must lie in 1..{m - 1} (0 < q < m)")


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

    def region(self, dataset: PreparedDataset) -> Region:
        """Return the region of a dataset of two classes in the plane."""
        X, y = two_classes(dataset)
        objective = LinearLSSVM(X, self.C, bias=False, classification=True)
        perturbations = SignChanges().draw(len(y), self.m, np.random.default_rng(self.seed))
        return Region(objective, y, perturbations, self.q)


def linear_tasks(request: Request[LinearSettings], params: Callable[[LinearProblem], P]) -> Iterator[Task[P]]:
    """Yield one task per set of perturbations and q; all q of a draw see the same perturbations."""
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


def two_classes(dataset: PreparedDataset) -> tuple[Array, Array]:
    """Return inputs [n, 2] and labels [n], -1 or 1.

    Raises:
        ValueError: on data that are not two classes in the plane.
    """
    data = load(dataset)
    values, index = np.unique(data.y[:, 0], return_inverse=True)
    if data.X.shape[1] != 2 or len(values) != 2:
        raise ValueError(
            f"two classes in the plane are needed, got {len(values)} in {data.X.shape[1]} inputs"
        )
    return data.X, 2.0 * index - 1.0


def compass(rays: int) -> Array:
    """Return unit vectors [rays, 2] equally spaced in angle."""
    angle = 2.0 * np.pi * np.arange(rays) / rays
    return np.column_stack([np.cos(angle), np.sin(angle)])


def confidence_text(q: int, m: int) -> str:
    """Return p with the fraction it is."""
    return f"p = {1.0 - q / m:g} ({m - q}/{m})"
