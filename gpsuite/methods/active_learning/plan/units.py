"""Units in which a plan's models see the user's measurements, and the way back.

Equation: none, changes of units
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning.safety import SafetyLimit

MOST_DRIFT = 2.0
"""Units are kept while those of all measurements together differ by at most this factor."""

WIDEST = 4.0
"""See `Units.x_scale`; the paper's toy problem has 3.3 between pool and first measurements."""

FAR = 3.0
"""See `far_inputs`: at 5, of 300 candidates 137 were called safe and none was unsafe; at 50, 201 and 17."""

_NO_SPREAD = 1e-15  # of the size: what the rounding of equal values leaves
PESSIMISM = 0.5
"""How far beyond the limit the safety prior is centred, in root mean squares of z - limit.

On a bowl of two inputs with 10 safe measurements, of the candidates called safe at 95 % were unsafe: 2.2 % at 0,
0.2 % at 0.5, none of fewer at 1; with 4 measurements there were 41, 14 and 2 to choose from.
"""


@dataclass(frozen=True, eq=False)
class Units:
    """Offsets and scales of inputs, outputs and safety value.

    The safety value's offset, where the prior of the safety model is centred, lies beyond the limit, half as far as
    the measured values typically are away from it: far from all measurements a point is rather unsafe than safe.

    Attributes:
        x_offset: mean of the measured inputs, those that lie far from all others left out here and below, [D].
        x_scale: standard deviation of candidates and measured inputs, but at most `WIDEST` times that of the measured
            ones: far candidates must not make the models smooth, and points safe, around those that were measured; [D].
        y_offset: mean of each output's measured values, [P].
        y_scale: their standard deviation, [P].
        z_offset: r / 2 beyond the limit on the unsafe side, r the root mean square of z - limit, [1].
        z_scale: root mean square of z - z_offset, [1].
    """

    x_offset: FloatArray
    x_scale: FloatArray
    y_offset: FloatArray
    y_scale: FloatArray
    z_offset: FloatArray
    z_scale: FloatArray

    @classmethod
    def of(
        cls, candidates: FloatArray, X: FloatArray, Y: FloatArray, z: FloatArray, limit: SafetyLimit
    ) -> Units:
        """Return the units of candidates [n, D], measured inputs [N, D], outputs [N, P] with gaps, safety values [M].

        Values without spread are scaled by their size, a zero by 1.
        """
        X = X[~far_inputs(X, candidates).any(axis=1)]
        y_offset = np.nanmean(Y, axis=0)
        unsafe = -PESSIMISM if limit.side == "above" else PESSIMISM
        z_offset = limit.value + unsafe * _rms(z - limit.value)
        x_offset = X.mean(axis=0)
        around = X.std(axis=0)
        around = np.where(around > _NO_SPREAD * np.abs(x_offset), around, np.inf)
        wide = np.concatenate([candidates, X]).std(axis=0)
        return cls(
            x_offset,
            _scale(np.minimum(wide, WIDEST * around), x_offset),
            y_offset,
            _scale(np.nanstd(Y, axis=0), y_offset),
            z_offset,
            _scale(_rms(z - z_offset), np.array([max(np.abs(z).max(), abs(limit.value))])),
        )

    def near(self, other: Units) -> bool:
        """Whether the other's scales differ at most by `MOST_DRIFT`, and its offsets by at most a scale."""
        for letter in "xyz":
            scale, offset = (getattr(self, f"{letter}_{name}") for name in ("scale", "offset"))
            ratio = getattr(other, f"{letter}_scale") / scale
            moved = np.abs(getattr(other, f"{letter}_offset") - offset) / scale
            if ratio.max() > MOST_DRIFT or ratio.min() < 1.0 / MOST_DRIFT or moved.max() > 1.0:
                return False
        return True

    def inputs(self, X: FloatArray) -> FloatArray:
        """Return inputs [n, D] in these units."""
        return np.asarray((X - self.x_offset) / self.x_scale)

    def limit(self, limit: SafetyLimit) -> SafetyLimit:
        """Return the limit of the safety value in these units."""
        return SafetyLimit(float((limit.value - self.z_offset[0]) / self.z_scale[0]), limit.side)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return everything as arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def far_inputs(X: FloatArray, candidates: FloatArray) -> BoolArray:
    """Return which measured inputs X [N, D] lie far from the middle half of all and from all candidates, [N, D].

    More than `FAR` times the range of both together outside of it: typed in another unit, most of all. They must not
    stretch what counts as the measured range, within which values are believed.
    """
    low, high = np.quantile(X, [0.25, 0.75], axis=0)
    low, high = np.minimum(low, candidates.min(axis=0)), np.maximum(high, candidates.max(axis=0))
    reach = FAR * (high - low)
    return np.asarray((reach > 0.0) & (np.maximum(low - X, X - high) > reach))


def _rms(values: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.mean(values**2, keepdims=True)))


def _scale(spread: FloatArray, size: FloatArray) -> FloatArray:
    """Return the spread; without one (up to rounding) the size, and 1 for a zero."""
    size = np.where(size == 0.0, 1.0, np.abs(size))
    return np.where(spread > _NO_SPREAD * size, spread, size)
