from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.pac_bayes.overfit_fitc import claims, draw_split, run
from tests.experiments.drawn import drawn


def request_of(*words: str) -> Request[Any]:
    return read_request(["experiment=pac_bayes/overfit_fitc", "scale=smoke", *words])[0]


def tasks_of(*words: str) -> Sequence[Task[Any]]:
    request = request_of(*words)
    return EXPERIMENTS.get(request.experiment).plan(request)


def outcomes(tasks: list[Task[Any]]) -> list[Outcome]:
    return [run(task, SharedWork()) for task in tasks]


def test_methods_share_data_and_start_and_repetitions_do_not() -> None:
    tasks = tasks_of()
    splits = {(task.axes["method"], task.axes["repetition"]): draw_split(task.params, None) for task in tasks}
    np.testing.assert_array_equal(splits["fitc", 0].y, splits["kl_pac_sgp", 0].y)
    assert not set(splits["fitc", 0].y) & set(splits["fitc", 1].y)
    assert len({(task.params.split_seed, task.axes["repetition"]) for task in tasks}) == 2


def test_the_training_rows_are_standardised_and_the_noise_is_the_asked_one() -> None:
    quiet, loud = (draw_split(tasks_of(f"noise_std={noise}", "test_rows=500")[0].params, None) for noise in (1e-9, 0.5))
    for split in (quiet, loud):
        assert split.y.mean() == pytest.approx(0.0, abs=1e-12)
        assert split.y.std() == pytest.approx(1.0, rel=1e-12)
        assert (len(split.y), len(split.y_test)) == (100, 500)
    np.testing.assert_allclose(quiet.X, loud.X)
    centred = [np.concatenate([s.y, s.y_test]) * s.scale for s in (quiet, loud)]
    assert np.std(centred[1] - centred[0]) == pytest.approx(0.5, rel=0.1)


def test_rows_of_a_dataset_are_split_without_loss() -> None:
    task = tasks_of("dataset=diabetes", "rows=300")[0]
    split = draw_split(task.params, task.dataset)
    assert (split.X.shape, split.X_test.shape) == ((300, 10), (142, 10))
    with pytest.raises(UserError, match="rows=442"):
        tasks_of("dataset=diabetes", "rows=442")


@pytest.mark.parametrize("word", ["rows=4", "inducing=101", "epsilon=0", "noise_std=-1", "delta=0", "repetitions=0"])
def test_impossible_settings_are_refused(word: str) -> None:
    with pytest.raises(UserError, match="rows" if word.startswith("inducing") else word.split("=")[0]):
        request_of(word)


def test_fitc_learns_too_little_noise_and_vfe_does_not() -> None:
    tasks = tasks_of("methods=[fitc,vfe]", "repetitions=4", "max_evaluations=200")
    noise = {"fitc": 0.0, "vfe": 0.0}
    for task, outcome in zip(tasks, outcomes(tasks), strict=True):  # type: ignore[arg-type]
        noise[str(task.axes["method"])] += float(outcome.metrics["noise_std"] or 0) / 4
    assert noise["fitc"] < 0.75 * 0.28
    assert noise["vfe"] == pytest.approx(0.28, rel=0.2)


def test_the_gap_is_the_difference_of_the_risks() -> None:
    (outcome,) = outcomes(tasks_of("methods=[kl_pac_sgp]", "repetitions=1"))  # type: ignore[arg-type]
    numbers = {name: float(value) for name, value in outcome.metrics.items() if isinstance(value, int | float)}
    assert numbers["gap"] == pytest.approx(numbers["gibbs_risk_test"] - numbers["gibbs_risk_train"])
    assert numbers["gibbs_risk_train"] < numbers["bound_kl"]
    assert outcome.arrays["Z"].shape == (8,)


def frame(fitc: tuple[list[float], ...], pac: tuple[list[float], ...]) -> pd.DataFrame:
    names = ("noise_std", "gap", "gibbs_risk_test")
    rows = [
        {"method": method, "repetition": number, **dict(zip(names, cell, strict=True))}
        for method, columns in (("fitc", fitc), ("kl_pac_sgp", pac))
        for number, cell in enumerate(zip(*columns, strict=True))
    ]
    return pd.DataFrame(rows)


def test_the_claims_follow_the_numbers() -> None:
    fitc = ([0.1, 0.1, 0.4, math.nan], [0.3, 0.1, 0.3, 0.3], [0.5, 0.5, 0.5, 0.5])
    pac = ([0.3, 0.3, 0.3, 0.3], [0.2, 0.2, 0.2, 0.2], [0.4, 0.6, 0.6, 0.4])
    found = {s.name: (s.value, s.n) for s in claims(frame(fitc, pac))}
    assert found == {
        "share_only_fitc_overfits": (pytest.approx(1 / 3), 3),
        "share_fitc_learns_less_noise": (pytest.approx(2 / 3), 3),
        "share_fitc_has_larger_gap": (pytest.approx(2 / 3), 3),
        "share_fitc_has_larger_test_risk": (pytest.approx(1 / 3), 3),
    }
    both = frame(fitc, pac)
    assert claims(both[both["method"] == "fitc"]) == []


@pytest.mark.parametrize("words", [(), ("dataset=diabetes", "rows=60")])
def test_the_figure_shows_the_gap_of_every_record(words: tuple[str, ...], tmp_path: Path) -> None:
    request = request_of("methods=[kl_pac_sgp,fitc]", *words)
    entry = EXPERIMENTS.get(request.experiment)
    records = [
        Record("", "", "", task.axes, outcome.status, "", outcome.metrics, {}, arrays=outcome.arrays)
        for task in entry.plan(request)
        for outcome in outcomes([task])
    ]
    names = {statistic.name for statistic in entry.summarise(Report(request, records, tmp_path, "note"))}
    assert {"share_only_fitc_overfits", "noise_std[method=fitc]"} <= names
    shown = drawn(tmp_path, "overfit_fitc")
    assert len(shown) == len(records)
    gaps = shown["gibbs_risk_test"] - shown["gibbs_risk_train"]
    assert shown["gap"].to_numpy() == pytest.approx(gaps.to_numpy())
    assert "FITC" in (tmp_path / "tables" / "overfit_fitc.md").read_text(encoding="utf-8")
