"""The semidefinite program of the ellipsoidal outer approximation, by Clarabel: an oracle for the scalar root."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from gpsuite.arrays import FloatArray


def inequality(
    P: FloatArray, T: FloatArray, design: FloatArray, y: FloatArray, perturbed: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return A = I - S'S, b = S'w, c = -|w|^2 as printed, for the matrix of one perturbation [N, N]."""
    H = P + T @ design
    values, vectors = np.linalg.eigh(H)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    e = y - design @ np.linalg.solve(H, T @ y)
    S = root @ (P + T @ perturbed @ design) @ root
    w = root @ T @ (perturbed @ e - e)
    return np.eye(len(P)) - S.T @ S, S.T @ w, float(-w @ w)


def smallest_radius(A: FloatArray, b: FloatArray, c: float) -> float:
    """Return min gamma with lambda >= 0 and [[lambda A - I, lambda b], [lambda b', lambda c + gamma]] >= 0."""
    p = len(b)
    slope = np.block([[A, b[:, None]], [b[None, :], np.array([[c]])]])
    corner = np.zeros((p + 1, p + 1))
    corner[p, p] = 1.0
    fixed = np.eye(p + 1) - corner
    # unknowns (gamma, lambda); s = right - matrix @ unknowns must be in the cone
    matrix = np.vstack([[0.0, -1.0], np.column_stack([-_triangle(corner), -_triangle(slope)])])
    right = np.concatenate([[0.0], -_triangle(fixed)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(1), clarabel.PSDTriangleConeT(p + 1)]
    cost = np.array([1.0, 0.0])
    empty = sparse.csc_matrix((2, 2))
    solution = clarabel.DefaultSolver(empty, cost, sparse.csc_matrix(matrix), right, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    return float(solution.x[0])


def _triangle(matrix: FloatArray) -> FloatArray:
    """Return the upper triangle by columns, off-diagonal entries times the root of 2."""
    columns, rows = np.tril_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))
