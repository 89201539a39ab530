"""Every relative slack goes outwards: with larger constants no bound becomes tighter, and some become looser."""

from __future__ import annotations

import pkgutil
import sys
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpsuite.methods import robustness
from gpsuite.methods.robustness.envelope import envelope_mean
from gpsuite.methods.robustness.level_bound import matern
from gpsuite.methods.robustness.level_bound.cubic import Cubic
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.operators import operator_form, operator_range
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.rounding import UNIT
from gpsuite.models.classification.approximation import GPCPosterior
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import KERNELS, Exact, random_posterior

SMALL, LARGE = 1e-9, 1e-4


def set_constant(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """Set a rounding constant wherever the room's modules import it."""
    for found in pkgutil.walk_packages(robustness.__path__, f"{robustness.__name__}."):
        module = sys.modules.get(found.name)
        if module is not None and hasattr(module, name) and module.__name__ != f"{robustness.__name__}.rounding":
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(import_module(f"{robustness.__name__}.rounding"), name, value)


def ends(bound: Any) -> tuple[Array, Array]:
    """Return the lower and the upper ends of a box bound, [5, B] or fewer each."""
    names = [name for name in ("", "mean_", "variance_") if getattr(bound, f"{name}low", None) is not None]
    return tuple(np.array([getattr(bound, f"{name}{side}") for name in names]) for side in ("low", "high"))  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "kernel"), [*product(["SHORT_SUM", "TAIL"], KERNELS), ("SHORT_SUM", "paper")])
def test_larger_slacks_give_looser_bounds(monkeypatch: pytest.MonkeyPatch, kernel: str, name: str) -> None:
    rng = np.random.default_rng(31)
    form = "squared_exponential" if kernel == "paper" else kernel
    posterior = random_posterior(rng, form, "probit", 10, 2)
    centre = posterior.X[:4] + 0.2 * posterior.lengthscales
    half = np.array([0.0, 0.02, 0.3, 3.0])[:, None] * posterior.lengthscales
    found = []
    for value in (SMALL, LARGE):
        set_constant(monkeypatch, name, value)
        make = paper_bound if kernel == "paper" else level_bound
        found.append(ends(make(replace(posterior), posterior.X[0], np.arange(2)).bounds(centre - half, centre + half)))
    (low, high), (lower, higher) = found
    assert np.all(lower <= low) and np.all(high <= higher)
    assert np.any(lower < low) and np.any(high < higher)


def far_apart(n: int, inputs: int) -> GPCPosterior:
    """Return n equal data of that many inputs with F = (1, ..., 1), c = 1: the operator's largest value is 1 + n^2."""
    made_up = random_posterior(np.random.default_rng(0), "matern52", "probit", n, 1)
    return replace(
        made_up, X=np.zeros((n, inputs)), lengthscales=np.ones(inputs), variance=1.0, root=np.ones((1, n)),
        weights=np.ones(1), alpha=np.ones(n),
    )  # fmt: skip


@pytest.mark.parametrize(("n", "inputs"), [(2, 1), (2, 784), (200, 1)])
def test_the_operators_range_allows_for_every_datum_and_input(n: int, inputs: int) -> None:
    """An entry of kappa is off by n + 4 D + 64 roundings, and the n^2 of them by three times that."""
    paid = operator_range(far_apart(n, inputs)).above - (1 + n**2)
    units = n + 4 * inputs + 64
    assert 3 * n**2 * units * UNIT <= paid <= 4 * n**2 * (units + 16) * UNIT + 64 * n**2 * UNIT


def test_the_operators_range_allows_for_far_data_and_for_the_rank() -> None:
    far = replace(far_apart(3, 1), X=np.array([[0.0], [0.0], [3e6]]), root=np.eye(3)[:1])
    assert operator_range(far).above - 2 >= 3 * 4 * 2e6 * UNIT  # scaled inputs are rounded at their own size
    many = replace(far_apart(60, 1), root=np.eye(60), weights=np.ones(60))  # an eigenvalue: some roundings a row
    assert operator_range(many).above - 61 >= 16 * 60 * 60 * UNIT


