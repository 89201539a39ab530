"""robustness/bounds_1d: bounding functions over an interval and what one split does (Blaas et al. 2020, Fig. 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    DIVERGED,
    EXPERIMENTS,
    METHODS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.robustness.bounds_1d_figure import draw
from gpsuite.experiments.robustness.settings import check_distinct
from gpsuite.experiments.statistics import share
from gpsuite.methods.robustness.bounding_curves import bounding_curves
from gpsuite.methods.robustness.box_bounds import BoundingFunction
from gpsuite.methods.robustness.regions import interval_box
from gpsuite.methods.robustness.verdict import build_bound
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.gpc_fit import NotConvergedError
from gpsuite.models.gpc_training import train_gpc
from gpsuite.models.links import LINKS
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

BOUNDS = {"rkhs_taylor": "RKHS–Taylor bound", "paper": "paper's bound"}
DOMAIN = (-3.0, 3.0)
FREQUENCY, NOISE = 1.5, 0.3  # the label is the sign of sin(1.5 x) + 0.3 N(0, 1)
SEARCH = 2  # added to the method's version; raised when the bounds' numbers change
ROUNDING = 1e-12  # of the class probability where the bound is tight


@dataclass
class Bounds1DSettings:
    """Settings of the one-dimensional picture: labels sign(sin(1.5 x) + 0.3 N(0, 1)), x uniform on [-3, 3].

    Attributes:
        rows: training points.
        evaluations: of the marginal likelihood in training.
        low: lower end of the region T.
        high: upper end.
        bounds: names of bounds.
        grid_points: at which the bounding functions are checked and drawn.
        levels: how often all boxes are halved after the whole region.
    """

    rows: int = 30
    evaluations: int = 20
    low: float = 0.0
    high: float = 1.0
    bounds: list[str] = field(default_factory=lambda: list(BOUNDS))
    grid_points: int = 401
    levels: int = 6

    def check(self) -> None:
        """Refuse impossible values."""
        require(self.rows >= 4, "rows", self.rows, "must be 4 or more")
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        require(self.low < self.high, "high", self.high, f"must be above low={self.low:g}")
        inside = DOMAIN[0] <= self.low and self.high <= DOMAIN[1]
        require(inside, "low", self.low, f"the region [low, high] must lie in the domain {list(DOMAIN)}")
        check_distinct("bounds", self.bounds)
        for name in self.bounds:
            require(name in BOUNDS, "bounds", name, f"valid: {', '.join(BOUNDS)}")
        require(self.grid_points >= 3, "grid_points", self.grid_points, "must be 3 or more")
        require(1 <= self.levels <= 12, "levels", self.levels, "must be 1 to 12")


def plan(request: Request) -> list[Task]:
    """Return one task per method and bound.

    Raises:
        UserError: if the paper's bound is asked for with another kernel than its own.
    """
    settings: Bounds1DSettings = request.settings
    kernel = request.model.kernel
    if "paper" in settings.bounds and kernel != "squared_exponential":
        raise UserError(
            f"model.kernel={kernel}: the paper's bound has the squared exponential only\n"
            "use model=se, or bounds=[rkhs_taylor]",
            key="model",
        )
    return [
        Task(
            experiment=request.experiment,
            label=f"{options.title}  {BOUNDS[bound]}",
            axes={"method": name, "bound": bound},
            params={
                "kind": "bounds_1d",
                "method": {
                    key: value for key, value in asdict(options).items() if key not in ("title", "reference")
                },
                "kernel": kernel,
                "seed": derived_seed(request.seed, "bounds_1d"),
                **{key: value for key, value in asdict(settings).items() if key != "bounds"},
                "bound": bound,
            },
            version=METHODS.get(options.builder).version + SEARCH,
            cost=0.2,
            budget_seconds=request.budget_seconds,
        )
        for name, options in request.methods.items()
        for bound in settings.bounds
    ]


def made_up_rows(seed: int, rows: int) -> tuple[Array, Array]:
    """Return inputs [N, 1] and labels [N]; redrawn until both classes are there."""
    rng = stream(seed, "rows")
    while True:
        X = rng.uniform(*DOMAIN, (rows, 1))
        y = np.where(np.sin(FREQUENCY * X[:, 0]) + NOISE * rng.standard_normal(rows) > 0, 1.0, -1.0)
        if len(np.unique(y)) == 2:
            return X, y


def run(task: Task, shared: SharedWork) -> Outcome:
    """Bound the class probability over the region and over halves of it; check the curves on a grid.

    The gap is that of the minimum: attained at a box's middle, minus proved. Arrays: the grid, the probability, the
    curves of the whole region and of its halves, and per level of halving the attained and the proved minimum.
    """
    params = task.params
    try:
        posterior = _posterior(params, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    low, high = float(params["low"]), float(params["high"])
    middle = np.array([0.5 * (low + high)])
    bounding = build_bound(params["bound"], posterior, interval_box(middle, [low], [high]))
    x = np.linspace(low, high, int(params["grid_points"]))
    truth = posterior.probability(x[:, None])
    curves = [_curves(bounding, posterior, x, np.linspace(low, high, boxes + 1)) for boxes in (1, 2)]
    levels = _levels(bounding, low, high, int(params["levels"]))
    gaps = levels[:, 1] - levels[:, 2]
    above = max(float((lower - truth).max()) for lower, _ in curves)
    below = max(float((truth - upper).max()) for _, upper in curves)
    metrics = {
        "largest_excess": max(above, below),
        "lower_function_holds": above <= ROUNDING,
        "upper_function_holds": below <= ROUNDING,
        "gap_before": float(gaps[0]),
        "gap_after": float(gaps[1]),
        "true_minimum": float(truth.min()),
    }
    named = zip(
        ("whole_low", "whole_high", "halves_low", "halves_high"), [*curves[0], *curves[1]], strict=True
    )
    arrays = {"x": x, "probability": truth, **dict(named), "levels": levels}
    return Outcome(metrics, arrays=arrays, headline=f"gap {gaps[0]:.3f}, after one split {gaps[1]:.3f}")


def _posterior(params: Mapping[str, Any], seconds: float | None) -> GPCPosterior:
    X, y = made_up_rows(params["seed"], params["rows"])
    budget = Budget(seconds=seconds, evaluations=params["evaluations"])
    spec, link = ModelSpec(kernel=params["kernel"]), LINKS.get(params["method"]["link"])
    trained = train_gpc(X, y, spec, link, params["method"]["inference"], Hyperparameters(), budget)
    return trained.fit.posterior


def _curves(
    bounding: BoundingFunction, posterior: GPCPosterior, x: Array, ends: Array
) -> tuple[Array, Array]:
    """Return the lower and upper bounding function at the grid; each box's own on its part of it."""
    low, high = np.empty_like(x), np.empty_like(x)
    for lo, hi in pairwise(ends):
        part = (x >= lo) & (x <= hi)
        found = bounding_curves(bounding, posterior.link, np.array([lo]), np.array([hi]), x[part, None])
        low[part], high[part] = found
    return low, high


