"""The models that a run of guarantee keeps: predictions, and files of arrays and a description, nothing pickled."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.atomic import write_atomically
from gpsuite.data.dataset import Dataset
from gpsuite.data.splits import Standardiser
from gpsuite.errors import UserError
from gpsuite.experiments.guarantee.regression import Fitted, Judged, conformal_radius
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.experiments.robustness.judging import view
from gpsuite.methods.conformal import LeaveOneOut, jackknife_plus
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import LatentPosterior

if TYPE_CHECKING:
    from gpflow.models import GPR, VGP

FORMAT, VERSION = "gpsuite-guarantee-model", 2
PREFIX, DESCRIPTION = "model_", "model_description"  # of the arrays of a record
ARRAYS, TEXT = "model.npz", "model.json"  # in the run's folder `model`
FOLDER = "model"
POSTERIOR = ("X", "lengthscales", "alpha", "root", "weights")
SOFTMAX = "softmax"


class ModelFileError(UserError):
    """A folder holds no model, or a damaged one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedModel:
    """A kept model with all that its predictions need; `saved.load` reads one.

    Attributes:
        inputs: names of the inputs, D.
        target: its name.
        kernel: name in `gpsuite.models.config.KERNEL_NAMES`.
        variance: of the kernel.
        arrays: posterior, scales, and the training range `lowest`, `highest` [D], by name.
        guarantee: what a run proved, in sentences.
        categories: column of texts -> the levels that were learned from.
        reading: `Dataset.reading` of the table.
    """

    inputs: tuple[str, ...]
    target: str
    kernel: str
    variance: float
    arrays: Mapping[str, FloatArray]
    guarantee: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)

    def checked(self, X: Any) -> FloatArray:
        """Return inputs [B, D] in own units as numbers: of a table with column names those of the inputs, by name.

        Raises:
            ValueError: if they are not finite, not D columns, or a table has no column of an input's name.
        """
        columns = getattr(X, "columns", None)
        if columns is not None:
            absent = [name for name in self.inputs if name not in columns]
            if absent:
                raise ValueError(f"the table has no column {absent[0]!r}; inputs: {', '.join(self.inputs)}")
            X = X[list(self.inputs)]
        found = np.array(X, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.inputs) or not np.isfinite(found).all():
            raise ValueError(f"finite inputs [B, {len(self.inputs)}] are needed, got {found.shape}")
        return found

    def outside(self, X: FloatArray) -> BoolArray:
        """Return which rows of inputs [B, D] have one outside its range among the training rows."""
        return np.asarray(((self.arrays["lowest"] > X) | (self.arrays["highest"] < X)).any(axis=1))


def of_table(data: Dataset) -> dict[str, Any]:
    """Return the names and levels that a kept model takes from its table."""
    return {"inputs": data.input_names, "target": data.target_names[0], "categories": data.categories}


