"""Scattering of images: features that do not depend on data, stable under small shifts and deformations.

Equation: Bruna & Mallat 2013, Eq. (2), Eq. (3)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import fft

from gpsuite.arrays import FloatArray

SCALES, ORIENTATIONS = 2, 8  # J and L
SLANT = 4.0 / ORIENTATIONS  # slant of a wavelet's envelope: its width along the oscillation over that across it
WIDTH, FREQUENCY = 0.8, 0.75 * np.pi  # the finest wavelet's standard deviation in pixels and radians per pixel
_STRIDE = 2**SCALES
_MARGIN = _STRIDE  # pixels mirrored at each side: the opposite side of the periodic image has no effect
_BATCH = 64  # images at once: the working arrays fit in the cache
_TURNS = 2  # copies of a filter at each side with tails that are folded in
_MADE_UP, _BLUR, _INK = 400, 1.5, 0.5  # number of images, their blur in pixels, and the level above which there is ink
_SHARED = 0.5  # share of a weight's variance that near places have in common
Transform = Literal["root", "log"]
Single = npt.NDArray[np.float32]
Spectrum = npt.NDArray[np.complex64]


@dataclass(frozen=True, eq=False)
class Filters:
    """Wavelets and low pass of one image size, for images with their margin.

    Attributes:
        fine: [L, P, P] Fourier transforms of the wavelets of scale 1.
        coarse: [L, P, P] Fourier transforms of the wavelets of scale 2.
        average: [P P, S S] low pass at every fourth pixel without the margin, as a matrix on the image's pixels.
        half_average: [P P / 4, S S] low pass on an image with every second pixel kept.
    """

    fine: Single
    coarse: Single
    average: Single
    half_average: Single


def scattering(images: npt.ArrayLike) -> Single:
    """Return averages of an image, of its wavelet moduli, and of their wavelet moduli: J = 2, L = 8.

    S_0 = x * phi, S_1 = |x * psi_(j, l)| * phi, S_2 = ||x * psi_(0, l)| * psi_(1, m)| * phi (Bruna & Mallat 2013,
    Eq. 2 and 3), each at every fourth pixel. The psi are Morlet wavelets. Nothing in it depends on data.

    Args:
        images: grey levels [n, side, side], side a multiple of 4, at least 8.

    Returns:
        [n, 81, side / 4, side / 4] in float32: S_0, S_1 (scale, then orientation), S_2 (l, then m).

    Raises:
        ValueError: if the images are not square, their side is no such multiple, or a value is not finite.
    """
    given = np.asarray(images, dtype=np.float32)
    if given.ndim != 3 or given.shape[1] != given.shape[2] or given.shape[1] % _STRIDE or given.shape[1] < 2 * _STRIDE:
        raise ValueError(f"need images [n, side, side], side a multiple of {_STRIDE}, got shape {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError("a grey level is not finite")
    side = given.shape[1]
    paths, pixels = 1 + SCALES * ORIENTATIONS + ORIENTATIONS**2, (side // _STRIDE) ** 2
    found = np.empty((len(given), paths, pixels), dtype=np.float32)
    filters = filters_of(side)
    for start in range(0, len(given), _BATCH):
        _scatter(given[start : start + _BATCH], filters, found[start : start + _BATCH])
    return found.reshape(len(given), paths, side // _STRIDE, side // _STRIDE)


def _scatter(images: Single, filters: Filters, out: Single) -> None:
    """Write the features [b, paths, S S] of one batch."""
    b, L = len(images), ORIENTATIONS
    margins = ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN))
    padded = np.pad(images, margins, mode="reflect")
    spectrum = fft.fft2(padded)
    out[:, 0] = padded.reshape(b, -1) @ filters.average
    for k in range(L):
        fine = _modulus(fft.ifft2(spectrum * filters.fine[k]))
        out[:, 1 + k] = fine.reshape(b, -1) @ filters.average
        out[:, 1 + L + k] = _modulus(_half(spectrum * filters.coarse[k])).reshape(b, -1) @ filters.half_average
        again = fft.fft2(fine)
        for m in range(L):
            second = _modulus(_half(again * filters.coarse[m]))
            out[:, 1 + 2 * L + L * k + m] = second.reshape(b, -1) @ filters.half_average


def _half(spectrum: Spectrum) -> Spectrum:
    """Return every second pixel of the image with this spectrum: four quarters of the spectrum fold into one."""
    b, P, _ = spectrum.shape
    quarters = spectrum.reshape(b, 2, P // 2, 2, P // 2)
    folded = (quarters[:, 0, :, 0] + quarters[:, 0, :, 1]) + (quarters[:, 1, :, 0] + quarters[:, 1, :, 1])
    image: Spectrum = fft.ifft2(folded * np.float32(0.25))
    return image


def _modulus(image: Spectrum) -> Single:
    return np.asarray(np.sqrt(np.square(image.real) + np.square(image.imag)))  # several times as fast as abs


@lru_cache(maxsize=4)
def filters_of(side: int) -> Filters:
    """Return the filters for images [side, side]."""
    size = side + 2 * _MARGIN
    angles = [(ORIENTATIONS // 2 - 1 - k) * np.pi / ORIENTATIONS for k in range(ORIENTATIONS)]
    banks = [np.array([_spectrum(wavelet(size, 2**j, angle)) for angle in angles]) for j in range(SCALES)]
    low = _spectrum(gabor(size, WIDTH * 2 ** (SCALES - 1), 0.0, 0.0, 1.0))
    half = low.reshape(2, size // 2, 2, size // 2).sum(axis=(0, 2))  # the same filter on every second pixel
    average, half_average = _averages(low, _STRIDE), _averages(half, _STRIDE // 2)
    return Filters(banks[0].astype(np.float32), banks[1].astype(np.float32), average, half_average)


def _spectrum(kernel: npt.NDArray[np.complex128]) -> FloatArray:
    """Return a filter's Fourier transform. It is real: the filter's value at -u is the conjugate of that at u."""
    return np.asarray(fft.fft2(kernel).real, dtype=np.float64)


def _averages(low: FloatArray, stride: int) -> Single:
    """Return the matrix [pixels, kept] of a low pass at every `stride`-th pixel without the margin's."""
    size = len(low)
    kernel = fft.ifft2(low).real
    at = np.arange(size // stride)[1:-1] * stride
    lag = (at[:, None] - np.arange(size)[None, :]) % size
    matrix = kernel[lag[:, None, :, None], lag[None, :, None, :]]  # [kept row, kept column, row, column]
    return np.ascontiguousarray(matrix.reshape(len(at) ** 2, size * size).T, dtype=np.float32)


def gabor(size: int, width: float, frequency: float, angle: float, slant: float) -> npt.NDArray[np.complex128]:
    """Return an elliptic Gaussian times a wave [size, size], folded onto a periodic square, with weight 1.

    Args:
        size: pixels of a side.
        width: standard deviation along the wave, in pixels.
        frequency: radians per pixel.
        angle: angle of the wave's direction, in radians from the first axis.
        slant: `width` divided by the standard deviation across the wave.
    """
    u = np.arange(-_TURNS * size, (_TURNS + 1) * size, dtype=np.float64)
    along = np.cos(angle) * u[:, None] + np.sin(angle) * u[None, :]
    across = -np.sin(angle) * u[:, None] + np.cos(angle) * u[None, :]
    values = np.exp(-(along**2 + (slant * across) ** 2) / (2.0 * width**2) + 1j * frequency * along)
    folded = values.reshape(2 * _TURNS + 1, size, 2 * _TURNS + 1, size).sum(axis=(0, 2))
    return np.asarray(folded * slant / (2.0 * np.pi * width**2))


def wavelet(size: int, scale: int, angle: float) -> npt.NDArray[np.complex128]:
    """Return a Morlet wavelet [size, size]: a Gabor filter less the multiple of its Gaussian that makes its sum 0."""
    width = WIDTH * scale
    wave = gabor(size, width, FREQUENCY / scale, angle, SLANT)
    bump = gabor(size, width, 0.0, angle, SLANT)
    return np.asarray(wave - wave.sum() / bump.sum() * bump)


def rescaled(features: Single, scale: npt.NDArray[np.floating[Any]], transform: Transform) -> Single:
    """Return sqrt(F / scale) or ln(1 + F / scale): features of large and of small responses get similar sizes.

    Args:
        features: [n, P], at least 0 up to rounding.
        scale: [P], above 0.
        transform: `root` or `log`.
    """
    ratio = np.maximum(features, 0.0) / np.asarray(scale, dtype=np.float32)
    return np.sqrt(ratio) if transform == "root" else np.log1p(ratio)


def shared_over_places(features: Single, side: int) -> Single:
    """Return features [n, P] with similar weights at near places of a path. With weights of N(0, I) they are unrelated.

    For w ~ N(0, K), K = (1/2) (I + exp(-|p - q|^2 / 2)) for places p, q of one path in steps of four pixels, u'w is
    (K^(1/2) u)'v with v ~ N(0, I).

    Args:
        features: result of `rescaled`.
        side: pixels of an image's side.
    """
    places = np.arange(side // _STRIDE, dtype=np.float64)
    near = np.exp(-0.5 * (places[:, None] - places[None, :]) ** 2)
    K = (1.0 - _SHARED) * np.eye(len(places) ** 2) + _SHARED * np.kron(near, near)
    values, vectors = np.linalg.eigh(K)
    root = ((vectors * np.sqrt(values)) @ vectors.T).astype(np.float32)
    return np.asarray((features.reshape(-1, len(root)) @ root).reshape(features.shape), dtype=np.float32)


def made_up_scale(side: int) -> FloatArray:
    """Return each path's standard deviation over generated images, for every feature [P]: a scale without data.

    The images are Gaussian noise, blurred, with ink at its high values.
    """
    noise = np.random.RandomState(0).standard_normal((_MADE_UP, side, side))
    wave = fft.fftfreq(side) * 2.0 * np.pi
    blur = np.exp(-0.5 * _BLUR**2 * (wave[:, None] ** 2 + wave[None, :] ** 2))
    smooth = fft.ifft2(fft.fft2(noise) * blur).real
    found = scattering(np.clip(smooth / smooth.std() - _INK, 0.0, 1.0)).astype(np.float64)
    return np.repeat(found.std(axis=(0, 2, 3)), found.shape[2] * found.shape[3])
