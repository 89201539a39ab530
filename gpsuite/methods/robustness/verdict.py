"""Verdict on the class of a point: how another class could win, and the result of the searches for it.

Classes are numbered. Of two classes 1 is the positive and 0 the negative one. A point's class is compared with every
other class. A comparison is a quantity and the value from which on the rival wins. The quantity is the class
probability, for more than two classes a margin. A class is safe in a region if it loses no comparison there, and unsafe
if it loses one.

Equation: Blaas et al. 2020, Definition 1, Definition 2
Equation: Blaas et al. 2020, Eq. (2), Eq. (3), Eq. (4), Definition 1, Definition 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.rounding import rounded

HALF = 0.5
POSITIVE_CLASS = 1
"""The class of two whose probability is searched."""
DIGITS = 6
"""Of the probabilities in a verdict's words."""


@dataclass(frozen=True)
class Comparison:
    """A class against one rival: the rival wins where a quantity is beyond a threshold.

    Attributes:
        own: the point's class.
        rival: the other class.
        sign: direction in which the rival wins: 1 above the threshold, -1 below.
        threshold: threshold of the quantity.
        tie: whether the rival wins at the threshold itself.
    """

    own: int
    rival: int
    sign: int
    threshold: float
    tie: bool

    def crossed(self, value: float | FloatArray) -> Any:
        """Return whether the rival wins at a value of the quantity.

        For a sure answer, pass the end of the value's interval that is nearer to the class itself.
        """
        if self.sign < 0:
            return value <= self.threshold if self.tie else value < self.threshold
        return value >= self.threshold if self.tie else value > self.threshold


KEEP_POSITIVE = Comparison(own=1, rival=0, sign=-1, threshold=HALF, tie=True)
KEEP_NEGATIVE = Comparison(own=0, rival=1, sign=1, threshold=HALF, tie=False)


def binary_comparison(sign: int) -> Comparison:
    """Return the comparison of two classes. The rival wins in this direction of the positive class' probability.

    A probability of exactly one half is the negative class.
    """
    return KEEP_POSITIVE if sign < 0 else KEEP_NEGATIVE


class Standing(Protocol):
    """Values at the searched point."""

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparisons, one for every rival of the point's class."""

    @property
    def undecided(self) -> str:
        """Reason why the class of the point itself is not known. Empty if it is."""


class Centre(Standing, Protocol):
    """The point that is searched around."""

    @property
    def own(self) -> int:
        """The point's class."""

    @property
    def proved(self) -> bool:
        """Whether bounds are proved. Otherwise a cubature only states its error."""

    @property
    def class_proved(self) -> bool:
        """Whether the point's class is proved. This may need no expectation."""

    def probability(self, own: int) -> tuple[float, float, float]:
        """Return the probability of a class as computed, and bounds of it."""

    def comparison_of(self, own: int) -> Comparison | None:
        """Return the comparison that the probability of this class decides, if there is one."""


def complement(low: float, high: float) -> tuple[float, float]:
    """Return the range of the other class' probability, moved outwards by the rounding of the difference."""
    return max(float(np.nextafter(1.0 - high, -1.0)), 0.0), min(float(np.nextafter(1.0 - low, 2.0)), 1.0)


@dataclass(frozen=True)
class PointProbability:
    """The positive class' probability at one point: `low` <= p <= `high` surely. `value` is the computed one.

    By the link's symmetry p > 1/2 means a positive latent mean. A mean that is exactly zero (all weights zero) or
    surely not positive proves the negative class.
    """

    value: float
    low: float
    high: float

    @property
    def comparison(self) -> Comparison:
        """The comparison of the point's class with the other class."""
        return KEEP_POSITIVE if self.value > HALF else KEEP_NEGATIVE

    @property
    def own(self) -> int:
        """The point's class."""
        return self.comparison.own

    @property
    def proved(self) -> bool:
        """True: no cubature is needed."""
        return True

    class_proved = proved

    @property
    def comparisons(self) -> tuple[Comparison]:
        return (self.comparison,)

    @property
    def undecided(self) -> str:
        """Reason why the class is not known: a probability that is not finite, or a tie."""
        if not np.isfinite(self.value):
            return "the class probability at the point is not finite"
        if not (self.low > HALF or self.high <= HALF):
            half = f"one half lies in [{self.low:.17g}, {self.high:.17g}]"
            return f"tie within rounding: {half}, all that is known of the point itself"
        return ""

    def probability(self, own: int) -> tuple[float, float, float]:
        """Return the probability of a class as computed, and bounds of it."""
        if own == POSITIVE_CLASS:
            return self.value, self.low, self.high
        return 1.0 - self.value, *complement(self.low, self.high)

    def comparison_of(self, own: int) -> Comparison | None:
        """Return the only comparison for the positive class, otherwise None."""
        return self.comparison if own == POSITIVE_CLASS else None


