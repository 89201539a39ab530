"""Tasks of robustness/bounds_1d: one per method and bound."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.errors import UserError
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.bounds_1d.settings import BOUNDS, Bounds1DSettings
from gpsuite.experiments.robustness.shared.tasks import GPCParams
from gpsuite.seeds import derived_seed

SEARCH = 2  # added to the method's version; raised when the bounds' numbers change


@dataclass(frozen=True)
class BoundsTask:
    """One bound's functions over the region, before and after one split.

    Attributes:
        method: inference and link.
        kernel: its name.
        seed: of the made-up rows.
        bound: its name.
        rows: as every other field, of `Bounds1DSettings`.
        kind: of task.
    """

    method: GPCParams
    kernel: str
    seed: int
    bound: str
    rows: int
    evaluations: int
    low: float
    high: float
    grid_points: int
    levels: int
    kind: str = "bounds_1d"


def plan(request: Request[Bounds1DSettings]) -> list[Task[object]]:
    """Return one task per method and bound.

    Raises:
        UserError: if the paper's bound is asked for with another kernel than its own.
    """
    settings, kernel = request.settings, request.model.kernel
    if "paper" in settings.bounds and kernel != "squared_exponential":
        raise UserError(
            f"model.kernel={kernel}: the paper's bound has the squared exponential only\n"
            "use model=se, or bounds=[rkhs_taylor]",
            key="model",
        )
    seed = derived_seed(request.seed, "bounds_1d")
    return [
        request.task(
            BoundsTask(
                method=GPCParams.of(options),
                kernel=kernel,
                seed=seed,
                bound=bound,
                rows=settings.rows,
                evaluations=settings.evaluations,
                low=settings.low,
                high=settings.high,
                grid_points=settings.grid_points,
                levels=settings.levels,
            ),
            label=f"{options.title}  {BOUNDS[bound]}",
            axes={"method": name, "bound": bound},
            version=options.method.version + SEARCH,
            cost=0.2,
        )
        for name, options in request.methods.items()
        for bound in settings.bounds
    ]
