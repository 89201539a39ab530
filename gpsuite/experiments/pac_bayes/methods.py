"""Methods of the family: a GP regressor whose risk a PAC-Bayes bound certifies, however it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar, cast

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, METHODS, Method, MethodOptions
from gpsuite.experiments.pac_bayes.training import (
    Trained,
    Training,
    best_start,
    cut_short,
    first_inducing,
    trained,
    trained_sparse,
)
from gpsuite.experiments.settings import Count, one_of
from gpsuite.experiments.tasks import left_out_as
from gpsuite.methods.pac_bayes.bounds import OBJECTIVES
from gpsuite.methods.pac_bayes.cost import Cost, full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.full_gp import maximise_full_likelihood, train_full_gp
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormPosterior, train_free_form
from gpsuite.methods.pac_bayes.sparse.objective import Form
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import StagedSearch, train_sparse_gp, train_sparse_likelihood
from gpsuite.models.config import Hyperparameters

REGRESSION = ("regression",)
RISK_BOUND = "risk_bound"  # the trait of every one
FULL, SPARSE = "full", "sparse"  # an exact GP, or one with inducing inputs: its options are `SparseOptions`
# what training does. A likelihood knows no goal
BOUND, LIKELIHOOD = "minimises_bound", "maximises_likelihood"
PARAMETRISATIONS = ("softplus", "log")
PUBLISHED, STAGED = "published", "staged"  # searches of the sparse methods
FITC_ALPHA, VFE_ALPHA = 1.0, 0.0  # of the sparse posteriors
Options = TypeVar("Options", bound=MethodOptions)


@dataclass(frozen=True, kw_only=True)
class BoundOptions(MethodOptions):
    """A GP trained by minimising a PAC-Bayesian bound.

    Attributes:
        objective: the bound to minimise: kl (inverse kl), sqrt (the looser R + sqrt(c/2)), quadratic, lambda, catoni.
        parametrisation: variables of the search. The published runs use softplus. Log collapses less often.
    """

    objective: Annotated[str, one_of(OBJECTIVES)]
    parametrisation: Annotated[str, one_of(PARAMETRISATIONS)] = "softplus"

    @property
    def heading(self) -> str:
        """The title. With the bound that is minimised if it does not begin with it."""
        own = super().heading
        return own if own.startswith(f"{self.objective}-") else f"{own}, {self.objective} objective"


def bound_problem(work: Training[BoundOptions], loss: Loss) -> RiskProblem:
    """Return the bound that a training minimises."""
    return RiskProblem(work.X, work.y, loss, work.delta, work.options.objective, work.ard)


@dataclass(frozen=True, kw_only=True)
class SparseOptions(MethodOptions):
    """A GP with inducing inputs.

    Attributes:
        inducing: number of inducing inputs M, started from k-means centres. At most the training rows.
        search: published (L-BFGS-B on all rows) or staged (first on subsets of the rows). Staged ends lower and
            sooner. Its variables are logarithms, and an evaluation on some of the rows counts as that share of one.
    """

    inducing: Count = 100
    search: Annotated[str, one_of((PUBLISHED, STAGED))] = field(default=PUBLISHED, metadata=left_out_as(PUBLISHED))

    @property
    def heading(self) -> str:
        """The title, with the search if it is not the published one."""
        own = super().heading
        return own if self.search == PUBLISHED else f"{own}, {self.search} search"

    def search_within(
        self, budget: Budget, start: Hyperparameters | None = None, parametrisation: str = "softplus"
    ) -> Search:
        """Return the search that is requested, from a start (None: the published one) and within a budget."""
        if self.search == STAGED:
            return StagedSearch(budget, start)
        return Search(budget, start, parametrisation)


@dataclass(frozen=True)
class FitSize:
    """Sizes that decide how long a fit takes.

    Attributes:
        rows: training rows.
        test_rows: rows that the certificate's metrics are taken on.
        inputs: D.
        losses: under how many losses it is certified.
    """

    rows: int
    test_rows: int
    inputs: int
    losses: int = 1


def single_start(options: MethodOptions) -> int:
    """Return 1: a method without further rule trains once, from the published start."""
    return 1


def no_training_shared(options: MethodOptions) -> str:
    """Return no common name: every task trains again, because the training depends on the task's goal."""
    return ""


