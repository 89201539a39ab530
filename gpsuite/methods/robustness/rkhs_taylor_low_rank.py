"""Fewer rows for the variance's operator, with the trace that is dropped as an exact slack.

With orthonormal Q and Z_r = Q'Z: G <= G_r <= I, and G_r - G >= 0 has norm at most its trace
tr(Z kappa Z') - tr(Z_r kappa Z_r'), so only the lower bound of the variance pays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import qr
from scipy.spatial.distance import cdist

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rounding import rounding_slack
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.radial import kappa

# Dropped trace that is accepted, in units of s, and the ranks tried before giving up.
_ACCEPTED = 3e-7
_FIRST_RANK = 32
# A reduction to more than this share of the rows does not pay.
_SHARE = 0.5
# The random test matrix only decides how good the reduction is, never whether it is sound.
_SEED = 0


def reduced(form: OperatorForm, posterior: GPCPosterior) -> OperatorForm:
    """Return the form with fewer rows, or unchanged if the operator has positive weights or no small rank serves.

    Args:
        form: the posterior over the free inputs.
        posterior: where it comes from; its fixed distances belong to the kernel matrix of non-folding kernels.
    """
    if form.n_negative < len(form.root):
        return form
    all_inputs = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    points = form.U if form.profile.folds else all_inputs
    k = kappa(form.kernel, np.asarray(cdist(points, points, "sqeuclidean")))
    total = float(np.einsum("ri,ri->", form.root @ k, form.root))
    rank = _FIRST_RANK
    while rank <= _SHARE * len(form.root):
        root = _trimmed(_leading(form.root, k, rank), k, total)
        dropped = max(0.0, total - float(np.einsum("ri,ri->", root @ k, root)))
        if dropped <= _ACCEPTED:
            return _replaced(form, root, dropped)
        rank *= 2
    return form


def _leading(root: FloatArray, k: FloatArray, rank: int) -> FloatArray:
    """Return Q'Z for Q spanning the range of Z kappa Z' applied to a random matrix."""
    test = np.random.default_rng(_SEED).standard_normal((root.shape[0], rank))
    basis, _ = qr(root @ (k @ (root.T @ test)), mode="economic")
    return np.asarray(basis.T @ root)


def _trimmed(root: FloatArray, k: FloatArray, total: float) -> FloatArray:
    """Rotate the rows to their principal directions and leave out those that the accepted trace allows."""
    values, vectors = np.linalg.eigh(root @ k @ root.T)
    lost = total - np.cumsum(values[::-1])
    enough = np.flatnonzero(lost <= _ACCEPTED)
    count = int(enough[0]) + 1 if len(enough) else len(values)
    return np.asarray(vectors[:, ::-1][:, :count].T @ root)


def _replaced(form: OperatorForm, root: FloatArray, dropped: float) -> OperatorForm:
    # Q is orthonormal up to rounding, and both traces are dot products of |Z| with a kernel at most 1.
    gamma = 1.0 + form.allowance
    sums = np.abs(form.root)
    rounding = 8.0 * float(np.sum((sums @ form.slack.spread) * sums.sum(axis=1)))
    own = rounding_slack(form.slack.unit, form.slack.spread, form.alpha, root, gamma)
    slack = replace(own, coefficient=form.slack.coefficient, gram=own.gram + form.slack.gram)
    return replace(
        form, root=root, n_negative=len(root), dropped=form.dropped + dropped + rounding, slack=slack
    )
