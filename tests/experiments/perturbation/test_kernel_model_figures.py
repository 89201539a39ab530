from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, INFEASIBLE, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.perturbation.kernel_models import coverage_not_rejected, ideal_coefficients
from gpsuite.experiments.perturbation.krr_region import endless_text
from gpsuite.experiments.perturbation.krr_region import statements as krr_statements
from gpsuite.experiments.perturbation.svr_region import statements as svr_statements
from tests.experiments.drawn import drawn

NAMES = ("klasso_band", "krr_region", "svr_region")


def request_of(name: str, *words: str) -> Request[Any]:
    return read_request([f"experiment=perturbation/{name}", "scale=smoke", *words])[0]


def record_of(task: Task[Any]) -> Record:
    outcome = EXPERIMENTS.get(task.experiment).run(task, SharedWork())
    return Record("", "", "", task.axes, outcome.status, outcome.reason, outcome.metrics, {}, arrays=outcome.arrays)


@pytest.mark.parametrize("name", NAMES)
def test_a_smoke_run_gives_bands_coverage_and_the_statistic(name: str, tmp_path: Path) -> None:
    request = request_of(name)
    entry = EXPERIMENTS.get(request.experiment)
    records = [record_of(task) for task in entry.plan(request)]
    bands = [record for record in records if record.axes["part"] == "band"]
    for record in bands:
        arrays = record.arrays
        assert (arrays["lower"] <= arrays["centre"]).all()
        assert (arrays["centre"] <= arrays["upper"]).all()
        if record.axes["norm_bound"]:
            assert record.number("unbounded_share") == 0.0
        assert str(record.axes["metric"]) in str(record.metrics["sampler"])
    found = entry.summarise(Report(request, records, tmp_path, "a note"))
    assert len(found) == 1
    assert 0.9 < found[0].value <= 1.0 or name == "krr_region"
    shown = drawn(tmp_path, name)
    assert (shown["lower"] <= shown["centre"]).all() and (shown["centre"] <= shown["upper"]).all()
    assert len(shown.groupby(["q", "metric", "norm_bound"])) == len(bands)
    table = (tmp_path / "tables" / "bands.md").read_text(encoding="utf-8")
    assert "share of unbounded rays" in table
    assert "share of returning rays" in table


def test_kernel_ridge_ends_along_generic_rays_but_never_along_single_points() -> None:
    request = request_of("krr_region")
    tasks = [t for t in EXPERIMENTS.get(request.experiment).plan(request) if t.axes["part"] == "rays"]
    records = {str(task.axes["metric"]): record_of(task) for task in tasks}
    assert records["coefficients"].number("leave") == records["coefficients"].number("rays")
    single = records["single point"]
    assert (single.number("leave"), single.number("rays")) == (0, 40)
    assert 0.35 < single.number("far_share_above") < 0.65
    found = krr_statements(list(records.values()))[0]
    assert (found.value, found.n) == (2 / 3, 3)
    assert "0 of 40" in found.note
    one_stays = replace(records["coefficients"], metrics=records["coefficients"].metrics | {"leave": 39})
    assert krr_statements([one_stays])[0].value == 0.0
    assert endless_text(list(records.values())) == "40 of 40 rays along K⁻¹e_j have no end"
    assert endless_text([]) == ""


def test_an_estimate_outside_the_norm_ball_is_infeasible() -> None:
    request = request_of("klasso_band", "norm_bound=0.1")
    tasks = EXPERIMENTS.get(request.experiment).plan(request)
    statuses = [record_of(task).status for task in tasks if task.axes.get("norm_bound")]
    assert set(statuses) == {INFEASIBLE}


def test_the_binomial_test_rejects_what_it_should() -> None:
    def record(model: str, **held: int) -> Record:
        return Record("", "", "", {"model": model}, "done", "", {"repetitions": 10_000, **held}, {})

    good, bad = record("svr", held_50=5010, held_10=8990), record("krr", held_50=5010, held_10=9200)
    assert coverage_not_rejected(good, [50, 10], 100)
    assert not coverage_not_rejected(bad, [50, 10], 100)
    found = svr_statements([good, bad], [50, 10], 100)[0]
    assert (found.value, found.note) == (0.5, "rejected: kernel ridge")


def test_ideal_coefficients_have_the_true_values_and_no_bias() -> None:
    gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    found = ideal_coefficients(gram, np.array([1.0, 2.0]), free=1)
    assert found[0] == 0.0
    np.testing.assert_allclose(gram @ found[1:], [1.0, 2.0])


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("klasso_band", "penalty=0", "penalty=0"),
        ("krr_region", "q_values=[100]", "q_values=100: must lie in 0 < q < m=100"),
        ("krr_region", "metrics=[euclidean]", "metrics=euclidean: unknown metrics\nvalid: coefficients"),
        ("krr_region", "norm_bound=-1", "norm_bound=-1"),
        ("svr_region", "metrics=[values]", "metrics=values: unknown metrics\nvalid: coefficients, rkhs"),
        ("svr_region", "epsilon=-0.1", "epsilon=-0.1"),
    ],
)
def test_impossible_settings_are_refused(name: str, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        request_of(name, word)
