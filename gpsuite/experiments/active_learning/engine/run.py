"""One task of active_learning/engine: a repetition, with its errors standardised, or a check of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpsuite.experiments.active_learning.engine.checks import DATA, SATURATION, describe, run_saturation
from gpsuite.experiments.active_learning.shared.run import (
    read_campaign,
    read_inference,
    read_pipeline,
    run_repetition,
)
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.methods.active_learning.inference import Learner
from gpsuite.methods.active_learning.metrics import rmse
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.mixtures import mixture_moments


def run(task: Task, shared: SharedWork) -> Outcome:
    """Run a repetition, describe the data, or fit the sparse GP."""
    if task.params["kind"] == DATA:
        return describe(task)
    if task.params["kind"] == SATURATION:
        return run_saturation(task)
    outcome = run_repetition(task, shared)
    return replace(outcome, metrics={**outcome.metrics, **standardised_errors(task, outcome)})


def standardised_errors(task: Task, outcome: Outcome) -> dict[str, float]:
    """Return the last models' RMSE on the safe test rows over the standard deviation there: of each output and of z.

    The safety model is inferred anew from all its measurements, to predict at the test rows. Nothing without one.
    """
    campaign, pipeline = read_campaign(task), read_pipeline(task.params)
    if not pipeline.safe or "row" not in outcome.arrays:
        return {}
    test, safe = campaign.test, campaign.test_safe
    deviation = test.Y[safe].std(axis=0)
    found = {
        f"standardised_output_{p + 1}": float(outcome.arrays[f"rmse_output_{p + 1}"][-1])
        / float(deviation[p])
        for p in range(campaign.n_outputs)
    }
    rows = np.unique(outcome.arrays["row"][:-1].astype(np.int64))  # the last query is answered, not learnt
    X, z = np.vstack([campaign.start.X, campaign.pool.X[rows]]), campaign.pool.z[rows]
    known = Observations(X, np.zeros(len(X), dtype=np.int64), np.concatenate([campaign.start.z, z]))
    inference = read_inference(task.params["inference"])
    learner = Learner(pipeline.safety_model(), known, test.X[safe], inference, capacity=len(X))
    learner.start(np.random.default_rng(int(task.params["sampler_seed"])))
    learner.predict()
    predictions = learner.predictions
    mean, _ = mixture_moments(predictions.mean, predictions.variance, learner.weights)
    found["standardised_z"] = rmse(mean, test.z[safe][:, None]) / float(test.z[safe].std())
    return found
