"""The family's methods: their options, as their files under conf/method set them, and how they are trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.robustness.classifiers import (
    MOST_CLASSES,
    ClassifierMethod,
    Problem,
    Trained,
    TrainingCost,
    median_distance,
    missing_class,
    too_few_of_a_class,
)
from gpsuite.experiments.robustness.tasks import (
    AT_HYPERPARAMETERS,
    AUTHORS,
    CLASSIFIER,
    GAUSSIAN_LATENT,
    ClassifierParams,
)
from gpsuite.experiments.settings import Count, Positive, Share, at_least, one_of
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.certified_training import candidates_for
from gpsuite.methods.wasserstein.fitting import TrainingRows, split_rows
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, NotConvergedError
from gpsuite.models.classification.authors_training import train_as_authors, train_several_as_authors
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.softmax_laplace import MultiClassProblem, softmax_laplace
from gpsuite.models.classification.training import (
    INFERENCES,
    PRIORS,
    StartOutsideBoxError,
    train_gpc,
    train_multiclass_gpc,
)
from gpsuite.models.classification.training import Trained as Searched
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import derived_seed, stream

CLASSIFICATION, REGRESSION = ("classification",), ("regression",)
REGRESSOR = "regressor"  # trait: a Gaussian latent posterior and Gaussian noise
MINIBATCH = ("gwi", "svgp")


@dataclass(frozen=True)
class GPCOptions(MethodOptions):
    """A Gaussian process classifier, trained by its approximate marginal likelihood.

    Attributes:
        inference: inference of the latent posterior: laplace or ep.
        link: class probability from the latent value: probit or logistic.
    """

    inference: Annotated[str, one_of(INFERENCES)]
    link: Annotated[str, one_of(LINKS)] = "probit"


def gpc(inference: str, link: str) -> GPCOptions:
    """Return the options of a classifier that has no file."""
    return GPCOptions("gpc", inference, "", inference, link)


def train_by_likelihood(problem: Problem, model: ClassifierParams, budget: Budget) -> Trained:
    """Maximise the approximate marginal likelihood. Of several classes Laplace's, with the softmax.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
        UserError: if the start is outside the search's box.
    """
    lengthscale = model.start_lengthscale * median_distance(problem.X)
    start, most = Hyperparameters(model.start_variance, (lengthscale,)), model.largest_variance
    C, inference, prior = len(problem.label_names), _gpc(model).inference, PRIORS.get(model.prior)
    with _scaling_named():
        if model.protocol == AUTHORS:
            found = _trained_as_authors(problem, model, budget)
        elif C > 2:
            several = train_multiclass_gpc(_several(problem, model), start, budget, most, prior)
            found = _as_trained(several, "laplace", model)
        else:
            two = train_gpc(_binary(problem, model), inference, start, budget, most, prior)
            found = _as_trained(two, inference, model)
    chosen = model.train_for_radius > 0.0 and len(problem.numbers) > 0
    return _trained_for_radius(problem, model, found, budget) if chosen else found


def _trained_as_authors(problem: Problem, model: ClassifierParams, budget: Budget) -> Trained:
    if len(problem.label_names) > 2:
        return _as_trained(train_several_as_authors(_several(problem, model), budget), "laplace", model)
    inference = _gpc(model).inference
    return _as_trained(train_as_authors(_binary(problem, model), inference, budget), inference, model)


def _trained_for_radius(problem: Problem, model: ClassifierParams, found: Trained, budget: Budget) -> Trained:
    """Return the classifier at the lengthscales with which most training rows are proved."""

    def fit(rows: IntArray, at: Hyperparameters) -> Any:
        part = replace(problem, X=problem.X[rows], y=problem.y[rows])
        if len(np.unique(part.y)) < len(problem.label_names):
            return None
        try:
            return _approximated(part, model, at).require_converged()
        except NotConvergedError:
            return None

    assert found.hyperparameters is not None
    radius, rng = model.train_for_radius, stream(model.draw_seed, "folds")
    classes, clock = problem.classes, budget.rest()
    tried = candidates_for(fit, problem.X, classes, found.hyperparameters, radius, problem.numbers, rng, clock)
    best = max(tried, key=lambda each: each.proved).hyperparameters if tried else found.hyperparameters
    end = _approximated(problem, model, best)
    if best == found.hyperparameters or not end.converged:
        return found
    sites = end.state if found.inference == "ep" else found.sites
    evidence = end.log_marginal_likelihood
    return replace(found, posterior=end.require_converged(), hyperparameters=best, evidence=evidence, sites=sites)


def _approximated(problem: Problem, model: ClassifierParams, at: Hyperparameters) -> Any:
    if len(problem.label_names) > 2:
        return softmax_laplace(_several(problem, model), at)
    return INFERENCES.get(_gpc(model).inference)(_binary(problem, model), at, None)


def _several(problem: Problem, model: ClassifierParams) -> MultiClassProblem:
    return MultiClassProblem(problem.X, problem.classes, len(problem.label_names), model.spec)


def _gpc(model: ClassifierParams) -> Any:
    return model.method


def _binary(problem: Problem, model: ClassifierParams, rows: int | None = None) -> BinaryProblem:
    return BinaryProblem(problem.X[:rows], problem.y[:rows], model.spec, LINKS.get(_gpc(model).link))


def _as_trained(found: Searched[Any], inference: str, model: ClassifierParams) -> Trained:
    cut = found.status == "budget" and found.evaluations < model.evaluations
    return Trained(
        posterior=found.fit.require_converged(),
        hyperparameters=found.hyperparameters,
        evidence=found.fit.log_marginal_likelihood,
        evaluations=found.evaluations,
        cut_short=found.reason if cut else "",
        inference=inference,
        sites=found.fit.state if inference == "ep" else np.empty((2, 0)),
    )


@contextmanager
def _scaling_named() -> Iterator[None]:
    """Name the setting that helps where training starts outside the search's box: starts are in units of the inputs."""
    try:
        yield
    except StartOutsideBoxError as error:
        fault = f"scaling: {error}\ninputs of such a scale need scaling=train"
        raise UserError(fault, key="scaling") from error


