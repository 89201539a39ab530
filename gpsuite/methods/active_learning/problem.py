"""A task of safe active learning: safety limit and its probability, pool, monitors, first measurements.

Equation: Li et al. 2022, Eq. (8), Eq. (9)
Equation: Li et al. 2022, Sec. 3.3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import mixture_moments

# Choices if nothing is safe: end as infeasible, or measure the most probably safe input.
WhenNothingIsSafe = Literal["stop", "safest"]
SIDES = ("above", "below")
SIGNS = {"<=": "below", "≤": "below", "<": "below", ">=": "above", "≥": "above", ">": "above"}  # of safe values
# Function that measures: pool row and output (None: all P outputs) -> y (or y [P]) and the safety value z.
Oracle = Callable[[int, int | None], tuple[float | FloatArray, float]]
# Numbers that differ by less than this share count as equal: programs write 15 or 16 digits and misread the last one.
SAME = 1e-14


def checked_choice(word: WhenNothingIsSafe) -> WhenNothingIsSafe:
    """Return the choice. ValueError if the word is unknown."""
    if word not in get_args(WhenNothingIsSafe):
        raise ValueError(f"when_nothing_is_safe={word!r}: must be one of {', '.join(get_args(WhenNothingIsSafe))}")
    return word


@dataclass(frozen=True, init=False)
class SafetyLimit:
    """A limit of the safety value. The value itself is still safe.

    `SafetyLimit("<= 1.0")` and `SafetyLimit(1.0, "below")` are the same.

    Args:
        value: the limit, or the safe values in words: `<= 1.0`, `>= 0.7`.
        side: `above` (safe from the limit upwards), `below` (safe up to the limit), or a sign of `SIGNS`.

    Raises:
        ValueError: if the value is not finite or the side unknown.

    Equation: Li et al. 2022, Eq. (8)
    """

    value: float
    side: Literal["above", "below"]

    def __init__(self, value: float | str, side: str = "") -> None:
        if isinstance(value, str) and not side:
            text = value.strip()
            side = next((sign for sign in SIGNS if text.startswith(sign)), "")
            value = text.removeprefix(side)
        try:
            number = float(value)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(f"value={value!r}: must be finite, or say what is safe, such as '<= 1.0'")
        object.__setattr__(self, "value", number)
        object.__setattr__(self, "side", SIGNS.get(side, side))
        if self.side not in SIDES:
            raise ValueError(f"side={side!r}: say what is safe: {', '.join(SIDES)}, or SafetyLimit('<= {number:g}')")

    def holds(self, z: npt.ArrayLike) -> BoolArray:
        """Return which safety values are safe, of the shape of z. NaN is not safe."""
        return np.asarray(np.asarray(z) >= self.value if self.side == "above" else np.asarray(z) <= self.value)

    def probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the probability that h, normally distributed, is safe, Eq. (8), elementwise.

        Without variance (or a negative one, by rounding) it is 0 or 1, and NaN exactly at the limit.
        """
        sign = 1.0 if self.side == "above" else -1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(ndtr(sign * (mean - self.value) / np.sqrt(np.maximum(variance, 0.0))))


