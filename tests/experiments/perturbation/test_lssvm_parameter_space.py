from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, Request, SharedWork
from gpsuite.experiments.perturbation.linear_models import compass
from gpsuite.experiments.perturbation.lssvm_parameter_space import (
    asymptotic_radius,
    ellipse_area,
    ellipse_points,
    nested,
    order_of_ranks,
    polygon_area,
    star_violations,
    statements,
)
from tests.arrays import Array
from tests.experiments.drawn import drawn


def request_of(*words: str) -> Request[Any]:
    return read_request(["experiment=perturbation/lssvm_parameter_space", "scale=smoke", *words])[0]


def records_of(request: Request[Any]) -> list[Record]:
    entry = EXPERIMENTS.get(request.experiment)
    tasks = entry.plan(request)
    outcomes = [entry.run(task, SharedWork()) for task in tasks]
    return [
        Record("", "", "", task.axes, outcome.status, "", outcome.metrics, {}, arrays=outcome.arrays)
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def test_the_plan_shares_perturbations_over_q_and_draws_them_again_else() -> None:
    request = request_of("draws=2")
    tasks = EXPERIMENTS.get(request.experiment).plan(request)
    assert [tuple(task.axes.values()) for task in tasks] == [
        (model, draw, q) for model in ("lssvm", "krr") for draw in (0, 1) for q in (50, 10)
    ]
    seeds = [task.params.problem.seed for task in tasks[:4]]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]


def test_a_smoke_run_gives_the_statements_tables_and_figure(tmp_path: Path) -> None:
    request = request_of()
    records = records_of(request)
    found = EXPERIMENTS.get(request.experiment).summarise(Report(request, records, tmp_path, "a note"))
    values = {statistic.name: statistic.value for statistic in found}
    assert values["share_corrected_rule_sensible"] == 1.0
    assert values["violations_of_star_convexity"] == 0
    assert values["members_outside_ellipsoid"] == 0
    assert values["share_radius_nested"] == 1.0
    assert 1.0 < values["ellipsoid_area_over_region_area"] < 3.0
    for record in records[:2]:
        assert record.number("region_area") < record.number("ellipsoid_area")
        assert 0.5 < record.number("asymptotic_area") / record.number("region_area") < 2.0
    assert len(drawn(tmp_path, "parameter_space"))
    assert "±1 labels" in (tmp_path / "tables" / "areas.md").read_text(encoding="utf-8")


def test_areas_of_known_shapes() -> None:
    shape = np.diag([4.0, 1.0])
    points = ellipse_points(np.array([3.0, -1.0]), shape, 4.0, compass(20_000))
    assert ellipse_area(shape, 4.0) == pytest.approx(2.0 * np.pi)
    assert polygon_area(points) == pytest.approx(2.0 * np.pi, rel=1e-6)
    assert polygon_area(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]])) == 1.0
    assert polygon_area(np.array([[0.0, 0.0], [np.inf, 0.0], [2.0, 1.0]])) == np.inf


def test_the_printed_rank_is_the_wrong_way_round_and_violations_can_be_seen() -> None:
    request = request_of()
    task = EXPERIMENTS.get(request.experiment).plan(request)[1]
    region = task.params.problem.region(request.require_dataset())
    assert order_of_ranks(region, region.estimate + 100.0) == {
        "holds_estimate": True,
        "excludes_far": True,
        "printed_holds_estimate": False,
        "printed_excludes_far": False,
    }
    assert order_of_ranks(region, region.estimate + 1e-9)["excludes_far"] is False
    assert asymptotic_radius(region) > 0.0

    class Gappy:
        """Every other membership test fails."""

        estimate = region.estimate
        calls = 0

        def contains(self, alphas: Array) -> Array:
            self.calls += 1
            return np.full(len(alphas), self.calls % 2 == 1)

    rays = compass(8)
    assert star_violations(Gappy(), rays, np.ones(8), 50, np.random.default_rng(0))[0] == 50  # type: ignore[arg-type]


def test_a_radius_that_shrinks_or_a_rule_that_fails_is_seen() -> None:
    good = {"holds_estimate": True, "excludes_far": True, "segments": 5, "star_violations": 0}
    good |= {"printed_holds_estimate": False, "printed_excludes_far": False, "outside_ellipsoid": 0}
    good |= {"ellipsoid_area": 3.0, "region_area": 2.0}  # type: ignore[dict-item]

    def record(q: int, **metrics: Any) -> Record:
        return Record("", "", "", {"model": "lssvm", "draw": 0, "q": q}, "done", "", {**good, **metrics}, {})

    rising = [record(50, radius=1.0), record(10, radius=2.0), record(5, radius=None)]
    assert nested(rising) == [True, True]
    assert nested([record(50, radius=None), record(10, radius=2.0)]) == [False]
    broken = [*rising, record(2, radius=None, excludes_far=False, star_violations=3)]
    values = {statistic.name: statistic.value for statistic in statements(broken)}
    assert values["share_corrected_rule_sensible"] == 0.5
    assert values["violations_of_star_convexity"] == 3
    assert values["ellipsoid_area_over_region_area"] == 1.5
    assert statements([]) == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("q_values=[100]", "q_values=100: must lie in 0 < q < m=100"),
        ("q_values=[0]", "q_values=0"),
        ("q_values=[5,5]", "must not have a value twice"),
        ("C=0", "C=0"),
        ("rays=3", "rays=3"),
        ("segments=0", "segments=0"),
    ],
)
def test_impossible_settings_are_refused(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        request_of(word)
