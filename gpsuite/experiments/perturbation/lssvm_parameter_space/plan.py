"""Tasks of perturbation/lssvm_parameter_space: regions, coverage and checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.params import INLINE
from gpsuite.experiments.perturbation.lssvm_parameter_space.settings import ParameterSpaceSettings
from gpsuite.experiments.perturbation.shared.linear import LinearProblem, linear_tasks
from gpsuite.seeds import derived_seed


@dataclass(frozen=True)
class RegionTask:
    """One region of the linear model with its ellipsoids; `segments` are tested for star-convexity."""

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
