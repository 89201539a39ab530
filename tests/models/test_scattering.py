"""Scattering against its definition, written out pixel by pixel, and against another package."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.scattering import gabor, scattering, shared_over_places, wavelet
from tests.arrays import Array

# float32 has 1e-7; a feature is a sum of a thousand products of numbers up to 1
SINGLE = 2e-6


def circular(image: Array, kernel: Array) -> Array:
    """Periodic convolution by the sum itself."""
    found = np.zeros(image.shape, dtype=np.complex128)
    for a in range(len(kernel)):
        for b in range(len(kernel)):
            if abs(kernel[a, b]) > 1e-14:
                found += kernel[a, b] * np.roll(image, (a, b), axis=(0, 1))
    return found


def direct(image: Array) -> Array:
    """All paths of one image, everything at every pixel, thinned out at the end but for the second wavelet."""
    padded = np.pad(image.astype(float), 4, mode="reflect")
    size = len(padded)
    angles = [(3 - k) * np.pi / 8 for k in range(8)]
    bank = {(j, k): wavelet(size, 2**j, angle) for j in range(2) for k, angle in enumerate(angles)}
    low = gabor(size, 1.6, 0.0, 0.0, 1.0)

    def average(values: Array) -> Array:
        return circular(values, low).real[4:-4:4, 4:-4:4]

    def thinned(values: Array) -> Array:
        """Every second pixel, averaged with the low pass whose spectrum is folded to their grid."""
        half = np.abs(values[::2, ::2])
        spectrum = np.fft.fft2(low).real
        n = size // 2
        folded = spectrum[:n, :n] + spectrum[n:, :n] + spectrum[:n, n:] + spectrum[n:, n:]
        return np.fft.ifft2(np.fft.fft2(half) * folded).real[2:-2:2, 2:-2:2]

    first = [np.abs(circular(padded, bank[0, k])) for k in range(8)]
    paths = [average(padded), *(average(each) for each in first)]
    paths += [thinned(circular(padded, bank[1, k])) for k in range(8)]
    paths += [thinned(circular(each, bank[1, k])) for each in first for k in range(8)]
    return np.array(paths)


@pytest.fixture
def images() -> Array:
    return np.random.default_rng(3).uniform(0.0, 1.0, (2, 12, 12))


def test_features_are_those_of_the_definition(images: Array) -> None:
    found = scattering(images)
    assert found.shape == (2, 81, 3, 3) and found.dtype == np.float32
    assert np.abs(found - np.array([direct(image) for image in images])).max() < SINGLE


def test_a_wavelet_has_no_sum_and_an_average_keeps_a_constant() -> None:
    assert abs(wavelet(20, 2, 0.3).sum()) < 1e-12
    found = scattering(np.full((1, 28, 28), 0.5))
    assert np.abs(found[0, 0] - 0.5 * gabor(36, 1.6, 0.0, 0.0, 1.0).real.sum()).max() < SINGLE
    assert np.abs(found[0, 1:]).max() < SINGLE


def test_a_batch_is_the_same_as_its_images_one_by_one() -> None:
    images = np.random.default_rng(0).uniform(size=(65, 8, 8))
    one_by_one = np.concatenate([scattering(image[None]) for image in images])
    assert np.abs(scattering(images) - one_by_one).max() < SINGLE


def test_features_are_those_of_kymatio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scipy.special.sph_harm", None, raising=False)  # it asks for it, and does not use it here
    kymatio = pytest.importorskip("kymatio.numpy", exc_type=ImportError)
    images = np.random.default_rng(1).uniform(size=(3, 28, 28)).astype(np.float32)
    theirs = kymatio.Scattering2D(J=2, shape=(28, 28), L=8)(images)
    assert (
        np.abs(scattering(images) - theirs).max() < 1e-3
    )  # their filters are cut off to float32, and folded on a smaller square


@pytest.mark.parametrize("shape", [(2, 28), (2, 28, 24), (2, 26, 26), (2, 4, 4)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="side a multiple of 4"):
        scattering(np.zeros(shape))


def test_a_grey_level_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        scattering(np.full((1, 8, 8), np.nan))


def test_weights_are_shared_over_near_places_of_one_path() -> None:
    rng = np.random.default_rng(3)
    features = rng.uniform(size=(2, 81 * 9)).astype(np.float32)
    found = shared_over_places(features, 12).astype(np.float64)
    covariance = 0.0
    for path in range(81):
        for p in range(9):
            for q in range(9):
                apart = (p // 3 - q // 3) ** 2 + (p % 3 - q % 3) ** 2
                K = 0.5 * (p == q) + 0.5 * np.exp(-0.5 * apart)
                covariance += float(features[0, 9 * path + p]) * K * float(features[1, 9 * path + q])
    assert found[0] @ found[1] == pytest.approx(covariance, rel=1e-5)
