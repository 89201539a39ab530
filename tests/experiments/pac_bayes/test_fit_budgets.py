"""Seconds that a fit may take: kept within one evaluation too, by what it will cost, or refused beforehand."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS, Outcome, SharedWork
from gpsuite.experiments.pac_bayes import methods as costs
from gpsuite.experiments.pac_bayes.fits import run_fit
from gpsuite.methods.pac_bayes import cost
from gpsuite.methods.pac_bayes.cost import Cost, full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.models.regression.inducing import kmeans_inducing, limited_inducing
from gpsuite.models.search import NO_ROOM, minimise
from tests.arrays import Array


def _fit(*words: str) -> Outcome:
    request, _ = read_request(["experiment=pac_bayes/regression", "scale=smoke", "repetitions=1", *words])
    (task,) = EXPERIMENTS.get(request.experiment).plan(request)
    return run_fit(task, SharedWork())


@pytest.mark.parametrize(
    ("method", "model", "advice"),
    [
        ("kl_pac_gp", "full GP with 353 rows", "method=kl_pac_sgp"),
        ("full_gp", "full GP with 353 rows", "method=kl_pac_sgp"),
        ("kl_pac_sgp", "sparse GP with M = 100 with 353 rows", "fewer inducing inputs"),
        ("vfe", "sparse GP with M = 100 with 353 rows", "fewer inducing inputs"),
        ("kl_pac_free_form", "sparse GP with M = 50 with 353 rows", "fewer inducing inputs"),
    ],
)
def test_a_budget_without_room_for_one_evaluation_is_refused_before_it(
    monkeypatch: pytest.MonkeyPatch, method: str, model: str, advice: str
) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 1e5)
    begin = time.monotonic()
    outcome = _fit(f"method={method}", "budget.seconds=9")
    assert time.monotonic() - begin < 5.0
    assert (outcome.status, outcome.metrics) == (
        "skipped",
        {},
    )  # never stored as an answer: a longer budget asks again
    assert outcome.reason.startswith("budget.seconds=9 is too short")
    assert model in outcome.reason
    assert advice in outcome.reason


@pytest.mark.parametrize("method", ["kl_pac_gp", "kl_pac_sgp_restarts", "vfe", "kl_pac_free_form"])
def test_a_budget_for_one_evaluation_gives_a_certificate(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # evaluations seem so long that nothing fits beside the first one
    for name in ("full_gp_cost", "sparse_gp_cost"):
        monkeypatch.setattr(costs, name, lambda *_, **__: Cost(4.0, 50000.0))
    outcome = _fit(f"method={method}", "budget.seconds=50010", "max_evaluations=5", "method.inducing=9"
                   if method != "kl_pac_gp" else "seed=0")  # fmt: skip
    assert outcome.status in ("done", "budget")
    assert 0.0 < float(outcome.metrics["bound_kl"] or 0.0) <= 1.0


def test_a_search_leaves_room_for_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, step = [0.0], 1 / 16
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def slow(x: Array) -> tuple[float, Array]:
        clock[0] += step
        return float(((x - 3.0) ** 4).sum()), 4.0 * (x - 3.0) ** 3

    found = Search(Budget(0.5, after=5.0, started=0.0)).run(slow, np.zeros(2), [(-10.0, 10.0)] * 2)
    assert (found.status, found.reason) == ("budget", NO_ROOM)
    # the third ends at 3/16, what follows at 8/16; a fourth would leave it too little
    assert (found.evaluations, clock[0]) == (3, 3 * step)
    report = minimise(slow, np.zeros(2), Budget(0.5, after=5.0, started=clock[0]))
    assert (report.status, report.evaluations) == ("budget", 3)
    assert "no room" in report.reason


def test_room_counts_the_step_and_what_follows() -> None:
    assert Budget().has_room(1e9)
    assert Budget(1000.0, after=3.0).has_room(240.0)
    assert not Budget(1000.0, after=3.0).has_room(251.0)


def test_seconds_cut_k_means_short_and_say_so() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 3))
    whole = kmeans_inducing(X, 40, np.random.default_rng(1))
    for seconds in (None, 1e3):
        unhurried, cut = limited_inducing(X, 40, np.random.default_rng(1), seconds)
        assert not cut
        np.testing.assert_array_equal(unhurried, whole)
    per_iteration = 1e-10 * 3000 * 40 * 7
    hurried, cut = limited_inducing(X, 40, np.random.default_rng(1), 32.5 * per_iteration)
    assert cut
    assert not np.array_equal(hurried, whole)
    rows, cut = limited_inducing(X, 40, np.random.default_rng(1), -1.0)
    assert cut
    assert {tuple(row) for row in rows} <= {tuple(row) for row in X}
    assert len(np.unique(rows, axis=0)) == 40


def test_costs_grow_as_the_arithmetic_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 4e10)
    # measured on one core of that speed: 45 s, .7 s
    assert full_gp_cost(10_000, 2500).evaluation == pytest.approx(45.0, rel=0.25)
    assert sparse_gp_cost(12_000, 3000, 500, 26, "bound").evaluation == pytest.approx(0.9, rel=0.25)
    one, three = (sparse_gp_cost(12_000, 3000, 500, 26, "bound", losses) for losses in (1, 3))
    assert three.certificate > 1.5 * one.certificate
    assert one.least == one.evaluation + one.certificate
    assert one.after * one.evaluation == pytest.approx(one.certificate)


@pytest.mark.slow
def test_estimates_are_within_a_factor_of_three() -> None:
    from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
    from gpsuite.methods.pac_bayes.losses import BandLoss

    X, y = np.random.default_rng(0).normal(size=(1500, 5)), np.zeros(1500)
    bound = FullGPObjective(RiskProblem(X, y, BandLoss(0.6), 0.01))
    bound.value_and_gradient(np.zeros(7))
    begin = time.perf_counter()
    bound.value_and_gradient(np.zeros(7))
    assert 1 / 3 < full_gp_cost(1500, 1).evaluation / (time.perf_counter() - begin) < 3.0
