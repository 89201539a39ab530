"""perturbation/region: confidence regions and bands on any regression dataset, a user's CSV included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    finite_or_none,
)
from gpsuite.experiments.perturbation.region_data import (
    MODELS,
    FloatArray,
    Problem,
    RegionSettings,
    input_number,
    read_problem,
)
from gpsuite.methods.perturbation.bands import ellipsoid_band, pointwise_band
from gpsuite.methods.perturbation.region import Region
from gpsuite.methods.perturbation.sampling import isotropic_directions, sample_members
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

VERSION = 1
LABELS = {
    "confidence": "1 - q/m",
    "radius": "ellipsoid radius",
    "pointwise_width": "mean width, pointwise band",
    "ellipsoid_width": "mean width, ellipsoid band",
    "unbounded_share": "share of unbounded rays",
    "members": "members sampled",
    "members_outside_ellipsoid": "of them outside the ellipsoid",
    "n": "data",
    "coefficients": "p",
}
CANDIDATES = {"estimate": 1.0, "half of it": 0.5, "zero function": 0.0, "twice the estimate": 2.0}


def plan(request: Request) -> list[Task]:
    """Return one task per model; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: as `read_problem` and `input_number`.
    """
    settings: RegionSettings = request.settings
    dataset = _dataset(request)
    column = input_number(load(dataset), settings.along)
    tasks = []
    names = ("group", "m", "excluded", "centres", "lengthscale", "penalty", "C", "preparation", "rows")
    for model in settings.models:
        params = {
            "kind": "perturbation_region",
            "model": model,
            "seed": derived_seed(request.seed, "region"),
            "along": column,
            **{name: getattr(settings, name) for name in (*names, "points", "rays")},
        }
        read_problem(dataset, model, params)
        label = f"{MODELS[model]}  {settings.group}, m={settings.m}"
        tasks.append(Task(request.experiment, label, {"model": model}, params, dataset, VERSION, cost=2.0))
    return tasks


def run(task: Task, shared: SharedWork) -> Outcome:
    """Compute bands on a curve and at the data, members along rays, and ranks of some candidates, at every level."""
    if task.dataset is None:
        raise ValueError("a task of perturbation/region needs a dataset")
    params = task.params
    problem = read_problem(task.dataset, str(params["model"]), params)
    values, curve = _curve(problem, int(params["along"]), int(params["points"]))
    metrics: dict[str, float | int | str | bool | None] = {
        "n": len(problem.X),
        "coefficients": len(problem.region.estimate),
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "x": values,
        "estimate": problem.offset + problem.unit * (curve @ problem.region.estimate),
    }
    for q in params["excluded"]:
        region = replace(problem.region, q=q)
        found, bands = _level(
            region, problem, curve, int(params["rays"]), stream(int(params["seed"]), "rays")
        )
        metrics |= {f"{name}_{q}": value for name, value in found.items()}
        arrays |= {f"{name}_{q}": value for name, value in bands.items()}
    candidates = np.outer(list(CANDIDATES.values()), problem.region.estimate)
    arrays["ranks"] = problem.region.ranks(candidates)
    return Outcome(metrics, arrays=arrays, headline=f"n={metrics['n']}, p={metrics['coefficients']}")


def _curve(problem: Problem, column: int, points: int) -> tuple[FloatArray, FloatArray]:
    """Return values of one input over its range, others at their median, and rows of Phi there."""
    x = np.tile(np.median(problem.X, axis=0), (points, 1))
    x[:, column] = np.linspace(problem.X[:, column].min(), problem.X[:, column].max(), points)
    values = problem.mean[column] + problem.spread[column] * x[:, column]
    return np.asarray(values), _features(problem, x)


def _features(problem: Problem, x: FloatArray) -> FloatArray:
    if problem.region.features is None:
        raise ValueError("the region has no map from inputs to features")
    return problem.region.features(x)


def _level(
    region: Region, problem: Problem, curve: FloatArray, rays: int, rng: np.random.Generator
) -> tuple[dict[str, float | int | None], dict[str, FloatArray]]:
    """Return a level's numbers, and its bands on the curve, both in units of the target."""
    ellipsoid, at_data = region.ellipsoid(), region.objective.design
    basis = np.linalg.inv(region.quadratic.triangle)
    boundary = region.boundary(isotropic_directions(rays, basis, rng))
    members = sample_members(boundary, region.contains, "region's metric", rng)
    tight, outer = pointwise_band(region.quadratic, region.q, curve), ellipsoid_band(ellipsoid, curve)
    widths = {
        "pointwise_width": pointwise_band(region.quadratic, region.q, at_data),
        "ellipsoid_width": ellipsoid_band(ellipsoid, at_data),
    }
    found: dict[str, float | int | None] = {
        "radius": finite_or_none(ellipsoid.radius),
        **{
            name: finite_or_none(problem.unit * float(np.mean(band.upper - band.lower)))
            for name, band in widths.items()
        },
        "unbounded_share": boundary.unbounded_share,
        "members": len(members.alphas),
        "members_outside_ellipsoid": int(np.count_nonzero(~ellipsoid.contains(members.alphas))),
    }
    bands = {
        f"{name}_{end}": problem.offset + problem.unit * getattr(band, end)
        for name, band in (("pointwise", tight), ("ellipsoid", outer))
        for end in ("lower", "upper")
    }
    return found, bands


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write sizes of regions and bands and the ranks of candidates; draw the bands along one input."""
    usable = [record for record in records if record.usable]
    if not usable:
        return []
    settings: RegionSettings = request.settings
    caption = _caption(request, note)
    sizes = size_table(usable, settings)
    write_table(sizes, folder / "tables", "region", caption, LABELS)
    candidates = candidate_table(usable, settings)
    write_table(candidates, folder / "tables", "region_candidates", f"{caption}; which functions are members")
    _draw(usable, request, folder / "figures", note)
    outside = int(sizes["members_outside_ellipsoid"].sum())
    found = [Statistic("members_outside_ellipsoid", outside, n=int(sizes["members"].sum()))]
    for _, row in sizes.iterrows():
        axes = {"model": row["model"], "q": row["q"]}
        for metric in ("pointwise_width", "unbounded_share"):
            found.append(Statistic(statistic_name(metric, **axes), float(row[metric]), n=int(row["n"])))
    return found


def size_table(records: Sequence[Record], settings: RegionSettings) -> pd.DataFrame:
    """Return one row per model and level; infinite sizes where the region is unbounded."""
    import pandas as pd

    rows = []
    for record in records:
        for q in settings.excluded:
            row: dict[str, object] = {"model": MODELS[str(record.axes["model"])], "q": q, "m": settings.m}
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
    """Return rank and membership of each candidate function; a candidate is a member where rank <= m - q."""
    import pandas as pd

    rows = []
    for record in records:
        for name, rank in zip(CANDIDATES, record.arrays["ranks"], strict=True):
            member = {
                f"member at {1.0 - q / settings.m:g}": "yes" if rank <= settings.m - q else "no"
                for q in settings.excluded
            }
            rows.append(
                {"model": MODELS[str(record.axes["model"])], "function": name, "rank": int(rank), **member}
            )
    return pd.DataFrame(rows)


def _dataset(request: Request) -> PreparedDataset:
    if request.dataset is None:
        raise UserError("dataset: perturbation/region needs one", key="dataset")
    return request.dataset


def _caption(request: Request, note: str | None) -> str:
    data, settings = _dataset(request), request.settings
    name = Path(data.spec["path"]).name if "path" in data.spec else data.name
    target = load(data).target_names[0]
    return (
        f"{name}: regions for the noise's {settings.group}, widths in units of {target}; exact if the function "
        f"is in the model's span{f' ({note})' if note else ''}"
    )


def _draw(records: Sequence[Record], request: Request, folder: Path, note: str | None) -> None:
    """Draw the estimate with pointwise bands at every level, and the widest level's ellipsoid band, along an input."""
    import matplotlib.pyplot as plt
    import pandas as pd

    data = load(_dataset(request))
    settings: RegionSettings = request.settings
    column = input_number(data, settings.along)
    with figure_style():
        fig, axes = plt.subplots(
            1, len(records), figsize=(5.4 * len(records), 4.6), sharey=True, squeeze=False
        )
        for ax, record in zip(axes[0], records, strict=True):
            _bands(ax, record, settings)
            ax.set_title(MODELS[str(record.axes["model"])])
            ax.set_xlabel(_named(data.input_names[column], data.units))
        axes[0, 0].set_ylabel(_named(data.target_names[0], data.units))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)
        frames = [
            pd.DataFrame(
                {"model": record.axes["model"]} | {k: v for k, v in record.arrays.items() if k != "ranks"}
            )
            for record in records
        ]
        save_figure(fig, pd.concat(frames, ignore_index=True), folder, "region", note)