@dataclass(frozen=True, kw_only=True)
class RiskMethod(Method[Options]):
    """A method of this family.

    Attributes:
        train: the rows, options and limits, and the loss that is bounded -> the trained model.
        train_from: train once from given inducing inputs [M, D]. None for a full GP.
        certify: options, rounded hyperparameters, training inputs [N, D] and targets [N], trained model -> the
            posterior whose risk and KL enter the bound.
        cost: seconds of an evaluation and of the certificate on this machine.
        starts: options -> how many starts it trains from.
        shares_training: options -> the name of a training that serves every goal and posterior. Empty for none.
    """

    train: Callable[[Training[Options], Loss], Trained]
    certify: Callable[[Options, Hyperparameters, FloatArray, FloatArray, Trained], Posterior]
    cost: Callable[[Options, FitSize], Cost]
    train_from: Callable[[Training[Options], Loss, FloatArray], Trained] | None = None
    starts: Callable[[Options], int] = single_start
    shares_training: Callable[[Options], str] = no_training_shared


def risk_method(options: MethodOptions) -> RiskMethod[Any]:
    """Return how the options' method trains and certifies: all methods of the family are of this kind."""
    return cast(RiskMethod[Any], options.method)


def sparse_options(options: MethodOptions) -> SparseOptions | None:
    """Return the options of a method with inducing inputs. None for a full GP's."""
    return cast(SparseOptions, options) if SPARSE in options.method.traits else None


def with_inducing(options: MethodOptions, inducing: int) -> MethodOptions:
    """Return the options with another number of inducing inputs M. A full GP's as they are."""
    sparse = sparse_options(options)
    return options if sparse is None else replace(sparse, inducing=inducing)


def full_cost(options: MethodOptions, size: FitSize) -> Cost:
    """Return the cost of a full GP, regardless of its options."""
    return full_gp_cost(size.rows, size.test_rows, size.losses)


def sparse_cost(options: SparseOptions, size: FitSize, minimised: str = "bound") -> Cost:
    """Return the cost of a sparse GP. `minimised` says what: a bound, or the likelihood fitc or vfe."""
    return sparse_gp_cost(size.rows, size.test_rows, options.inducing, size.inputs, minimised, size.losses)


# PAC-GP: a full GP trained by minimising a PAC-Bayesian bound (Sec. 3.1, Eq. 5 of Reeb et al. 2018).


@dataclass(frozen=True, kw_only=True)
class PacGPOptions(BoundOptions):
    """A full GP trained by minimising a PAC-Bayesian bound.

    Attributes:
        starts: trainings from different starts, the best bound kept, 1 is the published single start.
    """

    starts: Count = 1

    @property
    def heading(self) -> str:
        """The title, with the starts if there are more than one."""
        own = super().heading
        return own if self.starts == 1 else f"{own}, {self.starts} starts"


def minimise_bound(work: Training[PacGPOptions], loss: Loss) -> Trained:
    """Train a full GP on its bound, from one start or more."""
    options = work.options

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        budget = work.budget(clock.left, number, options.starts)
        return trained(train_full_gp(bound_problem(work, loss), Search(budget, start, options.parametrisation)))

    return best_start(train, work, options.starts)


def exact_posterior(
    options: MethodOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> FullGPPosterior:
    """Return the exact posterior at the rounded hyperparameters."""
    return FullGPPosterior.fit(found, X, y)


METHODS.register("pac_gp")(
    RiskMethod(
        options=PacGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, FULL, BOUND}),
        version=2,  # records hold a certificate
        train=minimise_bound,
        certify=exact_posterior,
        cost=full_cost,
        starts=lambda options: options.starts,
    )
)


# A full GP trained by its marginal likelihood (Rasmussen & Williams 2006, Eq. 2.30), certified afterwards.


@dataclass(frozen=True, kw_only=True)
class FullGPOptions(MethodOptions):
    """A full GP trained by its marginal likelihood."""


def maximise_likelihood(work: Training[FullGPOptions], loss: Loss) -> Trained:
    """Train a full GP by its marginal likelihood, which does not know the loss."""
    found, search = maximise_full_likelihood(work.X, work.y, work.ard, work.budget(work.clock.left))
    return Trained(found, search.status, search.reason, search.evaluations, search.loss)


