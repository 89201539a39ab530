"""Tasks of robustness/explain_mnist358: images of each digit, the shown one first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.pixel_maps.settings import PixelMapSettings
from gpsuite.experiments.robustness.shared.several_classes import read_classes
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params
from gpsuite.methods.robustness.multiclass.latent_cells import CLASSES

VERSION = 3  # raised when the numbers of a task change; the classifier has its own in the model


@dataclass(frozen=True)
class PixelMapTask:
    """Effects of all pixels of one image.

    Attributes:
        model: the classifier.
        digit: label of the image.
        rank: of the image among the label's by the distance to `shown_probability`; the first is shown.
        shown_probability: as every other field, of `PixelMapSettings`.
    """

    model: ClassifierParams
    digit: str
    rank: int
    shown_probability: float
    gamma: float
    negative: float
    random_patches: int
    lime_samples: int
    tolerance: float
    boxes: int
    kind: str = "pixel_map"


@dataclass(frozen=True)
class IntegralTask:
    """Prop. 4 at one image of three classes.

    Attributes:
        model: the classifier.
        digit: label of the image.
        shown_probability: as in `PixelMapTask`.
    """

    model: ClassifierParams
    digit: str
    shown_probability: float
    kind: str = "latent_integrals"


def plan(request: Request[PixelMapSettings]) -> list[Task[object]]:
    """Return the maps of each digit and, of three classes, Prop. 4 at the shown one, with Laplace's softmax posterior.

    Raises:
        UserError: if a digit is none of the labels, or has fewer test images than wanted.
    """
    settings, dataset = request.settings, request.require_dataset()
    method, options = next(iter(request.methods.items()))
    model = classifier_params(request, settings, options, 0, settings.evaluations)
    require(model.method.inference == "laplace", "methods", method, "several classes need laplace")
    problem = read_classes(dataset, model)
    names = problem.label_names
    # a stand-in's labels are numbers
    digits = names[: len(settings.digits)] if dataset.stand_in else settings.digits
    tasks: list[Task[object]] = []
    for digit in digits:
        require(digit in names, "digits", digit, f"no such label\nvalid: {', '.join(names)}")
        held = int(np.count_nonzero(problem.y_test == names.index(digit)))
        require(settings.images <= held, "images", settings.images, f"{digit} has {held} test images")
        tasks.extend(_map(request, model, digit, rank) for rank in range(settings.images))
        if len(names) == CLASSES:
            tasks.append(_integrals(request, model, digit))
    return tasks


def _map(
    request: Request[PixelMapSettings], model: ClassifierParams, digit: str, rank: int
) -> Task[PixelMapTask]:
    """Return the map of one image."""
    settings, dataset = request.settings, request.require_dataset()
    params = PixelMapTask(
        model=model,
        digit=digit,
        rank=rank,
        shown_probability=settings.shown_probability,
        gamma=settings.gamma,
        negative=settings.negative,
        random_patches=settings.random_patches,
        lime_samples=settings.lime_samples,
        tolerance=settings.tolerance,
        boxes=settings.boxes,
    )
    return request.task(
        params,
        label=f"digit {digit}  image {rank}",
        axes={"digit": digit, "image": rank},
        version=VERSION,
        cost=8.0 * (settings.train_rows / 500) ** 2,
        group=model.group(dataset),
    )


def _integrals(request: Request[PixelMapSettings], model: ClassifierParams, digit: str) -> Task[IntegralTask]:
    """Return the check of Prop. 4 at one image."""
    return request.task(
        IntegralTask(model, digit, request.settings.shown_probability),
        label=f"digit {digit}  Prop. 4",
        axes={"digit": digit, "part": "integrals"},
        version=VERSION,
        cost=5.0,
        group=model.group(request.require_dataset()),
    )
