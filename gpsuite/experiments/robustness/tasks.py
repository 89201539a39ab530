"""Settings of every experiment on trained classifiers, and what decides such a classifier."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, between, one_of, unique
from gpsuite.experiments.tasks import left_out_as, plain
from gpsuite.models.classification.training import PRIORS, SEARCH_RANGE
from gpsuite.models.config import ModelSpec

CLASSIFIER = "classifier"  # trait: class probabilities from a latent Gaussian process
GAUSSIAN_LATENT = "gaussian latent posterior"  # trait: all that a certified range needs, however it was trained
AT_HYPERPARAMETERS = "approximates at given hyperparameters"  # trait: `inference` names the approximation
AGREEMENT = 1e-3  # trained for some steps only, then searched up to a tolerance: last bits grow
PROTOCOLS = OWN, AUTHORS = "own", "authors"
SCALINGS = ("none", "all", "train", "pixels")

Axes = dict[str, str | int | float]
Metrics = dict[str, float | int | str | bool | None]

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
increasing_pair = Rule(
    lambda ends: not ends or (len(ends) == 2 and ends[0] < ends[1]),
    "two increasing numbers, or [] for every input's own range",
)
Radius = Annotated[float, Rule(lambda value: 0 <= value < math.inf, "a radius must be a number of 0 or more")]


@dataclass
class ChosenPoints:
    """Settings that name test rows.

    Attributes:
        points: test rows; empty: the first `count`.
        count: number of points, if `points` is empty.
    """

    points: Annotated[list[int], unique]
    count: Count

    def refuse_absent_points(self, test_rows: int) -> None:
        """Raise UserError if a test row does not exist."""
        for point in self.points:
            told = f"the test rows are numbered 0 to {test_rows - 1}"
            require(0 <= point < test_rows, "points", point, told)
        require(self.count <= test_rows, "count", self.count, f"must be 1 to {test_rows}")

    @property
    def chosen_points(self) -> list[int]:
        """The test rows that are taken."""
        return self.points or list(range(self.count))


@dataclass
class TrainingSettings:
    """Settings of classifiers trained on random rows of a dataset.

    Attributes:
        train_rows: training rows. Fewer where the test rows leave no more.
        test_rows: test rows.
        classes: two labels of a dataset with more, the negative class first. Empty: the dataset has two.
        start_variance: kernel variance that training starts from.
        start_lengthscale: lengthscale that training starts from, in median distances of the training inputs.
        largest_variance: end of the search for the variance. The evidence of separable data may rise without end.
        protocol: own, or authors: rows of the dataset's split and training as in the code of Blaas et al. 2020, from
            variance and lengthscales of 1 (`models.classification.authors_training`).
    """

    train_rows: Annotated[int, at_least(2)]
    test_rows: Count
    classes: Annotated[list[str], two_or_none]
    start_variance: Positive
    # from farther off the search would leave its range
    start_lengthscale: Annotated[float, between(1e-3, 1e3)]
    largest_variance: Annotated[float, in_search_range]
    protocol: Annotated[str, one_of(PROTOCOLS)]

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
        scaling: scaling of the inputs. none: as they are. all, train: each input to mean 0 and deviation 1 over all or
            the training rows. pixels: one map of all inputs from their smallest and largest value to [0, 1], the
            perturbations' domain.
    """

    scaling: Annotated[str, one_of(SCALINGS)]

    def prior_for(self, dataset: PreparedDataset | None) -> str:
        """Return the name of the prior of the hyperparameters: the papers have none."""
        return "none"


@dataclass
class AnyDataSettings(ClassifierSettings, ChosenPoints):
    """Settings of experiments on test points of any dataset.

    Attributes:
        prior: prior of variance and lengthscales in training by the marginal likelihood: none, half_normal, or
            own_table, which is half_normal for your table and none for the papers' data.
    """

    prior: Annotated[str, one_of(["own_table", *PRIORS])]

    def prior_for(self, dataset: PreparedDataset | None) -> str:
        """Return the name of the prior of the hyperparameters for this dataset."""
        if self.prior != "own_table":
            return self.prior
        return "half_normal" if dataset is not None and "path" in dataset.spec else "none"


class MethodParams(Protocol):
    """Parameters that decide a method's numbers, often its options."""

    @property
    def builder(self) -> str:
        """Name of the method in `METHODS`."""


@dataclass(frozen=True)
class ClassifierParams:
    """All that decides a trained classifier except the dataset. Further fields as in `ClassifierSettings`.

    Attributes:
        method: what its method makes of its options (`ClassifierMethod.decides`).
        version: of the method.
        kernel: its name.
        ard: one lengthscale per input.
        draw_seed: of the random choice of training and test rows. The same for every method.
        evaluations: of the marginal likelihood in training, at most.
        prior: of its hyperparameters, a name in `PRIORS`.
        train_for_radius: of equally accurate lengthscales take those with which most training rows are proved in a box
            of this radius, by cross-validation, 0: those of the marginal likelihood.
        protocol: as in `TrainingSettings`.
    """

    method: MethodParams
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
    prior: str = field(default="none", metadata=left_out_as("none"))
    train_for_radius: float = field(default=0.0, metadata=left_out_as(0.0))
    protocol: str = field(default=OWN, metadata=left_out_as(OWN))

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
        """Parameters that decide the classifier."""
