"""The loop that chooses measurements: models of outputs and safety, the rule, and its open choices.

Equation: Li et al. 2022, Algorithm 1
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning.acquisition import Pipeline, choose, draw, entropy, joint_entropy, log_densities
from gpsuite.methods.active_learning.inference import InferenceSettings, Learner
from gpsuite.methods.active_learning.problem import (
    ExplorationProblem,
    Judgement,
    Oracle,
    WhenNothingIsSafe,
    checked_choice,
    moment_matched_probability,
    safe_set,
)
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_covariance, mixture_moments

SavedState = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Proposal:
    """A model and the query it requests.

    Attributes:
        index: number of this model, from 0.
        probability_safe: probability that x is safe, by moment matching. NaN without a safety model.
        probabilities: probabilities of being safe at every pool input, [n]. None without a safety model.
        n_safe: number of pool inputs that are probably safe (all, without a safety model).
        n_available: number of queries that were left, safe or not.
        seconds: wall time of inference for `main` and `safety` and of `predict`.
    """

    index: int
    n_sum: int
    row: int
    x: FloatArray
    p: int | None
    probability_safe: float
    entropy: float
    probabilities: FloatArray | None
    n_safe: int
    n_available: int
    monitors: Mapping[str, Judgement]
    seconds: Mapping[str, float]
    diagnostics: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Step(Proposal):
    """A model, the query it requested, and the measurement.

    Attributes:
        y: measured value of output p, or of all outputs [P].
        z: measured safety value. NaN if there is none.
    """

    y: float | FloatArray
    z: float


class Planner:
    """Proposes a query, records the measurement, and proposes the next query: Algorithm 1 of Li et al. 2022.

    Args:
        settings: inference of hyperparameters. Default: sequential Monte Carlo.
        when_nothing_is_safe: stop as infeasible, or propose the most probably safe input.
        queries: largest number of queries. Buffers have this size.

    Attributes:
        status: `running`, or `infeasible` once no query is left.

    Raises:
        ValueError: if the pipeline needs a safety limit and the problem has none.
    """

    def __init__(
        self,
        problem: ExplorationProblem,
        pipeline: Pipeline,
        rng: np.random.Generator,
        settings: InferenceSettings | None,
        when_nothing_is_safe: WhenNothingIsSafe,
        queries: int,
    ) -> None:
        if pipeline.safe and problem.limit is None:
            raise ValueError(f"{pipeline.name} makes only safe queries: the problem needs a safety limit")
        self.index, self.status, self.reason = 0, "running", ""
        self._problem, self._pipeline, self._rng = problem, pipeline, rng
        self._when_nothing_is_safe = checked_choice(when_nothing_is_safe)
        self._available = problem.pool.without(problem.outputs)
        self._proposal: Proposal | None = None
        self._last: _Measured | None = None  # measurements that the models have not used yet
        inputs, self._rows = problem.joined_inputs()
        settings = settings or InferenceSettings()
        self._outputs = Learner(
            pipeline.output_model(problem.n_outputs, problem.n_inputs),
            problem.outputs,
            inputs,
            settings,
            capacity=len(problem.outputs) + queries * (problem.n_outputs if self._full else 1),
            covariances=self._full,
        )
        self._safety: Learner | None = None
        if pipeline.safe and problem.safety is not None:
            capacity = len(problem.safety) + queries
            model = pipeline.safety_model()
            self._safety = Learner(model, problem.safety, problem.pool.X, settings, capacity=capacity)

    def propose(self) -> Proposal | None:
        """Learn from the last measurement and return the next query, the same until its answer. None if none is left.

        Raises:
            FloatingPointError: if no allowed query has an entropy.
        """
        if self._proposal is not None or self.status != "running":
            return self._proposal
        seconds = self._learn()
        begun = time.perf_counter()
        for learner in self._learners.values():
            learner.predict()
        mean, variance = self._moments()
        probabilities = self._probabilities()
        allowed = self._allowed(probabilities)
        if not allowed.any():
            return None
        scores = self._scores(variance)
        chosen = draw(allowed, self._rng) if self._random else choose(scores, allowed)
        if chosen is None:
            raise FloatingPointError("the entropy of no allowed query is a number")
        n_safe = len(allowed) if probabilities is None else int(safe_set(probabilities, self._problem.delta).sum())
        self._proposal = Proposal(
            index=self.index,
            n_sum=len(self._outputs.observations),
            row=chosen[0],
            x=self._problem.pool.X[chosen[0]],
            p=None if self._full else chosen[1],
            probability_safe=float("nan") if probabilities is None else float(probabilities[chosen[0]]),
            entropy=float(scores[chosen]),
            probabilities=probabilities,
            n_safe=n_safe,
            n_available=int(self._candidates.sum()),
            monitors=self._judgements(mean, variance),
            seconds={**seconds, "predict": time.perf_counter() - begun},
            diagnostics={name: learner.posterior.diagnostics for name, learner in self._learners.items()},
        )
        return self._proposal

    def observe(self, y: float | FloatArray, z: float) -> Step:
        """Record the measurement of the proposed query. The models use it when the next query is requested.

        Args:
            y: value of the proposed output, or of all outputs [P].
            z: safety value. Not used without a safety model.

        Raises:
            ValueError: without a proposal, or if y has the wrong number of values.
        """
        proposal, values = self._proposal, np.atleast_1d(np.asarray(y, dtype=np.float64))
        if proposal is None:
            raise ValueError("nothing was proposed since the last observation")
        if values.shape != (self._problem.n_outputs if self._full else 1,):
            raise ValueError(f"y has shape {values.shape}. One value per measured output is expected")
        # a repeated input of the pool can be queried only once
        rows = self._problem.pool.rows_at(proposal.x)
        self._available[rows, slice(None) if proposal.p is None else proposal.p] = False
        self._last = _Measured(proposal.row, proposal.p, values, float(z))
        self._proposal = None
        self.index += 1
        return Step(**vars(proposal), y=y, z=z)

    def state(self) -> SavedState:
        """Return arrays by name, exact in an npz file, with which `restore` continues after the last observation.

        Raises:
            ValueError: while a proposal waits for its observation.
        """
        if self._proposal is not None:
            raise ValueError("a proposal is waiting: save before proposing or after observing")
        saved = {
            "index": np.array(self.index),
            "available": self._available.copy(),
            "generator": np.array(json.dumps(self._rng.bit_generator.state)),
        }
        if self._last is not None:
            saved |= self._last.arrays()
        if self.index:
            for name, learner in self._learners.items():
                saved |= {f"{name}.{key}": array for key, array in learner.arrays().items()}
        return saved

    def restore(self, saved: SavedState) -> None:
        """Continue where `state` was called on a planner of the same problem, pipeline, settings and queries.

        The generator's state is overwritten.

        Raises:
            ValueError: if the saved pool has another shape.
        """
        if saved["available"].shape != self._available.shape:
            raise ValueError(f"the saved pool is {saved['available'].shape}, not {self._available.shape}")
        self.index, self._available = int(saved["index"]), saved["available"].copy()
        self._rng.bit_generator.state = json.loads(str(saved["generator"]))
        self._last = _Measured.from_arrays(saved) if "last_row" in saved else None
        self._proposal, self.status, self.reason = None, "running", ""
        if self.index:
            for name, learner in self._learners.items():
                start = f"{name}."
                learner.restore(
                    {key.removeprefix(start): array for key, array in saved.items() if key.startswith(start)}
                )

    @property
    def _full(self) -> bool:
        return self._pipeline.queries == "full"

    @property
    def _random(self) -> bool:
        return self._pipeline.acquisition == "random"

    @property
    def _learners(self) -> dict[str, Learner]:
        outputs = {"main": self._outputs}
        return outputs if self._safety is None else {**outputs, "safety": self._safety}

    @property
    def _candidates(self) -> BoolArray:
        """Return the mask of queries that are left: [n, P], or [n] if all outputs are measured at once."""
        return self._available.all(axis=1) if self._full else self._available

    def _learn(self) -> dict[str, float]:
        seconds = {}
        for name, learner in self._learners.items():
            begun = time.perf_counter()
            if not self.index:
                learner.start(self._rng)
            elif self._last is not None:
                self._teach(learner, self._last)
            seconds[name] = time.perf_counter() - begun
        self._last = None
        return seconds

    def _teach(self, learner: Learner, last: _Measured) -> None:
        x = self._problem.pool.X[[last.row]]
        if learner is self._outputs:
            p = np.arange(len(last.y)) if last.p is None else np.array([last.p])
            learner.add(np.repeat(x, len(p), axis=0), p, last.y, self._rng)
            return
        known = learner.observations
        # A table has the same z with every output of a row. It is one measurement, not several that agree.
        if not ((x == known.X).all(axis=1) & (last.z == known.y)).any():
            learner.add(x, np.array([0]), np.array([last.z]), self._rng)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the outputs at pool and monitors, [n + more, P]."""
        found = self._outputs.predictions
        return mixture_moments(found.mean, found.variance, self._outputs.weights)

    def _scores(self, variance: FloatArray) -> FloatArray:
        """Return the entropies of all queries: [n, P], or [n] if all outputs are measured at once."""
        n = len(self._available)
        found = self._outputs.predictions
        if found.covariance is None:
            return entropy(variance[:n])
        joint = mixture_covariance(found.mean[:, :n], found.covariance[:, :n], self._outputs.weights)
        return joint_entropy(joint[1])

    def joint_entropies(self, X: FloatArray) -> FloatArray:
        """Return the entropy of all outputs together at inputs [m, D] by the last model, in nats, [m].

        Equation: Li et al. 2022, Eq. (7)
        """
        last = self._outputs.predictions
        found = PoolPredictions(last.model, last.u, last.observations, X, covariances=True)
        assert found.covariance is not None
        return joint_entropy(mixture_covariance(found.mean, found.covariance, self._outputs.weights)[1])

    def safety_moments(self) -> tuple[FloatArray, FloatArray] | None:
        """Return mean and variance of the safety value at the pool by the last model, [n] each. None without one."""
        if self._safety is None:
            return None
        found = self._safety.predictions
        return mixture_moments(found.mean[..., 0], found.variance[..., 0], self._safety.weights)

    def _probabilities(self) -> FloatArray | None:
        """Return the probability of being safe at each pool input, [n]. None without a safety model."""
        if self._safety is None or self._problem.limit is None:
            return None
        found = self._safety.predictions
        return moment_matched_probability(
            self._problem.limit, found.mean[..., 0], found.variance[..., 0], self._safety.weights
        )

    def _allowed(self, probabilities: FloatArray | None) -> BoolArray:
        """Return which candidates may be proposed. If none, set status and reason: the exploration ends."""
        candidates = self._candidates
        if not candidates.any():
            self._stop(f"the pool is exhausted after {self.index} queries")
        if probabilities is None or not candidates.any():
            return candidates
        allowed = _at_rows(candidates, safe_set(probabilities, self._problem.delta))
        if allowed.any():
            return allowed
        left = candidates.reshape(len(candidates), -1).any(axis=1)
        chances = np.where(left, np.nan_to_num(probabilities), -1.0)
        if self._when_nothing_is_safe == "safest":
            return _at_rows(candidates, chances == chances.max())
        demanded = 1.0 - self._problem.delta
        self._stop(f"no query left is safe with probability above {demanded:g}. The safest has {chances.max():.3g}")
        return allowed

    def _stop(self, reason: str) -> None:
        self.status, self.reason = "infeasible", reason

    def _judgements(self, mean: FloatArray, variance: FloatArray) -> dict[str, Judgement]:
        found, weights, noise = self._outputs.predictions, self._outputs.weights, self._outputs.noise
        judged = {}
        for name, monitor in self._problem.monitors.items():
            rows, density = self._rows[name], None
            if monitor.Y is not None:
                each = log_densities(monitor.Y, found.mean[:, rows], found.variance[:, rows], noise, weights)
                density = each.mean(axis=0)
            judged[name] = Judgement(mean[rows], variance[rows], density)
        return judged


