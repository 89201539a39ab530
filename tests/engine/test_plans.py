from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpsuite.engine import plans
from gpsuite.engine.plans import MOST_TASKS, PlannedTask, plan_tasks, read_plan
from gpsuite.errors import ResultsError, UserError
from gpsuite.experiments.base import EXPERIMENTS, Request, Task, at_most
from tests.engine import tiny


def planned(monkeypatch: pytest.MonkeyPatch, plan: Any, **given: Any) -> Sequence[Task[Any]]:
    entry = replace(EXPERIMENTS.get(tiny.NAME), plan=plan)
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, entry)
    return plan_tasks(replace(tiny.request(), options=given), tuple(given))


def test_a_plan_too_large_is_refused_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def plan(request: Request[Any]) -> Sequence[Task[Any]]:
        tasks = []
        for number in range(10**9):
            made.append(number)
            tasks.append(tiny.task(number))
        return tasks

    monkeypatch.setattr(plans, "MOST_TASKS", 50)
    with pytest.raises(UserError, match="repetitions=1000000000: more than 50 tasks") as refused:
        planned(monkeypatch, plan, epsilons=[1, 2], repetitions=10**9, seed=10**12)
    assert refused.value.key == "repetitions" and len(made) == 51
    monkeypatch.setattr(plans, "MOST_TASKS", 2)
    with pytest.raises(UserError, match="epsilons with 3 values: more than 2 tasks"):
        planned(monkeypatch, plan, epsilons=[1, 2, 3])


def test_the_largest_plan_that_is_allowed_passes_and_nothing_is_counted_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "MOST_TASKS", 6)
    assert len(planned(monkeypatch, tiny.plan)) == 6
    with at_most(1):
        tiny.task(1)
    assert [tiny.task(number).label for number in (1, 2, 3)]
    assert MOST_TASKS == 100_000  # as the README says


def test_a_plan_that_does_not_fit_the_memory_is_the_users_to_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(request: Request[Any]) -> Sequence[Task[Any]]:
        raise MemoryError

    with pytest.raises(UserError, match="m=1000000000: more than this machine's memory"):
        planned(monkeypatch, plan, m=10**9)


WHOLE = {"science": "s", "tasks": [{"key": "0a", "label": "x", "budget_seconds": None}]}


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", "[" * 200_000, "1" * 5000, "\ud800",
        *(json.dumps({**WHOLE, "tasks": tasks}) for tasks in (None, 3, {"a": 1}, [1], [[]], "ab", [{}])),  # type: ignore[var-annotated]
        *(
            json.dumps({"science": "s", "tasks": [{"key": key, "budget_seconds": seconds}]})
            for key, seconds in ((3, None), ("../0a", None), ("0a\0", None), ("", None), ("0a", "5"), ("0a", [1]))
        ),
        json.dumps({"tasks": []}),
    ],
)  # fmt: skip
def test_a_plan_of_another_shape_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ResultsError, match=r"cannot read .*plan\.json"):
        read_plan(path)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_plan(tmp_path / "plan.json") is None
    (tmp_path / "plan.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    found = read_plan(tmp_path / "plan.json")
    assert found is not None and found.tasks == (PlannedTask("0a", None),)
