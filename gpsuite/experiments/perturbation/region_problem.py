"""Regions of a dataset's rows: what the data choose is chosen on other rows.

Inputs of a kernel model must be distinct (assumption A1). Where rows repeat an input, the mean of their outputs is
used: its noise is the mean of independent symmetric noises and so symmetric, which sign changes preserve.
Permutations would also need all means to be of equally many rows. Copies of whole rows are no further measurements and
count once, for linear models, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.linalg import qr
from scipy.spatial.distance import pdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.table.names import name_list
from gpsuite.errors import UserError, unknown_name
from gpsuite.experiments.perturbation.coverage_models import GROUPS
from gpsuite.experiments.settings import require_one_output
from gpsuite.methods.perturbation.quadratic import LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.region import ConfidenceRegion, ModelClass, confidence_region
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import stream

LINEAR, SPARSE = "lssvm_linear", "krr_sparse"
LEAST_ROWS = 4  # on either side of the split
LEAST_APART = 1e-3  # share of the first centre's function that is in no other's
MOST_LEFT_OUT = 12  # inputs that a message names


@dataclass(frozen=True)
class RegionTask:
    """One model's regions at every level. Further settings as `RegionSettings`.

    Attributes:
        model: key of `MODELS`.
        along: number of the input along which bands are drawn.
        seed: of the choice of rows, centres, perturbations and rays.
    """

    model: str
    along: int
    seed: int
    group: str
    m: int
    excluded: Sequence[int]
    centres: int
    lengthscale: float | None
    penalty: float
    C: float
    preparation: float
    rows: int
    points: int
    rays: int
    kind: str = "perturbation_region"


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs and outputs that a model is made of, after copies and repeated inputs are dealt with.

    Attributes:
        X: inputs in their own units [n, D].
        y: outputs in their own units [n].
        first: numbers of the rows that prepare.
        remainder: numbers of the rows of the region.
        merged: how many of the dataset's rows are merged into others.
    """

    X: FloatArray
    y: FloatArray
    first: IntArray
    remainder: IntArray
    merged: int


@dataclass(frozen=True, eq=False)
class RegionProblem:
    """A region of a dataset's rows, in scaled units, and the way back.

    Attributes:
        region: of the rows that are not used for preparation. Its q is the first of the settings.
        X: scaled inputs of these rows [n, D].
        columns: inputs that the model takes [D'].
        mean: of the inputs over the preparation rows, [D].
        spread: standard deviation there, [D].
        offset: mean of the target there.
        unit: standard deviation of the target there.
    """

    region: ConfidenceRegion
    X: FloatArray
    columns: IntArray
    mean: FloatArray
    spread: FloatArray
    offset: float
    unit: float

    def features(self, x: FloatArray) -> FloatArray:
        """Return rows of Phi at scaled inputs [B, D]."""
        if self.region.features is None:
            raise ValueError("the region has no map from inputs to features")
        return self.region.features(x[:, self.columns])


def read_problem(prepared: PreparedDataset, params: RegionTask) -> RegionProblem:
    """Return the region of a dataset under a task's model, at the first of its levels.

    Raises:
        UserError: with too few rows, more than one target, repeated inputs that cannot be averaged, or a design without
            full column rank.
    """
    data = load(prepared)
    rows = split_rows(data, params)
    count, kept = len(rows.first), len(rows.remainder)
    model = MODELS[params.model]
    least = max(LEAST_ROWS, model.centres(params))
    if count < least or kept < LEAST_ROWS:
        key, value = ("centres", params.centres) if LEAST_ROWS <= count < least else _row_setting(params)
        equal = f" ({rows.merged} more {model.repeats})" if rows.merged else ""
        fault = f"{count + kept} rows{equal} leave {count} for preparation (at least {least}) and {kept} for the region"
        advice = (
            f"preparation={params.preparation:g} is the share that prepares: more rows, another share or fewer centres"
        )
        told = f"{key}={value}: {fault} (at least {LEAST_ROWS})\n{advice}"
        if rows.merged and params.group == "signs" and _enough_for_linear(data, params):
            fix = {"models": f"[{LINEAR}]"}
            raise UserError(f"{told}, or the linear model, which averages none:", key=key, fix=fix)
        raise UserError(told, key=key)
    columns = model.columns(prepared, rows, params.along)
    try:
        return _problem(rows, params, columns)
    except ValueError as error:
        key = "lengthscale" if model.has_lengthscale and params.lengthscale else "dataset"
        named = f"lengthscale={params.lengthscale:g}" if key == "lengthscale" else f"dataset={data.name}"
        raise UserError(f"{named}: {error}", key=key) from error


def _row_setting(params: RegionTask) -> tuple[str, float]:
    """Return the setting that decides how many rows there are on either side, and its value."""
    return ("rows", params.rows) if params.rows else ("preparation", params.preparation)


