"""What `gpsuite bench peers` computes: the same numbers by our code and by other libraries.

Every side is a worker of scripts/peers. Objectives and gradients are compared by time; samplers by their cost per
effective sample: CPU seconds times the mean squared error of a run's means, in posterior variances, which is one over
the number of independent draws that would do as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.hamiltonian import identified_quantities
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings, start
from gpsuite.seeds import stream

STEP_GOAL = 0.4  # of every peer's objective and gradient
SAMPLE_GOAL = 0.2  # of their cost per effective sample
AGREEMENT = 1e-6  # relative, of value and gradient

FULL_ROWS, FULL_INPUTS = (404, 2000), 13  # as Boston housing
SPARSE_ROWS, SPARSE_INPUTS = 12000, 26  # as pol
INDUCING = (100, 500)
SAMPLED_ROWS, SAMPLED_OUTPUTS = 42, 2
PARTICLES, REFERENCE_PARTICLES = 128, 2048
WARM_UP, SAMPLES = 500, 1000

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Accuracy:
    """How good an answer is.

    Attributes:
        error: what a side's time is multiplied by: 1 for an objective, a run's mean squared error for a sampler.
        said: the deviation in words.
    """

    error: float
    said: str


@dataclass(frozen=True)
class PeerCase:
    """One problem for several libraries.

    Attributes:
        case: what is computed, with its size.
        peers: those that compute it.
        goal: largest allowed ratio ours / peer.
        prepare: returns the workers' arrays, and how good an answer is, given our first answer.
        rounds: how often each side runs.
    """

    case: str
    peers: tuple[str, ...]
    goal: float
    prepare: Callable[[], tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]]
    rounds: int


def cases() -> list[PeerCase]:
    """Return the cases: the full GP's likelihood, VFE's bound, and the posterior of a multi-output model."""
    full = [
        PeerCase(
            f"log marginal likelihood + gradient, n={rows}, D={FULL_INPUTS}",
            ("gpjax", "gpytorch"),
            STEP_GOAL,
            partial(_objective, "likelihood", rows, FULL_INPUTS, 0),
            9,
        )
        for rows in FULL_ROWS
    ]
    sparse = [
        PeerCase(
            f"VFE bound + gradient, n={SPARSE_ROWS}, M={M}, D={SPARSE_INPUTS}",
            ("gpjax",),
            STEP_GOAL,
            partial(_objective, "vfe", SPARSE_ROWS, SPARSE_INPUTS, M),
            9 if M < 500 else 6,
        )
        for M in INDUCING
    ]
    case = f"one effective sample, posterior of 2 outputs' hyperparameters, N={SAMPLED_ROWS}"
    return [*full, *sparse, PeerCase(case, ("blackjax", "numpyro"), SAMPLE_GOAL, _posterior, 12)]


def _objective(
    task: str, rows: int, inputs: int, M: int
) -> tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]:
    rng = stream(0, "bench", rows)
    X = rng.standard_normal((rows, inputs))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(rows)
    theta = np.concatenate([[0.0], np.full(inputs, 0.7), [0.0]])
    return {"task": task, "X": X, "y": y, "theta": theta, "Z": X[:M]}, same_numbers


def same_numbers(answer: Answer, ours: Answer) -> Accuracy:
    """Compare value and gradient.

    Raises:
        ArithmeticError: if they are not the same: the two times would not speak of the same work.
    """
    gradient, expected = (np.array(each["gradient"]) for each in (answer, ours))
    value = abs(answer["value"] - ours["value"]) / abs(ours["value"])
    if gradient.shape != expected.shape:
        raise ArithmeticError(f"a gradient of {len(gradient)} numbers; ours has {len(expected)}")
    slope = float(np.abs(gradient - expected).max() / np.abs(expected).max())
    if not max(value, slope) <= AGREEMENT:
        raise ArithmeticError(f"value and gradient differ from ours by {value:.1e} and {slope:.1e}")
    return Accuracy(1.0, f"value {value:.0e}, gradient {slope:.0e} from ours")


def _posterior() -> tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]:
    rng = stream(0, "bench", "peers")
    X, p = rng.uniform(-2.0, 2.0, (SAMPLED_ROWS, 2)), np.arange(SAMPLED_ROWS) % SAMPLED_OUTPUTS
    y = np.sin(2.0 * X[:, 0] + p) + 0.3 * rng.standard_normal(SAMPLED_ROWS)
    model, settings = LinearCoregionalization(SAMPLED_OUTPUTS), SMCSettings(particles=REFERENCE_PARTICLES)
    likelihood = model.likelihood(Observations(X, p, y))
    large = start(model, likelihood, rng, settings)
    quantities = partial(identified_quantities, model, likelihood)
    reference = quantities(large.u)
    arrays = {
        **{"task": "posterior", "X": X, "y": y, "p": p, "seed": 0, "particles": PARTICLES},
        "prior": model.draw_prior(rng, REFERENCE_PARTICLES),
        # the peers' moves are ours, with the leapfrog step that ours ends with
        **{"step": large.step_size, "leapfrog": settings.leapfrog, "moves": settings.moves},
        **{"keep": settings.keep, "warm_up": WARM_UP, "samples": SAMPLES},
    }
    return arrays, partial(distance_of_means, quantities, reference)


def distance_of_means(
    quantities: Callable[[FloatArray], FloatArray], reference: FloatArray, answer: Answer, _: Answer
) -> Accuracy:
    """Return the mean squared error of a run's means in posterior variances, the reference's draws [S, Q] given."""
    found = quantities(np.array(answer["draws"])).mean(axis=0)
    error = float(np.mean(((found - reference.mean(axis=0)) / reference.std(axis=0)) ** 2))
    return Accuracy(error, f"{1.0 / error:.0f} effective samples" if error > 0.0 else "exact")