def moment_matched_probability(
    limit: SafetyLimit, mean: FloatArray, variance: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return the probability of being safe by the normal distribution of the mixture's moments: [S, ...] -> [...].

    This is the paper's rule. It has the tails of a normal distribution. The mixture's tails may be heavier.
    """
    return limit.probability(*mixture_moments(mean, variance, weights))


def mixture_probability(limit: SafetyLimit, mean: FloatArray, variance: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the probability of being safe by the mixture itself, [...]. Arguments: `moment_matched_probability`."""
    return np.tensordot(weights, limit.probability(mean, variance), axes=1)


def safe_set(probability: FloatArray, delta: float) -> BoolArray:
    """Return which inputs are safe with probability above 1 − δ, Eq. (9). If it is NaN, none is.

    Raises:
        ValueError: if δ is not in (0, 1].

    Equation: Li et al. 2022, Eq. (9)
    """
    if not 0.0 < delta <= 1.0:
        raise ValueError(f"delta={delta}: must be in (0, 1]")
    return np.asarray(probability > 1.0 - delta)


def rows_equal(X: FloatArray, x: FloatArray) -> IntArray:
    """Return which rows of X [n, D] equal x [D], up to errors of writing and reading numbers."""
    most = SAME * np.abs(x)
    near = np.flatnonzero(np.abs(X[:, 0] - x[0]) <= most[0])
    return np.asarray(near[(np.abs(X[near] - x) <= most).all(axis=1)])


@dataclass(frozen=True, eq=False)
class Pool:
    """The inputs that may be queried, and the outputs that may be measured there.

    Both published rules are a choice of `available`. All true is the paper's rule (every (x, p) once). One true value
    per row is the rule of its authors' code (each input offers one output and is then removed).

    Attributes:
        available: [n, P]. A query takes its pair, or the whole row if all outputs are measured at once.

    Raises:
        ValueError: if the shapes do not fit, X is empty or not finite.
    """

    X: FloatArray
    available: BoolArray

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or not len(self.X) or not np.isfinite(self.X).all():
            raise ValueError(f"X has shape {self.X.shape}. It must be [n, D] with n >= 1, all finite")
        if self.available.ndim != 2 or len(self.available) != len(self.X) or not self.available.shape[1]:
            raise ValueError(f"available has shape {self.available.shape}. It must be [{len(self.X)}, P]")

    def rows_at(self, x: FloatArray) -> IntArray:
        """Return the rows with input x [D]: more than one if the pool repeats this input."""
        return rows_equal(self.X, x)

    def without(self, observations: Observations) -> BoolArray:
        """Return `available` less the observed pairs, [n, P]."""
        remaining = self.available.copy()
        for x, p in zip(observations.X, observations.p, strict=True):
            remaining[self.rows_at(x), p] = False
        return remaining


@dataclass(frozen=True, eq=False)
class Monitor:
    """Inputs at which every model of the sequence is evaluated. ValueError if the shapes do not fit."""

    X: FloatArray
    Y: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or not len(self.X):
            raise ValueError(f"X has shape {self.X.shape}. It must be [m, D] with m >= 1")
        if self.Y is not None and (self.Y.ndim != 2 or len(self.Y) != len(self.X)):
            raise ValueError(f"Y has shape {self.Y.shape}. It must be [{len(self.X)}, P]")


@dataclass(frozen=True, eq=False)
class Judgement:
    """Evaluation of a model at the inputs of a monitor.

    Attributes:
        log_density: mean over the inputs of the log density of each output's targets, noise included, [P]. None
            without targets.
    """

    mean: FloatArray
    variance: FloatArray
    log_density: FloatArray | None


@dataclass(frozen=True, eq=False)
class ExplorationProblem:
    """One task of safe active learning.

    Attributes:
        outputs: the first measurements of the P outputs.
        safety: the first measurements of the safety value, as output 0. None if there is no safety value.
        limit: limit of safe values. None if there is no safety value.
        delta: allowed probability. A query must be safe with probability above 1 - delta, Eq. (9) of Li et al. 2022.

    Raises:
        ContradictionError: if one output has two different first values at one input.
        ValueError: if parts do not fit each other, or nothing was measured.
    """

    pool: Pool
    outputs: Observations
    safety: Observations | None = None
    limit: SafetyLimit | None = None
    delta: float = 0.05
    monitors: Mapping[str, Monitor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.delta <= 1:
            raise ValueError(f"delta={self.delta}: must be in (0, 1]")
        if (self.safety is None) != (self.limit is None):
            raise ValueError("give the first safety values together with their limit, or neither")
        for name, measured in self._measurements().items():
            if not len(measured):
                raise ValueError(f"{name}: at least one first measurement is needed")
            if measured.X.shape[1] != self.n_inputs:
                raise ValueError(f"{name} has {measured.X.shape[1]} inputs, the pool {self.n_inputs}")
        if self.outputs.p.min() < 0 or self.outputs.p.max() >= self.n_outputs:
            raise ValueError(f"outputs are counted from 0 to {self.n_outputs - 1}")
        self.outputs.check_consistent()
        for name, monitor in self.monitors.items():
            width = self.n_outputs if monitor.Y is None else monitor.Y.shape[1]
            if (monitor.X.shape[1], width) != (self.n_inputs, self.n_outputs):
                raise ValueError(f"monitor {name}: {self.n_inputs} inputs and {self.n_outputs} outputs expected")

    @property
    def n_inputs(self) -> int:
        return int(self.pool.X.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.pool.available.shape[1])

    def joined_inputs(self) -> tuple[FloatArray, dict[str, IntArray]]:
        """Return the inputs of pool and monitors, the pool first, and the positions of each monitor's inputs.

        An input of several monitors, or of a monitor and the pool, appears once.
        """
        n = len(self.pool.X)
        place = {x.tobytes(): row for row, x in enumerate(self.pool.X)}
        added: list[FloatArray] = []
        rows = {}
        for name, monitor in self.monitors.items():
            for x in monitor.X:
                if x.tobytes() not in place:
                    place[x.tobytes()] = n + len(added)
                    added.append(x)
            rows[name] = np.array([place[x.tobytes()] for x in monitor.X])
        return np.array([*self.pool.X, *added]), rows

    def _measurements(self) -> dict[str, Observations]:
        given = {"outputs": self.outputs, "safety": self.safety}
        return {name: measured for name, measured in given.items() if measured is not None}
