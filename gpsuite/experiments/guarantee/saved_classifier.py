"""The classifier that a run of guarantee keeps, and its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.experiments.guarantee.classification import Classifier, class_probabilities
from gpsuite.experiments.guarantee.saved_model import SavedModel, of_description, of_table
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.posterior import GPCPosterior

if TYPE_CHECKING:
    from gpflow.models import VGP

POSTERIOR = ("X", "lengthscales", "alpha", "root", "weights")
SOFTMAX = "softmax"


@dataclass(frozen=True, eq=False)
class ClassPredictions:
    """Predictions of B rows.

    Attributes:
        labels: names of the C classes.
        probabilities: [B, C].
        outside: rows with an input outside its range among the training rows.
    """

    labels: tuple[str, ...]
    probabilities: FloatArray
    outside: BoolArray

    @property
    def predicted(self) -> list[str]:
        """The most probable class of each row."""
        return [self.labels[number] for number in np.argmax(self.probabilities, axis=1)]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a table, by name."""
        shares = {f"p_{name}": self.probabilities[:, place] for place, name in enumerate(self.labels)}
        return {"predicted": np.array(self.predicted), **shares, "outside": self.outside}


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedClassifier(SavedModel):
    """A kept classifier.

    Attributes:
        labels: names of the C classes.
        operator_bound: of the posterior.
        link: of two classes; `SOFTMAX` for several.
    """

    task: ClassVar[str] = "classification"

    labels: tuple[str, ...]
    operator_bound: float
    link: str

    @classmethod
    def of(cls, data: Dataset, model: Classifier) -> SavedClassifier:
        """Return what is kept of a table's classifier."""
        posterior, problem = model.posterior, model.problem
        rows = data.X[problem.train_rows]
        return cls(
            **of_table(data),
            kernel=posterior.kernel,
            variance=posterior.variance,
            arrays={name: getattr(posterior, name) for name in POSTERIOR}
            | {
                "input_mean": problem.offset,
                "input_scale": problem.scale,
                "lowest": rows.min(axis=0),
                "highest": rows.max(axis=0),
                "y": problem.y,
            },
            labels=model.labels,
            operator_bound=posterior.operator_bound,
            link=SOFTMAX if isinstance(posterior, MultiClassPosterior) else posterior.link.name,
        )

    @classmethod
    def rebuilt(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> SavedClassifier:
        """Return the classifier of a description and its arrays.

        Raises:
            KeyError: if a value is missing.
            ValueError: if one is no number.
        """
        return cls(
            **of_description(values, arrays),
            labels=tuple(values["labels"]),
            operator_bound=float(values["operator_bound"]),
            link=str(values["link"]),
        )

    @property
    def posterior(self) -> GPCPosterior | MultiClassPosterior:
        """The classifier, of scaled inputs."""
        parts: dict[str, Any] = {name: self.arrays[name] for name in POSTERIOR}
        parts |= {"kernel": self.kernel, "variance": self.variance, "operator_bound": self.operator_bound}
        if self.link == SOFTMAX:
            return MultiClassPosterior(**parts)
        return GPCPosterior(**parts, link=LINKS.get(self.link))

    def predict(self, X: FloatArray) -> ClassPredictions:
        """Return class probabilities at inputs [B, D] in own units.

        Raises:
            ValueError: if the inputs are not finite, or not D columns.
        """
        X = self.checked(X)
        scaled = (X - self.arrays["input_mean"]) / self.arrays["input_scale"]
        return ClassPredictions(self.labels, class_probabilities(self.posterior, scaled), self.outside(X))

    def gpflow_model(self) -> VGP:
        """Return GPflow's variational model with Laplace's posterior at the training rows, of scaled inputs.

        Raises:
            UserError: for several classes, whose joint posterior GPflow has no model for.
        """
        posterior = self.posterior
        if isinstance(posterior, MultiClassPosterior):
            raise UserError("gpflow_model: GPflow has no model for the joint posterior of several classes")
        from gpsuite.models.tensorflow_setup import configure

        configure()
        from gpsuite.models.classification.variational import as_vgp

        return as_vgp(posterior, self.arrays["y"])
