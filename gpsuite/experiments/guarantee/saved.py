"""The models that a run of guarantee keeps: predictions, and files of arrays and a description, nothing pickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.certificates import certificate
from gpsuite.certificates.envelope import FORMAT, VERSION, read_content, read_envelope, write_packed
from gpsuite.certificates.form import check_model
from gpsuite.certificates.model import LINKS as TWO_CLASSES
from gpsuite.certificates.model import MODEL_ARRAYS, PROBIT, SOFTMAX, Model, pack_model, parse_model
from gpsuite.data.dataset import Dataset
from gpsuite.data.splits import DifferentRows, Standardiser
from gpsuite.data.table.names import shorten
from gpsuite.data.table.new_rows import inputs_of_frame
from gpsuite.drawing import axes
from gpsuite.errors import UserError
from gpsuite.experiments.guarantee.regression import Fitted, Judged, conformal_radius
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.experiments.robustness.judging import view
from gpsuite.methods.conformal import LeaveOneOut, jackknife_plus
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS, SqueezedProbit
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import LatentPosterior
from gpsuite.text import visible
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, real, words

if TYPE_CHECKING:
    import pandas as pd
    from gpflow.models import GPR, VGP
    from matplotlib.axes import Axes

    from gpsuite.experiments.guarantee.conformal import Calibrated

PREFIX, DESCRIPTION = "saved_", "saved_description"  # of the arrays of a record
FOLDER, NAME = "model", "model"  # in the run's folder; model/model.json and .npz
LARGEST = 1 << 30  # bytes of the arrays: 10,000 training rows
AGAIN = "make it again by the run's own command: gpsuite run experiment=guarantee ... force=true"
WIDEST = 160  # letters of a line of a model's repr
LEFT_OUT = ("X", "lengthscales", "alpha", "changes", "errors")  # arrays of the models without a row
TEXTS = ("inputs", "target", "guarantee", "categories", "reading")
DTYPES: Mapping[str, type[np.generic]] = {"judged_places": np.int64, "judged_lost": np.bool_}  # the others are floats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SavedModel:
    """A kept model with all that its predictions need. `saved.load` reads one.

    Attributes:
        model: its posterior of N rows, of scaled inputs, as certificates store one.
        inputs: names of the inputs, D.
        target: its name.
        arrays: what it has besides the posterior, by the names in `shapes`. The training range is `lowest`, `highest`.
        guarantee: what a run proved, in sentences.
        categories: column of texts -> the levels that were learned from.
        reading: `Dataset.reading` of the table.
        calibrated: intervals or sets of classes of the judged model, which are kept in separate files.
    """

    task: ClassVar[str]
    # name -> its axes in letters: N and D as above, 1, and letters that represent any length
    shapes: ClassVar[dict[str, str]] = {
        "y": "N", "input_mean": "D", "input_scale": "D", "lowest": "D", "highest": "D",
    }  # fmt: skip

    model: Model
    inputs: tuple[str, ...]
    target: str
    arrays: Mapping[str, npt.NDArray[Any]]
    guarantee: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)
    calibrated: Calibrated | None = None

    def check(self) -> None:
        """Refuse arrays that are no model's or do not fit together.

        Raises:
            ValueError: with the first fault.
        """
        check_model(self.model)
        sizes = {"N": len(self.model.X), "D": self.model.X.shape[1], "1": 1}
        for name, letters in self.shapes.items():
            array = self.arrays[name]
            if any(sizes.setdefault(each, size) != size for each, size in zip(letters, array.shape, strict=True)):
                raise ValueError(f"{name} does not fit the other arrays")
            if not np.isfinite(array).all() or (name.endswith("_scale") and not (array > 0.0).all()):
                raise ValueError(f"{name} has a number that is not finite, or a scale that is not positive")
        if len(self.inputs) != sizes["D"]:
            raise ValueError("the names are not those of the inputs")

    def scaled(self, X: FloatArray, which: str = "input") -> FloatArray:
        """Return inputs [B, D] in original units as the kept model, or another one stored with it, takes them."""
        return np.asarray((X - self.arrays[f"{which}_mean"]) / self.arrays[f"{which}_scale"])

    def checked(self, X: Any) -> FloatArray:
        """Return inputs [B, D] in original units as numbers: of a DataFrame by the columns of the run's table.

        Raises:
            ValueError: if they are not finite, not D columns, or a DataFrame has no such column or a row with a value
                that the run would not have read.
        """
        if hasattr(X, "columns"):
            return inputs_of_frame(X, self.inputs, self.reading, self.categories)
        found = np.array(X, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.inputs) or not np.isfinite(found).all():
            raise ValueError(f"finite inputs [B, {len(self.inputs)}] are needed, got {found.shape}")
        return found

    def __repr__(self) -> str:
        kind, size = ("class" if self.task == "classification" else "value"), len(self.inputs)
        proved = [*(each for each in self.guarantee if "probability" in each), *self.guarantee, "none"][0]
        lines = [
            f"predicts the {kind} of {self.target} by a Gaussian process of {len(self.model.X)} rows",
            f"inputs: {size}: {', '.join(self.inputs)}",
            f"categories: {', '.join(self.categories) or 'none'}",
            f"guarantee, the first of {len(self.guarantee)} sentences: {proved}",
            ".predict(DataFrame or array), .guarantee, .gpflow_model()",
        ]
        return "\n".join(visible(shorten(line, WIDEST)) for line in lines)

    @property
    def weight_name(self) -> str:
        """The column of likelihood ratios that new rows need, or an empty string."""
        return "" if self.calibrated is None else self.calibrated.weight_name

    def more(self, X: FloatArray, own: FloatArray | None = None) -> Mapping[str, npt.NDArray[Any]]:
        """Return the columns of `calibrated` at inputs [B, D] with likelihood ratios [B]."""
        return {} if self.calibrated is None else self.calibrated.columns(X, own)

    def outside(self, X: FloatArray) -> BoolArray:
        """Return which rows of inputs [B, D] have one outside its range among the training rows."""
        return np.asarray(((self.arrays["lowest"] > X) | (self.arrays["highest"] < X)).any(axis=1))


def frame_of(columns: Mapping[str, npt.NDArray[Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(dict(columns))


def of_table(data: Dataset) -> dict[str, Any]:
    return {"inputs": data.input_names, "target": data.target_names[0], "categories": data.categories}


def _range(X: FloatArray) -> dict[str, FloatArray]:
    return {"lowest": X.min(axis=0), "highest": X.max(axis=0)}


def _scales(**of: Standardiser) -> dict[str, FloatArray]:
    means = {f"{name}_mean": each.mean for name, each in of.items()}
    return means | {f"{name}_scale": each.scale for name, each in of.items()}


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
        more: further columns.
    """

    prediction: FloatArray
    judged: FloatArray
    gp: FloatArray
    conformal: FloatArray
    jackknife: FloatArray
    outside: BoolArray
    more: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        pairs = {"gp": self.gp, "conformal": self.conformal, "jackknife": self.jackknife}
        ends = {
            f"{name}_{end}": pair[:, place] for name, pair in pairs.items() for place, end in enumerate(("low", "high"))
        }
        both = {"prediction": self.prediction, "prediction_judged": self.judged}
        return {**both, **ends, **self.more, "outside": self.outside}

    def __repr__(self) -> str:
        low, high = (float(end(self.prediction)) for end in (np.min, np.max))
        return (
            f"{len(self.prediction)} predictions from {low:.4g} to {high:.4g}, {int(self.outside.sum())} outside the "
            "training range; .to_frame() has their intervals"
        )

    def to_frame(self) -> pd.DataFrame:
        return frame_of(self.columns())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the judged model's predictions, rising, with their split conformal intervals."""
        ax, order = axes(ax), np.argsort(self.judged)
        places, ends = np.arange(len(order)), self.conformal[order]
        ax.fill_between(places, ends[:, 0], ends[:, 1], alpha=0.3, label="split conformal interval")
        ax.plot(places, self.judged[order], ".", label="prediction, judged model")
        ax.set_xlabel("rows by rising prediction")
        ax.set_ylabel("prediction")
        ax.legend()
        return ax


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SavedRegression(SavedModel):
    """A kept regression, and the judged one whose intervals it gives. Targets are standardised.

    Attributes:
        coverage: of the intervals.
        judged_variance: of the judged model's kernel.
        radius: of split conformal intervals, in the target's own units. None if they are unbounded.
    """

    task: ClassVar[str] = "regression"
    own: ClassVar[tuple[str, ...]] = ("coverage", "judged_variance", "radius")
    shapes: ClassVar[dict[str, str]] = SavedModel.shapes | {
        "target_mean": "1", "target_scale": "1", "judged_X": "ID", "judged_lengthscales": "D", "judged_alpha": "I",
        "judged_changes": "IH", "judged_errors": "H", "judged_input_mean": "D", "judged_input_scale": "D",
        "judged_target_mean": "1", "judged_target_scale": "1", "judged_posterior": "J", "judged_places": "P",
        "judged_lost": "P",
    }  # fmt: skip

    coverage: float
    judged_variance: float
    radius: float | None

    @classmethod
    def of(
        cls, data: Dataset, fitted: Fitted, judged: Judged, latent: LatentPosterior, coverage: float
    ) -> SavedRegression:
        """Return what is kept of the two models of a table."""
        models, radius, first = judged.leave_one_out, conformal_radius(judged, coverage), judged.fitted
        count = len(models.errors)
        held = judged.held_different or DifferentRows(np.arange(count), np.zeros(count, dtype=bool))
        arrays = {
            "y": fitted.posterior.y,
            **_range(data.X[fitted.rows]),
            **_scales(input=fitted.inputs, target=fitted.target, judged_input=first.inputs, judged_target=first.target),
            **{f"judged_{name}": getattr(models, name) for name in LEFT_OUT},
            "judged_posterior": first.posterior.alpha,
            "judged_places": held.places,
            "judged_lost": held.seen,
        }
        return cls(
            **of_table(data),
            model=stored_model(latent, fitted.posterior.hyperparameters.noise_variance),
            arrays=arrays,
            coverage=coverage,
            judged_variance=models.variance,
            radius=radius if np.isfinite(radius) else None,
        )

    def check(self) -> None:
        super().check()
        places, errors = self.arrays["judged_places"], self.arrays["judged_errors"]
        if not ((places >= 0) & (places < len(errors))).all() or (errors < 0.0).any():
            raise ValueError("the judged model's errors are not those of its rows")
        if len(self.arrays["judged_posterior"]) > len(self.arrays["judged_X"]):
            raise ValueError("the judged model has fewer rows than weights")
        if not (0.0 < self.coverage < 1.0 and self.judged_variance > 0.0 and (self.radius or 0.0) >= 0.0):
            raise ValueError("a coverage, variance or radius that is none")
        if not (self.arrays["judged_lengthscales"] > 0.0).all():
            raise ValueError("lengthscales must be positive")

    @property
    def latent(self) -> LatentPosterior:
        """The kept model's latent posterior, in standardised units."""
        return LatentPosterior(**_posterior(self.model), operator_bound=1.0)

    def predict(self, X: Any, own: FloatArray | None = None) -> Predictions:
        """Return predictions and intervals at inputs [B, D] in original units, or for a DataFrame's rows (`checked`).

        `own` are likelihood ratios [B], where the run had `dataset.weights`.

        Raises:
            ValueError: as `checked`.
        """
        X, a = self.checked(X), self.arrays
        target = Standardiser(a["target_mean"], a["target_scale"])
        mean, variance = self.latent.latent(self.scaled(X))
        prediction = target.inverse(mean[:, None])[:, 0]
        half = float(ndtri(0.5 + self.coverage / 2)) * np.sqrt(variance + self.model.noise)
        around = self._judged(X)
        radius = np.inf if self.radius is None else self.radius
        return Predictions(
            prediction,
            around,
            _pair(prediction, half * a["target_scale"][0]),
            _pair(around, np.full(len(X), radius)),
            self._jackknife(X),
            self.outside(X),
            self.more(X, own),
        )

    def gpflow_model(self) -> GPR:
        """Return the kept model as GPflow's, in standardised units."""
        from gpsuite.models.tensorflow_setup import configure

        configure()
        from gpsuite.models.regression.gpflow_models import build_gpr

        model = self.model
        found = Hyperparameters(model.variance, tuple(model.lengthscales.tolist()), model.noise)
        return build_gpr(model.X, self.arrays["y"], ModelSpec(model.kernel, ard=True, noise_floor=0.0), found)

    def _models(self) -> LeaveOneOut:
        parts = {name: self.arrays[f"judged_{name}"] for name in LEFT_OUT}
        return LeaveOneOut(kernel=self.model.kernel, variance=self.judged_variance, **parts)

    def _judged(self, X: FloatArray) -> FloatArray:
        """Return the judged model's prediction [B]: of its own rows, which come first."""
        a, models = self.arrays, self._models()
        own = a["judged_posterior"]
        first = replace(models, X=models.X[: len(own)], alpha=own)
        mean = first.mean(self.scaled(X, "judged_input"))
        return np.asarray(a["judged_target_mean"][0] + a["judged_target_scale"][0] * mean)

    def _jackknife(self, X: FloatArray) -> FloatArray:
        """Return intervals [B, 2] that hold whether rows that repeat others are draws, or draws stored again."""
        a, models = self.arrays, self._models()
        predictions, places = models.predictions(self.scaled(X, "judged_input")), a["judged_places"]
        low, high = jackknife_plus(models.errors, predictions, self.coverage)
        errors = np.where(a["judged_lost"], np.inf, models.errors[places])
        lower, upper = jackknife_plus(errors, predictions[places], self.coverage)
        ends = np.column_stack([np.minimum(low, lower), np.maximum(high, upper)])
        own = ends * a["judged_target_scale"][0] + a["judged_target_mean"][0]
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
        more: further columns.
    """

    labels: tuple[str, ...]
    probabilities: FloatArray
    outside: BoolArray
    more: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def predicted(self) -> list[str]:
        return [self.labels[number] for number in np.argmax(self.probabilities, axis=1)]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        shares = {f"p_{name}": self.probabilities[:, place] for place, name in enumerate(self.labels)}
        return {"predicted": np.array(self.predicted), **shares, **self.more, "outside": self.outside}

    def __repr__(self) -> str:
        found = self.predicted
        counts = ", ".join(f"{found.count(name)} {name}" for name in self.labels)
        return (
            f"{len(found)} predictions: {visible(shorten(counts, WIDEST))}; {int(self.outside.sum())} outside the "
            "training range; .to_frame() has their probabilities"
        )

    def to_frame(self) -> pd.DataFrame:
        return frame_of(self.columns())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each class's probabilities, the rows by rising probability of their predicted class."""
        ax, order = axes(ax), np.argsort(self.probabilities.max(axis=1))
        for place, name in enumerate(self.labels):
            ax.plot(np.arange(len(order)), self.probabilities[order, place], ".", label=name)
        ax.set_xlabel("rows by rising probability of the predicted class")
        ax.set_ylabel("class probability")
        ax.legend()
        return ax


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SavedClassifier(SavedModel):
    """A kept classifier.

    Attributes:
        labels: names of the C classes.
        operator_bound: of the posterior.
    """

    task: ClassVar[str] = "classification"
    own: ClassVar[tuple[str, ...]] = ("labels", "operator_bound")
    shapes: ClassVar[dict[str, str]] = SavedModel.shapes | {"y": "M"}  # of a sparse posterior others than N

    labels: tuple[str, ...]
    operator_bound: float

    @classmethod
    def of(cls, data: Dataset, model: Classifier) -> SavedClassifier:
        """Return what is kept of a table's classifier.

        Raises:
            UserError: if files have no form for its likelihood.
        """
        problem, fault = model.problem, model.trained.uncertified
        if fault:
            raise UserError(f"method={model.model.method.builder}: a run of guarantee cannot keep it: {fault}")
        return cls(
            **of_table(data),
            model=stored_model(model.posterior),
            arrays={
                "y": problem.y,
                **_range(data.X[problem.train_rows]),
                "input_mean": problem.offset,
                "input_scale": problem.scale,
            },
            labels=model.labels,
            operator_bound=model.posterior.operator_bound,
        )

    def check(self) -> None:
        super().check()
        two = self.model.likelihood in TWO_CLASSES
        if len(self.labels) != (2 if two else self.model.functions):
            raise ValueError("the labels are not those of the classes")
        if (self.model.squeeze and self.model.likelihood != PROBIT) or self.operator_bound < 1.0:
            raise ValueError("a squeeze of another link than the probit, or a bound that is none")

    @property
    def posterior(self) -> Any:
        """The classifier, of scaled inputs."""
        parts = _posterior(self.model) | {"operator_bound": self.operator_bound}
        if self.model.likelihood == SOFTMAX:
            return MultiClassPosterior(**parts)
        squeezed = SqueezedProbit(squeeze=self.model.squeeze)
        return GPCPosterior(**parts, link=squeezed if self.model.squeeze else LINKS.get(self.model.likelihood))

    def predict(self, X: Any, own: FloatArray | None = None) -> ClassPredictions:
        """Return class probabilities at inputs [B, D] in original units, or of the rows of a DataFrame (`checked`).

        `own` is of regressions only.

        Raises:
            ValueError: as `checked`.
        """
        X = self.checked(X)
        probabilities = view(self.posterior, len(self.labels)).probabilities(self.scaled(X))
        return ClassPredictions(self.labels, probabilities, self.outside(X), self.more(X))

    def gpflow_model(self) -> VGP:
        """Return GPflow's variational model with the posterior at the training rows, of scaled inputs.

        Raises:
            UserError: for several classes, whose joint posterior GPflow has no model for, and for a posterior that is
                not one of the training rows.
        """
        if self.model.likelihood == SOFTMAX:
            raise UserError("gpflow_model: GPflow has no model for the joint posterior of several classes")
        if len(self.arrays["y"]) != len(self.model.X):
            raise UserError("gpflow_model: the posterior is of inducing inputs, not of the training rows")
        from gpsuite.models.tensorflow_setup import configure

        configure()
        from gpsuite.models.classification.variational import as_vgp

        return as_vgp(self.posterior, self.arrays["y"])


