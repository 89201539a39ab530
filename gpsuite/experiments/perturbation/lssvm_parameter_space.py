"""perturbation/lssvm_parameter_space: regions and ellipsoids of the linear LS-SVM (Csáji and Kis, Fig. 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.perturbation.linear import (
    LABELS_NOTE,
    Array,
    LinearSettings,
    compass,
    confidence_text,
    linear_region,
    linear_tasks,
)
from gpsuite.experiments.perturbation.parameter_figure import draw
from gpsuite.experiments.statistics import mean_statistic, share
from gpsuite.methods.perturbation.groups import SignChanges
from gpsuite.methods.perturbation.norm_ball import NormBall
from gpsuite.methods.perturbation.objectives import KernelRidge
from gpsuite.methods.perturbation.region import Region
from gpsuite.methods.perturbation.sampling import kernel_directions
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd

RIDGE_ROWS, RIDGE_LENGTHSCALE, RIDGE_PENALTY = 20, 0.3, 0.05
RIDGE_REACH = 10.0  # the ball that ends the rays of kernel ridge, in RKHS norms of its estimate
INSIDE = 1.0 - 1e-6  # of the way to the boundary: decided by the rank test, not by rounding
FAR = 1e3  # a far point, in largest distances to the boundary


@dataclass
class ParameterSpaceSettings(LinearSettings):
    """Settings of the parameter space.

    Attributes:
        segments: from sampled members to the estimate, tested for star-convexity: half of them of the linear model,
            half of kernel ridge; shared out over draws and q.
    """

    segments: int = 100_000

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        require(self.segments >= 1, "segments", self.segments, "must be 1 or more")


def plan(request: Request) -> list[Task]:
    """Return one task per draw of perturbations and q, and as many on the star-convexity of kernel ridge."""
    return list(_tasks(request))


def _tasks(request: Request) -> Iterator[Task]:
    settings: ParameterSpaceSettings = request.settings
    pairs = settings.draws * len(settings.q_values)
    segments = -(-settings.segments // (2 * pairs))
    yield from linear_tasks(request, "lssvm_parameter_space", settings.draws, {"segments": segments})
    for index in range(settings.draws):
        for q in settings.q_values:
            params = {"kind": "ridge_star", "m": settings.m, "q": q, "segments": segments}
            yield Task(
                experiment=request.experiment,
                label=f"kernel ridge, star-convexity  draw {index}  q {q} of {settings.m}",
                axes={"model": "krr", "draw": index, "q": q},
                params={**params, "seed": derived_seed(request.seed, "ridge", index)},
                cost=0.3,
            )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Measure one region, its ellipsoid and the asymptotic ellipse; or the star-convexity of kernel ridge."""
    if task.axes["model"] == "krr":
        return _run_ridge(task)
    region, rays = linear_region(task), compass(int(task.params["rays"]))
    boundary, ellipsoid = region.boundary(rays), region.ellipsoid()
    steps, shape = boundary.outside, ellipsoid.triangle.T @ ellipsoid.triangle
    area = polygon_area(boundary.centre + steps[:, None] * rays)
    asymptotic = asymptotic_radius(region)
    rng = stream(int(task.params["seed"]), "segments", int(task.params["q"]))
    violations, members = star_violations(region, rays, steps, int(task.params["segments"]), rng)
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


def _run_ridge(task: Task) -> Outcome:
    """Test segments of kernel ridge with a coefficient for each datum; a norm ball ends its rays."""
    seed, q = int(task.params["seed"]), int(task.params["q"])
    rng = np.random.default_rng(seed)
    sample = kernel_regression(rng, RIDGE_ROWS, function=FUNCTIONS["sin_2x"])
    X = sample.X / RIDGE_LENGTHSCALE
    K = kappa("squared_exponential", squared_distances(X, X))
    drawn = SignChanges().draw(RIDGE_ROWS, int(task.params["m"]), rng)
    region = Region(KernelRidge(K, RIDGE_PENALTY), sample.y, drawn, q)
    norm = float(NormBall(K, 1.0).norms(region.estimate[None])[0])
    segments = int(task.params["segments"])
    rays = kernel_directions(min(segments, 1000), K, "values", stream(seed, "rays", q))
    boundary = region.boundary(rays, NormBall(K, RIDGE_REACH * norm))
    violations, members = star_violations(
        region, rays, boundary.inside, segments, stream(seed, "segments", q)
    )
    metrics = {
        "segments": len(members),
        "star_violations": violations,
        "unbounded_share": region.boundary(rays).unbounded_share,
        "returning_share": boundary.returning,
    }
    return Outcome(metrics, headline=f"{violations} of {len(members)} segments leave the region")


def star_violations(
    region: Region, rays: Array, steps: Array, count: int, rng: np.random.Generator
) -> tuple[int, Array]:
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


def order_of_ranks(region: Region, far: Array) -> dict[str, bool]:
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


def polygon_area(points: Array) -> float:
    """Return the area within a closed polygon of vertices [J, 2] in counter-clockwise order; inf if one is infinite."""
    if not np.all(np.isfinite(points)):
        return float("inf")
    after = np.roll(points, -1, axis=0)
    return float(0.5 * np.sum(points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]))


