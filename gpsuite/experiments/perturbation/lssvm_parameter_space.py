"""perturbation/lssvm_parameter_space: regions and ellipsoids of the linear LS-SVM (Csáji and Kis, Fig. 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import chdtri

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import (
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
from gpsuite.experiments.perturbation.linear_models import (
    LABELS_NOTE,
    LinearProblem,
    LinearSettings,
    compass,
    confidence_panels,
    confidence_text,
    linear_tasks,
)
from gpsuite.experiments.settings import Count
from gpsuite.experiments.tasks import INLINE
from gpsuite.methods.perturbation.bands import NormBall
from gpsuite.methods.perturbation.quadratic import KernelRidge
from gpsuite.methods.perturbation.ranks import SignChanges
from gpsuite.methods.perturbation.rays import kernel_directions
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.palette import BLACK, BLUE, VERMILION
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import finite, mean, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class ParameterSpaceSettings(LinearSettings):
    """Settings of the parameter space.

    Attributes:
        segments: segments from sampled members to the estimate that are tested for star-convexity. Half are of the
            linear model, half of kernel ridge. They are divided among draws and q.
    """

    segments: Count


@dataclass(frozen=True)
class RegionTask:
    """One region of the linear model with its ellipsoids. `segments` are tested for star-convexity."""

    problem: LinearProblem = field(metadata=INLINE)
    segments: int
    kind: str = "lssvm_parameter_space"


@dataclass(frozen=True)
class RidgeTask:
    """The star-convexity of kernel ridge on generated data: `segments` of its region at q of m."""

    m: int
    q: int
    segments: int
    seed: int
    kind: str = "ridge_star"


def plan(request: Request[ParameterSpaceSettings]) -> list[Task[object]]:
    """Return one task per draw of perturbations and q, and as many on the star-convexity of kernel ridge."""
    settings = request.settings
    pairs = settings.draws * len(settings.q_values)
    segments = -(-settings.segments // (2 * pairs))
    return [
        *linear_tasks(request, partial(RegionTask, segments=segments)),
        *_ridge_tasks(replace(request, dataset=None), segments),
    ]


def _ridge_tasks(request: Request[ParameterSpaceSettings], segments: int) -> Iterator[Task[RidgeTask]]:
    m = request.settings.m
    for draw in range(request.settings.draws):
        seed = derived_seed(request.seed, "ridge", draw)
        for q in request.settings.q_values:
            yield request.task(
                RidgeTask(m, q, segments, seed),
                label=f"kernel ridge, star-convexity  draw {draw}  q {q} of {m}",
                axes={"model": "krr", "draw": draw, "q": q},
                cost=0.3,
            )


RIDGE_ROWS, RIDGE_LENGTHSCALE, RIDGE_PENALTY = 20, 0.3, 0.05
RIDGE_REACH = 10.0  # the ball that ends the rays of kernel ridge, in RKHS norms of its estimate
INSIDE = 1.0 - 1e-6  # of the way to the boundary: decided by the rank test, not by rounding
FAR = 1e3  # a far point, in largest distances to the boundary


def run_region(task: Task[RegionTask], shared: SharedWork) -> Outcome:
    """Measure one region, its ellipsoid and the asymptotic ellipse."""
    problem = task.params.problem
    region, rays = problem.region(task.require_dataset()), compass(problem.rays)
    boundary, ellipsoid = region.boundary(rays), region.ellipsoid()
    steps, shape = boundary.outside, ellipsoid.triangle.T @ ellipsoid.triangle
    area = polygon_area(boundary.centre + steps[:, None] * rays)
    asymptotic = asymptotic_radius(region)
    rng = stream(problem.seed, "segments", problem.q)
    violations, members = star_violations(region, rays, steps, task.params.segments, rng)
    metrics = {
        "region_area": finite_or_none(area),
        "ellipsoid_area": finite_or_none(ellipse_area(shape, ellipsoid.radius)),
        "asymptotic_area": ellipse_area(_information(region), asymptotic),
        "radius": finite_or_none(ellipsoid.radius),
        "unbounded_share": boundary.unbounded_share,
        "returning_share": boundary.returning,
        "segments": len(members),
        "star_violations": violations,
        "outside_ellipsoid": int(np.count_nonzero(~ellipsoid.contains(members))),
        **order_of_ranks(region, region.estimate + FAR * float(steps.max()) * rays[0]),
    }
    arrays = {
        "estimate": region.estimate,
        "region": boundary.centre + steps[:, None] * rays,
        "ellipsoid": ellipse_points(region.estimate, shape, ellipsoid.radius, rays),
        "asymptotic": ellipse_points(region.estimate, _information(region), asymptotic, rays),
    }
    return Outcome(metrics, arrays=arrays, headline=f"area {area:.4f}")


def run_ridge(task: Task[RidgeTask], shared: SharedWork) -> Outcome:
    """Test segments of kernel ridge with a coefficient for each datum. A norm ball ends its rays."""
    seed, q, segments = task.params.seed, task.params.q, task.params.segments
    rng = np.random.default_rng(seed)
    sample = kernel_regression(rng, RIDGE_ROWS, function=FUNCTIONS["sin_2x"])
    X = sample.X / RIDGE_LENGTHSCALE
    K = kappa("squared_exponential", squared_distances(X, X))
    drawn = SignChanges().draw(RIDGE_ROWS, task.params.m, rng)
    region = ConfidenceRegion(KernelRidge(K, RIDGE_PENALTY), sample.y, drawn, q)
    norm = float(NormBall(K, 1.0).norms(region.estimate[None])[0])
    rays = kernel_directions(min(segments, 1000), K, "values", stream(seed, "rays", q))
    boundary = region.boundary(rays, NormBall(K, RIDGE_REACH * norm))
    violations, members = star_violations(region, rays, boundary.inside, segments, stream(seed, "segments", q))
    metrics = {
        "segments": len(members),
        "star_violations": violations,
        "unbounded_share": region.boundary(rays).unbounded_share,
        "returning_share": boundary.returning,
    }
    return Outcome(metrics, headline=f"{violations} of {len(members)} segments leave the region")


def star_violations(
    region: ConfidenceRegion, rays: FloatArray, steps: FloatArray, count: int, rng: np.random.Generator
) -> tuple[int, FloatArray]:
    """Return how many of `count` segments from members to the estimate leave the region, and the members.

    Members: uniform rays, uniform shares of the way to their ends, confirmed by the rank test. A segment is tested
    at one uniform point of it.

    Args:
        region: of a quadratic objective.
        rays: directions [J, p].
        steps: to the boundary, finite [J].
        count: number of segments drawn.
        rng: source of rays, members and points.
    """
    chosen = rng.integers(len(rays), size=count)
    share = rng.uniform(size=(count, 1)) * INSIDE
    members = region.estimate + share * steps[chosen, None] * rays[chosen]
    members = members[region.contains(members)]
    points = region.estimate + rng.uniform(size=(len(members), 1)) * (members - region.estimate)
    return int(np.count_nonzero(~region.contains(points))), members


def order_of_ranks(region: ConfidenceRegion, far: FloatArray) -> dict[str, bool]:
    """Return whether the estimate and a far point [p] are members, by the corrected and by the printed rank.

    The poster prints the rank as 1 + #{i : Z_0 < Z_i}, the other way round.
    """
    Z = region.z_values(np.vstack([region.estimate, far]))
    printed = 1 + np.count_nonzero(Z[:, :1] < Z[:, 1:], axis=1) <= region.m - region.q
    corrected = region.contains(np.vstack([region.estimate, far]))
    return {
        "holds_estimate": bool(corrected[0]),
        "excludes_far": not corrected[1],
        "printed_holds_estimate": bool(printed[0]),
        "printed_excludes_far": not printed[1],
    }


def polygon_area(points: FloatArray) -> float:
    """Return the area within a closed polygon of vertices [J, 2] in counter-clockwise order. Inf if one is infinite."""
    if not np.all(np.isfinite(points)):
        return float("inf")
    after = np.roll(points, -1, axis=0)
    return float(0.5 * np.sum(points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]))


def ellipse_area(shape: FloatArray, radius: float) -> float:
    """Return the area pi r / sqrt(det H) of d'Hd <= r in the plane."""
    return float(np.pi * radius / np.sqrt(np.linalg.det(shape)))


