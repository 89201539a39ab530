"""Inputs that give the target nearly exactly: a single one, or a weighted sum of two or three."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.doubts import TIME_NAME, setting
from gpsuite.data.table.names import shorten
from gpsuite.data.table.roles import Column, Kind, rises

ALONE = 0.99  # least R2 of a single input that gives the target
TOGETHER = 0.999  # least R2 of a sum of inputs
_ROWS = 12  # least number of rows for a sentence
_MOST_ROWS = 2000  # largest number of rows to analyse
_PAIRS, _TRIPLES = 200, 30  # most inputs for which all pairs and all triples are tried, otherwise the best
_PER_LEVEL = 3  # least mean number of rows per level, if levels give the target
_BLOCK = 500  # columns sorted at once
_TOLD = 0.8  # least share of rows with such a neighbour
_SHOWN = 3  # further inputs in a sentence


def leaks(spec: CsvSpec, inputs: Sequence[Column], target: Column, *, classes: bool) -> list[str]:
    """Return a sentence for inputs that give the target nearly exactly. The target may be `classes`.

    For one input R2 is of predicting each row from its two neighbours in the order of the input, or from the other rows
    of the same value. So no form of the relation is assumed. For several inputs R2 is of a linear function. Dates,
    times and numbers that rise in every row are left out: a trend is not a leak.
    """
    rows = np.flatnonzero(~np.isnan(target.values))
    columns = [column for column in inputs if not (column.useless or _is_time(column))]
    if spec.strict or len(rows) < _ROWS or not columns:
        return []
    rows = rows[:: -(-len(rows) // _MOST_ROWS)]
    X = np.column_stack([column.values[rows] for column in columns])
    y = target.values[rows]
    if y.min() == y.max():
        return []
    if classes:
        found = [place for place, column in enumerate(columns) if _tells_class(X[:, place], y, column.kind)]
        told = [(columns[place].name, "in every row") for place in found]
        return _sentences(spec, told, target.name, "tells") if told else []
    levels = np.array([column.kind == "category" for column in columns])
    alone = np.zeros(len(columns))
    for place in np.flatnonzero(levels | np.isnan(X).any(axis=0) | _smooth(X, y)):
        alone[place] = alone_r2(X[:, place], y, levels=bool(levels[place]))
    best = sorted(np.flatnonzero(alone >= ALONE).tolist(), key=lambda place: -alone[place])
    if best:
        told = [(columns[place].name, f"with R2 = {_rounded(alone[place])}") for place in best]
        return _sentences(spec, told, target.name, "predicts")
    rest = np.flatnonzero(~levels & ~np.isnan(X).any(axis=0))
    chosen = best_sum(X[:, rest], y)
    if chosen is None:
        return []
    names = [columns[rest[place]].name for place in chosen[0]]
    told = [(" and ".join(shorten(name, 40) for name in names), f"by a weighted sum, with R2 = {_rounded(chosen[1])}")]
    return _sentences(spec, told, target.name, "give", names)


def _sentences(
    spec: CsvSpec, told: Sequence[tuple[str, str]], target: str, verb: str, names: Sequence[str] = ()
) -> list[str]:
    """Return the sentence about the input with the largest R2, and the others."""
    which, how, name = shorten(told[0][0], 130), told[0][1], shorten(target, 40)
    others = [shorten(other, 40) for other, _ in told[1:]]
    more = f" (so do {', '.join(others[:_SHOWN])}{' and others' if len(others) > _SHOWN else ''})" if others else ""
    known, alone, them = ("are they", "", "them") if names else ("is it", " alone", "it")
    out = setting(spec, "ignore", names or [name for name, _ in told])
    ask = f"{known} known before {name}? If not, leave {them} out: {out}"
    return [f"{which}{alone} {verb} {name} {how}{more}: {ask}"]


def _is_time(column: Column) -> bool:
    """Return whether a column is a time, or has too few values."""
    if column.kind in ("date", "time"):
        return True
    return column.kind == "number" and bool(TIME_NAME.fullmatch(column.name) or rises(column.values))


def _rounded(r2: float) -> str:
    return f"{r2:.3g}"


def _smooth(X: FloatArray, y: FloatArray) -> BoolArray:
    """Return for which columns of X [N, D] the targets y [N], sorted by the column, change little from row to row."""
    found = []
    for first in range(0, X.shape[1], _BLOCK):
        steps = np.diff(y[np.argsort(X[:, first : first + _BLOCK], axis=0)], axis=0)
        found.append(np.square(steps).sum(axis=0) < 0.5 * np.square(y - y.mean()).sum())
    return np.concatenate(found)


def alone_r2(x: FloatArray, y: FloatArray, *, levels: bool = False) -> float:
    """Return R2 of predicting y [N] from one input x [N], each row from its neighbours.

    NaN in x and rows without such neighbours do not count.

    Args:
        x: values.
        y: targets.
        levels: whether values have no order. Then only rows of the same value are neighbours.
    """
    given = ~np.isnan(x)
    x, y = x[given], y[given]
    if len(y) < _ROWS or y.min() == y.max():
        return 0.0
    values, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    if len(counts) < 2 or (levels and len(y) < _PER_LEVEL * len(counts)):
        return 0.0
    sums = np.bincount(which, weights=y)
    between = np.full(len(counts), np.nan) if levels else _between(values, sums / counts)
    others = np.where(counts[which] > 1, (sums[which] - y) / np.maximum(counts[which] - 1, 1), between[which])
    known = ~np.isnan(others)
    y, others = y[known], others[known]
    if len(y) < _ROWS or known.mean() < _TOLD or y.min() == y.max():
        return 0.0
    return float(1.0 - np.square(y - others).sum() / np.square(y - y.mean()).sum())


def _between(values: FloatArray, means: FloatArray) -> FloatArray:
    """Return the value at each value [K] of the line between its neighbours' means. NaN at both ends."""
    told = np.full(len(values), np.nan)
    share = (values[1:-1] - values[:-2]) / (values[2:] - values[:-2])
    told[1:-1] = (1.0 - share) * means[:-2] + share * means[2:]
    return told


