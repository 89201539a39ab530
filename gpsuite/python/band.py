"""Confidence bands of regression functions, exact for any independent symmetric noise, in scikit-learn's conventions.

Part of the rows, drawn at random, gives offset and unit of the targets. Scales of the inputs, lengthscale and centres
come only from inputs: given them, the confidence stays exact. Rows with equal inputs are averaged, copies count once.

Equation: Csáji & Kis 2019, Main Theorem
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.kernel_ridge import KernelRidge as ScikitRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVR as ScikitSVR
from sklearn.utils import check_random_state

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.splits import Standardiser
from gpsuite.drawing import axes
from gpsuite.experiments.perturbation.region_problem import different_functions, gaussian
from gpsuite.methods.perturbation.bands import Band, NormBall, norm_ball_band
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso
from gpsuite.methods.perturbation.objectives import QuadraticObjective
from gpsuite.methods.perturbation.quadratic import KernelLSSVM, KernelRidge, LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.rays import kernel_directions, sample_members
from gpsuite.methods.perturbation.region import ConfidenceRegion, Kernel, ModelClass, confidence_region
from gpsuite.python.columns import names_of, rows_to_fit, rows_to_predict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MODELS = ("ridge", "svr", "lasso", "lssvm")
LEAST_ROWS = 4  # on either side of the split
MOST_DISTANT = 1000  # rows whose distances choose a lengthscale
SAME = 1e-6  # share of the largest value by which a function may miss its coefficients' one at the rows
_DIAGONAL_ROWS = 200


@dataclass(frozen=True, eq=False)
class FunctionBand:
    """A band of the regression function at B inputs, valid at all of them at once.

    Attributes:
        X: the inputs [B, D].
        centre: the estimate there.
        guaranteed: whether the function lies inside with at least this confidence. Otherwise the band is the range over
            sampled functions of the region, which others of the region may leave.
        assumption: what the function must be.
    """

    X: FloatArray
    names: tuple[str, ...]
    centre: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    guaranteed: bool
    assumption: str

    def __repr__(self) -> str:
        width = float(np.mean(self.upper - self.lower))
        told = f"holds the function at all {len(self.X)} inputs with probability {100 * self.confidence:.6g} %"
        if not self.guaranteed:
            told = "range over sampled functions of the region. Nothing is proved of it"
        return f"band of mean width {width:.4g}: {told}, if it is {self.assumption}"

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        ends = {"centre": self.centre, "lower": self.lower, "upper": self.upper}
        return pd.DataFrame(self.X, columns=list(self.names)).assign(**ends)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it along the input. Of several inputs, over their rows by rising centre."""
        ax = axes(ax)
        single = self.X.shape[1] == 1
        order = np.argsort(self.X[:, 0] if single else self.centre)
        along = self.X[order, 0] if single else np.arange(len(order))
        kind = f"{100 * self.confidence:.6g} % band" if self.guaranteed else "sampled functions"
        ax.fill_between(along, self.lower[order], self.upper[order], alpha=0.3, label=kind)
        ax.plot(along, self.centre[order], label="estimate")
        ax.set_xlabel(self.names[0] if single else "rows by rising estimate")
        ax.set_ylabel("function")
        ax.legend()
        return ax


@dataclass(frozen=True, eq=False)
class _Problem:
    """Choices made before the region.

    Attributes:
        X: inputs of its rows in scaled units [n, D].
        y: its targets in scaled units [n].
        places: numbers of its rows among those given.
        kernel: None for linear functions.
        centres: of few kernel functions, scaled. None: one per row.
        whitening: of kernel values at the centres, so that the norm of the coefficients is that of the function.
    """

    X: FloatArray
    y: FloatArray
    places: IntArray
    inputs: Standardiser
    offset: float
    unit: float
    kernel: Kernel | None
    centres: FloatArray | None = None
    whitening: FloatArray | None = None

    def rows(self, X: FloatArray) -> FloatArray:
        """Return what the region takes for scaled inputs [B, D]."""
        if self.whitening is None or self.kernel is None or self.centres is None:
            return X
        return np.asarray(self.kernel(X, self.centres) @ self.whitening)