def ellipse_points(centre: FloatArray, shape: FloatArray, radius: float, rays: FloatArray) -> FloatArray:
    """Return the boundary [J, 2] of (w - centre)'H(w - centre) <= r along unit vectors [J, 2]."""
    steps = np.sqrt(radius / np.einsum("ji,ik,jk->j", rays, shape, rays))
    return np.asarray(centre + steps[:, None] * rays)


def _information(region: ConfidenceRegion) -> FloatArray:
    """Return Phi'Phi."""
    return np.asarray(region.objective.design.T @ region.objective.design)


def asymptotic_radius(region: ConfidenceRegion) -> float:
    """Return s^2 chi^2_{p coefficients}(1 - q/m), s^2 = |e|^2/(n - p): of least squares as n grows, for d'Phi'Phi d."""
    n, width = region.objective.design.shape
    residuals = region.y - region.objective.design @ region.estimate
    return float(residuals @ residuals / (n - width) * chdtri(width, region.q / region.m))


def total(records: Sequence[Record], name: str) -> int:
    """Return the sum of a metric over the records that have it."""
    return sum(int(record.number(name)) for record in records if name in record.metrics)


def statements(records: Sequence[Record]) -> list[Statistic]:
    """Return what the poster claims of the rank's order, star-convexity, the ellipsoids, and the areas' ratio."""
    ours = [record for record in records if record.axes["model"] == "lssvm"]
    if not ours:
        return []
    order = [all(bool(r.metrics[name]) for r in ours) for name in ("holds_estimate", "excludes_far")]
    printed = [sum(bool(r.metrics[f"printed_{name}"]) for r in ours) for name in ("holds_estimate", "excludes_far")]
    text = f"printed rule: holds the estimate in {printed[0]}, excludes the far point in {printed[1]} of {len(ours)}"
    ratios = finite([r.number("ellipsoid_area") / r.number("region_area") for r in ours])
    return [
        Statistic.of("share_corrected_rule_sensible", share(order), note=text),
        Statistic("violations_of_star_convexity", total(records, "star_violations"), n=total(records, "segments")),
        Statistic("members_outside_ellipsoid", total(ours, "outside_ellipsoid"), n=total(ours, "segments")),
        claim("share_radius_nested", nested(ours)),
        Statistic.of("ellipsoid_area_over_region_area", mean(ratios)),
    ]


