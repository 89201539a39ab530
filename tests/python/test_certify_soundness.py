"""What `gpsuite.certify` proves is compared with the predictions of the library that trained the model.

The rules of what counts as outside stand in `given_problems`. The thousand problems print a table by model and kernel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpsuite
from gpsuite.errors import UserError
from gpsuite.models.classification.links import LOGISTIC, PROBIT
from gpsuite.models.given.given import GivenModel
from gpsuite.python import certification
from gpsuite.python.models import given_model
from tests.python.given_problems import COMPOSITE_KINDS, COMPOSITES, FORMS, KERNELS, KINDS, Problem, drawn, faults

THOUSAND, SECONDS = 1005, 1.0
COMPOSITE_SEEDS = range(100, 110)


def judged(problem: Problem, seed: int) -> tuple[Any, list[str]]:
    found = gpsuite.certify(problem.model, problem.x, radius=problem.radius, seconds=SECONDS)
    return found, faults(problem, found, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_no_prediction_is_outside(kind: str) -> None:
    for seed, kernel in enumerate(KERNELS):
        form = FORMS[(seed + list(KINDS).index(kind)) % len(FORMS)]
        found, told = judged(drawn(kind, kernel, form, seed), seed)
        assert not told
        assert found.agreement < 1e-8


@pytest.mark.slow
def test_none_of_a_thousand_problems_is_outside() -> None:
    counts: Counter[tuple[str, ...]] = Counter()
    told: list[str] = []
    for number in range(THOUSAND):
        kind, seed = list(KINDS)[number % len(KINDS)], 100 + number // len(KINDS)
        problem = drawn(kind, KERNELS[seed % 3], FORMS[seed % 5], seed)
        found, faulty = judged(problem, seed)
        told += faulty
        counts[kind, KERNELS[seed % 3], "problems"] += 1
        counts[kind, KERNELS[seed % 3], found.verdict] += 1
        counts[kind, KERNELS[seed % 3], "outside"] += len(faulty)
        print(number, problem.name, found, faulty, flush=True)
    for kind in KINDS:
        for kernel in KERNELS:
            columns = ("problems", "safe", "unsafe", "not decided", "range", "outside")
            print(kind, kernel, *(f"{name} {counts[kind, kernel, name]}" for name in columns))
    assert not told


@pytest.mark.parametrize("kind", [*COMPOSITE_KINDS, "sklearn_three"])
def test_no_prediction_is_outside_with_sums_and_products(kind: str) -> None:
    place = [*COMPOSITE_KINDS, "sklearn_three"].index(kind)
    for seed in (place, place + 1):
        found, told = judged(drawn(kind, COMPOSITES[seed % len(COMPOSITES)], "plain", seed), seed)
        assert not told
        assert found.agreement < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("kernel", COMPOSITES)
@pytest.mark.parametrize("kind", COMPOSITE_KINDS)
def test_none_of_many_sums_and_products_is_outside(kind: str, kernel: str) -> None:
    counts: Counter[str] = Counter()
    for seed in COMPOSITE_SEEDS:
        found, told = judged(drawn(kind, kernel, "plain", seed), seed)
        counts[found.verdict] += 1
        counts["outside"] += len(told)
    print(kind, kernel, dict(counts), flush=True)
    assert not counts["outside"]


def forgotten_mean(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, offset=0.0))


def forgotten_target_mean(given: Any) -> Any:
    return replace(given, offset=0.0)


def forgotten_noise(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, spread=0.0))


def wrong_lengthscales(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, lengthscales=1.3 * given.posterior.lengthscales))


def wrong_variance(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, variance=1.2 * given.posterior.variance))


def no_squeeze(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, link=PROBIT))


def other_link(given: Any) -> Any:
    return replace(given, posterior=replace(given.posterior, link=LOGISTIC))


def forgotten_term(given: Any) -> Any:
    kernel = replace(given.posterior.kernel, terms=given.posterior.kernel.terms[:1])
    return replace(given, posterior=replace(given.posterior, kernel=kernel))


def wrong_weights(given: Any) -> Any:
    (one, f), (two, g) = given.posterior.kernel.terms
    kernel = replace(given.posterior.kernel, terms=((0.5 * one, f), (two + 0.5 * one, g)))
    return replace(given, posterior=replace(given.posterior, kernel=kernel))


PLANTED = [
    ("svgp_probit", "mean", forgotten_mean),
    ("gpr", "mean", forgotten_target_mean),
    ("vgp_logit", "white", forgotten_noise),
    ("svgp_logit", "ard", wrong_lengthscales),
    ("sgpr", "constant", wrong_variance),
    ("vgp_probit", "plain", no_squeeze),
    ("svgp_probit", "plain", other_link),
]


@pytest.mark.parametrize(("kind", "form", "fault"), PLANTED, ids=[fault.__name__ for *_, fault in PLANTED])
def test_a_planted_fault_is_seen(kind: str, form: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certification, "given_model", lambda model: fault(given_model(model)))
    monkeypatch.setattr(certification, "AGREEMENT", np.inf)
    told = [judged(drawn(kind, kernel, form, seed), seed)[1] for seed in range(2) for kernel in KERNELS]
    assert any(told)


@pytest.mark.parametrize("fault", [forgotten_term, wrong_weights])
@pytest.mark.parametrize("kind", ["gpr", "sklearn_two"])
def test_a_fault_planted_in_a_sum_is_seen(kind: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certification, "given_model", lambda model: fault(given_model(model)))
    problem = drawn(kind, "rbf_matern", "plain", 1)
    with pytest.raises(UserError, match="differs from the model's own"):
        gpsuite.certify(problem.model, problem.x, radius=problem.radius, seconds=SECONDS)
    monkeypatch.setattr(certification, "AGREEMENT", np.inf)
    assert any(judged(drawn(kind, "rbf_matern", "plain", seed), seed)[1] for seed in range(6))


def test_a_scaler_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    in_units = GivenModel.in_units
    monkeypatch.setattr(certification, "AGREEMENT", np.inf)
    monkeypatch.setattr(GivenModel, "in_units", lambda given, s, m: in_units(given, 1.1 * s, m))
    assert any(judged(drawn("pipeline_two", kernel, "plain", 3), 3)[1] for kernel in KERNELS)


@pytest.mark.parametrize(
    ("kind", "form", "fault"), PLANTED[:1] + PLANTED[2:5], ids=[each[2].__name__ for each in PLANTED[:1] + PLANTED[2:5]]
)
def test_a_wrong_posterior_is_refused_at_run_time(
    kind: str, form: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certification, "given_model", lambda model: fault(given_model(model)))
    problem = drawn(kind, "matern52", form, 1)
    with pytest.raises(UserError, match="differs from the model's own"):
        gpsuite.certify(problem.model, problem.x, radius=problem.radius, seconds=SECONDS)