def refit_gpc(problem: Problem, model: ClassifierParams, at: Hyperparameters, rows: int) -> GPCFit:
    """Approximate the posterior of the first rows at given hyperparameters. It may not have converged."""
    return INFERENCES.get(_gpc(model).inference)(_binary(problem, model, rows), at, None)


METHODS.register("gpc")(
    ClassifierMethod(
        options=GPCOptions,
        dataset_tasks=CLASSIFICATION,
        traits=frozenset({CLASSIFIER, GAUSSIAN_LATENT, AT_HYPERPARAMETERS}),
        version=2,
        train=train_by_likelihood,
        most_classes=lambda options: 2 if options.inference == "ep" else MOST_CLASSES,
        refit=refit_gpc,
    )
)


@dataclass(frozen=True)
class MinibatchGPCOptions(MethodOptions):
    """A sparse Gaussian process classifier trained by minibatches, with the squared exponential.

    Attributes:
        inference: gwi (a mean in the kernel's basis, probit link, or robust max for several classes) or svgp (softmax).
        inducing: M as a multiple of sqrt(N).
        prior_evaluations: largest number of evaluations of the marginal likelihood that chooses the first kernel
            parameters.
        validation_share: share of the training rows that choose the epoch.
        epochs: largest number of epochs.
        patience: epochs without a better validation score after which training ends.
        batch: rows of a step.
        learning_rate: learning rate of Adam.
    """

    inference: Annotated[str, one_of(MINIBATCH)]
    inducing: Positive
    prior_evaluations: Count
    validation_share: Share
    epochs: Count
    patience: Count
    batch: Count
    learning_rate: Positive


@dataclass(frozen=True)
class MinibatchTraining:
    """Training of a sparse classifier, by `MinibatchGPCOptions`."""

    inducing: float
    prior_evaluations: int
    validation_share: float
    epochs: int
    patience: int
    batch: int
    learning_rate: float


@dataclass(frozen=True)
class MinibatchParams:
    """Parameters that decide a sparse classifier. Its link is that of two classes."""

    builder: str
    inference: str
    link: str
    training: MinibatchTraining


def minibatch_params(options: MinibatchGPCOptions) -> MinibatchParams:
    """Return the options as the keys hash them."""
    link = "probit" if options.inference == "gwi" else "logistic"
    return MinibatchParams(options.builder, options.inference, link, take(MinibatchTraining, options))


