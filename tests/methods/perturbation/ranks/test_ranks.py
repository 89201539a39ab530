"""The batched ranks against the definition, each weighting's fast form against dense matrices."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare

import gpsuite.methods.perturbation.ranks as norms_module
import gpsuite.methods.perturbation.ranks as ranks_module
from gpsuite.methods.perturbation.objectives import Form
from gpsuite.methods.perturbation.quadratic import KernelLasso, KernelRidge, LinearLSSVM, Objective
from gpsuite.methods.perturbation.ranks import (
    Group,
    Permutations,
    Perturbations,
    PerturbedNorms,
    RankTest,
    SignChanges,
    SignedPermutations,
    rank,
    ranks_of_noise,
    simulated_ranks,
)
from tests.arrays import Array
from tests.methods.perturbation.made_up_objectives import dense_z, gaussian, inputs, objectives, outputs

OBJECTIVES = objectives()
GROUPS = [SignChanges(), Permutations(), SignedPermutations()]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
every_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: type(group).__name__)


def _rank_by_definition(Z: Array, perturbations: Perturbations) -> int:
    assert perturbations.priority is not None
    first, *priorities = perturbations.priority
    found = 1
    for value, priority in zip(Z[1:], priorities, strict=True):
        tied = abs(value - Z[0]) <= 1e-12 * max(value, Z[0])
        found += priority < first if tied else value < Z[0]
    return found


def _test(objective: Objective, group: Group, m: int = 20) -> RankTest:
    y = outputs(objective)
    drawn = group.draw(len(y), m, np.random.default_rng(5))
    return RankTest(objective, y, drawn, objective.fit(y).alpha)


def _alphas(test: RankTest, count: int = 30) -> Array:
    rng = np.random.default_rng(6)
    steps = np.geomspace(1e-4, 10.0, count)[:, None] * rng.standard_normal((count, len(test.alpha_hat)))
    return np.asarray(np.vstack([test.alpha_hat + steps, np.zeros(len(test.alpha_hat))]))


@every_group
@every_objective
def test_z_values_and_ranks_equal_the_dense_definition(objective: Objective, group: Group) -> None:
    test = _test(objective, group)
    alphas = _alphas(test)
    Z = test.z_values(alphas)
    expected = np.array([dense_z(objective, test.y, test.perturbations, alpha) for alpha in alphas])
    # the dense inverse of a Gram matrix loses digits, the forms under test do not
    np.testing.assert_allclose(Z, expected, atol=1e-6 * np.max(expected))
    by_definition = [_rank_by_definition(row, test.perturbations) for row in Z]
    assert test.ranks(alphas).tolist() == by_definition
    gaps = np.min(np.abs(expected[:, 1:] - expected[:, :1]), axis=1)
    clear = gaps > 1e-5 * np.max(expected, axis=1)
    dense = np.array([_rank_by_definition(row, test.perturbations) for row in expected])
    assert np.count_nonzero(clear) >= 10
    assert test.ranks(alphas)[clear].tolist() == dense[clear].tolist()


@every_objective
def test_blocks_and_chunks_change_nothing(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    test = _test(objective, SignedPermutations())
    alphas = _alphas(test)
    expected = test.z_values(alphas)
    monkeypatch.setattr(norms_module, "_KEPT_BYTES", 0.0)
    monkeypatch.setattr(norms_module, "_BLOCK_BYTES", 3.5 * 8 * objective.form.pull.size)
    monkeypatch.setattr(norms_module, "_CHUNK_BYTES", 0.0)
    again = RankTest(objective, test.y, test.perturbations, test.alpha_hat)
    np.testing.assert_allclose(again.z_values(alphas), expected, rtol=1e-12)


@every_group
def test_quadratic_forms_decide_as_the_residuals_do(group: Group) -> None:
    objective = LinearLSSVM(inputs(40, 3), 1.0)
    test = _test(objective, group, m=60)
    alphas = test.alpha_hat + 0.1 * np.random.default_rng(7).standard_normal((2_000, 4))
    assert test._quadratic_forms is not None
    undecided = test._quadratic_forms.ranks(alphas)[1]
    assert not np.any(undecided)
    expected = rank(test.z_values(alphas), test.perturbations.before_reference())
    np.testing.assert_array_equal(test.ranks(alphas), expected)
    assert len(np.unique(expected)) > 20


def test_quadratic_forms_leave_rounding_to_the_residuals() -> None:
    """Huge outputs hide ties in the expanded forms: zero noise ties everything at the truth."""
    X = np.round(inputs(9, 2), 2)
    objective = LinearLSSVM(X, 1.0)  # type: ignore[arg-type]
    truth = np.array([2.0**20, 3.0, -5.0])
    drawn = SignChanges().draw(9, 12, np.random.default_rng(8))
    y = objective.design @ truth
    test = RankTest(objective, y, drawn, objective.fit(y).alpha)
    residuals = objective.residuals(y, truth)
    assert not np.any(residuals)
    assert test._quadratic_forms is not None
    assert test._quadratic_forms.ranks(truth[None])[1].tolist() == [True]
    assert test.ranks(truth[None]).tolist() == [1 + np.count_nonzero(drawn.before_reference())]


@every_group
@pytest.mark.parametrize("n", [30, 60])
def test_leading_rows_decide_as_all_rows_do(n: int, group: Group) -> None:
    decided = 0
    for name, objective in objectives(n).items():
        test = _test(objective, group, m=40)
        if test._leading is None:
            assert not name.startswith("Kernel")
            continue
        alphas = _alphas(test, 60)
        undecided = test._leading_ranks(test._leading, *test._parts(alphas))[1]
        decided += np.count_nonzero(~undecided)
        expected = rank(test.z_values(alphas), test.perturbations.before_reference())
        np.testing.assert_array_equal(test.ranks(alphas), expected)
    assert decided > 300


def test_what_is_left_out_is_looked_at_where_it_matters() -> None:
    """Along a direction the leading rows hardly see, only all rows together can decide."""
    objective = objectives(40)["KernelRidge-hessian"]
    test = _test(objective, SignChanges(), m=40)
    assert test._leading is not None
    tail = test._leading[1]
    alphas = test.alpha_hat + 1e6 * tail.slope[-1:] / np.linalg.norm(tail.slope[-1])
    assert np.all(test._leading_ranks(test._leading, *test._parts(alphas))[1])


def test_ties_follow_the_drawn_order() -> None:
    Z = np.array([1.0, 1.0 + 5e-13, 0.5, 2.0, 1.0 - 5e-13])
    assert rank(Z, np.array([True, False, True, True])) == 4
    assert rank(Z, np.array([False, True, False, False])) == 2
    assert rank(Z, np.array([False, False, False, True])) == 3


@every_group
@every_objective
def test_repeated_ranks_equal_the_rank_test(objective: Objective, group: Group) -> None:
    rng = np.random.default_rng(9)
    n, p = objective.design.shape
    alpha, noise = rng.standard_normal(p), rng.laplace(size=(5, n))
    drawn = group.draw(n, 15, rng, (5,))
    found = ranks_of_noise(objective, alpha, noise, drawn)
    assert drawn.priority is not None
    for repetition, e in enumerate(noise):
        signs = None if drawn.signs is None else drawn.signs[repetition]
        order = None if drawn.order is None else drawn.order[repetition]
        single = Perturbations(drawn.group, signs, order, drawn.priority[repetition])
        y = objective.design @ alpha + e
        assert RankTest(objective, y, single, alpha).ranks(alpha[None]).tolist() == [found[repetition]]


def test_ties_without_an_order_favour_membership() -> None:
    objective = LinearLSSVM(inputs(6, 2), 1.0)
    noise = np.zeros((4, 6))
    rng = np.random.default_rng(10)
    free = simulated_ranks(objective, np.ones(3), noise, SignChanges(), 10, rng, break_ties=False)
    assert free.tolist() == [1] * 4
    drawn = simulated_ranks(objective, np.ones(3), np.zeros((4_000, 6)), SignChanges(), 10, np.random.default_rng(11))
    counts = np.bincount(drawn, minlength=11)[1:]
    assert np.max(np.abs(counts - 400)) < 5.0 * np.sqrt(400)


def test_exact_ties_follow_the_drawn_order() -> None:
    assert rank(np.zeros(4), np.array([True, False, True])) == 3
    assert rank(np.full(3, 2.0), np.array([False, False])) == 1


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("name", ["LinearLSSVM-hessian", "KernelRidge-hessian", "EpsilonSVR-rkhs"])
def test_every_coefficient_vector_has_its_rank_for_any_blocks(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """17 vectors in blocks of 8, those in chunks of 4: none is left out, none counted twice."""
    test = _test(objectives(40)[name], SignChanges(), m=30)
    alphas = _alphas(test, 30)[10 : 10 + count]
    expected = [_rank_by_definition(row, test.perturbations) for row in test.z_values(alphas)]
    monkeypatch.setattr(ranks_module, "_RANK_BLOCK_BYTES", 8.5 * 8 * 30)
    monkeypatch.setattr(ranks_module, "_QUADRATIC_CHUNK", 4)
    assert test.ranks(alphas).tolist() == expected


def test_simulated_ranks_draw_again_for_each_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten repetitions in blocks of 3, 3, 3, 1 are those blocks one after the other."""
    objective = LinearLSSVM(inputs(8, 2), 1.0)
    noise = np.random.default_rng(12).laplace(size=(10, 8))
    monkeypatch.setattr(ranks_module, "_RANK_BLOCK_BYTES", 3.5 * 8 * 20 * 8)
    found = simulated_ranks(objective, np.ones(3), noise, SignChanges(), 20, np.random.default_rng(13))
    rng, expected = np.random.default_rng(13), []
    for start in (0, 3, 6, 9):
        part = noise[start : start + 3]
        drawn = SignChanges().draw(8, 20, rng, (len(part),))
        expected += ranks_of_noise(objective, np.ones(3), part, drawn).tolist()
    assert found.tolist() == expected


