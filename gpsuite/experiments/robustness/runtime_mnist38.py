"""robustness/runtime_mnist38: seconds for the largest class probability, by dimension and tolerance (Fig. 7).

Blaas et al. 2020, App. E. Our bound at every point, the paper's at some.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget, ProcessorBudget
from gpsuite.data.loading import load
from gpsuite.experiments.base import (
    BUDGET,
    DONE,
    EXPERIMENTS,
    Experiment,
    Outcome,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    frame_of,
    require,
)
from gpsuite.experiments.robustness.bounds_1d import BOUNDS
from gpsuite.experiments.robustness.classifiers import classifier_params, task_classifier, unconverged_is_diverged
from gpsuite.experiments.robustness.inputs import check_words, choose
from gpsuite.experiments.robustness.safety_curves import dataset_statistics, of_points
from gpsuite.experiments.robustness.tasks import (
    AGREEMENT,
    CLASSIFIER,
    Axes,
    ClassifierParams,
    ClassifierSettings,
    Metrics,
    Radius,
)
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing, one_of, unique
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_products
from gpsuite.methods.robustness.point_search import bound_names, probability_extremum
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.palette import COLOURS, LIMIT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as PlotAxes


OURS = "rkhs_taylor"
VERSION = 5  # raised when the numbers of a point change, its seconds among them
MEASURED = (
    "seconds of one processor without other work, with the bound's set-up and the incumbent search and "
    "without the classifier's training"
)
CELL = ["bound", "gamma", "d", "eps"]
EXPLOSION = 10.0  # times the mean number of boxes of the low dimensions
LOW_DIMENSIONS = 5
UNDER_5, UNDER_10, UNDER_2 = 5.0, 10.0, 2.0  # seconds, as printed
TOLERANCE_UNDER_2 = 0.01  # the tolerance at which the paper prints it
PROGRAMS = 1000  # training points of the paper
STYLES = ({"ls": "-", "marker": "o"}, {"ls": "--", "marker": "^"})  # ours, the reference
PRINTED_SECONDS, PRINTED_BEYOND = 250.0, 7  # App. E.1, larger gamma: "almost 250 seconds beyond 7 dimensions"
PRINTED_LIMIT, PRINTED_UP_TO = 5.0, 5  # below these seconds for up to so many dimensions
PRINTED_FINEST = (0.01, 2.0)  # tolerance and seconds of App. E.2, below which it stays


@dataclass
class RuntimeSettings(ClassifierSettings):
    """Settings of Fig. 7.

    Attributes:
        features: rule that chooses the free pixels: sift, gradient or shortest.
        evaluations: largest number of evaluations of the marginal likelihood in training.
        dimensions: numbers of free pixels, at the last of `tolerances`.
        gammas: radii of the L-infinity balls, pixel values from 0 to 1.
        tolerances: epsilon, increasing, all with `tolerance_dimension` free pixels.
        tolerance_dimension: one of `dimensions`.
        points: test points with our bound.
        boxes: limit per search with our bound.
        reference: bound set next to ours.
        reference_points: test points with it.
        reference_seconds: limit per search with it, of the processor's seconds, or null.
        reference_boxes: limit per search with it.
    """

    features: str
    evaluations: Count
    dimensions: Annotated[list[int], filled, unique, increasing]
    gammas: Annotated[list[Radius], filled, unique, increasing]
    tolerances: Annotated[list[Positive], filled, unique, increasing]
    tolerance_dimension: int
    points: Count
    boxes: Annotated[int, at_least(0)]
    reference: Annotated[str, one_of(bound_names)]
    reference_points: Count
    reference_seconds: Positive | None
    reference_boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse unknown pixels, a dimension that is not run, and more points than test rows."""
        super().check()
        check_words([f"{self.features}{count}" for count in self.dimensions], max(self.dimensions))
        known = self.tolerance_dimension in self.dimensions
        require(known, "tolerance_dimension", self.tolerance_dimension, f"must be one of {self.dimensions}")
        for name in ("points", "reference_points"):
            value = getattr(self, name)
            require(value <= self.test_rows, name, value, f"must be 1 to {self.test_rows}")

    def cells(self) -> Iterator[tuple[float, int, float]]:
        """Yield gamma, dimension and tolerance of every cell."""
        last = self.tolerances[-1]
        for gamma in self.gammas:
            for dimension in self.dimensions:
                yield gamma, dimension, last
            for tolerance in self.tolerances[:-1]:
                yield gamma, self.tolerance_dimension, tolerance


