"""Intervals that follow the judged model's spread, and sets of classes: what rows set aside promise of new rows.

The promise assumes that these rows and the new one are exchangeable: every order is equally likely. Hyperparameters,
scale and centre are those of the judged model, which saw none of the rows that are set aside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.envelope import FORMAT, VERSION, read_content, read_envelope, write_packed
from gpsuite.certificates.model import MODEL_ARRAYS
from gpsuite.data.dataset import Dataset
from gpsuite.data.splits import DifferentRows
from gpsuite.experiments.base import finite_or_none
from gpsuite.experiments.guarantee.regression import KERNEL, Judged, rounding
from gpsuite.experiments.guarantee.saved import (
    AGAIN,
    DESCRIPTION,
    LARGEST,
    PREFIX,
    SavedClassifier,
    pack,
    parse,
    prefixed,
)
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.methods.conformal import (
    ClassCalibration,
    LeaveOneOut,
    LeaveOneOutSpread,
    adaptive_scores,
    class_sets,
    follows_spread,
    jackknife_plus,
    label_scores,
    weighted_radii,
)
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, real, words

NAME = "conformal"  # in the run's folder; model/conformal.json and .npz
TIES = 1e-9  # relative: a row whose score equals the threshold must not fall out by rounding
PARTS = ("X", "alpha", "changes", "root", "columns")  # arrays of models without a row
BETWEEN = "|"  # classes of a set


@dataclass(frozen=True, eq=False, kw_only=True)
class SpreadIntervals:
    """Intervals whose width is that of the judged model's spread, times what rows set aside needed.

    Attributes:
        coverage: of each interval.
        variance: of the judged model's kernel.
        noise: variance of its noise.
        weight_name: the column of likelihood ratios, which new rows need, or an empty string.
        inputs: names of the inputs, D.
        target: its name.
        arrays: by the names in `shapes`. `split_` of the model that saw no row set aside, `left_` of those without one.
            Twice scores and weights of the calibration: of all rows, and of rows that are no copies.
    """

    kind: ClassVar[str] = "saved_intervals"
    shapes: ClassVar[dict[str, str]] = {
        "input_mean": "D", "input_scale": "D", "target_mean": "1", "target_scale": "1", "lengthscales": "D",
        **{f"split_{name}": axes for name, axes in zip(PARTS, ("JD", "J", "JZ", "JJ", "JZ"), strict=True)},
        **{f"left_{name}": axes for name, axes in zip(PARTS, ("ID", "I", "IH", "II", "IH"), strict=True)},
        "left_scores": "H", "left_places": "P", "left_lost": "P",
        "scores": "N", "weights": "N", "different_scores": "M", "different_weights": "M",
    }  # fmt: skip
    types: ClassVar[dict[str, type[np.generic]]] = {"left_places": np.int64, "left_lost": np.bool_}

    coverage: float
    variance: float
    noise: float
    weight_name: str
    inputs: tuple[str, ...]
    target: str
    arrays: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, data: Dataset, judged: Judged, coverage: float) -> SpreadIntervals:
        """Return those that the rows set aside of the judged model decide."""
        fitted, rows = judged.fitted, calibration_rows(data, judged)
        found = fitted.posterior.hyperparameters
        X, y = fitted.inputs.transform(data.X), fitted.target.transform(data.y[:, :1])[:, 0]
        every = np.concatenate([fitted.rows, judged.held])
        lost = judged.held_different or DifferentRows.every(len(judged.held))
        split = LeaveOneOutSpread.fit(X[fitted.rows], y[fitted.rows], np.empty(0, np.int64), KERNEL, found)
        places = np.arange(len(fitted.rows), len(every))
        left = LeaveOneOutSpread.fit(X[every], y[every], places, KERNEL, found)
        slack = rounding(judged.leave_one_out, fitted.target) / np.sqrt(found.noise_variance)
        errors = np.abs(y[rows] - split.models.mean(X[rows])) / split.deviation(X[rows])
        arrays: dict[str, npt.NDArray[Any]] = {
            "input_mean": fitted.inputs.mean,
            "input_scale": fitted.inputs.scale,
            "target_mean": fitted.target.mean,
            "target_scale": fitted.target.scale,
            "lengthscales": split.models.lengthscales,
            **{f"split_{name}": each for name, each in _parts(split).items()},
            **{f"left_{name}": each for name, each in _parts(left).items()},
            "left_scores": left.scores * (1.0 + TIES) + slack,
            "left_places": lost.places,
            "left_lost": lost.seen,
            **_calibration(data, judged, rows, errors * (1.0 + TIES) + slack),
        }
        return cls(
            coverage=coverage,
            variance=found.variance,
            noise=found.noise_variance,
            weight_name=data.weight_name,
            inputs=data.input_names,
            target=data.target_names[0],
            arrays=arrays,
        )

    def check(self) -> None:
        """Refuse arrays that do not fit together.

        Raises:
            ValueError: with the first fault.
        """
        sizes = {"1": 1, "Z": 0}
        for name, letters in self.shapes.items():
            array = self.arrays[name]
            if any(sizes.setdefault(each, size) != size for each, size in zip(letters, array.shape, strict=True)):
                raise ValueError(f"{name} does not fit the other arrays")
            if np.isnan(array).any() or (name.endswith(("_scale", "lengthscales")) and not (array > 0.0).all()):
                raise ValueError(f"{name} holds NaN, or a scale that is not positive")
        if len(self.inputs) != sizes["D"]:
            raise ValueError("the names are not those of the inputs")
        places = self.arrays["left_places"]
        if not ((places >= 0) & (places < sizes["H"])).all():
            raise ValueError("left_places are not those of its rows")
        if not (0.0 < self.coverage < 1.0 and self.variance > 0.0 and self.noise > 0.0):
            raise ValueError("a coverage that is not in (0, 1), or a variance or noise that is not positive")

    def radii(self, own: FloatArray) -> FloatArray:
        """Return how many deviations of the judged model hold a new target, [B], for new rows of weights [B]."""
        a = self.arrays
        found = [weighted_radii(a[f"{of}scores"], a[f"{of}weights"], own, self.coverage) for of in ("", "different_")]
        return np.maximum(*found)

    def columns(self, X: FloatArray, own: FloatArray | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return the ends at inputs [B, D] in original units, by the names of their columns.

        Args:
            X: the inputs.
            own: likelihood ratios of the new rows, [B]. Without them, of a table that has some, nothing is promised.
        """
        a, scaled = self.arrays, (X - self.arrays["input_mean"]) / self.arrays["input_scale"]
        split, left = self._models("split"), self._models("left")
        radii = self.radii(np.ones(len(X)) if own is None else own)
        if self.weight_name and own is None:
            radii = np.full(len(X), np.inf)
        centre, reach = split.models.mean(scaled), radii * split.deviation(scaled)
        predictions, deviations = left.models.predictions(scaled), left.deviations(scaled)
        low, high = jackknife_plus(left.scores, predictions, self.coverage, deviations)
        places = a["left_places"]
        scores = np.where(a["left_lost"], np.inf, left.scores[places])
        lower, upper = jackknife_plus(scores, predictions[places], self.coverage, deviations[places])
        ends = {
            "spread_low": centre - reach,
            "spread_high": centre + reach,
            "jackknife_spread_low": np.minimum(low, lower),
            "jackknife_spread_high": np.maximum(high, upper),
        }
        return {name: each * a["target_scale"][0] + a["target_mean"][0] for name, each in ends.items()}

    def _models(self, which: str) -> LeaveOneOutSpread:
        parts = {name: self.arrays[f"{which}_{name}"] for name in PARTS}
        scores = self.arrays["left_scores"] if which == "left" else np.empty(0)
        first = LeaveOneOut(
            parts["X"], KERNEL, self.variance, self.arrays["lengthscales"], parts["alpha"], parts["changes"], scores
        )
        return LeaveOneOutSpread(first, parts["root"], parts["columns"], self.noise, scores)

    def packed(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[Any]]]:
        """Return what the two files hold."""
        own = {
            name: getattr(self, name) for name in ("coverage", "variance", "noise", "weight_name", "inputs", "target")
        }
        return {"format": FORMAT, "version": VERSION, "kind": self.kind, **own}, self.arrays

    @classmethod
    def parsed(cls, found: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> SpreadIntervals:
        numbers = {name: real(found[name]) for name in ("coverage", "variance", "noise")}
        names = tuple(words(name) for name in found["inputs"])
        own = {name: arrays[name] for name in cls.shapes}
        weight_name, target = words(found["weight_name"]), words(found["target"])
        intervals = cls(**numbers, weight_name=weight_name, inputs=names, target=target, arrays=own)
        intervals.check()
        return intervals

    @classmethod
    def expected(cls) -> dict[str, tuple[type[np.generic], int]]:
        return {name: (cls.types.get(name, np.float64), len(axes)) for name, axes in cls.shapes.items()}


def default_interval(data: Dataset, judged: Judged, coverage: float) -> str:
    """Return which split interval to take, `spread` or `conformal`: the narrower one on training rows.

    Left out in turn, they decide it without the rows that scale the intervals, so that its coverage stays. Likelihood
    ratios are only in `spread`. Chosen by scripts/study_conformal.py, rule 5.
    """
    if data.weights is not None:
        return "spread"
    fitted, rows = judged.fitted, judged.fitted.rows
    X, y = fitted.inputs.transform(data.X[rows]), fitted.target.transform(data.y[rows, :1])[:, 0]
    left = LeaveOneOutSpread.fit(X, y, np.arange(len(rows)), KERNEL, fitted.posterior.hyperparameters)
    return "spread" if follows_spread(left.models.errors, left.scores, coverage) else "conformal"


def _parts(spread: LeaveOneOutSpread) -> dict[str, FloatArray]:
    models = spread.models
    return dict(zip(PARTS, (models.X, models.alpha, models.changes, spread.root, spread.columns), strict=True))


def calibration_rows(data: Dataset, judged: Judged) -> IntArray:
    """Return the rows that scale the intervals: those set aside. Of groups every row of the groups set aside."""
    if data.clusters is None:
        return judged.aside
    return np.flatnonzero(np.isin(data.clusters, data.clusters[judged.aside]))


def _calibration(data: Dataset, judged: Judged, rows: IntArray, scores: FloatArray) -> dict[str, FloatArray]:
    """Return scores and weights of all rows, and of the different ones. Those that training saw are lost.

    A row of a group weighs one over the group's rows: then a row of a new group is like these.
    """
    found = {"scores": scores, "weights": _weights(data, rows)}
    different = DifferentRows.of(rows, judged.fitted.rows, data.groups) or DifferentRows.every(len(rows))
    lost = np.where(different.seen, np.inf, scores[different.places])
    return found | {"different_scores": lost, "different_weights": _weights(data, rows[different.places])}


def _weights(data: Dataset, rows: IntArray) -> FloatArray:
    if data.clusters is not None:
        _, which, counts = np.unique(data.clusters[rows], return_inverse=True, return_counts=True)
        return np.asarray(1.0 / counts[which])
    return np.ones(len(rows)) if data.weights is None else np.asarray(data.weights[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSets:
    """Sets of classes by the judged classifier.

    Attributes:
        judged: trained without the rows that chose the thresholds.
        coverage: of the sets, and of the rows of each class.
        calibration: the thresholds.
    """

    kind: ClassVar[str] = "saved_class_sets"
    weight_name: ClassVar[str] = ""

    judged: SavedClassifier
    coverage: float
    calibration: ClassCalibration

    @classmethod
    def of(cls, data: Dataset, model: Classifier, coverage: float) -> ClassSets:
        """Return those that the test rows of the judged classifier decide."""
        problem, saved = model.problem, SavedClassifier.of(data, model)
        rows, truth = problem.test_rows, problem.test_classes
        p, u = saved.predict(data.X[rows]).probabilities, shares(data.X[rows])
        found = ClassCalibration.fit(p, truth, u, coverage)
        different = DifferentRows.of(rows, problem.train_rows, data.groups)
        if different is not None:
            places = different.places
            again = ClassCalibration.fit(p[places], truth[places], u[places], coverage, different.seen)
            found = ClassCalibration(max(found.marginal, again.marginal), np.maximum(found.each, again.each))
        # a row whose score equals a threshold must not fall out by rounding
        found = ClassCalibration(found.marginal + TIES, found.each + TIES)
        return cls(judged=saved, coverage=coverage, calibration=found)

    def sets(self, X: FloatArray) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the adaptive sets, and those of a threshold per class, [B, C] each, at inputs in original units."""
        p = self.judged.predict(X).probabilities
        adaptive = class_sets(adaptive_scores(p, shares(X)), self.calibration.marginal, p)
        return adaptive, class_sets(label_scores(p), self.calibration.each, p)

    def columns(self, X: FloatArray, own: FloatArray | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return both sets at inputs [B, D] in original units, classes with `|` between.

        `own` is for intervals only.
        """
        adaptive, each = self.sets(X)
        return {"class_set": self._named(adaptive), "class_set_each": self._named(each)}

    def _named(self, sets: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        labels = np.array(self.judged.labels)
        return np.array([BETWEEN.join(labels[row]) for row in sets])

    def packed(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[Any]]]:
        """Return what the two files hold."""
        about, arrays = pack(self.judged)
        own = {"coverage": self.coverage, "marginal": finite_or_none(self.calibration.marginal)}
        return {**about, "kind": self.kind, **own, "each": [finite_or_none(t) for t in self.calibration.each]}, arrays

    @classmethod
    def parsed(cls, found: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> ClassSets:
        judged = parse({**found, "kind": "saved_classification"}, arrays)
        if not isinstance(judged, SavedClassifier) or len(found["each"]) != len(judged.labels):
            raise ValueError("a threshold is needed for each class")
        each = np.array([_or_infinite(value) for value in found["each"]])
        calibration = ClassCalibration(_or_infinite(found["marginal"]), each)
        return cls(judged=judged, coverage=real(found["coverage"]), calibration=calibration)

    @classmethod
    def expected(cls) -> dict[str, tuple[type[np.generic], int]]:
        found: dict[str, tuple[type[np.generic], int]] = {
            f"model_{name}": (np.float64, axes) for name, axes in MODEL_ARRAYS.items()
        }
        return found | {name: (np.float64, len(axes)) for name, axes in SavedClassifier.shapes.items()}


def shares(X: FloatArray) -> FloatArray:
    """Return a number in [0, 1) for each row [B, D], as if drawn: the same row has the same one in every file.

    It breaks ties of adaptive sets. Being a function of the row, it leaves the rows exchangeable.
    """
    rows = np.ascontiguousarray(X + 0.0, dtype="<f8")  # no -0
    drawn = [int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "little") >> 11 for row in rows]
    return np.array(drawn, dtype=np.float64) / 2.0**53


def _or_infinite(value: Any) -> float:
    return np.inf if value is None else real(value)


Calibrated = SpreadIntervals | ClassSets
KINDS: Mapping[str, type[Calibrated]] = {each.kind: each for each in (SpreadIntervals, ClassSets)}


def in_record(calibrated: Calibrated) -> dict[str, npt.NDArray[Any]]:
    return prefixed(*calibrated.packed())


def of_record(arrays: Mapping[str, npt.NDArray[Any]]) -> Calibrated:
    about = json.loads(str(arrays[DESCRIPTION]))
    return KINDS[about["kind"]].parsed(about, {name.removeprefix(PREFIX): each for name, each in arrays.items()})


def write(calibrated: Calibrated, folder: Path) -> None:
    """Write conformal.json and conformal.npz. OSError if a file cannot be written."""
    write_packed(*calibrated.packed(), folder / NAME)


def read(folder: Path, inputs: Sequence[str], target: str) -> Calibrated | None:
    """Return what is kept with a saved model of these names. None if there are no such files, as of older runs.

    Raises:
        UnusableFileError: if it is damaged, of another version or of another table.
    """
    path = folder / NAME
    npz, other = file_pair(path)
    if not (npz.exists() and other.exists()):
        return None
    found = read_envelope(path, "model", AGAIN)
    kind = KINDS.get(parse_fields(other, lambda: words(found["kind"])))
    if kind is None:
        raise UnusableFileError(f"{other}: no intervals or sets of classes of a run of experiment=guarantee")
    arrays = read_content(path, found, kind.expected(), LARGEST)
    calibrated: Calibrated = parse_fields(other, lambda: kind.parsed(found, arrays))
    if isinstance(calibrated, ClassSets):
        names, of = calibrated.judged.inputs, calibrated.judged.target
    else:
        names, of = calibrated.inputs, calibrated.target
    if (tuple(names), of) != (tuple(inputs), target):
        raise UnusableFileError(f"{other}: of another table than the model")
    return calibrated
