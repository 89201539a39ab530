"""Features, prior, risk, KL and bounds of a stored classifier: the checker's own arithmetic.

The code that trains and certifies shares nothing with it. Wavelets come from their spectra, Fourier transforms from
matrices, kernels from another order of sums. Probabilities use erfc, a regular grid for the noise, bisection and a
binomial sum.

Equation: Bruna & Mallat 2013, Eq. (2), Eq. (3)
Equation: Catoni 2007, Theorem 1.2.6
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, cho_factor, cho_solve, solve_triangular
from scipy.special import bdtr, erfc, ndtr

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.class_risk import INFORMED, LOG, STANDARDISED, ClassModel

Single = npt.NDArray[np.float32]
BLOCK = 1000
FLOAT32 = 1e-5  # largest change of the mean risk by single precision
JITTER = 1e-4
CLOSED = 1e-6  # if two classes give a row's risk to this accuracy, no grid is needed
_STEPS, _REACH = 17_000, 8.5  # step of the noise's grid, in standard deviations: finer than the claim's cells
_BISECTIONS = 200
_NEWTON = 20  # steps to a matrix root. The last few change almost nothing
_ALIASES = range(-3, 4)


def scattering(images: FloatArray) -> Single:
    """Return the 81 S S scattering coefficients [n, 81 S S] of images [n, side, side] (Bruna & Mallat 2013)."""
    side = images.shape[1]
    P = side + 8
    pixel = np.arange(P)
    forward = np.exp(-2j * np.pi * np.outer(pixel, pixel) / P)
    whole, half = forward.conj() / P, forward.conj()[::2] / P
    fine, coarse = ([_wavelet_spectrum(P, j, k) for k in range(8)] for j in (1, 2))
    low = _gaussian_spectrum(P, 1.6, 1.0, 0.0, 0.0)
    folded = low[: P // 2, : P // 2] + low[P // 2 :, : P // 2] + low[: P // 2, P // 2 :] + low[P // 2 :, P // 2 :]
    average, average_half = _low_pass(low, 4), _low_pass(folded, 2)
    F, W, H = (matrix.astype(np.complex64) for matrix in (forward, whole, half))
    found = np.empty((len(images), 81, (side // 4) ** 2), dtype=np.float32)
    place = _mirrored(side)
    for start in range(0, len(images), 50):
        part = images[start : start + 50].astype(np.float32)[:, place[:, None], place[None, :]]
        spectrum = F @ part.astype(np.complex64) @ F.T
        paths = [part.reshape(len(part), -1) @ average]
        firsts = [np.abs(W @ (spectrum * each) @ W.T) for each in fine]
        paths += [first.reshape(len(part), -1) @ average for first in firsts]
        paths += [_thinned(spectrum * each, H) @ average_half for each in coarse]
        for first in firsts:
            again = F @ first.astype(np.complex64) @ F.T
            paths += [_thinned(again * each, H) @ average_half for each in coarse]
        found[start : start + 50] = np.stack(paths, axis=1)
    return found.reshape(len(images), -1)


def _mirrored(side: int) -> IntArray:
    """Return the source pixel of each of side + 8 pixels: four more at each end, mirrored about the last one."""
    at = np.abs(np.arange(-4, side + 4))
    return np.where(at >= side, 2 * (side - 1) - at, at)


def _thinned(spectrum: npt.NDArray[np.complex64], half: npt.NDArray[np.complex64]) -> Single:
    values = np.abs(half @ spectrum @ half.T)
    return np.asarray(values.reshape(len(values), -1), dtype=np.float32)


def _gaussian_spectrum(P: int, width: float, slant: float, frequency: float, angle: float) -> FloatArray:
    """Return the Fourier transform [P, P] of a Gaussian times a wave, sampled at whole pixels, with summed aliases."""
    wave = 2.0 * np.pi * np.arange(P) / P
    total = np.zeros((P, P))
    for a in _ALIASES:
        for b in _ALIASES:
            u, v = wave[:, None] + 2.0 * np.pi * a, wave[None, :] + 2.0 * np.pi * b
            along = math.cos(angle) * u + math.sin(angle) * v - frequency
            across = -math.sin(angle) * u + math.cos(angle) * v
            total += np.exp(-0.5 * width**2 * (along**2 + (across / slant) ** 2))
    return total


def _wavelet_spectrum(P: int, scale: int, k: int) -> Single:
    angle, width, frequency = (3 - k) * math.pi / 8, 0.8 * scale, 0.75 * math.pi / scale
    wave = _gaussian_spectrum(P, width, 0.5, frequency, angle)
    bump = _gaussian_spectrum(P, width, 0.5, 0.0, angle)
    return np.asarray(wave - wave[0, 0] / bump[0, 0] * bump, dtype=np.float32)


def _low_pass(spectrum: FloatArray, stride: int) -> Single:
    P = len(spectrum)
    centres = np.arange(stride, P - stride, stride)
    basis = np.exp(2j * np.pi * np.outer(np.arange(P), np.arange(P)) / P) / P
    kernel = (basis @ spectrum @ basis.T).real
    columns = [
        np.roll(kernel[-np.arange(P)][:, -np.arange(P)], (a, b), (0, 1)).ravel() for a in centres for b in centres
    ]
    return np.array(columns, dtype=np.float32).T


def scale_without_data(side: int) -> FloatArray:
    """Return each feature's scale [P] for an uninformed prior: the deviation of its path over generated images."""
    noise = np.random.RandomState(0).standard_normal((400, side, side))
    pixel = np.arange(side)
    distance = np.minimum(pixel, side - pixel)
    wave = 2.0 * np.pi * distance / side
    blur = np.exp(-0.5 * 1.5**2 * wave**2)
    transform = np.exp(-2j * np.pi * np.outer(pixel, pixel) / side)
    circulant = (transform.conj() @ np.diag(blur) @ transform).real / side
    smooth = circulant @ noise @ circulant.T
    paths = scattering(np.clip(smooth / smooth.std() - 0.5, 0.0, 1.0)).astype(np.float64).reshape(400, 81, -1)
    return np.repeat(paths.std(axis=(0, 2)), paths.shape[2])


