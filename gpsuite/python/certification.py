"""`gpsuite.certify`: how far the prediction of a trained model can move in a region around a point, proved."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import NO_ROW, POSITIVE, Certificate, ClassQuantity, Origin, QuantileQuantity
from gpsuite.certificates.risk import UNNAMED_TARGET
from gpsuite.certificates.stationarity import TOLERANCE as TOLERATED
from gpsuite.certificates.stationarity import stationarity_residuals
from gpsuite.errors import UserError
from gpsuite.methods.robustness.certification import Found
from gpsuite.methods.robustness.certification import certify as certificate_of
from gpsuite.methods.robustness.multiclass.one_vs_rest_bound import OneVsRestBound
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.regression import MEAN, prediction_range
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import ClassRange, Verdict, complement
from gpsuite.models.given.given import GivenModel, OneVsRestPosterior, latent_moments
from gpsuite.python.certified import OPEN, RANGE, SAFE, UNSAFE, Certified, CertifiedRows
from gpsuite.python.inputs import Inputs, Row, rows_of, unwrapped
from gpsuite.python.models import given_model, inputs_before
from gpsuite.python.regions import Asked

SECONDS = 10.0
TOLERANCE = 1e-3  # of a probability. Of a mean in prior standard deviations
AGREEMENT = 1e-6  # largest difference of latent moments from the model's own, in prior deviations and variances
VERDICTS = {"safe": SAFE, "unsafe": UNSAFE, "unknown": OPEN}
SLACK = {True: 1e-3, False: 1e-2}  # of a certificate, by whether it is of two classes


def certify(
    model: Any,
    x: Any,
    radius: float | None = None,
    *,
    within: Mapping[Any, float] | None = None,
    box: tuple[Any, Any] | None = None,
    norm: str = "linf",
    seconds: float = SECONDS,
    boxes: int | None = None,
    tolerance: float = TOLERANCE,
) -> Any:
    """Prove how far a trained model's prediction can move when the inputs of x move.

    Give one of `radius`, `within` and `box`. All are in the units of x, also where a Pipeline scales its columns.
    Columns that an encoder takes (one-hot) stay as they are.

    Args:
        model: GPflow's GPR, SGPR, VGP or SVGP. Scikit-learn's GaussianProcessClassifier or GaussianProcessRegressor,
            single or at the end of a Pipeline, or one of gpsuite's.
        x: one row (an array [D], a Series, a table of one row), or many (an array [B, D], a table).
        radius: how far every number may be off.
        within: column -> how far it may be off. The other columns stay.
        box: (lower, upper), each an end for every column, or column -> end.
        norm: "linf", "l2" or "l1": how the radius is measured.
        seconds: for each row. The best bounds so far are returned when they end.
        boxes: that a search may bound, for each row.
        tolerance: the searches end where what is proved is this near to what is attained. Of a regression in prior
            standard deviations.

    Returns:
        the result of one row, a `Certified`, or those of many rows, `CertifiedRows`.

    Raises:
        UserError: in a sentence, if the model, its kernel or the region is not known, or x does not fit.
    """
    asked = Asked(radius, within, box, norm)
    limits = Limits(_positive("seconds", seconds), boxes, _positive("tolerance", tolerance))
    inner, steps = unwrapped(model)
    given = given_model(inner)
    inputs = inputs_before(inner, steps, given.inputs)
    rows, single = rows_of(x, inputs)
    run = _Run(model, given, given.in_units(inputs.scale, inputs.offset), inputs, limits)
    found = [run.row(row, asked) for row in rows]
    return found[0] if single else CertifiedRows(found)


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise UserError(f"{name}={value}: must be a number above 0")
    return float(value)


@dataclass(frozen=True)
class Limits:
    """Limits of the searches of one row. See `certify`."""

    seconds: float
    boxes: int | None
    tolerance: float


@dataclass(frozen=True, eq=False, repr=False)
class _Run:
    """One model, for all rows.

    Attributes:
        model: the user's.
        given: what is known of it, in its own units.
        scaled: the same in the user's units.
    """

    model: Any
    given: GivenModel
    scaled: GivenModel
    inputs: Inputs
    limits: Limits

    def row(self, row: Row, asked: Asked) -> Certified:
        started = time.monotonic()
        region = asked.around(row, self.inputs, self.given.columns)
        budget = Budget(seconds=self.limits.seconds, boxes=self.limits.boxes)
        regression = not self.given.labels
        if regression and region.norm != "box":
            raise UserError(f"norm={asked.norm!r}: the range of a regression is found over boxes, norm='linf'")
        found = self._regression(row, region, budget) if regression else self._classes(row, region, budget)
        return Certified(**found, about=self.given.about, seconds=time.monotonic() - started)

    def _regression(self, row: Row, region: Region, budget: Budget) -> dict[str, Any]:
        given, posterior = self.given, self.scaled.posterior
        tolerance = self.limits.tolerance * float(np.sqrt(posterior.variance))
        [found] = prediction_range(posterior, given.noise, region, [MEAN], tolerance, budget)
        points = [self._moved(row, region, end) for end in (found.lowest_point, found.highest_point) if end is not None]
        claims = [(QuantileQuantity(MEAN), end) for end in (found.minimum, found.maximum)]
        low, high = (given.offset + given.scale * each for each in (found.lowest_proved, found.highest_proved))
        return {
            "verdict": RANGE,
            "prediction": given.offset + given.scale * found.centre,
            "value": given.offset + given.scale * found.centre,
            "range": (_outward(low, -1), _outward(high, 1)),
            "attained": tuple(
                given.offset + given.scale * each if np.isfinite(each) else np.nan
                for each in (found.lowest, found.highest)
            ),
            "counterexample": None,
            "counterexample_prediction": None,
            "reason": found.status,
            "proved": True,
            "agreement": self._agreement([row, *points]),
            "boxes": found.boxes,
            "prove": self._proof(region, claims),
        }

    def _classes(self, row: Row, region: Region, budget: Budget) -> dict[str, Any]:
        search = PointSearch(self.scaled.posterior, region.centre, region.free)
        own = search.centre.own
        first = budget.part(2)
        verdict, rivals = search.decide(region, first)
        budget.spend(boxes=first.spent_boxes)
        found = search.range(region, self.limits.tolerance, budget, search.followed(own))
        if verdict.status == "unknown":
            verdict = found.verdict if found.verdict.status != "unknown" else verdict
        verdict, other, prediction = self._checked(verdict, row, region, own)
        proved = [] if self.given.several else list(rivals.values())  # of two classes they are about the same number
        value, ends, attained = self._values(search, found, own, region, proved)
        if self.given.several and verdict.status == "safe":
            ends = max(ends[0], 1.0 / len(self.given.labels)), ends[1]
        moved = [
            self._moved(row, region, side.witness)
            for side in (found.minimum, found.maximum)
            if side.witness is not None
        ]
        used = [*rivals.values(), found.minimum, found.maximum]
        return {
            "verdict": VERDICTS[verdict.status],
            "prediction": self.given.labels[own],
            "value": value,
            "range": ends,
            "attained": attained,
            "counterexample": None if other is None else other.own,
            "counterexample_prediction": prediction,
            "reason": verdict.reason,
            "proved": search.proves(used),
            "agreement": self._agreement([row, *moved, *([] if other is None else [other])]),
            "boxes": sum(each.boxes for each in used),
            "prove": self._proof(region, _claims(found, rivals, self.given.several)),
        }

    def _checked(self, verdict: Verdict, row: Row, region: Region, own: int) -> tuple[Verdict, Row | None, Any]:
        """Return the verdict, the counterexample and the model's own prediction there, which must be another class."""
        if verdict.counterexample is None:
            return verdict, None, None
        other = self._moved(row, region, verdict.counterexample[region.free])
        prediction = self._predicted(other)
        if prediction == self.given.labels[own]:
            reason = "a tie: another class is attained, but the model's own rounding or link keeps the class"
            return Verdict("unknown", reason), None, None
        return verdict, other, prediction

    def _predicted(self, row: Row) -> Any:
        """Return the class that the model's own predict gives, or the likeliest one if it has none."""
        if hasattr(self.model, "predict") and not hasattr(self.model, "predict_f"):
            found = self.model.predict(row.table)
            return np.asarray(getattr(found, "predicted", found)).ravel().tolist()[0]
        point = self.inputs.point(row)[self.given.columns]
        return self.given.labels[PointSearch(self.scaled.posterior, point, np.arange(1)).centre.own]

    def _values(
        self, search: PointSearch, found: ClassRange, own: int, region: Region, proved: Sequence[Extremum]
    ) -> tuple[float, tuple[float, float], tuple[float, float]]:
        """Return the class probability at the point, its range, and what is attained of it."""
        value = search.centre.probability(own)[0]
        low = max(side.outer for side in (found.minimum, *proved) if side.sign < 0)
        high = min(side.outer for side in (found.maximum, *proved) if side.sign > 0)
        least, most = (side.inner if side.witness is not None else np.nan for side in (found.minimum, found.maximum))
        if found.own != own:
            (low, high), (least, most) = complement(low, high), (1.0 - most, 1.0 - least)
        error = self._link_error(search, region)
        return value, (max(low - error, 0.0), min(high + error, 1.0)), (least, most)

    def _link_error(self, search: PointSearch, region: Region) -> float:
        """Return how far the library's own class probability may be from the exact one, in the region."""
        error, posterior = self.given.link_error, self.scaled.posterior
        if not isinstance(posterior, OneVsRestPosterior):
            return error
        bound: OneVsRestBound = search.bound
        C, least = posterior.n_classes, bound.least_sum(*region.root_box())
        room = least - C * error
        return 1.0 if room <= 0.0 else error * (C - 1) / room

    def _moved(self, row: Row, region: Region, free: FloatArray) -> Row:
        """Return the row with the region's free inputs at a point of it."""
        places = [self.inputs.columns[column].source for column in self.given.columns[region.free]]
        kept = [(place, value) for place, value in zip(places, free, strict=True) if place is not None]
        if not kept:
            return row
        chosen, values = zip(*kept, strict=True)
        return row.moved(chosen, np.array(values))

    def _agreement(self, rows: Sequence[Row]) -> float:
        """Return the largest difference from the model's own latent moments at these rows.

        Raises:
            UserError: if it is large: what was certified would not be the model.
        """
        points = np.array([self.inputs.point(row) for row in rows])
        own = self.given.own((points - self.inputs.offset) / self.inputs.scale)
        here = latent_moments(self.scaled.posterior, points[:, self.given.columns])
        variance = largest_variance(self.scaled)
        apart = [
            np.max(np.abs(a - b)) / unit for a, b, unit in zip(own, here, (np.sqrt(variance), variance), strict=True)
        ]
        if not max(apart) <= AGREEMENT:
            raise UserError(
                f"the posterior taken from the model differs from the model's own by {max(apart):.1e} of its prior: "
                "nothing is certified"
            )
        return float(max(apart))

    def _proof(self, region: Region, claims: Sequence[Found]) -> Any:
        if self.given.uncertified:
            return self.given.uncertified
        return partial(self._certificate, region, claims)

    def _certificate(self, region: Region, claims: Sequence[Found]) -> Certificate:
        posterior, regression = self.scaled.posterior, not self.given.labels
        two = not (regression or self.given.several)
        noise = self.given.noise if regression else 0.0
        budget = Budget(seconds=self.limits.seconds)
        made = certificate_of(posterior, region, claims, slack=SLACK[two], noise=noise, budget=budget)
        return self._with_rows(made, region)

    def _with_rows(self, made: Certificate, region: Region) -> Certificate:
        """Return the certificate with the training rows and units of an exact regression, if the check can use them."""
        given, inputs = self.given, made.model.X.shape[1]
        if given.targets is None:
            return made
        origin = Origin(
            dataset="",
            content="",
            row=NO_ROW,
            outputs=(UNNAMED_TARGET,),
            inputs=tuple(self._input_name(column) for column in given.columns[region.free]),
            inference="exact",
            rows=np.arange(len(given.targets)),
            targets=given.targets,
            offset=np.zeros(inputs),
            scale=np.ones(inputs),
            X=np.empty((0, inputs)),
            sites=np.empty((2, 0)),
            target_offset=given.offset,
            target_scale=given.scale,
        )
        found = stationarity_residuals(made.model, origin)
        exact = found.largest <= max(TOLERATED, found.rounding)
        return replace(made, origin=origin) if exact else made

    def _input_name(self, column: int) -> str:
        source, names = self.inputs.columns[column].source, self.inputs.names
        return f"input {column}" if source is None or names is None else names[source]


def _claims(found: ClassRange, rivals: Mapping[int, Extremum], several: bool) -> list[Found]:
    sides = (found.minimum, found.maximum)
    if not several:
        return [(POSITIVE, side) for side in sides]
    claims: list[Found] = [(ClassQuantity(found.own), side) for side in sides]
    return claims + [(ClassQuantity(found.own, rival), side) for rival, side in rivals.items()]


def largest_variance(given: GivenModel) -> float:
    posterior = given.posterior
    return max(float(part.variance) for part in getattr(posterior, "parts", (posterior,)))


def _outward(value: float, side: int) -> float:
    """Return an end that offset and scale may have rounded, moved outwards."""
    return float(value + side * 4.0 * np.finfo(float).eps * abs(value)) if np.isfinite(value) else value