def nested(records: Sequence[Record]) -> list[bool]:
    """Return, for each draw and step to the next smaller q, whether the radius is not smaller. None is infinite."""
    found = []
    for index in dict.fromkeys(record.axes["draw"] for record in records):
        own = [record for record in records if record.axes["draw"] == index]
        own.sort(key=lambda record: -int(record.axes["q"]))
        radii = [float("inf") if r.metrics["radius"] is None else r.number("radius") for r in own]
        found += [after >= before for before, after in pairwise(radii)]
    return found


def area_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return mean areas by q, over the draws in which they are finite, with the range of the ratios."""
    import pandas as pd

    rows = []
    for q in dict.fromkeys(int(record.axes["q"]) for record in records):
        areas = {
            name: np.array([record.number(name) for record in records if record.axes["q"] == q])
            for name in ("region_area", "ellipsoid_area", "asymptotic_area")
        }
        row: dict[str, object] = {"p": confidence_text(q, m), "draws": len(areas["region_area"])}
        row["region_area"] = float(np.mean(areas["region_area"]))
        for name in ("ellipsoid", "asymptotic"):
            ratio = areas[f"{name}_area"] / areas["region_area"]
            row[f"{name}_over_region"] = float(np.mean(ratio))
            row[f"{name} smallest"], row[f"{name} largest"] = float(ratio.min()), float(ratio.max())
        rows.append(row)
    return pd.DataFrame(rows)


def check_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return counts of segments, violations and rays by model and q."""
    import pandas as pd

    groups = dict.fromkeys((str(record.axes["model"]), int(record.axes["q"])) for record in records)
    rows = []
    for model, q in groups:
        own = [record for record in records if (record.axes["model"], record.axes["q"]) == (model, q)]
        rows.append(
            {
                "model": model,
                "p": confidence_text(q, m),
                "segments": total(own, "segments"),
                "segments that leave": total(own, "star_violations"),
                "members outside the ellipsoid": total(own, "outside_ellipsoid") if model == "lssvm" else None,
                "share of unbounded rays": float(np.mean([r.number("unbounded_share") for r in own])),
                "share of returning rays": float(np.mean([r.number("returning_share") for r in own])),
            }
        )
    return pd.DataFrame(rows)


