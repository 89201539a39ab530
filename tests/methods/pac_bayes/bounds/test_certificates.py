"""PAC-Bayes certificates: bounds, their parts, and what is not certified."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import OBJECTIVES, BoundObjective, Terms, certify, penalty
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL


@given(risk=st.floats(0.0, 1.0), kl=st.floats(0.0, 1e6), n=st.integers(1, 10**6), t=st.integers(0, 30))
def test_bounds_are_above_the_risk_and_ordered(risk: float, kl: float, n: int, t: int) -> None:
    certificate = certify(RiskAndKL(risk, kl), Terms(n, t, 0.01))
    assert certificate.reason == ""
    assert risk <= certificate.bound_kl <= 1.0
    assert certificate.bound_kl <= certificate.bound_sqrt + 1e-15


def test_penalty_splits_into_its_three_parts() -> None:
    parts = penalty(3.0, Terms(404, 2, 0.01))
    assert parts.log_theta == pytest.approx(2.0 * math.log(1201.0))
    assert parts.confidence == pytest.approx(math.log(2.0 * math.sqrt(404) / 0.01))
    assert parts.per_point == pytest.approx((3.0 + parts.log_theta + parts.confidence) / 404)


@pytest.mark.parametrize("risk", [0.2, -0.1, math.nan, math.inf])
@pytest.mark.parametrize("kl", [5.0, -1.0, math.nan, math.inf])
def test_what_cannot_be_certified_gives_the_trivial_bound(risk: float, kl: float) -> None:
    certificate = certify(RiskAndKL(risk, kl), Terms(100, 2, 0.01))
    if (risk, kl) == (0.2, 5.0):
        assert certificate.bound_kl < 1.0
        return
    assert certificate.bound_kl == certificate.bound_sqrt == 1.0
    assert certificate.reason.startswith("trivial bound 1")
    assert not math.isnan(certificate.gibbs_risk + certificate.penalty.total)


@pytest.mark.parametrize(("n", "t", "delta"), [(0, 2, 0.01), (10, -1, 0.01), (10, 2, 0.0), (10, 2, 1.0)])
def test_rejects_impossible_settings(n: int, t: int, delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        certify(RiskAndKL(0.1, 1.0), Terms(n, t, delta))


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_objective_gradient_agrees_with_differences(name: str) -> None:
    bound = BoundObjective(name, Terms(100, 2, 0.01))
    _, d_risk, d_kl = bound.value_and_gradient(0.1, 7.0)
    weights, steps = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0, np.array([-2.0, -1.0, 1.0, 2.0])
    in_risk = [bound.value_and_gradient(0.1 + 1e-3 * s, 7.0)[0] for s in steps]
    in_kl = [bound.value_and_gradient(0.1, 7.0 + 1e-2 * s)[0] for s in steps]
    assert weights @ in_risk / 1e-3 == pytest.approx(d_risk, rel=1e-8)
    assert weights @ in_kl / 1e-2 == pytest.approx(d_kl, rel=1e-8)


def test_zero_risk_has_a_finite_gradient() -> None:
    _, d_risk, d_kl = BoundObjective("kl", Terms(100, 2, 0.01)).value_and_gradient(0.0, 7.0)
    assert d_risk == 0.0
    assert 0.0 < d_kl < 1.0


def test_unknown_objective_names_the_valid_ones() -> None:
    with pytest.raises(UserError, match="sqrt"):
        BoundObjective("sqr", Terms(100, 2, 0.01))


@given(risk=st.floats(0.0, 1.0), kl=st.floats(0.0, 1e6), n=st.integers(1, 10**6), size=st.integers(1, 10**6))
def test_a_choice_on_the_data_costs_the_logarithm_of_its_grid(risk: float, kl: float, n: int, size: int) -> None:
    fixed, chosen = (
        certify(RiskAndKL(risk, kl), Terms(n, 2, 0.01)),
        certify(RiskAndKL(risk, kl), Terms(n, 2, 0.01, n_settings=size)),
    )
    assert fixed.penalty.log_settings == 0.0
    assert chosen.penalty.log_settings == math.log(size)
    # the union bound: every member of the grid at confidence delta/size
    split = certify(RiskAndKL(risk, kl), Terms(n, 2, 0.01 / size))
    assert chosen.penalty.total == pytest.approx(split.penalty.total, rel=1e-14)
    assert chosen.bound_kl == pytest.approx(split.bound_kl, rel=1e-12)
    assert chosen.bound_kl >= fixed.bound_kl - 1e-15
    assert chosen.lower_kl <= fixed.lower_kl + 1e-15


@given(risk=st.floats(0.0, 1.0), kl=st.floats(0.0, 1e4), n=st.integers(1, 10**6))
def test_two_sided_certificate_encloses_the_training_risk(risk: float, kl: float, n: int) -> None:
    certificate = certify(RiskAndKL(risk, kl), Terms(n, 2, 0.01))
    assert 0.0 <= certificate.lower_kl <= risk <= certificate.bound_kl <= 1.0
    assert certificate.bound_bayes == min(1.0, 2.0 * certificate.bound_kl)
    assert certificate.lower_kl >= risk - math.sqrt(certificate.penalty.per_point / 2.0) - 1e-15


def test_trivial_certificate_has_trivial_sides() -> None:
    certificate = certify(RiskAndKL(math.nan, 5.0), Terms(100, 2, 0.01, n_settings=7))
    assert (certificate.lower_kl, certificate.bound_bayes) == (0.0, 1.0)
    assert certificate.penalty.log_settings == math.log(7)


def test_catoni_pays_less_for_confidence_and_takes_its_constant() -> None:
    bound = BoundObjective("catoni", Terms(100, 2, 0.01, n_settings=5), catoni_constant=2.0)
    parts = bound.penalty(7.0)
    assert parts.confidence == pytest.approx(math.log(100.0))
    assert parts.log_settings == math.log(5.0)
    value, d_risk, d_kl = bound.value_and_gradient(0.1, 7.0)
    expected = (1.0 - math.exp(-0.2 - parts.per_point)) / (1.0 - math.exp(-2.0))
    assert value == pytest.approx(expected, rel=1e-14)
    assert d_kl * 100 * 2.0 == pytest.approx(d_risk, rel=1e-14)
    assert BoundObjective("kl", Terms(100, 2, 0.01, n_settings=5)).penalty(7.0).log_settings == math.log(5.0)


def test_rejects_an_empty_grid_and_an_impossible_constant() -> None:
    with pytest.raises(ValueError, match="n_settings"):
        certify(RiskAndKL(0.1, 1.0), Terms(10, 2, 0.01, n_settings=0))
    with pytest.raises(ValueError, match="n_settings"):
        BoundObjective("kl", Terms(10, 2, 0.01, n_settings=0))
    with pytest.raises(ValueError, match="Catoni"):
        BoundObjective("catoni", Terms(10, 2, 0.01), catoni_constant=0.0)


@pytest.mark.guarantee
def test_both_sides_and_every_relaxation_hold_on_simulated_losses() -> None:
    # a fixed predictor: KL = 0; the allowed share of failures is 5 %, the observed one far below
    rng, n, delta = np.random.default_rng(8), 60, 0.05
    failures = dict.fromkeys(["two sided", *OBJECTIVES], 0)
    for risk in (0.02, 0.3, 0.8):
        for count in rng.binomial(n, risk, 300):
            certificate = certify(RiskAndKL(count / n, 0.0), Terms(n, 0, delta))
            failures["two sided"] += not certificate.lower_kl <= risk <= certificate.bound_kl
            for name in OBJECTIVES:
                value, _, _ = BoundObjective(name, Terms(n, 0, delta)).value_and_gradient(count / n, 0.0)
                failures[name] += value < risk
    assert max(failures.values()) <= delta * 900


@pytest.mark.parametrize("rounding", [RiskAndKL(math.nan, 0.0), RiskAndKL(0.0, math.nan), RiskAndKL(0.0, math.inf)])
def test_rounding_that_is_not_known_gives_the_trivial_bound(rounding: RiskAndKL) -> None:
    found = certify(RiskAndKL(0.1, 1.0), Terms(100, 2, 0.05), rounding)
    assert found.bound_kl == 1.0
    assert "not known" in found.reason
