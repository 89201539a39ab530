"""perturbation/region: confidence regions and bands on any regression dataset, a user's CSV included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import (
    BUDGET,
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    finite_or_none,
)
from gpsuite.experiments.perturbation.coverage_models import GROUPS
from gpsuite.experiments.perturbation.linear_models import check_levels
from gpsuite.experiments.perturbation.region_problem import (
    MODELS,
    RegionProblem,
    RegionTask,
    input_number,
    read_problem,
    split_rows,
)
from gpsuite.experiments.sentences import band_holds
from gpsuite.experiments.settings import Count, Positive, Rule, Share, at_least, between, filled, one_of, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.perturbation.bands import Band, ellipsoid_band, pointwise_band
from gpsuite.methods.perturbation.rays import isotropic_directions, sample_members
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLUE, VERMILION, tint
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import proportion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass
class RegionSettings:
    """Settings of confidence regions on any dataset.

    Attributes:
        models: kinds of the function: kernel ridge with few centres, linear.
        group: group under which the noise is assumed invariant.
        m: number of compared values.
        excluded: q of each region. The confidence is 1 - q/m.
        centres: number of basis functions of the sparse kernel model.
        lengthscale: lengthscale of the Gaussian kernel, in standard deviations of the inputs. Null: median distance.
        penalty: penalty of kernel ridge.
        C: weight of the residuals of the LS-SVM.
        preparation: share of rows that only choose scales, offset, lengthscale and centres.
        rows: most rows taken, at random, 0: all.
        along: input along which bands are drawn. Empty: the one that follows the target most closely.
        points: number of points of the drawn curve.
        rays: directions from the estimate along which members are looked for.
    """

    models: Annotated[list[Annotated[str, one_of(MODELS)]], filled, unique]
    group: Annotated[str, one_of(GROUPS)]
    m: Annotated[int, at_least(2)]
    excluded: Annotated[list[int], filled, unique]
    centres: Count
    lengthscale: Positive | None
    penalty: Annotated[float, between(1e-100, 1e100)]  # beyond, squares of what they divide overflow
    C: Annotated[float, between(1e-100, 1e100)]
    preparation: Share
    rows: Annotated[int, Rule(lambda rows: rows >= 0, "must be 0 (all) or more")]
    along: str
    points: Annotated[int, at_least(2)]
    rays: Count

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, self.excluded, "excluded")


VERSION = 3
MERGED_VERSION = 4  # of data with rows that are copies of others: they count once


def plan(request: Request[RegionSettings]) -> list[Task[RegionTask]]:
    """Return one task per model. The data are read, so that bad ones are refused before any work.

    Raises:
        UserError: as `read_problem` and `input_number`.
    """
    settings, dataset = request.settings, request.require_dataset()
    data, tasks = load(dataset), []
    for params in region_tasks(request):
        read_problem(dataset, params)
        label, axes = f"{MODELS[params.model].title}  {settings.group}, m={settings.m}", {"model": params.model}
        tasks.append(request.task(params, label=label, axes=axes, version=version_of(data), cost=2.0))
    return tasks


def region_tasks(request: Request[RegionSettings]) -> list[RegionTask]:
    """Return the parameters of one task per model.

    Raises:
        UserError: if there is no input to draw along of the name given.
    """
    settings = request.settings
    return [
        take(
            RegionTask,
            settings,
            model=model,
            along=input_number(load(request.require_dataset()), settings.along),
            seed=derived_seed(request.seed, "region"),
        )
        for model in settings.models
    ]


def version_of(data: Dataset) -> int:
    """Return the version of a region's task on a dataset."""
    return VERSION if data.groups is None else MERGED_VERSION


RAYS_AT_ONCE = 100  # between two looks at the clock
CANDIDATES = {"estimate": 1.0, "half of it": 0.5, "zero function": 0.0, "twice the estimate": 2.0}


