"""The checker confirms what is true, refutes what was tampered with, and shares no code with the search."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.methods.robustness import plain_bound
from gpsuite.methods.robustness.certificate import Certificate, StoredRegion, model_hash
from gpsuite.methods.robustness.certify import plain_model
from gpsuite.methods.robustness.checker import Refuted, check_certificate, rebuild_boxes, shrink_to_ball
from gpsuite.methods.robustness.plain_bound import PlainBound
from gpsuite.methods.robustness.regions import l1_ball, l2_ball
from tests.methods.robustness.certified_point import (
    certified,
    changed,
    small_certificate,
    with_claim,
    worst_leaf,
)
from tests.methods.robustness.made_up_posteriors import random_boxes, random_posterior

KERNELS = ("squared_exponential", "matern32", "matern52")


def test_the_checker_imports_nothing_of_the_search() -> None:
    code = (
        "import sys, gpsuite.methods.robustness.checker\n"
        "print(sorted(name for name in sys.modules if name.startswith('gpsuite.')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in eval(ended.stdout) if name.startswith("gpsuite.methods.robustness.")]
    assert loaded == [
        f"gpsuite.methods.robustness.{name}" for name in ("certificate", "checker", "plain_bound")
    ]
    assert "gpsuite.models" not in ended.stdout


@pytest.mark.parametrize("norm", ["box", "l2", "l1"])
@pytest.mark.parametrize(
    ("kernel", "link"),
    [
        ("squared_exponential", "probit"),
        ("squared_exponential", "logistic"),
        ("matern52", "probit"),
        ("matern32", "logistic"),
    ],
)
def test_a_true_certificate_is_confirmed(kernel: str, link: str, norm: str) -> None:
    radius = 0.1 if kernel == "matern32" else 0.25
    posterior, region, found, certificate = certified(kernel, link, norm, radius)
    report = check_certificate(certificate)
    assert report.problems == ()
    assert report.boxes > 0
    low, high = certificate.claims
    probability = posterior.probability(
        region.embed(region.project(np.random.default_rng(0).uniform(-2, 2, (500, 2))))
    )
    assert low.outer <= probability.min() and probability.max() <= high.outer
    assert low.outer >= found.minimum.outer - 0.0101 and high.outer <= found.maximum.outer + 0.0101


def improve_a_leaf(c: Certificate) -> Certificate:
    claim, at = c.claims[1], worst_leaf(c.claims[1])
    bound = claim.leaf_bound[at]
    return with_claim(c, 1, leaf_bound=changed(claim.leaf_bound, at, bound - 0.01 * abs(bound)))


def improve_any_leaf(c: Certificate) -> Certificate:
    claim = c.claims[0]
    best = int(np.argmin(claim.sign * claim.leaf_bound))
    bound = claim.leaf_bound[best]
    return with_claim(c, 0, leaf_bound=changed(claim.leaf_bound, best, bound + 0.01 * abs(bound)))


def move_a_cut(c: Certificate) -> Certificate:
    claim = c.claims[0]
    return with_claim(c, 0, cut=changed(claim.cut, [1, 2], claim.cut[1] + 0.05))


def move_a_cut_of_one_sibling(c: Certificate) -> Certificate:
    return with_claim(c, 0, cut=changed(c.claims[0].cut, 1, c.claims[0].cut[1] - 1e-3))


def cut_outside(c: Certificate) -> Certificate:
    return with_claim(c, 0, cut=changed(c.claims[0].cut, [1, 2], 99.0))


def drop_a_leaf(c: Certificate) -> Certificate:
    names = ("leaf", "leaf_bound", "leaf_proved", "leaf_degree")
    at = worst_leaf(c.claims[1])
    return with_claim(c, 1, **{name: np.delete(getattr(c.claims[1], name), at) for name in names})


def drop_two_nodes(c: Certificate) -> Certificate:
    return with_claim(c, 0, **{name: getattr(c.claims[0], name)[2:] for name in ("parent", "dim", "cut")})


def cite_a_stranger(c: Certificate) -> Certificate:
    claim = c.claims[0]
    easiest = claim.leaf_proved[int(np.argmin(claim.sign * claim.leaf_bound))]
    at = worst_leaf(claim)
    return with_claim(c, 0, leaf_proved=changed(claim.leaf_proved, at, easiest))


def alter_alpha(c: Certificate) -> Certificate:
    alpha = changed(c.model.alpha, 3, c.model.alpha[3] + 1e-9)
    return dataclasses.replace(c, model=dataclasses.replace(c.model, alpha=alpha))


def alter_alpha_and_hash(c: Certificate) -> Certificate:
    alpha = changed(c.model.alpha, int(np.argmax(np.abs(c.model.alpha))), 0.0)
    model = dataclasses.replace(c.model, alpha=alpha)
    return dataclasses.replace(c, model=model, model_hash=model_hash(model))


def shrink_the_lengthscales(c: Certificate) -> Certificate:
    model = dataclasses.replace(c.model, lengthscales=0.9 * c.model.lengthscales)
    return dataclasses.replace(c, model=model, model_hash=model_hash(model))


def move_the_witness_out(c: Certificate) -> Certificate:
    outside = np.nextafter(c.region.upper[0], np.inf)
    return with_claim(c, 0, witness=changed(c.claims[0].witness, 0, outside))


def move_the_witness(c: Certificate) -> Certificate:
    return with_claim(c, 0, witness=0.5 * (c.region.lower + c.region.upper))


def claim_more_attained(c: Certificate) -> Certificate:
    return with_claim(c, 0, inner=c.claims[0].inner - 1e-4)


def claim_a_better_bound(c: Certificate) -> Certificate:
    return with_claim(c, 1, outer=c.claims[1].outer - 1e-6)


def claim_nan(c: Certificate) -> Certificate:
    return with_claim(c, 1, outer=np.nan)


def state_nan(c: Certificate) -> Certificate:
    return with_claim(c, 1, leaf_bound=changed(c.claims[1].leaf_bound, 0, np.nan))


def widen_the_region(c: Certificate) -> Certificate:
    return dataclasses.replace(c, region=dataclasses.replace(c.region, upper=c.region.upper + 0.05))


def state_another_degree(c: Certificate) -> Certificate:
    return with_claim(c, 1, leaf_degree=changed(c.claims[1].leaf_degree, 0, 2))


MUTATIONS: list[tuple[Callable[[Certificate], Certificate], str]] = [
    (improve_a_leaf, "recomputed"),
    (improve_any_leaf, "recomputed"),
    (move_a_cut, "recomputed"),
    (move_a_cut_of_one_sibling, "siblings"),
    (cut_outside, "outside its box"),
    (drop_a_leaf, "leaves listed"),
    (drop_two_nodes, "root"),
    (cite_a_stranger, "does not contain"),
    (alter_alpha, "SHA-256"),
    (alter_alpha_and_hash, "recomputed"),
    (shrink_the_lengthscales, "recomputed"),
    (move_the_witness_out, "not in the region"),
    (move_the_witness, "attains"),
    (claim_more_attained, "attains"),
    (claim_a_better_bound, "leaves prove"),
    (claim_nan, "leaves prove"),
    (state_nan, "or none"),
    (widen_the_region, "recomputed"),
    (state_another_degree, "degree"),
]


@pytest.mark.parametrize(("mutate", "words"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_mutated_certificate_is_refuted(mutate: Callable[[Certificate], Certificate], words: str) -> None:
    original = small_certificate()
    assert len(original.claims[0].parent) > 3
    assert check_certificate(original).confirmed
    report = check_certificate(mutate(original))
    assert not report.confirmed
    assert words in report.problems[0]


def test_every_leaf_is_held_to_its_bound() -> None:
    original = small_certificate()
    for at, bound in enumerate(original.claims[1].leaf_bound):
        better = changed(original.claims[1].leaf_bound, at, bound - 0.01 * abs(bound))
        assert not check_certificate(with_claim(original, 1, leaf_bound=better)).confirmed


@pytest.mark.parametrize("build", [l1_ball, l2_ball])
def test_the_witness_must_lie_in_the_ball_exactly(build) -> None:
    certificate = certified(norm="l1" if build is l1_ball else "l2", radius=0.25)[3]
    assert check_certificate(certificate).confirmed
    corner = np.array([0.2, 0.1]) + 0.2
    report = check_certificate(with_claim(certificate, 0, witness=corner))
    assert "not in the region" in report.problems[0]


def test_rebuilding_refuses_what_is_no_tree() -> None:
    region = StoredRegion(np.zeros(2), np.arange(2), -np.ones(2), np.ones(2), "box", np.inf)
    lo, hi = rebuild_boxes(
        region, np.array([-1, 0, 0, 2, 2]), np.array([-1, 0, 0, 1, 1]), np.array([0, 0.5, 0.5, 0, 0])
    )
    np.testing.assert_array_equal(lo[1:], [[-1, -1], [0.5, -1], [0.5, -1], [0.5, 0]])
    np.testing.assert_array_equal(hi[1:], [[0.5, 1], [1, 1], [1, 0], [1, 1]])
    zeros = np.zeros(5)
    for parent, dim in (
        ([-1, 0, 0, 0, 0], [-1, 0, 0, 1, 1]),
        ([-1, 0, 0, 4, 4], [-1, 0, 0, 1, 1]),
        ([-1, 0, 0, 1, 1], [-1, 0, 0, 2, 2]),
        ([0, 0, 0, 1, 1], [-1, 0, 0, 1, 1]),
    ):
        with pytest.raises(Refuted):
            rebuild_boxes(region, np.array(parent), np.array(dim), zeros)


def test_the_checkers_contraction_loses_no_point() -> None:
    rng = np.random.default_rng(0)
    for build in (l1_ball, l2_ball):
        ball = build(rng.normal(size=3), 0.8)
        stored = StoredRegion(ball.centre, ball.free, ball.lower, ball.upper, ball.norm, ball.radius)
        for point in ball.project(ball.start + rng.normal(size=(300, 3))):
            half = rng.uniform(0, 0.6, 3)
            lo, hi = point - half * rng.random(3), point + half * rng.random(3)
            low, high, meets = shrink_to_ball(stored, lo, hi)
            assert meets and (low <= point).all() and (point <= high).all()
        assert not shrink_to_ball(stored, ball.start + 0.79, ball.start + 0.9)[2]


def violations(
    seed: int, kernel: str, link: str, models: int, boxes: int, points: int, extended: int = 400
) -> int:
    """Count points beyond the plain bound for random models, boxes and points."""
    usual = plain_bound.EXTENDED
    rng, bad = np.random.default_rng(seed), 0
    for _ in range(models):
        inputs = int(rng.integers(1, 5))
        posterior = random_posterior(
            rng, kernel, link, int(rng.integers(2, 16)), inputs, bool(rng.random() < 0.3)
        )
        x0 = rng.standard_normal(inputs)
        free = np.sort(rng.choice(inputs, int(rng.integers(1, inputs + 1)), replace=False))
        exact = PlainBound(plain_model(posterior), x0, free)
        plain_bound.EXTENDED = extended
        plain = PlainBound(plain_model(posterior), x0, free)
        plain_bound.EXTENDED = usual
        for lo, hi in zip(*random_boxes(rng, posterior, x0, free, boxes), strict=True):
            low, high = plain.bounds(lo, hi)
            share = rng.random((points, len(free)))
            share[points // 2 :] = np.round(share[points // 2 :])
            for point in lo + share * (hi - lo):
                score = exact.value(np.clip(point, lo, hi))
                bad += not low <= score <= high
    return bad


@pytest.mark.parametrize("link", ["probit", "logistic"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_plain_bound_is_sound(kernel: str, link: str) -> None:
    assert violations(1, kernel, link, models=5, boxes=12, points=10) == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_plain_bound_of_many_data_in_double_precision_is_sound(kernel: str) -> None:
    assert violations(4, kernel, "probit", models=8, boxes=12, points=10, extended=0) == 0


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_a_wrong_tail_would_be_noticed(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain_bound._tail
    monkeypatch.setattr(plain_bound, "_tail", lambda name, r: whole(name, r) / 16)
    assert violations(1, kernel, "probit", models=20, boxes=12, points=10) > 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_tail_is_an_upper_bound_and_small(kernel: str) -> None:
    lam = plain_bound.Long(plain_bound.CURVATURE[kernel])
    for r in np.geomspace(1e-3, 10, 200).astype(plain_bound.Long):
        kappa, psi = plain_bound._kappa(kernel, r), plain_bound._psi(kernel, r)
        slope = -(plain_bound._kappa(kernel, r * 1.0001) - plain_bound._kappa(kernel, r * 0.9999)) / (
            2e-4 * r
        )
        assert float(psi * r * np.sqrt(lam)) == pytest.approx(float(slope), rel=1e-5)
        exact = 1 - kappa**2 - (r * psi) ** 2
        assert exact <= plain_bound._tail(kernel, r) <= 1
        if r < 0.1:
            assert plain_bound._tail(kernel, r) <= 1.7 * exact + 1e-17


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("link", ["probit", "logistic"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_plain_bound_is_sound_many_times(kernel: str, link: str) -> None:
    assert violations(2, kernel, link, models=150, boxes=24, points=20) == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_plain_value_is_the_posteriors_score(kernel: str) -> None:
    rng = np.random.default_rng(3)
    for link in ("probit", "logistic", "squeezed_probit"):
        posterior = random_posterior(rng, kernel, link, 12, 3)
        x0 = rng.standard_normal(3)
        plain = PlainBound(plain_model(posterior), x0, np.array([0, 2]))
        x = x0 + np.array([0.3, 0.0, -0.2])
        low, high = plain.probability(plain.value(x[[0, 2]]))
        assert low - 1e-9 <= posterior.probability(x[None])[0] <= high + 1e-9
