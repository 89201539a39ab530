"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import METHODS, MethodBuilder, MethodOptions, require
from gpsuite.methods.pac_bayes.bounds.objectives import OBJECTIVES

REGRESSION = ("regression",)
PARAMETRISATIONS = ("softplus", "log")
SPARSE_FORMS = ("vfe", "fitc")


@dataclass(frozen=True)
class PacGPOptions(MethodOptions):
    """A full GP trained by minimising a PAC-Bayesian bound.

    Attributes:
        objective: the bound to minimise: kl (inverse kl), sqrt (the looser R + sqrt(c/2)), quadratic, lambda, catoni.
        parametrisation: of the search; softplus is the published runs', log collapses less often.
        starts: trainings from different starts, the best bound kept; 1 is the published single start.
    """

    objective: str
    parametrisation: str = "softplus"
    starts: int = 1

    def check(self) -> None:
        """Refuse an unknown objective or parametrisation, and less than one start."""
        known_bounds = ", ".join(OBJECTIVES)
        require(self.objective in OBJECTIVES, "method.objective", self.objective, f"valid: {known_bounds}")
        _check_parametrisation(self.parametrisation)
        require(self.starts >= 1, "method.starts", self.starts, "must be 1 or more")


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
class FreeFormOptions(MethodOptions):
    """A sparse GP whose posterior N(a, B) of the inducing variables is free, trained on a bound from the FITC form's.

    Attributes:
        objective: the bound to minimise.
        parametrisation: of the search.
        inducing: number of inducing inputs M; at most the training rows.
    """

    objective: str
    parametrisation: str = "softplus"
    inducing: int = 50

    def check(self) -> None:
        """Refuse impossible values."""
        PacSGPOptions(self.builder, self.title, self.reference, self.objective, self.parametrisation,
                      inducing=self.inducing).check()  # fmt: skip


@dataclass(frozen=True)
class FullGPOptions(MethodOptions):
    """A full GP trained by its marginal likelihood."""


@dataclass(frozen=True)
class SparseGPOptions(MethodOptions):
    """A sparse GP trained by its own objective, over hyperparameters and inducing inputs.

    Attributes:
        likelihood: the objective: vfe (Titsias' lower bound) or fitc (FITC's marginal likelihood).
        posterior: whose risk and KL are certified; vfe training can also be certified with FITC's posterior.
        parametrisation: of the search, softplus (GPflow's) or log.
        inducing: number of inducing inputs M, started from k-means centres; at most the training rows.
    """

    likelihood: str
    posterior: str
    parametrisation: str = "softplus"
    inducing: int = 100

    def check(self) -> None:
        """Refuse impossible values."""
        for key in ("likelihood", "posterior"):
            given = getattr(self, key)
            require(given in SPARSE_FORMS, f"method.{key}", given, f"valid: {', '.join(SPARSE_FORMS)}")
        _check_parametrisation(self.parametrisation)
        require(self.inducing >= 1, "method.inducing", self.inducing, "must be 1 or more")


def _check_parametrisation(given: str) -> None:
    valid = ", ".join(PARAMETRISATIONS)
    require(given in PARAMETRISATIONS, "method.parametrisation", given, f"valid: {valid}")


# 2: records hold a certificate; the sparse ones are rounded outwards, with a jitter where rounding decides a pivot
METHODS.register("pac_gp")(MethodBuilder(PacGPOptions, REGRESSION, version=2))
METHODS.register("pac_sgp")(MethodBuilder(PacSGPOptions, REGRESSION, version=2))
METHODS.register("free_form")(MethodBuilder(FreeFormOptions, REGRESSION, version=2))
METHODS.register("full_gp")(MethodBuilder(FullGPOptions, REGRESSION, version=2))
METHODS.register("sparse_gp")(MethodBuilder(SparseGPOptions, REGRESSION, version=2))