def run(task: Task[RegionTask], shared: SharedWork) -> Outcome:
    """Compute bands on a curve and at the data, members along rays, and ranks of some candidates, at every level.

    When the seconds end, pointwise bands that are left are the ellipsoid's, outer ones too, and rays are left out.
    Other columns are whole.
    """
    params, clock, cut = task.params, shared.budget(task.budget_seconds), []
    problem = read_problem(task.require_dataset(), params)
    values, curve = _curve(problem, params.along, params.points)
    metrics: dict[str, float | int | str | bool | None] = {
        "n": len(problem.X),
        "coefficients": len(problem.region.estimate),
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "x": values,
        "estimate": problem.offset + problem.unit * (curve @ problem.region.estimate),
    }
    for q in params.excluded:
        region = replace(problem.region, q=q)
        level = _bands(region, problem, curve, clock)
        rays = _rays(region, params.rays, stream(params.seed, "rays"), clock)
        found, bands = level.found | rays.found, level.bands
        cut += [f"{name} at q={q}" for name in (level.cut, rays.cut) if name]
        metrics |= {f"{name}_{q}": value for name, value in found.items()}
        arrays |= {f"{name}_{q}": value for name, value in bands.items()}
    candidates = np.outer(list(CANDIDATES.values()), problem.region.estimate)
    arrays["ranks"] = problem.region.ranks(candidates)
    headline = f"n={metrics['n']}, p={metrics['coefficients']}"
    if cut:
        reason = f"{task.budget_seconds:g} seconds used up: {', '.join(cut)}"
        return Outcome(metrics, BUDGET, reason, arrays, headline)
    return Outcome(metrics, arrays=arrays, headline=headline)


def _curve(problem: RegionProblem, column: int, points: int) -> tuple[FloatArray, FloatArray]:
    """Return values of one input over its range, others at their median, and rows of Phi there."""
    x = np.tile(np.median(problem.X, axis=0), (points, 1))
    x[:, column] = np.linspace(problem.X[:, column].min(), problem.X[:, column].max(), points)
    values = problem.mean[column] + problem.spread[column] * x[:, column]
    return np.asarray(values), problem.features(x)


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of what is known at a level.

    Attributes:
        found: numbers.
        bands: on the curve, in units of the target.
        cut: what the seconds left out. Empty for nothing.
    """

    found: dict[str, float | int | None]
    bands: dict[str, FloatArray] = field(default_factory=dict)
    cut: str = ""


def _bands(region: ConfidenceRegion, problem: RegionProblem, curve: FloatArray, clock: Budget) -> _Part:
    """Return a level's radius, mean widths at the data, and bands on the curve."""
    ellipsoid, quadratic, cut = region.ellipsoid(), region.quadratic, False
    bands: dict[str, Band] = {}
    widths: dict[str, Band] = {}
    for rows, kept in ((curve, bands), (region.objective.design, widths)):
        kept["ellipsoid"] = kept["pointwise"] = ellipsoid_band(ellipsoid, rows)
        if clock.exhausted:
            cut = True
        else:
            kept["pointwise"] = pointwise_band(quadratic, region.q, rows)
    found = {
        f"{name}_width": finite_or_none(problem.unit * float(np.mean(band.upper - band.lower)))
        for name, band in widths.items()
    }
    drawn = {
        f"{name}_{end}": problem.offset + problem.unit * getattr(band, end)
        for name, band in bands.items()
        for end in ("lower", "upper")
    }
    radius = finite_or_none(ellipsoid.radius)
    return _Part({"radius": radius, **found}, drawn, "ellipsoid band for pointwise one" if cut else "")


def _rays(region: ConfidenceRegion, rays: int, rng: np.random.Generator, clock: Budget) -> _Part:
    """Return what a level's rays found, as many as there are seconds for."""
    ellipsoid = region.ellipsoid()
    directions = isotropic_directions(rays, np.linalg.inv(region.quadratic.triangle), rng)
    step = rays if clock.seconds is None else RAYS_AT_ONCE
    seen, unbounded, members, outside = 0, 0, 0, 0
    while seen < rays and not clock.exhausted:
        boundary = region.boundary(directions[seen : seen + step])
        alphas = sample_members(boundary, region.contains, "region's metric", rng).alphas
        seen += len(boundary.directions)
        unbounded += int(np.count_nonzero(boundary.unbounded))
        members += len(alphas)
        outside += int(np.count_nonzero(~ellipsoid.contains(alphas)))
    found: dict[str, float | int | None] = {
        "unbounded_share": unbounded / seen if seen else None,
        "members": members,
        "members_outside_ellipsoid": outside,
    }
    if seen == rays:
        return _Part(found)
    return _Part({**found, "rays": seen}, cut=f"{seen} of {rays} rays")


