"""The bench's two sides do the same work."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.bench import perturbation


def test_the_goals_of_the_family_are_among_the_cases() -> None:
    cases = perturbation.cases()
    goals = [case.goal for case in cases if "memberships" in case.case]
    assert goals == [1 / 12] * 4 + [1 / 500]
    assert all("n=m=100" in case.case for case in cases if "memberships" in case.case)
    assert any("10000 repetitions" in case.case for case in cases)
    programs = [case for case in cases if "semidefinite" in case.reference]
    assert [case.goal for case in programs] == [1 / 20]
    assert len({case.case for case in cases}) == len(cases)


@pytest.mark.parametrize("model", [*perturbation.MODELS, "linear"])
def test_loop_and_batch_find_the_same_members(model: str) -> None:
    ours, looped = perturbation._memberships(model, 200)
    found = ours()
    assert isinstance(found, np.ndarray)
    assert 0 < np.count_nonzero(found) < 200
    assert looped() == found.tolist()


def test_the_coverage_study_runs_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturbation, "REPETITIONS", 400)
    sides = [np.asarray(work()) for work in perturbation._coverage_study()]
    for ranks in sides:
        assert ranks.shape == (5, 400)
        np.testing.assert_allclose(np.mean(ranks, axis=1), 10.5, atol=1.5)  # uniform on 1..20, 5 standard errors


def test_radii_equal_the_programs() -> None:
    ours, programs = perturbation._radii()
    np.testing.assert_allclose(np.asarray(ours()), np.asarray(programs()), rtol=1e-6)
