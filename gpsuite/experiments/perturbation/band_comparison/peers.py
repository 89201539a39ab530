"""Bands to compare: of confidence regions, of Gaussian processes, of the wild bootstrap and of conformal prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.perturbation.region.problem import gaussian
from gpsuite.methods.perturbation.geometry.bands import ellipsoid_band, members_band, pointwise_band
from gpsuite.methods.perturbation.geometry.sampling import (
    isotropic_directions,
    sample_members,
    touching_directions,
)
from gpsuite.methods.perturbation.objectives.quadratic import SparseKernelRidge
from gpsuite.methods.perturbation.ranks.groups import SignChanges
from gpsuite.methods.perturbation.region import Region
from gpsuite.models.config import Hyperparameters, ModelSpec

Ends = tuple[FloatArray, FloatArray]


DOMAIN, LENGTHSCALE, PENALTY = 2.0, 0.5, 1e-3


CENTRES = np.linspace(-DOMAIN, DOMAIN, 8)[:, None]  # the truth is a combination of kernels at them


SPLITS = 5  # of CV+


@dataclass(frozen=True, eq=False)
class Sample:
    """A simulated data set and what a band is asked for.

    Attributes:
        X: inputs [n, 1].
        y: outputs [n].
        grid: inputs [J, 1] of the bands.
        q: the level is 1 - q/m.
        m: number of compared values.
        draws: number of rays, or of bootstrap samples.
        evaluations: of a Gaussian process' likelihood in training.
    """

    X: FloatArray
    y: FloatArray
    grid: FloatArray
    q: int
    m: int
    draws: int
    evaluations: int

    @property
    def level(self) -> float:
        """1 - q/m."""
        return 1.0 - self.q / self.m

    @property
    def ridge(self) -> SparseKernelRidge:
        """The model of the region and of the bootstrap, with the truth's own kernels."""
        return SparseKernelRidge(features(self.X), features(CENTRES), PENALTY)


@dataclass(frozen=True)
class Peer:
    """A way to compute a band.

    Attributes:
        title: in tables and figures.
        target: what it is about: the function, or a new response.
        kind: pointwise or simultaneous.
        compute: (sample, Generator) -> lower and upper end on the grid, [J] each.
    """

    title: str
    target: str
    kind: str
    compute: Callable[[Sample, np.random.Generator], Ends]


def features(X: FloatArray) -> FloatArray:
    """Return the kernels at the centres, [J, 8]."""
    return gaussian(X, CENTRES, LENGTHSCALE)


def _region(sample: Sample, rng: np.random.Generator) -> Region:
    return Region(sample.ridge, sample.y, SignChanges().draw(len(sample.y), sample.m, rng), sample.q)


def region_ellipsoid(sample: Sample, rng: np.random.Generator) -> Ends:
    """Return the band of the ellipsoid around the region."""
    band = ellipsoid_band(_region(sample, rng).ellipsoid(), features(sample.grid))
    return band.lower, band.upper


def region_pointwise(sample: Sample, rng: np.random.Generator) -> Ends:
    """Return the outer band of the inequalities' extremes at each input; it holds at all inputs at once."""
    band = pointwise_band(_region(sample, rng).quadratic, sample.q, features(sample.grid))
    return band.lower, band.upper


def region_members(sample: Sample, rng: np.random.Generator) -> Ends:
    """Return the range over boundary members along random rays and those where the ellipsoid is widest: inner."""
    region, rows = _region(sample, rng), features(sample.grid)
    triangle = region.quadratic.triangle
    rays = isotropic_directions(sample.draws, np.linalg.inv(triangle), rng)
    boundary = region.boundary(np.concatenate([rays, touching_directions(triangle, rows)]))
    members = sample_members(boundary, region.contains, "region's metric and touching", rng)
    if boundary.unbounded_share > 0.0:
        return np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    band = members_band(members, region.estimate, rows)
    return band.lower, band.upper


def wild_bootstrap(sample: Sample, rng: np.random.Generator, simultaneous: bool) -> Ends:
    """Return f_hat +- a quantile of |f* - f_hat| from residuals with random signs; of their studentised maximum."""
    model, rows = sample.ridge, features(sample.grid)
    smoother = np.linalg.solve(model.hessian, model.T)
    alpha = smoother @ sample.y
    residuals = model.residuals(sample.y, alpha)
    signs = rng.choice([-1.0, 1.0], (sample.draws, len(residuals)))
    moved = (model.design @ alpha + signs * residuals) @ smoother.T @ rows.T
    centre = rows @ alpha
    errors = np.abs(moved - centre)
    spread = np.sqrt(np.mean(errors**2, axis=0))
    if simultaneous:
        half = spread * np.quantile(np.max(errors / spread, axis=1), sample.level)
    else:
        half = np.quantile(errors, sample.level, axis=0)
    return centre - half, centre + half


