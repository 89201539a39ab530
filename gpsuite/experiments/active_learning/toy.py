"""active_learning/toy: sine and sigmoid; learning curves, safety, and what inference and priors do (Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from gpsuite.data.generators.sin_sigmoid import Form
from gpsuite.experiments.active_learning.claims import AL
from gpsuite.experiments.active_learning.curves import Curves
from gpsuite.experiments.active_learning.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.methods import BUILDER, titles
from gpsuite.experiments.active_learning.repetition import run_repetition
from gpsuite.experiments.active_learning.settings import (
    Variation,
    repetition_tasks,
)
from gpsuite.experiments.active_learning.state_figure import draw_state
from gpsuite.experiments.active_learning.tables import write_curve_tables
from gpsuite.experiments.active_learning.toy_checks import COST, IDENTITY, draw_priors, run_check
from gpsuite.experiments.active_learning.toy_claims import PARTS, Parts, toy_statistics
from gpsuite.experiments.active_learning.toy_settings import ToySettings
from gpsuite.experiments.active_learning.toy_tables import KINDS, write_part_tables
from gpsuite.experiments.active_learning.unsafe_queries import write_unsafe_tables
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.seeds import derived_seed

CHECK_VERSION = 1


def plan(request: Request) -> list[Task]:
    """Return the repetitions of every pipeline, those of other inference and priors, and the checks."""
    settings: ToySettings = request.settings
    main = Variation({"part": PARTS.main, "inference": settings.inference, "prior_factor": 1.0})
    tasks = repetition_tasks(request, settings.source(), main)
    for variation, methods in _variations(settings):
        if all(name in request.methods for name in methods):
            tasks += repetition_tasks(request, settings.source(), variation, methods)
    return [*tasks, *_checks(request, settings)]


def _variations(settings: ToySettings) -> Iterator[tuple[Variation, tuple[str, ...]]]:
    for kind in settings.compared:
        axes: dict[str, str | int | float] = {"part": PARTS.inference, "inference": kind, "prior_factor": 1.0}
        yield Variation(axes, kind, settings.compared_iterations, label=kind), (AL,)
    if settings.hmc_repetitions:
        axes = {"part": PARTS.hmc, "inference": "hmc", "prior_factor": 1.0}
        yield Variation(axes, "hmc", settings.hmc_iterations, settings.hmc_repetitions, label="hmc"), ()
    for factor in settings.prior_factors:
        axes = {"part": PARTS.prior, "inference": settings.inference, "prior_factor": factor}
        yield Variation(axes, prior_factor=factor, label=f"priors x {factor:g}"), (AL,)


def _checks(request: Request, settings: ToySettings) -> Iterator[Task]:
    for kind in (IDENTITY, COST):
        own = {"sizes": settings.cost_sizes} if kind == COST else {}
        yield Task(
            experiment=request.experiment,
            label={IDENTITY: "independent GPs as an LMC", COST: "cost of the likelihood"}[kind],
            axes={"method": "", "part": kind, "inference": "", "prior_factor": 1.0, "repetition": 0},
            params={"kind": kind, "seed": derived_seed(request.seed, kind), "n_outputs": 2, **own},
            version=CHECK_VERSION,
            cost=1.0,
        )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Run a repetition or a check."""
    return run_check(task.params) if task.params["kind"] in (IDENTITY, COST) else run_repetition(task, shared)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write curves, safety, the state at one iteration, and the comparisons; return what the paper states."""
    settings: ToySettings = request.settings
    names, parts = (
        titles(request.methods),
        Parts.from_records(records, tuple(request.methods), settings.inference),
    )
    draw_priors(folder / "figures", "toy_priors", None)
    write_part_tables(parts, names, folder, note)
    kinds = {**parts.inferences, **({"hmc": parts.hmc} if parts.hmc.methods else {})}
    sets = {KINDS[kind]: curves for kind, curves in kinds.items()}
    write_unsafe_tables(sets, names, settings.delta, folder / "tables", "toy_unsafe_queries", note)
    if not parts.main.methods:
        return toy_statistics(parts, settings)
    figures, points = (
        folder / "figures",
        settings.points(max(parts.main.final(m) for m in parts.main.methods)),
    )
    write_curve_tables(
        parts.main, names, folder / "tables", "toy", "Sine and sigmoid", points, settings.thresholds, note
    )
    heading, units = "sine and sigmoid: safe test points, noise-free targets", "output units"
    draw_curves(parts.main, names, figures, "toy_curves", heading, units, settings.thresholds, note)
    draw_safety(parts.main, names, figures, "toy_safety", "sine and sigmoid: safety", note)
    _draw_state(parts.main, settings, names, figures, note)
    return toy_statistics(parts, settings)


def _draw_state(
    curves: Curves, settings: ToySettings, names: dict[str, str], folder: Path, note: str | None
) -> None:
    """Draw the state of every pipeline's models in the first repetition that all of them have."""
    kept = {
        method: [r for r in runs.values() if "state_x" in r.arrays] for method, runs in curves.runs.items()
    }
    shared = set.intersection(*({int(r.axes["repetition"]) for r in found} for found in kept.values()))
    if shared:
        chosen = {method: curves.runs[method][min(shared)] for method in curves.methods}
        form = cast("Form", settings.form)
        draw_state(chosen, names, form, settings.delta, folder, "toy_state", note)


EXPERIMENTS.register("active_learning/toy")(
    Experiment(
        ToySettings, plan, run, summarise, builders=(BUILDER,), parts=("repetitions", "hmc_repetitions")
    )
)