@dataclass(frozen=True)
class RuntimeTask:
    """One timed search for the largest class probability, as in `RuntimeSettings`. Without a limit seconds are None."""

    model: ClassifierParams
    point: int
    gamma: float
    features: str
    tolerance: float
    bound: str
    boxes: int
    seconds: float | None
    kind: str = "runtime"


def plan(request: Request[RuntimeSettings]) -> list[Task[object]]:
    """Return one task per bound, cell and point.

    Raises:
        UserError: if there are more free pixels than inputs.
    """
    settings, dataset = request.settings, request.require_dataset()
    inputs = int(dataset.spec["n_inputs"])
    check_words([f"{settings.features}{count}" for count in settings.dimensions], inputs, request.model)
    bounds = {
        OURS: (settings.points, settings.boxes, None),
        settings.reference: (settings.reference_points, settings.reference_boxes, settings.reference_seconds),
    }
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        model = classifier_params(request, settings, options, 0, settings.evaluations)
        for bound, (points, boxes, seconds) in bounds.items():
            for gamma, d, epsilon in settings.cells():
                axes: Axes = {"method": method, "bound": bound, "gamma": gamma, "d": d, "eps": epsilon}
                label = f"{options.title}  {bound}  gamma {gamma:g}  d {d}  eps {epsilon:g}"
                tasks += [
                    request.task(
                        RuntimeTask(model, point, gamma, f"{settings.features}{d}", epsilon, bound, boxes, seconds),
                        label=f"{label}  point {point}",
                        axes={**axes, "point": point},
                        version=VERSION,
                        cost=min(seconds or 1.0, 10.0) if bound != OURS else 0.02 * d,
                        group=model.group(dataset),
                    )
                    for point in range(points)
                ]
    return tasks


@unconverged_is_diverged
def run_runtime(task: Task[RuntimeTask], shared: SharedWork) -> Outcome:
    """Bound the largest class probability of one point and measure it."""
    classifier = task_classifier(task, shared)
    params, problem, posterior = task.params, classifier.problem, classifier.posterior
    x = problem.X_test[params.point]
    chosen = choose(params.features, problem, posterior.lengthscales, x)
    region = linf_ball(x, params.gamma, chosen.inputs.tolist(), problem.domain)
    left = shared.budget(task.budget_seconds).left
    limits = [limit for limit in (params.seconds, left) if limit is not None]
    posterior_products(posterior)  # computed once per classifier, like its training
    wall, cpu = time.perf_counter(), time.process_time()
    clock = ProcessorBudget if left is None else Budget
    budget = clock(min(limits, default=None), boxes=params.boxes, observer=shared.observer)
    found = probability_extremum(posterior, region, 1, params.tolerance, budget, params.bound)
    metrics: Metrics = {
        "chosen_by": chosen.by,
        "box_share": float(np.mean(region.upper - region.lower)),
        "inner": found.inner,
        "outer": found.outer,
        "gap": found.gap,
        "closed": found.status == "closed",
        "boxes": found.boxes,
        "search_seconds": time.process_time() - cpu,
        "search_wall_seconds": time.perf_counter() - wall,
    }
    limited = found.status == "budget"
    headline = f"max {found.inner:.3f} to {found.outer:.3f}, {found.boxes} boxes"
    return Outcome(metrics, BUDGET if limited else DONE, found.reason if limited else "", {}, headline)


# The paper's runtimes are those of its own bound, which is therefore the one that is judged. A search that its limit
# ended leaves a lower bound of its seconds and boxes: a mean with one in it decides only what it already exceeds.


def runtime_statistics(frame: pd.DataFrame, epsilon: float, ours: str, reference: str) -> list[Statistic]:
    """Return the statistics by which the paper's statements are decided.

    Args:
        frame: one row per search.
        epsilon: the tolerance at which dimensions are compared.
        ours: name of our bound.
        reference: of the paper's.
    """
    found = [
        Statistic(f"box_share_percent[gamma={gamma}]", 200.0 * gamma, note=_clipped(frame, gamma))
        for gamma in sorted(set(frame["gamma"]))
    ]
    found.append(Statistic("linear_programs_per_box[training_points=1000]", 2.0 * PROGRAMS + 1.0))
    for bound in dict.fromkeys((ours, reference)):
        own = frame[frame["bound"] == bound]
        found += _by_dimension(own[own["eps"] == epsilon], bound)
        found += _by_tolerance(own, bound)
    return found


