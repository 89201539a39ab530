"""Units in which a plan's models see the user's measurements, and the way back.

Equation: derived, guard of the safety model
Equation: Li et al. 2022, Eq. (8), Eq. (9)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.spatial import KDTree
from scipy.special import ndtr, ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning.plan.predictions import in_parts
from gpsuite.methods.active_learning.problem import (
    SafetyLimit,
    mixture_probability,
    moment_matched_probability,
    safe_set,
)
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import LatentKernel, Observations, squared_distances
from gpsuite.models.sampling.posterior import HyperPosterior, mixture_moments
from gpsuite.text import counted as number_of

# Units are kept while those of all measurements together differ by at most this factor.
MOST_DRIFT = 2.0
# See `Units.x_scale`. The paper's toy problem has 3.3 between pool and first measurements.
WIDEST = 4.0
# See `far_inputs`: at 5, of 300 candidates 137 were called safe and none was unsafe; at 50, 201 and 17.
FAR = 3.0
_NO_SPREAD = 1e-15  # of the size: what the rounding of equal values leaves
# How far beyond the limit the safety prior is centred, in root mean squares of z - limit. On a bowl of two
# inputs with 10 safe measurements, of the candidates called safe at 95 % were unsafe: 2.2 % at 0, 0.2 % at
# 0.5, none of fewer at 1; with 4 measurements there were 41, 14 and 2 to choose from.
PESSIMISM = 0.5
# Covariances between measured inputs and candidates computed together: they stay in a core's cache.
GUARD_BLOCK = 120_000
# The range of inputs that are all equal, in the model's units: no other input is near them.
_NOWHERE = 1e-12
# Singular values differ by rounding if by less than this share of the largest.
_EQUAL = 1e-9
# Candidates judged between two looks at the clock.
TOGETHER = 1000
# Warned of: fewer safety values. More noise, in root mean squares of z - limit. Measured points farther
# apart, in measured ranges, if most candidates lie between them.
FEW, SCATTER, SPACING = 5, 0.5, 0.1
# What a measurement counts for that leads to a setting, but not so far that it could be measured next: in chances, if
# it removed all doubt about the setting.
PROGRESS = 1e-3
# Probabilities of being safe that differ by no more are alike.
ALIKE = 1e-3


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
    def of(cls, candidates: FloatArray, X: FloatArray, Y: FloatArray, z: FloatArray, limit: SafetyLimit) -> Units:
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
        return np.asarray((X - self.x_offset) / self.x_scale)

    def limit(self, limit: SafetyLimit) -> SafetyLimit:
        return SafetyLimit(float((limit.value - self.z_offset[0]) / self.z_scale[0]), limit.side)

    def to_arrays(self) -> dict[str, FloatArray]:
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
    """Return the spread. Without one (up to rounding) the size, and 1 for a zero."""
    size = np.where(size == 0.0, 1.0, np.abs(size))
    return np.where(spread > _NO_SPREAD * size, spread, size)


# What the measured safety values support: predictions that are not carried far beyond them.
#
# Measured in a small region, a safety value that hardly varies there looks like a smooth function of large
# size: the posterior of its hyperparameters then follows the prior, and its level is carried far out. The guard does
# not touch inference and changes what predicts: no hyperparameter vector is surer than the distance to the limit and
# the extent of the measured inputs allow. Its constants were chosen by experiment, on made-up functions. They prove
# nothing.
@dataclass(frozen=True)
class SafetyGuard:
    """Bounds on the hyperparameters that predict the safety value, and on how far a proposal reaches.

    Attributes:
        spread: the prior standard deviation is at least this many root mean squares of z - limit.
        extents: along each principal axis of the measured inputs the lengthscale is at most this many times their
            range there.
        thinnest: an axis (or input) along which they extend less than this share of the largest range counts as that
            share.
        step: while the safety value has hardly varied, no input of a proposal lies more than this many measured
            ranges outside its measured range.
        varied: the safety value has hardly varied while its predictions at the measured inputs span less, two of
            their standard deviations deducted, than this share of what separates the worst of them from the limit.

    Raises:
        ValueError: if a number is not positive (step: is negative), or thinnest above 1.
    """

    spread: float = 3.0
    extents: float = 12.0 / math.sqrt(12.0)
    thinnest: float = 0.2
    step: float = 0.15
    varied: float = 0.25

    def __post_init__(self) -> None:
        positive = min(self.spread, self.extents, self.thinnest, self.varied) > 0.0
        if not positive or self.thinnest > 1.0 or not self.step >= 0.0:
            raise ValueError(f"{self}: must be positive, thinnest at most 1, step at least 0")

    def ranges(self, X: FloatArray) -> FloatArray:
        """Return the range of each column of X [N, D], no less than the thinnest allowed, [D]."""
        ranges = np.ptp(X, axis=0)
        return np.asarray(np.maximum(ranges, max(self.thinnest * float(ranges.max()), _NOWHERE)))

    def outside(self, X: FloatArray, candidates: FloatArray) -> FloatArray:
        """Return how many measured ranges candidates [n, D] lie outside the box of the measured X [N, D], [n]."""
        beyond = np.maximum(X.min(axis=0) - candidates, candidates - X.max(axis=0))
        return np.asarray(np.linalg.norm(np.maximum(beyond, 0.0) / self.ranges(X), axis=1))

    def reached(self, X: FloatArray, candidates: FloatArray, beyond: FloatArray) -> FloatArray:
        """Return which share of the way into the step a measurement at candidates [n, D] leads inputs [m, D], [n, m].

        The inputs lie beyond the step from the measured X [N, D]; 1 brings one within it.
        """
        before, shares = self.outside(X, beyond), np.empty((len(candidates), len(beyond)))
        for share, candidate in zip(shares, candidates, strict=True):
            share[:] = before - self.outside(np.vstack([X, candidate]), beyond)
        return np.asarray(np.clip(shares / np.maximum(before - self.step, _NOWHERE), 0.0, 1.0))

    def hardly_varied(self, mean: FloatArray, variance: FloatArray, limit: SafetyLimit) -> bool:
        """Whether the safety value has hardly varied, by its predicted moments [N] at the measured inputs."""
        margin = mean - limit.value if limit.side == "above" else limit.value - mean
        seen = np.ptp(margin) - 2.0 * np.sqrt(variance).mean()
        return bool(seen < self.varied * margin.min())


def principal_axes(X: FloatArray) -> FloatArray:
    """Return the D principal axes of inputs [N, D] as columns, [D, D], also if there are fewer inputs than axes.

    Inputs that vary equally along several axes, as those of a factorial design do, leave them undetermined: taken are
    then those nearest to the inputs' own axes, so that rounding and the order of the inputs do not choose.
    """
    _, found, rows = np.linalg.svd(X - X.mean(axis=0), full_matrices=True)
    axes, varied = np.ascontiguousarray(rows.T), found > _EQUAL * found[0]
    ends = np.flatnonzero(np.diff(found[varied]) < -_EQUAL * found[0]) + 1
    for equal in np.split(np.flatnonzero(varied), ends):
        if len(equal) > 1:
            left = axes[:, equal] @ axes[:, equal].T
            for axis in equal:
                lengths = np.linalg.norm(left, axis=0)
                nearest = np.argmax(lengths > lengths.max() - _EQUAL)  # the first of equal ones
                axes[:, axis] = left[:, nearest] / lengths[nearest]
                left -= np.outer(axes[:, axis], axes[:, axis] @ left)
    return axes


class SafetyPrediction:
    """Predictions of the safety value by weighted hyperparameter vectors, within the bounds of a guard if there is one.

    With K = Q diag(l) Q' the kernel of unit variance between the measured inputs, A = Q' K(X, x), t = Q' z and
    g = variance l + noise: mean = (variance t / g)' A, variance = variance - (variance^2 / g)' A^2. Hyperparameter
    vectors with the same lengthscales, those at the bound above all, share Q, l and A.

    Args:
        parameters: of S hyperparameter vectors, one latent process and one output.
        observations: safety values in the model's units, N.
        guard: the bounds. None leaves the hyperparameters as they are.
        counted: inputs whose extent bounds the lengthscales, [N', D]; None: all that were measured.
    """

    def __init__(
        self,
        kernel: str,
        parameters: Parameters,
        weights: FloatArray,
        observations: Observations,
        limit: SafetyLimit,
        guard: SafetyGuard | None,
        counted: FloatArray | None = None,
    ) -> None:
        X, D = observations.X, observations.X.shape[1]
        self._kernel, self._weights, self._limit = kernel, weights, limit
        self._variance = parameters.variance[:, 0]
        lengthscales = np.repeat(parameters.lengthscale, D, axis=1)
        counted = X if counted is None else counted
        self._axes = np.eye(D) if guard is None else principal_axes(counted)
        self._X = X @ self._axes
        if guard is not None:
            distance = np.sqrt(np.mean((observations.y - limit.value) ** 2))
            self._variance = np.maximum(self._variance, (guard.spread * distance) ** 2)
            lengthscales = np.minimum(lengthscales, guard.extents * guard.ranges(counted @ self._axes))
        self._noise = parameters.noise[:, 0]
        self._lengthscales, group = np.unique(lengthscales, axis=0, return_inverse=True)
        self._parts = []
        for number, each in enumerate(self._lengthscales):
            members = np.flatnonzero(group.reshape(-1) == number)
            values, vectors = np.linalg.eigh(self._unit_kernel(self._X, self._X, each))
            variance = self._variance[members, None]
            g = variance * np.maximum(values, 0.0) + parameters.noise[members]
            self._parts.append((members, vectors, variance * (observations.y @ vectors) / g, variance**2 / g))

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the mixture at inputs [n, D], [n] each."""
        mean, variance = np.empty((2, len(X)))
        for part in self._parts_of(X):
            mean[part], variance[part] = mixture_moments(*self._components(X[part]), self._weights)
        return mean, variance

    def probability(self, X: FloatArray) -> FloatArray:
        """Return the probability of being safe at inputs [n, D], [n].

        The smaller one of the mixture's own and of the normal distribution with its moments (the paper's, Eq. 8): where
        few hyperparameter vectors call a point unsafe that the others call safe by far, the normal's is too large.
        """
        found = np.empty(len(X))
        for part in self._parts_of(X):
            components = (self._limit, *self._components(X[part]), self._weights)
            found[part] = np.minimum(moment_matched_probability(*components), mixture_probability(*components))
        return found

    def told(self, X: FloatArray, U: FloatArray) -> FloatArray:
        """Return which share of the variance at inputs U [m, D] a measurement at each of X [n, D] takes away, [n, m].

        Noise included. The mean over the hyperparameter vectors.
        """
        X, U, share = X @ self._axes, U @ self._axes, np.zeros((len(X), len(U)))
        for each, (members, vectors, _, of_variance) in zip(self._lengthscales, self._parts, strict=True):
            at_x, at_u = (vectors.T @ self._unit_kernel(self._X, each_X, each) for each_X in (X, U))
            prior = self._unit_kernel(X, U, each)
            for member, lost in zip(members, of_variance, strict=True):
                size = self._variance[member]
                covariance = size * prior - (at_x.T * lost) @ at_u
                left_x, left_u = (np.maximum(size - lost @ at**2, 0.0) for at in (at_x, at_u))
                total = np.maximum(np.outer(left_x + self._noise[member], left_u), np.finfo(np.float64).tiny)
                share += self._weights[member] * np.minimum(covariance**2 / total, 1.0)
        return share

    def passing(self, X: FloatArray, U: FloatArray, delta: float) -> FloatArray:
        """Return how probably a measurement at each of X [n, D] makes inputs U [m, D] safe enough, [n, m].

        The measurement moves the mean at u by a normal variable of standard deviation r sd(u), r^2 what is `told`, and
        leaves the standard deviation sqrt(1 - r^2) sd(u): u passes if the mean then is so many of these from the limit.
        """
        share, (mean, variance) = self.told(X, U), self.moments(U)
        sign, sd = 1.0 if self._limit.side == "below" else -1.0, np.sqrt(variance)
        missing = ndtri(1.0 - delta) * sd * np.sqrt(1.0 - share) - sign * (self._limit.value - mean)
        chance = ndtr(-missing / np.maximum(sd * np.sqrt(share), np.finfo(np.float64).tiny))
        return np.asarray(np.maximum(chance, PROGRESS * share))

    def _parts_of(self, X: FloatArray) -> Iterator[slice]:
        width = max(1, GUARD_BLOCK // len(self._X))
        return (slice(begin, begin + width) for begin in range(0, len(X), width))

    def _components(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance by each hyperparameter vector, [S, n] each."""
        turned = X @ self._axes
        mean, variance = np.empty((2, len(self._weights), len(X)))
        for each, (members, vectors, of_mean, of_variance) in zip(self._lengthscales, self._parts, strict=True):
            A = vectors.T @ self._unit_kernel(self._X, turned, each)
            mean[members] = of_mean @ A
            variance[members] = self._variance[members, None] - of_variance @ A**2
        return mean, np.maximum(variance, 0.0)

    def _unit_kernel(self, X: FloatArray, X2: FloatArray, lengthscales: FloatArray) -> FloatArray:
        latent = LatentKernel(self._kernel, squared_distances(X / lengthscales, X2 / lengthscales))
        value, slope, work = (np.empty(latent.r.shape) for _ in range(3))
        latent.fill(np.ones(1), value, slope, work)
        return value


@dataclass(frozen=True, eq=False)
class SafetyJudgement:
    """Predictions of a safety model at n candidates.

    Attributes:
        probability: of being safe. NaN if there was no time, [n].
        safe: probability above 1 - delta, and within the guard's step, [n].
        beyond_step: probability above 1 - delta, but farther out than the step, [n].
        judged: number of candidates for which there was time.
        prediction: of the safety value, by which they were judged.
    """

    probability: FloatArray
    safe: BoolArray
    beyond_step: BoolArray
    judged: int
    prediction: SafetyPrediction


@dataclass(frozen=True, eq=False)
class SafetyModel:
    """Beliefs about the safety value. Everything in the model's units."""

    model: LinearCoregionalization
    posterior: HyperPosterior
    known: Observations
    limit: SafetyLimit

    def judge(
        self, X: FloatArray, delta: float, guard: SafetyGuard | None, out_of_time: Callable[[], bool]
    ) -> SafetyJudgement:
        """Judge candidates X [n, D]; `out_of_time` is asked now and then, and true ends the work."""
        prediction, counted, limit = self.prediction(X, guard), self.counted(X), self.limit
        probability = np.full(len(X), np.nan)
        judged = 0
        for part in in_parts(np.arange(len(X)), TOGETHER, out_of_time):
            probability[part] = prediction.probability(X[part])
            judged += len(part)
        probable = safe_set(probability, delta)
        near = np.ones(len(X), dtype=np.bool_)
        if guard is not None and guard.hardly_varied(*prediction.moments(counted), limit):
            near = guard.outside(counted, X) <= guard.step
        return SafetyJudgement(probability, probable & near, probable & ~near, judged, prediction)

    def prediction(self, X: FloatArray, guard: SafetyGuard | None) -> SafetyPrediction:
        """Return the predictions for candidates X [n, D]."""
        parameters, counted = self.model.constrain(self.posterior.u), self.counted(X)
        weights = self.posterior.weights
        return SafetyPrediction(self.model.kernel, parameters, weights, self.known, self.limit, guard, counted)

    def counted(self, X: FloatArray) -> FloatArray:
        """Return the measured inputs that count for the measured range, given candidates X [n, D]. See `far_inputs`."""
        return np.asarray(self.known.X[~far_inputs(self.known.X, X).any(axis=1)])

    def safest(self, X: FloatArray, probability: FloatArray) -> int:
        """Return the row of the most probably safe candidate, of X [n, D]. Of about equal ones the nearest.

        Far from what was measured all are as probable as the prior says: taken is then the one that is nearest to a
        safe measured input.
        """
        equal = np.flatnonzero(probability >= probability.max() - ALIKE)
        safe = self.known.X[self.limit.holds(self.known.y)]
        return int(equal[np.argmin(KDTree(safe).query(X[equal])[0])])

    def warnings(self, X: FloatArray, guard: SafetyGuard, names: Sequence[str]) -> list[str]:
        """Return what makes the model doubtful, by its posterior and what was measured."""
        known, counted, warnings = self.known, self.counted(X), []
        if len(known) < FEW:
            warnings.append(f"only {len(known)} safety values: their probabilities are mostly the prior's")
        far = far_inputs(known.X, X)
        for name, count in zip(names, far.sum(axis=0), strict=True):
            if count:
                warnings.append(
                    f"{name}: {number_of(int(count), 'safety value')} measured far from all others and from every "
                    "candidate: in another unit, or mistyped? the measured range is taken without"
                )
        constant = [name for name, range_ in zip(names, np.ptp(counted, axis=0), strict=True) if range_ == 0.0]
        if constant:
            warnings.append(f"{', '.join(constant)} never varied where safety was measured: nothing is known along it")
        distance = np.sqrt(np.mean((known.y - self.limit.value) ** 2))
        noise = np.sqrt(self.posterior.weights @ self.model.constrain(self.posterior.u).noise[:, 0])
        if noise > SCATTER * distance:
            share = f"sd {noise / distance:.2g} of their distance to the limit" if distance else "all at the limit"
            warnings.append(
                f"safety values are mostly scatter ({share}): it may be their structure. Measure one point again"
            )
        between = np.mean(guard.outside(counted, X) == 0.0)
        spacing = _spacing(counted / guard.ranges(counted))
        if between > 0.5 and spacing > SPACING:
            warnings.append(
                f"measured points lie {spacing:.2g} of the measured range apart: what is narrower is not seen, and a "
                "proposal between them may meet it"
            )
        return warnings


def _spacing(X: FloatArray) -> float:
    """Return the median distance of an input [N, D] from the nearest other one; 0 if there is no other."""
    X = np.unique(X, axis=0)
    if len(X) < 2:
        return 0.0
    return float(np.median(KDTree(X).query(X, k=[2])[0]))
