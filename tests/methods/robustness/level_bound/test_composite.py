"""Sums and products of kernels: derivatives, features, models over boxes and searches against a plain function."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtri

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.methods.robustness.class_probability import latent_ranges
from gpsuite.methods.robustness.level_bound import composite
from gpsuite.methods.robustness.level_bound.composite import CompositeExpansion, derivative_bound, feature_norms
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.posterior_slice import FactorSlice
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.point_search import certify_class, probability_range
from gpsuite.methods.robustness.regression import MEAN, prediction_range
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.regions import box, linf_ball
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.composite import CompositeKernel, radial
from gpsuite.models.latent import LatentPosterior
from tests.methods.robustness.composite_problems import (
    FORMULAS,
    NAMES,
    Problem,
    dense_points,
    leaf,
    moments,
    plus,
    posterior_of,
    random_kernel,
    times,
)
from tests.methods.robustness.level_bound.level_models import value
from tests.methods.robustness.made_up_posteriors import random_boxes

Array = npt.NDArray[np.float64]
NOISE = 0.05


def latent_of(posterior: GPCPosterior) -> LatentPosterior:
    names = ("X", "kernel", "variance", "lengthscales", "alpha", "root", "weights", "operator_bound")
    return LatentPosterior(**{name: getattr(posterior, name) for name in names})


def composite_problem(rng: np.random.Generator, n_inputs: int) -> Problem:
    while True:
        problem = random_kernel(rng, n_inputs)
        if isinstance(problem.kernel.latent().kernel, CompositeKernel):
            return problem


def random_case(seed: int) -> tuple[Problem, GPCPosterior, Array, npt.NDArray[np.int64], np.random.Generator]:
    rng = np.random.default_rng([58, seed])
    problem = composite_problem(rng, int(rng.integers(1, 6)))
    link = ("probit", "probit", "logistic")[seed % 3]
    posterior = posterior_of(rng, problem, int(rng.integers(2, 30)), link, sparse=seed % 4 == 3)
    x0 = rng.standard_normal(problem.n_inputs)
    free = np.sort(rng.permutation(problem.n_inputs)[: int(rng.integers(1, problem.n_inputs + 1))])
    return problem, posterior, x0, free, rng


def full(x0: Array, free: npt.NDArray[np.int64], points: Array) -> Array:
    X = np.tile(x0, (len(points), 1))
    X[:, free] = points
    return X


def model_failures(seed: int, count: int = 8, points: int = 60) -> tuple[int, int]:
    """Return checks and failures of models, ranges and scores over boxes of every kind."""
    problem, posterior, x0, free, rng = random_case(seed)
    low, high = random_boxes(rng, posterior, x0, free, count)
    bound = level_bound(posterior, x0, free)
    centre, latent = bound.latent_model(low, high)
    found = bound.bounds(low, high)
    checks = failures = 0
    for b in range(count):
        x = dense_points(rng, low[b], high[b], points)
        mean, variance, rounding = moments(problem, posterior, full(x0, free, x))
        offset = (x - centre[b]) / bound.form.lengthscales
        with np.errstate(over="ignore", invalid="ignore"):
            score = bound.level.score.value(mean, variance)
        for moment, model in ((mean, latent.mean), (variance, latent.variance)):
            apart = moment - value(model.model, offset, b)
            room = rounding + 1e-12 * np.abs(value(model.model, offset, b))
            for inside in (apart <= model.above[b] + room, apart >= -model.below[b] - room):
                failures += int(np.sum(~inside & np.isfinite(apart)))
            failures += int(np.sum(~((moment >= model.low[b] - rounding) & (moment <= model.high[b] + rounding))))
        room = 10.0 * rounding * (1.0 + np.abs(score))
        failures += int(np.sum(~((score >= found.low[b] - room) & (score <= found.high[b] + room))))
        checks += 7 * len(x)
    return checks, failures


def search_failures(seed: int, boxes: int = 150) -> int:
    """Return how many of a problem's ranges miss a point of a dense grid or of an attack."""
    problem, posterior, x0, free, rng = random_case(seed)
    size = 10.0 ** rng.uniform(-1.5, 0.0)
    region = linf_ball(x0, size, free.tolist())
    points = dense_points(rng, region.lower, region.upper, 900)
    attacked = [strong_attack(posterior, region, sign, 4, rng)[0][free] for sign in (-1, 1)]
    X = region.embed(np.vstack([points, attacked]))
    mean, variance, rounding = moments(problem, posterior, X)
    failures = 0
    p, room = posterior.link.probability(mean, variance), 1e-9 + 10.0 * rounding
    known = probability_range(posterior, region, 1e-3, Budget(boxes=boxes))
    failures += not (known.minimum.outer <= p.min() + room and p.max() - room <= known.maximum.outer)
    failures += known.minimum.inner < known.minimum.outer or known.maximum.inner > known.maximum.outer
    verdict = certify_class(posterior, region, Budget(boxes=boxes))[0]
    failures += verdict.status == "safe" and bool(np.any((p > 0.5 + room) != (p[0] > 0.5 + room)))
    tolerance = 1e-2 * np.sqrt(posterior.variance)
    levels = (MEAN, 0.05)
    for found in prediction_range(latent_of(posterior), NOISE, region, levels, tolerance, Budget(boxes=boxes)):
        z = 0.0 if found.level == MEAN else float(ndtri(found.level))
        q = mean + z * np.sqrt(variance + NOISE)
        room = 1e-9 * (1.0 + np.abs(q).max()) + 100.0 * rounding
        failures += not (found.lowest_proved <= q.min() + room and q.max() - room <= found.highest_proved)
    return failures


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", range(5))
def test_derivatives_along_lines_stay_below_their_bounds_which_are_sharp(name: str, order: int) -> None:
    """The function on a line at distance r and cosine c, by Chebyshev interpolation around the point."""
    if name == "matern32" and order == 4:
        return  # infinite at the datum: the bound is MaternKernel's, tested there
    largest = 0.0
    for r, c in product((0.05, 0.3, 0.8, 1.5, 3.0), np.linspace(0.0, 1.0, 11)):
        half = 0.4 * r

        def along(t: Array, r: float = r, c: float = c) -> Array:
            return FORMULAS[name](np.sqrt(np.maximum((t - r * c) ** 2 + r * r * (1.0 - c * c), 0.0)))

        fit = np.polynomial.Chebyshev.interpolate(along, 14, [-half, half])
        size = abs(float(fit.deriv(order)(0.0) if order else fit(0.0)))
        bound = float(derivative_bound(name, order, np.array([r]))[0])
        assert size <= bound * (1.0 + 1e-6) + 1e-7
        largest = max(largest, size / bound)
    assert largest > 0.9


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_of_features_after_degree_one_is_at_most_its_bound(seed: int) -> None:
    """|phi(x) - phi(0) - D phi(0) x|^2 = 2 - 2 kappa(x) + |x|^2 + 2 x grad kappa(x) in the posterior's lengthscales."""
    problem, posterior, _, _, rng = random_case(seed)
    D, kernel = problem.n_inputs, posterior.kernel
    assert isinstance(kernel, CompositeKernel)
    form = level_bound(posterior, np.zeros(D), np.arange(D)).form
    expansion = composite.expand_composite(form, np.zeros((1, D)))
    seen = posterior.lengthscales < 1e100
    for size in (0.05, 0.3, 1.0, 3.0):
        radius = size * rng.random((1, D)) * seen
        remainders = [composite.term_remainders(term, radius, True) for term in expansion.terms]
        bound = sum(remainder.norms[1][0] ** 2 for remainder in remainders)
        x = radius * np.where(rng.random((200, D)) < 0.5, 1.0, rng.uniform(-1.0, 1.0, (200, D)))
        kappa, slopes = kernel.values_and_slopes(x, np.zeros((1, D)))
        falls = sum((slope[:, 0] * (np.square(x) @ rates) for rates, slope in slopes), np.zeros(200))
        square = 2.0 - 2.0 * kappa[:, 0] + np.sum(x**2, axis=1) - 2.0 * falls
        assert square.max() <= bound + 1e-13
        assert size > 0.3 or np.sqrt(bound) <= 8.0 * np.sqrt(max(square.max(), 1e-13))


