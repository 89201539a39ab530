"""What a planner of measurements answers.

Equation: none, a data structure
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpsuite.arrays import BoolArray, FloatArray


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
        status: `done`, `infeasible` if no candidate is safe enough, or `budget` if the time was used up: the best plan
            so far, which may be without proposals.
        reason: why there are no, or fewer, proposals than asked for; else empty.
        warnings: what should be known before it is followed.
        proposals: in the order to be measured.
        probability_safe: of each candidate, [n]; here and below NaN where the budget did not suffice.
        mean: of the outputs at each candidate, [n, P].
        sd: standard deviation of the noise-free outputs at each candidate, [n, P].
        entropy: of each single output there, noise-free and standardised, in nats, before any of the proposals, [n, P].
        safe: which candidates are safe enough and not farther out than the guard's step, [n].
        n_beyond_step: number of those that are safe enough, but lie farther out.
        safest: row of the most probably safe candidate that can still be measured.
        started: how the posterior of the hyperparameters came about: `cold: ...` or `warm: ...`.
        diagnostics: of its sampler, for `outputs` and `safety`.
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

    @property
    def n_safe(self) -> int:
        """Number of candidates that are safe enough."""
        return int(self.safe.sum())


def cut_words(unfinished: Sequence[str], candidates: int, judged: int, predicted: int, late: bool) -> str:
    """Return what the budget has cut short; empty: nothing.

    Args:
        unfinished: models whose inference ended early.
        candidates: their number.
        judged: at how many safety was judged.
        predicted: at how many the outputs were predicted.
        late: whether the time ended before all proposals were chosen.
    """
    cut = [f"inference for {name} ended early" for name in unfinished]
    if judged < candidates:
        cut.append(f"safety judged at {judged} of {candidates} candidates")
    if predicted < candidates:
        cut.append(f"outputs predicted at {predicted}")
    if not cut and late:
        cut.append("later proposals left out")
    return f"budget used up: {', '.join(cut)}" if cut else ""
