"""perturbation/band_comparison: width against coverage of bands for a function and intervals for new responses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.generators.regression import NOISES, draw_noise
from gpsuite.errors import missing_package
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
)
from gpsuite.experiments.perturbation.linear_models import check_levels
from gpsuite.experiments.perturbation.region_problem import gaussian
from gpsuite.experiments.settings import Count, Positive, at_least, filled, one_of, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.perturbation.bands import ellipsoid_band, members_band, pointwise_band
from gpsuite.methods.perturbation.quadratic import SparseKernelRidge
from gpsuite.methods.perturbation.ranks import SignChanges
from gpsuite.methods.perturbation.rays import isotropic_directions, sample_members, touching_directions
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import COLOURS, LIMIT
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import mean, proportion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass
class BandSettings:
    """Settings of the comparison: truths are combinations of 8 kernels with standard normal coefficients.

    Attributes:
        bands: bands to compare.
        noises: noise that is added to the true function.
        noise_scale: factor of the noise.
        data_sets: number of simulated data sets per cell, the same for every band.
        rows: data in each.
        q: the level is 1 - q/m.
        m: number of compared values.
        points: number of grid points at which bands are judged.
        draws: rays of the members' band. Samples of the bootstrap.
        evaluations: largest number of evaluations of the likelihood in training a Gaussian process.
    """

    bands: Annotated[list[Annotated[str, one_of(PEERS)]], filled, unique]
    noises: Annotated[list[Annotated[str, one_of(NOISES)]], filled, unique]
    noise_scale: Positive
    data_sets: Count
    rows: Annotated[int, at_least(2 * len(CENTRES))]
    q: int
    m: int
    points: Annotated[int, at_least(2)]
    draws: Annotated[int, at_least(10)]
    evaluations: Count

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, [self.q], "q")


VERSION = 2  # CV+ with the parts of its own rows


@dataclass(frozen=True)
class BandTask:
    """One band on every simulated data set under one noise. Further settings as `BandSettings`.

    Attributes:
        band: key of `PEERS`.
        noise: key of `NOISES`.
        seed: of data and bands.
    """

    band: str
    noise: str
    seed: int
    noise_scale: float
    data_sets: int
    rows: int
    q: int
    m: int
    points: int
    draws: int
    evaluations: int
    kind: str = "perturbation_band"


def plan(request: Request[BandSettings]) -> list[Task[BandTask]]:
    """Return one task per noise and band.

    Raises:
        UserError: if a band needs a library that is not installed.
    """
    bands = request.settings.bands
    others = [band for band in bands if band.startswith("mapie")]
    ours = ",".join(band for band in bands if band not in others)
    missing = missing_package("mapie", "peers", f"bands={','.join(others)}", f"without it: bands=[{ours}]")
    if others and missing is not None:
        raise missing
    return [_task(request, noise, band) for noise in request.settings.noises for band in bands]


def _task(request: Request[BandSettings], noise: str, band: str) -> Task[BandTask]:
    settings = request.settings
    params = take(BandTask, settings, band=band, noise=noise, seed=derived_seed(request.seed, "bands", noise))
    return request.task(
        params,
        label=f"{PEERS[band].title}  {noise}",
        axes={"noise": noise, "band": band},
        version=VERSION,
        cost=(0.055 if band.startswith("gp_") else 0.01) * settings.data_sets,
    )


def run(task: Task[BandTask], shared: SharedWork) -> Outcome:
    """Compute a band on every data set. Record its mean width and where it holds its target."""
    params = task.params
    peer = PEERS[params.band]
    widths, held = [], []
    for number in range(params.data_sets):
        sample, target = _simulated(params, number, peer.target)
        lower, upper = peer.compute(sample, stream(params.seed, "band", number, peer.title))
        widths.append(float(np.mean(upper - lower)))
        held.append((lower <= target) & (target <= upper))
    inside = np.array(held)
    arrays = {"width": np.array(widths), "share": inside.mean(axis=1), "everywhere": inside.all(axis=1)}
    headline = f"width {arrays['width'].mean():.3g}, everywhere {arrays['everywhere'].mean():.2f}"
    return Outcome({"data_sets": len(inside)}, arrays=arrays, headline=headline)


def _simulated(params: BandTask, number: int, target: str) -> tuple[Sample, FloatArray]:
    """Return a data set, and on the grid the true function or new responses."""
    rng = stream(params.seed, "data", number)
    X = rng.uniform(-DOMAIN, DOMAIN, (params.rows, 1))
    grid = np.linspace(-DOMAIN, DOMAIN, params.points)[:, None]
    truth = rng.standard_normal(len(CENTRES))
    noise, new = (draw_noise(rng, params.noise, len(x), inputs=x[:, 0], scale=params.noise_scale) for x in (X, grid))
    y, f = features(X) @ truth + noise, features(grid) @ truth
    sample = Sample(X, y, grid, params.q, params.m, params.draws, params.evaluations)
    return sample, f + new if target == RESPONSE else f


Ends = tuple[FloatArray, FloatArray]
DOMAIN, LENGTHSCALE, PENALTY = 2.0, 0.5, 1e-3
CENTRES = np.linspace(-DOMAIN, DOMAIN, 8)[:, None]  # the truth is a combination of kernels at them
SPLITS = 5  # of CV+


@dataclass(frozen=True, eq=False)
class Sample:
    """A simulated data set and what a band is requested.

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


def _region(sample: Sample, rng: np.random.Generator) -> ConfidenceRegion:
    return ConfidenceRegion(sample.ridge, sample.y, SignChanges().draw(len(sample.y), sample.m, rng), sample.q)


def region_ellipsoid(sample: Sample, rng: np.random.Generator) -> Ends:
    """Return the band of the ellipsoid around the region."""
    band = ellipsoid_band(_region(sample, rng).ellipsoid(), features(sample.grid))
    return band.lower, band.upper


