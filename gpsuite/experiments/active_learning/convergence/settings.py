"""Settings of active_learning/convergence."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require

TITLES = {
    "se": "LMC, squared exponential",
    "matern52": "LMC, Matérn-5/2",
    "convolution": "convolution process",
}


LATENT_KERNELS = {"se": "squared_exponential", "matern52": "matern52"}


PARTIAL, FULL = "partial", "full"


UNCONSTRAINED, SAFE = "unconstrained", "safe"


SAFETY_STARTS = 3  # inputs of largest h, measured beforehand


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

    kernels: list[str] = field(default_factory=lambda: list(TITLES))
    dimensions: list[int] = field(default_factory=lambda: [1, 2])
    regions: list[str] = field(default_factory=lambda: [UNCONSTRAINED, SAFE])
    outputs: list[str] = field(default_factory=lambda: [PARTIAL, FULL])
    runs: int = 10
    queries: int = 1200
    fit_from: int = 100
    pool: int = 600
    n_outputs: int = 2
    n_latent: int = 2
    lengthscales: list[float] = field(default_factory=lambda: [0.3, 1.0])
    smoothing: list[float] = field(default_factory=lambda: [0.1, 0.5])
    noise_sd: list[float] = field(default_factory=lambda: [0.1, 0.4])

    def check(self) -> None:
        """Refuse impossible values."""
        named = (("kernels", TITLES), ("regions", (UNCONSTRAINED, SAFE)), ("outputs", (PARTIAL, FULL)))
        for key, valid in named:
            values: list[str] = getattr(self, key)
            for value in values:
                if value not in valid:
                    raise unknown_name(key, value, valid)
            require(bool(values), key, values, "needs at least one name")
            require(len(set(values)) == len(values), key, values, "has a name twice")
        distinct = bool(self.dimensions) and len(set(self.dimensions)) == len(self.dimensions)
        require(distinct, "dimensions", self.dimensions, "must be one or more different numbers")
        require(min(self.dimensions) >= 1, "dimensions", self.dimensions, "must be 1 or more")
        for key, least in (("runs", 1), ("n_outputs", 1), ("n_latent", 1), ("pool", SAFETY_STARTS)):
            require(getattr(self, key) >= least, key, getattr(self, key), f"must be {least} or more")
        for key in ("lengthscales", "smoothing", "noise_sd"):
            values_of_key = getattr(self, key)
            ordered = len(values_of_key) == 2 and 0.0 < values_of_key[0] <= values_of_key[1] < float("inf")
            require(ordered, key, values_of_key, "must be [lowest, highest], both above 0")
        # two queries, each of all outputs, and log n > 0
        least = 2 * self.n_outputs
        require(self.fit_from >= least, "fit_from", self.fit_from, f"must be {least} or more")
        enough = self.queries >= 2 * self.fit_from
        require(enough, "queries", self.queries, f"must be twice fit_from, {2 * self.fit_from}, or more")
