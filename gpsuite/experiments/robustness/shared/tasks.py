"""What the tasks of the family have in common: a trained classifier, by all that decides it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import MethodOptions, Request
from gpsuite.experiments.params import plain
from gpsuite.experiments.robustness.methods import GPCOptions, MinibatchGPCOptions
from gpsuite.experiments.robustness.shared.settings import ClassifierSettings
from gpsuite.models.config import ModelSpec
from gpsuite.seeds import derived_seed


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