class ConfidenceBand(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A region that holds the regression function with a stated probability, and its band.

    The noise must be independent and symmetric about 0. Its size may differ from row to row and its distribution need
    not be known.

    Args:
        kernel: `rbf`, `linear` (with model="lssvm") or a function of inputs [A, D] and [B, D] that returns [A, B].
            Inputs are standardised first.
        model: `ridge`, `svr`, `lasso`, `lssvm`, or a KernelRidge or SVR of scikit-learn, whose kernel and penalty are
            then taken for inputs in their own units. A KernelRidge has no offset and needs no rows that prepare.
        confidence: a multiple of 1/m.
        centres: of `ridge` and `lssvm`: the function is a combination of so many kernel functions. None: of one per
            row, whose band is infinite unless `norm_bound` closes it.
        norm_bound: instead of centres: the function less `offset_` has at most this norm in the kernel's space.
        lengthscale: of `rbf`. None: the median distance of the inputs.
        penalty: of `ridge` and `lasso`, for standardised targets.
        C: of `svr` and `lssvm`.
        epsilon: of `svr`, in standard deviations of the targets.
        preparation: share of the rows that give offset and unit of the targets, and are used for nothing else.
        m: number of values that are compared.
        rays: along which functions of an `svr` or `lasso` are sampled.
        random_state: of rows, centres and perturbations.

    Attributes:
        region_: the region of the coefficients.
        offset_: what is taken off the targets.

    Equation: Csáji & Kis 2019, Main Theorem
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        model: Any = "ridge",
        *,
        confidence: float = 0.9,
        centres: int | None = 10,
        norm_bound: float | None = None,
        lengthscale: float | None = None,
        penalty: float = 0.001,
        C: float = 1.0,
        epsilon: float = 0.1,
        preparation: float = 0.2,
        m: int = 100,
        rays: int = 500,
        random_state: Any = 0,
    ) -> None:
        self.kernel, self.model, self.confidence, self.centres = kernel, model, confidence, centres
        self.norm_bound, self.lengthscale = norm_bound, lengthscale
        self.penalty, self.C, self.epsilon = penalty, C, epsilon
        self.preparation, self.m, self.rays, self.random_state = preparation, m, rays, random_state

    def fit(self, X: Any, y: Any) -> ConfidenceBand:
        """Make the region of inputs [N, D] and targets [N].

        Raises:
            TypeError, ValueError: if a setting or the rows are not usable, or there are too few.
        """
        X, y = rows_to_fit(self, X, y)
        excluded = self._excluded()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._given = X
        self._problem = self._prepare(X, y, rng)
        self.offset_ = self._problem.offset
        found = self._problem
        model, x = self._model_class(found), found.rows(found.X)
        self.region_: ConfidenceRegion = confidence_region(x, found.y, model, q=excluded, m=self.m, rng=rng)
        self._rays_seed = int(rng.integers(2**31))
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the estimate [B], in units of y."""
        return self._own(self._features(self._scaled(X)) @ self.region_.estimate)

    def band(self, X: Any) -> FunctionBand:
        """Return the band at inputs [B, D].

        Raises:
            ValueError: if it is infinite. Says what to change.
        """
        scaled = self._scaled(X)
        found = self._found(scaled)
        infinite = ~(np.isfinite(found.lower) & np.isfinite(found.upper))
        if infinite.any():
            raise ValueError(f"the band is infinite at {infinite.sum()} of {len(infinite)} inputs; {self._closing()}")
        own = self._problem.inputs.inverse(scaled)
        centre, lower, upper = (self._own(each) for each in (found.centre, found.lower, found.upper))
        confidence = float(self.region_.confidence)
        guaranteed, names = found.kind != "members", tuple(names_of(self))
        return FunctionBand(own, names, centre, lower, upper, confidence, guaranteed, self._assumption())

    def contains(self, f: Any) -> bool:
        """Return whether a function is in the region.

        Args:
            f: a function of inputs [N, D] as they were fitted, a fitted regressor, or its values at those rows [N].

        Raises:
            ValueError: if it is not finite, or no function of the model.
        """
        values = getattr(f, "predict", f)
        values = values(self._given) if callable(values) else values
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        if len(values) != len(self._given) or not np.isfinite(values).all():
            raise ValueError(f"finite values of the function at the {len(self._given)} rows are needed")
        wanted = (values[self._problem.places] - self._problem.offset) / self._problem.unit
        design = self.region_.objective.design
        alpha = np.linalg.lstsq(design, wanted, rcond=None)[0]
        off = float(np.abs(design @ alpha - wanted).max())
        if off > SAME * float(np.abs(wanted).max(initial=0.0)):
            raise ValueError(
                f"the function is not {self._assumption()}: off by {off * self._problem.unit:.3g} at a row. "
                "Give more centres, or centres=None"
            )
        return bool(self.region_.contains(alpha[None])[0])

    def _excluded(self) -> int:
        """Return q of the confidence 1 - q/m."""
        q = round((1.0 - self.confidence) * self.m)
        if not 0 < q < self.m or abs(q - (1.0 - self.confidence) * self.m) > 1e-6:
            raise ValueError(f"confidence={self.confidence}: must be a multiple of 1/m = 1/{self.m} between 0 and 1")
        return q

    def _prepare(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> _Problem:
        X, y, places = _distinct(X, y)
        given = not isinstance(self.model, str)
        order = rng.permutation(len(X))
        count = 0 if isinstance(self.model, ScikitRidge) else max(round(self.preparation * len(X)), 1)
        first, rest = order[:count], order[count:]
        if len(rest) < LEAST_ROWS:
            raise ValueError(
                f"{len(X)} different inputs (n_samples={len(self._given)}) leave {len(rest)} rows for the region: "
                f"{LEAST_ROWS} are needed"
            )
        offset = float(y[first].mean()) if count else 0.0
        unit = 1.0 if given else float(y[first].std()) or 1.0
        inputs = Standardiser(np.zeros(X.shape[1]), np.ones(X.shape[1])) if given else Standardiser.fit(X)
        scaled = inputs.transform(X)
        kernel = self._kernel(scaled)
        found = _Problem(scaled[rest], (y[rest] - offset) / unit, places[rest], inputs, offset, unit, kernel)
        return self._with_centres(found, scaled, rng)

    def _with_centres(self, found: _Problem, X: FloatArray, rng: np.random.Generator) -> _Problem:
        """Return the problem with centres among the inputs, if the model has any: those that its rows distinguish."""
        kernel = found.kernel
        if (
            self.centres is None
            or self.norm_bound is not None
            or self._kind not in ("ridge", "lssvm")
            or kernel is None
        ):
            return found
        if self.centres < 1:
            raise ValueError(f"centres={self.centres}: one or more, or None")
        count = max(min(self.centres, len(found.X) // 2), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty cluster's centre is distinguished, or left out
            centres, _ = kmeans2(X, count, minit="++", seed=rng)
        centres = centres[different_functions(np.asarray(kernel(found.X, centres)))]
        whitening = None
        if self._kind == "lssvm":
            whitening = np.linalg.inv(np.linalg.cholesky(np.asarray(kernel(centres, centres)))).T
        return replace(found, centres=centres, whitening=whitening)

    @property
    def _kind(self) -> str:
        """The model's word.

        Raises:
            ValueError: for another model.
        """
        if isinstance(self.model, ScikitRidge):
            return "ridge"
        if isinstance(self.model, ScikitSVR):
            return "svr"
        if self.model not in MODELS:
            valid = f"{', '.join(MODELS)}, or a KernelRidge or SVR of scikit-learn"
            raise ValueError(f"model={self.model!r}: must be {valid}")
        return str(self.model)

    def _kernel(self, X: FloatArray) -> Kernel | None:
        """Return the covariances of scaled inputs. None for linear functions."""
        if not isinstance(self.model, str):
            return _scikit_kernel(self.model, X)
        if self.kernel == "linear" and self._kind == "lssvm":
            return None
        if callable(self.kernel):
            return self.kernel  # type: ignore[no-any-return]
        if self.kernel != "rbf":
            raise ValueError(f"kernel={self.kernel!r}: must be rbf, a function, or linear with model='lssvm'")
        lengthscale = self.lengthscale or float(np.median(pdist(X[:MOST_DISTANT]))) or 1.0
        return partial(gaussian, lengthscale=lengthscale)

    def _model_class(self, found: _Problem) -> ModelClass:
        """Return the functions in question. Penalties of scikit-learn's estimators are of sums, not of means."""
        n, few, kind = len(found.y), found.centres is not None, self._kind
        penalty, C, epsilon = self.penalty, self.C, self.epsilon
        if isinstance(self.model, ScikitRidge):
            penalty = float(self.model.alpha) / n
        if isinstance(self.model, ScikitSVR):
            C, epsilon = self.model.C * n, self.model.epsilon
        objective: Callable[..., Any] = {
            "ridge": partial(SparseKernelRidge if few else KernelRidge, penalty=penalty),
            "lssvm": partial(LinearLSSVM if few or found.kernel is None else KernelLSSVM, C=C),
            "svr": partial(EpsilonSVR, C=C, epsilon=epsilon),
            "lasso": partial(KernelLasso, penalty=penalty),
        }[kind]
        if found.kernel is None or found.whitening is not None:
            return ModelClass(objective)
        return ModelClass(objective, found.kernel, found.centres)

    def _scaled(self, X: Any) -> FloatArray:
        rows = rows_to_predict(self, X)
        return self._problem.inputs.transform(rows)

    def _features(self, X: FloatArray) -> FloatArray:
        assert self.region_.features is not None  # regions of inputs have them
        return self.region_.features(self._problem.rows(X))

    def _own(self, values: FloatArray) -> FloatArray:
        return np.asarray(self._problem.offset + self._problem.unit * values)

    def _found(self, X: FloatArray) -> Band:
        """Return the band at scaled inputs, in scaled units."""
        region, found, kernel = self.region_, self._problem, self._problem.kernel
        quadratic = isinstance(region.objective, QuadraticObjective)
        if quadratic and (self.norm_bound is None or kernel is None):
            return region.band(found.rows(X))
        if self.norm_bound is None:
            raise ValueError(f"the band is infinite: {self._closing()}")
        gram = np.asarray(kernel(found.X, found.X), dtype=np.float64)  # type: ignore[misc]
        ball = NormBall(gram, self.norm_bound / found.unit, len(region.estimate) - len(gram))
        if quadratic:
            variances = _variances(kernel, X)  # type: ignore[arg-type]
            return norm_ball_band(region.quadratic, region.q, self._features(X), ball, variances)
        if not ball.contains(region.estimate[None])[0]:
            own = found.unit * float(ball.norms(region.estimate[None])[0])
            raise ValueError(f"norm_bound={self.norm_bound}: the estimate's norm is {own:.4g}. Take a larger bound")
        rng = np.random.default_rng(self._rays_seed)
        rays = kernel_directions(self.rays, gram, "rkhs", rng, ball.free)
        members = sample_members(region.boundary(rays, ball), region.contains, "rkhs", rng)
        return region.band(X, members)

    def _closing(self) -> str:
        """Return what makes an infinite band finite."""
        if self._problem.kernel is None:
            return "leave out inputs, add rows, or take a lower confidence"
        if self._problem.centres is not None:
            return f"take fewer centres (centres={max(len(self._problem.centres) // 2, 1)}) or a lower confidence"
        if self.norm_bound is not None:
            return "add rows, or take a lower confidence"
        few = "give centres=10, if the function is a combination of few kernel functions, or "
        few = few if self._kind in ("ridge", "lssvm") else ""
        return f"one coefficient per row leaves some directions without an end; {few}give norm_bound="

    def _assumption(self) -> str:
        """Return what the function must be for the region to be about it."""
        found = self._problem
        constant = f"{found.offset:.4g} plus " if found.offset else ""
        if found.kernel is None:
            return "linear in the inputs"
        if found.centres is not None:
            constant = "a constant plus " if self._kind == "lssvm" else constant
            return f"{constant}a combination of {len(found.centres)} kernel functions"
        bounded = "" if self.norm_bound is None else f" with a norm of at most {self.norm_bound:g}"
        return f"{constant}a function of the kernel{bounded}"


