"""The regression that a run of guarantee keeps, and its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.guarantee.regression import Fitted, Judged, conformal_radius
from gpsuite.experiments.guarantee.saved_model import SavedModel, of_description, of_table
from gpsuite.methods.conformal import LeaveOneOut, jackknife_plus
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import LatentPosterior

if TYPE_CHECKING:
    from gpflow.models import GPR


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
            f"{name}_{end}": pair[:, place]
            for name, pair in pairs.items()
            for place, end in enumerate(("low", "high"))
        }
        return {
            "prediction": self.prediction,
            "prediction_judged": self.judged,
            **ends,
            "outside": self.outside,
        }


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
        from gpsuite.models.regression.exact import build_gpr

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
