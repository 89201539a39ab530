"""What a method of the family is: a GP regressor whose risk a PAC-Bayes bound certifies, however it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar, cast

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import Method, MethodOptions
from gpsuite.experiments.pac_bayes.shared.certificates import Fitted
from gpsuite.experiments.pac_bayes.shared.training import Trained, Training
from gpsuite.experiments.params import left_out_as
from gpsuite.experiments.settings import Count, one_of
from gpsuite.methods.pac_bayes.bounds.objectives import OBJECTIVES
from gpsuite.methods.pac_bayes.cost import Cost, full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.problem import Problem, Search
from gpsuite.methods.pac_bayes.sparse.staged_search import StagedSearch
from gpsuite.models.config import Hyperparameters

REGRESSION = ("regression",)


RISK_BOUND = "risk_bound"  # the trait of every one
FULL, SPARSE = "full", "sparse"  # an exact GP, or one with inducing inputs: its options are `SparseOptions`
# what training does; a likelihood knows no goal
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
        parametrisation: of the search; softplus is the published runs', log collapses less often.
    """

    objective: Annotated[str, one_of(OBJECTIVES)]
    parametrisation: Annotated[str, one_of(PARAMETRISATIONS)] = "softplus"

    @property
    def heading(self) -> str:
        """The title; with the bound that is minimised where it does not begin with that."""
        own = super().heading
        return own if own.startswith(f"{self.objective}-") else f"{own}, {self.objective} objective"


def bound_problem(work: Training[BoundOptions], loss: Loss) -> Problem:
    """Return the bound that a training minimises."""
    return Problem(work.X, work.y, loss, work.delta, work.options.objective, work.ard)


@dataclass(frozen=True, kw_only=True)
class SparseOptions(MethodOptions):
    """A GP with inducing inputs.

    Attributes:
        inducing: number of inducing inputs M, started from k-means centres; at most the training rows.
        search: published (L-BFGS-B on all rows) or staged (first on subsets of the rows; ends lower and sooner, its
            variables are logarithms, and an evaluation on some of the rows counts as that share of one).
    """

    inducing: Count = 100
    search: Annotated[str, one_of((PUBLISHED, STAGED))] = field(
        default=PUBLISHED, metadata=left_out_as(PUBLISHED)
    )

    @property
    def heading(self) -> str:
        """The title, with the search where it is not the published one."""
        own = super().heading
        return own if self.search == PUBLISHED else f"{own}, {self.search} search"

    def search_within(
        self, budget: Budget, start: Hyperparameters | None = None, parametrisation: str = "softplus"
    ) -> Search:
        """Return the search that is asked for, from a start (None: the published one) and within a budget."""
        if self.search == STAGED:
            return StagedSearch(budget, start)
        return Search(budget, start, parametrisation)


@dataclass(frozen=True)
class FitSize:
    """What decides how long a fit takes.

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
    """Say that it trains once, from the published start."""
    return 1


def no_training_shared(options: MethodOptions) -> str:
    """Say that every task trains anew: the training knows the task's goal."""
    return ""


@dataclass(frozen=True, kw_only=True)
class RiskMethod(Method[Options]):
    """A method of this family.

    Attributes:
        train: the rows, options and limits, and the loss that is bounded -> the trained model.
        train_from: the same, once, from given inducing inputs [M, D]; None for a full GP.
        certify: options, rounded hyperparameters, training inputs [N, D] and targets [N], trained model -> the
            posterior whose risk and KL enter the bound.
        cost: of an evaluation and of the certificate, here and now.
        starts: options -> how many starts it trains from.
        shares_training: options -> the name of a training that serves every goal and posterior; empty for none.
    """

    train: Callable[[Training[Options], Loss], Trained]
    certify: Callable[[Options, Hyperparameters, FloatArray, FloatArray, Trained], Fitted]
    cost: Callable[[Options, FitSize], Cost]
    train_from: Callable[[Training[Options], Loss, FloatArray], Trained] | None = None
    starts: Callable[[Options], int] = single_start
    shares_training: Callable[[Options], str] = no_training_shared


def risk_method(options: MethodOptions) -> RiskMethod[Any]:
    """Return how the options' method trains and certifies: all methods of the family are of this kind."""
    return cast(RiskMethod[Any], options.method)


def sparse_options(options: MethodOptions) -> SparseOptions | None:
    """Return the options of a method with inducing inputs; None for a full GP's."""
    return cast(SparseOptions, options) if SPARSE in options.method.traits else None


def with_inducing(options: MethodOptions, inducing: int) -> MethodOptions:
    """Return the options with another number of inducing inputs M; a full GP's as they are."""
    sparse = sparse_options(options)
    return options if sparse is None else replace(sparse, inducing=inducing)


def full_cost(options: MethodOptions, size: FitSize) -> Cost:
    """Return the cost of a full GP, whatever its options."""
    return full_gp_cost(size.rows, size.test_rows, size.losses)


def sparse_cost(options: SparseOptions, size: FitSize, minimised: str = "bound") -> Cost:
    """Return the cost of a sparse GP; `minimised` says what: a bound, or the likelihood fitc or vfe."""
    return sparse_gp_cost(size.rows, size.test_rows, options.inducing, size.inputs, minimised, size.losses)
