"""robustness/bounds_1d: bounding functions over an interval and what one split does (Blaas et al. 2020, Fig. 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    MethodOptions,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    require,
)
from gpsuite.experiments.robustness.classifiers import classifier_method, unconverged_is_diverged
from gpsuite.experiments.robustness.tasks import AT_HYPERPARAMETERS, CLASSIFIER
from gpsuite.experiments.settings import Count, at_least, filled, one_of, unique, within
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.bounding_curves import bounding_curves
from gpsuite.methods.robustness.class_probability import BoundingFunction
from gpsuite.methods.robustness.point_search import build_bound
from gpsuite.methods.robustness.search.regions import interval_box
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import train_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, VERMILION
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


BOUNDS = {"rkhs_taylor": "RKHS–Taylor bound", "paper": "paper's bound"}
DOMAIN = (-3.0, 3.0)
SEARCH = 2  # added to the method's version. Raised when the bounds' numbers change
PARTS = {"whole": "whole region T", "halves": "after one split"}
ROUNDING = 1e-12  # of the class probability where the bound is tight
FREQUENCY, NOISE = 1.5, 0.3  # the label is the sign of sin(1.5 x) + 0.3 N(0, 1)


@dataclass
class Bounds1DSettings:
    """Settings of the one-dimensional picture: labels sign(sin(1.5 x) + 0.3 N(0, 1)), x uniform on [-3, 3].

    Attributes:
        rows: training points.
        evaluations: largest number of evaluations of the marginal likelihood in training.
        low: lower end of the region T.
        high: upper end.
        bounds: names of bounds.
        grid_points: number of points at which the bounding functions are checked and drawn.
        levels: number of times all boxes are halved after the whole region.
    """

    rows: Annotated[int, at_least(4)]
    evaluations: Count
    low: float
    high: float
    bounds: Annotated[list[Annotated[str, one_of(BOUNDS)]], filled, unique]
    grid_points: Annotated[int, at_least(3)]
    levels: Annotated[int, within(1, 12)]

    def check(self) -> None:
        """Refuse a region that is empty or leaves the domain."""
        require(self.low < self.high, "high", self.high, f"must be above low={self.low:g}")
        inside = DOMAIN[0] <= self.low and self.high <= DOMAIN[1]
        require(inside, "low", self.low, f"the region [low, high] must lie in the domain {list(DOMAIN)}")


@dataclass(frozen=True)
class BoundsTask:
    """One bound's functions over the region, before and after one split.

    Attributes:
        method: its inference and link.
        seed: of the made-up rows. Further fields as in `Bounds1DSettings`.
    """

    method: Any
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
        UserError: if the paper's bound is requested with another kernel than its own.
    """
    settings, kernel = request.settings, request.model.kernel
    if "paper" in settings.bounds and kernel != "squared_exponential":
        raise UserError(
            f"model.kernel={kernel}: the paper's bound has the squared exponential only\n"
            "use model=se, or bounds=[rkhs_taylor]",
            key="model",
        )
    seed = derived_seed(request.seed, "bounds_1d")

    def decided(options: MethodOptions) -> Any:
        return classifier_method(options).decides(options)

    return [
        request.task(
            take(BoundsTask, settings, method=decided(options), kernel=kernel, seed=seed, bound=bound),
            label=f"{options.title}  {BOUNDS[bound]}",
            axes={"method": name, "bound": bound},
            version=options.method.version + SEARCH,
            cost=0.2,
        )
        for name, options in request.methods.items()
        for bound in settings.bounds
    ]


def made_up_rows(seed: int, rows: int) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, 1] and labels [N]. Redrawn until both classes are there."""
    rng = stream(seed, "rows")
    while True:
        X = rng.uniform(*DOMAIN, (rows, 1))
        y = np.where(np.sin(FREQUENCY * X[:, 0]) + NOISE * rng.standard_normal(rows) > 0, 1.0, -1.0)
        if len(np.unique(y)) == 2:
            return X, y


@unconverged_is_diverged
def run(task: Task[BoundsTask], shared: SharedWork) -> Outcome:
    """Bound the class probability over the region and over halves of it. Check the curves on a grid.

    The gap is that of the minimum: attained at a box's middle, minus proved. Arrays: the grid, the probability, the
    curves of the whole region and of its halves, and per level of halving the attained and the proved minimum.
    """
    params = task.params
    posterior = _posterior(params, shared.budget(task.budget_seconds, evaluations=params.evaluations))
    low, high = params.low, params.high
    middle = np.array([0.5 * (low + high)])
    bounding = build_bound(params.bound, posterior, interval_box(middle, [low], [high]))
    x = np.linspace(low, high, params.grid_points)
    truth = posterior.probability(x[:, None])
    curves = [_curves(bounding, posterior, x, np.linspace(low, high, boxes + 1)) for boxes in (1, 2)]
    levels = _levels(bounding, low, high, params.levels)
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
    named = zip(("whole_low", "whole_high", "halves_low", "halves_high"), [*curves[0], *curves[1]], strict=True)
    arrays = {"x": x, "probability": truth, **dict(named), "levels": levels}
    return Outcome(metrics, arrays=arrays, headline=f"gap {gaps[0]:.3f}, after one split {gaps[1]:.3f}")


def _posterior(params: BoundsTask, budget: Budget) -> GPCPosterior:
    X, y = made_up_rows(params.seed, params.rows)
    spec, link = ModelSpec(kernel=params.kernel), LINKS.get(params.method.link)
    trained = train_gpc(BinaryProblem(X, y, spec, link), params.method.inference, Hyperparameters(), budget)
    return trained.fit.posterior


def _curves(
    bounding: BoundingFunction, posterior: GPCPosterior, x: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper bounding function at the grid. Each box's own on its part of it."""
    low, high = np.empty_like(x), np.empty_like(x)
    for lo, hi in pairwise(ends):
        part = (x >= lo) & (x <= hi)
        found = bounding_curves(bounding, posterior.link, np.array([lo]), np.array([hi]), x[part, None])
        low[part], high[part] = found
    return low, high