def ellipse_area(shape: Array, radius: float) -> float:
    """Return the area pi r / sqrt(det H) of d'Hd <= r in the plane."""
    return float(np.pi * radius / np.sqrt(np.linalg.det(shape)))


def ellipse_points(centre: Array, shape: Array, radius: float, rays: Array) -> Array:
    """Return the boundary [J, 2] of (w - centre)'H(w - centre) <= r along unit vectors [J, 2]."""
    steps = np.sqrt(radius / np.einsum("ji,ik,jk->j", rays, shape, rays))
    return np.asarray(centre + steps[:, None] * rays)


def _information(region: Region) -> Array:
    """Return Phi'Phi."""
    return np.asarray(region.objective.design.T @ region.objective.design)


def asymptotic_radius(region: Region) -> float:
    """Return s^2 chi^2_{p coefficients}(1 - q/m), s^2 = |e|^2/(n - p): of least squares as n grows, for d'Phi'Phi d."""
    n, width = region.objective.design.shape
    residuals = region.y - region.objective.design @ region.estimate
    return float(residuals @ residuals / (n - width) * chdtri(width, region.q / region.m))


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the tables of areas, of rays and star-convexity, the figure, and the statements on the claims."""
    settings: ParameterSpaceSettings = request.settings
    ours = [record for record in records if record.axes["model"] == "lssvm"]
    where = f"linear LS-SVM, sign changes, m = {settings.m}; {LABELS_NOTE}{f' ({note})' if note else ''}"
    tables = folder / "tables"
    labels = {"region_area": "region's area", "ellipsoid_over_region": "outer ellipsoid / region"}
    labels |= {"asymptotic_over_region": "asymptotic χ² ellipse / region", "draws": "sets of perturbations"}
    means = "Mean areas in the (w1, w2) plane, smallest and largest ratio over the sets of perturbations"
    write_table(area_table(ours, settings.m), tables, "areas", f"{means}; {where}", labels)
    rays = f"{settings.rays} rays equally spaced in angle (lssvm), isotropic in the values at the data (krr)"
    checks = f"Rays, star-convexity, members outside the ellipsoid; sampler: {rays}, uniform share of each"
    write_table(check_table(records, settings.m), tables, "checks", f"{checks}; {where}")
    shown = [record for record in ours if record.axes["draw"] == 0]
    draw(shown, settings, folder / "figures", note)
    return statements(records)


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
                "segments": _total(own, "segments"),
                "segments that leave": _total(own, "star_violations"),
                "members outside the ellipsoid": _total(own, "outside_ellipsoid")
                if model == "lssvm"
                else None,
                "share of unbounded rays": float(np.mean([r.number("unbounded_share") for r in own])),
                "share of returning rays": float(np.mean([r.number("returning_share") for r in own])),
            }
        )
    return pd.DataFrame(rows)


def _total(records: Sequence[Record], name: str) -> int:
    return sum(int(record.number(name)) for record in records if name in record.metrics)


def statements(records: Sequence[Record]) -> list[Statistic]:
    """Return what the poster claims of the rank's order, star-convexity, the ellipsoids, and the areas' ratio."""
    ours = [record for record in records if record.axes["model"] == "lssvm"]
    if not ours:
        return []
    order = [all(bool(r.metrics[name]) for r in ours) for name in ("holds_estimate", "excludes_far")]
    printed = [
        sum(bool(r.metrics[f"printed_{name}"]) for r in ours) for name in ("holds_estimate", "excludes_far")
    ]
    corrected = share("share_corrected_rule_sensible", order)
    text = f"printed rule: holds the estimate in {printed[0]}, excludes the far point in {printed[1]} of {len(ours)}"
    ratios = np.array([r.number("ellipsoid_area") / r.number("region_area") for r in ours])
    return [
        Statistic(corrected.name, corrected.value, n=corrected.n, note=text),
        Statistic(
            "violations_of_star_convexity", _total(records, "star_violations"), n=_total(records, "segments")
        ),
        Statistic("members_outside_ellipsoid", _total(ours, "outside_ellipsoid"), n=_total(ours, "segments")),
        share("share_radius_nested", nested(ours)),
        mean_statistic("ellipsoid_area_over_region_area", ratios[np.isfinite(ratios)]),
    ]


def nested(records: Sequence[Record]) -> list[bool]:
    """Return, for each draw and step to the next smaller q, whether the radius is not smaller; None is infinite."""
    found = []
    for index in dict.fromkeys(record.axes["draw"] for record in records):
        own = [record for record in records if record.axes["draw"] == index]
        own.sort(key=lambda record: -int(record.axes["q"]))
        radii = [float("inf") if r.metrics["radius"] is None else r.number("radius") for r in own]
        found += [after >= before for before, after in pairwise(radii)]
    return found


EXPERIMENTS.register("perturbation/lssvm_parameter_space")(
    Experiment(ParameterSpaceSettings, plan, run, summarise, parts=("draws", "segments", "q_values"))
)
