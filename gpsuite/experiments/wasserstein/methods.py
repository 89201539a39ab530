"""Methods of the family: a classifier or a regression trained by minibatches, and the ones that ship."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import one_of
from gpsuite.methods.wasserstein.fitting import GP_CLASSIFIER_NAMES, NETWORK_CLASSIFIER_NAMES, REGRESSOR_NAMES

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import ClassifierFit, FittedClassifier
    from gpsuite.methods.wasserstein.regressors import FittedRegressor, RegressionFit

LABELS = "class probabilities"  # the trait of every classifier of the family
NUMBERS = "gaussian predictions"  # and of every regression
ENSEMBLE = "ensemble"
SECONDS = {"map": 0.3, "temperature": 0.3, "mc_dropout": 0.4, ENSEMBLE: 1.5, "laplace": 0.5}
_TEMPERED_EPOCHS = 1
Options = TypeVar("Options", bound=MethodOptions)


@dataclass(frozen=True, kw_only=True)
class ClassifierMethod(Method[Options]):
    """A classifier of the family.

    Attributes:
        train: options and a fit's rows, settings and limits -> the trained classifier.
        seconds: options -> CPU seconds for 10,000 rows times epochs of a dense network.
        trainings: options, members of an ensemble, numbers of inducing inputs tried -> how many models it trains.
        chaotic: whether thousands of steps over a network's weights magnify last bits.
    """

    train: Callable[[Options, ClassifierFit], FittedClassifier]
    seconds: Callable[[Options], float] = lambda options: 1.0
    trainings: Callable[[Options, int, int], int] = lambda options, members, tried: 1
    chaotic: bool = False


@dataclass(frozen=True, kw_only=True)
class RegressorMethod(Method[Options]):
    """A regression of the family. `train` takes the options and a fit's rows, settings and limits."""

    train: Callable[[Options, RegressionFit], FittedRegressor]


def classifier_method(options: MethodOptions) -> ClassifierMethod[Any]:
    """Return how the options' method trains: all with the trait `LABELS` are of this kind."""
    return cast(ClassifierMethod[Any], options.method)


def regressor_method(options: MethodOptions) -> RegressorMethod[Any]:
    """Return how the options' method trains: all with the trait `NUMBERS` are of this kind."""
    return cast(RegressorMethod[Any], options.method)


def regressor_version(options: MethodOptions) -> int:
    """Return the version of a regression's numbers.

    Since the third the epoch is the one of the best tempered validation density. The exact GP has no epochs. Since its
    fourth the sparse GP's search for a kernel refuses lengthscales that make an input noise.
    """
    name = options.regressor if isinstance(options, RegressorOptions) else ""
    return options.method.version + {"exact_gp": 0, "svgp": _TEMPERED_EPOCHS + 1}.get(name, _TEMPERED_EPOCHS)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(MethodOptions):
    """A network, or several.

    Attributes:
        classifier: name of the classifier.
    """

    classifier: Annotated[str, one_of(NETWORK_CLASSIFIER_NAMES)]


@dataclass(frozen=True, kw_only=True)
class GPClassifierOptions(MethodOptions):
    """A classifier around a Gaussian process prior whose kernel is chosen first.

    Attributes:
        classifier: name of the classifier.
    """

    classifier: Annotated[str, one_of(GP_CLASSIFIER_NAMES)]


@dataclass(frozen=True, kw_only=True)
class RegressorOptions(MethodOptions):
    """A regression with Gaussian predictions.

    Attributes:
        regressor: name of the regressor.
    """

    regressor: Annotated[str, one_of(REGRESSOR_NAMES)]


def _classifier(options: NetworkOptions | GPClassifierOptions, fit: ClassifierFit) -> FittedClassifier:
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS

    return CLASSIFIERS.get(options.classifier)(fit)


def _regressor(options: RegressorOptions, fit: RegressionFit) -> FittedRegressor:
    from gpsuite.methods.wasserstein.regressors import REGRESSORS

    return REGRESSORS.get(options.regressor)(fit)


METHODS.register("minibatch_classifier")(
    ClassifierMethod(
        options=NetworkOptions,
        dataset_tasks=("classification",),
        traits=frozenset({LABELS}),
        train=_classifier,
        seconds=lambda options: SECONDS.get(options.classifier, 1.0),
        trainings=lambda options, members, tried: members if options.classifier == ENSEMBLE else 1,
        chaotic=True,
    )
)
METHODS.register("minibatch_gp_classifier")(
    ClassifierMethod(
        options=GPClassifierOptions,
        dataset_tasks=("classification",),
        traits=frozenset({LABELS}),
        train=_classifier,
        trainings=lambda options, members, tried: tried if options.classifier.startswith("gwi") else 1,
    )
)
METHODS.register("minibatch_regressor")(
    RegressorMethod(
        options=RegressorOptions,
        dataset_tasks=("regression",),
        traits=frozenset({NUMBERS}),
        version=2,
        train=_regressor,
    )
)