METHODS.register("full_gp")(
    RiskMethod(
        options=FullGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, FULL, LIKELIHOOD}),
        version=3,  # trained without TensorFlow: the search stops elsewhere along flat directions
        train=maximise_likelihood,
        certify=exact_posterior,
        cost=full_cost,
        shares_training=lambda options: options.builder,
    )
)


# A sparse GP trained by VFE's lower bound (Titsias 2009) or FITC's likelihood (Snelson & Ghahramani 2006).


ALPHAS = {"vfe": VFE_ALPHA, "fitc": FITC_ALPHA}


@dataclass(frozen=True, kw_only=True)
class SparseGPOptions(SparseOptions):
    """A sparse GP trained by its own objective, over hyperparameters and inducing inputs.

    Attributes:
        likelihood: the objective: vfe (Titsias' lower bound) or fitc (FITC's marginal likelihood).
        posterior: posterior whose risk and KL are certified. VFE training can also be certified with FITC's posterior.
        parametrisation: variables of the search, softplus (GPflow's) or log.
    """

    likelihood: Annotated[str, one_of(ALPHAS)]
    posterior: Annotated[str, one_of(ALPHAS)]
    parametrisation: Annotated[str, one_of(PARAMETRISATIONS)] = "softplus"


def maximise_sparse_likelihood(work: Training[SparseGPOptions], loss: Loss) -> Trained:
    """Train a sparse GP by VFE's lower bound or FITC's marginal likelihood. Both ignore the loss."""
    clock = work.clock
    Z, cut = first_inducing(work, work.options.inducing, 0, clock)
    return cut_short(_search(work, Z, work.budget(clock.left)), cut)


def maximise_from(work: Training[SparseGPOptions], loss: Loss, Z: FloatArray) -> Trained:
    """Train once from given inducing inputs [M, D]."""
    return _search(work, Z, work.budget(work.clock.left))


def _search(work: Training[SparseGPOptions], Z: FloatArray, budget: Budget) -> Trained:
    options = work.options
    form, search = (cast(Form, options.likelihood), options.search_within(budget, None, options.parametrisation))
    fit = train_sparse_likelihood(work.X, work.y, Z, form, work.ard, search)
    return trained_sparse(fit)


def own_posterior(
    options: SparseGPOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> SparseGPPosterior:
    """Return the posterior that the options request, at the rounded hyperparameters."""
    return sparse_posterior(found, X, y, fit, ALPHAS[options.posterior])


def likelihood_cost(options: SparseGPOptions, size: FitSize) -> Cost:
    return sparse_cost(options, size, options.likelihood)


METHODS.register("sparse_gp")(
    RiskMethod(
        options=SparseGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, LIKELIHOOD}),
        version=2,  # certificates are rounded outwards, with a jitter where rounding decides a pivot
        train=maximise_sparse_likelihood,
        train_from=maximise_from,
        certify=own_posterior,
        cost=likelihood_cost,
        shares_training=lambda options: f"{options.likelihood}/{options.inducing}/{options.search}",
    )
)


# PAC-SGP: a sparse GP in the FITC form trained by minimising a bound (Sec. 3.2, Eq. 9 to 11 of Reeb et al. 2018).


@dataclass(frozen=True, kw_only=True)
class SparseBoundOptions(BoundOptions, SparseOptions):
    """A sparse GP trained by minimising a PAC-Bayesian bound."""


@dataclass(frozen=True, kw_only=True)
class PacSGPOptions(PacGPOptions, SparseBoundOptions):
    """A sparse GP in the FITC form, trained by minimising a bound over hyperparameters and inducing inputs."""


def minimise_sparse_bound(work: Training[PacSGPOptions], loss: Loss) -> Trained:
    """Train a sparse GP in the FITC form on its bound, from one start or more."""
    starts = work.options.starts

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        Z, cut = first_inducing(work, work.options.inducing, number, clock)
        budget = work.budget(clock.left, number, starts)
        return cut_short(search_sparse_bound(work, loss, Z, start, budget), cut)

    return best_start(train, work, starts)


def minimise_from(work: Training[PacSGPOptions], loss: Loss, Z: FloatArray) -> Trained:
    """Train once from the published start and given inducing inputs [M, D]."""
    return search_sparse_bound(work, loss, Z, None, work.budget(work.clock.left))


