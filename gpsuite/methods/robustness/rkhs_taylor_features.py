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
        gram: <e_m, G e_m'> for degrees 0 and 1, [B, 1 + d, 1 + d].
        mixed: <e_0, G e_m> for the degree-2 terms, [B, T - 1 - d].
        trace2: trace of the degree-2 block of G, [B]; zero at degree 1.
    """

    mean: FloatArray
    gram: FloatArray
    mixed: FloatArray
    trace2: FloatArray


def basis_values(form: OperatorForm, centre: FloatArray, degree: int) -> FloatArray:
    """Return e_m(U_i) around every centre, [n, B, T]: degree 0, then d of degree 1, then pairs j <= k of degree 2.

    Squared exponential: e_m(v) = (v-c)^m / sqrt(m!) exp(-|v-c|^2/2). Others: kappa and psi (v-c)_j.
    """
    n, d = form.U.shape
    offset = form.U[:, None, :] - centre
    q = np.einsum("nbd,nbd->nb", offset, offset)
    q += form.fixed[:, None]
    value, slope = kappa_and_slope(form.kernel, q)
    pairs = np.triu_indices(d) if degree == 2 else (np.empty(0, int), np.empty(0, int))
    basis = np.empty((n, len(centre), 1 + d + len(pairs[0])))
    basis[:, :, 0] = value
    basis[:, :, 1 : 1 + d] = offset
    basis[:, :, 1 : 1 + d] *= (slope / np.sqrt(form.profile.curvature))[:, :, None]
    if degree == 2:
        first = basis[:, :, 1 : 1 + d]
        np.multiply(first[:, :, pairs[0]], offset[:, :, pairs[1]], out=basis[:, :, 1 + d :])
        basis[:, :, 1 + d :] *= np.where(pairs[0] == pairs[1], np.sqrt(0.5), 1.0)
    return basis


def coefficients(form: OperatorForm, stacked: FloatArray, centre: FloatArray, degree: int) -> Coefficients:
    """Expand the mean and the covariance operator around scaled centres [B, d].

    Args:
        form: the posterior.
        stacked: rows of `form.root` and then `form.alpha`, [r + 1, n].
        centre: box centres, [B, d].
        degree: 1 or 2.
    """
    basis = basis_values(form, centre, degree)
    n, n_boxes, n_terms = basis.shape
    product = (stacked @ basis.reshape(n, n_boxes * n_terms)).reshape(-1, n_boxes, n_terms)
    rows, mean = product[:-1], np.array(product[-1])
    first = 1 + centre.shape[1]
    identity = np.eye(first)
    negative, positive = rows[: form.n_negative], rows[form.n_negative :]
    gram = identity - _gram(negative, first) + _gram(positive, first)
    mixed = _row(positive, first) - _row(negative, first)
    trace = _squares(positive, first) - _squares(negative, first) + (n_terms - first)
    # The allowance for an operator that is not quite positive, see `OperatorForm.dropped`.
    allowance = form.allowance
    return Coefficients(
        mean=mean,
        gram=gram + allowance * identity,
        mixed=mixed,
        trace2=np.maximum(trace * (1.0 + SHORT_SUM), 0.0) + (n_terms - first) * allowance,
    )


def _gram(rows: FloatArray, first: int) -> FloatArray:
    part = rows[:, :, :first]
    return np.asarray(np.matmul(part.transpose(1, 2, 0), part.transpose(1, 0, 2)))


def _row(rows: FloatArray, first: int) -> FloatArray:
    """Return the inner products of the degree-0 column with those of degree 2, [B, T2]."""
    if rows.shape[2] == first:
        return np.zeros((rows.shape[1], 0))
    left, right = rows[:, :, :1], rows[:, :, first:]
    return np.asarray(np.matmul(left.transpose(1, 2, 0), right.transpose(1, 0, 2))[:, 0, :])


def _squares(rows: FloatArray, first: int) -> FloatArray:
    part = rows[:, :, first:]
    return np.asarray(np.einsum("rbt,rbt->b", part, part))
