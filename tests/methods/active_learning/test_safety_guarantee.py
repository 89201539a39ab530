"""The share of unsafe queries by repetition: at most delta where everything is drawn from the models' own priors.

What is promised. Let the hyperparameters be drawn from the prior, f and h from their processes and the noise from its
distribution, and let D be all that was measured before a query. An exact Bayesian learner that only allows x with
P(h(x) unsafe | D) < delta has P(query unsafe) < delta, whatever chooses among the allowed, since choice and stopping
depend on D (and on independent randomness) only. Hence E[sum_t (U_t - delta)] <= 0 over the queries of a run, U_t
being 1 for an unsafe query. This needs:

- Starting points chosen without a look at h. Runs may be selected by what was measured, never by the true h at the
  start: "the start is safe" is knowledge the learner does not have. So starting rows are drawn from the whole pool,
  and a run in which nothing is probably safe makes no query.
- Evidence run by run. U_t is never observed (only noisy z is), so the U_t of a run are not martingale differences:
  given that one query was unsafe, the next is unsafe more often than delta. The runs are independent, and their
  surplus sum_t (U_t - delta) / T has expectation at most 0. Dividing by the number of queries made would not do.

The test bets on the surplus: the product over runs of 1 + stake * surplus_r is a nonnegative supermartingale, and
so is its mean over stakes; it exceeds 1/error with probability at most error (Ville's inequality). No normality,
no variance, no correction for several queries.

Slack. None is granted for the learner's two approximations. Particles in place of the posterior: queries turn out as
unsafe as the particles' mixture says (second test), so their error is below what the bets can see. The normal
distribution in the published rule: it promises nothing exactly, as a point it calls safe may by the mixture itself be
unsafe with a probability up to 1/(1 + 1.645^2) = .27 (Cantelli); met here are up to .06. Its queries are held against
delta and against their mixture probabilities; for an exact promise the second kind of run takes the mixture's
probability as the rule, and then the most doubtful of the allowed points, which is the hardest choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning import exploration
from gpsuite.methods.active_learning.acquisition import PIPELINES
from gpsuite.methods.active_learning.exploration import explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.problem import (
    ExplorationProblem,
    Pool,
    SafetyLimit,
    mixture_probability,
    moment_matched_probability,
)
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.priors import HyperPriors
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import stream

pytestmark = [pytest.mark.guarantee, pytest.mark.slow]

DELTA = 0.05
LIMIT = SafetyLimit(-0.5, "above")  # about a third of what the priors give is unsafe
START, QUERIES = 6, 8
SETTINGS = InferenceSettings(smc=SMCSettings(particles=64))
FAMILY_ERROR = 1e-3  # of all bets on true promises together
FAST, MANY = 40, 160  # runs
# stakes must keep 1 + stake * surplus positive: surplus >= -delta, or >= -(largest probability), at most .27
STAKES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
CALIBRATION_STAKES = np.array([0.5, 1.0, 2.0, 3.0])

Rule = Callable[[SafetyLimit, FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True)
class Kind:
    """What is run: pipeline and outputs, size of the pool, the probability used as the rule, and who chooses."""

    name: str
    pipeline: str
    n_outputs: int
    pool: int
    rule: Rule
    most_doubtful: bool  # of the allowed, in place of the largest entropy: the hardest choice for the promise


PUBLISHED = Kind("published", "AL_MOGP", 2, 20, moment_matched_probability, most_doubtful=False)
HARDEST = Kind("hardest", "AL_indGPs", 1, 80, mixture_probability, most_doubtful=True)
KINDS = (PUBLISHED, HARDEST)
BETS = 2 * 2 * len(KINDS)  # two promises, two numbers of runs


@dataclass(frozen=True, eq=False)
class Run:
    """Queries of one run: whether h is unsafe there, and the learner's probability of it; [number of queries]."""

    unsafe: BoolArray
    by_mixture: FloatArray


def drawn(model: LinearCoregionalization, X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return functions and their measurements at X, [n, P] each, from the model's prior with Matérn 5/2 kernels."""
    parameters = model.constrain(model.draw_prior(rng, 1))
    distance = np.abs(X - X.T)
    latent = np.empty((len(X), model.n_latent))
    for number in range(model.n_latent):
        a = np.sqrt(5.0) * distance / parameters.lengthscale[0, number]
        covariance = parameters.variance[0, number] * (1.0 + a + a**2 / 3.0) * np.exp(-a)
        values, vectors = np.linalg.eigh(covariance)
        latent[:, number] = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(X)))
    functions = latent @ parameters.W[0].T
    return functions, functions + np.sqrt(parameters.noise[0]) * rng.standard_normal(functions.shape)