def gaussian_process(sample: Sample, rng: np.random.Generator, response: bool) -> Ends:
    """Return the central interval of a GP trained by maximum likelihood: of f, or of a new response."""
    from gpsuite.models.regression.exact import build_gpr
    from gpsuite.models.regression.parameters import hyperparameters_of
    from gpsuite.models.regression.prediction import predict
    from gpsuite.models.regression.training import maximise_likelihood

    start = Hyperparameters(float(np.var(sample.y)), (LENGTHSCALE,), 0.2 * float(np.var(sample.y)))
    model = build_gpr(sample.X, sample.y, ModelSpec(), start)
    maximise_likelihood(model, Budget(evaluations=sample.evaluations))
    mean, variance = predict(model, sample.grid)
    noise = hyperparameters_of(model).noise_variance if response else 0.0
    half = float(ndtri(0.5 + 0.5 * sample.level)) * np.sqrt(variance[:, 0] + noise)
    return mean[:, 0] - half, mean[:, 0] + half


class _Ridge:
    """The region's estimate with the interface of scikit-learn, for conformal prediction."""

    def __init__(self) -> None:
        self.coef_: FloatArray | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return no parameters."""
        return {}

    def fit(self, X: FloatArray, y: FloatArray) -> _Ridge:
        """Fit kernel ridge regression with the truth's kernels."""
        self.coef_ = SparseKernelRidge(features(X), features(CENTRES), PENALTY).solve(y)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the estimate's function."""
        if self.coef_ is None:
            raise ValueError("fit comes before predict")
        return np.asarray(features(X) @ self.coef_)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` was called."""
        return self.coef_ is not None


def conformal(sample: Sample, rng: np.random.Generator, cross: bool) -> Ends:
    """Return MAPIE's split or CV+ interval of a new response about the region's estimate."""
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
    from sklearn.model_selection import KFold

    order = rng.permutation(len(sample.y))
    X, y = sample.X[order], sample.y[order]
    if cross:
        # the rows are in random order already; of a number of parts MAPIE draws them again, each time others
        options = {"confidence_level": sample.level, "method": "plus", "cv": KFold(SPLITS)}
        model = CrossConformalRegressor(_Ridge(), **options).fit_conformalize(X, y)
    else:
        half = len(y) // 2
        model = SplitConformalRegressor(_Ridge(), confidence_level=sample.level, prefit=False)
        model = model.fit(X[:half], y[:half]).conformalize(X[half:], y[half:])
    _, ends = model.predict_interval(sample.grid)
    return np.asarray(ends[:, 0, 0], dtype=np.float64), np.asarray(ends[:, 1, 0], dtype=np.float64)


FUNCTION, RESPONSE = "function", "response"


POINTWISE, SIMULTANEOUS = "pointwise", "simultaneous"


PEERS: dict[str, Peer] = {
    "region_ellipsoid": Peer("region, ellipsoid", FUNCTION, SIMULTANEOUS, region_ellipsoid),
    "region_pointwise": Peer("region, extremes of each x (outer)", FUNCTION, SIMULTANEOUS, region_pointwise),
    "region_members": Peer("region, members along rays (inner)", FUNCTION, SIMULTANEOUS, region_members),
    "bootstrap_sup": Peer(
        "wild bootstrap, sup-t", FUNCTION, SIMULTANEOUS, partial(wild_bootstrap, simultaneous=True)
    ),
    "bootstrap": Peer("wild bootstrap", FUNCTION, POINTWISE, partial(wild_bootstrap, simultaneous=False)),
    "gp_credible": Peer("GP credible", FUNCTION, POINTWISE, partial(gaussian_process, response=False)),
    "gp_predictive": Peer("GP predictive", RESPONSE, POINTWISE, partial(gaussian_process, response=True)),
    "mapie_split": Peer("conformal, split (MAPIE)", RESPONSE, POINTWISE, partial(conformal, cross=False)),
    "mapie_cv_plus": Peer("conformal, CV+ (MAPIE)", RESPONSE, POINTWISE, partial(conformal, cross=True)),
}
