"""Regions of very many perturbations, of tiny outputs, and along rays on which tiny columns decide."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.perturbation import ConfidenceRegion, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Perturbations, SignChanges, rank
from tests.arrays import Array


def kernel(a: Array, b: Array) -> Array:
    return np.asarray(np.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / 0.3**2))


@pytest.mark.parametrize("m", [200, 257, 258, 70_000])
def test_ranks_are_counted_beyond_any_width_of_the_counter(m: int) -> None:
    x, centre = np.linspace(0, 1, 6), np.array([0.5])
    objective = SparseKernelRidge(kernel(x, centre), kernel(centre, centre), penalty=0.1)
    y = np.random.default_rng(0).normal(size=6)
    region = ConfidenceRegion(objective, y, SignChanges().draw(6, m, np.random.default_rng(1)), q=m // 10)
    far = np.array([[1e6]])
    assert region.ranks(far) == rank(region.z_values(far), region.perturbations.before_reference()) > 0.95 * m
    assert not region.contains(far)


def test_outputs_whose_squares_vanish_are_refused() -> None:
    drawn = SignChanges().draw(3, 10, np.random.default_rng(0))
    objective = SparseKernelRidge(np.eye(3), np.eye(3), penalty=0.1)
    for size in (0.0, 1e-99):
        ConfidenceRegion(objective, np.array([0.0, size, -size]), drawn, 1)
    with pytest.raises(ValueError, match="y is below 1e-100 in size"):
        ConfidenceRegion(objective, np.array([0.0, 1e-101, -1e-101]), drawn, 1)


def test_a_step_known_to_be_inside_is_inside() -> None:
    """Without curvature along the tiny column, b > 0 still ends the step."""
    rows = ["++-", "-+-", "-++", "++-", "-++", "+++", "-++", "-++", "+-+"]
    signs = np.array([[1.0 if sign == "+" else -1.0 for sign in row] for row in rows])
    design = np.array([[0.0, 1e-9], [0.93, 0.0], [0.76, 0.0]])
    drawn = Perturbations("signs", signs, None, np.array([8, 2, 4, 7, 5, 3, 9, 1, 0, 6]))
    region = ConfidenceRegion(SparseKernelRidge(design, np.eye(2), 4.56), np.array([-8.3, 3.7, 3.1]), drawn, 8)
    found = region.boundary(np.random.default_rng(0).normal(size=(40, 2)))
    assert (found.inside <= found.outside).all()
    assert len(found.members) == 40 and region.contains(found.members).all()
