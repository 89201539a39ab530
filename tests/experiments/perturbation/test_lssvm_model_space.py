from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, Request, SharedWork
from gpsuite.experiments.perturbation.lssvm_model_space import agreement, nested, spread_of_normals
from tests.experiments.drawn import drawn


def request_of(*words: str) -> Request[Any]:
    return read_request(["experiment=perturbation/lssvm_model_space", "scale=smoke", *words])[0]


def records_of(request: Request[Any]) -> list[Record]:
    entry = EXPERIMENTS.get(request.experiment)
    tasks = entry.plan(request)
    outcomes = [entry.run(task, SharedWork()) for task in tasks]
    return [
        Record("", "", "", task.axes, outcome.status, "", outcome.metrics, {}, arrays=outcome.arrays)
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def test_a_smoke_run_gives_nested_bundles_and_the_figure(tmp_path: Path) -> None:
    request = request_of()
    records = records_of(request)
    assert [record.axes["q"] for record in records] == [50, 10]
    assert records[0].number("angle_degrees") < records[1].number("angle_degrees") < 90.0
    found = EXPERIMENTS.get(request.experiment).summarise(Report(request, records, tmp_path, None))
    values = {statistic.name: statistic.value for statistic in found}
    assert values["share_regions_nested"] == 1.0
    assert 0.0 <= values["share_classified_as_estimate"] < 1.0
    assert len(drawn(tmp_path, "model_space"))
    assert "±1 labels" in (tmp_path / "tables" / "bundles.md").read_text(encoding="utf-8")


def test_a_member_outside_the_larger_region_is_seen() -> None:
    request = request_of()
    first, second = records_of(request)
    far = {**first.arrays, "members": first.arrays["members"] + 100.0}
    assert nested(request, [first, second]) == [True]
    assert nested(request, [replace(first, arrays=far), second]) == [False]


def test_agreement_and_angles_of_known_lines_are_right() -> None:
    X = np.array([[1.0, 0.5], [-1.0, 2.0]])
    members = np.array([[2.0, 0.0], [1.0, 1.0]])
    found = agreement(members, np.array([1.0, 0.0]), X)
    assert found == {"all_as_estimate": 0.5, "points_as_estimate": 0.75}
    assert spread_of_normals(members, np.array([1.0, 0.0])) == pytest.approx(45.0)