def features_of(model: ClassModel, X: FloatArray, prior: IntArray) -> Single:
    """Return the features [N, P] of rows of the dataset, scaled by the prior's rows or by none."""
    if model.features == STANDARDISED:
        part = X[prior]
        scale = np.sqrt(((part - part.mean(axis=0)) ** 2).mean(axis=0))
        scale[(np.ptp(part, axis=0) == 0.0) | (scale == 0.0)] = 1.0
        return np.asarray((X - part.mean(axis=0)) / scale, dtype=np.float32)
    side = math.isqrt(X.shape[1])
    found = scattering(X.reshape(len(X), side, side) / 255.0)
    if model.prior == INFORMED:
        seen = found[prior]
        centre = seen.mean(axis=0, dtype=np.float64)
        spread = np.zeros_like(centre)
        for start in range(0, len(seen), BLOCK):
            spread += ((seen[start : start + BLOCK] - centre) ** 2).sum(axis=0)
        scale = np.maximum(np.sqrt(spread / len(seen)), 1e-12)
    else:
        scale = scale_without_data(side)
    np.maximum(found, 0.0, out=found)
    found /= scale.astype(np.float32)
    found = np.log1p(found, out=found) if model.features == LOG else np.sqrt(found, out=found)
    return found if model.prior == INFORMED else shared(found, side // 4)


def shared(features: Single, places: int) -> Single:
    """Return features [n, P] times the root of (1/2) (I + exp(-|p - q|^2 / 2)), with p and q places of a path.

    The root is by Newton's iteration (Higham 1986), not by eigenvectors.
    """
    row, column = np.divmod(np.arange(places**2), places)
    distance = (row[:, None] - row) ** 2 + (column[:, None] - column) ** 2
    K = 0.5 * np.eye(places**2) + 0.5 * np.exp(-0.5 * distance)
    root, inverse = K, np.eye(len(K))
    for _ in range(_NEWTON):
        root, inverse = 0.5 * (root + np.linalg.inv(inverse)), 0.5 * (inverse + np.linalg.inv(root))
    factor, found = root.astype(np.float32), np.empty_like(features)
    for start in range(0, len(features), BLOCK):
        part = features[start : start + BLOCK]
        found[start : start + BLOCK] = (part.reshape(len(part), -1, len(K)) @ factor).reshape(part.shape)
    return found


def scores(
    model: ClassModel, features: Single, labels: IntArray, prior: IntArray, rows: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean scores [n, C] and variance [n] at the rows.

    Raises:
        LinAlgError: if the prior's matrix is not positive definite.
    """
    if model.prior != INFORMED:
        return _linear_scores(model, features, rows)
    Z, C = features[model.inducing].astype(np.float64), model.shift.shape[1]
    M = len(Z)
    width = model.gamma / _median(Z[:1000])
    norms = (Z**2).sum(axis=1)
    A = np.asfortranarray(model.noise * _kernel(Z, Z, norms, width))
    A[np.diag_indices(M)] += model.noise * JITTER
    target, Z32 = np.zeros((M, C)), Z.astype(np.float32)
    for start in range(0, len(prior), BLOCK):
        part = prior[start : start + BLOCK]
        K = _kernel(features[part], Z32, norms, width)
        A = blas.dsyrk(1.0, K.T, beta=1.0, c=A, lower=1, overwrite_c=1)
        target += K.T @ ((labels[part][:, None] == np.arange(C)).astype(float) - 1.0 / C)
    factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve(factor, target)
    L = np.tril(factor[0])
    shifted = math.sqrt(model.temper) * solve_triangular(L, model.directions @ model.shift, lower=True, trans="T")
    mean, variance = np.empty((len(rows), C)), np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        at = slice(start, start + BLOCK)
        K = _kernel(features[rows[at]], Z32, norms, width)
        u = math.sqrt(model.temper) * solve_triangular(L, K.T, lower=True, check_finite=False).T
        mean[at] = K @ (weights + shifted)
        variance[at] = (u * u).sum(axis=1) - np.square(u @ model.directions) @ (1.0 - model.ratio)
    return mean, variance


def _linear_scores(model: ClassModel, features: Single, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = np.empty((len(rows), model.shift.shape[1])), np.empty(len(rows))
    weights = model.directions @ model.shift
    for start in range(0, len(rows), BLOCK):
        at = slice(start, start + BLOCK)
        u = features[rows[at]].astype(np.float64)
        mean[at] = u @ weights
        variance[at] = (u * u).sum(axis=1) - np.square(u @ model.directions) @ (1.0 - model.ratio)
    return mean, variance


def _kernel(
    left: npt.NDArray[np.floating[Any]], right: npt.NDArray[np.floating[Any]], norms: FloatArray, width: float
) -> FloatArray:
    own = np.einsum("ij,ij->i", left, left, dtype=np.float64)
    distances = np.maximum(own[:, None] + norms - 2.0 * (left @ right.T), 0.0)
    return np.asarray(np.exp(-width * distances), dtype=np.float64)


def _median(Z: FloatArray) -> float:
    pairs = [((Z[i] - Z[i + 1 :]) ** 2).sum(axis=1) for i in range(len(Z) - 1)]
    found = float(np.median(np.concatenate(pairs))) if pairs else 0.0
    return found if found > 0.0 else 1.0


def largest_risks(mean: FloatArray, variance: FloatArray, labels: IntArray) -> FloatArray:
    """Return an upper end of each row's probability of a wrong class, [n].

    With t the noise of its score, the right class wins with probability E prod_c Phi((m_y - m_c) / sqrt(v) + t). This
    is at least a sum over the steps of a grid: each step's probability times the product at its left end.
    """
    n, C = mean.shape
    own = mean[np.arange(n), labels]
    others = np.array([np.delete(np.arange(C), c) for c in range(C)])[labels]
    gap = own[:, None] - np.take_along_axis(mean, others, axis=1)
    still = variance <= 0.0
    margin = gap / np.sqrt(np.where(still, 1.0, variance))[:, None]
    pairs = 0.5 * erfc(margin / 2.0)
    risk = pairs.sum(axis=1)
    doubtful = np.flatnonzero(~still & (risk > pairs.max(axis=1) + CLOSED))
    grid = np.linspace(-_REACH, _REACH, _STEPS + 1)
    mass = np.diff(ndtr(grid))
    right = np.zeros(len(doubtful))
    for left, weight in zip(grid[:-1], mass, strict=True):
        right += weight * (0.5 * erfc(-(margin[doubtful] + left) / math.sqrt(2.0))).prod(axis=1)
    right += ndtr(-_REACH) * (0.5 * erfc(-(margin[doubtful] + _REACH) / math.sqrt(2.0))).prod(axis=1)
    risk[doubtful] = np.minimum(risk[doubtful], 1.0 - right)
    return np.where(still, (gap <= 0.0).any(axis=1), np.clip(risk, 0.0, 1.0))


def kl_of(model: ClassModel) -> float:
    """Return KL(Q||P) of the differences of scores, class by class against the first, in nats."""
    C = model.shift.shape[1]
    differences = model.shift[:, 1:] - model.shift[:, :1]
    # the differences' covariance is I + 11': its inverse is I - 11' / C
    mean = (differences**2).sum() - (differences.sum(axis=1) ** 2).sum() / C
    return float(0.5 * mean + 0.5 * (C - 1) * (model.ratio - 1.0 - np.log(model.ratio)).sum())


def bounds_of(risk: float, errors: int, kl: float, n: int, delta: float, constant: float) -> dict[str, float]:
    """Return the three bounds. `delta` is its share for one choice."""
    budget = (kl + math.log(2.0 * math.sqrt(n) / delta)) / n
    catoni = -math.expm1(-constant * risk - (kl + math.log(1.0 / delta)) / n) / -math.expm1(-constant)
    binomial = _largest(lambda p: bool(bdtr(errors, n, p) >= delta), errors / n)
    return {"kl": _largest(lambda p: _kl(risk, p) <= budget, risk), "catoni": min(catoni, 1.0), "binomial": binomial}


def _largest(holds: Callable[[float], bool], inside: float) -> float:
    """Return a point just outside the points for which `holds` is true, by bisection between such a point and 1."""
    outside = 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (inside + outside)
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return outside


def _kl(q: float, p: float) -> float:
    first = q * math.log(q / p) if q > 0.0 else 0.0
    return first + (
        (1.0 - q) * math.log((1.0 - q) / (1.0 - p)) if q < 1.0 and p < 1.0 else 0.0 if q == 1.0 else math.inf
    )