def _clipped(frame: pd.DataFrame, gamma: float) -> str:
    share_left = 100 * float(frame.loc[frame["gamma"] == gamma, "box_share"].mean())
    return f"2 gamma. Clipped to the pixel range, {share_left:.1f} % on average"


def _by_dimension(frame: pd.DataFrame, bound: str) -> list[Statistic]:
    """Return how seconds and boxes of a bound grow with the dimension."""
    largest, smallest, d = frame["gamma"].max(), frame["gamma"].min(), int(frame["d"].max())
    wide = frame[frame["gamma"] == largest]
    axes = f"bound={bound},gamma={largest}"
    seconds = wide.groupby("d")["search_seconds"].mean()
    low, top = wide[wide["d"] <= LOW_DIMENSIONS], frame[(frame["gamma"] == smallest) & (frame["d"] == d)]
    boxes = frame[frame["d"] == d].groupby("gamma")["boxes"].mean()
    ratio = float(boxes.iloc[0] / boxes.iloc[-1]) if _closed(frame[frame["d"] == d]) else float("nan")
    found = [
        Statistic(f"max_mean_seconds[{axes}]", float(seconds.max()), n=len(seconds), note=_unclosed(wide)),
        _mean_seconds(f"largest_mean_seconds[{axes},d=1-{LOW_DIMENSIONS}]", low, UNDER_5),
        _mean_seconds(f"mean_seconds[bound={bound},gamma={smallest},d={d}]", top, UNDER_10),
        _explosion(wide, bound),
        _exponential(wide, axes),
    ]
    if len(boxes) > 1:
        found.append(Statistic(f"boxes_ratio[bound={bound},d={d}]", ratio, note=_unclosed(frame)))
    return found


def _closed(frame: pd.DataFrame) -> bool:
    return bool(frame["closed"].all())


def _unclosed(frame: pd.DataFrame) -> str:
    count = int((~frame["closed"].astype(bool)).sum())
    if not count:
        return "all searches closed"
    return f"{count} of {len(frame)} searches ended unclosed, their boxes and seconds are lower bounds"


def _mean_seconds(name: str, frame: pd.DataFrame, limit: float) -> Statistic:
    """Return the largest mean over the dimensions. NaN if it is a lower bound that does not exceed the limit."""
    means = frame.groupby("d")["search_seconds"].mean()
    largest = float(means.max()) if len(means) else float("nan")
    decided = _closed(frame) or largest > limit
    return Statistic(name, largest if decided else float("nan"), n=len(frame), unit="s", note=_unclosed(frame))


def _exponential(wide: pd.DataFrame, axes: str) -> Statistic:
    """Return the share of points whose boxes grow, and fit exp(b d) better than d^b (least squares of log boxes).

    Two dimensions fit both exactly, so that fewer than three say nothing.
    """
    better = []
    for _, own in wide.groupby("point") if _closed(wide) and wide["d"].nunique() > 2 else ():
        logs = np.log(own["boxes"].clip(lower=1).to_numpy(float))
        slope, exponential = _line(own["d"].to_numpy(float), logs)
        better.append(slope > 0.0 and exponential < _line(np.log(own["d"].to_numpy(float)), logs)[1])
    return of_points(f"share_points_exponential_in_dimension[{axes}]", better, _unclosed(wide))


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the least-squares slope of y against x, and the sum of squared residuals."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(np.sum((y - slope * x - intercept) ** 2))


def _explosion(wide: pd.DataFrame, bound: str) -> Statistic:
    """Return the last dimension before the mean number of boxes first exceeds ten times that of the low ones."""
    name, note = f"last_dimension_before_explosion[bound={bound}]", _unclosed(wide)
    boxes = wide.groupby("d")["boxes"].mean()
    base = float(boxes[boxes.index <= LOW_DIMENSIONS].mean())
    beyond = [int(d) for d in boxes.index if boxes[d] > EXPLOSION * base]
    if not beyond:
        return Statistic(name, float("nan"), n=len(boxes), note=f"no dimension has that many boxes; {note}")
    before = [int(d) for d in boxes.index if d < beyond[0]]
    return Statistic(name, float(max(before, default=0)), n=len(boxes), note=note)


