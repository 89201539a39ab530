"""Regions of a dataset's rows: what the data choose is chosen on other rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import pdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError, unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.region.tasks import RegionTask
from gpsuite.experiments.perturbation.shared.coverage_models import GROUPS
from gpsuite.methods.perturbation.checks import distinct_rows
from gpsuite.methods.perturbation.objectives.quadratic import LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.region import ModelClass, Region, confidence_region
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import stream

LEAST_ROWS = 4  # on either side of the split


@dataclass(frozen=True, eq=False)
class Problem:
    """A region of a dataset's rows, in scaled units, and the way back.

    Attributes:
        region: of the rows that are not used for preparation; its q is the first of the settings.
        X: scaled inputs of these rows [n, D].
        mean: of the inputs over the preparation rows, [D].
        spread: standard deviation there, [D].
        offset: mean of the target there.
        unit: standard deviation of the target there.
    """

    region: Region
    X: FloatArray
    mean: FloatArray
    spread: FloatArray
    offset: float
    unit: float


def read_problem(prepared: PreparedDataset, params: RegionTask) -> Problem:
    """Return the region of a dataset under a task's model, at the first of its levels.

    Raises:
        UserError: with too few or equal rows, more than one target, or a design without full column rank.
    """
    data = load(prepared)
    many = data.y.shape[1]
    require(
        many == 1, "dataset.target", list(data.target_names), "name one target: a region is of one output"
    )
    rows = stream(params.seed, "rows").permutation(len(data.X))[: params.rows or None]
    count = round(params.preparation * len(rows))
    kept = len(rows) - count
    least = max(LEAST_ROWS, params.centres if params.model == "krr_sparse" else 0)
    if count < least or kept < LEAST_ROWS:
        fault = f"{len(rows)} rows leave {count} for preparation (at least {least}) and {kept} for the region"
        raise UserError(f"dataset={data.name}: {fault} (at least {LEAST_ROWS})", key="dataset")
    try:
        return _problem(data, rows[:count], rows[count:], params)
    except ValueError as error:
        raise UserError(f"dataset={data.name}: {error}", key="dataset") from error


def _problem(
    data: Dataset,
    chosen_by: IntArray,
    rows: IntArray,
    params: RegionTask,
) -> Problem:
    first = data.X[chosen_by]
    mean, spread = first.mean(axis=0), first.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    offset, unit = float(data.y[chosen_by, 0].mean()), float(data.y[chosen_by, 0].std())
    X, Z = (data.X[rows] - mean) / spread, (first - mean) / spread
    if params.model == "lssvm_linear":
        model = ModelClass(partial(LinearLSSVM, C=params.C))
    else:
        distinct_rows(data.X, "data rows")  # all of them, so that the message counts as the file does
        lengthscale = params.lengthscale or float(np.median(pdist(Z)))
        centres, _ = kmeans2(Z, params.centres, minit="++", seed=stream(params.seed, "centres"))
        objective = partial(SparseKernelRidge, penalty=params.penalty)
        model = ModelClass(objective, partial(gaussian, lengthscale=lengthscale), centres)
    region = confidence_region(
        X,
        (data.y[rows, 0] - offset) / (unit or 1.0),
        model,
        q=params.excluded[0],
        m=params.m,
        group=GROUPS[params.group],
        rng=stream(params.seed, "perturbations", params.model),
    )
    return Problem(region, X, mean, spread, offset, unit or 1.0)


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
