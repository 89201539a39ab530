"""Intervals of other methods: of MAPIE, of crepes, and of regressions with Gaussian predictions.

MAPIE and crepes calibrate scikit-learn's Gaussian process, as their users have it, on the split of our own judged
model. A package that is missing is said, and its method is left out.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import Count, one_of
from gpsuite.experiments.tasks import LEFT_OUT

INTERVALS = "intervals"  # the trait of every method of this kind
REGRESSION, EXTRA = ("regression",), "peers"
SPLIT, JACKKNIFE = "split", "jackknife"
LENGTHSCALES, NOISES = (1e-2, 1e3), (1e-5, 1e1)  # in standard deviations, of the search of scikit-learn's process
Options = TypeVar("Options", bound=MethodOptions)
Ends = tuple[FloatArray, FloatArray]
Intervals = Callable[[FloatArray], Ends]
"""Inputs [B, D] of new rows -> lower and upper ends [B], in original units."""


@dataclass(frozen=True, eq=False)
class OwnRows:
    """A user's table, for a method of intervals.

    Attributes:
        X: inputs [N, D].
        y: targets [N].
        train: numbers of the rows that our own judged model learns from.
        aside: numbers of the others, which calibrate.
        coverage: share of new rows that intervals are to hold.
    """

    X: FloatArray
    y: FloatArray
    train: IntArray
    aside: IntArray
    coverage: float


@dataclass(frozen=True, kw_only=True)
class IntervalMethod(Method[Options]):
    """A method that gives an interval for each new row.

    Attributes:
        intervals: the options and a user's rows -> the intervals of new rows.
        most_rows: options -> the most rows of a user's table, or None for the league's `full_rows`.
        seconds: options and rows -> CPU seconds, roughly.
        package: that it imports. Empty for none.
    """

    intervals: Callable[[Options, OwnRows], Intervals]
    most_rows: Callable[[Options], int | None] = lambda options: None
    seconds: Callable[[Options, int], float] = lambda options, rows: 1.0
    package: str = ""


def interval_method(options: MethodOptions) -> IntervalMethod[Any]:
    """Return how the options' method makes intervals: all with the trait `INTERVALS` are of this kind."""
    return cast(IntervalMethod[Any], options.method)


def lacks_package(method: IntervalMethod[Any]) -> str:
    """Return what is missing to run a method, and the command that installs it, or nothing."""
    if not method.package or importlib.util.find_spec(method.package) is not None:
        return ""
    return f"the package {method.package} is not installed: pip install 'gpsuite[{EXTRA}]'"


def process() -> Any:
    """Return scikit-learn's Gaussian process on standardised inputs and target, not yet trained."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel(1.0) * RBF(1.0, LENGTHSCALES) + WhiteKernel(0.1, NOISES)
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))


def _process_seconds(rows: int) -> float:
    return 0.05 + 5e-9 * rows**3


@dataclass(frozen=True, kw_only=True)
class MapieOptions(MethodOptions):
    """Intervals of MAPIE about scikit-learn's Gaussian process.

    Attributes:
        strategy: split, or jackknife (jackknife+, which trains again without each row).
        jackknife_rows: most rows of a table for jackknife+.
    """

    strategy: Annotated[str, one_of((SPLIT, JACKKNIFE))]
    jackknife_rows: Count = field(default=100, metadata=LEFT_OUT)


def mapie_intervals(options: MapieOptions, own: OwnRows) -> Intervals:
    """Return MAPIE's intervals. Those of jackknife+ at the level whose guarantee is the coverage.

    Its nominal level 1 - a guarantees 1 - 2a (Barber et al. 2021, Theorem 1).
    """
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches that end at an end of their box
        if options.strategy == SPLIT:
            trained = process().fit(own.X[own.train], own.y[own.train])
            split = SplitConformalRegressor(trained, confidence_level=own.coverage, prefit=True)
            peer = split.conformalize(own.X[own.aside], own.y[own.aside])
        else:
            level = (1.0 + own.coverage) / 2.0
            cross = CrossConformalRegressor(process(), confidence_level=level, method="plus", cv=-1)
            peer = cross.fit_conformalize(own.X, own.y)

    def intervals(X: FloatArray) -> Ends:
        ends = np.asarray(peer.predict_interval(X)[1], dtype=np.float64)
        return ends[:, 0, 0], ends[:, 1, 0]

    return intervals


def mapie_seconds(options: MapieOptions, rows: int) -> float:
    """Return the seconds of one training, or of one without each row."""
    return _process_seconds(rows) * (1 if options.strategy == SPLIT else rows)


METHODS.register("mapie_intervals")(
    IntervalMethod(
        options=MapieOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({INTERVALS}),
        intervals=mapie_intervals,
        most_rows=lambda options: options.jackknife_rows if options.strategy == JACKKNIFE else None,
        seconds=mapie_seconds,
        package="mapie",
    )
)


@dataclass(frozen=True, kw_only=True)
class CrepesOptions(MethodOptions):
    """Split conformal intervals of crepes about scikit-learn's Gaussian process.

    Attributes:
        spread: whether widths follow the process' standard deviations.
    """

    spread: bool


def crepes_intervals(options: CrepesOptions, own: OwnRows) -> Intervals:
    """Return the intervals of crepes."""
    from crepes import ConformalRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches that end at an end of their box
        trained = process().fit(own.X[own.train], own.y[own.train])

    def predicted(X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        mean, deviation = trained.predict(X, return_std=True)
        return mean, deviation if options.spread else None

    mean, deviation = predicted(own.X[own.aside])
    peer = ConformalRegressor().fit(own.y[own.aside] - mean, sigmas=deviation)

    def intervals(X: FloatArray) -> Ends:
        mean, deviation = predicted(X)
        ends = np.asarray(peer.predict_int(mean, sigmas=deviation, confidence=own.coverage), dtype=np.float64)
        return ends[:, 0], ends[:, 1]

    return intervals


METHODS.register("crepes_intervals")(
    IntervalMethod(
        options=CrepesOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({INTERVALS}),
        intervals=crepes_intervals,
        seconds=lambda options, rows: _process_seconds(rows),
        package="crepes",
    )
)
