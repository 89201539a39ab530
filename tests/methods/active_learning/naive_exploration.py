"""The exploration written out plainly: nothing is kept or extended, every prediction inverts the covariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.acquisition import Pipeline
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.problem import ExplorationProblem, Monitor
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.sampling.hamiltonian import sample_hmc
from gpsuite.models.sampling.posterior import HyperPosterior, find_optimum
from gpsuite.models.sampling.sequential_monte_carlo import NewObservations, SMCState, start, update
from tests.methods.active_learning.exploration_problems import Truth

# Row by row extended predictions agree with new ones to rounding, which the moves of the particles enlarge a little.
ROUNDING = 1e-6


class NaiveModel:
    """Keeps nothing but data and particles; every prediction inverts the covariance of all data."""

    def __init__(self, model: MultiOutputModel, data: Observations, how: InferenceSettings) -> None:
        self.model, self.data, self.how = model, data, how
        self.cloud: SMCState | None = None

    def start(self, rng: np.random.Generator) -> None:
        if self.how.kind == "smc":
            self.cloud = start(self.model, self.model.likelihood(self.data), rng, self.how.smc)
        else:
            self.found = self.refit(rng, None)

    def add(self, X: FloatArray, p: Any, y: FloatArray, rng: np.random.Generator) -> None:
        old = self.model.likelihood(self.data)
        self.data = self.data.extended(X, p, y)
        new = self.model.likelihood(self.data)
        if self.cloud is None:
            self.found = self.refit(rng, self.found.u)
            return
        ratio = new.value(self.cloud.u) - old.value(self.cloud.u)
        self.cloud = update(self.cloud, self.model, NewObservations(old, new, ratio), rng, self.how.smc)

    def refit(self, rng: np.random.Generator, previous: FloatArray | None) -> HyperPosterior:
        likelihood = self.model.likelihood(self.data)
        if self.how.kind == "hmc":
            return sample_hmc(self.model, likelihood, rng, self.how.hmc)
        return find_optimum(
            self.model,
            likelihood,
            rng,
            replace(self.how.optimum, kind=self.how.kind),  # type: ignore[arg-type]
            previous,
        )

    @property
    def posterior(self) -> HyperPosterior:
        return self.found if self.cloud is None else self.cloud.posterior

    def moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean and covariance of all outputs at one x: of each particle, and of their mixture."""
        P = self.model.n_outputs
        X, p = np.repeat(x[None], P, axis=0), np.arange(P)
        u, weights, d = self.posterior.u, self.posterior.weights, self.data
        K = self.model.covariance(u, d.X, d.p, d.X, d.p)
        K = K + np.stack([np.diag(noise[d.p]) for noise in self.model.noise(u)])
        cross = self.model.covariance(u, d.X, d.p, X, p)
        solved = np.linalg.solve(K, cross)
        means = np.einsum("snp,n->sp", solved, d.y)
        covariances = self.model.covariance(u, X, p, X, p) - np.einsum("snp,snq->spq", cross, solved)
        mean = weights @ means
        second = covariances + means[:, :, None] * means[:, None, :]
        return means, covariances, mean, np.einsum("s,spq->pq", weights, second) - np.outer(mean, mean)


def naive_loop(
    problem: ExplorationProblem, pipeline: Pipeline, truth: Truth, seed: int, iterations: int, how: InferenceSettings
) -> Iterator[dict[str, Any]]:
    rng, P, pool = np.random.default_rng(seed), problem.n_outputs, problem.pool.X
    main = NaiveModel(pipeline.output_model(P, problem.n_inputs), problem.outputs, how)
    assert problem.safety is not None
    assert problem.limit is not None
    safety = NaiveModel(pipeline.safety_model(), problem.safety, how) if pipeline.safe else None
    available = problem.pool.available.copy()
    main.start(rng)
    if safety is not None:
        safety.start(rng)
    for _ in range(iterations):
        options, scores, probabilities = [], [], []
        for row, x in enumerate(pool):
            covariance = main.moments(x)[3]
            if safety is not None:
                _, _, [mean], [[variance]] = safety.moments(x)
                probabilities.append(ndtr((mean - problem.limit.value) / np.sqrt(variance)))
                if probabilities[-1] <= 1.0 - problem.delta:
                    continue
            if pipeline.queries == "full":
                if available[row].all():
                    options.append((row, None))
                    scores.append(0.5 * np.log(np.linalg.det(2 * np.pi * np.e * covariance)))
                continue
            for p in np.flatnonzero(available[row]):
                options.append((row, int(p)))  # type: ignore[arg-type]
                scores.append(0.5 * np.log(2 * np.pi * np.e * covariance[p, p]))
        index = int(rng.choice(len(options)) if pipeline.acquisition == "random" else np.argmax(scores))
        row, p = options[index]
        test = problem.monitors["test"]
        yield {
            "query": (row, p),
            "entropy": scores[index],
            "probabilities": probabilities,
            "mean": np.stack([main.moments(x)[2] for x in test.X]),
            "variance": np.stack([np.diag(main.moments(x)[3]) for x in test.X]),
            "log_density": naive_log_density(main, test),
        }
        measured = np.arange(P) if p is None else np.array([p])
        available[row, measured] = False
        X = np.repeat(pool[[row]], len(measured), axis=0)
        main.add(X, measured, truth.Y[row, measured], rng)
        if safety is not None and (row, truth.z[row]) not in {
            (int(np.argmin(np.abs(pool[:, 0] - x))), z) for x, z in zip(safety.data.X[:, 0], safety.data.y, strict=True)
        }:
            safety.add(pool[[row]], np.array([0]), truth.z[[row]], rng)


def naive_log_density(main: NaiveModel, test: Monitor) -> FloatArray:
    assert test.Y is not None
    found = []
    for x, y in zip(test.X, test.Y, strict=True):
        means, covariances, _, _ = main.moments(x)
        sd = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2) + main.model.noise(main.posterior.u))
        found.append(np.log(main.posterior.weights @ norm.pdf(y, means, sd)))
    return np.mean(found, axis=0)
