"""What a plan says of how it began, and of candidates for which there was no time."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.engine.runner import run_experiment
from gpsuite.experiments.active_learning import plan
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "draw_plan", lambda *_: None)


def write(path: str, **columns: FloatArray) -> None:
    pd.DataFrame(columns).to_csv(path, index=False)


def run(limit: str, *more: str) -> Path:
    own = ["dataset.target=f", "dataset.safety=s", f"dataset.limit={limit}"]
    words = ["experiment=active_learning/plan", "scale=smoke", "dataset=csv", "dataset.path=m.csv"]
    report = run_experiment(*read_request([*words, "dataset.candidates=c.csv", *own, *more]))
    assert report.exit_code == 0, report.failures
    print("\n".join(report.answer))
    return report.folder


def test_a_plan_that_starts_anew_inside_says_so_in_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([2.0, 2.4, 2.8, 3.2, 3.6, 4.0])
    write("m.csv", x=x, f=np.sin(x), s=0.1 * x)
    write("c.csv", x=np.linspace(2, 5, 31))
    run("<=3")
    x = np.append(x, [6.0, 9.0, 12.0, 16.0, 20.0])
    write("m.csv", x=x, f=np.sin(x), s=0.1 * x)
    write("c.csv", x=np.linspace(2, 20, 31))
    capsys.readouterr()
    folder = run("<=3")
    with (folder / "tables" / "plan_inference.csv").open() as stream:
        assert {row["started"] for row in csv.DictReader(stream)} == {
            "cold: the spread of measurements or candidates has changed"
        }
    assert "the spread of measurements or candidates has changed" in capsys.readouterr().out


def many() -> tuple[FloatArray, ...]:
    """Measured inputs, a safety value, and 3000 candidates: one, the second, lies between safe ones (s <= 0.5)."""
    x = np.linspace(0.0, 10.0, 40)
    candidates = np.linspace(20.0, 400.0, 3000)
    candidates[1] = 2.05
    return x, 0.1 * x, candidates


def test_candidates_without_a_judgement_are_not_called_unsafe() -> None:
    x, z, candidates = many()
    smc = SMCSettings(16, 1, 5)
    planner = MeasurementPlanner(SafetyLimit(0.5, "below"), np.random.default_rng(0), smc=smc)
    planner.tell(x[:, None], np.sin(x), z)
    found = planner.ask(candidates[:, None], 1, budget=Budget(seconds=1e-6))
    judged = int(np.isfinite(found.probability_safe).sum())
    assert judged < len(candidates)
    assert not found.safe.any()
    assert planner.ask(candidates[:, None], 1).safe[1], "judged, it is safe"
    assert f"none of {judged} candidates is safe" in found.reason


def test_a_plan_without_proposals_prints_no_empty_frame_and_its_table_can_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x, z, candidates = many()
    write("m.csv", x=x, f=np.sin(x), s=z)
    write("c.csv", x=candidates)
    folder = run("<=0.5", "budget.seconds=0.000001")
    said = capsys.readouterr().out
    assert "Empty DataFrame" not in said
    assert "at 0 of 1000 judged of 3000 candidates" in said
    assert "order" in pd.read_csv(folder / "tables" / "plan.csv").columns
