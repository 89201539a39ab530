"""perturbation/lssvm_model_space: decision lines of members of the linear LS-SVM's regions (Csáji and Kis, Fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
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
)
from gpsuite.experiments.perturbation.linear_models import (
    LABELS_NOTE,
    LinearProblem,
    LinearSettings,
    compass,
    confidence_panels,
    confidence_text,
    linear_tasks,
    two_classes,
)
from gpsuite.experiments.tasks import INLINE
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLUE, SKY, VERMILION
from gpsuite.statistics.estimates import AS_IF_INDEPENDENT, proportion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

INSIDE = 1.0 - 1e-6  # of the way to the boundary: decided by the rank test, not by rounding
LINES = 90  # drawn in a panel


@dataclass(frozen=True)
class BundleTask:
    """The boundary members of one region and how they classify the data."""

    problem: LinearProblem = field(metadata=INLINE)
    kind: str = "lssvm_model_space"


def plan(request: Request[LinearSettings]) -> list[Task[BundleTask]]:
    """Return one task per draw of perturbations and q."""
    return list(linear_tasks(request, BundleTask))


def run(task: Task[BundleTask], shared: SharedWork) -> Outcome:
    """Find the boundary members and how they classify the data.

    The arrays hold the members w, one a ray, the estimate, the inputs and the labels.
    """
    problem, dataset = task.params.problem, task.require_dataset()
    region = problem.region(dataset)
    boundary = region.boundary(compass(problem.rays))
    members = region.estimate + INSIDE * (boundary.members - region.estimate)
    members = members[region.contains(members)]
    X, y = two_classes(dataset)
    metrics = {
        "members": len(members),
        "unbounded_share": boundary.unbounded_share,
        "returning_share": boundary.returning,
        "angle_degrees": spread_of_normals(members, region.estimate),
        "estimate_accuracy": float(np.mean(np.sign(X @ region.estimate) == y)),
        **agreement(members, region.estimate, X),
    }
    arrays = {"members": members, "estimate": region.estimate, "X": X, "y": y}
    text = f"{metrics['points_as_estimate']:.1%} of the data classified as the estimate does"
    return Outcome(metrics, arrays=arrays, headline=text)


def agreement(members: FloatArray, estimate: FloatArray, X: FloatArray) -> dict[str, float]:
    """Return the shares of members [J, 2] that classify all of X [n, 2] as the estimate does, and of single points."""
    same = np.sign(members @ X.T) == np.sign(X @ estimate)
    return {"all_as_estimate": float(np.mean(same.all(axis=1))), "points_as_estimate": float(np.mean(same))}


def spread_of_normals(members: FloatArray, estimate: FloatArray) -> float:
    """Return the largest angle, in degrees, between a member's normal w [J, 2] and the estimate's."""
    cross = members[:, 1] * estimate[0] - members[:, 0] * estimate[1]
    return float(np.degrees(np.abs(np.arctan2(cross, members @ estimate)).max()))


def summarise(report: Report[LinearSettings]) -> list[Statistic]:
    """Write the table of bundles and the figure. Return nestedness and the classification of the data."""
    settings, records = report.settings, report.records()
    caption = (
        f"Boundary members of the linear LS-SVM's regions, mean over {settings.draws} sets of perturbations; sampler: "
        f"{settings.rays} rays equally spaced in angle, exact ends; {LABELS_NOTE}"
    )
    report.table(bundle_table(records, settings.m), "bundles", caption)
    shown = report.records(draw=0)
    if shown:
        _draw(report, shown)
    return statements(report.request, records)


def bundle_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return means by q."""
    import pandas as pd

    names = ("members", "angle_degrees", "points_as_estimate", "all_as_estimate", "unbounded_share", "returning_share")
    rows = []
    for q in dict.fromkeys(int(record.axes["q"]) for record in records):
        own = [record for record in records if record.axes["q"] == q]
        means = {metric(name).heading: float(np.mean([r.number(name) for r in own])) for name in names}
        rows.append({"p": confidence_text(q, m), "draws": len(own), **means})
    return pd.DataFrame(rows)


def statements(request: Request[LinearSettings], records: Sequence[Record]) -> list[Statistic]:
    """Return whether members stay members at the next larger p, and how members classify the data."""
    members = [int(record.number("members")) for record in records]
    strict = sum(round(n * r.number("all_as_estimate")) for n, r in zip(members, records, strict=True))
    points = float(np.mean([record.number("points_as_estimate") for record in records]))
    return [
        claim("share_regions_nested", nested(request, records)),
        Statistic.of(
            "share_classified_as_estimate",
            proportion(strict, sum(members), AS_IF_INDEPENDENT),
            note=f"all data as the estimate does. Single data: {points:.4f}",
        ),
    ]


def nested(request: Request[LinearSettings], records: Sequence[Record]) -> list[bool]:
    """Return, for each draw and step to the next smaller q, whether all members of the one region are in the other."""
    tasks = {(task.axes["draw"], task.axes["q"]): task for task in plan(request)}
    dataset = request.require_dataset()
    found = []
    for draw in dict.fromkeys(record.axes["draw"] for record in records):
        own = [record for record in records if record.axes["draw"] == draw]
        own.sort(key=lambda record: -int(record.axes["q"]))
        for smaller, larger in pairwise(own):
            region = tasks[draw, larger.axes["q"]].params.problem.region(dataset)
            found.append(bool(region.contains(smaller.arrays["members"]).all()))
    return found


def _draw(report: Report[LinearSettings], records: Sequence[Record]) -> None:
    """Draw the data and the decision lines of boundary members, one panel per q."""
    import pandas as pd

    with confidence_panels(report, "model_space", records, (3.3, 3.1)) as drawing:
        m = report.settings.m
        lines = [_panel(ax, record, m) for ax, record in zip(drawing.axes, records, strict=False)]
        drawing.name_axes("x1", "x2")
        drawing.data = pd.concat(lines, ignore_index=True)


def _panel(ax: Axes, record: Record, m: int) -> pd.DataFrame:
    """Draw one q. Return the weights of the lines shown."""
    import pandas as pd

    X, y, estimate = record.arrays["X"], record.arrays["y"], record.arrays["estimate"]
    members = record.arrays["members"]
    members = members[:: max(1, len(members) // LINES)]
    for index, w in enumerate(members):
        label = "decision lines of boundary members" if index == 0 else None
        ax.axline((0.0, 0.0), (-w[1], w[0]), color=SKY, alpha=0.35, linewidth=0.8, label=label, zorder=1)
    ax.axline((0.0, 0.0), (-estimate[1], estimate[0]), color="black", label="decision line of the estimate")
    for value, marker, colour in ((1.0, "o", BLUE), (-1.0, "^", VERMILION)):
        part = X[y == value]
        ax.plot(part[:, 0], part[:, 1], marker, color=colour, markersize=4, label=f"class {value:+.0f}")
    ax.set_title(confidence_text(int(record.axes["q"]), m), fontsize=10)
    reach = 1.05 * np.abs(X).max()
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    q = record.axes["q"]
    weights = pd.DataFrame(np.vstack([estimate, members]), columns=["w1", "w2"])
    return weights.assign(q=q, line=["estimate"] + ["member"] * len(members))


EXPERIMENTS.register("perturbation/lssvm_model_space")(
    Experiment(LinearSettings, plan, run, summarise, parts=("draws", "q_values"), model_keys=(), published=every_array)
)
