"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import METHODS, MethodBuilder, MethodOptions, require
from gpsuite.methods.pac_bayes.bounds import OBJECTIVES

REGRESSION = ("regression",)


@dataclass(frozen=True)
class PacGPOptions(MethodOptions):
    """A full GP trained by minimising a PAC-Bayesian bound.

    Attributes:
        objective: the bound to minimise: kl (inverse kl), sqrt (the looser R + sqrt(c/2)), quadratic, lambda, catoni.
        parametrisation: of the search; softplus is the published runs', log collapses less often.
    """

    objective: str
    parametrisation: str = "softplus"

    def check(self) -> None:
        """Refuse an unknown objective or parametrisation."""
        known_bounds = ", ".join(OBJECTIVES)
        require(self.objective in OBJECTIVES, "method.objective", self.objective, f"valid: {known_bounds}")
        known, given = ("softplus", "log"), self.parametrisation
        require(given in known, "method.parametrisation", given, f"valid: {', '.join(known)}")


@dataclass(frozen=True)
class PacSGPOptions(PacGPOptions):
    """A sparse GP in the FITC form, trained by minimising a bound over hyperparameters and inducing inputs.

    Attributes:
        inducing: number of inducing inputs M, started from k-means centres; at most the training rows.
    """

    inducing: int = 100

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        require(self.inducing >= 1, "method.inducing", self.inducing, "must be 1 or more")


@dataclass(frozen=True)
class FullGPOptions(MethodOptions):
    """A full GP trained by its marginal likelihood."""


METHODS.register("pac_gp")(MethodBuilder(PacGPOptions, REGRESSION))
METHODS.register("pac_sgp")(MethodBuilder(PacSGPOptions, REGRESSION))
METHODS.register("full_gp")(MethodBuilder(FullGPOptions, REGRESSION))
