"""The models, groups and broken assumptions of the coverage study, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    SparseKernelRidge,
)
from gpsuite.methods.perturbation.ranks import Group, Permutations, SignChanges, SignedPermutations
from gpsuite.models.radial import kappa, squared_distances

DOMAIN = 2.0  # inputs are uniform on [-2, 2]
LENGTHSCALE = 0.4
CENTRES = np.linspace(-1.5, 1.5, 4)[:, None]
NONZERO = 0.4  # share of LASSO's true coefficients that are not zero, where its objective is not smooth
GROUPS: dict[str, Group] = {
    "signs": SignChanges(),
    "permutations": Permutations(),
    "signed_permutations": SignedPermutations(),
}


@dataclass(frozen=True)
class CoverageModel:
    """A model of the study.

    Attributes:
        title: in tables and figures.
        objective: of inputs [n, 1].
        draw_truth: generator, number of coefficients p -> true ones [p].
    """

    title: str
    objective: Callable[[FloatArray], Objective]
    draw_truth: Callable[[np.random.Generator, int], FloatArray] = lambda rng, p: rng.standard_normal(p)


def _sparse_truth(rng: np.random.Generator, p: int) -> FloatArray:
    return np.asarray(rng.standard_normal(p) * (rng.uniform(size=p) < NONZERO))


MODELS = {
    "lssvm_linear": CoverageModel("LS-SVM, linear", lambda X: LinearLSSVM(X, 1.0)),
    "lssvm_kernel": CoverageModel("LS-SVM, kernel", lambda X: KernelLSSVM(_gram(X, X), 1.0)),
    "krr": CoverageModel("kernel ridge", lambda X: KernelRidge(_gram(X, X), 0.05)),
    "krr_sparse": CoverageModel(
        "kernel ridge, 4 centres", lambda X: SparseKernelRidge(_gram(X, CENTRES), _gram(CENTRES, CENTRES), 0.02)
    ),
    "svr": CoverageModel("ε-SVR", lambda X: EpsilonSVR(_gram(X, X), 12.0, 0.2)),
    "klasso": CoverageModel("kernel LASSO", lambda X: KernelLasso(_gram(X, X), 0.15), _sparse_truth),
}


@dataclass(frozen=True)
class Break:
    """A way to violate what exactness rests on.

    Attributes:
        assumption: of the paper, or another missing condition.
        group: key of `GROUPS`.
        noise: key of `NOISES`.
        models: those it is shown for; none: every one.
        needed: whether the paper's statement that the assumptions are needed is about it.
        design: how the inputs arise (`fixed`, `repeated`, or per repetition `labels`, `endogenous`, `autoregression`).
        break_ties: whether the tie-breaking permutation is used.
    """

    assumption: str
    group: str
    noise: str
    models: tuple[str, ...] = ()
    needed: bool = False
    design: str = "fixed"
    break_ties: bool = True


BREAKS: dict[str, Break] = {
    "asymmetric noise": Break("A3", "signs", "lognormal_centred", needed=True),
    "repeated inputs": Break("A1", "signs", "laplace", ("krr", "lssvm_kernel", "svr"), True, "repeated"),
    "class labels": Break("A2, A3", "signs", "laplace", ("lssvm_linear",), True, "labels"),
    "inputs depend on the noise": Break("A2", "signs", "laplace", ("lssvm_linear",), True, "endogenous"),
    "autoregression": Break("A2", "signs", "laplace", ("lssvm_linear",), True, "autoregression"),
    "biased noise": Break("A3", "signs", "gaussian_biased"),
    "scale depends on the input": Break("A3", "permutations", "heteroscedastic"),
    "ties not broken": Break("tie-breaking", "signs", "zero", break_ties=False),
}


def draw_inputs(rng: np.random.Generator, n: int, repeated: bool = False) -> FloatArray:
    """Return scalar inputs [n, 1]. `repeated`: in pairs 1e-6 apart, as the models refuse equal ones."""
    if not repeated:
        return rng.uniform(-DOMAIN, DOMAIN, (n, 1))
    X = np.repeat(rng.uniform(-DOMAIN, DOMAIN, ((n + 1) // 2, 1)), 2, axis=0)[:n]
    return np.asarray(X + 1e-6 * (np.arange(n) % 2)[:, None])


def _gram(A: FloatArray, B: FloatArray) -> FloatArray:
    return kappa("squared_exponential", squared_distances(A / LENGTHSCALE, B / LENGTHSCALE))