@pytest.mark.parametrize("seed", range(40))
def test_no_point_lies_outside_models_and_ranges(seed: int) -> None:
    checks, failures = model_failures(seed)
    assert failures == 0, checks


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_no_point_of_a_grid_or_an_attack_lies_outside_the_searches(seed: int) -> None:
    assert search_failures(seed) == 0


@pytest.mark.slow
@pytest.mark.guarantee
def test_no_point_of_a_thousand_problems_lies_outside() -> None:
    assert [seed for seed in range(2000, 3000) if search_failures(seed) or model_failures(seed)[1]] == []


@pytest.mark.parametrize("kind", ["se+se", "se+matern52", "matern32+matern32", "matern32*matern52", "se*matern32"])
@pytest.mark.parametrize("n_inputs", [1, 3])
def test_what_models_leave_out_shrinks_faster_than_the_box_squared(kind: str, n_inputs: int) -> None:
    rng = np.random.default_rng(5)
    names = [each.replace("se", "squared_exponential") for each in kind.replace("*", "+").split("+")]
    one, other = (leaf(rng, n_inputs, name) for name in names)
    problem = times(one, other) if "*" in kind else plus(one, other)
    posterior = posterior_of(rng, problem, 20)
    bound = level_bound(posterior, np.zeros(n_inputs), np.arange(n_inputs))
    remainders, widths = [], []
    for half in (0.08, 0.04, 0.02):
        ends = np.full((1, n_inputs), half)
        found = bound.latent_model(0.1 - ends, 0.1 + ends)[1]
        remainders.append(max(found.mean.above[0], found.variance.above[0], found.variance.below[0]))
        result = bound.bounds(0.1 - ends, 0.1 + ends)
        widths.append(result.high[0] - result.low[0])
    assert remainders[1] < remainders[0] / 5.5 and remainders[2] < remainders[1] / 5.5
    assert widths[2] < widths[1] / 1.6 < widths[0] / 2.5


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 4, 5])
def test_searches_end_for_one_to_five_inputs(n_inputs: int) -> None:
    rng = np.random.default_rng(n_inputs)
    problem = plus(leaf(rng, n_inputs, "squared_exponential"), leaf(rng, n_inputs, "matern52"))
    posterior = posterior_of(rng, problem, 30)
    found = probability_range(posterior, linf_ball(np.zeros(n_inputs), 0.15), 1e-3, Budget(boxes=20_000))
    assert found.status == "closed" and found.gap <= 1e-3