def test_the_operators_range_is_right_of_nothing_of_little_and_of_too_much() -> None:
    one = far_apart(2, 1)
    none = replace(one, root=np.zeros((0, 2)), weights=np.zeros(0))
    assert operator_range(none).above == pytest.approx(1.0, abs=1e-14)
    assert operator_range(replace(one, root=0.1 * one.root)).above == pytest.approx(1.04, abs=1e-12)
    huge = replace(one, root=np.array([[1.0, 1.0], [1e200, 1.0]]), weights=np.ones(2))
    assert operator_range(huge).above == np.inf


@pytest.mark.parametrize("far", [0.0, 1.5])
def test_envelopes_allow_for_the_rounding_of_lines_and_slopes(far: float) -> None:
    """With a unit of 1e-5: twice that share of the lines' terms and of the gradient's over the box."""
    posterior = random_posterior(np.random.default_rng(9), "matern52", "probit", 6, 2)
    form = operator_form(posterior, posterior.X[0], np.arange(2))
    centre, radius = form.X[:1] + far * form.lengthscales, np.array([[0.3 + far, 0.7]])
    unit = 1e-5 * np.arange(1.0, 7.0)
    free, paid = (
        np.array(envelope_mean(replace(form, slack=replace(form.slack, unit=each)), centre, radius))
        for each in (0.0 * unit, unit)
    )
    at = form.scale(centre)[0]
    near, most = (
        np.sum(each**2, axis=1)
        for each in (np.maximum(0.0, np.abs(form.U - at) - radius), np.abs(form.U - at) + radius)
    )

    def kernel(q: Array) -> Array:
        z = np.sqrt(5.0 * q)
        return (1 + z + z * z / 3) * np.exp(-z)

    middle, h = 0.5 * (near + most), 1e-5
    slope = -(kernel(middle + h) - kernel(middle - h)) / (2 * h)
    chord = (kernel(near) - kernel(most)) / (most - near)
    lines = ((kernel(middle) + slope * middle, slope), (kernel(near) + chord * near, chord))
    for side, sign in ((0, 1.0), (1, -1.0)):
        weights = sign * form.alpha
        constant, fall = (np.where(weights >= 0, a, b) for a, b in zip(*lines, strict=True))
        terms = constant + fall * most + 1
        reach = 2 * fall * ((np.abs(form.U) + np.abs(at)) @ radius[0])
        expected = 2 * form.variance * np.abs(form.alpha) * unit @ (terms + reach)
        assert abs(paid - free)[side, 0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
@pytest.mark.parametrize("half", [1e-3, 0.05, 0.5])
def test_matern_models_allow_for_the_rounding_of_their_coefficients(kernel: str, half: float) -> None:
    """Coefficients off by a thousandth each, as their errors are stated to be: the exact moments stay enclosed."""
    slack, rng = 1e-3, np.random.default_rng([3, int(1e3 * half)])
    posterior = random_posterior(rng, kernel, "probit", 10, 2)
    bound, exact = (
        level_bound(posterior, posterior.X[0], np.arange(2)),
        Exact(posterior, posterior.X[0], np.arange(2)),
    )
    form = replace(bound.form, mean_error=slack, gram_error=slack)
    centre = posterior.X[:6] + 0.3 * posterior.lengthscales * rng.standard_normal((6, 2))
    expansion = matern.expand_matern(form, centre)

    def moved(polynomial: Cubic) -> Cubic:
        off = [slack * rng.choice([-1.0, 1.0], each.shape) for each in (polynomial.constant, polynomial.linear)]
        return replace(polynomial, constant=polynomial.constant + off[0], linear=polynomial.linear + off[1])

    expansion.__dict__["_to_degree_two"] = tuple(moved(each) for each in expansion._to_degree_two)
    radius = half * rng.random((6, 2))
    found, clean = expansion.over(radius), expansion.over(0.0 * radius)
    assert np.all(clean.mean.below >= posterior.variance * slack)
    assert np.all(clean.mean.below <= 20 * posterior.variance * slack)
    assert np.all(clean.variance.above >= posterior.variance * slack)
    for b in range(6):
        x = radius[b] * rng.uniform(-1.0, 1.0, (200, 2))
        for moment, model in zip(
            exact(centre[b] + posterior.lengthscales * x), (found.mean, found.variance), strict=True
        ):
            assert (model.low[b] <= moment).all() and (moment <= model.high[b]).all()