def _distinct(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return different inputs, the mean of their targets, and the number of the first row of each.

    The noise of a mean of independent symmetric noises is symmetric. A copy of a whole row is no further measurement.
    """
    _, own = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    own = np.sort(own)
    _, first, inverse = np.unique(X[own], axis=0, return_index=True, return_inverse=True)
    means = np.bincount(np.ravel(inverse), weights=y[own]) / np.bincount(np.ravel(inverse))
    order = np.argsort(first)
    return X[own[first[order]]], means[order], own[first[order]]


def _scikit_kernel(model: Any, X: FloatArray) -> Kernel:
    """Return the kernel of an estimator of scikit-learn that is fitted to inputs X [N, D].

    Raises:
        ValueError: if it is a matrix.
    """
    if model.kernel == "precomputed":
        raise ValueError(
            "model: kernel='precomputed' has no values at other inputs. Name the kernel, or give a function"
        )
    gamma = model.gamma
    if gamma == "scale":
        gamma = 1.0 / (X.shape[1] * float(X.var()) or 1.0)
    elif gamma == "auto":
        gamma = 1.0 / X.shape[1]
    shape = {"gamma": gamma, "degree": model.degree, "coef0": model.coef0}
    given = {} if callable(model.kernel) else {"filter_params": True, **shape}
    return partial(pairwise_kernels, metric=model.kernel, **given)


def _variances(kernel: Kernel, X: FloatArray) -> FloatArray:
    """Return k(x, x) at inputs [B, D]."""
    parts = [X[start : start + _DIAGONAL_ROWS] for start in range(0, len(X), _DIAGONAL_ROWS)]
    return np.concatenate([np.diagonal(np.asarray(kernel(part, part), dtype=np.float64)) for part in parts])