def minibatch_rows(problem: Problem, model: ClassifierParams) -> TrainingRows:
    """Return training and validation rows, labels 0, ..., C - 1.

    Raises:
        UserError: if the kernel is another than the squared exponential, the validation rows take every row of a class,
            or there are more inducing inputs than rows.
    """
    method = _minibatch(model)
    if model.kernel != "squared_exponential":
        fault = f"model: {method.inference} has the squared exponential only. Use model=se or model=se_ard"
        raise UserError(fault, key="model")
    share, rng = method.training.validation_share, stream(model.draw_seed, "validation")
    rows = split_rows(problem.X, problem.classes, share, rng)
    if missing := missing_class(problem, rows.y):
        fault = f"the validation rows take all training rows of class {missing}"
        raise too_few_of_a_class(fault, len(problem.y), model)
    return rows


def _minibatch(model: ClassifierParams) -> Any:
    return model.method


def check_minibatch(problem: Problem, model: ClassifierParams) -> None:
    """Raise UserError where `minibatch_rows` does, or where lengthscales are to be chosen that only minibatches fit."""
    if model.train_for_radius > 0.0:
        fault = f"train_for_radius={model.train_for_radius:g}: {_minibatch(model).inference} cannot choose lengthscales"
        raise UserError(f"{fault}\nuse method=laplace or method=ep", key="train_for_radius")
    minibatch_rows(problem, model)


def train_by_minibatches(problem: Problem, model: ClassifierParams, budget: Budget) -> Trained:
    """Train a sparse classifier. The budget's evaluations are those of dense classifiers and do not count.

    Raises:
        NotConvergedError: if the training diverged.
        UserError: as `minibatch_rows`.
    """
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, ClassifierFit
    from gpsuite.methods.wasserstein.fitting import ClassifierOptions, TrainingOptions
    from gpsuite.models.classification.links import PROBIT
    from gpsuite.models.classification.variational import softmax_posterior
    from gpsuite.models.random_elements.elements import certifiable_posterior, certifiable_robust_max

    method, C = _minibatch(model), len(problem.label_names)
    t = method.training
    options = ClassifierOptions(
        training=TrainingOptions(t.epochs, (t.batch,), (t.learning_rate,), t.patience),
        prior="se_ard" if model.ard else "se",
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
    )
    name = "svgp_softmax" if method.inference == "svgp" else "gwi_bernoulli" if C == 2 else "gwi_kernel"
    seed, clock = derived_seed(model.draw_seed, "minibatches"), budget.rest(observer=budget.observer)
    found = CLASSIFIERS.get(name)(ClassifierFit(minibatch_rows(problem, model), C, options, seed, clock))
    if found.report.status == "diverged":
        raise NotConvergedError(f"{method.inference}: {found.report.reason}")
    if name == "svgp_softmax":
        several = softmax_posterior(found.model.model)
        return Trained(several.difference(1, 0) if C == 2 else several)
    if C == 2:
        return Trained(certifiable_posterior(found.model.element, PROBIT))
    fault = "gpsuite verify has no bound of the robust maximum of several classes"
    return Trained(certifiable_robust_max(found.model.element, options.epsilon), uncertified=fault)


def minibatch_cost(model: ClassifierParams, rows: int, classes: int) -> TrainingCost:
    """Return what the epochs take, which grow with the rows. The posterior holds the inducing inputs."""
    return TrainingCost(2.0 * rows / 300, _minibatch(model).training.inducing * math.sqrt(rows))


METHODS.register("minibatch_gpc")(
    ClassifierMethod(
        options=MinibatchGPCOptions,
        dataset_tasks=CLASSIFICATION,
        traits=frozenset({GAUSSIAN_LATENT}),
        version=2,
        train=train_by_minibatches,
        decides=minibatch_params,
        kept_classes=lambda options: 2 if options.inference == "gwi" else MOST_CLASSES,
        check=check_minibatch,
        cost=minibatch_cost,
    )
)


@dataclass(frozen=True)
class GPRegressionOptions(MethodOptions):
    """Gaussian process regression, trained by its marginal likelihood or the bound of it.

    Attributes:
        inducing: inducing inputs of the sparse variational model, 0 for the exact one.
    """

    inducing: Annotated[int, at_least(0)] = 0


METHODS.register("gp_regression")(Method(GPRegressionOptions, REGRESSION, frozenset({REGRESSOR})))