@dataclass(frozen=True)
class PointClasses:
    """The class probabilities at a point and its class: the one with the largest probability, the first of equals.

    Attributes:
        values: computed probabilities, [C].
        low: lower bounds, [C].
        high: upper bounds, [C].
        proved: whether these are bounds.
        margins: lower bounds of (1 + p_own - p_j) / 2 for every class j, [C].
        class_proved: whether margins above 1/2 are bounds.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    proved: bool
    margins: FloatArray
    class_proved: bool

    @property
    def own(self) -> int:
        """The point's class."""
        return int(np.argmax(self.values))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of the class with every other one. A tie goes to the first class."""
        return tuple(
            Comparison(self.own, rival, -1, HALF, tie=rival < self.own)
            for rival in range(len(self.values))
            if rival != self.own
        )

    @property
    def undecided(self) -> str:
        """Reason why the class of the point itself is not known. Empty if it is."""
        if not np.isfinite(self.values).all():
            return "a class probability at the point is not finite"
        tied = [each.rival for each in self.comparisons if each.crossed(self.margins[each.rival])]
        if tied:
            within = "rounding" if self.proved else "the cubature's stated error"
            return f"tie within {within} between classes {self.own} and {tied[0]} at the point itself"
        return ""

    def probability(self, own: int) -> tuple[float, float, float]:
        """Return the probability of a class as computed, and bounds of it."""
        return float(self.values[own]), float(self.low[own]), float(self.high[own])

    def comparison_of(self, own: int) -> Comparison | None:
        """Return none: comparisons are about margins."""
        return None


@dataclass(frozen=True)
class Verdict:
    """Whether all points of a region have the class of its centre.

    Attributes:
        status: "safe" (proved), "unsafe" (with the counterexample) or "unknown".
        reason: reason of the status, in words.
        counterexample: [D] a point of the region in another class, or None.
    """

    status: str
    reason: str
    counterexample: FloatArray | None = None


def judge(centre: Standing, extrema: Sequence[Extremum], region: Region) -> Verdict:
    """Return the verdict from the searches towards the rivals of the centre's class.

    If the intervals do not decide, the verdict is "unknown". It never depends on how a tie is rounded.

    Args:
        centre: state at the region's centre.
        extrema: search of every comparison's quantity in its direction.
        region: the region that was searched.

    Raises:
        ValueError: if there is not one search for every comparison.
    """
    if centre.undecided:
        return Verdict("unknown", centre.undecided)
    verdicts = [
        _of_comparison(each, extremum, region) for each, extremum in zip(centre.comparisons, extrema, strict=True)
    ]
    for status in ("unsafe", "unknown"):
        for verdict in verdicts:
            if verdict.status == status:
                return verdict
    return verdicts[0] if len(verdicts) == 1 else Verdict("safe", f"no comparison of {len(verdicts)} is lost")


def _of_comparison(comparison: Comparison, extremum: Extremum, region: Region) -> Verdict:
    """Return the verdict of one comparison. Its sentence states attained value and proved bound, rounded safely."""
    attained = rounded(extremum.inner, DIGITS, -extremum.sign)
    proved = rounded(extremum.outer, DIGITS, extremum.sign)
    if not comparison.crossed(extremum.outer):
        return Verdict("safe", f"no class probability beyond {proved}")
    if extremum.witness is not None and comparison.crossed(extremum.inner):
        point = region.embed(extremum.witness)
        return Verdict("unsafe", f"class probability {attained} at the counterexample", point)
    if extremum.witness is not None and comparison.crossed(extremum.inner + extremum.sign * extremum.rounding):
        known = f"known to {rounded(extremum.rounding, 2, 1)} only"
        return Verdict("unknown", f"tie within rounding: class probability {extremum.inner:.17g} attained, {known}")
    return Verdict("unknown", f"attained {attained}, proved {proved}: {extremum.reason}")


@dataclass(frozen=True)
class ClassRange:
    """The range of the probability of a class over a region.

    Attributes:
        own: the class. Of two classes the positive one.
        centre: state at the region's centre.
        minimum: search of the smallest probability.
        maximum: search of the largest probability.
        verdict: verdict on the centre's class. The range of one class decides it only between two classes.

    Equation: Blaas et al. 2020, Eq. (2), Definition 1
    """

    own: int
    centre: Centre
    minimum: Extremum
    maximum: Extremum
    verdict: Verdict

    @property
    def probability(self) -> float:
        """The computed class probability at the centre."""
        return self.centre.probability(self.own)[0]

    @property
    def seconds(self) -> float:
        """Wall-clock time of both searches."""
        return self.minimum.seconds + self.maximum.seconds

    @property
    def boxes(self) -> int:
        """Boxes bounded by both searches."""
        return self.minimum.boxes + self.maximum.boxes

    @property
    def gap(self) -> float:
        """The larger of the two distances between attained and proved probability."""
        return max(self.minimum.gap, self.maximum.gap)

    @property
    def status(self) -> str:
        """The searches' status: "closed" if both are closed, otherwise the status of an open one."""
        return next((each.status for each in (self.minimum, self.maximum) if each.status != "closed"), "closed")

    @property
    def spread(self) -> tuple[float, float]:
        """Attained and proved pi_max - pi_min (Sec. 6.2 of Blaas et al. 2020)."""
        attained = self.maximum.inner - self.minimum.inner
        return max(0.0, attained), self.maximum.outer - self.minimum.outer

    @property
    def deviation(self) -> tuple[float, float]:
        """Attained and proved max |Pi(x) - Pi(centre)| (their Definition 1)."""
        _, low, high = self.centre.probability(self.own)
        attained = max(self.maximum.inner - high, low - self.minimum.inner, 0.0)
        return attained, max(self.maximum.outer - low, high - self.minimum.outer)

    def side(self, sign: int) -> Extremum:
        """Return the maximum (sign 1) or the minimum (sign -1)."""
        return self.minimum if sign < 0 else self.maximum

    def with_side(self, extremum: Extremum) -> ClassRange:
        """Return the range with another minimum or maximum. The verdict does not change."""
        if extremum.sign < 0:
            return replace(self, minimum=extremum)
        return replace(self, maximum=extremum)

    def informed(self, lowest: float, highest: float, region: Region) -> ClassRange:
        """Return the range, improved by bounds and the centre's probability if a budget ended its searches.

        Args:
            lowest: lower bound of the probability over the region.
            highest: upper bound of the probability over the region.
            region: region of the range.
        """
        _, low, high = self.centre.probability(self.own)
        minimum, maximum = self.minimum.informed(lowest, high), self.maximum.informed(highest, low)
        if self.verdict.status != "unknown":
            return replace(self, minimum=minimum, maximum=maximum)
        return class_range(self.own, self.centre, minimum, maximum, region)


def class_range(own: int, centre: Centre, minimum: Extremum, maximum: Extremum, region: Region) -> ClassRange:
    """Return the range of a class with its verdict on the centre's class."""
    comparison = centre.comparison_of(own)
    verdict = Verdict("unknown", "the range of one class does not decide between several")
    if comparison is not None:
        verdict = judge(centre, (minimum if comparison.sign < 0 else maximum,), region)
    return ClassRange(own, centre, minimum, maximum, verdict)
