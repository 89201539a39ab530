"""Ask and tell: which safe measurements come next, when a person or a machine measures (Li et al. 2022, Eqs. 7-9).

    planner = MeasurementPlanner(SafetyLimit(1.0, "below"), np.random.default_rng(0))
    planner.tell(X, Y, z)  # measured so far; NaN where an output was not measured
    plan = planner.ask(candidates, 3)

Everything is in the user's units; the models see standardised values (`plan_units`). Between two calls of `ask`, new
measurements reach the posterior of the hyperparameters by sequential Monte Carlo.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.methods.active_learning.acquisition import choose, draw, entropy, joint_entropy
from gpsuite.methods.active_learning.pipelines import PIPELINES, Pipeline
from gpsuite.methods.active_learning.plan_models import Belief, KnownValues
from gpsuite.methods.active_learning.plan_units import Units
from gpsuite.methods.active_learning.planner import WhenNothingIsSafe
from gpsuite.methods.active_learning.problem import BoolArray, Pool
from gpsuite.methods.active_learning.safety import SafetyLimit, safe_set
from gpsuite.models.config import FloatArray
from gpsuite.models.multi_output import MultiOutputModel, Observations
from gpsuite.models.sequential_monte_carlo import SMCSettings, SMCState

SavedState = dict[str, npt.NDArray[Any]]


class NothingToMeasureError(ValueError):
    """No candidate has an output that was not measured there."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """One measurement to make.

    Attributes:
        row: of the candidates.
        x: the input [D].
        p: output to measure, or None: all.
        entropy: of what is to be measured, noise-free and standardised, in nats, once the earlier proposals of the
            plan are measured.
        probability_safe: of x, by what is measured now.
        mean: of every output there, by what is measured now, [P].
        sd: standard deviation of every noise-free output there, by what is measured now, [P].
    """

    row: int
    x: FloatArray
    p: int | None
    entropy: float
    probability_safe: float
    mean: FloatArray
    sd: FloatArray


@dataclass(frozen=True, eq=False)
class Plan:
    """The next measurements, and what the models say at the candidates.

    Attributes:
        status: `done`, or `infeasible` if no candidate is safe enough.
        reason: why there are no, or fewer, proposals than asked for; else empty.
        proposals: in the order to be measured.
        probability_safe: of each candidate, [n].
        mean: of the outputs at each candidate, [n, P].
        sd: standard deviation of the noise-free outputs at each candidate, [n, P].
        entropy: of each single output there, noise-free and standardised, in nats, before any of the proposals, [n, P].
        n_safe: number of candidates that are safe enough.
        safest: row of the most probably safe candidate that can still be measured.
        started: how the posterior of the hyperparameters came about: `cold: ...` or `warm: ...`.
        diagnostics: of its sampler, for `outputs` and `safety`.
    """

    status: str
    reason: str
    proposals: tuple[Proposal, ...]
    probability_safe: FloatArray
    mean: FloatArray
    sd: FloatArray
    entropy: FloatArray
    n_safe: int
    safest: int
    started: str
    diagnostics: Mapping[str, Mapping[str, float]]


class MeasurementPlanner:
    """Proposes safe, informative measurements, and learns from what was measured.

    Args:
        limit: when a safety value is safe.
        rng: the only source of randomness.
        pipeline: model and rule; it must ask for safe measurements.
        delta: a proposal must be safe with probability above 1 - delta.
        smc: how hyperparameters are inferred.

    Raises:
        ValueError: if delta is not in (0, 1], or the pipeline knows no safety.
    """

    def __init__(
        self,
        limit: SafetyLimit,
        rng: np.random.Generator,
        *,
        pipeline: Pipeline = PIPELINES["AL_MOGP"],
        delta: float = 0.05,
        smc: SMCSettings | None = None,
    ) -> None:
        if not pipeline.safe or not 0.0 < delta <= 1.0:
            raise ValueError(f"{pipeline.name}, delta={delta}: needs a safe pipeline and 0 < delta <= 1")
        self._limit, self._delta, self._rng, self._pipeline = limit, delta, rng, pipeline
        self._smc = smc or SMCSettings()
        self._n_outputs = 0
        self._known: dict[str, KnownValues] = {}
        self._units: Units | None = None
        self._beliefs: dict[str, Belief] = {}

    def tell(self, X: FloatArray, Y: FloatArray, z: FloatArray) -> None:
        """Take in measured rows; values that are known already are passed over, so a longer table may be told again.

        Args:
            X: inputs [n, D].
            Y: outputs [n, P], or [n] for one; NaN where an output was not measured.
            z: safety values [n]; NaN where it was not measured.

        Raises:
            ContradictionError: if an output has two values at one input.
            ValueError: if the shapes do not fit each other or what was told before, or a value is infinite.
        """
        Y = Y[:, None] if Y.ndim == 1 else Y
        if X.ndim != 2 or Y.ndim != 2 or not len(X) == len(Y) == len(z) or z.ndim != 1:
            raise ValueError(f"X {X.shape}, Y {Y.shape}, z {z.shape}: must be [n, D], [n, P] and [n]")
        if self._known and (X.shape[1], Y.shape[1]) != (self._known["outputs"].width, self._n_outputs):
            raise ValueError(f"{X.shape[1]} inputs and {Y.shape[1]} outputs: other numbers were told before")
        if not np.isfinite(X).all() or np.isinf(Y).any() or np.isinf(z).any():
            raise ValueError("X, Y and z must be finite; NaN in Y and z where nothing was measured")
        self._n_outputs = Y.shape[1]
        for name, values, settled in (("outputs", Y, True), ("safety", z[:, None], False)):
            told = self._known.setdefault(name, KnownValues(X.shape[1], settled))
            told.add(X, values)

    def lost(self, X: FloatArray, Y: FloatArray, z: FloatArray) -> int:
        """Return how many of the values told so far are not in these rows (as in `tell`)."""
        given = {"outputs": Y, "safety": z[:, None]}
        return sum(known.lost(X, given[name]) for name, known in self._known.items())

    @property
    def n_values(self) -> int:
        """Number of values told so far, safety values included."""
        return sum(len(known.observations) for known in self._known.values())

    def ask(
        self, candidates: FloatArray, n: int = 1, when_nothing_is_safe: WhenNothingIsSafe = "stop"
    ) -> Plan:
        """Return the next measurements: safe with probability above 1 - delta, of largest entropy.

        Of several, each is chosen as if the earlier ones had been measured and gave what is expected of them: at
        given hyperparameters the variances do not depend on the values. Safety is by what was measured only.

        Args:
            candidates: inputs [n, D]; what was measured there already is not proposed again.
            n: number of measurements, 1 or more.
            when_nothing_is_safe: `stop` as infeasible, or propose one measurement at the `safest` candidate.

        Raises:
            NothingToMeasureError: if every output was measured at every candidate.
            ValueError: if an output was never measured, or no measured point is safe.
        """
        self.check(candidates)
        free = self._free(candidates)  # [n, P], or [n, 1] if all outputs are measured together
        started = self._learn(candidates)
        mean, variance = self._beliefs["safety"].moments(self._scales.inputs(candidates))
        probability = self._scales.limit(self._limit).probability(mean[:, 0], variance[:, 0])
        safe, rows = safe_set(probability, self._delta), free.any(axis=1)
        safest = int(np.argmax(np.where(rows, probability, -1.0)))
        allowed, reason, wanted = free & safe[:, None], "", n
        if not allowed.any():
            reason = self._nothing_safe(candidates[safest], safest, probability[safest], int(rows.sum()))
            if when_nothing_is_safe == "safest":
                allowed, wanted = free & (np.arange(len(free)) == safest)[:, None], 1
        expected, spread = self._in_user_units(candidates)
        chosen = self._choose(candidates, allowed, wanted)
        if not reason and len(chosen) < n:
            reason = f"only {len(chosen)} of {n} measurements: no other candidate is safe and free"
        return Plan(
            status="done" if chosen else "infeasible",
            reason=reason,
            proposals=tuple(
                Proposal(row, candidates[row], p, score, float(probability[row]), expected[row], spread[row])
                for row, p, score in chosen
            ),
            probability_safe=probability,
            mean=expected,
            sd=spread,
            entropy=entropy((spread / self._scales.y_scale) ** 2),
            n_safe=int(safe.sum()),
            safest=safest,
            started=started,
            diagnostics={name: belief.cloud.diagnostics for name, belief in self._beliefs.items()},
        )

    def check(self, candidates: FloatArray) -> None:
        """Raise what `ask` would raise for these candidates."""
        if not self._known:
            raise ValueError("tell what was measured first")
        outputs, safety = self._known["outputs"], self._known["safety"]
        if candidates.ndim != 2 or candidates.shape[1] != outputs.width or not len(candidates):
            raise ValueError(f"candidates {candidates.shape}: must be [n, {outputs.width}] with n >= 1")
        never = sorted(set(range(self._n_outputs)) - set(outputs.observations.p.tolist()))
        if never:
            raise ValueError(f"output {never[0]} was never measured")
        if not self._limit.holds(safety.observations.y).any():
            raise ValueError("no measured point is safe")
        if not self._free(candidates).any():
            raise NothingToMeasureError(f"all of {len(candidates)} candidates have been measured")

    def state(self) -> SavedState:
        """Return what `restore` needs to go on after the last `ask`, as arrays."""
        if self._units is None:
            raise ValueError("ask first: there is nothing to go on from")
        saved = {"generator": np.array(json.dumps(self._rng.bit_generator.state))}
        saved |= {f"units_{name}": values for name, values in self._units.to_arrays().items()}
        for name, belief in self._beliefs.items():
            values = self._known[name].observations
            arrays = {"X": values.X, "p": values.p, "y": values.y, "learnt": np.array(belief.learnt)}
            saved |= {f"{name}_{key}": array for key, array in {**arrays, **belief.cloud.to_arrays()}.items()}
        saved["n_outputs"] = np.array(self._n_outputs)
        return saved

    def restore(self, saved: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on where `state` was called on a planner of the same limit, pipeline and settings.

        Raises:
            KeyError: if an array is missing.
        """
        self._n_outputs = int(saved["n_outputs"])
        self._rng.bit_generator.state = json.loads(str(saved["generator"]))
        self._units = Units(**{field.name: saved[f"units_{field.name}"] for field in fields(Units)})
        parts = {name: _part(saved, name) for name in ("outputs", "safety")}
        for name, part in parts.items():
            self._known[name] = KnownValues(part["X"].shape[1], name == "outputs")
            self._known[name].take(part["X"], part["p"], part["y"])
        for name, model in self._models().items():
            learnt, values = int(parts[name]["learnt"]), self._in_model_units(name)
            seen = Observations(values.X[:learnt], values.p[:learnt], values.y[:learnt])
            self._beliefs[name] = Belief(model, seen, SMCState.from_arrays(parts[name]))

    def _models(self) -> dict[str, MultiOutputModel]:
        return {
            "outputs": self._pipeline.output_model(self._n_outputs, self._known["outputs"].width),
            "safety": self._pipeline.safety_model(),
        }

    def _learn(self, candidates: FloatArray) -> str:
        """Bring both posteriors up to date; return how."""
        units, reason = self._new_units(candidates), "first measurements"
        if self._units is not None:
            reason = "" if self._units.near(units) else "the spread of measurements or candidates has changed"
        if reason:
            self._units = units
            for name, model in self._models().items():
                observations = self._in_model_units(name)
                self._beliefs[name] = Belief.cold(model, observations, self._rng, self._smc)
            return f"cold: {reason}"
        known = sum(belief.learnt for belief in self._beliefs.values())
        for name, belief in self._beliefs.items():
            belief.learn(self._in_model_units(name), self._rng, self._smc)
        return f"warm: {known} values known, {self.n_values - known} new"

    def _new_units(self, candidates: FloatArray) -> Units:
        outputs, safety = (self._known[name].observations for name in ("outputs", "safety"))
        Y = np.full((len(outputs), self._n_outputs), np.nan)
        Y[np.arange(len(outputs)), outputs.p] = outputs.y
        X = np.concatenate([outputs.X, safety.X])
        return Units.of(candidates, X, Y, safety.y, self._limit)

    @property
    def _scales(self) -> Units:
        if self._units is None:
            raise ValueError("units are chosen at the first question")
        return self._units

    def _in_model_units(self, name: str) -> Observations:
        units, known = self._scales, self._known[name].observations
        if name == "safety":
            y = (known.y - units.z_offset) / units.z_scale
        else:
            y = (known.y - units.y_offset[known.p]) / units.y_scale[known.p]
        return Observations(units.inputs(known.X), known.p, y)

    def _in_user_units(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the outputs at the candidates, [n, P] each."""
        mean, variance = self._beliefs["outputs"].moments(self._scales.inputs(candidates))
        units = self._scales
        return units.y_offset + units.y_scale * mean, units.y_scale * np.sqrt(np.maximum(variance, 0.0))

    def _free(self, candidates: FloatArray) -> BoolArray:
        """Return what was not measured yet: [n, P], or [n, 1] if all outputs are measured together."""
        pool = Pool(candidates, np.ones((len(candidates), self._n_outputs), dtype=np.bool_))
        free = pool.without(self._known["outputs"].observations)
        if self._full:
            return np.asarray(free.all(axis=1, keepdims=True))
        return free

    def _nothing_safe(self, x: FloatArray, row: int, probability: float, candidates: int) -> str:
        at = ", ".join(f"{value:.6g}" for value in x)
        return (
            f"none of {candidates} candidates is safe with probability above {1.0 - self._delta:g}; "
            f"the most probably safe one is number {row + 1} at ({at}): {probability:.3g}"
        )

    def _choose(
        self, candidates: FloatArray, allowed: BoolArray, n: int
    ) -> list[tuple[int, int | None, float]]:
        """Return up to n choices among the allowed, [n, P] or [n, 1]: row, output (None: all) and entropy."""
        belief, allowed = self._beliefs["outputs"], allowed.copy()
        observations, full = belief.observations, self._full
        chosen: list[tuple[int, int | None, float]] = []
        while len(chosen) < n and allowed.any():
            rows = np.flatnonzero(allowed.any(axis=1))
            X = self._scales.inputs(candidates[rows])
            mean, spread = belief.moments(X, observations, full)
            scores = joint_entropy(spread)[:, None] if full else entropy(spread)
            best = self._best(scores, allowed[rows])
            if best is None:
                break
            i, column = best
            p = np.arange(self._n_outputs) if full else np.array([column])
            chosen.append((int(rows[i]), None if full else column, float(scores[best])))
            observations = observations.extended(np.repeat(X[[i]], len(p), axis=0), p, mean[i, p])
            allowed[(candidates == candidates[rows[i]]).all(axis=1), column] = False
        return chosen

    @property
    def _full(self) -> bool:
        return self._pipeline.queries == "full"

    def _best(self, scores: FloatArray, allowed: BoolArray) -> tuple[int, ...] | None:
        if self._pipeline.acquisition == "random":
            return draw(allowed, self._rng)
        return choose(scores, allowed)


def _part(saved: Mapping[str, npt.NDArray[Any]], name: str) -> SavedState:
    return {key.removeprefix(f"{name}_"): array for key, array in saved.items() if key.startswith(f"{name}_")}