MOST_NAMED = 4
"""Of the inputs that are held, said with their values."""


def draw(report: Report[RegionSettings]) -> None:
    """Draw the estimate with pointwise bands at every level, and the widest level's ellipsoid band, along an input."""
    import pandas as pd

    data, settings, records = load(report.request.require_dataset()), report.settings, report.records()
    column = input_number(data, settings.along)
    size = (5.4 * len(records), 4.6)
    held = _held(report, column)
    with report.figure("region", columns=len(records), size=size, sharey=True, remark=held) as drawing:
        for ax, record in zip(drawing.axes, records, strict=True):
            _draw_bands(ax, record, settings)
            ax.set_title(MODELS[str(record.axes["model"])].title)
        drawing.name_axes(_named(data.input_names[column], data.units), _named(data.target_names[0], data.units))
        drawing.legend("below", columns=2)
        frames = [
            pd.DataFrame({"model": record.axes["model"]} | {k: v for k, v in record.arrays.items() if k != "ranks"})
            for record in records
        ]
        drawing.data = pd.concat(frames, ignore_index=True)


def _held(report: Report[RegionSettings], column: int) -> str:
    """Return where the other inputs are held: at their medians over the rows of the region."""
    data = load(report.request.require_dataset())
    others = [number for number in range(len(data.input_names)) if number != column]
    if not others:
        return ""
    if len(others) > MOST_NAMED:
        return f"the other {len(others)} inputs at their medians"
    rows = (split_rows(data, params) for params in region_tasks(report.request))
    medians = np.array([np.median(each.X[each.remainder], axis=0) for each in rows])
    lows, highs = medians.min(axis=0), medians.max(axis=0)  # models may leave out other rows
    listed = [
        f"{data.input_names[number]} = "
        + " to ".join(dict.fromkeys(f"{value:.4g}" for value in (lows[number], highs[number])))
        for number in others
    ]
    return f"other inputs at their medians: {', '.join(listed)}"


def _draw_bands(ax: Axes, record: Record, settings: RegionSettings) -> None:
    """Draw a panel. What is unbounded is written in it, as the legend is of all panels."""
    arrays, unbounded = record.arrays, []
    levels = sorted(settings.excluded)
    for depth, q in enumerate(levels):
        lower, upper = arrays[f"pointwise_lower_{q}"], arrays[f"pointwise_upper_{q}"]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        color = tint(BLUE, 0.2 + 0.5 * depth / len(levels))
        label = f"pointwise extremes, 1 - q/m = {1.0 - q / settings.m:g}"
        if not bounded.any():
            unbounded.append(label)
            continue
        ax.fill_between(arrays["x"], lower, upper, where=bounded, color=color, linewidth=0, label=label)
    label = f"ellipsoid, 1 - q/m = {1.0 - levels[0] / settings.m:g}"
    ends = [arrays[f"ellipsoid_{end}_{levels[0]}"] for end in ("lower", "upper")]
    if np.isfinite(ends).any():
        for values, named in zip(ends, (label, "_"), strict=True):
            ax.plot(arrays["x"], np.where(np.isfinite(values), values, np.nan), "--", color="0.3", label=named)
    else:
        unbounded.append(label)
    ax.plot(arrays["x"], arrays["estimate"], color=VERMILION, label="estimate")
    if unbounded:
        text = "\n".join(["unbounded:", *unbounded])
        ax.text(0.02, 0.98, text, transform=ax.transAxes, fontsize=8, verticalalignment="top")


def _named(name: str, units: object) -> str:
    unit = units.get(name) if hasattr(units, "get") else None
    return f"{name} ({unit or 'own units'})"


LABELS = {
    "confidence": "1 - q/m",
    "radius": "ellipsoid radius",
    "members": "members sampled",
    "n": "data",
    "coefficients": "p",
}