def region_pointwise(sample: Sample, rng: np.random.Generator) -> Ends:
    """Return the outer band of the inequalities' extremes at each input. It holds at all inputs at once."""
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
    """Return f_hat +- a quantile of |f* - f_hat| from residuals with random signs. Of their studentised maximum."""
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
    from gpsuite.models.regression.gpflow_models import build_gpr, hyperparameters_of, maximise_likelihood, predict

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
        # the rows are in random order already. Of a number of parts MAPIE draws them again, each time others
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
    "bootstrap_sup": Peer("wild bootstrap, sup-t", FUNCTION, SIMULTANEOUS, partial(wild_bootstrap, simultaneous=True)),
    "bootstrap": Peer("wild bootstrap", FUNCTION, POINTWISE, partial(wild_bootstrap, simultaneous=False)),
    "gp_credible": Peer("GP credible", FUNCTION, POINTWISE, partial(gaussian_process, response=False)),
    "gp_predictive": Peer("GP predictive", RESPONSE, POINTWISE, partial(gaussian_process, response=True)),
    "mapie_split": Peer("conformal, split (MAPIE)", RESPONSE, POINTWISE, partial(conformal, cross=False)),
    "mapie_cv_plus": Peer("conformal, CV+ (MAPIE)", RESPONSE, POINTWISE, partial(conformal, cross=True)),
}
MARKERS = "o^sDvP"  # of the bands for the function, in the order of `PEERS`


def draw(report: Report[BandSettings], frame: pd.DataFrame) -> None:
    """Draw coverage against width, a panel per target and noise."""
    level = 1.0 - report.settings.q / report.settings.m
    noises = list(dict.fromkeys(frame["noise"]))
    size = (5.4 * len(noises), 5.0)
    with report.figure("band_comparison", columns=len(noises), size=size, sharey=True) as drawing:
        for ax, noise in zip(drawing.axes, noises, strict=True):
            for row in frame[(frame["noise"] == noise) & np.isfinite(frame["width"])].to_dict("records"):
                _point(ax, row)
            ax.axhline(level, color=LIMIT, linestyle="--", lw=1.0)
            ax.set_title(f"{noise} noise")
            ax.set_ylim(-0.03, 1.03)
        drawing.name_axes("mean width (units of y)", "coverage of f at all x at once (95 % interval)")
        drawing.legend("below", columns=2)
        drawing.data = frame


def _point(ax: Axes, row: Mapping[Hashable, Any]) -> None:
    """Draw one band's coverage over its width, filled if it is simultaneous."""
    simultaneous = row["kind"] == SIMULTANEOUS
    place = list(PEERS).index(str(row["band"]))
    ax.errorbar(
        [row["width"]],
        [row["simultaneous"]],
        [[row["simultaneous"] - row["low"]], [row["high"] - row["simultaneous"]]],
        fmt=MARKERS[place],
        color=COLOURS[place],
        mfc=COLOURS[place] if simultaneous else "white",
        capsize=3,
        label=str(row["title"]) if simultaneous else f"{row['title']} (pointwise)",
    )


LABELS = {
    "width_error": "standard error",
    "low": "95 % interval from",
    "high": "to",
    "pointwise_error": "standard error of it",
    "n": "data sets",
}


def summarise(report: Report[BandSettings]) -> list[Statistic]:
    """Write one table for the function and one for responses. Draw width against coverage of the function."""
    settings, records = report.settings, report.records()
    frame = band_table(records)
    absent = [PEERS[band].title for band in settings.bands if not report.records(band=band)]
    left_out = "".join(f". Without {title}" for title in absent)
    about = f"{settings.rows} data, level {1.0 - settings.q / settings.m:g}, x uniform on [-2, 2]"
    for target in (FUNCTION, RESPONSE):
        part = frame[frame["target"] == target].drop(columns=["target", "band"])
        if target == RESPONSE:  # nobody promises that all new responses are inside
            part = part.drop(columns=["simultaneous", "low", "high"])
        if len(part):
            caption = f"Bands for the {target}: {about}{left_out}"
            report.table(part, f"{target}_coverage", caption, LABELS)
    shown = frame[frame["target"] == FUNCTION]
    if len(shown):
        draw(report, shown)
    found = []
    for record in records:
        axes = {"noise": record.axes["noise"], "band": record.axes["band"]}
        for metric, key in (("band_width", "width"), ("pointwise_coverage", "share")):
            found.append(Statistic.of(statistic_name(metric, **axes), mean(record.arrays[key])))
    return found


def band_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per noise and band: mean width, simultaneous and mean pointwise coverage, with n and errors."""
    import pandas as pd

    rows = []
    for record in records:
        peer = PEERS[str(record.axes["band"])]
        everywhere, n = record.arrays["everywhere"], len(record.arrays["everywhere"])
        simultaneous = proportion(int(everywhere.sum()), n)
        width, pointwise = (mean(record.arrays[key]) for key in ("width", "share"))
        rows.append(
            {
                "noise": record.axes["noise"],
                "target": peer.target,
                "band": record.axes["band"],
                "title": peer.title,
                "kind": peer.kind,
                "width": width.value,
                "width_error": width.error,
                "simultaneous": simultaneous.value,
                "low": simultaneous.low,
                "high": simultaneous.high,
                "pointwise": pointwise.value,
                "pointwise_error": pointwise.error,
                "n": n,
            }
        )
    return pd.DataFrame(rows)


EXPERIMENTS.register("perturbation/band_comparison")(
    Experiment(
        BandSettings, plan, run, summarise, parts=("data_sets", "bands", "noises"), model_keys=(), published=every_array
    )
)