def search_sparse_bound(
    work: Training[SparseBoundOptions], loss: Loss, Z: FloatArray, start: Hyperparameters | None, budget: Budget
) -> Trained:
    """Minimise the bound of the FITC form from a start (None: the published one) within a separate budget."""
    search = work.options.search_within(budget, start, work.options.parametrisation)
    return trained_sparse(train_sparse_gp(bound_problem(work, loss), Z, FITC_ALPHA, search))


def fitc_posterior(
    options: MethodOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> SparseGPPosterior:
    """Return FITC's posterior at the rounded hyperparameters and the trained inducing inputs."""
    return sparse_posterior(found, X, y, fit, FITC_ALPHA)


def sparse_posterior(
    found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained, alpha: float
) -> SparseGPPosterior:
    """Return the sparse posterior of an alpha at the rounded hyperparameters and the trained inducing inputs.

    Raises:
        ValueError: if the fit has no inducing inputs.
    """
    if fit.Z is None:
        raise ValueError("a sparse posterior needs inducing inputs")
    return SparseGPPosterior.fit(found, X, y, fit.Z, alpha)


METHODS.register("pac_sgp")(
    RiskMethod(
        options=PacSGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, BOUND}),
        version=2,  # certificates are rounded outwards, with a jitter where rounding decides a pivot
        train=minimise_sparse_bound,
        train_from=minimise_from,
        certify=fitc_posterior,
        cost=sparse_cost,
        starts=lambda options: options.starts,
    )
)


# A sparse GP whose posterior N(a, B) is left free (Sec. 3.2 of Reeb et al. 2018), trained from kl-PAC-SGP's.


# Of the seconds: what the training of the FITC form, from which the free posterior starts, may take.
FIRST_SHARE = 0.6


@dataclass(frozen=True, kw_only=True)
class FreeFormOptions(SparseBoundOptions):
    """A sparse GP whose posterior N(a, B) of the inducing variables is free, trained on a bound."""

    inducing: int = 50


def minimise_free_form(work: Training[FreeFormOptions], loss: Loss, Z: FloatArray | None = None) -> Trained:
    """Train a sparse GP in the FITC form on its bound, then free its posterior: the bound can only fall.

    Args:
        work: the training.
        loss: that is bounded.
        Z: inducing inputs [M, D] to start from; default: k-means centres.
    """
    options, clock = work.options, work.clock
    first = _fitc_form(work, loss, Z)
    if first.status == DIVERGED or first.Z is None:
        return first
    if not work.fits(clock):
        return replace(first, status=BUDGET, reason="the seconds left have no room for a free posterior")
    search = Search(work.budget(clock.left), first.hyperparameters, options.parametrisation)
    fit = train_free_form(bound_problem(work, loss), first.Z, FITC_ALPHA, search)
    freed = trained(fit.gp)
    evaluations = first.evaluations + freed.evaluations
    whole = replace(freed, evaluations=evaluations, Z=fit.Z, jitter=fit.jitter, gaussian=fit.gaussian)
    limited = first.status == BUDGET and work.seconds is not None and freed.status != DIVERGED
    return replace(whole, status=BUDGET, reason=first.reason) if limited else whole


def _fitc_form(work: Training[FreeFormOptions], loss: Loss, Z: FloatArray | None) -> Trained:
    clock, cut = Budget(None if work.clock.left is None else FIRST_SHARE * work.clock.left), False
    if Z is None:
        Z, cut = first_inducing(work, work.options.inducing, 0, clock)
    return cut_short(search_sparse_bound(work, loss, Z, None, work.budget(clock.left)), cut)


def free_posterior(
    options: FreeFormOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> Posterior:
    """Return the free posterior, carried to the rounded hyperparameters. The FITC form if none was freed."""
    if fit.Z is None or fit.gaussian is None:
        return fitc_posterior(options, found, X, y, fit)
    return FreeFormPosterior.carry(found, X, y, fit.Z, fit.gaussian, fit.jitter)


METHODS.register("free_form")(
    RiskMethod(
        options=FreeFormOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, BOUND}),
        version=3,  # the jitter stored is that of the best value. Certificates are rounded outwards
        train=minimise_free_form,
        train_from=minimise_free_form,
        certify=free_posterior,
        cost=sparse_cost,
    )
)