CURVES = {
    "region": ("exact region", "-", BLUE),
    "ellipsoid": ("ellipsoidal outer approximation", "--", VERMILION),
    "asymptotic": ("asymptotic χ² ellipse", ":", BLACK),
}


def draw(report: Report[LinearSettings], records: Sequence[Record]) -> None:
    """Draw one panel per q on common axes, smallest confidence first."""
    with confidence_panels(report, "parameter_space", records, (3.0, 3.2)) as drawing:
        for ax, record in zip(drawing.axes, records, strict=False):
            _panel(ax, record, report.settings.m)
        drawing.name_axes("w1 (weight of x1)", "w2 (weight of x2)")
        drawing.data = _frame(records)


def _panel(ax: Axes, record: Record, m: int) -> None:
    for name, (label, style, colour) in CURVES.items():
        points = record.arrays[name]
        if np.all(np.isfinite(points)):
            closed = np.vstack([points, points[:1]])
            ax.plot(closed[:, 0], closed[:, 1], style, color=colour, label=label)
    ax.plot(*record.arrays["estimate"], "+", color="black", markersize=8, label="estimate")
    ratio = record.number("ellipsoid_area") / record.number("region_area")
    ax.set_title(f"{confidence_text(int(record.axes['q']), m)}\nellipsoid / region area {ratio:.2f}", fontsize=10)
    ax.set_aspect("equal", adjustable="box")


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    return pd.concat(
        [
            pd.DataFrame(record.arrays[name], columns=["w1", "w2"]).assign(q=record.axes["q"], curve=name)
            for record in records
            for name in CURVES
        ],
        ignore_index=True,
    )


LABELS = {"draws": "sets of perturbations"}


def summarise(report: Report[ParameterSpaceSettings]) -> list[Statistic]:
    """Write the tables of areas, of rays and star-convexity, the figure, and the statements on the claims."""
    settings, records = report.settings, report.records()
    where = f"linear LS-SVM, sign changes, m = {settings.m}; {LABELS_NOTE}"
    means = "Mean areas in the (w1, w2) plane, smallest and largest ratio over the sets of perturbations"
    report.table(area_table(report.records(model="lssvm"), settings.m), "areas", f"{means}; {where}", LABELS)
    rays = f"{settings.rays} rays equally spaced in angle (lssvm), isotropic in the values at the data (krr)"
    checks = f"Rays, star-convexity, members outside the ellipsoid; sampler: {rays}, uniform share of each"
    report.table(check_table(records, settings.m), "checks", f"{checks}; {where}")
    shown = report.records(model="lssvm", draw=0)
    if shown:
        draw(report, shown)
    return statements(records)


EXPERIMENTS.register("perturbation/lssvm_parameter_space")(
    Experiment(
        ParameterSpaceSettings,
        plan,
        {RegionTask: run_region, RidgeTask: run_ridge},
        summarise,
        parts=("draws", "segments", "q_values"),
        model_keys=(),
        published=every_array,
    )
)