def _levels(bounding: BoundingFunction, low: float, high: float, levels: int) -> FloatArray:
    """Return boxes, attained and proved minimum after each halving of all boxes, [levels + 1, 3]. Never worse."""
    rows, attained, proved = [], 1.0, 0.0
    for level in range(levels + 1):
        ends = np.linspace(low, high, 2**level + 1)[:, None]
        found = bounding.bounds(ends[:-1], ends[1:])
        below, _ = bounding.outward_probability(found.low, found.high)
        attained = min(attained, float(bounding.to_probability(found.centre).min()))
        proved = max(proved, float(below.min()))
        rows.append([2.0**level, attained, proved])
    return np.array(rows)


def draw(report: Report[object], records: Sequence[Record]) -> None:
    """Draw one row per record, which holds the arrays of `bounds_1d.run`: the whole region, and split once."""
    import pandas as pd

    size = (11, 1.2 + 2.9 * len(records))
    with report.figure("bounds_1d", rows=len(records), columns=2, size=size, sharex=True, sharey=True) as drawing:
        for row, record in zip(drawing.grid, records, strict=True):
            who = f"{report.titles[str(record.axes['method'])]}, {BOUNDS[str(record.axes['bound'])]}"
            for level, (ax, (part, words)) in enumerate(zip(row, PARTS.items(), strict=True)):
                _draw_panel(ax, record, part, level)
                ax.set_title(f"{who}: {words}")
        drawing.name_axes("input x", "class probability π(x)")
        drawing.legend()
        drawing.data = pd.concat([_frame(record) for record in records])


def _draw_panel(ax: Axes, record: Record, part: str, level: int) -> None:
    arrays, x = record.arrays, record.arrays["x"]
    _, attained, proved = arrays["levels"][level]
    ax.plot(x, arrays["probability"], color=BLUE, label="output π(x)")
    ax.plot(x, arrays[f"{part}_low"], color=VERMILION, linestyle="--", label="lower bound function")
    ax.plot(x, arrays[f"{part}_high"], color=GREEN, linestyle=":", label="upper bound function")
    ax.axhline(proved, color=VERMILION, linewidth=1, label=math_label(r"$\pi_{\min}^L(T)$: proved"))
    ax.axhline(attained, color=BLACK, linewidth=1, linestyle="-.", label=math_label(r"$\pi_{\min}^U(T)$: attained"))
    if level:
        ax.axvline(0.5 * (x[0] + x[-1]), color="0.5", linewidth=1, label="split")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(x[0], x[-1])


def _frame(record: Record) -> pd.DataFrame:
    import pandas as pd

    curves = {name: values for name, values in record.arrays.items() if name != "levels"}
    return pd.DataFrame({**dict(record.axes), **curves})


def summarise(report: Report[Bounds1DSettings]) -> list[Statistic]:
    """Write the gaps by number of boxes and the picture. Return whether the two statements of Fig. 1 hold."""
    records, settings = report.records(), report.settings
    caption = (
        f"Minimum of the class probability over [{settings.low:g}, {settings.high:g}], all boxes halved at each "
        f"level. Made-up data of {settings.rows} rows"
    )
    report.table(gap_table(records, report.titles), "bounds_1d", caption)
    draw(report, records)
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
    """Return which of the two hold in every record: the lower function is below the output. A split shrinks the gap."""
    if not records:
        return claim("share_bounds_hold_and_shrink", [])
    below = all(bool(record.metrics["lower_function_holds"]) for record in records)
    shrinks = all(record.number("gap_after") < record.number("gap_before") for record in records)
    return claim("share_bounds_hold_and_shrink", [below, shrinks])


EXPERIMENTS.register("robustness/bounds_1d")(
    Experiment(
        Bounds1DSettings,
        plan,
        run,
        summarise,
        method_traits=(CLASSIFIER, AT_HYPERPARAMETERS),
        parts=("bounds", "levels"),
        model_keys=("kernel",),
        published=every_array,
    )
)
