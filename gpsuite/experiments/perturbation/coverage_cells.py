"""Settings, tasks and runs of perturbation/coverage: ranks of true coefficients over simulated data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.data.generators.classes import lssvm_classes
from gpsuite.data.generators.noises import NOISES, draw_noise
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import Outcome, Request, SharedWork, Task, require
from gpsuite.experiments.perturbation.coverage_models import (
    ALL,
    BREAKS,
    GROUPS,
    MODEL_TITLES,
    MODELS,
    draw_inputs,
    draw_truth,
)
from gpsuite.experiments.perturbation.linear import check_drawn_together
from gpsuite.methods.perturbation.groups import IntArray
from gpsuite.methods.perturbation.objectives import LinearLSSVM
from gpsuite.methods.perturbation.ranks import ranks_of_noise, simulated_ranks
from gpsuite.methods.perturbation.region import Region
from gpsuite.seeds import derived_seed, stream

FloatArray = npt.NDArray[np.float64]

VERSION = 1
EXACT, BROKEN, REFUSALS = "exact", "broken", "refusals"
CLASS_CENTRE = np.array([1.0, 0.5])  # of label 1 in `lssvm_classes`
ENDOGENOUS = 0.5  # share of the noise that enters the input
AUTOREGRESSION = 0.9  # y_t = 0.9 y_{t-1} + e_t


@dataclass
class CoverageSettings:
    """Settings of the coverage study.

    Attributes:
        models: keys of `MODELS`.
        noises: keys of `NOISES`; a cell exists for every group that leaves the noise's distribution alone.
        groups: keys of `GROUPS`.
        breaks: keys of `BREAKS`: what is shown of violated assumptions.
        rows: data in each simulated data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients per cell, each with an equal share of the repetitions.
        repetitions: simulated data sets per cell.
        levels: pairs [q, m]: the confidence is 1 - q/m.
    """

    models: list[str] = field(default_factory=lambda: list(ALL))
    noises: list[str] = field(default_factory=lambda: list(NOISES))
    groups: list[str] = field(default_factory=lambda: list(GROUPS))
    breaks: list[str] = field(default_factory=lambda: list(BREAKS))
    rows: int = 15
    noise_scale: float = 0.5
    designs: int = 4
    repetitions: int = 20_000
    levels: list[list[int]] = field(default_factory=lambda: [[1, 20], [2, 20], [10, 20], [15, 20], [18, 20]])

    def check(self) -> None:
        """Refuse impossible values."""
        known: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("models", MODELS),
            ("noises", NOISES),
            ("groups", GROUPS),
            ("breaks", BREAKS),
        )
        for key, names in known:
            values: list[str] = getattr(self, key)
            require(len(set(values)) == len(values), key, values, "has a name twice")
            for value in values:
                if value not in names:
                    raise unknown_name(key, value, names)
        require(bool(self.models), "models", self.models, "needs at least one name")
        require(bool(self.groups), "groups", self.groups, "needs at least one name")
        require(self.rows >= 6, "rows", self.rows, "must be 6 or more")
        scaled = 0 < self.noise_scale < float("inf")
        require(scaled, "noise_scale", self.noise_scale, "must be a number above 0")
        require(self.designs >= 1, "designs", self.designs, "must be 1 or more")
        enough = self.repetitions >= self.designs
        require(
            enough, "repetitions", self.repetitions, f"must be at least the number of designs, {self.designs}"
        )
        check_drawn_together(self.repetitions)
        self._check_levels()

    def _check_levels(self) -> None:
        require(bool(self.levels), "levels", self.levels, "needs at least one pair [q, m]")
        for level in self.levels:
            admissible = len(level) == 2 and 0 < level[0] < level[1]
            require(
                admissible, "levels", level, "must be pairs [q, m] with 0 < q < m; the confidence is 1 - q/m"
            )
        distinct = len({tuple(level) for level in self.levels}) == len(self.levels)
        require(distinct, "levels", self.levels, "has a pair twice")

    @property
    def compared(self) -> dict[int, list[int]]:
        """M -> its q, both ascending."""
        grid: dict[int, list[int]] = {}
        for q, m in sorted(self.levels, key=lambda level: (level[1], level[0])):
            grid.setdefault(m, []).append(q)
        return grid


def suits(noise: str, group: str) -> bool:
    """Return whether a group leaves the distribution of a noise alone (assumption A3)."""
    law = NOISES[noise]
    needs = {
        "signs": law.signs,
        "permutations": law.permutations,
        "signed_permutations": law.signs and law.permutations,
    }
    return needs[group]


def plan(request: Request) -> list[Task]:
    """Return one task per cell, exact or broken, and one that asks for inadmissible q."""
    return list(_tasks(request, request.settings))


def _tasks(request: Request, settings: CoverageSettings) -> Iterator[Task]:
    for model in settings.models:
        for group in settings.groups:
            for noise in settings.noises:
                if suits(noise, group):
                    yield _task(request, EXACT, model, noise, group, {})
    for name in settings.breaks:
        broken = BREAKS[name]
        own = {"break": name, "design": broken.design, "break_ties": broken.break_ties}
        for model in broken.models:
            if model in settings.models:
                yield _task(request, BROKEN, model, broken.noise, broken.group, own)
    yield Task(
        experiment=request.experiment,
        label="inadmissible q",
        axes={"part": REFUSALS, "model": "", "noise": "", "group": "", "break": ""},
        params={"kind": "perturbation_refusals", "compared": list(settings.compared)},
        version=VERSION,
        cost=0.1,
    )


def _task(request: Request, part: str, model: str, noise: str, group: str, own: dict[str, Any]) -> Task:
    settings: CoverageSettings = request.settings
    name = str(own.get("break", ""))
    size = settings.repetitions * settings.rows * sum(settings.compared)
    return Task(
        experiment=request.experiment,
        label=f"{MODEL_TITLES[model]}  {noise}, {group}{f' ({name})' if name else ''}",
        axes={"part": part, "model": model, "noise": noise, "group": group, "break": name},
        params={
            "kind": "perturbation_coverage",
            "seed": derived_seed(request.seed, "coverage", name, model, noise, group),
            **{"model": model, "noise": noise, "group": group, "design": "fixed", "break_ties": True},
            **own,
            "compared": list(settings.compared),
            **{key: getattr(settings, key) for key in ("rows", "noise_scale", "designs", "repetitions")},
        },
        version=VERSION,
        cost=1.5e-7 * size
        if own.get("design", "fixed") in ("fixed", "repeated")
        else 2e-3 * settings.repetitions,
    )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Count the ranks 1..m of the true coefficients for every m of the cell."""
    params = task.params
    if params["kind"] == "perturbation_refusals":
        return Outcome({"accepted": accepted_levels(params["compared"])}, headline="q outside 0 < q < m")
    varying = params["design"] not in ("fixed", "repeated")
    counts = {}
    for m in params["compared"]:
        rng = stream(int(params["seed"]), "m", m)
        ranks = _varying_ranks(params, m, rng) if varying else _fixed_ranks(params, m, rng)
        counts[f"ranks_{m}"] = np.bincount(ranks, minlength=m + 1)[1:]
    first = next(iter(counts.values()))
    mean = float(first @ np.arange(1, len(first) + 1)) / float(first.sum())
    expected = (len(first) + 1) / 2
    return Outcome(
        {"repetitions": params["repetitions"]}, arrays=counts, headline=f"mean rank {mean:.2f} ({expected:g})"
    )