def test_identities_among_leading_rows_keep_their_place() -> None:
    """Identities tie with the reference everywhere: those drawn before it count, the others do not."""
    objective = objectives(40)["KernelRidge-hessian"]
    y = outputs(objective)
    signs = np.array(SignChanges().draw(40, 20, np.random.default_rng(5)).signs)
    signs[[2, 7, 11]] = 1.0
    priority = np.roll(np.arange(20), 9)  # the reference is the tenth, identities 3, 8 and 12 around it
    for order in (priority, priority[::-1].copy()):
        drawn = Perturbations("signs", signs, None, order)
        test = RankTest(objective, y, drawn, objective.fit(y).alpha)
        assert test._leading is not None
        alphas = _alphas(test)
        assert test.ranks(alphas).tolist() == [_rank_by_definition(row, drawn) for row in test.z_values(alphas)]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_leading_rows_are_trusted_only_beyond_what_they_leave_out(scale: float) -> None:
    """Along rays that the rows left out see more and more, in small and in large units."""
    objective = objectives(40)["KernelRidge-hessian"]
    y = scale * outputs(objective)
    test = RankTest(objective, y, SignChanges().draw(40, 40, np.random.default_rng(5)), objective.fit(y).alpha)
    assert test._leading is not None
    tail = test._leading[1].slope
    steps = scale * np.geomspace(1e-2, 1e8, 60)[:, None] * (tail[-1] / np.linalg.norm(tail[-1]))
    alphas = test.alpha_hat + steps + scale * 0.02 * np.random.default_rng(6).standard_normal((60, 40))
    undecided = test._leading_ranks(test._leading, *test._parts(alphas))[1]
    assert 0 < np.count_nonzero(undecided) < 60
    expected = rank(test.z_values(alphas), test.perturbations.before_reference())
    assert test.ranks(alphas).tolist() == expected.tolist()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_quadratic_forms_decide_what_is_clear_of_a_billionth_of_their_terms(scale: float) -> None:
    """Closer and closer to where a perturbation ties: undecided is below 1e-9 of the largest terms of each degree."""
    objective = LinearLSSVM(inputs(40, 3), 1.0)
    y = scale * outputs(objective)
    test = RankTest(objective, y, SignChanges().draw(40, 30, np.random.default_rng(5)), objective.fit(y).alpha)
    forms = test._quadratic_forms
    assert forms is not None
    inside, outside = test.alpha_hat, test.alpha_hat + 0.3 * scale
    for _ in range(60):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if test.ranks(middle[None])[0] == 1 else (inside, middle)
    steps = np.concatenate([[0.0], np.geomspace(1e-13, 1e-3, 60)])[:, None]
    alphas = np.concatenate([inside + steps * (test.alpha_hat - inside), test.alpha_hat + scale * steps])
    V = (alphas - forms.centre) @ forms.root.T
    upper = np.triu_indices(4)
    degrees = [V[:, upper[0]] * V[:, upper[1]], V, np.ones((len(V), 1))]
    parts = np.split(forms.coefficients, [10, 14], axis=1)
    difference = sum(terms @ part.T for terms, part in zip(degrees, parts, strict=True))
    size = np.abs(V).sum(axis=1)
    terms = sum(largest * size ** (2 - k) for k, largest in enumerate(forms.scale))
    undecided = forms.ranks(alphas)[1]
    np.testing.assert_array_equal(undecided, np.min(np.abs(difference), axis=1) <= 1e-9 * terms)
    assert 10 < np.count_nonzero(undecided) < len(alphas) - 10


