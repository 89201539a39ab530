from __future__ import annotations

from pathlib import Path

import pytest

from gpsuite.bench import robustness


def test_every_search_is_next_to_the_paper_s_bound_and_the_floor() -> None:
    cases = robustness.cases()
    references = [case.reference.split(":")[0].split(",")[0] for case in cases]
    assert references.count("bound=paper") == 4  # one of several classes
    assert references.count("floor") == 6 + len(robustness.FRONTIER)
    assert references.count("the same mean and variance with a probit") == 1
    assert references.count("the searches for both ends") == 4
    assert all(case.goal == 0.01 for case in cases if case.reference.startswith("bound=paper"))
    assert len({(case.case, case.reference) for case in cases}) == len(cases)


def test_the_cases_do_what_they_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On Synthetic2D, with few points and a short limit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(robustness, "POINTS", 2)
    monkeypatch.setattr(robustness, "PAIRED", 1)
    monkeypatch.setattr(robustness, "LIMIT", 0.2)
    monkeypatch.setattr(robustness, "FRONTIER_POINTS", 1)
    monkeypatch.setattr(robustness, "EVALUATIONS", {"synthetic2d": 2, "mnist38": 2})
    for cached in (robustness._classifier, robustness._dataset):
        cached.cache_clear()
    for case in robustness.cases():
        if "synthetic2d" in case.case:
            ours, reference = case.prepare()
            searched = ours()
            product = reference()
            if "together" in case.case:
                assert isinstance(searched, list) and case.count is not None
                assert max(each.gap for each in searched) <= 0.02
                assert case.count(searched) == f"{sum(each.boxes for each in searched)} boxes"
                assert case.count(product).endswith("boxes") == case.reference.startswith("bound=paper")
    posterior, points = robustness._made_up("matern52", 2)
    regions = [robustness.linf_ball(point, 0.1) for point in points]  # type: ignore[attr-defined]
    making, checking = robustness._certificates("made up", lambda: (posterior, regions, 0.02))
    propose, search = making.prepare()
    check, _ = checking.prepare()
    (certificate,), (found,), (report,) = propose(), search(), check()
    assert [claim.sign for claim in certificate.claims] == [each.sign for each in found] == [-1, 1]
    assert report.confirmed and report.leaves >= 2
    ours, reference = robustness._frontier("matern52", 2, 0.1).prepare()
    reference()
    assert max(each.gap for each in ours()) <= 0.02  # type: ignore[attr-defined]
    for cached in (robustness._classifier, robustness._dataset):
        cached.cache_clear()
