"""Exactness by repetition: the true coefficients' rank is uniform, for every model, symmetric noise and level.

All cells of a run share one family-wise bound: with exact coverage, the chance that any of them falls outside its
two-sided binomial interval is below 0.1 %. Seeds are derived from the cell's name, fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    SparseKernelRidge,
)
from gpsuite.methods.perturbation.ranks import (
    Group,
    Permutations,
    Perturbations,
    SignChanges,
    SignedPermutations,
    ranks_of_noise,
    simulated_ranks,
)
from gpsuite.seeds import stream
from tests.arrays import Array
from tests.methods.perturbation.made_up_objectives import gaussian

pytestmark = pytest.mark.guarantee

N = 15
DESIGNS = 4  # per cell; exactness holds given the inputs
FAMILY_ERROR = 1e-3
LEVELS = {10: (1, 3, 5, 9), 20: (1, 2, 4, 10, 15, 18), 40: (2, 4, 10, 20, 30, 36)}  # m -> q: p from .1 to .95
FAST_LEVELS = {20: LEVELS[20]}

CENTRES = np.linspace(-1.5, 1.5, 4)[:, None]
MODELS: dict[str, Callable[[Array], Objective]] = {
    "lssvm_linear": lambda X: LinearLSSVM(X, 1.0),
    "lssvm_kernel": lambda X: KernelLSSVM(gaussian(X, X), 1.0),
    "krr": lambda X: KernelRidge(gaussian(X, X), 0.05),
    "krr_sparse": lambda X: SparseKernelRidge(gaussian(X, CENTRES), gaussian(CENTRES, CENTRES), 0.02),
    "svr": lambda X: EpsilonSVR(gaussian(X, X), 12.0, 0.2),
    "klasso": lambda X: KernelLasso(gaussian(X, X), 0.15),
}
Noise = Callable[[np.random.Generator, tuple[int, int], Array], Array]
IDENTICAL: dict[str, Noise] = {
    "gauss": lambda rng, size, x: 0.5 * rng.standard_normal(size),
    "laplace": lambda rng, size, x: 0.4 * rng.laplace(size=size),
    "student2": lambda rng, size, x: 0.3 * rng.standard_t(2.0, size=size),
    "bimodal": lambda rng, size, x: rng.choice([-0.7, 0.7], size=size) + 0.1 * rng.standard_normal(size),
}
SYMMETRIC: dict[str, Noise] = IDENTICAL | {
    "heteroscedastic": lambda rng, size, x: (0.1 + np.abs(x)) * rng.standard_normal(size)
}
# a group leaves alone: signs any independent symmetric noise, those with permutations only identically distributed
CELLS: list[tuple[str, str, Group]] = [
    *((model, noise, SignChanges()) for model in MODELS for noise in SYMMETRIC),
    *((m, noise, group) for m in MODELS for noise in IDENTICAL for group in (Permutations(), SignedPermutations())),
]


def _ranks(model: str, noise: Noise, name: str, group: Group, m: int, repetitions: int) -> Array:
    """Ranks of the true coefficients, `repetitions` of them over several designs."""
    found = []
    for design in range(DESIGNS):
        rng = stream(2019, "coverage", model, name, type(group).__name__, m, design)
        X = rng.uniform(-2.0, 2.0, (N, 1))
        objective = MODELS[model](X)
        truth = rng.standard_normal(objective.design.shape[1])
        if model == "klasso":
            truth *= rng.uniform(size=N) < 0.4  # coefficients at zero, where the objective is not smooth
        drawn = noise(rng, (repetitions // DESIGNS, N), X[:, 0])
        found.append(simulated_ranks(objective, truth, drawn, group, m, rng))
    return np.concatenate(found)


def _outside(ranks: Array, m: int, q: int, error: float) -> bool:
    """Whether the number of repetitions inside the region leaves its binomial interval."""
    inside, total, p = int(np.count_nonzero(ranks <= m - q)), len(ranks), (m - q) / m
    return bool(min(binom.cdf(inside, total, p), binom.sf(inside - 1, total, p)) < 0.5 * error)


def _violations(
    model: str, noise: str, group: Group, levels: dict[int, tuple[int, ...]], repetitions: int
) -> Iterator[str]:
    cells = len(CELLS) * sum(len(qs) for qs in levels.values())
    for m, qs in levels.items():
        ranks = _ranks(model, SYMMETRIC[noise], noise, group, m, repetitions)
        assert np.all((ranks >= 1) & (ranks <= m))
        for q in qs:
            if _outside(ranks, m, q, FAMILY_ERROR / cells):
                yield f"m={m}, q={q}: {np.mean(ranks <= m - q):.4f} for {1 - q / m:.4f}"


def _id(cell: tuple[str, str, Group]) -> str:
    return f"{cell[0]}-{cell[1]}-{type(cell[2]).__name__}"


@pytest.mark.parametrize("cell", CELLS, ids=map(_id, CELLS))
def test_coverage_is_exact(cell: tuple[str, str, Group]) -> None:
    assert list(_violations(*cell, FAST_LEVELS, 2_000)) == []


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=map(_id, CELLS))
def test_coverage_is_exact_over_many_repetitions(cell: tuple[str, str, Group]) -> None:
    assert list(_violations(*cell, LEVELS, 20_000)) == []


def _skewed(rng: np.random.Generator, size: tuple[int, int], x: Array) -> Array:
    return rng.lognormal(size=size) - np.exp(0.5)


def _shifted(rng: np.random.Generator, size: tuple[int, int], x: Array) -> Array:
    return 0.5 * rng.standard_normal(size) + 0.5


@pytest.mark.parametrize(
    ("model", "noise", "group", "q"),
    [
        ("lssvm_linear", _skewed, SignChanges(), 2),
        ("krr", _skewed, SignChanges(), 2),
        ("klasso", _shifted, SignChanges(), 2),
        ("lssvm_linear", _shifted, SignChanges(), 10),
        ("svr", _shifted, SignChanges(), 10),
        ("krr", SYMMETRIC["heteroscedastic"], Permutations(), 10),
    ],
)
def test_wrong_assumptions_are_noticed(model: str, noise: Noise, group: Group, q: int) -> None:
    """The test above has the power to fail: noise the group does not leave alone covers too rarely."""
    ranks = _ranks(model, noise, "wrong", group, 20, 2_000)
    assert _outside(ranks, 20, q, FAMILY_ERROR / 1_000)


@pytest.mark.parametrize("model", MODELS)
def test_asymmetric_exchangeable_noise_suits_permutations(model: str) -> None:
    ranks = _ranks(model, _skewed, "skewed", Permutations(), 20, 4_000)
    assert not any(_outside(ranks, 20, q, FAMILY_ERROR / (6 * len(LEVELS[20]))) for q in LEVELS[20])


def _over_all_signs(objective: Objective, alphas: Array, sizes: Array) -> list[int]:
    """Sorted ranks over all 2^n sign patterns of noise of given sizes [n], against the whole group; alphas [2^n, n]."""
    signs = np.array(list(product((1.0, -1.0), repeat=len(sizes))))
    whole = Perturbations("signs", signs[1:], None, None)
    pairs = zip(alphas, signs * sizes, strict=True)
    return sorted(int(ranks_of_noise(objective, alpha, noise[None], whole)[0]) for alpha, noise in pairs)


@pytest.mark.parametrize("model", ["lssvm_kernel", "krr"])
def test_coverage_needs_no_distinct_inputs(model: str) -> None:
    """Given the sizes of symmetric noise the values compared are one set, whatever the signs: every rank once.

    Nowhere in this are the inputs distinct (A1): with equal ones several coefficient vectors make the function, and
    each of them has the stated coverage. A vector that depends on the signs has not.
    """
    rng = stream(2019, "equal inputs", model)
    objective = MODELS[model](np.arange(4.0)[:, None])
    equal = np.array([-1.0, -1.0, 0.4, 0.4])[:, None]
    object.__setattr__(objective, "gram", gaussian(equal, equal))  # the constructor refuses equal rows
    truth = rng.standard_normal(objective.design.shape[1])
    again = truth + (np.array([1.0, -1.0, 0.0, 0.0]) if len(truth) == 4 else np.array([0.0, 1.0, -1.0, 0.0, 0.0]))
    np.testing.assert_allclose(objective.design @ truth, objective.design @ again, rtol=1e-14)
    sizes = np.array([0.3, 0.7, 1.1, 1.6])
    for alpha in (truth, again):
        assert _over_all_signs(objective, np.tile(alpha, (16, 1)), sizes) == list(range(1, 17))
    followed = truth + rng.standard_normal((16, len(truth)))
    assert _over_all_signs(objective, followed, sizes) != list(range(1, 17))