@cache
def simulated(kind: Kind, number: int, rule_delta: float, truth: HyperPriors) -> Run:
    """Return a run whose rule uses `rule_delta` on functions drawn from the models with the priors `truth`."""
    rng = stream(2022, "safety guarantee", kind.name, number)
    pipeline, X = PIPELINES[kind.pipeline], np.linspace(-2.0, 2.0, kind.pool)[:, None]
    nature = replace(pipeline, priors=truth)
    _, Y = drawn(nature.output_model(kind.n_outputs, 1), X, rng)  # type: ignore[arg-type]
    h, z = (values[:, 0] for values in drawn(nature.safety_model(), X, rng))
    start, p = rng.choice(kind.pool, START, replace=False), np.arange(START) % kind.n_outputs
    problem = ExplorationProblem(
        pool=Pool(X, np.ones((kind.pool, kind.n_outputs), dtype=bool)),
        outputs=Observations(X[start], p, Y[start, p]),
        safety=Observations(X[start], np.zeros(START, dtype=np.int64), z[start]),
        limit=LIMIT,
        delta=rule_delta,
    )
    judged: list[tuple[FloatArray, FloatArray]] = []  # of each model: the rule's probabilities, the mixture's

    def rule(*moments: Any) -> FloatArray:
        judged.append((kind.rule(*moments), mixture_probability(*moments)))
        return judged[-1][0]

    def most_doubtful(_: FloatArray, allowed: BoolArray) -> tuple[int, int]:
        row = int(np.argmin(np.where(allowed.any(axis=1), judged[-1][0], np.inf)))
        return row, int(np.argmax(allowed[row]))

    def oracle(row: int, p: int | None) -> tuple[float, float]:
        return float(Y[row, p]), float(z[row])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploration, "moment_matched_probability", rule)
        if kind.most_doubtful:
            patch.setattr(exploration, "choose", most_doubtful)
        rows = [step.row for step in explore(problem, pipeline, oracle, rng, QUERIES, SETTINGS)]
    probabilities = [1.0 - mixture[row] for row, (_, mixture) in zip(rows, judged, strict=False)]
    return Run(~LIMIT.holds(h[rows]), np.array(probabilities))


def simulations(kind: Kind, count: int, rule_delta: float = DELTA, lengthscale: float = 1.0) -> tuple[Run, ...]:
    """Return runs on functions whose lengthscales are drawn from `lengthscale` times their prior."""
    truth = HyperPriors().scaled(lengthscale=lengthscale)
    return tuple(simulated(kind, number, rule_delta, truth) for number in range(count))


def log_wealth(surplus: FloatArray, stakes: FloatArray) -> float:
    """Return the logarithm of what betting on a surplus above 0 in each run has made of 1, mean over the stakes."""
    assert 1.0 + stakes.max() * surplus.min() > 0.0
    return float(logsumexp(np.log1p(stakes[:, None] * surplus).sum(axis=1)) - np.log(len(stakes)))


def over_delta(runs: Sequence[Run]) -> float:
    """Return the log evidence that more than a share `DELTA` of the queries is unsafe."""
    return log_wealth(np.array([np.sum(run.unsafe - DELTA) / QUERIES for run in runs]), STAKES)


def over_probability(runs: Sequence[Run]) -> float:
    """Return the log evidence that more queries are unsafe than the learner's mixture expects."""
    surplus = np.array([np.sum(run.unsafe - run.by_mixture) / QUERIES for run in runs])
    return log_wealth(surplus, CALIBRATION_STAKES)


def shares(runs: Sequence[Run]) -> tuple[float, float, int]:
    """Return the share of unsafe queries, their mean probability by the mixture, and the number of queries."""
    unsafe = np.concatenate([run.unsafe for run in runs])
    return float(unsafe.mean()), float(np.concatenate([run.by_mixture for run in runs]).mean()), len(unsafe)


COUNTS = [FAST, MANY]
NOTICED = float(-np.log(FAMILY_ERROR / BETS))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_unsafe_queries_are_at_most_delta_under_the_own_prior(kind: Kind, count: int) -> None:
    runs = simulations(kind, count)
    unsafe, expected, queries = shares(runs)
    assert queries > 2 * count  # the rule is put to the test, not idle
    assert over_delta(runs) < NOTICED, f"{unsafe:.4f} of {queries} queries are unsafe"
    # what the learner itself expects, exactly by the mixture, keeps the promise, too
    assert expected < DELTA


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_queries_are_as_unsafe_as_their_mixture_probabilities_say(kind: Kind, count: int) -> None:
    runs = simulations(kind, count)
    assert over_probability(runs) < NOTICED, f"unsafe, expected, queries: {shares(runs)}"


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_rule_with_ten_times_delta_is_noticed(kind: Kind) -> None:
    """The bet has the power to fail: the same runs with the wrong number in the rule."""
    assert over_delta(simulations(kind, FAST, rule_delta=10.0 * DELTA)) > NOTICED


def test_functions_that_are_not_from_the_prior_are_noticed() -> None:
    """The promise ends with its condition: functions that vary faster than the prior says are more often unsafe."""
    runs = simulations(HARDEST, 2 * FAST, lengthscale=0.1)
    assert min(over_delta(runs), over_probability(runs)) > -np.log(FAMILY_ERROR)