Saved = SavedRegression | SavedClassifier
KINDS: Mapping[str, type[Saved]] = {f"saved_{each.task}": each for each in (SavedRegression, SavedClassifier)}


def _posterior(model: Model) -> dict[str, Any]:
    """Return the arguments of a posterior: of one latent function without its axis."""
    parts = {name: getattr(model, name) for name in ("kernel", "variance", *MODEL_ARRAYS)}
    return parts if model.likelihood == SOFTMAX else parts | {"alpha": model.alpha[0], "root": model.root[:, 0]}


def pack(saved: Saved) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what the two files hold: the description, plain JSON values, and the arrays."""
    about, arrays = pack_model(saved.model)
    own = {name: getattr(saved, name) for name in (*TEXTS, *saved.own)}
    envelope = {"format": FORMAT, "version": VERSION, "kind": f"saved_{saved.task}", "model": about}
    return {**envelope, **own}, {**arrays, **saved.arrays}


def parse(found: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Saved:
    """Return the model of a description and its arrays.

    Raises:
        KeyError: if a value is missing.
        TypeError, ValueError: if one is of another type, or they are no model.
    """
    kind, model = KINDS[found["kind"]], parse_model(found["model"], arrays)
    own = {name: READERS[name](found[name]) for name in (*TEXTS, *kind.own)}
    saved: Saved = kind(model=model, arrays={name: arrays[name] for name in kind.shapes}, **own)
    if certificate.KINDS.get(model.likelihood) != kind.task:
        raise ValueError("the model's likelihood is not the kind's")
    saved.check()
    return saved


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("a list of texts is needed")
    return tuple(words(each) for each in value)


READERS: Mapping[str, Callable[[Any], Any]] = {
    "inputs": _texts,
    "target": words,
    "guarantee": _texts,
    "labels": _texts,
    "categories": lambda value: {words(name): _texts(levels) for name, levels in value.items()},
    "reading": lambda value: {words(key): words(mark) for key, mark in value.items()},
    "radius": lambda value: None if value is None else real(value),
    **dict.fromkeys(("coverage", "judged_variance", "operator_bound"), real),
}


def packed(saved: Saved) -> dict[str, npt.NDArray[Any]]:
    return prefixed(*pack(saved))


def prefixed(description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return description and arrays as arrays of a record."""
    return {DESCRIPTION: np.array(json.dumps(description))} | {f"{PREFIX}{name}": each for name, each in arrays.items()}


