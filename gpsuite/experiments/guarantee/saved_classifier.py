"""The classifier that a run of guarantee keeps, and its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.experiments.guarantee.classification import Classifier, class_probabilities
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.config import Hyperparameters, ModelSpec

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


@dataclass(frozen=True, eq=False)
class SavedClassifier:
    """A kept classifier with all that its predictions need; `saved.load` reads one.

    Attributes:
        inputs: names of the inputs, D.
        target: its name.
        labels: names of the classes.
        link: of two classes; `SOFTMAX` for several.
        arrays: the posterior's, scales, and the training range, by name.
        guarantee: what a run proved, in sentences.
        categories: column of texts -> the levels that were learned from.
        reading: separator, decimal and thousands marks that the user named for the table.
    """

    task: ClassVar[str] = "classification"

    inputs: tuple[str, ...]
    target: str
    labels: tuple[str, ...]
    kernel: str
    variance: float
    operator_bound: float
    link: str
    arrays: Mapping[str, FloatArray]
    guarantee: tuple[str, ...] = field(default=())
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Dataset, model: Classifier) -> SavedClassifier:
        """Return what is kept of a table's classifier."""
        posterior, problem = model.posterior, model.problem
        rows = data.X[problem.train_rows]
        arrays = {name: getattr(posterior, name) for name in POSTERIOR} | {
            "input_mean": problem.offset,
            "input_scale": problem.scale,
            "lowest": rows.min(axis=0),
            "highest": rows.max(axis=0),
            "y": problem.y,
        }
        link = SOFTMAX if isinstance(posterior, MultiClassPosterior) else posterior.link.name
        return cls(
            data.input_names,
            data.target_names[0],
            model.labels,
            posterior.kernel,
            posterior.variance,
            posterior.operator_bound,
            link,
            arrays,
            categories=data.categories,
        )

    @classmethod
    def rebuilt(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> SavedClassifier:
        """Return the classifier of a description and its arrays.

        Raises:
            KeyError: if a value is missing.
            ValueError: if one is no number.
        """
        return cls(
            inputs=tuple(values["inputs"]),
            target=str(values["target"]),
            labels=tuple(values["labels"]),
            kernel=str(values["kernel"]),
            variance=float(values["variance"]),
            operator_bound=float(values["operator_bound"]),
            link=str(values["link"]),
            arrays=dict(arrays),
            guarantee=tuple(values["guarantee"]),
            categories={str(name): tuple(levels) for name, levels in values.get("categories", {}).items()},
            reading={str(key): str(mark) for key, mark in values.get("reading", {}).items()},
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
        X, a = np.asarray(X, dtype=np.float64), self.arrays
        if X.ndim != 2 or X.shape[1] != len(self.inputs) or not np.isfinite(X).all():
            raise ValueError(f"finite inputs [B, {len(self.inputs)}] are needed, got {X.shape}")
        found = class_probabilities(self.posterior, (X - a["input_mean"]) / a["input_scale"])
        outside = ((a["lowest"] > X) | (a["highest"] < X)).any(axis=1)
        return ClassPredictions(self.labels, found, outside)

    def gpflow_model(self) -> VGP:
        """Return GPflow's variational model with Laplace's posterior at the training rows, of scaled inputs.

        With K = L L' and f = L v: v has mean L' alpha and covariance I - L' F'F L.

        Raises:
            UserError: for several classes, whose joint posterior GPflow has no model for.
        """
        if self.link == SOFTMAX:
            raise UserError("gpflow_model: GPflow has no model for the joint posterior of several classes")
        from gpsuite.models.tensorflow_setup import configure

        configure()
        import gpflow

        from gpsuite.models.kernels import build_kernel
        from gpsuite.models.linalg import stable_cholesky
        from gpsuite.models.radial import kappa, squared_distances

        a = self.arrays
        scaled = a["X"] / a["lengthscales"]
        K = self.variance * kappa(self.kernel, squared_distances(scaled, scaled))
        jitter = gpflow.config.default_jitter()
        L = np.linalg.cholesky(K + jitter * np.eye(len(K)))
        half = a["root"] @ L
        covariance = np.eye(len(K)) - half.T @ half
        lengthscales = tuple(float(value) for value in a["lengthscales"])
        found = Hyperparameters(self.variance, lengthscales)
        kernel = build_kernel(ModelSpec(self.kernel, ard=True), found, len(lengthscales))
        model = gpflow.models.VGP(
            (a["X"], (a["y"][:, None] > 0).astype(float)), kernel, gpflow.likelihoods.Bernoulli()
        )
        model.q_mu.assign(L.T @ a["alpha"][:, None])
        model.q_sqrt.assign(stable_cholesky(covariance).lower[None])
        return model
