from __future__ import annotations

import numpy as np
import pytest

from gpsuite.bench import pac_bayes


def test_every_sparse_size_and_form_is_held_against_sgpr_and_the_floor() -> None:
    cases = [case for case in pac_bayes.cases() if "PAC-SGP" in case.case]
    goals = {(case.case.split()[0], "M=100" in case.case, case.reference.split()[0]): case.goal for case in cases}
    assert len(goals) == len(cases) == 8
    assert [goals["FITC", small, "GPflow"] for small in (True, False)] == [1.05, 0.95]
    assert [goals["VFE", small, "GPflow"] for small in (True, False)] == [0.75, 0.75]
    assert {goal for (_, _, reference), goal in goals.items() if reference != "GPflow"} == {2.5}


def test_sparse_cases_do_the_work_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pac_bayes, "SPARSE_ROWS", 600)
    bounds = []
    for case in pac_bayes.cases():
        if "PAC-SGP" not in case.case or "M=500" in case.case:
            continue
        ours, reference = case.prepare()
        bounds.append(ours()[0])
        reference()
        if "GPflow" in case.reference:
            loss, gradient = reference()
            assert np.isfinite(loss)
            assert gradient.shape == (100 * pac_bayes.SPARSE_INPUTS + pac_bayes.SPARSE_INPUTS + 2,)
    assert bounds[0] == bounds[1] != bounds[2] == bounds[3]
