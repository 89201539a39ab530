"""Which class a point has, how another class could win, and what searches say about it.

Classes are numbered; of two, 1 is the positive and 0 the negative one. A point's class stands against every other class
in a contest of its own: a quantity (the class probability; a margin for more than two classes) and the value from which
on the rival wins. A class is safe in a region if no contest is lost there, unsafe if one is.

Equation: Blaas et al. 2020, Definition 1, Definition 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.rounding import rounded

HALF = 0.5
DIGITS = 6
"""Of the probabilities in a verdict's words."""


@dataclass(frozen=True)
class Contest:
    """A class against one rival: the rival wins where a quantity lies beyond a threshold.

    Attributes:
        own: the class that is to be kept.
        rival: the other one.
        sign: direction in which the rival wins: 1 above the threshold, -1 below.
        threshold: of the quantity.
        tie: whether the rival wins at the threshold itself.
    """

    own: int
    rival: int
    sign: int
    threshold: float
    tie: bool

    def crossed(self, value: float | FloatArray) -> Any:
        """Tell whether the rival wins at a value of the quantity.

        To be sure, take the end of its interval that is nearer to the own class.
        """
        if self.sign < 0:
            return value <= self.threshold if self.tie else value < self.threshold
        return value >= self.threshold if self.tie else value > self.threshold


KEEP_POSITIVE = Contest(own=1, rival=0, sign=-1, threshold=HALF, tie=True)
KEEP_NEGATIVE = Contest(own=0, rival=1, sign=1, threshold=HALF, tie=False)


def binary_contest(sign: int) -> Contest:
    """Return the contest of two classes whose rival wins in this direction of the positive class' probability.

    A probability of exactly one half is the negative class.
    """
    return KEEP_POSITIVE if sign < 0 else KEEP_NEGATIVE


class Standing(Protocol):
    """What is known of a point itself."""

    @property
    def contests(self) -> Sequence[Contest]:
        """One for every rival of the point's class."""

    @property
    def undecided(self) -> str:
        """Why the point's own class is not known, empty if it is."""


@dataclass(frozen=True)
class PointProbability:
    """The positive class' probability at one point: `low` <= p <= `high` surely; `value` is the computed one.

    By the link's symmetry p > 1/2 is the sign of the latent mean: a mean that is zero exactly (all weights zero) or
    surely not positive proves the negative class.
    """

    value: float
    low: float
    high: float

    @property
    def contest(self) -> Contest:
        """That of the point's class against the other."""
        return KEEP_POSITIVE if self.value > HALF else KEEP_NEGATIVE

    @property
    def contests(self) -> tuple[Contest]:
        """The only one."""
        return (self.contest,)

    @property
    def sign(self) -> int:
        """Direction of the search towards the other class: -1 from the positive class, 1 from the negative one."""
        return self.contest.sign

    @property
    def tied(self) -> bool:
        """Whether rounding leaves the class open."""
        return not (self.low > HALF or self.high <= HALF)

    @property
    def undecided(self) -> str:
        """Why the class is not known: a probability that is not finite, or a tie."""
        if not np.isfinite(self.value):
            return "the class probability at the point is not finite"
        if self.tied:
            half = f"one half lies in [{self.low:.17g}, {self.high:.17g}]"
            return f"tie within rounding: {half}, all that is known of the point itself"
        return ""


@dataclass(frozen=True)
class Verdict:
    """Whether all points of a region have the class of its centre.

    Attributes:
        status: "safe" (proved), "unsafe" (with the counterexample) or "unknown".
        reason: why, in words.
        counterexample: [D] a point of the region in another class, or None.
    """

    status: str
    reason: str
    counterexample: FloatArray | None = None


def judge(centre: Standing, extrema: Sequence[Extremum], region: Region) -> Verdict:
    """Judge by the searches towards the rivals of the centre's class.

    What intervals do not settle is unknown: a verdict never depends on how a tie is rounded.

    Args:
        centre: what is known of the region's centre.
        extrema: of the quantity of every contest in its direction.
        region: where it was searched.

    Raises:
        ValueError: if there is not one search for every contest.
    """
    if centre.undecided:
        return Verdict("unknown", centre.undecided)
    verdicts = [
        _of_contest(contest, extremum, region)
        for contest, extremum in zip(centre.contests, extrema, strict=True)
    ]
    for status in ("unsafe", "unknown"):
        for verdict in verdicts:
            if verdict.status == status:
                return verdict
    return verdicts[0] if len(verdicts) == 1 else Verdict("safe", f"no contest of {len(verdicts)} is lost")


def _of_contest(contest: Contest, extremum: Extremum, region: Region) -> Verdict:
    """Judge one contest; its sentence claims no more than was attained and no less than was proved."""
    attained = rounded(extremum.inner, DIGITS, -extremum.sign)
    proved = rounded(extremum.outer, DIGITS, extremum.sign)
    if not contest.crossed(extremum.outer):
        return Verdict("safe", f"no class probability beyond {proved}")
    if extremum.witness is not None and contest.crossed(extremum.inner):
        point = region.embed(extremum.witness)
        return Verdict("unsafe", f"class probability {attained} at the counterexample", point)
    if extremum.witness is not None and contest.crossed(extremum.inner + extremum.sign * extremum.rounding):
        known = f"known to {rounded(extremum.rounding, 2, 1)} only"
        return Verdict(
            "unknown", f"tie within rounding: class probability {extremum.inner:.17g} attained, {known}"
        )
    return Verdict("unknown", f"attained {attained}, proved {proved}: {extremum.reason}")
