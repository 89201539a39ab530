"""Which inputs are probably safe: a limit on the safety value h(x), and its predictive probability.

Equation: Li et al. 2022, Eq. (8), Eq. (9)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.models.sampling.mixtures import mixture_moments

WhenNothingIsSafe = Literal["stop", "safest"]
"""What is done then: end as infeasible, or measure the most probably safe input."""


def checked_choice(word: WhenNothingIsSafe) -> WhenNothingIsSafe:
    """Return the word.

    Raises:
        ValueError: if it is another one.
    """
    if word not in get_args(WhenNothingIsSafe):
        raise ValueError(
            f"when_nothing_is_safe={word!r}: must be one of {', '.join(get_args(WhenNothingIsSafe))}"
        )
    return word


SIDES = ("above", "below")


@dataclass(frozen=True)
class SafetyLimit:
    """A limit of the safety value; the value itself is still safe.

    Attributes:
        value: in units of the safety value.
        side: `above`: safe from the limit upwards; `below`: up to the limit.

    Raises:
        ValueError: if the value is not finite or the side unknown.

    Equation: Li et al. 2022, Eq. (8)
    """

    value: float
    side: Literal["above", "below"]

    def __post_init__(self) -> None:
        if not np.isfinite(self.value):
            raise ValueError(f"value={self.value}: must be finite")
        if self.side not in SIDES:
            raise ValueError(f"side={self.side}: must be one of {', '.join(SIDES)}")

    def holds(self, z: npt.ArrayLike) -> BoolArray:
        """Return which safety values are safe, of the shape of z; NaN is not."""
        return np.asarray(
            np.asarray(z) >= self.value if self.side == "above" else np.asarray(z) <= self.value
        )

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
    """Return the probability of being safe by the normal distribution of the mixture's moments, [...].

    The paper's rule. Its tails are those of a normal distribution, the mixture's may be heavier.

    Args:
        limit: what is safe.
        mean: of the noise-free safety value h, for each of S hyperparameter vectors, [S, ...].
        variance: of h, [S, ...].
        weights: not negative, summing to 1, [S].
    """
    return limit.probability(*mixture_moments(mean, variance, weights))


def mixture_probability(
    limit: SafetyLimit, mean: FloatArray, variance: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return the probability of being safe by the mixture itself, [...]; arguments of `moment_matched_probability`."""
    return np.tensordot(weights, limit.probability(mean, variance), axes=1)


def safe_set(probability: FloatArray, delta: float) -> BoolArray:
    """Return which inputs are safe with probability above 1 − δ, Eq. (9); where it is NaN, none is.

    Raises:
        ValueError: if δ is not in (0, 1].

    Equation: Li et al. 2022, Eq. (9)
    """
    if not 0.0 < delta <= 1.0:
        raise ValueError(f"delta={delta}: must be in (0, 1]")
    return np.asarray(probability > 1.0 - delta)
