"""All classifiers of the family with one interface: a function of rows and options that returns predictions.

Equation: none, exports methods that state their own
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.baselines import (
    SoftmaxNetwork,
    build_mean_field,
    build_network,
    build_sparse_gp,
    from_members,
    last_layer_laplace,
)
from gpsuite.methods.wasserstein.fitting import ClassifierOptions, GWIOptions, TrainingRows
from gpsuite.methods.wasserstein.gwi import GWIClassifier, build_gwi_classifier, inducing_count
from gpsuite.methods.wasserstein.scoring import temperature, tempered
from gpsuite.methods.wasserstein.temperatures import class_temperatures
from gpsuite.methods.wasserstein.training import Trainable, TrainingReport, TrainingState, train
from gpsuite.models.classification import robust_max
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.classification.robust_max import checked_labels
from gpsuite.models.random_elements.likelihoods import Bernoulli, ClassLikelihood, ClassPrediction, RobustMax, Softmax
from gpsuite.registry import Registry
from gpsuite.seeds import derived_seed, stream

CLASSIFIERS: Registry[Callable[[ClassifierFit], FittedClassifier]] = Registry("classifier")


class StateKeeper(Protocol):
    """Store of the states of a fit's trainings between interruptions. `part` names the training."""

    def load(self, part: str) -> TrainingState | None: ...

    def save(self, part: str, state: TrainingState) -> None: ...


class NoKeeper:
    def load(self, part: str) -> TrainingState | None:
        return None

    def save(self, part: str, state: TrainingState) -> None: ...


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A trained classifier.

    Attributes:
        predict: class probabilities and data uncertainty of inputs [N, D].
        chosen: values that validation rows chose: temperature, precision.
        members: models of an ensemble.
        errors: function of inputs [N, D] and labels [N]. It returns differences between computed numbers and formulas,
            by name.
    """

    predict: Callable[[FloatArray], ClassPrediction]
    report: TrainingReport
    model: Any
    chosen: dict[str, float] = field(default_factory=dict)
    members: Sequence[SoftmaxNetwork] = ()
    errors: Callable[[FloatArray, IntArray], dict[str, float]] = lambda X, y: {}


@dataclass(frozen=True, eq=False)
class ClassifierFit:
    """One fit: data, options, seed, budget and the store of states.

    Raises:
        ValueError: if a label is not a class, or a class has no training row.
    """

    rows: TrainingRows
    n_classes: int
    options: ClassifierOptions
    seed: int
    budget: Budget
    keeper: StateKeeper = field(default_factory=NoKeeper)

    def __post_init__(self) -> None:
        train, validation = (checked_labels(y, len(y), self.n_classes) for y in (self.rows.y, self.rows.y_validation))
        object.__setattr__(self, "rows", replace(self.rows, y=train, y_validation=validation))
        missing = np.setdiff1d(np.arange(self.n_classes), self.rows.y)
        if missing.size:
            raise ValueError(f"no training row of class {', '.join(map(str, missing))}")

    def rng(self, *axes: str | int) -> np.random.Generator:
        return stream(self.seed, *axes)

    def trained(self, model: Trainable, part: str = "model", kept: str = "") -> TrainingReport:
        """Train a part of the fit. Its state is stored under the part's name, or as `kept`."""
        kept = kept or part
        return train(
            model,
            self.rows,
            self.options.training,
            derived_seed(self.seed, part),
            self.budget,
            self.keeper.load(kept),
            lambda state: self.keeper.save(kept, state),
        )


@CLASSIFIERS.register("gwi")
def _gwi(fit: ClassifierFit) -> FittedClassifier:
    """Return GWI with a network's mean and the robust-max likelihood (Wild et al. 2022)."""
    return _robust_gwi(fit)


@CLASSIFIERS.register("gwi_kernel")
def _gwi_kernel(fit: ClassifierFit) -> FittedClassifier:
    """Return GWI with a mean in the prior kernel's basis."""
    return _robust_gwi(fit, mean="kernel")


@CLASSIFIERS.register("gwi_softmax")
def _gwi_softmax(fit: ClassifierFit) -> FittedClassifier:
    likelihood = Softmax(fit.n_classes)
    return _with_temperatures(fit, _gwi_with(fit, likelihood), likelihood)


