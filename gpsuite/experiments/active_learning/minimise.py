"""active_learning/minimise: the best setting found safely, by our planner and by others, on thirteen kinds and more."""

from __future__ import annotations

from dataclasses import dataclass

# The goals were set down before any constant of the planner was chosen. A verdict reads one statistic.
DELTA = 0.05
AT = 20  # queries at which regrets are compared
NEGLIGIBLE = 0.01  # a smaller median regret (1 at the start, 0 at the optimum) counts as this much in a ratio


@dataclass(frozen=True)
class Goal:
    """A statement about our planner that holds if a statistic is at most a limit.

    Attributes:
        statistic: of the run.
        limit: the largest value with which it holds.
        statement: in words.
    """

    statistic: str
    limit: float
    statement: str


GOALS = (
    Goal("unsafe_kinds", 0.0, "on no kind is the share of truly unsafe queries shown to be above delta"),
    Goal("unsafe_share_upper", DELTA, "over all kinds at most delta of the queries are truly unsafe (upper 95 % limit)"),
    Goal("regret_ratio[to=safeopt]", 0.5, "median regret at 20 queries at most half of SafeOpt's"),
    Goal("regret_ratio[to=losbo]", 0.5, "median regret at 20 queries at most half of LoSBO's"),
    Goal("regret_ratio[to=constrained_ei]", 1.2, "at most 1.2 times the unguarded rule's on kinds without traps"),
    Goal("stopped_early", 0.0, "no search ends before its queries are used up"),
)
