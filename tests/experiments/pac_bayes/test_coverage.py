"""The coverage experiment must be able to say no: faults planted in the bound, and its verdict on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from gpsuite.config.request import read_request
from gpsuite.data.generators import kernel_regression
from gpsuite.experiments.base import EXPERIMENTS, Outcome, Record, SharedWork
from gpsuite.experiments.pac_bayes import coverage
from gpsuite.experiments.pac_bayes import coverage as coverage_power
from gpsuite.experiments.pac_bayes.coverage import (
    largest_failure,
    least_share,
    power_statistic,
    power_table,
    power_tasks,
    run_power,
)
from gpsuite.methods.pac_bayes import bounds
from gpsuite.methods.pac_bayes.bounds import Terms
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.models.config import Hyperparameters
from gpsuite.statistics.estimates import clopper_pearson


def outcomes(*words: str) -> list[Outcome]:
    request, _ = read_request(["experiment=pac_bayes/coverage", "scale=smoke", "method=kl_pac_gp", *words])
    tasks = EXPERIMENTS.get(request.experiment).plan(request)
    return [coverage.run(task, SharedWork()) for task in tasks if "method" in task.axes]


def test_the_true_risk_is_that_of_new_data() -> None:
    """Against plain Monte Carlo: new x, y and a draw of f; within five standard errors."""
    rng = np.random.default_rng(3)
    sample = kernel_regression(rng, 40, function="sin_2x", noise="gaussian", noise_scale=0.3)
    posterior = FullGPPosterior.fit(Hyperparameters(1.0, (0.8,), 0.1), sample.X, sample.y)
    new = kernel_regression(rng, 200_000, function="sin_2x", noise="gaussian", noise_scale=0.3)
    mean, variance = posterior.predict(new.X)
    f = mean + np.sqrt(variance) * rng.standard_normal(len(mean))
    wrong = np.abs(new.y - f) > 0.5
    exact = coverage.true_gibbs_risk(posterior, 0.5, 0.3)
    assert wrong.mean() == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / len(wrong)))


@pytest.mark.parametrize(("held", "count"), [(0, 10), (7, 10), (10, 10), (395, 400)])
def test_the_interval_is_the_exact_binomial_one(held: int, count: int) -> None:
    expected = binomtest(held, count).proportion_ci(0.95, method="exact")
    assert clopper_pearson(held, count) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_a_batch_counts_what_its_arrays_show() -> None:
    for outcome in outcomes():
        bounds, risks = outcome.arrays["bounds"], outcome.arrays["risks"]
        assert bounds.shape == (4, 3)
        assert np.all(np.diff(bounds, axis=1) < 0)  # more risk of failure allowed, lower bound
        assert outcome.metrics["held_0.5"] == int((risks <= bounds[:, 2]).sum())


def test_data_sets_differ_between_batches_and_agree_between_methods() -> None:
    first, second = outcomes()
    assert not set(first.arrays["risks"]) & set(second.arrays["risks"])
    request, _ = read_request(["experiment=pac_bayes/coverage", "scale=smoke"])
    tasks = EXPERIMENTS.get(request.experiment).plan(request)
    trained = [task for task in tasks if "method" in task.axes]
    seeds = {(task.axes["method"], task.axes["start"]): task.params.seed for task in trained}
    assert all(seeds["kl_pac_gp", start] == seeds["sqrt_pac_gp", start] for start in (0, 4))


@pytest.mark.guarantee
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_bound_holds_as_promised() -> None:
    """1000 data sets, seed fixed beforehand: 99.9 % binomial limit on the failures at every delta at once."""
    found = outcomes("simulations=1000", "batch=50", "max_evaluations=200", "seed=17")
    count = sum(int(outcome.metrics["count"] or 0) for outcome in found)
    assert count == 1000
    for delta in (0.01, 0.1, 0.5):
        held = sum(int(outcome.metrics[f"held_{delta:g}"] or 0) for outcome in found)
        failures = binomtest(count - held, count, delta, alternative="greater")
        assert failures.pvalue > 0.001 / 3


REQUEST, _ = read_request(["experiment=pac_bayes/coverage", "scale=smoke", "seed=5"])


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage_power, "ROWS", (20,))


def _records(simulations: int = 40) -> list[Record]:
    found = []
    request = replace(REQUEST, settings=replace(REQUEST.settings, power_simulations=simulations))  # type: ignore[type-var]
    for task in power_tasks(request, version=1):  # type: ignore[arg-type]
        outcome = run_power(task, SharedWork())
        found.append(Record("k", task.experiment, "", task.axes, "done", "", outcome.metrics, {}))
    return found


def _contradicted() -> dict[str, int]:
    table = power_table(_records())
    assert power_statistic(table).value == table["contradicted"].sum()
    return {str(setting): int(part["contradicted"].sum()) for setting, part in table.groupby("setting")}


EXACT, NOISE = "prior = posterior, exact", "GP that fits noise"


def test_the_bound_is_not_contradicted() -> None:
    assert _contradicted() == {EXACT: 0, NOISE: 0}


def _fault(name: str) -> tuple[str, Callable[..., Any]]:
    """Return what of `certificates` is replaced by what."""
    penalty, kl_bound, lower = bounds.penalty, bounds.kl_bound, bounds.kl_inverse_lower  # type: ignore[attr-defined]
    if name == "no KL":
        return "penalty", lambda kl, terms: penalty(0.0, terms)
    if name == "a tenth of the KL":
        return "penalty", lambda kl, terms: penalty(0.1 * kl, terms)
    if name == "a tenth of the confidence term":
        return "penalty", lambda *all_: replace(penalty(*all_), confidence=0.1 * penalty(*all_).confidence)
    if name == "square root of delta":
        return "penalty", lambda kl, terms: penalty(kl, replace(terms, delta=terms.delta**0.5))
    if name == "inverse half way":
        return "kl_bound", lambda risk, c: (0.5 * (risk + kl_bound(risk, c)[0]), 1.0, 1.0)
    if name == "inverse of a third of c":
        return "kl_bound", lambda risk, c: kl_bound(risk, c / 3.0)
    return "kl_inverse_lower", lambda risk, c: lower(risk, c / 5.0)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("no KL", NOISE), ("a tenth of the KL", NOISE), ("a tenth of the confidence term", EXACT),
        ("square root of delta", EXACT),
        ("inverse half way", EXACT), ("inverse of a third of c", EXACT),
        ("lower inverse", EXACT),
    ],
)  # fmt: skip
def test_the_verdict_says_no_to_a_wrong_bound(monkeypatch: pytest.MonkeyPatch, name: str, setting: str) -> None:
    target, fault = _fault(name)
    monkeypatch.setattr(bounds, target, fault)
    assert _contradicted()[setting] > 0


@pytest.mark.parametrize("delta", [0.5, 0.01])
def test_the_largest_failure_is_that_over_all_risks(delta: float) -> None:
    n = 8
    found = [bounds.certify(RiskAndKL(k / n, 0.0), Terms(n, 0, delta)) for k in range(n + 1)]
    ends = np.array([each.bound_kl for each in found] + [each.lower_kl for each in found])
    risks = np.concatenate([np.linspace(0.0, 1.0, 2001), ends + 1e-12, ends - 1e-12])
    risks = risks[(risks > 0.0) & (risks < 1.0)]
    chance = [
        sum(binom.pmf(k, n, r) for k in range(n + 1) if not found[k].lower_kl <= r <= found[k].bound_kl) for r in risks
    ]
    assert largest_failure(n, delta) == pytest.approx(max(chance), abs=1e-9)


@pytest.mark.parametrize("n", [8, 30])
@pytest.mark.parametrize("delta", [0.5, 0.01])
def test_the_least_share_is_where_the_exact_binomial_limit_is_met(n: int, delta: float) -> None:
    share, c = least_share(n, delta), bounds.penalty(0.0, Terms(n, 0, delta)).per_point
    assert 0.0 < share < 1.0
    for factor, holds in ((1.0 + 1e-6, True), (1.0 - 1e-6, False)):
        upper = kl_inverse(np.arange(n) / n, factor * share * c).p
        # just above a bound, its own k and all below fail
        failure = binom.cdf(np.arange(n), n, upper).max()
        assert (failure <= delta) == holds


def test_without_its_kl_the_bound_of_a_gp_that_fits_noise_rarely_holds() -> None:
    for record in _records(simulations=100):
        assert record.number("held") == 100
        assert record.number("held_without_kl") <= 15
        assert 0.1 < record.number("share_kl") < 0.6


def test_what_each_setting_detects_is_in_the_table() -> None:
    table = power_table(_records())
    assert len(table) == len(coverage_power.DELTAS) + 1
    assert table["detects"].between(0.0, 1.0, inclusive="neither").all()