@CLASSIFIERS.register("gwi_nngp")
def _gwi_nngp(fit: ClassifierFit) -> FittedClassifier:
    """Return GWI around the prior of an infinitely wide ReLU network."""
    return _robust_gwi(fit, prior="nngp_relu")


@CLASSIFIERS.register("gwi_bernoulli")
def _gwi_bernoulli(fit: ClassifierFit) -> FittedClassifier:
    """Return GWI for two classes: one latent function, a kernel basis mean, probit link. It can be certified."""
    return _gwi_with(fit, _two_classes(fit), mean="kernel", prior_mean=0.0)


@CLASSIFIERS.register("svgp")
def _svgp(fit: ClassifierFit) -> FittedClassifier:
    return _sparse_gp(fit, RobustMax(fit.n_classes, fit.options.epsilon))


@CLASSIFIERS.register("svgp_softmax")
def _svgp_softmax(fit: ClassifierFit) -> FittedClassifier:
    return _sparse_gp(fit, Softmax(fit.n_classes))


@CLASSIFIERS.register("map")
def _map(fit: ClassifierFit) -> FittedClassifier:
    model, report = _network(fit)
    return FittedClassifier(model.predict, report, model)


@CLASSIFIERS.register("temperature")
def _temperature(fit: ClassifierFit) -> FittedClassifier:
    """Return the network with logits divided by a temperature chosen on validation rows (Guo et al. 2017)."""
    model, report = _network(fit)
    T = temperature(model.logits(fit.rows.X_validation), fit.rows.y_validation)
    return FittedClassifier(lambda X: from_members([tempered(model.logits(X), T)]), report, model, {"temperature": T})


@CLASSIFIERS.register("mc_dropout")
def _mc_dropout(fit: ClassifierFit) -> FittedClassifier:
    """Return a network trained and used with dropout (Gal & Ghahramani 2016)."""
    model, report = _network(fit, dropout=fit.options.dropout)
    seed = derived_seed(fit.seed, "dropout")
    return FittedClassifier(lambda X: model.predict_with_dropout(X, fit.options.draws, seed), report, model)


@CLASSIFIERS.register("ensemble")
def _ensemble(fit: ClassifierFit) -> FittedClassifier:
    """Return an ensemble of networks with different seeds (Lakshminarayanan et al. 2017)."""
    fits = [_network(fit, f"member-{member}") for member in range(fit.options.members)]
    models, reports = [model for model, _ in fits], [report for _, report in fits]
    worst = min(reports, key=lambda report: ("diverged", "budget", "done").index(report.status))
    return FittedClassifier(
        lambda X: from_members(model.predict(X).probabilities for model in models), worst, models, members=models
    )


@CLASSIFIERS.register("mean_field")
def _mean_field(fit: ClassifierFit) -> FittedClassifier:
    """Return a network with independent normal weights (Blundell et al. 2015)."""
    rows = fit.rows
    model = build_mean_field(fit.options.network, rows.X.shape[1], fit.n_classes, len(rows.X), fit.rng("start"))
    report = fit.trained(model)
    seed = derived_seed(fit.seed, "weights")
    return FittedClassifier(lambda X: model.predict(X, fit.options.draws, seed), report, model)


@CLASSIFIERS.register("laplace")
def _laplace(fit: ClassifierFit) -> FittedClassifier:
    """Return the Laplace approximation over the last layer of the network."""
    model, report = _network(fit)
    rows = fit.rows
    laplace = last_layer_laplace(model, rows.X, rows.X_validation, rows.y_validation)
    return FittedClassifier(laplace.predict, report, laplace, {"precision": laplace.precision})


def _robust_gwi(fit: ClassifierFit, **changes: Any) -> FittedClassifier:
    likelihood = RobustMax(fit.n_classes, fit.options.epsilon)
    found = _with_temperatures(fit, _gwi_with(fit, likelihood, **changes), likelihood)
    return replace(found, errors=lambda X, y: robust_max_errors(found.model, fit.options.epsilon, X, y))


