import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.certificates import OBJECTIVES, BoundObjective, certify, penalty


@given(risk=st.floats(0.0, 1.0), kl=st.floats(0.0, 1e6), n=st.integers(1, 10**6), t=st.integers(0, 30))
def test_bounds_are_above_the_risk_and_ordered(risk: float, kl: float, n: int, t: int) -> None:
    certificate = certify(risk, kl, n, t, 0.01)
    assert certificate.reason == ""
    assert risk <= certificate.bound_kl <= 1.0
    assert certificate.bound_kl <= certificate.bound_sqrt + 1e-15


def test_penalty_splits_into_its_three_parts() -> None:
    parts = penalty(3.0, 404, 2, 0.01)
    assert parts.log_theta == pytest.approx(2.0 * math.log(1201.0))
    assert parts.confidence == pytest.approx(math.log(2.0 * math.sqrt(404) / 0.01))
    assert parts.per_point == pytest.approx((3.0 + parts.log_theta + parts.confidence) / 404)


@pytest.mark.parametrize("risk", [0.2, -0.1, math.nan, math.inf])
@pytest.mark.parametrize("kl", [5.0, -1.0, math.nan, math.inf])
def test_what_cannot_be_certified_gives_the_trivial_bound(risk: float, kl: float) -> None:
    certificate = certify(risk, kl, 100, 2, 0.01)
    if (risk, kl) == (0.2, 5.0):
        assert certificate.bound_kl < 1.0
        return
    assert certificate.bound_kl == certificate.bound_sqrt == 1.0
    assert certificate.reason.startswith("trivial bound 1")
    assert not math.isnan(certificate.gibbs_risk + certificate.penalty.total)


@pytest.mark.parametrize(("n", "t", "delta"), [(0, 2, 0.01), (10, -1, 0.01), (10, 2, 0.0), (10, 2, 1.0)])
def test_rejects_impossible_settings(n: int, t: int, delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        certify(0.1, 1.0, n, t, delta)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_objective_gradient_agrees_with_differences(name: str) -> None:
    bound = BoundObjective(name, 100, 2, 0.01)
    _, d_risk, d_kl = bound.value_and_gradient(0.1, 7.0)
    weights, steps = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0, np.array([-2.0, -1.0, 1.0, 2.0])
    in_risk = [bound.value_and_gradient(0.1 + 1e-3 * s, 7.0)[0] for s in steps]
    in_kl = [bound.value_and_gradient(0.1, 7.0 + 1e-2 * s)[0] for s in steps]
    assert weights @ in_risk / 1e-3 == pytest.approx(d_risk, rel=1e-8)
    assert weights @ in_kl / 1e-2 == pytest.approx(d_kl, rel=1e-8)


def test_zero_risk_has_a_finite_gradient() -> None:
    _, d_risk, d_kl = BoundObjective("kl", 100, 2, 0.01).value_and_gradient(0.0, 7.0)
    assert d_risk == 0.0
    assert 0.0 < d_kl < 1.0


def test_unknown_objective_names_the_valid_ones() -> None:
    with pytest.raises(UserError, match="sqrt"):
        BoundObjective("sqr", 100, 2, 0.01)
