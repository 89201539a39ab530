"""The staged search against the published one, in one process from the same start: CPU seconds to the same value.

Every cell adds its row to `staged_search.csv` beside this file; a cell that has one is not run again. It needs the
datasets in GPSUITE_DATA_PATH and from a minute to hours a cell; the cheapest come first, of every kind its first split.
"""

from __future__ import annotations

import csv
import itertools
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.errors import DataError
from gpsuite.experiments.base import EXPERIMENTS, SharedWork
from gpsuite.experiments.pac_bayes.fits import Split, read_split, training_of
from gpsuite.experiments.pac_bayes.tasks import FitTask
from gpsuite.experiments.pac_bayes.training import first_inducing
from gpsuite.methods.pac_bayes.evaluation import Evaluation, evaluate
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.objective import Form
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import (
    StagedSearch,
    TrainedSparseGP,
    train_sparse_gp,
    train_sparse_likelihood,
)
from tests.arrays import Array

TABLE = Path(__file__).with_name("staged_search.csv")
EVALUATIONS = {Search: 1000, StagedSearch: 300}
EPSILON, DELTA = 0.6, 0.01
ROWS = {"pol": 12_000, "kin40k": 32_000}
COST = {"vfe": 2, "fitc": 4, "exp": 6, "kl": 7}  # of an evaluation, relative
CELLS = sorted(
    itertools.product(ROWS, (100, 300, 500), COST, range(3)),
    key=lambda cell: (ROWS[cell[0]] * cell[1] ** 2 * COST[cell[2]] * (1 + cell[3]), cell),
)


@dataclass(frozen=True)
class Run:
    """One search: its end, what is certified there, and the best value after so many CPU seconds."""

    fit: TrainedSparseGP
    seconds: float
    trace: list[tuple[float, float]]
    found: Evaluation

    def best_at(self, seconds: float) -> float:
        """Return the best value by then; infinite before the first."""
        return min((value for when, value in self.trace if when <= seconds), default=float("inf"))

    def reaches(self, value: float) -> float | None:
        """Return the CPU seconds to a value, or None."""
        return next((when for when, best in self.trace if best <= value), None)


def train(split: Split, Z: Array, objective: str, search: Search) -> TrainedSparseGP:
    if objective in ("vfe", "fitc"):
        return train_sparse_likelihood(split.X, split.y, Z, cast(Form, objective), True, search)
    loss = LOSSES.get("exp" if objective == "exp" else "band01")(EPSILON)
    return train_sparse_gp(RiskProblem(split.X, split.y, loss, DELTA), Z, 1.0, search)


def run(kind: type[Search], split: Split, Z: Array, objective: str) -> Run:
    trace: list[tuple[float, float]] = []
    per = len(split.y) if objective in ("vfe", "fitc") else 1
    begin = time.process_time()

    def note(budget: Budget) -> None:
        trace.append((time.process_time() - begin, budget.best / per))

    fit = train(split, Z, objective, kind(Budget(evaluations=EVALUATIONS[kind], observer=note)))
    seconds = time.process_time() - begin
    fit = replace(fit, gp=replace(fit.gp, objective_value=fit.gp.objective_value / per))
    posterior = SparseGPPosterior.fit(fit.gp.rounded, split.X, split.y, fit.Z, fit.alpha)
    loss = LOSSES.get("exp" if objective == "exp" else "band01")(EPSILON)
    found = evaluate(posterior, split.X_test, split.y_test, loss, DELTA, copies=split.copies)
    return Run(fit, seconds, [*trace, (seconds, fit.gp.objective_value)], found)


def known() -> set[tuple[str, str, str, str]]:
    if not TABLE.exists():
        return set()
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {(r["dataset"], r["inducing"], r["objective"], r["split"]) for r in csv.DictReader(stream)}


def row(cell: tuple[str, int, str, int], published: Run, staged: Run) -> dict[str, str]:
    """Return a cell's numbers; bounds are certified after rounding, values per row where they are in nats."""
    reached = staged.reaches(published.fit.gp.objective_value)
    behind = [when for when, best in published.trace if staged.best_at(when) > best]
    numbers = {
        "published": published.fit.gp.objective_value,
        "staged": staged.fit.gp.objective_value,
        "published_bound": published.found.bound_kl,
        "staged_bound": staged.found.bound_kl,
        "published_risk_train": published.found.gibbs_risk_train,
        "staged_risk_train": staged.found.gibbs_risk_train,
        "published_risk_test": published.found.gibbs_risk_test,
        "staged_risk_test": staged.found.gibbs_risk_test,
        "published_mse_test": published.found.mse_test,
        "staged_mse_test": staged.found.mse_test,
    }
    return {
        **dict(zip(("dataset", "inducing", "objective", "split"), map(str, cell), strict=True)),
        "published_evaluations": str(published.fit.gp.evaluations),
        "staged_evaluations": str(staged.fit.gp.evaluations),
        "published_cpu_s": f"{published.seconds:.1f}",
        "staged_cpu_s": f"{staged.seconds:.1f}",
        "cpu_s_to_published": "" if reached is None else f"{reached:.1f}",
        "times_sooner": "" if reached is None else f"{published.seconds / reached:.1f}",
        "behind_until_cpu_s": f"{max(behind, default=0.0):.1f}",
        **{name: f"{value:.5f}" for name, value in numbers.items()},
    }


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_the_staged_search_ends_lower_and_sooner(cell: tuple[str, int, str, int]) -> None:
    dataset, inducing, objective, number = cell
    if tuple(map(str, cell)) in known():
        pytest.skip("measured already")
    words = [f"experiment=pac_bayes/inducing_{dataset}", "methods=[kl_pac_sgp]", "other_kernel=[]"]
    try:
        request, _ = read_request([*words, f"inducing=[{inducing}]", f"repetitions={number + 1}"])
    except DataError:
        pytest.skip(f"{dataset} is not in GPSUITE_DATA_PATH")
    task = EXPERIMENTS.get(request.experiment).plan(request)[number]
    params: FitTask = task.params
    split = read_split(task.require_dataset(), params)
    Z, _ = first_inducing(training_of(params, split, None, SharedWork()), inducing, 0, Budget())
    published, staged = (run(kind, split, Z, objective) for kind in (Search, StagedSearch))
    new = row(cell, published, staged)
    fresh = not TABLE.exists()
    with TABLE.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(new), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(new)
    assert staged.fit.gp.objective_value <= published.fit.gp.objective_value
    assert staged.seconds < published.seconds
    for found in (published.found, staged.found):
        assert found.gibbs_risk_test <= found.bound_kl