def _by_tolerance(own: pd.DataFrame, bound: str) -> list[Statistic]:
    """Return the mean at the tolerance that the paper names, and how the boxes rise as the tolerance falls."""
    cells = own.groupby("d")["eps"].nunique()
    d = int(cells.index[int(cells.argmax())])
    largest = own["gamma"].max()
    named = own[(own["gamma"] == largest) & (own["d"] == d) & (own["eps"] == TOLERANCE_UNDER_2)]
    rises, part = [], own[own["d"] == d]
    for _, curve in part.groupby("gamma") if _closed(part) and cells[d] > 2 else ():
        boxes = curve.groupby("eps")["boxes"].mean()
        eps, logs = boxes.index.to_numpy(float), np.log(boxes.to_numpy(float))
        slope, exponential = _line(eps, logs)
        straight = np.polyval(np.polyfit(eps, boxes.to_numpy(float), 1), eps)
        residual = float(np.sum((logs - np.log(np.maximum(straight, 1.0))) ** 2))
        rises.append(slope < 0.0 and exponential < residual)
    return [
        _mean_seconds(f"mean_seconds[bound={bound},gamma={largest},d={d},eps={TOLERANCE_UNDER_2:g}]", named, UNDER_2),
        claim(f"share_exponential_in_tolerance[bound={bound},d={d}]", rises, _unclosed(part)),
    ]


def boxes_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return boxes per cell, mean, median and largest, and how many searches closed."""
    grouped = frame.groupby(CELL, sort=False)
    table = grouped.agg(
        points=("boxes", "size"),
        mean_boxes=("boxes", "mean"),
        median_boxes=("boxes", "median"),
        largest_boxes=("boxes", "max"),
        closed=("closed", "sum"),
        largest_gap=("gap", "max"),
    )
    return table.reset_index()


def seconds_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return seconds and boxes per cell, and how many searches closed."""
    grouped = frame.groupby(CELL, sort=False)
    table = grouped.agg(
        points=("boxes", "size"),
        mean_seconds=("search_seconds", "mean"),
        median_seconds=("search_seconds", "median"),
        largest_seconds=("search_seconds", "max"),
        mean_wall_seconds=("search_wall_seconds", "mean"),
        mean_boxes=("boxes", "mean"),
        closed=("closed", "sum"),
    )
    return table.reset_index()


def ratio_table(frame: pd.DataFrame, ours: str, reference: str) -> pd.DataFrame:
    """Return per cell the mean seconds of both bounds over the points that have both, and their ratio."""
    import pandas as pd

    keys = ["method", "gamma", "d", "eps", "point"]
    pairs = frame[frame["bound"] == ours].merge(
        frame[frame["bound"] == reference], on=keys, suffixes=("_ours", "_reference")
    )
    rows = []
    for (gamma, d, eps), cell in pairs.groupby(["gamma", "d", "eps"], sort=False):
        mine, theirs = cell["search_seconds_ours"].mean(), cell["search_seconds_reference"].mean()
        closed = int(cell["closed_reference"].sum())
        open_sign = "≥ " if closed < len(cell) else ""
        rows.append(
            {
                "gamma": gamma,
                "d": d,
                "eps": eps,
                "points": len(cell),
                "seconds ours": mine,
                f"seconds {reference}": theirs,
                "ratio": f"{open_sign}{theirs / mine:.3g}",
                f"closed by {reference}": closed,
                "boxes ours": cell["boxes_ours"].mean(),
                f"boxes {reference}": cell["boxes_reference"].mean(),
            }
        )
    return pd.DataFrame(rows)


def draw_runtime(report: Report[RuntimeSettings], frame: pd.DataFrame) -> None:
    """Draw median and mean seconds against the dimension at one tolerance, and against the tolerance at one dimension.

    Args:
        report: gives both.
        frame: one row per search.
    """
    epsilon, d = report.settings.tolerances[-1], report.settings.tolerance_dimension
    reference = report.settings.reference
    means = seconds_table(frame)
    with report.figure("runtime_mnist38_timing", columns=2, size=(9.6, 4.6), sharey=True) as drawing:
        left, right = drawing.axes
        _panel(left, frame[frame["eps"] == epsilon], means[means["eps"] == epsilon], "d")
        _panel(right, frame[frame["d"] == d], means[means["d"] == d], "eps")
        left.set_xticks(sorted(set(means["d"])))
        left.set_xlabel("d (free pixels)")
        left.set_title(f"ε = {epsilon:g}")
        right.set_xticks(sorted(set(means.loc[means["d"] == d, "eps"])))
        right.set_xlabel("ε (tolerance)")
        right.set_title(f"d = {d}")
        left.set_ylabel("seconds for π max")
        if report.comparable:
            _draw_printed(left, right, sorted(set(means["d"])))
        limit = report.settings.reference_seconds
        if limit is not None:
            for ax in (left, right):
                label = f"limit of a search with {_named(reference)}: {limit:g} s"
                ax.axhline(limit, color=LIMIT, ls=":", lw=1.2, label=label)
        how = "lines: medians; dots: points; crosses: means (arrow up: a lower bound, not all searches closed)"
        drawing.legend(columns=2, title=how)
        drawing.data = means


