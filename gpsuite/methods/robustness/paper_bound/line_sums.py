"""Sums over all pairs of data of the lines that bound the pairs' kernel products, in blocks that stay in the cache.

A pair's product is exp(-Q), Q = (q_i + q_l) / 2 with near <= Q <= near + width over a box of centre c and radius r.
With the middle m of the two data and a = |m - c|, per input:

    near            sum_j max(0, a_j - r_j)^2 + |U_i - U_l|^2 / 4
    near + width    (q_i(c) + q_l(c)) / 2 + sum_j 2 r_j a_j + r_j^2
    tangent         v (1 + width / 2) - v (Q - near), at the middle: v = exp(-near - width / 2)
    chord           e - k (Q - near), e = exp(-near), k = e (1 - exp(-width)) / width

Equation: Blaas et al. 2020, App. D
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray

# Pairs held at once: 200 kB per array, fewer cost more calls per pair, more leave the cache.
_BLOCK = 3 << 13
# Arrays of a block with one row: `apart`, the weights, and what a box needs.
_ARRAYS = 12
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LineSums:
    """Lines summed over the pairs: value_b - sum_i slope_bi q_i(x), below [0] and above [1] the weighted products.

    Attributes:
        value: at q = 0, [2, B].
        slope: fall per q_i, [2, B, n].
        size: bound of the absolute terms of either sum, times the units of their pairs, [B].
        steep: bound of the absolute slopes of either sum, times these units, [B].
    """

    value: FloatArray
    slope: FloatArray
    size: FloatArray
    steep: FloatArray


@dataclass(frozen=True)
class _Block:
    """Pairs of `rows` with the data from `rows.start` on, [k, L]; those below the diagonal have weight zero.

    Attributes:
        rows: k data.
        columns: L data.
        middle: of the two data, [d, k L].
        apart: -|U_i - U_l|^2 / 4, [k, L].
        weights: where they are positive and where they are negative, else zero, [2, k, L].
        offset: room for [d, k L].
        spare: room for nine times [k, L].
    """

    rows: slice
    columns: slice
    middle: FloatArray
    apart: FloatArray
    weights: FloatArray
    offset: FloatArray
    spare: FloatArray


@dataclass(frozen=True)
class _RowSums:
    """Sums over a datum's pairs, before they are added up: lines' values and slopes, units' share of slopes.

    Attributes:
        value: of the pairs (i, l) with i <= l, [2, B, n].
        slope: of all pairs with the datum, [2, B, n].
        steep: sum_l unit_l |weight_il| k_il over i <= l, [B, n].
        far: the same with f_l in it, [B, n].
    """

    value: FloatArray
    slope: FloatArray
    steep: FloatArray
    far: FloatArray


def line_sums(
    U: FloatArray, weights: FloatArray, unit: FloatArray, centre: FloatArray, radius: FloatArray
) -> LineSums:
    """Sum the lines over B boxes; time O(B n^2 d), memory O(n^2 + _BLOCK d).

    A datum's slopes and a row's values are sums of at most n terms, and so is the sum of the rows' values. With
    v <= k, e <= v + k width and Q <= f_i + f_l, f half the farthest squared distance of a datum, every line's terms at
    any point of the box are at most |weight| k (1 + 2 (f_i + f_l)): that is what `size` sums.

    Args:
        U: data, [n, d].
        weights: of the pairs i <= l, zero below the diagonal, [n, n].
        unit: relative error allowed to a pair's part, that of its second datum, [n].
        centre: of the boxes, in units of U, [B, d].
        radius: half-widths, [B, d].
    """
    apart = np.abs(U - centre[:, None])
    half = 0.5 * np.einsum("bnd,bnd->bn", apart, apart)
    farthest = 0.5 * np.square(apart + radius[:, None]).sum(axis=2)
    sums = _RowSums(*np.zeros((2, 2, *half.shape)), *np.zeros((2, *half.shape)))
    for block in _blocks(U, weights):
        for b in range(len(centre)):
            start, width = _range(block, centre[b], radius[b], half[b])
            _add(sums, b, block, start, width, unit, unit * farthest[b])
    return LineSums(
        value=sums.value.sum(axis=2),
        slope=0.5 * sums.slope,
        size=(sums.steep * (1.0 + 2.0 * farthest) + 2.0 * sums.far).sum(axis=1),
        steep=0.5 * sums.steep.sum(axis=1),
    )


def _blocks(U: FloatArray, weights: FloatArray) -> Iterator[_Block]:
    """Return the pairs' blocks one after another; each overwrites the one before."""
    n, d = U.shape
    room = np.empty((2 * d + _ARRAYS) * max(n, min(n * n, _BLOCK)))
    start = 0
    while start < n:
        stop = min(n, start + max(1, _BLOCK // (n - start)))
        rows, columns = slice(start, stop), slice(start, n)
        shape = stop - start, n - start
        used = room[: (2 * d + _ARRAYS) * shape[0] * shape[1]].reshape(-1, *shape)
        middle, offset, apart, split, spare = np.split(used, [d, 2 * d, 2 * d + 1, 2 * d + 3])
        left, right = 0.5 * U[rows].T[:, :, None], 0.5 * U[columns].T[:, None, :]
        np.add(left, right, out=middle)
        np.subtract(left, right, out=offset)
        np.negative(np.einsum("jkl,jkl->kl", offset, offset), out=apart[0])
        np.maximum(weights[rows, columns], 0.0, out=split[0])
        np.minimum(weights[rows, columns], 0.0, out=split[1])
        yield _Block(rows, columns, middle.reshape(d, -1), apart[0], split, offset.reshape(d, -1), spare)
        start = stop


def _range(
    block: _Block, centre: FloatArray, radius: FloatArray, half: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return minus the smallest Q of the block's pairs over one box and minus the width of its range, [k, L] each.

    Both ends are sums of terms that are not negative, so that each has a small relative error.

    Args:
        block: of pairs.
        centre: of the box, [d].
        radius: its half-widths, [d].
        half: half the data's squared distances from the centre, [n].
    """
    start, width = block.spare[:2]
    offset = np.subtract(block.middle, centre[:, None], out=block.offset)
    np.abs(offset, out=offset)
    np.dot(-2.0 * radius, offset, out=width.reshape(-1))
    width -= (half[block.rows] + radius @ radius)[:, None]
    width -= half[block.columns]
    offset -= radius[:, None]
    np.maximum(offset, 0.0, out=offset)
    np.einsum("jp,jp->p", offset, offset, out=start.reshape(-1))
    np.subtract(block.apart, start, out=start)
    width -= start
    np.minimum(width, -_TINY, out=width)
    return start, width


def _lines(block: _Block, start: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the value at the smallest Q, and the falls of tangent and chord, [k, L] each.

    A chord is never flatter than the tangent, so rounding that says so is undone; that also serves ranges of no width.
    """
    top, tangent, chord = block.spare[2:5]
    np.exp(start, out=top)
    np.exp(width, out=tangent)
    np.subtract(tangent, 1.0, out=chord)
    chord /= width
    chord *= top
    np.sqrt(tangent, out=tangent)
    tangent *= top
    np.maximum(chord, tangent, out=chord)
    return top, tangent, chord


def _add(
    sums: _RowSums,
    b: int,
    block: _Block,
    start: FloatArray,
    width: FloatArray,
    unit: FloatArray,
    far: FloatArray,
) -> None:
    """Add the lines of a block's pairs over box b; `start` and `width` as `_range` returns them.

    Args:
        sums: to which they are added.
        b: number of the box.
        block: of pairs.
        start: minus the smallest Q, [k, L].
        width: minus the width of its range, below zero, [k, L].
        unit: see `line_sums`, [n].
        far: that times f, [n].
    """
    rows, columns, ones = block.rows, block.columns, np.ones(len(unit))
    top, tangent, chord = _lines(block, start, width)
    tangents, chords = block.spare[5:7], block.spare[7:9]
    np.multiply(block.weights, tangent, out=tangents)
    np.multiply(block.weights, chord, out=chords)
    steep = np.subtract(chords[0], chords[1], out=chord)
    sums.steep[b, rows] = steep @ unit[columns]
    sums.far[b, rows] = steep @ far[columns]
    value = tangents @ ones[columns] - 0.5 * _row_products(tangents, width)
    value += _row_products(block.weights, top)[::-1]
    # tangents where weights are positive and chords where they are negative lie below, the other way round above
    slopes = np.add(tangents, chords[::-1], out=tangents)
    sums.value[:, b, rows] = value - _row_products(slopes, start)
    sums.slope[:, b, rows] += slopes @ ones[columns]
    sums.slope[:, b, columns] += ones[rows] @ slopes


def _row_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the dot products of the rows of arrays [2, k, L] and [k, L], [2, k]."""
    return np.asarray(np.matmul(left[:, :, None, :], right[:, :, None])[..., 0, 0])
