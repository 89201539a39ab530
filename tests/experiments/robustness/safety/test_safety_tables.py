"""What counts in the shares of robustness/safety: a point that is classified wrongly is never safe."""

from __future__ import annotations

import pytest

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety import is_certified, point_statistics, summary_table

TITLES = {"gpc": "GPC"}


def record(point: int, correct: bool, verdict: str, attacked: bool, **more: bool) -> Record:
    metrics: dict[str, float | int | str | bool | None] = {
        "correct": correct,
        "verdict": verdict,
        "attack_succeeds": attacked,
        "gap": 0.1,
        "boxes": 5,
        **more,
    }
    axes: dict[str, str | int | float] = {"method": "gpc", "point": point}
    return Record("key", "robustness/safety", "", axes, "done", "", metrics, {})


def test_wrong_points_are_neither_certified_nor_kept_under_attack() -> None:
    points = [
        record(0, True, "safe", False),
        record(1, False, "safe", False),  # it stays wrong
        record(2, True, "unsafe", True),
        record(3, True, "unknown", False),
    ]
    [row] = summary_table(points, TITLES).to_dict("records")
    assert (row["points"], row["safe"], row["unsafe"], row["unknown"], row["timeout"]) == (4, 2, 1, 1, 0)
    assert (row["accuracy"], row["accuracy under attack"], row["certified accuracy"]) == (0.75, 0.5, 0.25)
    found = {each.name: each.value for each in point_statistics(points, TITLES)}
    assert (found["share_safe[method=gpc]"], found["certified_accuracy[method=gpc]"]) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("proved", "decides", "certified"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_what_the_cubature_only_states_needs_a_certificate(proved: bool, decides: bool, certified: bool) -> None:
    point = record(0, True, "safe", False, probabilities_proved=proved, certificate_decides=decides)
    assert is_certified(point) == certified