def _linear_columns(prepared: PreparedDataset, rows: Rows, along: int) -> IntArray:
    """Return the inputs of a linear model with a constant, of a category as many levels as are independent.

    The input along which bands are drawn comes first, so that it is kept.

    Raises:
        UserError: if other inputs depend on each other.
    """
    data = load(prepared)
    X = rows.X[rows.remainder]
    centred = (X - X.mean(axis=0)) / np.where(np.ptp(X, axis=0) > 0.0, X.std(axis=0), 1.0)
    kept: list[int] = []
    order = [along, *(each for each in range(X.shape[1]) if each != along)]
    for column in order:
        if np.linalg.matrix_rank(centred[:, [*kept, column]]) > len(kept):
            kept.append(column)
    dependent = [data.input_names[each] for each in order if each not in kept]
    others = [name for name in dependent if name not in data.level_inputs]
    if len(others) > MOST_LEFT_OUT:
        raise UserError(
            f"dataset={data.name}: {len(others)} of {X.shape[1]} inputs do not count, {others[0]!r} first. "
            f"They are constant in the region's {len(X)} rows or a combination of other inputs "
            "(the linear design has not full rank)\n"
            "name the inputs to take (dataset.inputs), or take the kernel model:",
            key="dataset.inputs",
            fix={"models": f"[{SPARSE}]"},
        )
    if others:
        before, more = prepared.spec.get("ignore") or [], name_list(others)
        if isinstance(before, str):  # as the user wrote it, in brackets or not
            more = f"[{before.removeprefix('[').removesuffix(']')}, {more[1:]}"
        else:
            more = name_list([*map(str, before), *others])
        raise UserError(
            f"dataset={data.name}: {', '.join(map(repr, others))}: constant in the region's rows or a combination of "
            "other inputs (the linear design has not full rank)\n"
            "take the kernel model (models=[krr_sparse]), or leave out what is not independent:",
            key="dataset.ignore",
            fix={"dataset.ignore": more},
        )
    return np.sort(np.array(kept, dtype=np.int64))


def _enough_for_linear(data: Dataset, params: RegionTask) -> bool:
    rows = split_rows(data, replace(params, model=LINEAR))
    return min(len(rows.first), len(rows.remainder)) >= LEAST_ROWS


def split_rows(data: Dataset, params: RegionTask) -> Rows:
    """Return the rows that a model is made of, those that prepare and those of the region distinguished.

    Raises:
        UserError: with more than one target, or repeated inputs if the noise of means, or of rows whose copies were
            left out, is not what the group allows.
    """
    require_one_output(data)
    X = data.X
    own = np.arange(len(X)) if data.groups is None else np.flatnonzero(data.groups == np.arange(len(X)))
    own, y = MODELS[params.model].distinct(data, params, own)
    X, y, merged = X[own], y[own], len(X) - len(own)
    rows = stream(params.seed, "rows").permutation(len(X))[: params.rows or None]
    count = round(params.preparation * len(rows))
    return Rows(X, y, rows[:count], rows[count:], merged)


def _without_copies(data: Dataset, params: RegionTask, own: IntArray) -> tuple[IntArray, FloatArray]:
    if len(own) < len(data.X):
        _refuse_copies(data, params)
    return own, data.y[:, 0]


