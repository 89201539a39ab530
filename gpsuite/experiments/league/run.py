"""One task: a user's table is drawn, the guarantees of experiment=guarantee are made of it, and fresh rows judge."""

from __future__ import annotations

import io
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    INFEASIBLE,
    SKIPPED,
    Outcome,
    SharedWork,
    Task,
    finite_or_none,
)
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.classification import around, class_probabilities, judged_classifier, proved_safe
from gpsuite.experiments.guarantee.conformal import ClassSets, SpreadIntervals
from gpsuite.experiments.guarantee.regression import (
    check_rows,
    judged_model,
    judged_rows,
    kept_model,
    latent_posterior,
    proved_ranges,
)
from gpsuite.experiments.guarantee.run import run_bounded, run_class_sets, run_judged, run_judged_classes
from gpsuite.experiments.guarantee.saved import SavedRegression
from gpsuite.experiments.guarantee.tasks import BoundedTask, ClassSetsTask, JudgedClassesTask, JudgedTask, middle
from gpsuite.experiments.league.intervals import Ends, OwnRows, interval_method, lacks_package
from gpsuite.experiments.league.plan import OWN_INTERVALS, ClassesTask, IntervalsTask, NumbersTask, TemperedTask
from gpsuite.experiments.pac_bayes.fits import run_fit
from gpsuite.experiments.pac_bayes.tasks import FitTask
from gpsuite.experiments.robustness.judging import classes_of
from gpsuite.experiments.tasks import take
from gpsuite.experiments.wasserstein.fitting import fit_regression
from gpsuite.methods.wasserstein.fitting import DivergedError, FewDifferentRowsError
from gpsuite.methods.wasserstein.scoring import ExactPredictionsError, interval_half_widths
from gpsuite.reporting.files import write_text
from gpsuite.seeds import derived_seed, stream

ATTACKS = 256  # inputs in a box that try to break a proof, half of them corners
INSIDE = 1.0 - 1e-9  # an attack must not leave its box by rounding


@dataclass(frozen=True, eq=False)
class Drawn:
    """A table as a user would have it, and fresh rows [m, D], [m] of the same source."""

    dataset: PreparedDataset
    X: FloatArray
    y: FloatArray


