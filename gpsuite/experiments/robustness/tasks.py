"""Settings of every experiment on trained classifiers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Protocol

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import MethodOptions, Request, require
from gpsuite.experiments.robustness.methods import GPCOptions, MinibatchGPCOptions
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, between, one_of
from gpsuite.experiments.tasks import plain
from gpsuite.models.classification.training import SEARCH_RANGE
from gpsuite.models.config import ModelSpec
from gpsuite.seeds import derived_seed

AGREEMENT = 1e-3  # trained for some steps only, then searched up to a tolerance: last bits grow
SCALINGS = ("none", "all", "train", "pixels")


two_or_none = Rule(
    lambda names: len(names) in (0, 2) and len(set(names)) == len(names),
    "name two different labels, or none: classes=[A,B]",
)
up_to_ten = Rule(
    lambda names: len(names) in (0, *range(2, 11)) and len(set(names)) == len(names),
    "name two to ten different labels, or none: classes=[A,B,C]",
)
in_search_range = Rule(
    lambda value: SEARCH_RANGE[0] < value <= SEARCH_RANGE[1],
    f"must be above {SEARCH_RANGE[0]:g} and at most {SEARCH_RANGE[1]:g}",
)
Radius = Annotated[float, Rule(lambda value: 0 <= value < math.inf, "a radius must be a number of 0 or more")]


class ChosenPoints:
    """Settings that name test rows: those in `points`, or the first `count`."""

    test_rows: int
    points: list[int]
    count: int

    def refuse_absent_points(self) -> None:
        """Refuse test rows that there are not."""
        last = self.test_rows - 1
        for point in self.points:
            require(0 <= point <= last, "points", point, f"the test rows are numbered 0 to {last}")
        require(self.count <= self.test_rows, "count", self.count, f"must be 1 to {self.test_rows}")

    @property
    def chosen_points(self) -> list[int]:
        """The test rows that are taken."""
        return self.points or list(range(self.count))


@dataclass
class TrainingSettings:
    """Settings of classifiers trained on random rows of a dataset.

    Attributes:
        train_rows: training rows; fewer where the test rows leave no more.
        test_rows: test rows.
        classes: two labels of a dataset with more, the negative class first; empty: the dataset's own two.
        start_variance: kernel variance that training starts from.
        start_lengthscale: lengthscale that training starts from, in median distances of the training inputs.
        largest_variance: end of the search for the variance; the evidence of separable data may rise without end.
    """

    train_rows: Annotated[int, at_least(2)]
    test_rows: Count
    classes: Annotated[list[str], two_or_none]
    start_variance: Positive
    start_lengthscale: Annotated[
        float, between(1e-3, 1e3)
    ]  # from farther off the search would leave its range
    largest_variance: Annotated[float, in_search_range]

    def check(self) -> None:
        """Refuse a start outside the search."""
        low = SEARCH_RANGE[0]
        reached = low <= self.start_variance <= self.largest_variance
        limits = f"must lie between {low:g} and largest_variance={self.largest_variance:g}"
        require(reached, "start_variance", self.start_variance, limits)


@dataclass
class ClassifierSettings(TrainingSettings):
    """Settings of experiments that train classifiers.

    Attributes:
        scaling: of the inputs. none; all, train: each input to mean 0 and deviation 1 over all or the training rows;
            pixels: one map of all inputs from their smallest and largest value to [0, 1], the perturbations' domain.
    """

    scaling: Annotated[str, one_of(SCALINGS)]


# What the tasks of the family have in common: a trained classifier, by all that decides it.


@dataclass(frozen=True)
class GPCParams:
    """A method without its name: see `GPCOptions`."""

    builder: str
    inference: str
    link: str

    @classmethod
    def of(cls, options: MethodOptions) -> GPCParams:
        """Return the parameters of a method of this family.

        Raises:
            TypeError: if the method is another family's.
        """
        if isinstance(options, MinibatchGPCOptions):
            link = "probit" if options.inference == "gwi" else "logistic"
            training = {each.name: getattr(options, each.name) for each in fields(MinibatchTraining)}
            return MinibatchParams(options.builder, options.inference, link, MinibatchTraining(**training))
        if not isinstance(options, GPCOptions):
            raise TypeError(f"{options.title} is no Gaussian process classifier")
        return cls(options.builder, options.inference, options.link)


@dataclass(frozen=True)
class MinibatchTraining:
    """How a sparse classifier is trained; attributes as `MinibatchGPCOptions`."""

    inducing: float
    prior_evaluations: int
    validation_share: float
    epochs: int
    patience: int
    batch: int
    learning_rate: float


@dataclass(frozen=True)
class MinibatchParams(GPCParams):
    """A method that is trained by minibatches; its link is that of two classes."""

    training: MinibatchTraining


@dataclass(frozen=True)
class ClassifierParams:
    """All that decides a trained classifier except the dataset.

    Attributes:
        method: inference and link.
        version: of the method.
        kernel: its name.
        ard: one lengthscale per input.
        draw_seed: of the random choice of training and test rows; the same for every method.
        evaluations: of the marginal likelihood in training, at most.
        train_rows: as every other field, of `ClassifierSettings`.
    """

    method: GPCParams
    version: int
    kernel: str
    ard: bool
    draw_seed: int
    evaluations: int
    train_rows: int
    test_rows: int
    classes: Sequence[str]
    start_variance: float
    start_lengthscale: float
    largest_variance: float
    scaling: str

    @property
    def spec(self) -> ModelSpec:
        """The model's structure."""
        return ModelSpec(kernel=self.kernel, ard=self.ard)

    @property
    def name(self) -> str:
        """A name that no other classifier on the same dataset has."""
        return json.dumps(plain(self), sort_keys=True)

    def group(self, dataset: PreparedDataset) -> str:
        """Return the name of the group of tasks that share this trained classifier."""
        return f"{dataset.name}/{self.name}"


class ClassifierTask(Protocol):
    """Parameters of a task on a trained classifier."""

    @property
    def model(self) -> ClassifierParams:
        """What decides the classifier."""


def classifier_params(
    request: Request[object],
    settings: ClassifierSettings,
    options: MethodOptions,
    draw: int,
    evaluations: int,
) -> ClassifierParams:
    """Return the parameters of a trained classifier.

    Args:
        request: the validated request.
        settings: its classifier settings.
        options: of the method.
        draw: number of the random choice of rows.
        evaluations: of the marginal likelihood in training, at most.
    """
    return ClassifierParams(
        method=GPCParams.of(options),
        version=options.method.version,
        kernel=request.model.kernel,
        ard=request.model.ard,
        draw_seed=derived_seed(request.seed, "draw", draw),
        evaluations=evaluations,
        train_rows=settings.train_rows,
        test_rows=settings.test_rows,
        classes=settings.classes,
        start_variance=settings.start_variance,
        start_lengthscale=settings.start_lengthscale,
        largest_variance=settings.largest_variance,
        scaling=settings.scaling,
    )