def _averaged(data: Dataset, params: RegionTask, own: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the first row of each different input, and outputs with the mean of its rows there."""
    _, first, inverse, sizes = np.unique(
        data.X[own], axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    y = data.y[:, 0]
    if len(first) == len(own):
        return own, y
    _refuse_means(data, params, own[np.flatnonzero(np.ravel(inverse) == int(np.argmax(sizes > 1)))])
    y = y.copy()
    y[own[first]] = np.bincount(np.ravel(inverse), weights=y[own]) / sizes
    return own[np.sort(first)], y


def _refuse_copies(data: Dataset, params: RegionTask) -> None:
    if params.group == "signs" or data.groups is None:
        return
    copy = int(np.argmax(data.groups != np.arange(len(data.X))))
    named = " and ".join(data.name_row(row) for row in (int(data.groups[copy]), copy))
    raise UserError(
        f"group={params.group}: {named} are equal. Rows without their copies cannot be exchanged, as equal draws are "
        "among the rows that noise could have given\ntake group=signs, under which leaving copies out only widens the "
        "region:",
        key="group",
        fix={"group": "signs"},
    )


def _refuse_means(data: Dataset, params: RegionTask, twins: IntArray) -> None:
    if params.group == "signs":
        return
    named = " and ".join(data.name_row(int(row)) for row in twins[:2])
    raise UserError(
        f"group={params.group}: {named} have equal inputs. Their mean has another noise than single rows\n"
        "take group=signs, which allows means:",
        key="group",
        fix={"group": "signs"},
    )


def _problem(rows: Rows, params: RegionTask, columns: IntArray) -> RegionProblem:
    first = rows.X[rows.first]
    mean, spread = first.mean(axis=0), first.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    offset, unit = float(rows.y[rows.first].mean()), float(rows.y[rows.first].std())
    X, Z = (rows.X[rows.remainder] - mean) / spread, (first - mean) / spread
    region = confidence_region(
        X[:, columns],
        (rows.y[rows.remainder] - offset) / (unit or 1.0),
        MODELS[params.model].model_class(params, Z, X),
        q=params.excluded[0],
        m=params.m,
        group=GROUPS[params.group],
        rng=stream(params.seed, "perturbations", params.model),
    )
    return RegionProblem(region, X, columns, mean, spread, offset, unit or 1.0)


def _linear_class(params: RegionTask, Z: FloatArray, X: FloatArray) -> ModelClass:
    return ModelClass(partial(LinearLSSVM, C=params.C))


def _sparse_class(params: RegionTask, Z: FloatArray, X: FloatArray) -> ModelClass:
    lengthscale = params.lengthscale or float(np.median(pdist(Z)))
    centres, _ = kmeans2(Z, params.centres, minit="++", seed=stream(params.seed, "centres"))
    centres = distinguished(centres, X, lengthscale)
    objective = partial(SparseKernelRidge, penalty=params.penalty)
    return ModelClass(objective, partial(gaussian, lengthscale=lengthscale), centres)


def distinguished(centres: FloatArray, X: FloatArray, lengthscale: float) -> FloatArray:
    """Return those of the centres [M, D] whose functions the inputs [N, D] of the region distinguish, in their order.

    Only by inputs: given them, the confidence stays exact. With an input of a long tail some centres lie far from all
    rows, and others so close that their functions are one.

    Raises:
        ValueError: if they tell none apart.
    """
    kept = different_functions(gaussian(X, centres, lengthscale))
    if len(kept) < min(2, len(centres)):
        raise ValueError("at the rows of the region the functions of all centres are one")
    return centres[kept]


def different_functions(values: FloatArray) -> IntArray:
    """Return which of M functions their values [N, M] distinguish, rising."""
    _, R, order = qr(values, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(R))
    return np.sort(order[: np.count_nonzero(sizes > LEAST_APART * sizes[0])])


def gaussian(A: FloatArray, B: FloatArray, lengthscale: float) -> FloatArray:
    """Return the Gaussian kernel between inputs [A, D] and [B, D]."""
    return kappa("squared_exponential", squared_distances(A / lengthscale, B / lengthscale))


def input_number(data: Dataset, along: str) -> int:
    """Return the column to draw along: the named one, or the one with the largest correlation with the target.

    Raises:
        UserError: if there is no input of that name.
    """
    if along:
        if along not in data.input_names:
            raise unknown_name("along", along, data.input_names)
        return data.input_names.index(along)
    X, y = data.X - data.X.mean(axis=0), data.y[:, 0] - data.y[:, 0].mean()
    size = np.sqrt((X**2).sum(axis=0))
    return int(np.argmax(np.abs(X.T @ y) / np.where(size > 0.0, size, np.inf)))


@dataclass(frozen=True, kw_only=True)
class RegionModel:
    """Model of the function.

    Attributes:
        title: in tables and figures.
        merged: what merged rows are, in a sentence.
        repeats: what they do, in a message.
        distinct: data, params, rows without copies -> rows of the model, and outputs [N] of all rows.
        columns: dataset, rows, input of the bands -> inputs that the model takes.
        model_class: params, scaled inputs that prepare [L, D], those of the region [n, D] -> the model.
        centres: params -> how many rows that prepare it needs.
        has_lengthscale: whether `RegionTask.lengthscale` is a setting of it.
    """

    title: str
    merged: str
    repeats: str
    distinct: Callable[[Dataset, RegionTask, IntArray], tuple[IntArray, FloatArray]]
    columns: Callable[[PreparedDataset, Rows, int], IntArray]
    model_class: Callable[[RegionTask, FloatArray, FloatArray], ModelClass]
    centres: Callable[[RegionTask], int] = lambda params: 0
    has_lengthscale: bool = False


MODELS = {
    SPARSE: RegionModel(
        title="kernel ridge, few centres",
        merged="of an input that others have: averaged",
        repeats="repeat their inputs and are averaged with them",
        distinct=_averaged,
        columns=lambda prepared, rows, along: np.arange(rows.X.shape[1]),
        model_class=_sparse_class,
        centres=lambda params: params.centres,
        has_lengthscale=True,
    ),
    LINEAR: RegionModel(
        title="LS-SVM, linear",
        merged="copies of others",
        repeats="are their copies",
        distinct=_without_copies,
        columns=_linear_columns,
        model_class=_linear_class,
    ),
}
