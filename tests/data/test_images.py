from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from gpsuite.arrays import IntArray
from gpsuite.data import Dataset, DatasetSpec, read_spec
from gpsuite.data.sources import get_loader
from gpsuite.data.sources.images import parse_idx, pool
from gpsuite.errors import DataError
from tests.data.made_up_data import CONF_DIR

RealDataset = Callable[[str], Dataset]
ByteArray = NDArray[np.uint8]
TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
LABELS = np.array([3, 8, 5, 0, 8, 3, 5, 9, 1, 3], np.uint8)


def idx(array: ByteArray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def images(n: int, seed: int) -> ByteArray:
    return np.random.default_rng(seed).integers(0, 256, (n, 28, 28), dtype=np.uint8)


TRAIN, TEST = images(10, 0), images(4, 1)
CONTENT = {
    "train-images-idx3-ubyte.gz": idx(TRAIN),
    "train-labels-idx1-ubyte.gz": idx(LABELS),
    "t10k-images-idx3-ubyte.gz": idx(TEST),
    "t10k-labels-idx1-ubyte.gz": idx(LABELS[:4]),
}


def made_up_images(name: str) -> Dataset:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    assert {file.name for file in spec.files} == set(CONTENT)
    return get_loader(spec.loader)(spec, CONTENT.__getitem__)


def split_of(dataset: Dataset) -> tuple[IntArray, IntArray]:
    assert dataset.fixed_split is not None
    return dataset.fixed_split


@pytest.mark.parametrize(("name", "last"), [("mnist", "9"), ("fashion_mnist", "Ankle boot")])
def test_images_are_grey_levels_row_by_row(name: str, last: str) -> None:
    dataset = made_up_images(name)
    np.testing.assert_array_equal(dataset.X, np.vstack([TRAIN.reshape(10, -1), TEST.reshape(4, -1)]))
    assert dataset.X.dtype == np.float64
    assert dataset.y[:, 0].tolist() == [*LABELS, *LABELS[:4]]
    assert dataset.input_names[29] == "pixel_1_1"
    assert dataset.X[2, dataset.input_names.index("pixel_3_20")] == TRAIN[2, 3, 20]
    assert dataset.label_names is not None
    assert dataset.label_names[9] == last
    assert [part.tolist() for part in split_of(dataset)] == [list(range(10)), list(range(10, 14))]


@pytest.mark.parametrize("digits", ["38", "358"])
def test_pooled_images_are_read_column_by_column(digits: str) -> None:
    dataset = made_up_images(f"mnist{digits}")
    labels = [*LABELS, *LABELS[:4]]
    rows = [row for row, label in enumerate(labels) if str(label) in digits]
    assert dataset.y[:, 0].tolist() == [digits.index(str(labels[row])) for row in rows]
    assert dataset.label_names == tuple(digits)
    image = np.concatenate([TRAIN, TEST])[rows[3]].astype(float)
    for row, column in ((0, 0), (13, 0), (0, 1), (5, 9)):
        mean = image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].mean() / 255
        assert dataset.X[3, 14 * column + row] == pytest.approx(mean, rel=1e-15)
        assert dataset.input_names[14 * column + row] == f"pixel_{row}_{column}"
    train, test = split_of(dataset)
    assert len(train) == sum(row < 10 for row in rows)
    np.testing.assert_array_equal(np.concatenate([train, test]), np.arange(len(rows)))


def test_white_is_still_one_after_pooling() -> None:
    white = np.full((1, 4, 2), 255, np.uint8)
    np.testing.assert_array_equal(pool(white), np.ones((1, 2, 1)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file"),
        (b"\x1f\x8b\x08\x00abcdefgh", "not an IDX file"),
        (idx(LABELS)[:6], "not an IDX file"),
        (b"\0\0\x0d" + idx(LABELS)[3:], "not an IDX file of unsigned bytes"),
        (idx(LABELS)[:-1], "9 numbers instead of 10"),
        (idx(TRAIN) + b"\0", "7841 numbers instead of 7840"),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_idx(data)


def test_kmnist_is_read_from_numpy_archives() -> None:
    def npz(array: ByteArray) -> bytes:
        stream = io.BytesIO()
        np.savez_compressed(stream, array)
        return stream.getvalue()

    content = {"kmnist-test-imgs.npz": npz(TRAIN), "kmnist-test-labels.npz": npz(LABELS)}
    spec = read_spec(CONF_DIR, "kmnist")
    assert isinstance(spec, DatasetSpec)
    dataset = get_loader(spec.loader)(spec, content.__getitem__)
    np.testing.assert_array_equal(dataset.X, TRAIN.reshape(10, -1))
    assert dataset.y[:, 0].tolist() == LABELS.tolist()
    assert dataset.fixed_split is None


def counts(dataset: Dataset) -> list[list[int]]:
    """Return the label counts of the training and of the test part."""
    return [np.bincount(dataset.y[part, 0].astype(int)).tolist() for part in split_of(dataset)]


def test_mnist_has_the_known_sizes_and_counts(real_dataset: RealDataset) -> None:
    dataset = real_dataset("mnist")
    assert dataset.X.shape == (70000, 784)
    assert counts(dataset) == [TRAIN_COUNTS, TEST_COUNTS]
    train, test = dataset.X[:60000], dataset.X[60000:]
    assert train.mean() / 255 == pytest.approx(0.130660, abs=1e-6)
    assert train.std() / 255 == pytest.approx(0.308108, abs=1e-6)
    assert test.mean() / 255 == pytest.approx(0.132515, abs=1e-6)


def test_fashion_mnist_has_the_known_sizes_and_counts(real_dataset: RealDataset) -> None:
    dataset = real_dataset("fashion_mnist")
    assert dataset.X.shape == (70000, 784)
    assert counts(dataset) == [[6000] * 10, [1000] * 10]
    for part, mean, deviation in ((dataset.X[:60000], 0.286041, 0.353024), (dataset.X[60000:], 0.286849, 0.352444)):
        assert part.mean() / 255 == pytest.approx(mean, abs=1e-6)
        assert part.std() / 255 == pytest.approx(deviation, abs=1e-6)


def test_kmnist_has_the_known_sizes_and_counts(real_dataset: RealDataset) -> None:
    dataset = real_dataset("kmnist")
    assert dataset.X.shape == (10000, 784)
    assert np.bincount(dataset.y[:, 0].astype(int)).tolist() == [1000] * 10
    assert dataset.X.mean() / 255 == pytest.approx(0.184557, abs=1e-6)


@pytest.mark.parametrize(("name", "rows"), [("mnist38", 13966), ("mnist358", 20279)])
def test_pooled_mnist_has_the_known_sizes_and_counts(real_dataset: RealDataset, name: str, rows: int) -> None:
    dataset, full = real_dataset(name), real_dataset("mnist")
    digits = [int(digit) for digit in name.removeprefix("mnist")]
    assert dataset.X.shape == (rows, 196)
    assert counts(dataset) == [[part[digit] for digit in digits] for part in (TRAIN_COUNTS, TEST_COUNTS)]
    assert (dataset.X.min(), dataset.X.max()) == (0.0, 1.0)
    chosen = full.X[np.isin(full.y[:, 0], digits)]
    np.testing.assert_allclose(dataset.X.mean(axis=1), chosen.mean(axis=1) / 255, rtol=1e-12)
    image = chosen[-1].reshape(14, 2, 14, 2).mean(axis=(1, 3)) / 255
    np.testing.assert_allclose(dataset.X[-1], image.flatten(order="F"), rtol=1e-14)
