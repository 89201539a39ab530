"""How the parts of a plan share its time.

Equation: none, a clock
"""

from __future__ import annotations

from gpsuite.budget import Budget

SAFETY_INFERENCE, INFERENCE = 0.3, 0.6
"""Shares of the time after which the inference for the safety value, and that for the outputs, is cut short."""


class Clock:
    """Tells each part of a plan when it has to end; without a limit, never.

    Args:
        budget: of the whole plan; None: no limit.
    """

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget

    def safety_inference_ended(self) -> bool:
        """Whether the inference for the safety value has to end."""
        return self._after(SAFETY_INFERENCE)

    def inference_ended(self) -> bool:
        """Whether the inference for the outputs has to end."""
        return self._after(INFERENCE)

    def ended(self) -> bool:
        """Whether the whole plan has to end."""
        return self._after(1.0)

    def _after(self, share: float) -> bool:
        if self._budget is None or self._budget.seconds is None:
            return False
        self._budget.spend()  # who shows progress is told
        return self._budget.elapsed >= share * self._budget.seconds
