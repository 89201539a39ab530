"""Drawn transformations: what they do, their adjoints, their distribution, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpsuite.methods.perturbation.ranks import (
    Group,
    Permutations,
    Perturbations,
    SignChanges,
    SignedPermutations,
)

GROUPS: dict[str, Group] = {
    "signs": SignChanges(),
    "permutations": Permutations(),
    "signed permutations": SignedPermutations(),
}
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())


@every_group
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


@every_group
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


@every_group
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
    counts = [
        np.count_nonzero(np.all(drawn.priority == order, axis=1))
        for order in itertools.permutations(range(3))
    ]
    assert sum(counts) == 6_000
    assert np.max(np.abs(np.array(counts) - 1_000)) < 5.0 * np.sqrt(1_000)


def test_identities_are_recognised() -> None:
    signs = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])
    order = np.array([[0, 1, 2], [0, 1, 2], [0, 2, 1]])
    assert Perturbations("", signs, order, None).identities.tolist() == [True, False, False]
    assert Perturbations("", signs, None, None).identities.tolist() == [True, False, True]


@every_group
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


@every_group
def test_identities_are_recognised_in_every_repetition(group: Group) -> None:
    drawn = group.draw(3, 4, np.random.default_rng(3), (200,))
    e = np.array([1.0, 2.0, 4.0])
    unchanged = np.all(drawn.apply(np.tile(e, (200, 1))) == e, axis=-1)
    assert unchanged.shape == (200, 3)
    np.testing.assert_array_equal(drawn.identities, unchanged)
    assert 0 < np.count_nonzero(unchanged) < 200


@every_group
def test_the_smallest_sizes_are_drawn(group: Group) -> None:
    drawn = group.draw(2, 2, np.random.default_rng(5))
    assert (drawn.shape, drawn.m, drawn.n) == ((1, 2), 2, 2)
    assert drawn.priority is not None
    assert sorted(drawn.priority.tolist()) == [0, 1]


@every_group
def test_one_vector_may_be_perturbed_by_every_repetition(group: Group) -> None:
    many = group.draw(5, 4, np.random.default_rng(6), (6,))
    e = np.arange(5.0)
    np.testing.assert_array_equal(many.apply(e), many.apply(np.tile(e, (6, 1))))