@dataclass(frozen=True, eq=False)
class _Measured:
    """A query and its measurement: y [m] of output p (None: all), and z."""

    row: int
    p: int | None
    y: FloatArray
    z: float

    def arrays(self) -> SavedState:
        p = -1 if self.p is None else self.p
        return {"last_row": np.array(self.row), "last_p": np.array(p), "last_y": self.y, "last_z": np.array(self.z)}

    @classmethod
    def from_arrays(cls, saved: SavedState) -> _Measured:
        p = int(saved["last_p"])
        return cls(int(saved["last_row"]), None if p < 0 else p, saved["last_y"], float(saved["last_z"]))


def _at_rows(candidates: BoolArray, rows: BoolArray) -> BoolArray:
    """Return the candidates [n, P] or [n] at some rows [n]."""
    return (candidates.T & rows).T


class Explorer(Iterator[Step]):
    """The iterator that `explore` returns. The planner's `status` and `reason` report how it ended."""

    def __init__(self, planner: Planner, oracle: Oracle, iterations: int) -> None:
        self.planner = planner
        self._oracle = oracle
        self._iterations = iterations

    @property
    def status(self) -> str:
        """`running`, `done`, or `infeasible` if no query was left before the last iteration."""
        if self.planner.status == "running" and self.planner.index >= self._iterations:
            return "done"
        return self.planner.status

    @property
    def reason(self) -> str:
        return self.planner.reason

    def state(self) -> SavedState:
        return self.planner.state()

    def restore(self, state: SavedState) -> None:
        """Continue after the last step of an earlier exploration of the same problem, with the same bits.

        The generator's state is overwritten, and the earlier queries count.

        Raises:
            ValueError: if the state does not fit.
        """
        self.planner.restore(state)

    def __next__(self) -> Step:
        if self.planner.index >= self._iterations:
            raise StopIteration
        proposal = self.planner.propose()
        if proposal is None:
            raise StopIteration
        return self.planner.observe(*self._oracle(proposal.row, proposal.p))


def explore(
    problem: ExplorationProblem,
    pipeline: Pipeline,
    oracle: Oracle,
    rng: np.random.Generator,
    iterations: int,
    settings: InferenceSettings | None = None,
    when_nothing_is_safe: WhenNothingIsSafe = "stop",
) -> Explorer:
    """Return an iterator over models and queries: step k describes the k-th data set's model, then its query.

    Memory does not grow with the iterations. All work happens in `next`.

    Args:
        when_nothing_is_safe: `stop` with status infeasible, or query the `safest` input.

    Raises:
        ValueError: if the pipeline needs a safety limit and the problem has none.
    """
    planner = Planner(problem, pipeline, rng, settings, when_nothing_is_safe, iterations)
    return Explorer(planner, oracle, iterations)
