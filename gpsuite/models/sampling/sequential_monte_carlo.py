"""Sequential Monte Carlo over hyperparameters: weighted particles that follow the posterior as observations come.

Source: Del Moral, Doucet & Jasra, "Sequential Monte Carlo samplers", 2006. Chopin, "A sequential particle filter
method for static models", 2002. The mass matrix of the moves is the identity. A matrix estimated from the particles can
shrink with them. Then the spread of the lengthscales shrinks too, while the acceptance looks normal.

Equation: derived, sequential Monte Carlo over hyperparameters
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.observations import HyperparameterModel, Likelihood
from gpsuite.models.sampling.hamiltonian import Points, never, transition
from gpsuite.models.sampling.posterior import HyperPosterior, NoFiniteStartError, Target

# The first leapfrog step is this times d^(-1/4).
_FIRST_STEP = 0.72
_STEP_LIMITS = (0.01, 1.2)
# Range of the random factor of each particle's step: no single trajectory length suits a skewed posterior.
_JITTER = (0.7, 1.3)
_TARGET_ACCEPTANCE, _ADAPTATION = 0.8, 0.7
_BISECTIONS = 50
# Largest goal of a stage, as a share of the effective sample size before tempering.
_ATTAINABLE = 0.9
_DIAGNOSTIC = "diagnostic_"


@dataclass(frozen=True)
class SMCSettings:
    """Size of the particle cloud, its moves, and the reaction to unexpected observations.

    A share is the effective sample size over S after reweighting by the new observation.

    Attributes:
        keep: share from which on particles do not move and only the weights change. An intermediate stage ends at this
            share.
        temper: share below which the observation is added in stages. Between it and `keep` it is added in one stage.
        restart: share below which the cloud is drawn again from the prior.

    Raises:
        ValueError: if a count is below 1, or not 0 <= restart <= temper <= keep <= 1.
    """

    particles: int = 128
    moves: int = 3
    leapfrog: int = 10
    keep: float = 0.5
    temper: float = 0.3
    restart: float = 0.05

    def __post_init__(self) -> None:
        if self.particles < 2 or min(self.moves, self.leapfrog) < 1:
            raise ValueError(f"{self}: particles must be at least 2, moves and leapfrog at least 1")
        if not 0.0 <= self.restart <= self.temper <= self.keep <= 1.0:
            raise ValueError(f"{self}: must be 0 <= restart <= temper <= keep <= 1")


@dataclass(frozen=True, eq=False)
class SMCState:
    """The cloud after some observations. To continue, only it and the generator's state are needed.

    The diagnostics are of the last start or update. `ess` is after reweighting and before any resampling, after a start
    that of its last stage. `acceptance` and `unmoved` (share of particles with no accepted trajectory) are means over
    the stages, NaN without moves. `temperatures` counts stages with moves. `gradients` counts those of one
    hyperparameter vector. It includes the previous observations' gradients, but not those of an interrupted trajectory.
    There are also `step_size`, `restarted` (0 or 1) and `log_evidence`. `beta` exists only if the update was stopped
    before a trajectory of the last stage. Then u follows a posterior with only part of the new observations, or was
    only resampled (beta = 1).

    Attributes:
        log_weights: normalised log weights, [S]. Their exponentials sum to 1.
        lml: log marginal likelihood of all observations at the particles, [S].
        log_evidence: estimate of the log density of all observations, hyperparameters integrated out.
        moved: whether the last start or update changed u. If not, values computed at u stay valid.
    """

    u: FloatArray
    log_weights: FloatArray
    lml: FloatArray
    step_size: float
    log_evidence: float
    moved: bool
    diagnostics: Mapping[str, float]

    @property
    def posterior(self) -> HyperPosterior:
        return HyperPosterior(self.u, np.exp(self.log_weights), self.diagnostics)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {
            "u": self.u,
            "log_weights": self.log_weights,
            "lml": self.lml,
            "step_size": np.array(self.step_size),
            "log_evidence": np.array(self.log_evidence),
            "moved": np.array(self.moved),
            **{_DIAGNOSTIC + name: np.array(value) for name, value in self.diagnostics.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray[Any, Any]]) -> SMCState:
        """Return the state from the arrays of `to_arrays`. Other names are ignored. KeyError if an array is missing."""
        return cls(
            u=arrays["u"],
            log_weights=arrays["log_weights"],
            lml=arrays["lml"],
            step_size=float(arrays["step_size"]),
            log_evidence=float(arrays["log_evidence"]),
            moved=bool(arrays["moved"]),
            diagnostics={
                name.removeprefix(_DIAGNOSTIC): float(value)
                for name, value in arrays.items()
                if name.startswith(_DIAGNOSTIC)
            },
        )


def start(
    model: HyperparameterModel,
    likelihood: Likelihood,
    rng: np.random.Generator,
    settings: SMCSettings,
    stop: Callable[[], bool] = never,
) -> SMCState:
    """Draw particles from the prior and move them to the posterior in stages, until `stop` ends this early.

    Raises:
        NoFiniteStartError: if the likelihood is not finite at any particle.
    """
    u = model.draw_prior(rng, settings.particles)
    uniform = np.full(len(u), -np.log(len(u)))
    lml = _finite(likelihood.value(u))
    cloud = _Cloud(u, uniform, lml, lml, _FIRST_STEP * u.shape[1] ** -0.25, 0.0)
    return _Annealing(model, likelihood, None, rng, settings, stop).run(cloud, settings.keep)


@dataclass(frozen=True, eq=False)
class NewObservations:
    """Change of the likelihood by new observations.

    Attributes:
        before: log marginal likelihood without them. Used only for stages.
        log_predictive: log density of the new observations given the old, with noise, at every particle, [S].
    """

    before: Likelihood
    after: Likelihood
    log_predictive: FloatArray


def update(
    state: SMCState,
    model: HyperparameterModel,
    new: NewObservations,
    rng: np.random.Generator,
    settings: SMCSettings,
    stop: Callable[[], bool] = never,
) -> SMCState:
    """Return the state after new observations.

    The weights change by the predictive density. The remaining effective sample size decides. Particles are kept,
    resampled and moved, moved from the old to the new posterior in stages, or drawn again.

    Args:
        stop: function called before each stage, trajectory and leapfrog step. It returns whether to end early.

    Raises:
        NoFiniteStartError: if the new likelihood is not finite at any draw from the prior.
    """
    ratio = _finite(new.log_predictive)
    lml = _finite(state.lml + ratio)
    cloud = _Cloud(state.u, state.log_weights, lml, ratio, state.step_size, state.log_evidence)
    ess = _ess(cloud.log_weights, ratio)
    share = ess / len(ratio)
    if share < settings.restart or share == 0.0:
        fresh = start(model, new.after, rng, settings, stop)
        return replace(fresh, diagnostics={**fresh.diagnostics, "ess": ess, "restarted": 1.0})
    if share >= settings.keep:
        return _reweighted(state, ratio)
    direct = settings.temper if share >= settings.temper else settings.keep
    moved = _Annealing(model, new.after, new.before, rng, settings, stop).run(cloud, direct)
    return replace(moved, diagnostics={**moved.diagnostics, "ess": ess})


@dataclass(eq=False)
class _Cloud:
    """Particles between two posteriors. `log_ratio` is the log likelihood `lml` of the second minus the first, [S]."""

    u: FloatArray
    log_weights: FloatArray
    lml: FloatArray
    log_ratio: FloatArray
    step_size: float
    log_evidence: float


class _Annealing:
    """Stages of reweighting, resampling and moving from beta = 0 to 1."""

    def __init__(
        self,
        model: HyperparameterModel,
        likelihood: Likelihood,
        previous: Likelihood | None,
        rng: np.random.Generator,
        settings: SMCSettings,
        stop: Callable[[], bool],
    ) -> None:
        self._model, self._likelihood, self._previous = model, likelihood, previous
        self._rng, self._settings, self._stop = rng, settings, stop
        self._acceptance: list[float] = []
        self._unmoved: list[float] = []
        self._gradients = 0
        self._moved_last = False

    def run(self, cloud: _Cloud, direct: float) -> SMCState:
        """Move the cloud to beta = 1, in one stage if that leaves an effective share of at least `direct`.

        If stopped early, it ends after a stage, at the earliest the first.
        """
        beta = ess = 0.0
        while beta < 1.0 and not (beta > 0.0 and self._stop()):
            following = self._next_beta(cloud, beta, direct)
            increments = (following - beta) * cloud.log_ratio
            ess = _ess(cloud.log_weights, increments)
            weights, gain = _normalised(cloud.log_weights + increments)
            cloud.log_evidence += gain
            chosen = systematic_resample(np.exp(weights), self._rng)
            cloud.log_weights, beta = np.full(len(chosen), -np.log(len(chosen))), following
            target = Target(self._model, self._likelihood, beta, self._previous)
            cloud.u, cloud.lml, cloud.log_ratio = (each[chosen] for each in (cloud.u, cloud.lml, cloud.log_ratio))
            self._move(cloud, target)
        diagnostics = {
            "ess": ess,
            "acceptance": float(np.mean(self._acceptance or [np.nan])),
            "unmoved": float(np.mean(self._unmoved)),
            "step_size": cloud.step_size,
            "temperatures": float(len(self._unmoved)),
            "gradients": float(self._gradients),
            "restarted": 0.0,
            "log_evidence": cloud.log_evidence,
        }
        if not self._moved_last:
            diagnostics["beta"] = beta
        return SMCState(cloud.u, cloud.log_weights, cloud.lml, cloud.step_size, cloud.log_evidence, True, diagnostics)

    def _next_beta(self, cloud: _Cloud, beta: float, direct: float) -> float:
        """Return 1 if that is near enough, otherwise the beta with the goal as effective sample size, by bisection."""
        weights, ratio = cloud.log_weights, cloud.log_ratio
        if not np.isfinite(weights + ratio).any():
            raise NoFiniteStartError("the log marginal likelihood is not finite at any particle")
        attainable = _ess(weights, np.where(np.isfinite(ratio), 0.0, -np.inf))
        count = len(ratio)
        if _ess(weights, (1.0 - beta) * ratio) >= min(direct * count, _ATTAINABLE * attainable):
            return 1.0
        goal = min(self._settings.keep * count, _ATTAINABLE * attainable)
        low, high = beta, 1.0
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            enough = _ess(weights, (middle - beta) * ratio) >= goal
            low, high = (middle, high) if enough else (low, middle)
        return low if low > beta else high

    def _move(self, cloud: _Cloud, target: Target) -> None:
        """Move the particles. Without a finished trajectory they and their values do not change."""
        settings, rng = self._settings, self._rng
        moved, made = np.zeros(len(cloud.u), dtype=bool), 0
        while made < settings.moves and not self._stop():
            if made == 0:
                points = Points.at(target, cloud.u)
                self._gradients += len(cloud.u) * len(target.parts)
            # trajectories of one length may return to their start
            step = cloud.step_size * rng.uniform(*_JITTER, size=len(cloud.u))
            result = transition(target, points, step, settings.leapfrog, rng, self._stop)
            if not result.finished:
                break
            points, moved, made = result.points, moved | result.accepted, made + 1
            acceptance = float(result.acceptance.mean())
            self._acceptance.append(acceptance)
            scaled = cloud.step_size * np.exp(_ADAPTATION * (acceptance - _TARGET_ACCEPTANCE))
            cloud.step_size = float(np.clip(scaled, *_STEP_LIMITS))
        if made:
            cloud.u, cloud.lml = points.u, _finite(self._likelihood.value(points.u))
            if target.beta < 1.0:
                old = 0.0 if self._previous is None else self._previous.value(points.u)
                cloud.log_ratio = cloud.lml - old
        self._unmoved.append(float(np.mean(~moved)))
        self._moved_last = made > 0 and target.beta == 1.0
        self._gradients += len(cloud.u) * len(target.parts) * made * settings.leapfrog


def systematic_resample(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return S indices, index s about S * weights[s] times, at most one more or fewer. It uses one random number."""
    teeth = (rng.random() + np.arange(len(weights))) / len(weights)
    edges = np.cumsum(weights)
    # rounding could put the last point beyond all edges
    below_one = np.minimum(teeth, np.nextafter(1.0, 0.0))
    return np.searchsorted(edges / edges[-1], below_one, side="right").astype(np.int64)