def summarise(report: Report[RegionSettings]) -> list[Statistic]:
    """Write sizes of regions and bands and the ranks of candidates. Draw the bands along one input."""
    records, caption = report.records(), _caption(report.request)
    sizes = size_table(records, report.settings)
    report.table(sizes, "region", caption, LABELS)
    candidates = candidate_table(records, report.settings)
    report.table(candidates, "region_candidates", f"{caption}, which functions are members")
    report.answer.extend(_sentences(report))
    draw(report)
    outside = int(sizes["members_outside_ellipsoid"].sum())
    found = [Statistic("members_outside_ellipsoid", outside, n=int(sizes["members"].sum()))]
    levels = [(record, q) for record in records for q in report.settings.excluded]
    for (record, q), (_, row) in zip(levels, sizes.iterrows(), strict=True):
        axes = {"model": row["model"], "q": row["q"]}
        width = statistic_name("pointwise_width", **axes)
        found.append(Statistic(width, float(row["pointwise_width"]), n=int(row["n"])))
        seen = record.metrics.get(f"rays_{q}")  # where the seconds ended
        if rays := report.settings.rays if seen is None else int(seen):
            unbounded = proportion(round(float(row["unbounded_share"]) * rays), rays)
            found.append(Statistic.of(statistic_name("unbounded_share", **axes), unbounded))
    return found


def _sentences(report: Report[RegionSettings]) -> Iterator[str]:
    """Yield what the widest band of each model says."""
    data = load(report.request.require_dataset())
    q, target = min(report.settings.excluded), data.target_names[0]
    for params in region_tasks(report.request):
        merged = split_rows(data, params).merged
        if merged:
            model = MODELS[params.model]
            yield f"{model.title}: {merged} of {len(data.X)} rows are {model.merged}."
    for record in report.records():
        confidence, width = 1.0 - q / report.settings.m, mean_width(record, q)
        yield band_holds(confidence, str(record.axes["model"]), width, target, report.settings.group)


def mean_width(record: Record, q: int) -> float | None:
    """Return the mean width of the pointwise band of confidence 1 - q/m. None if it is unbounded."""
    name = f"pointwise_width_{q}"
    return None if record.metrics[name] is None else record.number(name)


def size_table(records: Sequence[Record], settings: RegionSettings) -> pd.DataFrame:
    """Return one row per model and level. Infinite sizes where the region is unbounded."""
    import pandas as pd

    rows = []
    for record in records:
        for q in settings.excluded:
            row: dict[str, object] = {"model": MODELS[str(record.axes["model"])].title, "q": q, "m": settings.m}
            row["confidence"] = 1.0 - q / settings.m
            for name in ("radius", "pointwise_width", "ellipsoid_width"):
                row[name] = np.inf if record.metrics[f"{name}_{q}"] is None else record.number(f"{name}_{q}")
            row["unbounded_share"] = record.number(f"unbounded_share_{q}")
            for name in ("members", "members_outside_ellipsoid"):
                row[name] = int(record.number(f"{name}_{q}"))
            row |= {name: int(record.number(name)) for name in ("n", "coefficients")}
            rows.append(row)
    return pd.DataFrame(rows)


def candidate_table(records: Sequence[Record], settings: RegionSettings) -> pd.DataFrame:
    """Return rank and membership of each candidate function. A candidate is a member where rank <= m - q."""
    import pandas as pd

    rows = []
    for record in records:
        for name, rank in zip(CANDIDATES, record.arrays["ranks"], strict=True):
            member = {
                f"member at {1.0 - q / settings.m:g}": "yes" if rank <= settings.m - q else "no"
                for q in settings.excluded
            }
            rows.append(
                {"model": MODELS[str(record.axes["model"])].title, "function": name, "rank": int(rank), **member}
            )
    return pd.DataFrame(rows)


def _caption(request: Request[RegionSettings]) -> str:
    data = request.require_dataset()
    name = data.shown_name
    target = load(data).target_names[0]
    return (
        f"{name}: regions for the noise's {request.settings.group}, widths in units of {target}. Exact if the function "
        "is in the model's span"
    )


EXPERIMENTS.register("perturbation/region")(
    Experiment(
        RegionSettings, plan, run, summarise, dataset_tasks=("regression",), model_keys=(), published=every_array
    )
)
