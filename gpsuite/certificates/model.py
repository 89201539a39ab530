"""The model that a certificate or a saved model stores, and its latent functions one by one.

m_c = k' alpha_c and S_cj = s delta_cj + sum_r w_r (F_r k)_c (F_r k)_j. The difference of two functions is the latent
function of a binary classifier of variance 2 s with half the differences of weights. Its covariance operator is a part
of the joint one. So the range of the joint operator holds for all differences.

Equation: derived, operator form of a posterior, softmax of several classes
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray
from gpsuite.certificates.envelope import hash_array
from gpsuite.certificates.plain_kernel import UNIT64, kappa
from gpsuite.certificates.plain_model import (
    Known,
    ModelProducts,
    PlainLatent,
    PlainModel,
    congruence,
    largest_eigenvalue,
    operator_range,
    product_slack,
    reduction_of,
)
from gpsuite.untrusted import real, words

PROBIT, LOGISTIC, SOFTMAX, GAUSSIAN = "probit", "logistic", "softmax", "gaussian"
LINKS = (PROBIT, LOGISTIC)  # likelihoods of two classes that share one latent function
MODEL_ARRAYS = {"X": 2, "lengthscales": 1, "alpha": 2, "root": 3, "weights": 1}  # and their axes
MODEL_FIELDS = ("kernel", "variance", "likelihood", "noise", "squeeze")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Model:
    """The stored posterior of C latent functions.

    Attributes:
        X: [N, D] inputs.
        kernel: "squared_exponential", "matern32" or "matern52".
        variance: s of every function.
        lengthscales: [D].
        alpha: [C, N].
        root: [R, C, N] F.
        weights: [R] w.
        likelihood: "probit" or "logistic" (two classes, one function), "softmax" of C >= 2 functions, or "gaussian".
        noise: variance of Gaussian observations, 0 for classes.
        squeeze: squeeze of the probit, in the probability squeeze + (1 - 2 squeeze) Phi(t).
    """

    X: FloatArray
    kernel: str
    variance: float
    lengthscales: FloatArray
    alpha: FloatArray
    root: FloatArray
    weights: FloatArray
    likelihood: str
    noise: float = 0.0
    squeeze: float = 0.0

    @property
    def functions(self) -> int:
        """Number C of latent functions."""
        return len(self.alpha)

    @property
    def only(self) -> PlainLatent:
        """The latent function of a regression or of two classes."""
        return _latent(self, self.variance, self.alpha[0], self.root[:, 0])

    @property
    def binary(self) -> PlainModel:
        """The classifier of two classes, with the model's arrays."""
        return PlainModel(
            self.X, self.kernel, self.variance, self.lengthscales, self.alpha[0], self.root[:, 0], self.weights,
            self.likelihood, self.squeeze,
        )  # fmt: skip


def model_hash(model: Model) -> str:
    """Return the SHA-256 of the model's structure and floats."""
    about = tuple(getattr(model, name) for name in MODEL_FIELDS)
    digest = hashlib.sha256(repr(about).encode())
    for name in MODEL_ARRAYS:
        hash_array(digest, name, np.asarray(getattr(model, name), dtype=np.float64))
    return digest.hexdigest()


def pack_model(model: Model) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the plain JSON values of a model, and its arrays by the names that they have in the file."""
    about = {name: getattr(model, name) for name in MODEL_FIELDS}
    return about, {f"model_{name}": getattr(model, name) for name in MODEL_ARRAYS}


def parse_model(about: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Return the model that `pack_model` packed. `form.check_model` refuses invalid ones.

    Raises:
        KeyError: if a value is missing.
        TypeError, ValueError: if a value has the wrong type.
    """
    texts = {name: words(about[name]) for name in ("kernel", "likelihood")}
    numbers = {name: real(about[name]) for name in MODEL_FIELDS if name not in texts}
    return Model(**texts, **numbers, **{name: arrays[f"model_{name}"] for name in MODEL_ARRAYS})  # type: ignore[arg-type]


def _latent(model: Model, variance: float, alpha: FloatArray, root: FloatArray) -> PlainLatent:
    used = np.abs(root).max(axis=1, initial=0.0) > 0.0
    root, weights = np.ascontiguousarray(root[used]), model.weights[used]
    return PlainLatent(model.X, model.kernel, variance, model.lengthscales, alpha, root, weights)


class JointProducts:
    """Terms of the bounds of all differences that do not depend on the point and its free inputs, computed once.

    Args:
        model: model of several classes.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._pairs: dict[Pair, tuple[PlainLatent, PairProducts]] = {}

    @cached_property
    def prior(self) -> FloatArray:
        """Kernel between the data, [N, N]."""
        model = self.model
        return np.asarray(kappa(model.kernel, cdist(model.X, model.X, "seuclidean", V=model.lengthscales**2)))

    @cached_property
    def operator(self) -> tuple[float, float]:
        """(nu, g) with -nu <= G <= g for the joint covariance operator, units of s."""
        model, rank = self.model, len(self.model.weights)
        n, inputs = model.X.shape
        unit = np.full(n, n + 4.0 * inputs + 64.0)
        gram, slack = np.zeros((rank, rank)), 0.0
        for c in range(model.functions):
            one = PlainLatent(
                model.X, model.kernel, model.variance, model.lengthscales, model.alpha[c],
                np.ascontiguousarray(model.root[:, c]), np.ones(rank),
            )  # fmt: skip
            gram += model.variance * congruence(one.root, self.prior)
            slack += product_slack(one, np.ones(n), unit, one.weights)
        # plus the sum over the functions. The slack's terms bound the sizes of its entries
        rounding = 4 * slack + 4 * UNIT64 * model.functions * float(np.sqrt(np.sum(gram**2)))
        return operator_range(model.weights, largest_eigenvalue(gram, rounding))

    def pair(self, i: int, j: int) -> tuple[PlainLatent, PairProducts]:
        """Return the difference of two functions and its products.

        Each difference of weights has one rounding, far below the 64 allowed for sums over the data.
        """
        if (i, j) not in self._pairs:
            model = self.model
            alpha = 0.5 * (model.alpha[i] - model.alpha[j])
            latent = _latent(model, 2.0 * model.variance, alpha, 0.5 * (model.root[:, i] - model.root[:, j]))
            self._pairs[i, j] = latent, PairProducts(latent, self)
        return self._pairs[i, j]


class PairProducts:
    """The products of one difference, in double precision."""

    most_extended = 0

    def __init__(self, latent: PlainLatent, joint: JointProducts) -> None:
        self.latent, self.joint = latent, joint
        self._known: Known | None = None

    def known(self, extended: bool) -> Known:
        if self._known is None:
            alpha = self.latent.alpha
            slack = 4 * ModelProducts(self.latent).slack_mean * float(np.sum(np.abs(alpha)))
            norm2 = max(0.0, float(alpha @ self.joint.prior @ alpha)) + slack
            self._known = Known(reduction_of(self.latent, self.latent.root), *self.joint.operator, norm2)
        return self._known
