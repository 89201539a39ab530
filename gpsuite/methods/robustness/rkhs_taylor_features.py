"""Expansion coefficients of a batch of boxes: one matrix product for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rounding import SHORT_SUM
from gpsuite.models.radial import kappa_and_slope


@dataclass(frozen=True)
class Coefficients:
    """Coefficients around B centres in the orthonormal basis e_m, T = 1 + d or (1 + d)(2 + d)/2 of them.

    Attributes:
        mean: a_m = <h, e_m>, [B, T].
        gram: <e_m, (G + nu) e_m'> for degrees 0 and 1, [B, 1 + d, 1 + d].
        mixed: <e_0, (G + nu) e_m> for the degree-2 terms, [B, T - 1 - d].
        trace2: trace of the degree-2 block of G + nu, [B]; zero at degree 1.
    """

    mean: FloatArray
    gram: FloatArray
    mixed: FloatArray
    trace2: FloatArray


def n_terms(n_free: int, degree: int) -> int:
    """Return T, the number of terms up to a degree of 1 or 2."""
    return 1 + n_free + (n_free * (n_free + 1) // 2 if degree == 2 else 0)


def basis_values(form: OperatorForm, centre: FloatArray, degree: int) -> FloatArray:
    """Return e_m of the data around every centre [B, d] (units of X), [n, T, B]: degrees 0, 1, then pairs j <= k.

    Squared exponential: e_m(v) = (v-c)^m / sqrt(m!) exp(-|v-c|^2/2). Others: kappa and psi (v-c)_j.
    """
    n, d = form.X.shape
    basis = np.empty((n, n_terms(d, degree), len(centre)))
    offset = form.offsets(centre, out=basis[:, 1 : 1 + d])
    q = np.einsum("njb,njb->nb", offset, offset)
    q += form.fixed[:, None]
    value, slope = kappa_and_slope(form.kernel, q)
    if degree == 2:
        _add_pairs(basis, d)
    basis[:, 0] = value
    basis[:, 1:] *= (slope if form.profile.folds else slope / np.sqrt(form.profile.curvature))[:, None]
    return basis


def coefficients(form: OperatorForm, stacked: FloatArray, centre: FloatArray, degree: int) -> Coefficients:
    """Expand the mean and the covariance operator around centres [B, d].

    Args:
        form: the posterior.
        stacked: rows of `form.root` and then `form.alpha`, [r + 1, n].
        centre: box centres in units of X, [B, d].
        degree: 1 or 2.
    """
    basis = basis_values(form, centre, degree)
    n, terms, n_boxes = basis.shape
    product = (stacked @ basis.reshape(n, terms * n_boxes)).reshape(len(stacked), terms, n_boxes)
    rows, first = product[:-1], 1 + centre.shape[1]
    identity = np.eye(first)
    negative, positive = rows[: form.n_negative], rows[form.n_negative :]
    block = _block(negative, first)
    gram, mixed, trace = block[0], -block[1], -block[2]
    if len(positive):
        block = _block(positive, first)
        gram, mixed, trace = gram - block[0], mixed + block[1], trace + block[2]
    # G + nu is expanded, which is positive also for the stored floats.
    beyond = terms - first
    return Coefficients(
        mean=np.ascontiguousarray(product[-1].T),
        gram=(1.0 + form.allowance) * identity - gram,
        mixed=mixed,
        trace2=np.maximum((beyond + trace) + beyond * (form.allowance + SHORT_SUM), 0.0),
    )


def _add_pairs(basis: FloatArray, d: int) -> None:
    """Fill in the products x_j x_k, j <= k, with 1/sqrt(2) where j = k."""
    offset, start = basis[:, 1 : 1 + d], 1 + d
    for j in range(d):
        stop = start + d - j
        np.multiply(offset[:, j:], offset[:, j : j + 1], out=basis[:, start:stop])
        basis[:, start] *= np.sqrt(0.5)
        start = stop


def _block(rows: FloatArray, first: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return of rows [r, T, B] the Gram matrix of degrees 0 and 1, row 0 with degree 2, and squares of degree 2."""
    low = np.ascontiguousarray(rows[:, :first].transpose(2, 0, 1))
    gram = np.matmul(low.transpose(0, 2, 1), low)
    high = rows[:, first:]
    mixed = np.einsum("rb,rtb->bt", rows[:, 0], high)
    return gram, mixed, np.einsum("rtb,rtb->b", high, high)
