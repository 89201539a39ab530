"""robustness/runtime_mnist38: seconds for the largest class probability, by dimension and tolerance (Fig. 7).

Blaas et al. 2020, App. E. Our bound at every point, the paper's beside it at some, within a limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.robustness.classifiers import task_classifier
from gpsuite.experiments.robustness.free_inputs import available, check_words, choose
from gpsuite.experiments.robustness.runtime_claims import runtime_statistics
from gpsuite.experiments.robustness.runtime_tables import (
    boxes_table,
    draw_runtime,
    ratio_table,
    runtime_frame,
    seconds_table,
)
from gpsuite.experiments.robustness.safety_claims import dataset_statistics
from gpsuite.experiments.robustness.settings import (
    AGREEMENT,
    ClassifierSettings,
    check_distinct,
    check_positive,
    check_radius,
    model_group,
    model_params,
    request_dataset,
)
from gpsuite.methods.robustness.level_bound.posterior_products import posterior_products
from gpsuite.methods.robustness.regions import linf_ball
from gpsuite.methods.robustness.verdict import bound_names, probability_extremum
from gpsuite.models.gpc_fit import NotConvergedError
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table

VERSION = 3  # raised when the numbers of a point change
OURS = "rkhs_taylor"
MEASURED = (
    "seconds include the bound's set-up and the incumbent search; the classifier's training is not in them"
)


@dataclass
class RuntimeSettings(ClassifierSettings):
    """Settings of Fig. 7.

    Attributes:
        features: rule that chooses the free pixels: sift, gradient or shortest.
        evaluations: of the marginal likelihood in training.
        dimensions: numbers of free pixels, at the last of `tolerances`.
        gammas: radii of the L-infinity balls, pixel values from 0 to 1.
        tolerances: epsilon, increasing; all of them with `tolerance_dimension` free pixels.
        tolerance_dimension: one of `dimensions`.
        points: test points with our bound.
        boxes: limit per search with our bound.
        reference: bound set beside ours.
        reference_points: test points with it.
        reference_seconds: limit per search with it, or null.
        reference_boxes: limit per search with it.
    """

    features: str = "sift"
    evaluations: int = 10
    dimensions: list[int] = field(default_factory=lambda: list(range(1, 11)))
    gammas: list[float] = field(default_factory=lambda: [0.125, 0.25])
    tolerances: list[float] = field(default_factory=lambda: [0.005, 0.01, 0.015, 0.02, 0.025])
    tolerance_dimension: int = 5
    points: int = 50
    boxes: int = 100000
    reference: str = "paper"
    reference_points: int = 5
    reference_seconds: float | None = 10.0
    reference_boxes: int = 100000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        super().check()
        for name in ("dimensions", "gammas", "tolerances"):
            values = getattr(self, name)
            check_distinct(name, values)
            require(sorted(values) == values, name, values, "must increase")
        check_words([f"{self.features}{count}" for count in self.dimensions], max(self.dimensions))
        known = self.tolerance_dimension in self.dimensions
        require(known, "tolerance_dimension", self.tolerance_dimension, f"must be one of {self.dimensions}")
        for gamma in self.gammas:
            check_radius("gammas", gamma)
        for tolerance in self.tolerances:
            check_positive("tolerances", tolerance)
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        require(
            self.reference in bound_names(), "reference", self.reference, f"valid: {', '.join(bound_names())}"
        )
        for name in ("points", "reference_points"):
            value = getattr(self, name)
            require(1 <= value <= self.test_rows, name, value, f"must be 1 to {self.test_rows}")
        for name in ("boxes", "reference_boxes"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "must be 0 or more")
        seconds = self.reference_seconds
        require(seconds is None or seconds > 0, "reference_seconds", seconds, "must be above 0")

    def cells(self) -> Iterator[tuple[float, int, float]]:
        """Yield gamma, dimension and tolerance of every cell."""
        last = self.tolerances[-1]
        for gamma in self.gammas:
            for dimension in self.dimensions:
                yield gamma, dimension, last
            for tolerance in self.tolerances[:-1]:
                yield gamma, self.tolerance_dimension, tolerance


def plan(request: Request) -> list[Task]:
    """Return one task per bound, cell and point.

    Raises:
        UserError: if there are more free pixels than inputs.
    """
    settings: RuntimeSettings = request.settings
    dataset = request_dataset(request)
    inputs = int(dataset.spec["n_inputs"])
    check_words([f"{settings.features}{count}" for count in settings.dimensions], inputs)
    rule = available(f"{settings.features}1")[:-1]
    bounds = {
        OURS: (settings.points, settings.boxes, None),
        settings.reference: (settings.reference_points, settings.reference_boxes, settings.reference_seconds),
    }
    tasks = []
    for method, options in request.methods.items():
        model = model_params(request, settings, options, 0, settings.evaluations)
        for bound, (points, boxes, seconds) in bounds.items():
            for gamma, d, epsilon in settings.cells():
                search = {"gamma": gamma, "features": f"{rule}{d}", "tolerance": epsilon, "bound": bound}
                limits = {"boxes": boxes, "seconds": seconds}
                label = f"{options.title}  {bound}  gamma {gamma:g}  d {d}  eps {epsilon:g}"
                tasks += [
                    Task(
                        experiment=request.experiment,
                        label=f"{label}  point {point}",
                        axes={
                            "method": method,
                            "bound": bound,
                            "gamma": gamma,
                            "d": d,
                            "eps": epsilon,
                            "point": point,
                        },
                        params={"kind": "runtime", "model": model, "point": point, **search, **limits},
                        dataset=dataset,
                        version=VERSION,
                        group=model_group(dataset, model),
                        cost=(seconds or 1.0) if bound != OURS else 0.02 * d,
                        budget_seconds=request.budget_seconds,
                    )
                    for point in range(points)
                ]
    return tasks


def run_runtime(task: Task, shared: SharedWork) -> Outcome:
    """Bound the largest class probability of one point and measure it."""
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    params, posterior = task.params, trained.fit.require_converged()
    x = problem.X_test[int(params["point"])]
    chosen = choose(params["features"], problem, trained, x)
    region = linf_ball(x, float(params["gamma"]), chosen.inputs.tolist(), problem.domain)
    limits = [limit for limit in (params["seconds"], task.budget_seconds) if limit is not None]
    posterior_products(posterior)  # computed once per classifier, like its training
    wall, cpu = time.perf_counter(), time.process_time()
    budget = Budget(min(limits, default=None), boxes=int(params["boxes"]), observer=shared.observer)
    found = probability_extremum(posterior, region, 1, float(params["tolerance"]), budget, params["bound"])
    metrics: dict[str, float | int | str | bool | None] = {
        "chosen_by": chosen.by,
        "box_share": float(np.mean(region.upper - region.lower)),
        "inner": found.inner,
        "outer": found.outer,
        "gap": found.gap,
        "closed": found.status == "closed",
        "boxes": found.boxes,
        "search_seconds": time.perf_counter() - wall,
        "search_cpu_seconds": time.process_time() - cpu,
    }
    limited = found.status == "budget"
    headline = f"max {found.inner:.3f} to {found.outer:.3f}, {found.boxes} boxes"
    return Outcome(metrics, BUDGET if limited else DONE, found.reason if limited else "", {}, headline)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write seconds, boxes and ratios per cell, draw Fig. 7, and return the statistics."""
    settings: RuntimeSettings = request.settings
    dataset, tables = request_dataset(request), folder / "tables"
    frame = runtime_frame(records)
    rules = ", ".join(sorted(set(frame["chosen_by"])))
    caption = (
        f"{dataset.name}: π max over L-infinity balls of radius γ, d free pixels "
        f"(chosen by {rules}); {MEASURED}{f' ({note})' if note else ''}"
    )
    write_table(boxes_table(frame[frame["bound"] == OURS]), tables, "runtime_mnist38", caption)
    write_table(seconds_table(frame), tables, "runtime_mnist38_timing", caption)
    ratios = (
        f"{caption}; seconds of bound {settings.reference} over ours, paired points; ≥: a lower bound, since "
        "not all of its searches closed"
    )
    write_table(ratio_table(frame, OURS, settings.reference), tables, "runtime_mnist38_ratio_timing", ratios)
    draw_runtime(frame, settings.tolerances[-1], settings.tolerance_dimension, folder / "figures", note)
    statistics = dataset_statistics(load(dataset))
    return statistics + runtime_statistics(frame, settings.tolerances[-1], OURS, settings.reference)


EXPERIMENTS.register("robustness/runtime_mnist38")(
    Experiment(
        RuntimeSettings,
        plan,
        run_runtime,
        summarise,
        builders=("gpc",),
        parts=("points", "reference_points", "dimensions", "tolerances", "gammas"),
        agreement=AGREEMENT,
    )
)
