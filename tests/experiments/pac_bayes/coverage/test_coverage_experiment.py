from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from gpsuite.config.request import read_request
from gpsuite.data.generators import kernel_regression
from gpsuite.experiments.base import EXPERIMENTS, Outcome, SharedWork
from gpsuite.experiments.pac_bayes import coverage
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
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
