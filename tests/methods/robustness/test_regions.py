from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.errors import UserError
from gpsuite.methods.robustness.regions import Region, box, interval_box, l1_ball, l2_ball, linf_ball

BALLS = {"l1": l1_ball, "l2": l2_ball}
SEEDS = st.integers(0, 10_000)


def random_ball(norm: str, rng: np.random.Generator) -> Region:
    inputs = int(rng.integers(1, 6))
    free = np.sort(rng.choice(inputs, size=int(rng.integers(1, inputs + 1)), replace=False))
    centre = rng.uniform(0, 1, inputs)
    domain = (0.0, 1.0) if rng.random() < 0.5 else None
    return BALLS[norm](centre, 10.0 ** rng.uniform(-6, 0.5), [int(i) for i in free], domain)


def size(region: Region, points: np.ndarray) -> np.ndarray:
    steps = (points - region.start).astype(np.longdouble)
    return np.abs(steps).sum(-1) if region.norm == "l1" else np.sqrt((steps**2).sum(-1))


def test_a_box_with_zero_radii_fixes_inputs() -> None:
    region = box([0.5, 0.2, 0.9], [0.1, 0.0, 0.3], domain=(0, 1))
    assert region.free.tolist() == [0, 2]
    np.testing.assert_allclose(region.lower, [0.4, 0.6])
    assert region.upper[1] == 1.0
    np.testing.assert_array_equal(region.embed(np.array([[0.45, 0.7]])), [[0.45, 0.2, 0.7]])


def test_a_point_is_a_region() -> None:
    region = box([0.5, 0.2], 0.0)
    assert region.free.tolist() == [0]
    assert region.contains(region.start[None])[0]
    assert not region.contains(region.start[None] + 1e-12)[0]


def test_a_one_sided_interval_is_clamped() -> None:
    region = interval_box([0.1, 0.5], [-0.4, 0.5], [0.1, 0.5], domain=(0, 1))
    assert (region.lower[0], region.upper[0]) == (0.0, 0.1)


def test_chosen_free_inputs_are_sorted() -> None:
    assert linf_ball([0, 0, 0], 1, free=[2, 0]).free.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: box([0.5], -0.1), "radius"),
        (lambda: box([0.5, 0.5], [0.1, np.nan]), "radius"),
        (lambda: box([0.5, 0.5], [0.1, 0.1, 0.1]), "shape"),
        (lambda: l2_ball([0.5], -1.0), "radius=-1"),
        (lambda: l1_ball([0.5], np.inf), "radius=inf"),
        (lambda: linf_ball([0.5], 0.1, free=[1]), "free inputs"),
        (lambda: linf_ball([0.5, 0.1], 0.1, free=[0, 0]), "free inputs"),
        (lambda: linf_ball([0.5], 0.1, free=[]), "free inputs"),
        (lambda: linf_ball([1.5], 0.1, domain=(0, 1)), "outside its domain"),
        (lambda: linf_ball([np.nan], 0.1), "finite"),
        (lambda: interval_box([0.5], [0.6], [0.7]), "between"),
        (lambda: interval_box([0.5], [-np.inf], [0.7]), "finite"),
    ],
)
def test_mistakes_are_named(build, words: str) -> None:
    with pytest.raises(UserError, match=words):
        build()


@pytest.mark.parametrize("norm", BALLS)
@given(seed=SEEDS)
def test_projection_lands_in_the_ball_and_is_the_nearest_point(norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    region = random_ball(norm, rng)
    away = region.start + region.radius * rng.normal(scale=2, size=(8, len(region.free)))
    nearest = region.project(away)
    assert region.contains(nearest).all()
    assert (size(region, nearest) <= region.radius).all()
    # (z - p)'(q - p) <= 0 for every q of a convex set characterises the projection p of z
    others = region.project(region.start + region.radius * rng.normal(size=(50, len(region.free))))
    angle = np.einsum("bd,bkd->bk", away - nearest, others[None] - nearest[:, None])
    assert angle.max() <= 1e-6 * region.radius**2


@pytest.mark.parametrize("norm", BALLS)
@given(seed=SEEDS)
def test_contraction_loses_no_point_of_the_ball(norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    region = random_ball(norm, rng)
    d = len(region.free)
    points = region.project(region.start + region.radius * rng.normal(size=(40, d)))
    half = region.radius * rng.uniform(0, 0.7, size=(40, d)) * (rng.random((40, d)) < 0.8)
    shift = rng.uniform(-1, 1, size=(40, d)) * half
    lo = np.maximum(points + shift - half, region.lower)
    hi = np.minimum(points + shift + half, region.upper)
    lo, hi = np.minimum(lo, points), np.maximum(hi, points)
    small, large, meets = region.contract(lo, hi)
    assert meets.all()
    assert ((small <= points) & (points <= large)).all()
    assert ((small >= lo) & (large <= hi)).all()


@pytest.mark.parametrize("norm", BALLS)
def test_contraction_is_tight_and_drops_corners(norm: str) -> None:
    region = BALLS[norm]([0.0, 0.0], 1.0)
    lo, hi = np.array([[0.5, -1.0], [0.9, 0.9]]), np.array([[1.0, 1.0], [1.0, 1.0]])
    small, large, meets = region.contract(lo, hi)
    assert meets.tolist() == [True, False]
    reach = 0.5 if norm == "l1" else np.sqrt(0.75)
    np.testing.assert_allclose([small[0], large[0]], [[0.5, -reach], [1.0, reach]], rtol=1e-12)


def test_a_point_on_the_rim_is_inside_only_if_surely_so() -> None:
    region = l2_ball([0.0, 0.0], 1.0)
    assert not region.contains(np.array([[np.sqrt(0.5) + 1e-15, np.sqrt(0.5)]]))[0]
    assert region.contains(np.array([[0.6, 0.79999]]))[0]
    assert not region.contains(np.array([[np.nan, 0.0]]))[0]