def test_the_lasso_on_inputs_a_kernel_hardly_tells_apart() -> None:
    """Directions in which the Gram matrix is rounding still carry the signs of the coefficients."""
    X = inputs(12)
    objective = KernelLasso(gaussian(X, X, 3.0), 0.15)
    assert len(objective.form.rest) > 0
    test = _test(objective, SignChanges())
    alphas = _alphas(test)
    expected = [dense_z(objective, test.y, test.perturbations, alpha) for alpha in alphas]
    np.testing.assert_allclose(test.z_values(alphas), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("name", ["KernelRidge-hessian", "KernelRidge-identity"])
def test_any_rows_left_out_are_bounded(name: str, scale: float) -> None:
    """Half of the rows left out, much more than is ever done: what is then called decided is still the rank."""
    objective, rng = objectives(12)[name], np.random.default_rng(6)
    drawn = SignChanges().draw(12, 4, np.random.default_rng(5))
    form, test = objective.form, RankTest(objective, scale * outputs(objective), drawn, np.zeros(12))
    wrong = decided = 0
    for kept in np.arange(len(form.pull)) >= 3, np.arange(len(form.pull)) % 2 == 0:
        head, tail = (Form(form.slope[rows], form.pull[rows], form.rest) for rows in (kept, ~kept))
        alphas = scale * rng.standard_normal((200, 12)) * np.geomspace(1e-2, 10.0, 200)[:, None]
        ranks, undecided = test._leading_ranks((PerturbedNorms(head, drawn), tail), *test._parts(alphas))
        exact = rank(test.z_values(alphas), drawn.before_reference())
        assert np.array_equal(ranks[~undecided], exact[~undecided])
        wrong += np.count_nonzero(ranks != exact)
        decided += np.count_nonzero(~undecided)
    assert wrong > 20
    assert decided > 20


def test_what_is_left_out_is_the_sum_of_both_parts() -> None:
    """One row, slope 1 and pull 2: |3 + 2|^2 = 25 at worst; a head whose values differ by less cannot decide."""
    objective = LinearLSSVM(inputs(12, 2), 1.0)
    test = _test(objective, SignChanges(), m=3)
    tail = Form(np.array([[1.0, 0.0, 0.0]]), 2.0 * np.eye(1, 12), np.empty((0, 3)))
    lifted, scores = np.array([[3.0, 0.0, 0.0]]), np.eye(1, 12)
    for difference, undecided in ((24.9, True), (25.1, False), (-24.9, True), (-25.1, False)):
        head = SimpleNamespace(values=lambda a, s, d=difference: np.array([[max(-d, 0.0), max(d, 0.0), 1e3]]))
        ranks, found = test._leading_ranks((head, tail), lifted, scores)  # type: ignore[arg-type]
        assert found.tolist() == [undecided]
        assert ranks.tolist() == [1 + (difference < 0.0)]


def test_ties_join_by_steps() -> None:
    """a ~ b and b ~ c without a ~ c: all three are one, or more than q of m values could rank below q."""
    step = 0.7e-12
    Z = np.array([[1.0, 1.0 + step, 1.0 + 2 * step, 1.0 + 9 * step], [1.0 + 2 * step, 1.0 + step, 1.0, 5.0]])
    all_before, none_before = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    assert rank(Z, all_before).tolist() == [3, 3]
    assert rank(Z, none_before).tolist() == [1, 1]
    assert rank(Z[:, [0, 2, 3]], none_before[:2]).tolist() == [1, 2]  # without the step between, no tie


@pytest.mark.parametrize("spread", [0.3e-12, 1e-12, 3e-12])
def test_the_rank_of_exchangeable_values_is_uniform_at_the_scale_of_ties(spread: float) -> None:
    rng = np.random.default_rng(2027)
    m, repetitions = 20, 20_000
    Z = 1.0 + spread * rng.normal(size=(repetitions, m))
    before = np.array([rng.permutation(m) for _ in range(repetitions)])
    ranks = rank(Z, before[:, 1:] < before[:, :1])
    counts = np.bincount(ranks - 1, minlength=m)
    assert chisquare(counts).pvalue > 1e-4


def test_what_a_gram_matrix_of_low_rank_does_not_see_counts_in_every_value_alike() -> None:
    """A kernel so smooth that only few directions are left: the signs outside them are part of all Z."""
    X = inputs(12)
    objective = KernelLasso(gaussian(X, X, 8.0), 3.0)
    assert 0 < len(objective.form.rest) < 12
    test = _test(objective, SignChanges())
    alphas = _alphas(test)
    expected = [dense_z(objective, test.y, test.perturbations, alpha) for alpha in alphas]
    np.testing.assert_allclose(test.z_values(alphas), expected, rtol=1e-9)
    rng = np.random.default_rng(9)
    alpha, noise = rng.standard_normal(12), rng.laplace(size=(40, 12))
    drawn = SignChanges().draw(12, 15, rng, (40,))
    assert drawn.signs is not None and drawn.priority is not None
    for found, e, signs, priority in zip(
        ranks_of_noise(objective, alpha, noise, drawn), noise, drawn.signs, drawn.priority, strict=True
    ):
        single = Perturbations(drawn.group, signs, None, priority)
        Z = dense_z(objective, objective.design @ alpha + e, single, alpha)
        assert found == _rank_by_definition(Z, single)


def test_quadratic_forms_leave_ties_far_from_the_estimate_to_the_residuals() -> None:
    """Rows equal up to 1e-14: their exchange ties everywhere, and the form's squares are too large to see it."""
    X = inputs(8, 2)
    X[1] = X[0] * (1.0 + 1e-14)
    objective = LinearLSSVM(X, 1.0)
    swapped = np.array([[1, 0, 2, 3, 4, 5, 6, 7]])
    for priority in ([0, 1], [1, 0]):
        drawn = Perturbations("permutations", None, swapped, np.array(priority))
        y = outputs(objective)
        test = RankTest(objective, y, drawn, objective.fit(y).alpha)
        assert test._quadratic_forms is not None
        alphas = test.alpha_hat + 1e8 * np.random.default_rng(3).standard_normal((20, 3))
        assert test.ranks(alphas).tolist() == [1 + (priority[1] < priority[0])] * 20
        assert rank(test.z_values(alphas), drawn.before_reference()).tolist() == test.ranks(alphas).tolist()


def test_leading_rows_leave_rounding_to_all_rows() -> None:
    """Transformations that move residuals of 1e-14 only: ties, where the rows left out are far smaller still."""
    rng = np.random.default_rng(4)
    Q = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    gram = (Q * np.repeat([1.0, 1e-12], 8)) @ Q.T
    objective = KernelRidge(0.5 * (gram + gram.T), 0.05, "identity")
    alphas = rng.standard_normal((40, 16))
    signs = np.sign(rng.standard_normal((19, 16)))
    signs[:, 0] = 1.0
    for alpha in alphas:
        y = objective.design @ alpha
        y += np.r_[5.0, 1e-14 * rng.standard_normal(15)]
        drawn = Perturbations("signs", signs, None, rng.permutation(20))
        test = RankTest(objective, y, drawn, objective.fit(y).alpha)
        assert test._leading is not None
        assert test.ranks(alpha[None]).tolist() == [1 + np.count_nonzero(drawn.before_reference())]


# Drawn transformations: what they do, their adjoints, their distribution, bad input.
NAMED_GROUPS: dict[str, Group] = {
    "signs": SignChanges(),
    "permutations": Permutations(),
    "signed permutations": SignedPermutations(),
}
each_group = pytest.mark.parametrize("group", NAMED_GROUPS.values(), ids=NAMED_GROUPS.keys())


@each_group
def test_apply_and_pull_back_agree_with_the_matrices(group: Group) -> None:
    rng = np.random.default_rng(0)
    drawn = group.draw(7, 9, rng)
    e, B = rng.standard_normal((3, 7)), rng.standard_normal((4, 7))
    signs, order = drawn.signs_and_order
    matrices = np.zeros((8, 7, 7))
    for G, sign, row in zip(matrices, signs, order, strict=True):
        G[np.arange(7), row] = sign
    np.testing.assert_array_equal(drawn.apply(e), np.einsum("ikl,jl->jik", matrices, e))
    np.testing.assert_array_equal(drawn.pull_back(B), B @ matrices)
    np.testing.assert_array_equal(drawn.pull_back(B, slice(5, 11)), (B @ matrices)[5:])


@each_group
def test_repetitions_are_separate_draws(group: Group) -> None:
    rng = np.random.default_rng(1)
    many = group.draw(5, 4, rng, (6,))
    assert many.shape == (6, 3, 5)
    e = rng.standard_normal((6, 5))
    for repetition, row in enumerate(e):
        signs = None if many.signs is None else many.signs[repetition]
        order = None if many.order is None else many.order[repetition]
        assert many.priority is not None
        single = Perturbations(many.group, signs, order, many.priority[repetition])
        np.testing.assert_array_equal(many.apply(e)[repetition], single.apply(row))
        np.testing.assert_array_equal(many.before_reference()[repetition], single.before_reference())


@each_group
def test_every_transformation_is_as_likely(group: Group) -> None:
    signed = {"SignChanges": 8, "Permutations": 6, "SignedPermutations": 48}[type(group).__name__]
    draws = 48_000
    drawn = group.draw(3, draws + 1, np.random.default_rng(2))
    images = drawn.apply(np.array([1.0, 2.0, 4.0])) @ np.array([1.0, 10.0, 100.0])
    _, counts = np.unique(images, return_counts=True)
    assert len(counts) == signed
    expected = draws / signed
    assert np.max(np.abs(counts - expected)) < 5.0 * np.sqrt(expected)


def test_the_tie_order_is_uniform() -> None:
    drawn = SignChanges().draw(2, 3, np.random.default_rng(3), (6_000,))
    assert drawn.priority is not None
    counts = [np.count_nonzero(np.all(drawn.priority == order, axis=1)) for order in itertools.permutations(range(3))]
    assert sum(counts) == 6_000
    assert np.max(np.abs(np.array(counts) - 1_000)) < 5.0 * np.sqrt(1_000)


def test_identities_are_recognised() -> None:
    signs = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])
    order = np.array([[0, 1, 2], [0, 1, 2], [0, 2, 1]])
    assert Perturbations("", signs, order, None).identities.tolist() == [True, False, False]
    assert Perturbations("", signs, None, None).identities.tolist() == [True, False, True]