def test_a_collapsed_product_and_its_composition_give_one_number() -> None:
    """One squared exponential by the fast route, and as a sum of its halves by the general one."""
    rng = np.random.default_rng(3)
    one, other = (radial("squared_exponential", [0.8, 1.3], 3, active) for active in ([0, 1], [1, 2]))
    collapsed = (one * other).latent()
    assert collapsed.kernel == "squared_exponential"
    joint = [0.8, 1.0 / np.sqrt(1.3**-2 + 0.8**-2), 1.3]
    assert collapsed.lengthscales == pytest.approx(joint, rel=1e-15)
    problem = Problem(
        one * other, lambda A, B: np.exp(-0.5 * np.sum(((A[:, None] - B) / np.array(joint)) ** 2, axis=2)), 3
    )
    fast = posterior_of(rng, problem, 20)
    half = (0.5, (("squared_exponential", (1.0, 1.0, 1.0)),))
    names = ("X", "variance", "lengthscales", "alpha", "root", "weights", "operator_bound", "link")
    fields = {name: getattr(fast, name) for name in names}
    slow = GPCPosterior(kernel=CompositeKernel((half, half)), **fields)
    X = rng.standard_normal((30, 3))
    for a, b in zip(fast.latent_with_gradient(X), slow.latent_with_gradient(X), strict=True):
        assert a == pytest.approx(b, rel=1e-11, abs=1e-12)
    region = box(np.zeros(3), [0.3, 0.2, 0.3])
    ranges = [probability_range(each, region, 1e-5, Budget(boxes=20_000)) for each in (fast, slow)]
    for end in ("minimum", "maximum"):
        values = [getattr(each, end) for each in ranges]
        assert values[0].inner == pytest.approx(values[1].inner, abs=1e-5)
        assert abs(values[0].outer - values[1].outer) <= 1e-5 and {each.status for each in values} == {"closed"}


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_that_sees_some_inputs_is_that_kernel_without_the_others(name: str) -> None:
    rng = np.random.default_rng(8)
    problem = Problem(radial(name, 0.9, 3, [0, 2], 2.0), lambda A, B: np.empty(0), 3)
    latent = problem.kernel.latent()
    X, alpha = rng.standard_normal((15, 3)), rng.standard_normal(15)
    root, minus = 0.1 * np.eye(15), -np.ones(15)
    whole = LatentPosterior(X, latent.kernel, latent.variance, latent.lengthscales, alpha, root, minus, 1.0)
    part = LatentPosterior(X[:, [0, 2]], name, 2.0, np.full(2, 0.9), alpha, root, minus, 1.0)
    budget = Budget(boxes=20_000)
    all_inputs = prediction_range(whole, NOISE, linf_ball(np.zeros(3), 0.3), (MEAN, 0.9), 1e-4, budget)
    seen = prediction_range(part, NOISE, linf_ball(np.zeros(2), 0.3), (MEAN, 0.9), 1e-4, budget)
    for one, other in zip(all_inputs, seen, strict=True):
        assert one.status == "closed"
        assert one.lowest_proved == pytest.approx(other.lowest_proved, abs=1e-4)
        assert one.highest_proved == pytest.approx(other.highest_proved, abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_values_at_points_hold_in_extended_arithmetic(seed: int) -> None:
    """The stored floats with 80 bits, data far from the origin, points at and next to the data: rounding is all."""
    _, posterior, _, _, rng = random_case(seed)
    far = GPCPosterior(**{**vars(posterior), "X": posterior.X + 1e3})
    D, kernel = far.X.shape[1], far.kernel
    assert isinstance(kernel, CompositeKernel)
    points = np.vstack([far.X, far.X + 1e-7, rng.standard_normal((20, D)) + 1e3])
    form = level_bound(far, points[0], np.arange(D)).form
    known = latent_ranges(form, points)
    u = (points[:, None].astype(np.longdouble) - far.X) / far.lengthscales
    k = np.zeros(u.shape[:2], dtype=np.longdouble)
    for weight, factors in kernel.terms:
        part = np.full(k.shape, weight, dtype=np.longdouble)
        for name, rates in factors:
            part = part * FORMULAS[name](np.sqrt(np.square(u) @ np.array(rates, dtype=np.longdouble)))
        k += part
    s = np.longdouble(far.variance)
    mean, features = s * (k @ far.alpha), s * (k @ far.root.T)
    variance = np.maximum(s + np.square(features) @ far.weights, 0.0)
    for moment, low, high in (
        (mean, known.mean_low, known.mean_high),
        (variance, known.variance_low, known.variance_high),
    ):
        assert np.all((moment >= low) & (moment <= high))
    assert np.all(known.mean_high - known.mean_low <= 1e-6 * (1.0 + s * np.abs(far.alpha).sum()))


def shrunken(of: str, share: float) -> object:
    if of == "derivative_bound":
        return lambda *given: share * derivative_bound(*given)
    return lambda *given: tuple([share * each for each in part] for part in feature_norms(*given))


@pytest.mark.parametrize("of", ["derivative_bound", "feature_norms"])
def test_sizes_that_are_too_small_are_found_out(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composite, of, shrunken(of, 0.2))
    assert any(model_failures(seed)[1] for seed in range(40))


def test_a_forgotten_term_of_the_variance_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CompositeExpansion, "_gram", property(lambda self: np.zeros((len(self.V), *[self.V.shape[1] - 1] * 2)))
    )
    assert any(model_failures(seed)[1] for seed in range(10))


def test_a_fixed_input_that_is_forgotten_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def distance(self: FactorSlice, offset: Array) -> Array:
        return np.asarray(np.einsum("j,bjn,bjn->bn", self.rates, offset, offset))

    monkeypatch.setattr(FactorSlice, "distance", distance)
    assert any(model_failures(seed)[1] for seed in range(20))


def test_what_takes_single_kernels_only_names_the_kernel() -> None:
    posterior = posterior_of(np.random.default_rng(0), composite_problem(np.random.default_rng(0), 2), 5)
    with pytest.raises(UserError, match="a certificate takes a single kernel only"):
        stored_model(posterior)
    with pytest.raises(UserError, match="the paper's bound needs the squared exponential kernel, not "):
        paper_bound(posterior, np.zeros(2), np.arange(2))


def test_a_size_that_is_not_a_number_stays_one() -> None:
    """As zero it would say that nothing is left out; infinity times zero is zero, for nothing moves."""
    sizes = composite._scaled(np.array([np.nan, np.inf, np.inf, 0.0]), np.array([1.0, 0.0, 2.0, np.inf]))
    np.testing.assert_array_equal(sizes, [np.nan, 0.0, np.inf, 0.0])
