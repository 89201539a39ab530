"""Regions: membership, the level as a fraction, invariances, ties, bad input, use in a few lines."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    QuadraticObjective,
    SparseKernelRidge,
)
from gpsuite.methods.perturbation.ranks import Permutations, Perturbations, SignChanges, SignedPermutations
from gpsuite.methods.perturbation.region import LARGEST, ConfidenceRegion, ModelClass, confidence_region
from tests.methods.perturbation.made_up_objectives import gaussian, inputs, objectives, outputs

OBJECTIVES = objectives()
GROUPS = [SignChanges(), Permutations(), SignedPermutations()]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
ridge = partial(KernelRidge, penalty=0.05)


def _region(objective: Objective, q: int = 4, m: int = 20, seed: int = 0) -> ConfidenceRegion:
    y = outputs(objective, seed)
    return ConfidenceRegion(objective, y, SignChanges().draw(len(y), m, np.random.default_rng(seed)), q)


@every_objective
def test_the_estimate_is_a_member(objective: Objective) -> None:
    region = _region(objective, q=19)
    rank = int(region.ranks(region.estimate[None])[0])
    if isinstance(objective, QuadraticObjective):
        # its gradient is zero, so that only identities among the perturbations can tie with it
        assert rank == 1
        assert region.contains(region.estimate[None]).tolist() == [True]
    else:
        assert _region(objective, q=4).contains(region.estimate[None]).tolist() == [True]


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name.startswith(("Linear", "Sparse"))])
def test_far_points_are_outside_where_few_coefficients_meet_many_data(name: str) -> None:
    objective = objectives(40)[name]
    region = _region(objective, q=4, m=40)
    directions = np.random.default_rng(1).standard_normal((50, len(region.estimate)))
    for far in (1e6, 0.1 * LARGEST):
        assert not np.any(region.contains(region.estimate + far * directions))
    with pytest.raises(ValueError, match="squares of larger ones overflow"):
        region.contains(1e155 * directions)
    with pytest.raises(ValueError, match="squares of larger outputs overflow"):
        dataclasses.replace(region, y=1e155 * region.y)  # covered nothing: every comparison would be of infinities
    assert np.all(region.contains(region.estimate + 1e-9 * directions))


@given(
    st.integers(0, 10_000),
    st.sampled_from([name for name in sorted(OBJECTIVES) if "-hessian" in name]),
    st.sampled_from(GROUPS),
    st.integers(1, 15),
)
def test_regions_are_star_shaped_about_the_estimate(seed: int, name: str, group: Any, q: int) -> None:
    """Under inverse-Hessian weighting, whatever lies between a member and the estimate is a member."""
    objective, rng = OBJECTIVES[name], np.random.default_rng(seed)
    y = outputs(objective, seed % 5)
    region = ConfidenceRegion(objective, y, group.draw(len(y), 20, rng), q)
    steps = rng.uniform(0.0, 2.0, (20, 1)) * rng.standard_normal((20, len(region.estimate)))
    members = region.contains(region.estimate + steps)
    for share in (0.99, 0.7, 0.3, 0.01):
        assert np.all(region.contains(region.estimate + share * steps)[members])


@given(st.integers(0, 10_000), st.sampled_from(sorted(OBJECTIVES)), st.integers(1, 18))
def test_members_shrink_as_the_level_falls(seed: int, name: str, q: int) -> None:
    wide = _region(OBJECTIVES[name], q, seed=seed % 5)
    narrow = dataclasses.replace(wide, q=q + 1)
    alphas = wide.estimate + np.random.default_rng(seed).standard_normal((20, len(wide.estimate)))
    assert not np.any(narrow.contains(alphas) & ~wide.contains(alphas))
    assert narrow.confidence < wide.confidence


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3), st.sampled_from(["krr", "linear", "kernel", "svr", "lasso"]))
def test_positive_factors_of_outputs_do_not_matter(seed: int, factor: float, model: str) -> None:
    """Each objective times a constant, after a change of units: the same memberships."""
    X, K = inputs(12, 2), gaussian(inputs(12), inputs(12))
    first, second = {
        "krr": (KernelRidge(K, 0.05), KernelRidge(K, 0.05)),
        "linear": (LinearLSSVM(X, 2.0), LinearLSSVM(X, 2.0)),
        "kernel": (KernelLSSVM(K, 2.0), KernelLSSVM(K, 2.0)),
        "svr": (EpsilonSVR(K, 9.0, 0.2), EpsilonSVR(K, 9.0 * factor, 0.2 * factor)),
        "lasso": (KernelLasso(K, 0.15), KernelLasso(K, 0.15 * factor)),
    }[model]
    rng = np.random.default_rng(seed)
    y, drawn = outputs(first, seed % 7), SignChanges().draw(12, 20, rng)
    alphas = rng.standard_normal((10, first.design.shape[1]))
    ranks = [
        ConfidenceRegion(objective, scale * y, drawn, 4).ranks(scale * alphas)
        for objective, scale in ((first, 1.0), (second, factor))
    ]
    np.testing.assert_array_equal(*ranks)  # type: ignore[arg-type]


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_positive_factors_of_the_objective_do_not_matter(seed: int, factor: float) -> None:
    """Kernel ridge on c K with lambda c is c times the same gradient at alpha / c; LS-SVM on X / c likewise."""
    K = gaussian(inputs(12), inputs(12))
    rng = np.random.default_rng(seed)
    y, drawn = outputs(KernelRidge(K, 0.05), seed % 7), Permutations().draw(12, 20, rng)
    alphas = rng.standard_normal((10, 12))
    plain = ConfidenceRegion(KernelRidge(K, 0.05), y, drawn, 4)
    scaled = ConfidenceRegion(KernelRidge(factor * K, 0.05 * factor), y, drawn, 4)
    np.testing.assert_array_equal(plain.ranks(alphas), scaled.ranks(alphas / factor))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: type(group).__name__)
@pytest.mark.parametrize("before", [True, False])
def test_identity_perturbations_tie(group: Any, before: bool) -> None:
    """With identities only, the drawn order alone decides, for any coefficients."""
    priority = np.arange(6) if not before else np.arange(6)[::-1].copy()
    signs, order = np.ones((5, 12)), np.tile(np.arange(12), (5, 1))
    drawn = Perturbations(
        "identities",
        None if isinstance(group, Permutations) else signs,
        None if isinstance(group, SignChanges) else order,
        priority,
    )
    for objective in OBJECTIVES.values():
        region = ConfidenceRegion(objective, outputs(objective), drawn, 3)
        alphas = np.random.default_rng(2).standard_normal((5, len(region.estimate)))
        assert region.ranks(alphas).tolist() == [6 if before else 1] * 5


def test_zero_noise_ties_everything_at_the_truth() -> None:
    X = np.round(inputs(8, 2), 1)
    truth = np.array([1.0, -2.0, 0.5])
    objective = LinearLSSVM(X, 1.0)  # type: ignore[arg-type]
    for seed in range(5):
        drawn = SignChanges().draw(8, 10, np.random.default_rng(seed))
        region = ConfidenceRegion(objective, objective.design @ truth, drawn, 3)
        assert region.ranks(truth[None]).tolist() == [1 + np.count_nonzero(drawn.before_reference())]


def test_inside_the_tube_only_the_order_decides() -> None:
    objective = EpsilonSVR(gaussian(inputs(12), inputs(12)), 9.0, 0.5)
    rng = np.random.default_rng(3)
    alphas = rng.standard_normal((4, 12))
    drawn = SignChanges().draw(12, 20, rng)
    for alpha in alphas:
        region = ConfidenceRegion(objective, objective.design @ alpha + rng.uniform(-0.49, 0.49, 12), drawn, 4)
        assert region.ranks(alpha[None]).tolist() == [1 + np.count_nonzero(drawn.before_reference())]


def test_the_level_is_a_fraction() -> None:
    region = _region(OBJECTIVES["KernelRidge-hessian"], q=5, m=20)
    assert region.confidence == Fraction(3, 4)
    assert (region.q, region.m) == (5, 20)


def test_ten_lines_lead_from_arrays_to_a_region() -> None:
    x = np.linspace(-2.0, 2.0, 15)
    y = np.sin(2.0 * x) + 0.2 * np.random.default_rng(4).laplace(size=15)
    region = confidence_region(x, y, ModelClass(ridge, gaussian), q=10, m=100, rng=np.random.default_rng(5))
    assert region.confidence == Fraction(9, 10)
    assert region.contains(region.estimate[None]).tolist() == [True]
    assert region.features is not None
    np.testing.assert_allclose(region.features(x[:, None]) @ region.estimate, region.objective.design @ region.estimate)


def test_a_gpflow_kernel_may_be_given() -> None:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    from gpsuite.models.config import Hyperparameters, ModelSpec
    from gpsuite.models.kernels import build_kernel

    x = np.linspace(-2.0, 2.0, 15)[:, None]
    y = np.sin(2.0 * x[:, 0])
    kernel = build_kernel(ModelSpec(), Hyperparameters(1.0, (0.4,), 1.0), 1)
    regions = [
        confidence_region(x, y, ModelClass(ridge, k), q=2, m=20, rng=np.random.default_rng(6))
        for k in (kernel, gaussian)
    ]
    alphas = np.random.default_rng(7).standard_normal((50, 15))
    np.testing.assert_allclose(regions[0].objective.design, regions[1].objective.design, atol=1e-12)
    np.testing.assert_array_equal(regions[0].ranks(alphas), regions[1].ranks(alphas))


def test_features_of_every_kind_of_model_are_right() -> None:
    X, rng = inputs(12, 2), np.random.default_rng(8)
    y = rng.standard_normal(12)
    build = partial(confidence_region, X, y, q=2, m=20, rng=rng)
    for region in (
        build(ModelClass(partial(LinearLSSVM, C=1.0))),
        build(ModelClass(partial(LinearLSSVM, C=1.0, bias=False))),
        build(ModelClass(partial(KernelLSSVM, C=1.0), gaussian)),
        build(ModelClass(partial(EpsilonSVR, C=5.0, epsilon=0.1), gaussian), group=Permutations()),
        build(ModelClass(partial(SparseKernelRidge, penalty=0.1), gaussian, X[:3])),
    ):
        assert region.features is not None
        np.testing.assert_allclose(region.features(X), region.objective.design, rtol=1e-12)


@pytest.mark.parametrize(("q", "m"), [(20, 20), (21, 20), (0, 20), (-1, 20), (1, 1)])
def test_levels_out_of_range_are_refused(q: int, m: int) -> None:
    x, y = np.arange(5.0), np.ones(5)
    with pytest.raises(ValueError, match=f"0 < q < m, got q={q}, m={m}"):
        confidence_region(x, y, ModelClass(ridge, gaussian), q=q, m=m, rng=np.random.default_rng(0))


def test_levels_must_be_integers() -> None:
    x, y = np.arange(5.0), np.ones(5)
    with pytest.raises(ValueError, match="q must be an integer"):
        confidence_region(
            x,
            y,
            ModelClass(ridge, gaussian),
            q=0.1,  # type: ignore[arg-type]
            m=20,
            rng=np.random.default_rng(0),
        )
    with pytest.raises(ValueError, match="0 < q < m, got q=20, m=20"):
        _region(OBJECTIVES["KernelRidge-hessian"], q=20)


def test_bad_data_are_refused() -> None:
    x, y = np.arange(6.0), np.ones(6)
    build = partial(confidence_region, model=ModelClass(ridge, gaussian), q=2, m=20, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"inputs 0 and 5 \(0-based\) are equal.*A1"):
        build(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 0.0]), y)
    with pytest.raises(ValueError, match="x must be finite"):
        build(np.where(x == 2.0, np.inf, x), y)
    with pytest.raises(ValueError, match="y must be finite"):
        build(x, np.where(x == 2.0, np.nan, y))
    with pytest.raises(ValueError, match="at least 2 observations, got n=1"):
        build(x[:1], y[:1])
    with pytest.raises(ValueError, match="y has 5 values for n=6"):
        build(x, y[:5])
    with pytest.raises(ValueError, match="non-empty"):
        build(np.empty(0), np.empty(0))
    with pytest.raises(ValueError, match=r"must be -1 or \+1"):
        build(x, 2.0 * y, model=ModelClass(partial(KernelLSSVM, C=1.0, classification=True), gaussian))
    with pytest.raises(ValueError, match="rank-deficient"):
        build(np.column_stack([x, x]), y, model=ModelClass(partial(LinearLSSVM, C=1.0)))
    with pytest.raises(ValueError, match="centres need a kernel"):
        build(x, y, model=ModelClass(partial(SparseKernelRidge, penalty=1.0), centres=x[:2]))
    with pytest.raises(ValueError, match="centres 0 and 1"):
        build(x, y, model=ModelClass(partial(SparseKernelRidge, penalty=1.0), gaussian, [1.0, 1.0]))


def test_bad_coefficients_are_refused() -> None:
    region = _region(OBJECTIVES["KernelRidge-hessian"])
    for alphas in (np.zeros(12), np.zeros((3, 11))):
        with pytest.raises(ValueError, match=r"alphas must have shape \[J, 12\]"):
            region.contains(alphas)
    with pytest.raises(ValueError, match="alphas must be finite"):
        region.contains(np.full((1, 12), np.nan))
    wrong = SignChanges().draw(11, 20, np.random.default_rng(0))
    with pytest.raises(ValueError, match="do not fit n=12 data"):
        ConfidenceRegion(region.objective, region.y, wrong, 4)
