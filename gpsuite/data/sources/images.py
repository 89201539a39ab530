"""MNIST, Fashion-MNIST and KMNIST: images of 28 x 28 grey levels and ten classes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset, train_then_test
from gpsuite.data.spec import DatasetSpec
from gpsuite.errors import DataError

ByteArray: TypeAlias = NDArray[np.uint8]

DIGITS = tuple("0123456789")
GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
HIRAGANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
GREY_MAX = 255
_UNSIGNED_BYTES = 0x08  # the only type of numbers in these IDX files


@LOADERS.register("mnist")
def load_mnist(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 60000 training and 10000 test images as grey levels 0 to 255, row by row. Labels are the digits."""
    return _train_and_test(spec, read, "digit", DIGITS)


@LOADERS.register("fashion_mnist")
def load_fashion_mnist(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 60000 training and 10000 test images as grey levels 0 to 255, row by row. Labels are garments."""
    return _train_and_test(spec, read, "garment", GARMENTS)


@LOADERS.register("kmnist")
def load_kmnist(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the 10000 test images as grey levels 0 to 255, row by row. Labels are syllables of hiragana."""

    def array(name: str) -> ByteArray:
        with np.load(io.BytesIO(read(name)), allow_pickle=False) as archive:
            return np.asarray(archive["arr_0"], np.uint8)

    images, labels = array("kmnist-test-imgs.npz"), array("kmnist-test-labels.npz")
    return make_dataset(
        spec,
        images.reshape(len(images), -1),
        labels,
        pixel_names(*images.shape[1:]),
        ("syllable",),
        label_names=HIRAGANA,
    )


@LOADERS.register("mnist_pooled")
def load_mnist_pooled(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the images of some digits of MNIST as in Blaas et al. 2020: 14 x 14 grey levels from 0 to 1.

    Each value is the mean of a square of 2 x 2 pixels divided by 255. An image is read column by column. The spec's
    variant lists the digits, e.g. `38`. Classes are numbered in ascending order of the digits. From each part the first
    images of these digits are taken, as many as the spec has rows.
    """
    images, labels, n_train = _read_mnist(read)
    digits = sorted({int(digit) for digit in spec.variant or ""})
    own, test = np.flatnonzero(np.isin(labels, digits)), spec.test_rows or 0
    rows = np.concatenate([own[own < n_train][: spec.rows - test], own[own >= n_train][:test]])
    pooled = pool(images[rows])
    return make_dataset(
        spec,
        pooled.transpose(0, 2, 1).reshape(len(rows), -1),
        np.searchsorted(digits, labels[rows]),
        [f"pixel_{row}_{column}" for column in range(pooled.shape[2]) for row in range(pooled.shape[1])],
        ("digit",),
        fixed_split=train_then_test(int(np.count_nonzero(rows < n_train)), len(rows)),
        label_names=[str(digit) for digit in digits],
    )


def pool(images: ByteArray) -> FloatArray:
    """Return the means of the squares of 2 x 2 grey levels over 255: [n, h, w] -> [n, h/2, w/2], from 0 to 1."""
    n, height, width = images.shape
    squares = images.reshape(n, height // 2, 2, width // 2, 2)
    sums: FloatArray = squares.sum(axis=(2, 4), dtype=np.uint16) / float(4 * GREY_MAX)
    return sums


def pixel_names(height: int, width: int) -> list[str]:
    """Return `pixel_ROW_COLUMN`, row by row, both counted from 0."""
    return [f"pixel_{row}_{column}" for row in range(height) for column in range(width)]


def parse_idx(data: bytes) -> ByteArray:
    """Return the array of an IDX file of unsigned bytes.

    The format has two zero bytes, the type, the number of dimensions, their sizes as big-endian 32-bit integers, and
    the numbers in C order (http://yann.lecun.com/exdb/mnist/).

    Raises:
        DataError: if it is not such a file.
    """
    if data[:3] != bytes((0, 0, _UNSIGNED_BYTES)) or len(data) < 4 * (1 + data[3]):
        raise DataError("not an IDX file of unsigned bytes")
    start = 4 * (1 + data[3])
    shape = np.frombuffer(data[4:start], ">u4").astype(np.int64)
    if len(data) - start != shape.prod():
        raise DataError(f"an IDX file with {len(data) - start} numbers instead of {shape.prod()}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _train_and_test(spec: DatasetSpec, read: Reader, target: str, classes: Sequence[str]) -> Dataset:
    images, labels, n_train = _read_mnist(read)
    return make_dataset(
        spec,
        images.reshape(len(images), -1),
        labels,
        pixel_names(*images.shape[1:]),
        (target,),
        fixed_split=train_then_test(n_train, len(images)),
        label_names=classes,
    )


def _read_mnist(read: Reader) -> tuple[ByteArray, ByteArray, int]:
    """Return images [N, h, w] and labels [N], training part first, and the number of training rows."""
    train, test = (parse_idx(read(f"{part}-images-idx3-ubyte.gz")) for part in ("train", "t10k"))
    labels = [parse_idx(read(f"{part}-labels-idx1-ubyte.gz")) for part in ("train", "t10k")]
    return np.concatenate([train, test]), np.concatenate(labels), len(train)