def _with_temperatures(
    fit: ClassifierFit, found: FittedClassifier, likelihood: RobustMax | Softmax
) -> FittedClassifier:
    """Return the classifier with temperatures fitted on the validation rows, if the options request them."""
    if not fit.options.tempered or found.report.status == "diverged":
        return found
    element = found.model.element
    moments = element.predict(fit.rows.X_validation)
    alpha = class_temperatures(likelihood, moments[0], moments[1], fit.rows.y_validation)

    def predict(X: FloatArray) -> ClassPrediction:
        mean, variance = element.predict(X)
        return likelihood.predict(mean, alpha * variance)

    chosen = {f"temperature {label}": float(value) for label, value in enumerate(alpha)}
    return replace(found, predict=predict, chosen={**found.chosen, **chosen})


def robust_max_errors(model: GWIClassifier, epsilon: float, X: FloatArray, y: IntArray) -> dict[str, float]:
    """Return differences of training's and prediction's numbers from the notes' formulas, for GWI with robust max."""
    mean, variance = model.element.predict(X)
    S = robust_max.largest_probabilities(mean, variance)
    wrong = epsilon / (S.shape[1] - 1)
    p = model.predict(X).probabilities
    trained = model.likelihood.expected_log(mean, variance, y, None).numpy()
    own = S[np.arange(len(S)), y]
    formula = np.log(1.0 - epsilon) * own + np.log(wrong) * (1.0 - own)
    return {
        "expected_log_likelihood_error": float(np.abs(trained - formula).max()),
        "class_probability_error": float(np.abs(p - (1.0 - epsilon) * S - wrong * (1.0 - S)).max()),
        "class_probability_sum_error": float(np.abs(p.sum(axis=1) - 1.0).max()),
        "probability_sum_error": robust_max.sum_error(S),
        "hermite_sum_error": robust_max.sum_error(robust_max.gauss_hermite_probabilities(mean, variance, 50)),
        "prediction_is_argmax": float(np.mean(p.argmax(axis=1) == S.argmax(axis=1))),
    }


def _gwi_with(fit: ClassifierFit, likelihood: ClassLikelihood, **changes: Any) -> FittedClassifier:
    o = fit.options
    shared = GWIOptions(
        prior=o.prior,
        prior_mean=o.prior_mean,
        prior_evaluations=o.prior_evaluations,
        inducing=o.inducing,
        network=o.network,
        chosen=o.chosen,
    )
    settings = replace(shared, **changes)
    if not o.inducing_tried:
        return _trained_gwi(fit, likelihood, settings)
    found = {
        multiple: _trained_gwi(fit, likelihood, replace(settings, inducing=multiple), f"model-{multiple:g}")
        for multiple in o.inducing_tried
    }
    best = min(found, key=lambda multiple: found[multiple].report.state.best_score)
    report = next((each.report for each in found.values() if each.report.status == "budget"), found[best].report)
    report = replace(report, state=found[best].report.state)
    return replace(found[best], report=report, chosen={"inducing": best})


def _trained_gwi(
    fit: ClassifierFit, likelihood: ClassLikelihood, options: GWIOptions, kept: str = ""
) -> FittedClassifier:
    model = build_gwi_classifier(fit.rows.X, fit.rows.y, likelihood, options, fit.rng("start"), fit.budget.left)
    return FittedClassifier(model.predict, fit.trained(model, kept=kept), model)


def _sparse_gp(fit: ClassifierFit, likelihood: ClassLikelihood) -> FittedClassifier:
    o, X = fit.options, fit.rows.X
    model = build_sparse_gp(
        X,
        np.eye(fit.n_classes)[fit.rows.y],
        likelihood,
        o.prior,
        o.prior_mean,
        o.prior_evaluations,
        inducing_count(len(X), o.inducing),
        fit.rng("start"),
        fit.budget.left,
    )
    return FittedClassifier(model.predict, fit.trained(model), model)


def _network(fit: ClassifierFit, part: str = "model", dropout: float = 0.0) -> tuple[SoftmaxNetwork, TrainingReport]:
    rows = fit.rows
    model = build_network(
        fit.options.network, rows.X.shape[1], fit.n_classes, len(rows.X), fit.rng("start", part), dropout
    )
    return model, fit.trained(model, part)


def _two_classes(fit: ClassifierFit) -> Bernoulli:
    if fit.n_classes != 2:
        raise ValueError(f"{fit.n_classes} classes: the Bernoulli likelihood is for two")
    if fit.options.tempered:
        raise ValueError("tempered: two classes by one latent function have no temperature per class")
    return Bernoulli(PROBIT)
