"""Settings of active_learning/convergence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Rule, at_least, filled, one_of, unique
from gpsuite.methods.active_learning.convergence import Kernel

TITLES: dict[Kernel, str] = {
    "se": "LMC, squared exponential",
    "matern52": "LMC, Matérn-5/2",
    "convolution": "convolution process",
}


LATENT_KERNELS = {"se": "squared_exponential", "matern52": "matern52"}


PARTIAL, FULL = "partial", "full"


UNCONSTRAINED, SAFE = "unconstrained", "safe"


SAFETY_STARTS = 3  # inputs of largest h, measured beforehand


Range = Annotated[
    list[float],
    Rule(
        lambda ends: len(ends) == 2 and 0.0 < ends[0] <= ends[1] < math.inf,
        "must be [lowest, highest], both above 0",
    ),
]


@dataclass
class ConvergenceSettings:
    """Settings of the convergence study; the paper gives the theory only, these numbers are ours.

    Attributes:
        kernels: se and matern52 (linear model of coregionalisation), convolution (Gaussian convolution process).
        dimensions: numbers D of inputs.
        regions: unconstrained (Theorem 2), safe (Theorem 3: the safe set of a Gaussian process, new at each query).
        outputs: partial (one output a query), full (all outputs of an input).
        runs: drawn processes and pools.
        queries: observed values of each run.
        fit_from: slopes are fitted from this number of observed values on, equally spaced in log n.
        pool: inputs in the pool, uniform on [-1, 1]^D.
        n_outputs: P.
        n_latent: L.
        lengthscales: range of the latent lengthscales.
        smoothing: range of the widths of the convolution process's smoothing.
        noise_sd: range of the outputs' noise standard deviations.
    """

    kernels: Annotated[list[Annotated[str, one_of(TITLES)]], filled, unique]
    dimensions: Annotated[list[Count], filled, unique]
    regions: Annotated[list[Annotated[str, one_of((UNCONSTRAINED, SAFE))]], filled, unique]
    outputs: Annotated[list[Annotated[str, one_of((PARTIAL, FULL))]], filled, unique]
    runs: Count
    queries: int
    fit_from: int
    pool: Annotated[int, at_least(SAFETY_STARTS)]
    n_outputs: Count
    n_latent: Count
    lengthscales: Range
    smoothing: Range
    noise_sd: Range

    def check(self) -> None:
        """Refuse too few queries to fit a slope: two, each of all outputs, and log n > 0."""
        least = 2 * self.n_outputs
        require(self.fit_from >= least, "fit_from", self.fit_from, f"must be {least} or more")
        enough = self.queries >= 2 * self.fit_from
        require(enough, "queries", self.queries, f"must be twice fit_from, {2 * self.fit_from}, or more")