def of_description(values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return the common fields of a description and its arrays.

    Raises:
        KeyError: if a value is missing.
        ValueError: if one is no number.
    """
    return {
        "inputs": tuple(values["inputs"]),
        "target": str(values["target"]),
        "kernel": str(values["kernel"]),
        "variance": float(values["variance"]),
        "arrays": dict(arrays),
        "guarantee": tuple(values["guarantee"]),
        "categories": {str(name): tuple(levels) for name, levels in values.get("categories", {}).items()},
        "reading": {str(key): str(mark) for key, mark in values.get("reading", {}).items()},
    }


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of B rows, in the target's own units.

    Attributes:
        prediction: of the kept model.
        judged: of the judged model.
        gp: lower and upper end of its own interval, [B, 2].
        conformal: split conformal, around the judged model's prediction, [B, 2].
        jackknife: jackknife+, [B, 2].
        outside: rows with an input outside its range among the training rows.
    """

    prediction: FloatArray
    judged: FloatArray
    gp: FloatArray
    conformal: FloatArray
    jackknife: FloatArray
    outside: BoolArray

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a table, by name."""
        pairs = {"gp": self.gp, "conformal": self.conformal, "jackknife": self.jackknife}
        ends = {
            f"{name}_{end}": pair[:, place] for name, pair in pairs.items() for place, end in enumerate(("low", "high"))
        }
        return {"prediction": self.prediction, "prediction_judged": self.judged, **ends, "outside": self.outside}


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedRegression(SavedModel):
    """A kept regression, and the judged one whose intervals it gives.

    Attributes:
        coverage: of the intervals.
        noise_variance: in standardised units.
        judged_variance: of the judged model's kernel.
        radius: of split conformal intervals, in the target's own units; None where they are unbounded.
    """

    task: ClassVar[str] = "regression"

    coverage: float
    noise_variance: float
    judged_variance: float
    radius: float | None

    @classmethod
    def of(
        cls, data: Dataset, fitted: Fitted, judged: Judged, latent: LatentPosterior, coverage: float
    ) -> SavedRegression:
        """Return what is kept of the two models of a table."""
        models, radius = judged.leave_one_out, conformal_radius(judged, coverage)
        rows = data.X[fitted.rows]
        arrays = {
            "X": latent.X,
            "y": fitted.posterior.y,
            "alpha": latent.alpha,
            "root": latent.root,
            "lengthscales": latent.lengthscales,
            "input_mean": fitted.inputs.mean,
            "input_scale": fitted.inputs.scale,
            "target_mean": fitted.target.mean,
            "target_scale": fitted.target.scale,
            "lowest": rows.min(axis=0),
            "highest": rows.max(axis=0),
            "judged_X": models.X,
            "judged_lengthscales": models.lengthscales,
            "judged_alpha": models.alpha,
            "judged_changes": models.changes,
            "judged_errors": models.errors,
            "judged_input_mean": judged.fitted.inputs.mean,
            "judged_input_scale": judged.fitted.inputs.scale,
            "judged_target_mean": judged.fitted.target.mean,
            "judged_target_scale": judged.fitted.target.scale,
            "judged_posterior": judged.fitted.posterior.alpha,
        }
        if judged.held_different is not None:
            arrays["judged_places"] = judged.held_different.places
            arrays["judged_lost"] = judged.held_different.seen
        return cls(
            **of_table(data),
            kernel=latent.kernel,
            variance=latent.variance,
            arrays=arrays,
            coverage=coverage,
            noise_variance=fitted.posterior.hyperparameters.noise_variance,
            judged_variance=models.variance,
            radius=radius if np.isfinite(radius) else None,
        )

    @classmethod
    def rebuilt(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> SavedRegression:
        """Return the model of a description and its arrays.

        Raises:
            KeyError: if a value is missing.
            ValueError: if one is no number.
        """
        return cls(
            **of_description(values, arrays),
            coverage=float(values["coverage"]),
            noise_variance=float(values["noise_variance"]),
            judged_variance=float(values["judged_variance"]),
            radius=None if values["radius"] is None else float(values["radius"]),
        )

    @property
    def latent(self) -> LatentPosterior:
        """The kept model's latent posterior, in standardised units."""
        a = self.arrays
        weights = -np.ones(len(a["root"]))
        return LatentPosterior(
            a["X"], self.kernel, self.variance, a["lengthscales"], a["alpha"], a["root"], weights, 1.0
        )

    def predict(self, X: FloatArray) -> Predictions:
        """Return predictions and intervals at inputs [B, D] in own units.

        Raises:
            ValueError: if the inputs are not finite, or not D columns.
        """
        X, a = self.checked(X), self.arrays
        target = Standardiser(a["target_mean"], a["target_scale"])
        mean, variance = self.latent.latent((X - a["input_mean"]) / a["input_scale"])
        prediction = target.inverse(mean[:, None])[:, 0]
        half = float(ndtri(0.5 + self.coverage / 2)) * np.sqrt(variance + self.noise_variance)
        around = self._judged(X)
        radius = np.inf if self.radius is None else self.radius
        return Predictions(
            prediction,
            around,
            _pair(prediction, half * a["target_scale"][0]),
            _pair(around, np.full(len(X), radius)),
            self._jackknife(X),
            self.outside(X),
        )

    def gpflow_model(self) -> GPR:
        """Return the kept model as GPflow's, in standardised units."""
        from gpsuite.models.tensorflow_setup import configure

        configure()
        from gpsuite.models.regression.gpflow_models import build_gpr

        a = self.arrays
        lengthscales = tuple(float(value) for value in a["lengthscales"])
        found = Hyperparameters(self.variance, lengthscales, self.noise_variance)
        return build_gpr(a["X"], a["y"], ModelSpec(kernel=self.kernel, ard=True, noise_floor=0.0), found)

    def _models(self) -> LeaveOneOut:
        a = self.arrays
        return LeaveOneOut(
            a["judged_X"],
            self.kernel,
            self.judged_variance,
            a["judged_lengthscales"],
            a["judged_alpha"],
            a["judged_changes"],
            a["judged_errors"],
        )

    def _judged(self, X: FloatArray) -> FloatArray:
        """Return the judged model's prediction [B]: of its own rows, which come first."""
        a, models = self.arrays, self._models()
        own = a["judged_posterior"]
        first = replace(models, X=models.X[: len(own)], alpha=own)
        scaled = (X - a["judged_input_mean"]) / a["judged_input_scale"]
        return np.asarray(a["judged_target_mean"][0] + a["judged_target_scale"][0] * first.mean(scaled))

    def _jackknife(self, X: FloatArray) -> FloatArray:
        """Return intervals [B, 2] that hold whether rows that repeat others are draws, or draws stored again."""
        a, models = self.arrays, self._models()
        predictions = models.predictions((X - a["judged_input_mean"]) / a["judged_input_scale"])
        low, high = jackknife_plus(models.errors, predictions, self.coverage)
        if "judged_places" in a:
            places = a["judged_places"]
            errors = np.where(a["judged_lost"], np.inf, models.errors[places])
            lower, upper = jackknife_plus(errors, predictions[places], self.coverage)
            low, high = np.minimum(low, lower), np.maximum(high, upper)
        own = np.column_stack([low, high]) * a["judged_target_scale"][0] + a["judged_target_mean"][0]
        return np.asarray(own, dtype=np.float64)


def _pair(centre: FloatArray, half: FloatArray) -> FloatArray:
    return np.column_stack([centre - half, centre + half])


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
            link=posterior.link.name if len(model.labels) == 2 else SOFTMAX,
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
    def posterior(self) -> Any:
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
        return ClassPredictions(
            self.labels, view(self.posterior, len(self.labels)).probabilities(scaled), self.outside(X)
        )

    def gpflow_model(self) -> VGP:
        """Return GPflow's variational model with Laplace's posterior at the training rows, of scaled inputs.

        Raises:
            UserError: for several classes, whose joint posterior GPflow has no model for.
        """
        if self.link == SOFTMAX:
            raise UserError("gpflow_model: GPflow has no model for the joint posterior of several classes")
        from gpsuite.models.tensorflow_setup import configure

        configure()
        from gpsuite.models.classification.variational import as_vgp

        return as_vgp(self.posterior, self.arrays["y"])


Saved = SavedRegression | SavedClassifier
KINDS: Mapping[str, type[Saved]] = {each.task: each for each in (SavedRegression, SavedClassifier)}


def packed(saved: Saved) -> dict[str, npt.NDArray[Any]]:
    """Return a model as arrays of a record."""
    return {
        DESCRIPTION: np.array(json.dumps(_description(saved))),
        **{f"{PREFIX}{name}": array for name, array in saved.arrays.items()},
    }


def unpacked(arrays: Mapping[str, npt.NDArray[Any]], guarantee: Sequence[str] = ()) -> Saved:
    """Return the model in a record's arrays, with what the run proved."""
    values = json.loads(str(arrays[DESCRIPTION]))
    kept = {
        name.removeprefix(PREFIX): array
        for name, array in arrays.items()
        if name.startswith(PREFIX) and name != DESCRIPTION
    }
    return KINDS[values["task"]].rebuilt({**values, "guarantee": list(guarantee)}, kept)


def write_model(saved: Saved, folder: Path) -> None:
    """Write `folder`/model.npz and model.json, which names the arrays' hash: files of two runs do not fit.

    Raises:
        OSError: if a file cannot be written.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **saved.arrays)
    content = buffer.getvalue()
    description = {
        "format": FORMAT,
        "version": VERSION,
        **_description(saved),
        "arrays_sha256": hashlib.sha256(content).hexdigest(),
    }
    text = json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / ARRAYS, lambda stream: stream.write(content))
    write_atomically(folder / TEXT, lambda stream: stream.write(text.encode()))


def load(run: str | Path) -> Saved:
    """Return the model of a run of guarantee, for predictions and as GPflow's (`gpflow_model`).

    Args:
        run: the run's folder.

    Raises:
        ModelFileError: if the folder holds no model, or a damaged one.
    """
    folder = Path(run) / FOLDER
    try:
        content, text = (folder / ARRAYS).read_bytes(), (folder / TEXT).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{run}: no model of a run\ngive the folder of a run of experiment=guarantee, such as "
            "results/guarantee/quick~1a2b3c4d"
        ) from error
    try:
        values = json.loads(text)
        if (values.pop("format"), values.pop("version")) != (FORMAT, VERSION):
            raise ValueError("of another format or version; run experiment=guarantee again")
        if values.pop("arrays_sha256") != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{ARRAYS} and {TEXT} are not of one run, or damaged")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return KINDS[values["task"]].rebuilt(values, {name: file[name] for name in file.files})
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{folder}: not a usable model: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _description(saved: Saved) -> dict[str, Any]:
    values = {each.name: getattr(saved, each.name) for each in fields(saved) if each.name != "arrays"}
    return {"task": saved.task, **{name: _plain(value) for name, value in values.items()}}
