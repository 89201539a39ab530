"""What a plan costs, from the sizes of its tables: so that large ones are planned with fewer hyperparameter vectors.

The constants are CPU seconds of one core, fitted to measurements with 30 to 500 values and 1 to 10 outputs.

Equation: none, fitted to measured seconds
"""

from __future__ import annotations

import math

from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

LEAST_PARTICLES, LEAST_MEMBERS = 32, 16
"""However large the tables are."""

ROOM = 100_000_000
"""Numbers that are kept to condition on proposals: 0.8 GB."""

WARM_STAGES = 3.0
"""Of an inference that continues, with a few new values; both likelihoods count."""

INFERENCE_SECONDS, PREDICTION_SECONDS = 2.0, 150.0
"""More is not spent on one posterior, or on one model's predictions, than with the least allows."""


def gradient_seconds(values: int, outputs: int) -> float:
    """Return the seconds of one log marginal likelihood with its gradient, by N values of P outputs."""
    n = float(values)
    return 2.2e-9 * n**2 * outputs + 2.75e-11 * n**3 + 6e-7 * n + 5e-7 * float(outputs) ** 2


def gradients(smc: SMCSettings, values: int, outputs: int) -> float:
    """Return the number of gradients per particle of a cold start: stages times moves."""
    stages = 1.0 + 1.2 * math.log2(1.0 + values) + 0.15 * outputs
    return stages * (1 + smc.moves * smc.leapfrog)


def particles(smc: SMCSettings, values: int, outputs: int) -> int:
    """Return how many particles stand for a posterior: at most those of the settings, at least the smaller of 32."""
    each = gradient_seconds(values, outputs) * gradients(smc, values, outputs)
    return min(smc.particles, max(LEAST_PARTICLES, int(INFERENCE_SECONDS / each)))


def prediction_seconds(values: int, outputs: int, candidates: int) -> float:
    """Return the seconds of predicting all outputs at the candidates with one hyperparameter vector."""
    return values * candidates * outputs * (5e-9 + 3.8e-11 * values)


def members(most: int, values: int, outputs: int, candidates: int) -> int:
    """Return how many of the particles predict: at most `most`, at least the smaller of that and 16."""
    each = prediction_seconds(values, outputs, candidates)
    return min(most, max(LEAST_MEMBERS, int(PREDICTION_SECONDS / each)))


def plan_seconds(
    values: int,
    safety_values: int,
    *,
    outputs: int,
    candidates: int,
    measurements: int,
    smc: SMCSettings,
    warm: bool = False,
) -> float:
    """Return the seconds of a plan.

    Args:
        values: number of output values, N.
        safety_values: number of safety values.
        outputs: P.
        candidates: number of candidates.
        measurements: asked for.
        smc: settings of the inference, its particles the most.
        warm: whether it continues an earlier one.
    """
    total = 0.0
    for n, P in ((safety_values, 1), (values, outputs)):
        each = WARM_STAGES * (1 + smc.moves * smc.leapfrog) if warm else gradients(smc, n, P)
        total += particles(smc, n, P) * each * gradient_seconds(n, P)
    judging = members(particles(smc, safety_values, 1), safety_values, 1, candidates)
    total += judging * safety_seconds(safety_values, candidates)
    predicting = members(particles(smc, values, outputs), values, outputs, candidates)
    total += predicting * prediction_seconds(values, outputs, candidates)
    if measurements > 1:
        again = min(candidates, ROOM // (predicting * outputs * (values + measurements)))
        total += predicting * prediction_seconds(values, outputs, again)
        total += 1e-9 * predicting * (measurements - 1) * values * again * outputs
    return total


def safety_seconds(values: int, candidates: int) -> float:
    """Return the seconds of judging the candidates with one hyperparameter vector."""
    n = float(values)
    return 1.2e-9 * n**3 + n * candidates * (1.2e-8 + 8e-11 * n)
