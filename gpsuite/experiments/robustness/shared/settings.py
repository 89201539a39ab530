"""What every experiment on trained binary classifiers has in common: settings, checks, and a model's parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import Json, MethodOptions, Request, require
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, one_of
from gpsuite.models.classification.training import SEARCH_RANGE
from gpsuite.seeds import derived_seed

AGREEMENT = 1e-3  # trained for some steps only, then searched up to a tolerance: last bits grow


SCALINGS = ("none", "all", "train", "pixels")


two_or_none = Rule(
    lambda names: len(names) in (0, 2) and len(set(names)) == len(names),
    "name two different labels, or none: classes=[A,B]",
)
in_search_range = Rule(
    lambda value: SEARCH_RANGE[0] < value <= SEARCH_RANGE[1],
    f"must be above {SEARCH_RANGE[0]:g} and at most {SEARCH_RANGE[1]:g}",
)
Radius = Annotated[float, Rule(lambda value: 0 <= value < math.inf, "a radius must be a number of 0 or more")]


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
    start_lengthscale: Positive
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


def request_dataset(request: Request) -> PreparedDataset:
    """Return the request's dataset.

    Raises:
        UserError: if there is none.
    """
    if request.dataset is None:
        raise UserError(f"dataset: {request.experiment} needs one", key="dataset")
    return request.dataset


def model_params(
    request: Request, settings: ClassifierSettings, options: MethodOptions, draw: int, evaluations: int
) -> dict[str, Json]:
    """Return all that decides a trained classifier except the dataset: the part `model` of a task's parameters.

    Args:
        request: the validated request.
        settings: its classifier settings.
        options: of the method.
        draw: number of the random choice of training and test rows; the same for every method.
        evaluations: of the marginal likelihood in training, at most.
    """
    method = options.params
    shared = {name: getattr(settings, name) for name in (each.name for each in fields(ClassifierSettings))}
    return {
        "method": method,
        "version": options.method.version,
        "kernel": request.model.kernel,
        "ard": request.model.ard,
        "draw_seed": derived_seed(request.seed, "draw", draw),
        "evaluations": evaluations,
        **shared,
    }


def model_group(dataset: PreparedDataset, model: Mapping[str, Any]) -> str:
    """Return the name of the group of tasks that share this trained classifier."""
    return f"{dataset.name}/{json.dumps(model, sort_keys=True)}"