def best_sum(X: FloatArray, y: FloatArray) -> tuple[list[int], float] | None:
    """Return two or three columns of X [N, D] that give y [N] by a linear function, and its R2, or None."""
    Z = X - X.mean(axis=0)
    scale = np.sqrt(np.square(Z).sum(axis=0))
    kept = np.flatnonzero(scale > 0.0)
    if len(kept) < 2 or len(y) < _ROWS:
        return None
    Z, t = Z[:, kept] / scale[kept], y - y.mean()
    t = t / np.sqrt(np.square(t).sum())
    for size, most in ((2, _PAIRS), (3, _TRIPLES)):
        places = _promising(Z, t, most)
        sets = np.array(list(itertools.combinations(range(len(places)), size)), dtype=np.int64)
        if not len(sets):
            continue
        r2 = _r2_of(Z[:, places], t, sets)
        best = int(r2.argmax())
        if r2[best] >= TOGETHER:
            return sorted(kept[places[sets[best]]].tolist()), float(r2[best])
    return None


def _promising(Z: FloatArray, t: FloatArray, most: int) -> IntArray:
    """Return the columns to try: all, or those that explain most of the target or of the best one's residual."""
    if Z.shape[1] <= most:
        return np.arange(Z.shape[1])
    chosen: list[int] = []
    rest = t
    while len(chosen) < most:
        order = np.argsort(-np.abs(Z.T @ rest))
        new = [place for place in order.tolist() if place not in chosen][: max(most // 5, 1)]
        chosen += new
        basis = Z[:, chosen[:: max(most // 5, 1)]]
        rest = t - basis @ np.linalg.lstsq(basis, t, rcond=None)[0]
    return np.array(chosen[:most])


def _r2_of(Z: FloatArray, t: FloatArray, sets: IntArray) -> FloatArray:
    """Return R2 of the linear function of each set of columns [S, K]. Sets of nearly equal columns have R2 0."""
    products, told = Z.T @ Z, Z.T @ t
    gram = products[sets[:, :, None], sets[:, None, :]]
    right = told[sets]
    sound = np.linalg.det(gram) > 1e-6
    r2 = np.zeros(len(sets))
    r2[sound] = (right[sound] * np.linalg.solve(gram[sound], right[sound][:, :, None])[:, :, 0]).sum(axis=1)
    return r2


def _tells_class(x: FloatArray, y: FloatArray, kind: Kind) -> bool:
    """Return whether each of a few values has one class, or numbers separate all classes [N] into ranges."""
    given = ~np.isnan(x)
    x, y = x[given], y[given]
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2 or len(y) < 3 * _ROWS or np.sort(counts)[-2] < max(_ROWS, 0.05 * len(y)):
        return False
    values, which = np.unique(x, return_inverse=True)
    if len(values) < 2 or len(np.unique(np.column_stack([which, y]), axis=0)) > len(values):
        return False
    parted = kind == "number" and np.count_nonzero(np.diff(y[np.argsort(x, kind="stable")])) < len(labels)
    return parted or len(y) >= _PER_LEVEL * len(values)
