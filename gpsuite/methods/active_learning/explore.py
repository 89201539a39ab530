"""Safe active learning, Algorithm 1 of Li et al. 2022, as an iterator over models and queries.

Equation: Li et al. 2022, Algorithm 1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpsuite.methods.active_learning.acquisition import Pipeline
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.planner import Planner, SavedState, Step
from gpsuite.methods.active_learning.problem import Oracle, Problem, WhenNothingIsSafe


class Explorer(Iterator[Step]):
    """The iterator that `explore` returns.

    Attributes:
        planner: the models and the rule; its `status` and `reason` tell how the iteration ended.
    """

    def __init__(self, planner: Planner, oracle: Oracle, iterations: int) -> None:
        self.planner = planner
        self._oracle = oracle
        self._iterations = iterations

    @property
    def status(self) -> str:
        """`running`, `done`, or `infeasible` if no query was left before the last iteration."""
        if self.planner.status == "running" and self.planner.index >= self._iterations:
            return "done"
        return self.planner.status

    @property
    def reason(self) -> str:
        """Why the status is `infeasible`; else empty."""
        return self.planner.reason

    def state(self) -> SavedState:
        """Return what continues this exploration after the last step, by `restore`."""
        return self.planner.state()

    def restore(self, state: SavedState) -> None:
        """Continue after the last step of an earlier exploration of the same problem, pipeline and settings.

        The steps that follow are those that would have followed there, bit by bit; the Generator's state is
        overwritten, and the earlier queries count.

        Raises:
            ValueError: if the state does not fit.
        """
        self.planner.restore(state)

    def __next__(self) -> Step:
        if self.planner.index >= self._iterations:
            raise StopIteration
        proposal = self.planner.propose()
        if proposal is None:
            raise StopIteration
        return self.planner.observe(*self._oracle(proposal.row, proposal.p))


def explore(
    problem: Problem,
    pipeline: Pipeline,
    oracle: Oracle,
    rng: np.random.Generator,
    iterations: int,
    settings: InferenceSettings | None = None,
    when_nothing_is_safe: WhenNothingIsSafe = "stop",
) -> Explorer:
    """Iterate over models and queries: step k describes the model of the k-th data set, then what it asked for.

    Memory does not grow with the iterations. All work is done while the next step is awaited.

    Args:
        problem: pool, first measurements, safety limit, monitors.
        pipeline: model and rule.
        oracle: measures a row of the pool.
        rng: the only source of randomness.
        iterations: number of queries.
        settings: how hyperparameters are inferred; default: sequential Monte Carlo.
        when_nothing_is_safe: `stop` with status infeasible, or query the `safest` input.

    Raises:
        ValueError: if the pipeline needs a safety limit and the problem has none.
    """
    planner = Planner(problem, pipeline, rng, settings, when_nothing_is_safe, iterations)
    return Explorer(planner, oracle, iterations)
