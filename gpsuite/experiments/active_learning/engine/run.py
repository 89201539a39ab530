"""A repetition of active_learning/engine, with its errors standardised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpsuite.experiments.active_learning.shared.run import read_repetition, run_repetition
from gpsuite.experiments.active_learning.shared.tasks import RepetitionTask
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.methods.active_learning.inference import Learner
from gpsuite.methods.active_learning.metrics import rmse
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.mixtures import mixture_moments


def run_and_standardise(task: Task[RepetitionTask], shared: SharedWork) -> Outcome:
    """Run a repetition and add its last errors in standard deviations."""
    outcome = run_repetition(task, shared)
    return replace(outcome, metrics={**outcome.metrics, **standardised_errors(task, outcome)})


def standardised_errors(task: Task[RepetitionTask], outcome: Outcome) -> dict[str, float]:
    """Return the last models' RMSE on the safe test rows over the standard deviation there: of each output and of z.

    The safety model is inferred anew from all its measurements, to predict at the test rows. Nothing without one.
    """
    repetition, pipeline = read_repetition(task), task.params.read_pipeline()
    if not pipeline.safe or "row" not in outcome.arrays:
        return {}
    test, safe = repetition.test, repetition.test_safe
    deviation = test.Y[safe].std(axis=0)
    found = {
        f"standardised_output_{p + 1}": float(outcome.arrays[f"rmse_output_{p + 1}"][-1])
        / float(deviation[p])
        for p in range(repetition.n_outputs)
    }
    rows = np.unique(outcome.arrays["row"][:-1].astype(np.int64))  # the last query is answered, not learnt
    X, z = np.vstack([repetition.start.X, repetition.pool.X[rows]]), repetition.pool.z[rows]
    known = Observations(X, np.zeros(len(X), dtype=np.int64), np.concatenate([repetition.start.z, z]))
    learner = Learner(
        pipeline.safety_model(), known, test.X[safe], task.params.inference.settings, capacity=len(X)
    )
    learner.start(np.random.default_rng(task.params.sampler_seed))
    learner.predict()
    predictions = learner.predictions
    mean, _ = mixture_moments(predictions.mean, predictions.variance, learner.weights)
    found["standardised_z"] = rmse(mean, test.z[safe][:, None]) / float(test.z[safe].std())
    return found