def _reweighted(state: SMCState, ratio: FloatArray) -> SMCState:
    weights, gain = _normalised(state.log_weights + ratio)
    evidence = state.log_evidence + gain
    diagnostics = {
        "ess": _ess(weights, np.zeros_like(weights)),
        "acceptance": float("nan"),
        "unmoved": float("nan"),
        "step_size": state.step_size,
        "temperatures": 0.0,
        "gradients": 0.0,
        "restarted": 0.0,
        "log_evidence": evidence,
    }
    return SMCState(state.u, weights, state.lml + ratio, state.step_size, evidence, False, diagnostics)


def _finite(values: FloatArray) -> FloatArray:
    """Return log densities with -inf, weight zero, in place of NaN and +inf."""
    return np.where(np.isfinite(values), values, -np.inf)


def _ess(log_weights: FloatArray, increments: FloatArray) -> float:
    """Return 1 / sum of squared weights after the increments, 0 if no weight is left."""
    total = log_weights + increments
    largest = float(total.max())
    if not np.isfinite(largest):
        return 0.0
    weights = np.exp(total - largest)
    return float(weights.sum() ** 2 / (weights @ weights))


def _normalised(log_weights: FloatArray) -> tuple[FloatArray, float]:
    """Return normalised log weights, and the logarithm of the sum of weights before."""
    total = float(logsumexp(log_weights))
    return log_weights - total, total