def _levels(bounding: BoundingFunction, low: float, high: float, levels: int) -> Array:
    """Return boxes, attained and proved minimum after each halving of all boxes, [levels + 1, 3]; never worse."""
    rows, attained, proved = [], 1.0, 0.0
    for level in range(levels + 1):
        ends = np.linspace(low, high, 2**level + 1)[:, None]
        found = bounding.bounds(ends[:-1], ends[1:])
        below, _ = bounding.outward_probability(found.low, found.high)
        attained = min(attained, float(bounding.to_probability(found.centre).min()))
        proved = max(proved, float(below.min()))
        rows.append([2.0**level, attained, proved])
    return np.array(rows)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the gaps by number of boxes and the picture; return whether the two statements of Fig. 1 hold."""
    titles = {name: options.title for name, options in request.methods.items()}
    settings: Bounds1DSettings = request.settings
    caption = (
        f"Minimum of the class probability over [{settings.low:g}, {settings.high:g}], all boxes halved at each "
        f"level; made-up data of {settings.rows} rows{f' ({note})' if note else ''}"
    )
    write_table(gap_table(records, titles), folder / "tables", "bounds_1d", caption)
    draw(records, titles, BOUNDS, folder / "figures", note)
    return [statements(records)]


def gap_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return attained and proved minimum and their gap by number of boxes, one row per task and level."""
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "bound": BOUNDS[str(record.axes["bound"])],
            "boxes": int(boxes),
            "attained minimum": attained,
            "proved minimum": proved,
            "gap": attained - proved,
        }
        for record in records
        for boxes, attained, proved in record.arrays["levels"]
    ]
    return pd.DataFrame(rows)


def statements(records: Sequence[Record]) -> Statistic:
    """Return which of the two hold in every record: the lower function is below the output; a split shrinks the gap."""
    if not records:
        return share("share_bounds_hold_and_shrink", [])
    below = all(bool(record.metrics["lower_function_holds"]) for record in records)
    shrinks = all(record.number("gap_after") < record.number("gap_before") for record in records)
    return share("share_bounds_hold_and_shrink", [below, shrinks])


EXPERIMENTS.register("robustness/bounds_1d")(
    Experiment(Bounds1DSettings, plan, run, summarise, builders=("gpc",), parts=("bounds", "levels"))
)