def _bands(ax: Axes, record: Record, settings: RegionSettings) -> None:
    arrays = record.arrays
    levels = sorted(settings.excluded)
    for depth, q in enumerate(levels):
        lower, upper = arrays[f"pointwise_lower_{q}"], arrays[f"pointwise_upper_{q}"]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        shade = 0.15 + 0.5 * depth / len(levels)
        label = f"pointwise extremes, 1 - q/m = {1.0 - q / settings.m:g}"
        ax.fill_between(
            arrays["x"], lower, upper, where=bounded, color="#0072B2", alpha=shade, linewidth=0, label=label
        )
    for number, end in enumerate(("lower", "upper")):
        label = f"ellipsoid, 1 - q/m = {1.0 - levels[0] / settings.m:g}" if number == 0 else "_"
        values = arrays[f"ellipsoid_{end}_{levels[0]}"]
        ax.plot(arrays["x"], np.where(np.isfinite(values), values, np.nan), "--", color="0.3", label=label)
    ax.plot(arrays["x"], arrays["estimate"], color="#D55E00", label="estimate")


def _named(name: str, units: object) -> str:
    unit = units.get(name) if hasattr(units, "get") else None
    return f"{name} ({unit or 'own units'})"


EXPERIMENTS.register("perturbation/region")(
    Experiment(RegionSettings, plan, run, summarise, dataset_tasks=("regression",))
)