@each_group
def test_sizes_too_small_are_refused(group: Group) -> None:
    rng = np.random.default_rng(4)
    with pytest.raises(ValueError, match="at least 2 observations, got n=1"):
        group.draw(1, 10, rng)
    with pytest.raises(ValueError, match="m must be at least 2, got 1"):
        group.draw(5, 1, rng)


def test_bad_perturbations_are_refused() -> None:
    signs, order = np.ones((2, 3)), np.tile(np.arange(3), (2, 1))
    with pytest.raises(ValueError, match="need signs or an order"):
        Perturbations("", None, None, None)
    with pytest.raises(ValueError, match=r"signs must be -1 or \+1"):
        Perturbations("", 0.5 * signs, None, None)
    with pytest.raises(ValueError, match="each row of order"):
        Perturbations("", None, np.zeros((2, 3), dtype=np.int64), None)
    for priority in ([0, 1], [0, 0, 1]):
        with pytest.raises(ValueError, match=r"priority must be a permutation of 0\.\.2"):
            Perturbations("", signs, order, np.array(priority))


@each_group
def test_identities_are_recognised_in_every_repetition(group: Group) -> None:
    drawn = group.draw(3, 4, np.random.default_rng(3), (200,))
    e = np.array([1.0, 2.0, 4.0])
    unchanged = np.all(drawn.apply(np.tile(e, (200, 1))) == e, axis=-1)
    assert unchanged.shape == (200, 3)
    np.testing.assert_array_equal(drawn.identities, unchanged)
    assert 0 < np.count_nonzero(unchanged) < 200


@each_group
def test_the_smallest_sizes_are_drawn(group: Group) -> None:
    drawn = group.draw(2, 2, np.random.default_rng(5))
    assert (drawn.shape, drawn.m, drawn.n) == ((1, 2), 2, 2)
    assert drawn.priority is not None
    assert sorted(drawn.priority.tolist()) == [0, 1]


@each_group
def test_one_vector_may_be_perturbed_by_every_repetition(group: Group) -> None:
    many = group.draw(5, 4, np.random.default_rng(6), (6,))
    e = np.arange(5.0)
    np.testing.assert_array_equal(many.apply(e), many.apply(np.tile(e, (6, 1))))
