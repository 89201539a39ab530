"""What a run of guarantee says, beside the numbers that it is said of."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee import answer, summary_classes
from gpsuite.experiments.guarantee.answer import (
    _band_sentences,
    _interval_sentences,
    _needed,
    range_sentences,
)
from gpsuite.experiments.guarantee.assumptions import row_checks
from gpsuite.experiments.guarantee.checks import HOLDS
from gpsuite.experiments.guarantee.summary_classes import _judged_sentences, _row_sentences
from gpsuite.methods.conformal import jackknife_plus
from gpsuite.methods.pac_bayes.bounds.kl_inverse import kl_inverse


def made_up(metrics: dict[str, Any], **arrays: Any) -> Record:
    found: Any = SimpleNamespace(
        metrics=metrics, arrays=arrays, axes={}, number=lambda name: float(metrics[name])
    )
    return found


def settings(**values: Any) -> Any:
    return SimpleNamespace(
        **{"preparation": 0.1, "most_rows": 1000, "coverage": 0.9, "delta": 0.01, "tolerances": [], **values}
    )


@pytest.mark.parametrize("preparation", [0.1, 0.4])
@pytest.mark.parametrize(("risk", "penalty"), [(0.1, 9.0), (0.2, 3.7), (0.15, 80.0)])
def test_so_many_rows_of_the_table_are_enough(risk: float, penalty: float, preparation: float) -> None:
    """The rows that choose the scale are of the table, too; what is said is rounded up to two digits, no further."""
    record = made_up({"gibbs_risk_train": risk, "penalty": penalty, "n_train": 20})
    said = _needed(record, settings(preparation=preparation))
    found = re.search(r"with about (\d+) different rows", said)
    assert found is not None
    learned = int(int(found[1]) * (1.0 - preparation))
    assert 2.0 * kl_inverse(risk, penalty / learned).p <= 0.5
    assert 2.0 * kl_inverse(risk, penalty / (0.85 * learned)).p > 0.5
    named = re.search(r"most_rows=(\d+)", said)
    assert (named is not None) == (learned > 1000)
    if named is not None:
        assert 2.0 * kl_inverse(risk, penalty / int(named[1])).p <= 0.5


def test_few_test_rows_are_not_blamed_for_what_copies_cost() -> None:
    metrics = {"n_test": 20, "gp_inside": 18, "conformal_radius": None, "n_copies": 0}
    few = next(_interval_sentences(made_up(metrics), settings(), "y"))
    assert few == "Split conformal: 20 test rows are too few for an interval of 90 %."
    copies = next(_interval_sentences(made_up({**metrics, "n_copies": 10}), settings(), "y"))
    assert "20 test rows, with 10 more that repeat others and count as lost, are too few" in copies


@pytest.mark.parametrize(("rows", "bounded"), [(18, False), (19, True)])
def test_unbounded_jackknife_intervals_are_not_promised(rows: int, bounded: bool) -> None:
    """Of many test rows only some have models of their own, and these must be enough."""
    metrics = {"n_test": 500, "gp_inside": 11, "conformal_radius": 2.0, "n_copies": 0, "jackknife_rows": rows}
    said = list(_interval_sentences(made_up(metrics), settings(), "y"))
    assert any(line.startswith("Jackknife+: its interval") for line in said) is bounded
    few = f"Jackknife+: {rows} test rows left out in turn are too few for an interval of 90 %."
    assert (few in said) is not bounded
    low, high = jackknife_plus(np.ones(rows), np.zeros((rows, 1)), 0.9)
    assert bool(np.isfinite([low, high]).all()) is bounded


def test_classes_that_no_test_row_has_are_named() -> None:
    metrics = {
        "wrong": 1,
        "n_test": 20,
        "n_copies": 0,
        "n_train": 80,
        "majority": 0.0,
        "bound": 0.2,
        "points": 0,
    }
    arrays: dict[str, Any] = {"certified_bounds": [], "certified": np.empty(0)}
    none = list(_judged_sentences(made_up({**metrics, "untested": ""}, **arrays), settings()))
    rare = list(_judged_sentences(made_up({**metrics, "untested": "bad\nworse"}, **arrays), settings()))
    assert not any("No test row" in line for line in none)
    assert "  No test row is bad or worse: of such rows nothing was seen." in rare
    assert any("the model learned from 80 other rows" in line for line in none)


@pytest.mark.parametrize(
    ("repeated", "finding"), [(0, "no row repeats another"), (3, "3 rows repeat an earlier one")]
)
def test_copies_are_spoken_of_where_there_are_some(repeated: int, finding: str) -> None:
    metrics = {
        "repeated_rows": repeated,
        "repeated": False,
        "drift_p": 1.0,
        "order_p": 1.0,
        "drift_column": "a",
    }
    check = row_checks(made_up(metrics), "jackknife+")[0]
    assert check.finding.startswith(finding)
    assert (check.verdict == HOLDS) == (repeated == 0)
    assert check.needed_by == "jackknife+"


def test_ranges_are_told_of_the_row_that_moves_most(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"outside": np.array([False, False]), "examples": np.array([0, 1])}
    moved = made_up(
        {}, ranges=np.array([[[0.9, 1.2]], [[1.0, 5.0]]]), prediction=np.array([1.0, 2.0]), **rows
    )
    tolerant = settings(tolerances=[0.1])
    assert "move by at most 3 (y)" in " ".join(range_sentences(moved, tolerant, "y"))
    ranges, effects = np.array([[[0.9, 1.0]], [[0.4567, 1.0]]]), np.array([[0.1], [0.2]])
    report: Any = SimpleNamespace(
        request=SimpleNamespace(require_dataset=lambda: None), settings=SimpleNamespace(tolerances=[0.1])
    )
    monkeypatch.setattr(summary_classes, "load", lambda _: SimpleNamespace(input_names=("a",)))
    said = " ".join(_row_sentences(report, made_up({}, ranges=ranges, effects=effects, **rows)))
    assert "stays above 0.456 for all" in said


def test_the_bands_confidence_is_the_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "mean_width", lambda *_: 1.5)
    band: Any = SimpleNamespace(
        axes={"model": "lssvm_linear"}, metrics={}, arrays={}, status="done", reason=""
    )
    said = " ".join(_band_sentences([band], settings(excluded=5, m=100), "y"))
    assert "with probability 95 %" in said
