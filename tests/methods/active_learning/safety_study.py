"""Counts of truly unsafe proposals on made-up experiments; seeds, families and constants were fixed before the runs."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.seeds import stream
from tests.methods.active_learning.safety_cases import Case, draw_case

LIMIT = SafetyLimit(0.0, "below")
ROUNDS = 10


@dataclass
class Count:
    """What happened in a number of cases.

    Attributes:
        cases: tried.
        proposed: with a proposal by the guarded rule.
        unsafe: of these, truly unsafe.
        unguarded_proposed: with a proposal by the same model without the guard.
        unguarded_unsafe: of these, truly unsafe.
        called: truly safe candidates called safe, mean over the cases of the share, times cases.
        unguarded_called: the same without the guard.
        spread: cases measured over everything.
        spread_unsafe: unsafe proposals in these.
        warned: cases with a warning.
        warned_unsafe: unsafe proposals in these.
    """

    cases: int = 0
    proposed: int = 0
    unsafe: int = 0
    unguarded_proposed: int = 0
    unguarded_unsafe: int = 0
    called: float = 0.0
    unguarded_called: float = 0.0
    spread: int = 0
    spread_unsafe: int = 0
    warned: int = 0
    warned_unsafe: int = 0

    def add(self, other: Count) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def planner_for(case: Case, family: str, number: int, purpose: str) -> MeasurementPlanner:
    planner = MeasurementPlanner(LIMIT, stream(1407, "planner safety", "sampler", purpose, family, number))
    planner.tell(case.X, case.y, case.z)
    return planner


def first_proposal(family: str, number: int, purpose: str = "first proposals") -> Count:
    """Ask once, for one measurement."""
    case = draw_case(family, number, purpose)
    planner = planner_for(case, family, number, purpose)
    plan = planner.ask(case.candidates)
    truly = case.h(case.candidates) <= 0.0
    unsafe = any(not truly[each.row] for each in plan.proposals)
    planner._guard = None
    without = planner.ask(case.candidates)
    warned = any("step" not in each for each in plan.warnings)
    return Count(
        cases=1,
        proposed=len(plan.proposals),
        unsafe=int(unsafe),
        unguarded_proposed=len(without.proposals),
        unguarded_unsafe=sum(not truly[each.row] for each in without.proposals),
        called=float((plan.safe & truly).sum() / max(truly.sum(), 1)),
        unguarded_called=float((without.safe & truly).sum() / max(truly.sum(), 1)),
        spread=int(case.region == "all"),
        spread_unsafe=int(case.region == "all" and unsafe),
        warned=int(warned),
        warned_unsafe=int(warned and unsafe),
    )


def ten_rounds(family: str, number: int) -> tuple[int, int]:
    """Ask ten times, measuring what is proposed; return numbers of proposals and of unsafe ones."""
    case = draw_case(family, number, "ten rounds")
    planner = planner_for(case, family, number, "ten rounds")
    rng = stream(1407, "planner safety", "measuring", family, number)
    proposals = unsafe = 0
    for _ in range(ROUNDS):
        plan = planner.ask(case.candidates)
        if not plan.proposals:
            break
        x = plan.proposals[0].x[None]
        h = case.h(x)
        proposals, unsafe = proposals + 1, unsafe + int(h[0] > 0.0)
        y = case.f(x) + 0.1 * rng.standard_normal(1)
        planner.tell(x, y, h + case.noise * rng.standard_normal(1))
    return proposals, unsafe
