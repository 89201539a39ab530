"""What every experiment on trained binary classifiers has in common: settings, checks, and a model's parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import Json, MethodOptions, Request, require
from gpsuite.models.classification.training import SEARCH_RANGE
from gpsuite.seeds import derived_seed

AGREEMENT = 1e-3  # trained for some steps only, then searched up to a tolerance: last bits grow


SCALINGS = ("none", "all", "train", "pixels")


@dataclass
class ClassifierSettings:
    """Settings of experiments that train classifiers on random rows of a dataset.

    Attributes:
        train_rows: training rows; fewer where the test rows leave no more.
        test_rows: test rows.
        scaling: of the inputs. none; all, train: each input to mean 0 and deviation 1 over all or the training rows;
            pixels: one map of all inputs from their smallest and largest value to [0, 1], the perturbations' domain.
        classes: two labels of a dataset with more, the negative class first; empty: the dataset's own two.
        start_variance: kernel variance that training starts from.
        start_lengthscale: lengthscale that training starts from, in median distances of the training inputs.
        largest_variance: end of the search for the variance; the evidence of separable data may rise without end.
    """

    train_rows: int = 1000
    test_rows: int = 200
    scaling: str = "train"
    classes: list[str] = field(default_factory=list)
    start_variance: float = 1.0
    start_lengthscale: float = 1.0
    largest_variance: float = SEARCH_RANGE[1]

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        require(self.train_rows >= 2, "train_rows", self.train_rows, "must be 2 or more")
        require(self.test_rows >= 1, "test_rows", self.test_rows, "must be 1 or more")
        require(self.scaling in SCALINGS, "scaling", self.scaling, f"valid: {', '.join(SCALINGS)}")
        two = len(self.classes) in (0, 2) and len(set(self.classes)) == len(self.classes)
        require(two, "classes", self.classes, "name two different labels, or none: classes=[A,B]")
        for name in ("start_variance", "start_lengthscale", "largest_variance"):
            check_positive(name, getattr(self, name))
        low, high = SEARCH_RANGE
        above = low < self.largest_variance <= high
        require(
            above, "largest_variance", self.largest_variance, f"must be above {low:g} and at most {high:g}"
        )
        reached = low <= self.start_variance <= self.largest_variance
        limits = f"must lie between {low:g} and largest_variance={self.largest_variance:g}"
        require(reached, "start_variance", self.start_variance, limits)


def check_positive(key: str, value: float) -> None:
    """Refuse what is not a positive finite number."""
    require(0 < value < math.inf, key, value, "must be a number above 0")


def check_radius(key: str, value: float) -> None:
    """Refuse a radius that is negative or not finite."""
    require(0 <= value < math.inf, key, value, "a radius must be a number of 0 or more")


def check_distinct(key: str, values: Sequence[object]) -> None:
    """Refuse an empty list and one with a value twice."""
    require(bool(values), key, values, "needs at least one value")
    require(len(set(values)) == len(values), key, values, "has a value twice")


def check_point(key: str, index: int, test_rows: int) -> None:
    """Refuse the index of a test row that does not exist."""
    require(0 <= index < test_rows, key, index, f"the test rows are numbered 0 to {test_rows - 1}")


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