def unpacked(arrays: Mapping[str, npt.NDArray[Any]], guarantee: Sequence[str] = ()) -> Saved:
    """Return the model in a record's arrays, with what the run proved.

    Raises:
        UserError: if the record was stored before models were certificates' ones.
    """
    if DESCRIPTION not in arrays:
        raise UserError(f"the stored records hold a model of an older version; {AGAIN}")
    own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    return replace(parse(json.loads(str(arrays[DESCRIPTION])), own), guarantee=tuple(guarantee))


def write_model(saved: Saved, folder: Path) -> None:
    """Write model.json and model.npz.

    Raises:
        OSError: if a file cannot be written.
    """
    write_packed(*pack(saved), folder / NAME)


def load(run: str | Path) -> Saved:
    """Return the model of a run of guarantee, for predictions and as GPflow's (`gpflow_model`).

    Args:
        run: the run's folder.

    Raises:
        UnusableFileError: if the folder holds no model, or a damaged one.
    """
    path = Path(run) / FOLDER / NAME
    npz, other = file_pair(path)
    if not (npz.exists() and other.exists()):
        raise UnusableFileError(
            f"{run}: no model of a run\ngive the folder of a run of experiment=guarantee, such as "
            "results/guarantee/quick~1a2b3c4d"
        )
    found = read_envelope(path, "model", AGAIN)
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnusableFileError(f"{other}: not a model that a run of experiment=guarantee keeps")
    expected: dict[str, tuple[type[np.generic], int]] = {
        f"model_{name}": (np.float64, axes) for name, axes in MODEL_ARRAYS.items()
    }
    expected |= {name: (DTYPES.get(name, np.float64), len(axes)) for name, axes in KINDS[kind].shapes.items()}
    arrays = read_content(path, found, expected, LARGEST)
    saved: Saved = parse_fields(other, lambda: parse(found, arrays))
    from gpsuite.experiments.guarantee.conformal import read  # sets of classes are by a saved classifier

    return replace(saved, calibrated=read(path.parent, saved.inputs, saved.target))