def _named(bound: str) -> str:
    return "our bound" if bound == OURS else f"the {BOUNDS[bound]}" if bound in BOUNDS else f"bound {bound}"


def _draw_printed(left: PlotAxes, right: PlotAxes, dimensions: Sequence[int]) -> None:
    """Draw what the paper's text says of the means at the larger gamma; "below" is drawn with marks that point down."""
    style: dict[str, Any] = {"color": COLOURS[1], "lw": 1.0, "mfc": "none", "ms": 9}
    below: dict[str, Any] = {**style, "marker": "v", "label": "printed (γ = 0.25): the mean is below this"}
    low, beyond = ([d for d in dimensions if d <= PRINTED_UP_TO], [d for d in dimensions if d > PRINTED_BEYOND])
    if low:
        left.plot([low[0], low[-1]], [PRINTED_LIMIT] * 2, **below)
    if beyond:
        label = f"printed (γ = 0.25): the mean is almost {PRINTED_SECONDS:g} s"
        left.plot([beyond[0], beyond[-1]], [PRINTED_SECONDS] * 2, marker="o", label=label, **style)
    right.plot(*([each] for each in PRINTED_FINEST), **below)


def _panel(ax: PlotAxes, frame: pd.DataFrame, cells: pd.DataFrame, axis: str) -> None:
    ax.set_yscale("log")
    for number, bound in enumerate(dict.fromkeys(cells["bound"])):
        for colour, gamma in enumerate(sorted(set(cells["gamma"]))):
            style: dict[str, Any] = {**STYLES[number], "color": COLOURS[colour % len(COLOURS)]}
            own = cells[(cells["bound"] == bound) & (cells["gamma"] == gamma)].sort_values(axis)
            single = frame[(frame["bound"] == bound) & (frame["gamma"] == gamma)]
            ax.plot(single[axis], single["search_seconds"], ".", ms=2.5, alpha=0.35, color=style["color"])
            ax.plot(own[axis], own["median_seconds"], label=f"{_named(bound)}, γ = {gamma:g}", **style)
            ax.plot(own[axis], own["mean_seconds"], marker="x", ms=6, ls="", color=style["color"])
            unclosed = own[own["closed"] < own["points"]]
            above = unclosed["mean_seconds"] * 1.45
            ax.plot(unclosed[axis], above, marker=r"$\uparrow$", ms=9, ls="", color=style["color"])


def summarise(report: Report[RuntimeSettings]) -> list[Statistic]:
    """Write seconds, boxes and ratios per cell, draw Fig. 7, and return the statistics."""
    settings, dataset = report.settings, report.request.require_dataset()
    frame = frame_of(report.records())
    rules = ", ".join(sorted(set(frame["chosen_by"])))
    caption = f"{dataset.name}: π max over L-infinity balls of radius γ, d free pixels (chosen by {rules}); {MEASURED}"
    report.table(boxes_table(frame[frame["bound"] == OURS]), "runtime_mnist38", caption)
    report.table(seconds_table(frame), "runtime_mnist38_timing", caption)
    ratios = (
        f"{caption}. Seconds of bound {settings.reference} over ours, paired points; ≥: a lower bound, since "
        "not all of its searches closed"
    )
    report.table(ratio_table(frame, OURS, settings.reference), "runtime_mnist38_ratio_timing", ratios)
    draw_runtime(report, frame)
    statistics = dataset_statistics(load(dataset))
    return statistics + runtime_statistics(frame, settings.tolerances[-1], OURS, settings.reference)


EXPERIMENTS.register("robustness/runtime_mnist38")(
    Experiment(
        RuntimeSettings,
        plan,
        run_runtime,
        summarise,
        method_traits=(CLASSIFIER,),
        parts=("points", "reference_points", "dimensions", "tolerances", "gammas"),
        agreement=AGREEMENT,
        published=every_array,
    )
)
