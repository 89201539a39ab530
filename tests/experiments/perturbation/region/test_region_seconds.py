"""What a region is when its seconds end: bands stay outer ones, and fewer rays are looked along."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.engine.runner import run_experiment
from gpsuite.experiments.base import BUDGET, DONE, Outcome, SharedWork
from gpsuite.experiments.perturbation import region
from gpsuite.methods.perturbation.rays import sample_members
from tests.experiments.perturbation.region.test_any_region import NAME, plan, write_csv


def outcome(words: list[str], seconds: float | None) -> Outcome:
    (task,) = plan("models=[lssvm_linear]", "m=20", "excluded=[8,2]", "rays=250", *words)
    object.__setattr__(task, "budget_seconds", seconds)
    return region.run(task, SharedWork())


def test_without_seconds_bands_are_the_ellipsoids_and_no_ray_is_seen(tmp_path: Path) -> None:
    words = write_csv(tmp_path)
    whole, ended = outcome(words, None), outcome(words, 0.0)
    assert (whole.status, whole.reason) == (DONE, "")
    assert ended.status == BUDGET
    assert ended.reason.startswith(
        "0 seconds used up: ellipsoid band for pointwise one at q=8, 0 of 250 rays"
    )
    for q in (8, 2):
        for end in ("lower", "upper"):
            outer = whole.arrays[f"ellipsoid_{end}_{q}"]
            np.testing.assert_array_equal(ended.arrays[f"pointwise_{end}_{q}"], outer)
            np.testing.assert_array_equal(ended.arrays[f"ellipsoid_{end}_{q}"], outer)
        assert ended.metrics[f"pointwise_width_{q}"] == whole.metrics[f"ellipsoid_width_{q}"]
        assert [ended.metrics[f"{name}_{q}"] for name in ("rays", "members", "unbounded_share")] == [
            0,
            0,
            None,
        ]
    np.testing.assert_array_equal(ended.arrays["ranks"], whole.arrays["ranks"])


def test_rays_end_between_two_looks_at_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, sample = write_csv(tmp_path), sample_members
    whole, late = outcome(words, None), outcome(words, 1000.0)
    assert late.metrics == pytest.approx(whole.metrics) and late.status == DONE

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(
            Budget, "elapsed", property(lambda budget: time.monotonic() - budget.started + 1000.0)
        )
        return sample(*given)

    monkeypatch.setattr(region, "sample_members", slow)
    cut = outcome(words, 1000.0)
    assert cut.status == BUDGET and cut.metrics["rays_8"] == 100 and cut.metrics["members_8"] == 100
    assert "100 of 250 rays at q=8" in cut.reason and "for pointwise one at q=2" in cut.reason
    np.testing.assert_array_equal(cut.arrays["pointwise_upper_8"], whole.arrays["pointwise_upper_8"])


def test_a_run_that_the_seconds_end_is_summarised(tmp_path: Path) -> None:
    words = [
        *write_csv(tmp_path),
        "models=[lssvm_linear]",
        "budget.seconds=0.0001",
        f"results_dir={tmp_path}/r",
    ]
    request, options = read_request([NAME, "scale=smoke", *words])
    report = run_experiment(request, options)
    assert report.exit_code == 0
    (table,) = (tmp_path / "r").glob("**/records.csv")
    assert f",{BUDGET}," in table.read_text()
    assert any(line.startswith("Band: If the true function is linear") for line in report.answer)
