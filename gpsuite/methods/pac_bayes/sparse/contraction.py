"""From adjoints of K_ZX and K_ZZ to the gradient in the squared-exponential kernel's parameters and Z.

Equation: derived, kernel contraction
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.sparse.algebra import InducingKernel


class KernelContraction:
    """Sums adjoint times kernel derivative over blocks of K_ZX and over K_ZZ.

    With H = adjoint * K elementwise: d ln sigma_f^2 = sum H, d ln l_j = sum_mi H_mi (z_mj - x_ij)^2 / l_j^2 and
    d z_mj = sum_i H_mi (x_ij - z_mj) / l_j^2. The squares are expanded, so that H enters thin products only.

    Attributes:
        d_log_variance: derivative in ln sigma_f^2, without that of the diagonal of K_XX.
        d_Z: derivative in Z [M, D].
    """

    def __init__(self, inducing: InducingKernel) -> None:
        self._inducing = inducing
        self.d_log_variance = 0.0
        self.d_Z = np.zeros_like(inducing.scaled)
        self._per_dimension = np.zeros(inducing.scaled.shape[1])

    def add(self, adjoint: FloatArray, features: FloatArray, cross: FloatArray) -> None:
        """Add a block's adjoint of K_ZX.

        Args:
            adjoint: of the kernel at the inputs with these features [M, rows]; overwritten.
            features: [rows, D+2], from `InducingKernel.features`.
            cross: K_ZX [M, rows].
        """
        Zs, D = self._inducing.scaled, self._inducing.scaled.shape[1]
        adjoint *= cross
        products = adjoint @ features  # H Xs and, in the last column, the row sums of H
        HX, row_sums = products[:, :D], products[:, -1]
        self.d_log_variance += float(row_sums.sum())
        # the features hold -|x|^2/2 over all dimensions; each dimension is needed
        squares = adjoint.sum(axis=0) @ features[:, :D] ** 2
        self._per_dimension += row_sums @ Zs**2 - 2.0 * np.einsum("ij,ij->j", Zs, HX) + squares
        self.d_Z += (HX - row_sums[:, None] * Zs) / self._inducing.lengthscales

    def add_prior(self, adjoint: FloatArray) -> None:
        """Add the symmetric adjoint of K_ZZ [M, M]."""
        Zs = self._inducing.scaled
        J = adjoint * self._inducing.matrix
        self.d_log_variance += float(J.sum())
        np.fill_diagonal(J, 0.0)  # the diagonal depends on the variance only
        row_sums, JZ = J.sum(axis=1), J @ Zs
        self._per_dimension += 2.0 * (row_sums @ Zs**2 - np.einsum("ij,ij->j", Zs, JZ))
        self.d_Z += 2.0 * (JZ - row_sums[:, None] * Zs) / self._inducing.lengthscales

    def d_log_lengthscales(self, n_lengthscales: int) -> FloatArray:
        """Return the derivative in ln l, for one lengthscale or one per dimension."""
        whole = self._per_dimension
        return whole if n_lengthscales == len(whole) else whole.sum(keepdims=True)
