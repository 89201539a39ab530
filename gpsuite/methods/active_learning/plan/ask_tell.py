"""Answers of a planner of measurements.

Equation: Li et al. 2022, Eq. (7), Eq. (8), Eq. (9)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import LARGEST, BoolArray, FloatArray, IntArray, picked
from gpsuite.budget import Budget
from gpsuite.drawing import axes
from gpsuite.methods.active_learning.acquisition import PIPELINES, Pipeline, entropy
from gpsuite.methods.active_learning.plan.optimum import (
    ACCESS_MEMBERS,
    INTERVAL,
    WORTHWHILE,
    Access,
    Goal,
    ImprovementChooser,
    MeasuredSettings,
    Recommendation,
)
from gpsuite.methods.active_learning.plan.predictions import (
    Belief,
    Choice,
    Chooser,
    Clock,
    KnownValues,
    OutputPredictions,
    members,
    particles,
)
from gpsuite.methods.active_learning.plan.safety import SafetyGuard, SafetyJudgement, SafetyModel, Units
from gpsuite.methods.active_learning.problem import Pool, SafetyLimit, WhenNothingIsSafe, checked_choice
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings, SMCState
from gpsuite.rounding import sureness
from gpsuite.seeds import require_generator
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SavedState = dict[str, npt.NDArray[Any]]
DEFAULT_GUARD = SafetyGuard()
MOST_SHOWN = 3  # proposals in a plan's repr
AGAIN = "no unmeasured safe candidate is left: one is measured again"
FARTHER = "no unmeasured safe candidate is left within the guard's step: the nearest one beyond it"
STRETCH = 2.0  # steps, up to which that is proposed


class NothingToMeasureError(ValueError):
    """No candidate has an output that was not measured there."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """One measurement to make.

    Attributes:
        entropy: of what is to be measured, noise-free and standardised, in nats, once the earlier proposals of the
            plan are measured.
        probability_safe: of x, by what is measured now.
        gain: what it is expected to improve the objective by, itself or by what it opens, in the objective's unit; NaN
            where the goal is to learn.
    """

    row: int
    x: FloatArray
    p: int | None
    entropy: float
    probability_safe: float
    mean: FloatArray
    sd: FloatArray
    gain: float = math.nan


@dataclass(frozen=True, eq=False)
class Plan:
    """The next measurements, and what the models say at the candidates.

    Attributes:
        status: `done`, `infeasible` if no candidate is safe enough, or `budget` if the time was used up: the best plan
            so far, which may be without proposals.
        reason: why there are fewer proposals than requested. Otherwise empty.
        warnings: what should be known before it is followed.
        probability_safe: of each candidate, [n]. Here and below NaN if the budget did not suffice.
        entropy: of each single output there, noise-free and standardised, in nats, before any of the proposals, [n, P].
        safe: which candidates are safe enough and not farther out than the guard's step, [n].
        safest: row of the most probably safe candidate that can still be measured.
        started: how the posterior of the hyperparameters came about: `cold: ...` or `warm: ...`.
        candidates: inputs [n, D].
        names: of inputs and outputs of the tables. Empty if they were arrays.
        recommendation: the setting to use by what is measured so far, None if the goal is to learn.
    """

    status: str
    reason: str
    warnings: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    probability_safe: FloatArray
    mean: FloatArray
    sd: FloatArray
    entropy: FloatArray
    safe: BoolArray
    n_beyond_step: int
    safest: int
    started: str
    diagnostics: Mapping[str, Mapping[str, float]]
    candidates: FloatArray
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    recommendation: Recommendation | None = None

    @property
    def n_safe(self) -> int:
        return int(self.safe.sum())

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        head = (
            f"{self.status}{reason}: {counted(len(self.proposals), 'proposal')}; "
            f"{self.n_safe} of {len(self.safe)} candidates safe"
        )
        best = self.recommendation
        told = [] if best is None else [f"  best so far: {self._place(best.x)}; {best}"]
        return "\n".join([head, *told, *map(self._shown, self.proposals[:MOST_SHOWN])])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per proposal: number and inputs of its candidate, and what to measure there."""
        import pandas as pd

        rows = [
            {
                "row": each.row,
                **dict(zip(self._inputs, each.x, strict=True)),
                "measure": "all" if each.p is None else self._outputs[each.p],
                "entropy": each.entropy,
                "probability_safe": each.probability_safe,
            }
            for each in self.proposals
        ]
        return pd.DataFrame(rows, columns=["row", *self._inputs, "measure", "entropy", "probability_safe"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how probably each candidate is safe, and the proposals: along one input, or over the first two."""
        ax = axes(ax)
        X, rows = self.candidates, [each.row for each in self.proposals]
        ax.set_xlabel(self._inputs[0])
        if X.shape[1] == 1:
            ax.plot(X[:, 0], self.probability_safe, ".", label="probability safe")
            ax.plot(X[rows, 0], self.probability_safe[rows], "*", markersize=12, label="proposals")
        else:
            found = ax.scatter(X[:, 0], X[:, 1], c=self.probability_safe, vmin=0.0, vmax=1.0)
            ax.figure.colorbar(found, ax=ax, label="probability safe")
            ax.plot(X[rows, 0], X[rows, 1], "r*", markersize=12, label="proposals")
            ax.set_ylabel(self._inputs[1])
        ax.legend()
        return ax

    @property
    def _inputs(self) -> Sequence[str]:
        return self.names[0] or [f"x{number}" for number in range(self.candidates.shape[1])]

    @property
    def _outputs(self) -> Sequence[str]:
        return self.names[1] or [f"y{number}" for number in range(self.mean.shape[1])]

    def _place(self, x: FloatArray) -> str:
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(self._inputs, x, strict=True))

    def _shown(self, each: Proposal) -> str:
        what = "all outputs" if each.p is None else self._outputs[each.p]
        return f"  measure {what} at {self._place(each.x)}, safe with probability {each.probability_safe:.4f}"


def cut_words(unfinished: Sequence[str], candidates: int, judged: int, predicted: int, late: bool) -> str:
    """Return what the budget has cut short, from how many candidates were judged and predicted; empty: nothing."""
    cut = [f"inference for {name} ended early" for name in unfinished]
    if judged < candidates:
        cut.append(f"safety judged at {judged} of {candidates} candidates")
    if predicted < candidates:
        cut.append(f"outputs predicted at {predicted}")
    if not cut and late:
        cut.append("later proposals left out")
    return f"budget used up: {', '.join(cut)}" if cut else ""


# Ask and tell: which safe measurements come next, when a person or a machine measures.
#
#     planner = MeasurementPlanner(SafetyLimit(1.0, "below"), np.random.default_rng(0))
#     planner.tell(X, Y, z)  # measured so far; NaN where an output was not measured
#     plan = planner.ask(candidates, 3)
#
# Everything is in the user's units. The models see standardised values (`units`). Between two calls of `ask`,
# new measurements reach the posterior of the hyperparameters by sequential Monte Carlo.
class MeasurementPlanner:
    """Proposes safe, informative measurements, and learns from what was measured.

    Args:
        pipeline: model and rule. It must choose safe measurements.
        delta: a proposal must be safe with probability above 1 - delta.
        smc: how hyperparameters are inferred. Large tables get fewer particles (`effort`).
        guard: of the safety model's predictions; None: the rule of the paper.
        goal: `learn` proposes what tells most. `minimise` and `maximise` what improves an output, see `optimum`.
        objective: that output, by its number or (of tables) name.

    Raises:
        TypeError: if `rng` is a seed, or the limit no `SafetyLimit`.
        ValueError: if delta is not in (0, 1], the goal is another word, or the pipeline knows no safety.
    """

    def __init__(
        self,
        limit: SafetyLimit,
        rng: np.random.Generator,
        *,
        pipeline: Pipeline = PIPELINES["AL_MOGP"],
        delta: float = 0.05,
        smc: SMCSettings | None = None,
        guard: SafetyGuard | None = DEFAULT_GUARD,
        input_names: Sequence[str] = (),
        goal: Goal = "learn",
        objective: int | str = 0,
    ) -> None:
        if not pipeline.safe or not 0.0 < delta <= 1.0:
            raise ValueError(f"{pipeline.name}, delta={delta}: needs a safe pipeline and 0 < delta <= 1")
        if goal not in get_args(Goal):
            raise ValueError(f"goal={goal!r}: must be one of {', '.join(get_args(Goal))}")
        if not isinstance(limit, SafetyLimit):
            raise TypeError(f"limit={limit!r}: must be a SafetyLimit, such as SafetyLimit('<= 1.0')")
        require_generator(rng)
        self._goal, self._objective = goal, objective
        self._limit, self._delta, self._rng, self._pipeline = limit, delta, rng, pipeline
        self._smc = smc or SMCSettings()
        self._guard, self._input_names = guard, tuple(input_names)
        self._output_names: tuple[str, ...] = ()
        self._n_outputs = 0
        self._known: dict[str, KnownValues] = {}
        self._units: Units | None = None
        self._beliefs: dict[str, Belief] = {}

    def tell(self, X: npt.ArrayLike, Y: npt.ArrayLike, z: npt.ArrayLike) -> None:
        """Take in measured rows X [n, D], Y [n, P] or [n], z [n], or one: X [D], Y [P], z a number.

        NaN means that nothing was measured. A row of an earlier table is passed over, so a longer table may be given.
        Equal values in one table are replicates. Names are those of the first DataFrames told, or of a Series Y.

        Raises:
            ValueError: if the shapes do not fit each other or earlier tables, a column is missing, or a value is
                infinite.
        """
        X, Y = _labelled(X, z), _labelled(Y, z)
        names = tuple(map(str, getattr(X, "columns", ()))), tuple(map(str, getattr(Y, "columns", ())))
        X, Y, z = self._measured(X, Y, z)
        if X.ndim != 2 or Y.ndim != 2 or not len(X) == len(Y) == len(z) or z.ndim != 1:
            one = "of one point [D], [P] and a number"
            raise ValueError(f"X {X.shape}, Y {Y.shape}, z {z.shape}: must be [n, D], [n, P] and [n], {one}")
        if self._known and (X.shape[1], Y.shape[1]) != (self._known["outputs"].width, self._n_outputs):
            raise ValueError(f"{X.shape[1]} inputs and {Y.shape[1]} outputs: earlier tables had other numbers")
        if not (np.abs(X) <= LARGEST).all() or (np.abs(Y) > LARGEST).any() or (np.abs(z) > LARGEST).any():
            raise ValueError(
                f"X, Y and z must be finite and at most {LARGEST:g}; NaN in Y and z where nothing was measured"
            )
        self._n_outputs = Y.shape[1]
        self._input_names, self._output_names = self._input_names or names[0], self._output_names or names[1]
        for name, values in (("outputs", Y), ("safety", z[:, None])):
            self._known.setdefault(name, KnownValues(X.shape[1])).add(X, values)

    def lost(self, X: npt.ArrayLike, Y: npt.ArrayLike, z: npt.ArrayLike) -> int:
        """Return how many of the values told so far are not in these rows (as in `tell`)."""
        X, Y, z = self._measured(_labelled(X, z), _labelled(Y, z), z)
        given = {"outputs": Y, "safety": z[:, None]}
        return sum(known.lost(X, given[name]) for name, known in self._known.items())

    @property
    def n_values(self) -> int:
        """Number of values told so far, safety values included."""
        return sum(len(known.observations) for known in self._known.values())

    def ask(
        self,
        candidates: npt.ArrayLike,
        n: int = 1,
        when_nothing_is_safe: WhenNothingIsSafe = "stop",
        budget: Budget | None = None,
    ) -> Plan:
        """Return the next measurements: safe with probability above 1 - delta, of largest entropy or expected gain.

        If the goal is an optimum and every safe candidate was measured, the nearest one beyond the guard's step is
        proposed, or one is measured again, which sharpens what is known around it. Of several, each is chosen as if
        the earlier ones had been measured and gave their expected values: at given hyperparameters the variances do
        not depend on the values. Safety is by what was measured only.

        Args:
            candidates: inputs [n, D]. Values measured there already are not proposed again.
            when_nothing_is_safe: `stop` as infeasible, or propose one measurement at the `safest` candidate.
            budget: its seconds end the work with the best plan so far.

        Raises:
            NothingToMeasureError: if the goal is to learn and every output was measured at every candidate.
            ValueError: if an output was never measured, no measured point is safe, n is no whole number of 1 or more,
                or `when_nothing_is_safe` is another word.
        """
        candidates, clock = self._rows(candidates), Clock(budget)
        self.check(candidates, n)
        checked_choice(when_nothing_is_safe)
        free, started = self._free(candidates), self._learn(candidates, clock)
        X, units = self._scales.inputs(candidates), self._scales
        safety = self._judge_safety(X, self._guard, clock)
        rows, allowed = free.any(axis=1), free & safety.safe[:, None]
        safest = self._believed.safest(X, np.where(rows, np.nan_to_num(safety.probability), -1.0))
        reason, wanted, instead = "", n, self._instead(candidates, X, allowed, free, safety)
        if instead is not None:
            reason, allowed, wanted = *instead, 1
        elif not allowed.any():
            reason = self._nothing_safe(candidates, rows, safety, safest, clock)
            if when_nothing_is_safe == "safest":
                allowed, wanted = free & (np.arange(len(free)) == safest)[:, None], 1
        outputs, predicted, chosen, best = self._chosen(candidates, X, safety, allowed, wanted, clock)
        cut = cut_words(self._unfinished, len(X), safety.judged, predicted, len(chosen) < wanted and clock.ended())
        if not reason and len(chosen) < n:
            why = "the time ended" if cut else "no other candidate is safe and free"
            reason = f"only {len(chosen)} of {n} measurements: {why}"
        mean = units.y_offset + units.y_scale * outputs.mean
        sd = units.y_scale * np.sqrt(np.maximum(outputs.variance, 0.0))
        return Plan(
            status="budget" if cut else "done" if chosen else "infeasible",
            reason="; ".join(part for part in (reason, cut) if part),
            warnings=(*self._warnings(candidates, X, safety), *self._doubt(best)),
            proposals=tuple(self._proposal(candidates, each, safety, mean[each.row], sd[each.row]) for each in chosen),
            probability_safe=safety.probability,
            mean=mean,
            sd=sd,
            entropy=entropy((sd / units.y_scale) ** 2),
            safe=safety.safe,
            n_beyond_step=int(safety.beyond_step.sum()),
            safest=safest,
            started=started,
            diagnostics={name: belief.cloud.diagnostics for name, belief in self._beliefs.items()},
            candidates=candidates,
            names=(self._input_names, self._output_names),
            recommendation=best,
        )

    def predict(self, X: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and standard deviation of the outputs [n, P], and the probability of being safe [n], at X [n, D].

        By what the last `ask` had learnt, in the user's units.
        """
        inputs, units = self._scales.inputs(self._rows(X)), self._scales
        outputs = OutputPredictions(self._beliefs["outputs"], self._predicting("outputs", len(inputs)), inputs, False)
        outputs.predict(np.arange(len(inputs)), lambda: False)
        probability = self._judge_safety(inputs, self._guard, Clock(None)).probability
        sd = units.y_scale * np.sqrt(np.maximum(outputs.variance, 0.0))
        return units.y_offset + units.y_scale * outputs.mean, sd, probability

    def check(self, candidates: npt.ArrayLike, n: int = 1) -> None:
        """Raise what `ask` would raise for these candidates and so many measurements."""
        candidates = self._rows(candidates)
        if not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n={n}: a whole number of measurements is needed, at least one")
        if not self._known:
            raise ValueError("tell what was measured first")
        outputs, safety = self._known["outputs"], self._known["safety"]
        if candidates.ndim != 2 or candidates.shape[1] != outputs.width or not len(candidates):
            raise ValueError(f"candidates {candidates.shape}: must be [n, {outputs.width}] with n >= 1")
        if not (np.abs(candidates) <= LARGEST).all():
            raise ValueError(f"candidates must be finite and at most {LARGEST:g}")
        never = sorted(set(range(self._n_outputs)) - set(outputs.observations.p.tolist()))
        if never:
            name = repr(self._output_names[never[0]]) if self._output_names else never[0]
            raise ValueError(f"output {name} was never measured: tell a value of it, or leave it out")
        if not self._limit.holds(safety.observations.y).any():
            raise ValueError("no measured point is safe")
        if self._goal == "learn" and not self._free(candidates).any():
            raise NothingToMeasureError(f"all of {len(candidates)} candidates have been measured")

    def state(self) -> SavedState:
        if self._units is None:
            raise ValueError("ask first: there is nothing to continue from")
        saved = {"generator": np.array(json.dumps(self._rng.bit_generator.state))}
        saved |= {f"units_{name}": values for name, values in self._units.to_arrays().items()}
        for name, belief in self._beliefs.items():
            values = self._known[name].observations
            arrays = {"X": values.X, "p": values.p, "y": values.y, "learnt": np.array(belief.learnt)}
            saved |= {f"{name}_{key}": array for key, array in {**arrays, **belief.cloud.to_arrays()}.items()}
        saved["n_outputs"] = np.array(self._n_outputs)
        return saved

    def restore(self, saved: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue where `state` was called on a planner of the same limit, pipeline and settings.

        Raises:
            KeyError: if an array is missing.
        """
        self._n_outputs = int(saved["n_outputs"])
        self._rng.bit_generator.state = json.loads(str(saved["generator"]))
        self._units = Units(**{field.name: saved[f"units_{field.name}"] for field in fields(Units)})
        parts = {name: _part(saved, name) for name in ("outputs", "safety")}
        for name, part in parts.items():
            self._known[name] = KnownValues(part["X"].shape[1])
            self._known[name].take(part["X"], part["p"], part["y"])
        for name, model in self._models().items():
            learnt, values = int(parts[name]["learnt"]), self._in_model_units(name)
            seen = Observations(values.X[:learnt], values.p[:learnt], values.y[:learnt])
            self._beliefs[name] = Belief(model, seen, SMCState.from_arrays(parts[name]))

    def _rows(self, X: Any) -> FloatArray:
        """Return inputs as a new array. A vector is several values of one input."""
        found = np.array(picked(X, self._input_names) if self._input_names else X, dtype=np.float64)
        single = not self._known or self._known["outputs"].width == 1
        return found[:, None] if found.ndim == 1 and single else found

    def _measured(self, X: Any, Y: Any, z: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return rows as arrays, one point as a row, and outputs [n] of one output as [n, 1]."""
        Y = picked(Y, self._output_names) if self._output_names else Y
        outputs, safety = np.asarray(Y, dtype=np.float64), np.asarray(z, dtype=np.float64)
        if safety.ndim == 0:
            point = np.asarray(picked(X, self._input_names) if self._input_names else X, dtype=np.float64)
            return point.reshape(1, -1), outputs.reshape(1, -1), safety.reshape(1)
        return self._rows(X), outputs[:, None] if outputs.ndim == 1 else outputs, safety

    def _models(self) -> dict[str, MultiOutputModel]:
        """Return the models. Safety comes first, because it decides most."""
        outputs = self._pipeline.output_model(self._n_outputs, self._known["outputs"].width)
        return {"safety": self._pipeline.safety_model(), "outputs": outputs}

    def _learn(self, candidates: FloatArray, clock: Clock) -> str:
        units, reason = self._new_units(candidates), "first measurements"
        if self._units is not None:
            reason = "" if self._units.near(units) else "the spread of measurements or candidates has changed"
            if self._unfinished:
                reason = "the budget had cut the earlier inference short"
        stops = {"safety": clock.safety_inference_ended, "outputs": clock.inference_ended}
        if reason:
            self._units = units
            for name, model in self._models().items():
                values = self._in_model_units(name)
                smc = self._sized(len(values), model.n_outputs)
                self._beliefs[name] = Belief.cold(model, values, self._rng, smc, stops[name])
            return f"cold: {reason}"
        known = sum(belief.learnt for belief in self._beliefs.values())
        for name, belief in self._beliefs.items():
            values = self._in_model_units(name)
            smc = self._sized(len(values), belief.model.n_outputs)
            belief.learn(values, self._rng, smc, stops[name])
        return f"warm: {known} values known, {self.n_values - known} new"

    def _sized(self, values: int, outputs: int) -> SMCSettings:
        return replace(self._smc, particles=particles(self._smc, values, outputs))

    def _predicting(self, name: str, candidates: int) -> HyperPosterior:
        belief = self._beliefs[name]
        most = members(len(belief.cloud.u), belief.learnt, belief.model.n_outputs, candidates)
        return belief.predicting(most)

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

    def _free(self, candidates: FloatArray) -> BoolArray:
        """Return what was not measured yet: [n, P], or [n, 1] if all outputs are measured together."""
        pool = Pool(candidates, np.ones((len(candidates), self._n_outputs), dtype=np.bool_))
        free = pool.without(self._known["outputs"].observations)
        if self._full:
            return np.asarray(free.all(axis=1, keepdims=True))
        return free

    @property
    def _unfinished(self) -> list[str]:
        return [name for name, belief in self._beliefs.items() if belief.unfinished]

    @property
    def _believed(self) -> SafetyModel:
        return self._safety_model(self._beliefs["safety"].cloud.posterior)

    def _safety_model(self, posterior: HyperPosterior) -> SafetyModel:
        known, limit = self._beliefs["safety"].observations, self._scales.limit(self._limit)
        return SafetyModel(self._pipeline.safety_model(), posterior, known, limit)

    def _judge_safety(self, X: FloatArray, guard: SafetyGuard | None, clock: Clock) -> SafetyJudgement:
        believed = self._safety_model(self._predicting("safety", len(X)))
        return believed.judge(X, self._delta, guard, clock.ended)

    def _proposal(
        self, candidates: FloatArray, choice: Choice, safety: SafetyJudgement, mean: FloatArray, sd: FloatArray
    ) -> Proposal:
        row, p, told, gain = choice
        gain *= 1.0 if math.isnan(gain) else float(self._scales.y_scale[self._target])
        return Proposal(row, candidates[row], p, told, float(safety.probability[row]), mean, sd, gain)

    @property
    def _target(self) -> int:
        """The objective's number."""
        if isinstance(self._objective, str) and self._objective in self._output_names:
            return self._output_names.index(self._objective)
        if isinstance(self._objective, str) or not 0 <= self._objective < self._n_outputs:
            known = ", ".join(map(repr, self._output_names or range(self._n_outputs)))
            hint = "" if self._output_names else ". The outputs have names if Y is a DataFrame or a named Series"
            raise ValueError(f"objective={self._objective!r}: must be one of {known}{hint}")
        return self._objective

    def _instead(
        self, candidates: FloatArray, X: FloatArray, allowed: BoolArray, free: BoolArray, safety: SafetyJudgement
    ) -> tuple[str, BoolArray] | None:
        """Return why and what may be measured where a search for an optimum would end: one measurement, [n, P].

        The nearest candidate beyond the guard's step, up to twice as far. Otherwise a measured one again: those that
        are safe enough, or the surest of those whose safety values all held. None where nothing else is needed or left.
        """
        column = slice(None) if self._full else slice(self._target, self._target + 1)
        if self._goal == "learn" or allowed[:, column].any():
            return None
        left = safety.beyond_step & free[:, column].any(axis=1)
        if self._guard is not None and left.any():
            outside = np.where(left, self._guard.outside(self._believed.counted(X), X), np.inf)
            if outside.min() <= STRETCH * self._guard.step:
                return FARTHER, (outside == outside.min())[:, None] & free
        again, everything = safety.safe, np.ones_like(free)
        if not again.any():
            held = self._known["safety"].within(self._limit, candidates)
            probability = np.where(held, np.nan_to_num(safety.probability), -1.0)
            again = held & (probability == probability.max())
        return (AGAIN, again[:, None] & everything) if again.any() else None

    def _chosen(
        self, candidates: FloatArray, X: FloatArray, safety: SafetyJudgement, allowed: BoolArray, n: int, clock: Clock
    ) -> tuple[OutputPredictions, int, list[Choice], Recommendation | None]:
        """Return the outputs' predictions, at how many candidates there was time for them, choices, the best so far."""
        if self._goal == "learn":
            return *self._choose(candidates, X, allowed, n, clock), None
        target, sign = self._target, -1.0 if self._goal == "maximise" else 1.0
        posterior = self._predicting("outputs", len(X))
        outputs = OutputPredictions(self._beliefs["outputs"], posterior, X, self._full, target)
        predicted = outputs.predict(np.arange(len(X)), clock.ended)
        settings = self._measured_settings(posterior, target, safety)
        chooser = ImprovementChooser(outputs, sign, settings.best(sign, self._delta), posterior.weights, self._full)
        access = Access.of(X, chooser.improvement(), safety, self._chances(X, safety))
        chosen = chooser.choose(allowed[:, 0 if self._full else target], access, n, clock.ended)
        return outputs, predicted, chosen, self._recommended(settings, candidates, outputs, safety, chosen)

    def _chances(self, X: FloatArray, safety: SafetyJudgement) -> Callable[[IntArray, IntArray], FloatArray]:
        """Return a function: how probably a measurement at candidates of some rows allows others, see `Access`."""
        few, guard = self._safety_model(self._beliefs["safety"].predicting(ACCESS_MEMBERS)), self._guard
        prediction, measured = few.prediction(X, guard), few.counted(X)

        def chances(inside: IntArray, outside: IntArray) -> FloatArray:
            found = prediction.passing(X[inside], X[outside], self._delta)
            far = safety.beyond_step[outside]
            if guard is not None and far.any():
                found[:, far] = guard.reached(measured, X[inside], X[outside[far]])
            return found

        return chances

    def _measured_settings(self, posterior: HyperPosterior, target: int, safety: SafetyJudgement) -> MeasuredSettings:
        """Return what the models say at the inputs where the objective was measured."""
        belief = self._beliefs["outputs"]
        inputs = np.unique(belief.observations.X[belief.observations.p == target], axis=0)
        at = OutputPredictions(belief, posterior, inputs, self._full, target)
        at.predict(np.arange(len(inputs)), lambda: False)
        return MeasuredSettings(inputs, at, safety.prediction.probability(inputs))

    def _recommended(
        self,
        settings: MeasuredSettings,
        candidates: FloatArray,
        outputs: OutputPredictions,
        safety: SafetyJudgement,
        chosen: Sequence[Choice],
    ) -> Recommendation:
        """Return the setting with the best cautious value, among measured settings and candidates that are safe."""
        units, p = self._scales, self._target
        sign = -1.0 if self._goal == "maximise" else 1.0
        safe = settings.safe(self._delta)
        inputs = np.concatenate([units.x_offset + units.x_scale * settings.X[safe], candidates[safety.safe]])
        mean = np.concatenate([settings.outputs.mean[safe, p], outputs.mean[safety.safe, p]])
        sd = np.sqrt(np.concatenate([settings.outputs.variance[safe, p], outputs.variance[safety.safe, p]]).clip(0.0))
        probability = np.concatenate([settings.probability[safe], safety.probability[safety.safe]])
        best = int(np.nanargmin(sign * mean + sd))
        value, half = (float(units.y_scale[p] * number) for number in (mean[best], INTERVAL * sd[best]))
        value += float(units.y_offset[p])
        known = self._known["outputs"].observations
        gain = chosen[0].gain if chosen else math.nan
        measured = known.y[known.p == p]
        gain *= float(units.y_scale[p])
        return Recommendation(
            inputs[best],
            value,
            value - half,
            value + half,
            float(probability[best]),
            best < int(safe.sum()),
            gain,
            bool(gain > WORTHWHILE * np.ptp(measured)),
        )

    def _choose(
        self, candidates: FloatArray, X: FloatArray, allowed: BoolArray, n: int, clock: Clock
    ) -> tuple[OutputPredictions, int, list[Choice]]:
        """Return the outputs' predictions, at how many candidates there was time for them, and up to n choices."""
        posterior = self._predicting("outputs", len(X))
        outputs = OutputPredictions(self._beliefs["outputs"], posterior, X, self._full)
        first, predicted = allowed.any(axis=1), 0
        for part in (first, ~first):  # what may be proposed is predicted first
            if part.any() and not (predicted and clock.ended()):
                predicted += outputs.predict(np.flatnonzero(part), clock.ended)
        rng = self._rng if self._pipeline.acquisition == "random" else None
        chooser = Chooser(candidates, outputs, posterior, self._full, rng)
        return outputs, predicted, chooser.choose(allowed, n, clock.ended)

    def _nothing_safe(
        self, candidates: FloatArray, rows: BoolArray, safety: SafetyJudgement, safest: int, clock: Clock
    ) -> str:
        """Return why none of the candidates that can still be measured, and were judged, is safe enough."""
        rows = rows & ~np.isnan(safety.probability)  # for the others there was no time
        if self._guard is not None and (safety.beyond_step & rows).any():
            return (
                f"the safety value has hardly varied, and no candidate that is left lies within {self._guard.step:g} "
                f"measured ranges of a measured input. {(safety.beyond_step & rows).sum()} farther out would be "
                "safe enough by the model: offer candidates nearer to it, or a larger step"
            )
        at = ", ".join(f"{value:.6g}" for value in candidates[safest])
        reason = (
            f"none of {rows.sum()} candidates is safe with probability above {sureness(self._delta)}. "
            f"The most probably safe one is number {safest + 1} at ({at}): {safety.probability[safest]:.3g}"
        )
        if self._guard is None:
            return reason
        X = self._scales.inputs(candidates)
        unguarded = self._judge_safety(X[rows], None, clock).safe
        if unguarded.any():
            outside = self._guard.outside(self._believed.counted(X), X[rows][unguarded]).min()
            where = "inside" if outside == 0.0 else f"{outside:.2g} measured ranges outside"
            reason += (
                f". The data do not support a probability there. Extrapolating freely the model would allow "
                f"{unguarded.sum()}, the nearest {where} the measured values. Offer candidates nearer to them"
            )
        return reason

    def _warnings(self, candidates: FloatArray, X: FloatArray, safety: SafetyJudgement) -> list[str]:
        if self._guard is None:
            return []
        believed = self._believed
        names = self._input_names or [f"input {d + 1}" for d in range(believed.known.X.shape[1])]
        warnings = believed.warnings(X, self._guard, names)
        beyond = self._known["safety"].beyond(self._limit, candidates)
        if contradicted := int((safety.safe & beyond).sum()):
            warnings.append(
                f"at {contradicted} of the safe candidates a measured safety value was beyond the limit: the "
                "probability is that of the value without its noise"
            )
        if safety.beyond_step.any():
            warnings.append(
                f"the safety value has hardly varied yet: {safety.beyond_step.sum()} more candidates, farther out "
                f"than {self._guard.step:g} of the measured ranges, are left for later (step)"
            )
        return warnings

    def _doubt(self, best: Recommendation | None) -> list[str]:
        """Return a warning of a recommended setting that is not safe enough to be proposed: none is."""
        if best is None or best.probability_safe > 1.0 - self._delta:
            return []
        sure = f"{best.probability_safe:.3g}, not {sureness(self._delta)}"
        return [f"no setting is known to be safe enough: the best one is safe with probability {sure}"]

    @property
    def _full(self) -> bool:
        return self._pipeline.queries == "full"


def _labelled(values: Any, z: Any) -> Any:
    """Return a Series of pandas as a table, so that its labels count. `z` tells whether it is one row or one column."""
    if not hasattr(values, "to_frame") or hasattr(values, "columns"):
        return values
    if np.ndim(z):
        return values if values.name is None else values.to_frame()
    return values.to_frame().T if any(isinstance(label, str) for label in values.index) else values


def _part(saved: Mapping[str, npt.NDArray[Any]], name: str) -> SavedState:
    return {key.removeprefix(f"{name}_"): array for key, array in saved.items() if key.startswith(f"{name}_")}