def _fixed_ranks(params: Mapping[str, Any], m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks over designs that are fixed while noise and perturbations are drawn anew."""
    found = []
    shares = np.array_split(np.arange(params["repetitions"]), params["designs"])
    for share in shares:
        X = draw_inputs(rng, params["rows"], params["design"] == "repeated")
        objective = MODELS[params["model"]](X)
        truth = draw_truth(rng, params["model"], objective)
        size = (len(share), params["rows"])
        noise = draw_noise(rng, params["noise"], size, inputs=X[:, 0], scale=params["noise_scale"])
        group = GROUPS[params["group"]]
        found.append(simulated_ranks(objective, truth, noise, group, m, rng, params["break_ties"]))
    return np.concatenate(found)


def _varying_ranks(params: Mapping[str, Any], m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks where the inputs are drawn with the noise: linear models, one data set after the other."""
    X, noise, truth = DESIGNS[params["design"]](
        rng, params["repetitions"], params["rows"], params["noise_scale"]
    )
    drawn = GROUPS[params["group"]]
    found = [
        ranks_of_noise(LinearLSSVM(x, 1.0, bias=False), truth, e[None], drawn.draw(len(e), m, rng))
        for x, e in zip(X, noise, strict=True)
    ]
    return np.concatenate(found)


def labelled(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 2] of two Laplace classes, residuals of their labels y = +-1, and the best coefficients.

    The coefficients are E[xx']^-1 E[xy] of the whole distribution; the clouds have twice the scale.
    """
    drawn, centre, spread = (
        lssvm_classes(rng, (repetitions, rows), scale=2.0 * scale),
        CLASS_CENTRE,
        2.0 * scale,
    )
    best = np.linalg.solve(np.outer(centre, centre) + 2.0 * spread**2 * np.eye(2), centre)
    return drawn.X, drawn.y - drawn.X @ best, best


def endogenous(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] that hold a part of the noise, Laplace noise [R, n], and the coefficient 1."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = rng.uniform(-1.0, 1.0, (repetitions, rows)) + ENDOGENOUS * noise
    return X[..., None], noise, np.ones(1)


def autoregressive(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] with x_t = y_{t-1}, y_t = 0.9 y_{t-1} + e_t from 0, Laplace noise [R, n], and 0.9."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = np.zeros((repetitions, rows))
    for t in range(1, rows):
        X[:, t] = AUTOREGRESSION * X[:, t - 1] + noise[:, t - 1]
    return X[..., None], noise, np.full(1, AUTOREGRESSION)


DESIGNS = {"labels": labelled, "endogenous": endogenous, "autoregression": autoregressive}


def accepted_levels(compared: list[int]) -> int:
    """Return how many of q = -1, 0, m and m + 1 a region of each m accepts; none should be."""
    accepted = 0
    for m in compared:
        rng = np.random.default_rng(0)
        X = draw_inputs(rng, 6)
        drawn = GROUPS["signs"].draw(len(X), m, rng)
        for q in (-1, 0, m, m + 1):
            try:
                Region(LinearLSSVM(X, 1.0), X[:, 0], drawn, q)
            except ValueError:
                continue
            accepted += 1
    return accepted