@contextmanager
def own_table(prepared: PreparedDataset, rows: int, fresh: int, draw: int) -> Iterator[Drawn]:
    """Write drawn rows to a separate file, which is there inside the block. Repeated rows are found in it.

    Inputs that are constant in these rows are left out.

    Args:
        prepared: the public table.
        rows: that the file has.
        fresh: how many others judge, at most.
        draw: seed.

    Raises:
        UserError: if the drawn rows cannot be read as a table of a user.
    """
    data = load(prepared)
    order = stream(draw, "league rows").permutation(len(data.X))
    own, others = order[:rows], order[rows:][:fresh]
    text = io.StringIO()
    names = [f"x{column}" for column in range(data.X.shape[1])]
    varied = np.flatnonzero(np.ptp(data.X[own], axis=0) > 0.0)
    header = ",".join([*(names[column] for column in varied), "y"])
    np.savetxt(
        text, np.column_stack([data.X[own][:, varied], data.y[own, :1]]), "%.17g", ",", header=header, comments=""
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_text(path, text.getvalue())
        spec = CsvSpec(path=str(path), target="y", task=data.task, strict=True)
        found = prepare(spec, cache_dir=Path(folder))
        read = [names.index(name) for name in load(found).input_names]
        yield Drawn(found, data.X[others][:, read], data.y[others, 0])


def run_numbers(task: Task[NumbersTask], shared: SharedWork) -> Outcome:
    """Make and judge every guarantee of a regression, with the drawn table in place of the public one."""
    return _on_drawn_rows(task, judge_numbers)


def run_classes(task: Task[ClassesTask], shared: SharedWork) -> Outcome:
    """Make and judge every guarantee of a classification, with the drawn table in place of the public one."""
    return _on_drawn_rows(task, judge_classes)


def run_intervals(task: Task[IntervalsTask], shared: SharedWork) -> Outcome:
    """Make and judge the intervals of another method. It is skipped if its package is missing."""
    lacking = lacks_package(interval_method(task.params.method))
    return Outcome({}, SKIPPED, lacking) if lacking else _on_drawn_rows(task, judge_intervals)


def run_tempered(task: Task[TemperedTask], shared: SharedWork) -> Outcome:
    """Make and judge the tempered intervals of a regression."""
    return _on_drawn_rows(task, judge_tempered)


def _on_drawn_rows(task: Task[Any], judge: Callable[[Task[Any], Drawn], Outcome]) -> Outcome:
    params = task.params
    try:
        with own_table(task.require_dataset(), params.rows, params.fresh, params.draw) as drawn:
            return judge(replace(task, dataset=drawn.dataset), drawn)
    except UserError as error:
        fault = str(error).splitlines()[0]
        return Outcome({}, INFEASIBLE, re.sub(r"^dataset\.path=\S+: ", "", fault))  # the file is gone


def found(name: str, stated: float, missed: float, rows: int) -> dict[str, float | int | None]:
    """Return the metrics of a statement: what it states, the share of rows that it misses, of how many rows."""
    return {f"{name}_stated": finite_or_none(stated), f"{name}_missed": float(missed), f"{name}_rows": rows}


def judge_numbers(task: Task[Any], drawn: Drawn) -> Outcome:
    """Make every guarantee of a regression, a `NumbersTask`. Judge each on the fresh rows."""
    params, dataset, work = task.params, drawn.dataset, SharedWork()
    learning, data = params.learning, load(dataset)
    check_rows(dataset, learning)
    tested = run_judged(replace(task, params=JudgedTask(learning=learning, widths=params.widths)), work)
    bounded = run_bounded(replace(task, params=BoundedTask(learning=learning, widths=params.widths)), work)
    for part in (tested, bounded):
        if part.status != DONE:
            return Outcome({}, part.status, part.reason)
    kept, judged = kept_model(dataset, learning, work), judged_model(dataset, learning, work)
    metrics: dict[str, float | int | None] = {}
    for name, model, part in (("test_rows", judged.fitted, tested), ("pac_bayes", kept, bounded)):
        goal = int(part.metrics["goal"] or 0)
        above = ~(np.abs(model.predict(drawn.X)[0] - drawn.y) <= part.arrays["errors"][goal])
        metrics |= found(name, float(part.arrays["bounds"][goal]), above.mean(), len(above))
    saved = SavedRegression.of(data, kept, judged, latent_posterior(kept.posterior), learning.coverage)
    ends = replace(saved, calibrated=SpreadIntervals.of(data, judged, learning.coverage)).predict(drawn.X).columns()
    for name in OWN_INTERVALS:
        own = (ends[f"{name}_low"], ends[f"{name}_high"])
        metrics |= judged_ends(name, own, drawn, data.y[:, 0])
    metrics |= _ranges(task, drawn, work)
    return Outcome(metrics, headline=f"bounds {metrics['test_rows_stated']:.3f}, {metrics['pac_bayes_stated']:.3f}")


def judge_intervals(task: Task[IntervalsTask], drawn: Drawn) -> Outcome:
    """Make the intervals of another method on the split of the judged model, and judge them on the fresh rows."""
    params, data = task.params, load(drawn.dataset)
    check_rows(drawn.dataset, params.learning)
    own = OwnRows(data.X, data.y[:, 0], *judged_rows(drawn.dataset, params.learning), params.learning.coverage)
    intervals = interval_method(params.method).intervals(params.method, own)
    return _of_intervals("peer", judged_ends("peer", intervals(drawn.X), drawn, own.y))


def judge_tempered(task: Task[TemperedTask], drawn: Drawn) -> Outcome:
    """Train a regression on all of a user's rows, and judge its tempered intervals on the fresh rows."""
    params, data = task.params, load(drawn.dataset)
    y, seed = data.y[:, 0], derived_seed(params.draw, "tempered")
    try:
        model = fit_regression(params.method, params.training, data.X, y, seed, Budget(), groups=data.groups)
    except (ExactPredictionsError, FewDifferentRowsError) as error:
        return Outcome({}, INFEASIBLE, str(error))
    except DivergedError as error:
        return Outcome({}, DIVERGED, str(error))
    mean, variance = model.predict(drawn.X, tempered=True)
    half = interval_half_widths(variance, params.coverage)
    judged = judged_ends("tempered", (mean - half, mean + half), drawn, y)
    return _of_intervals("tempered", judged, model.status, "" if model.status == DONE else model.found.reason)


def judged_ends(name: str, ends: Ends, drawn: Drawn, y: FloatArray) -> dict[str, float | int | None]:
    """Return the mean width of intervals in standard deviations of a user's targets [N], and what they miss."""
    low, high = ends
    missed = ~((low <= drawn.y) & (drawn.y <= high))
    return found(name, float(np.mean(high - low)) / float(np.std(y)), missed.mean(), len(missed))


def _of_intervals(name: str, metrics: dict[str, float | int | None], status: str = DONE, reason: str = "") -> Outcome:
    stated, missed = metrics[f"{name}_stated"], metrics[f"{name}_missed"] or 0.0
    width = "no finite width" if stated is None else f"width {stated:.3g}"
    return Outcome(metrics, status, reason, headline=f"{width}, misses {100 * missed:.3g} %")


def _ranges(task: Task[NumbersTask], drawn: Drawn, work: SharedWork) -> dict[str, float | int | None]:
    """Prove the ranges of the first fresh rows' predictions at the middle tolerance, and attack them."""
    params, data = task.params, load(drawn.dataset)
    kept, X = kept_model(drawn.dataset, params.learning, work), drawn.X[: params.count]
    radius, deviations = middle(params.tolerances), data.X.std(axis=0)
    searches, latent = Searches.of(task, work), latent_posterior(kept.posterior)
    ranges = proved_ranges(kept, latent, X, deviations, [radius], searches, params.tolerance)[:, 0]
    proved = np.isfinite(ranges).all(axis=1)
    broken = []
    for x, (low, high) in zip(X[proved], ranges[proved], strict=True):
        reached = kept.predict(x + attacks(params.draw, radius * deviations))[0]
        broken.append(not ((low <= reached) & (reached <= high)).all())
    width = float(np.mean(np.diff(ranges)[proved])) / float(np.std(data.y[:, 0])) if proved.any() else math.inf
    return found("ranges", width, float(np.mean(broken)) if broken else 0.0, len(broken))


def attacks(draw: int, radii: FloatArray) -> FloatArray:
    """Return moves [A, D] within radii [D]: the first half corners, the others anywhere."""
    moves = stream(draw, "attacks").uniform(-1.0, 1.0, (ATTACKS, len(radii)))
    moves[: ATTACKS // 2] = np.sign(moves[: ATTACKS // 2])
    return np.asarray(INSIDE * radii * moves)


def judge_classes(task: Task[Any], drawn: Drawn) -> Outcome:
    """Make every guarantee of a classification, a `ClassesTask`. Judge each on the fresh rows."""
    params, work, learning = task.params, SharedWork(), task.params.learning
    asked = take(JudgedClassesTask, params)
    tested = run_judged_classes(replace(task, params=asked), work)
    sets = run_class_sets(replace(task, params=ClassSetsTask(learning=learning)), work)
    for part in (tested, sets):
        if part.status != DONE:
            return Outcome({}, part.status, part.reason)
    model = judged_classifier(drawn.dataset, learning, work)
    numbers = [float(label) for label in model.labels]
    truth = np.array([numbers.index(label) if label in numbers else -1 for label in drawn.y])
    scaled = model.scaled(drawn.X)
    wrong = np.argmax(class_probabilities(model, scaled), axis=1) != truth
    metrics = found("wrong", float(tested.metrics["bound"] or 0.0), wrong.mean(), len(wrong))
    holds = ClassSets.of(load(drawn.dataset), model, learning.coverage).sets(drawn.X)[0]
    held = (truth >= 0) & holds[np.arange(len(truth)), truth]
    metrics |= found("sets", float(holds.sum(axis=1).mean()), float(np.mean(~held)), len(held))
    place, points = len(params.tolerances) // 2, scaled[: params.points]
    searches = Searches.of(task, work)
    steps = proved_safe(model, points, params.tolerances, searches)
    if searches.clock.exhausted:  # rows that no search has reached say nothing about the bound
        return Outcome(metrics, BUDGET, "the seconds ended before the fresh rows were proved")
    lost = wrong[: len(points)] | (steps <= place)
    bound = 1.0 - float(tested.arrays["certified_bounds"][place])
    metrics |= found("certified", bound, lost.mean(), len(lost))
    broken = []
    for x in points[steps > place]:
        box = around(model, x, params.tolerances[place])
        moves = attacks(params.draw, np.full(len(x), params.tolerances[place]))
        reached = np.clip(x + moves, box.lower, box.upper) if len(box.free) == len(x) else x[None]
        broken.append(class_changes(*classes_of(model).probability_ends(np.vstack([x, reached]))))
    metrics |= found("stays", float(np.mean(steps <= place)), float(np.mean(broken)) if broken else 0.0, len(broken))
    return Outcome(metrics, headline=f"bound {metrics['wrong_stated']:.3f}, certified {1.0 - bound:.3f}")


def class_changes(low: FloatArray, high: FloatArray) -> bool:
    """Return whether no class can be the most probable one at every point, by bounds [A, C] of the probabilities.

    With ten nearly equal classes the cubature's error exceeds their differences. It must not count as a broken proof.
    """
    return not (high >= low.max(axis=1, keepdims=True)).all(axis=0).any()


def run_certified(task: Task[FitTask], shared: SharedWork) -> Outcome:
    """Train and certify a method of pac_bayes/regression on drawn rows. All other rows are fresh."""
    return replace(run_fit(task, shared), arrays={})
