"""What is said of results that fall short of what was asked."""

from __future__ import annotations

from dataclasses import replace

from gpsuite.engine.folder import limitations
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import BUDGET, SharedWork
from tests.engine import tiny


def test_tasks_that_their_budget_ended_are_a_limitation() -> None:
    records = [execute(tiny.task(n), SharedWork()) for n in (1, 2)]
    records[1] = replace(records[1], status=BUDGET)
    assert "1 of 2 tasks ended with their budget" in limitations(tiny.request(), records)
