from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, read_spec
from gpsuite.data.sources import get_loader
from tests.data.made_up_data import CONF_DIR

ELEVEN = (
    *("word_freq_our", "word_freq_remove", "word_freq_free", "word_freq_business", "word_freq_you"),
    *("word_freq_your", "word_freq_000", "word_freq_hp", "char_freq_!", "char_freq_$"),
    "capital_run_length_total",
)


def read(name: str) -> bytes:
    """Return three made-up rows, the first value of row r and column c (from 1) being 100 r + c; DOS line ends."""
    rows = [[100 * row + column for column in range(1, 58)] + [row % 2] for row in range(3)]
    return b"".join(b",".join(str(value).encode() for value in row) + b"\r\n" for row in rows)


def made_up_spambase(name: str) -> Dataset:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return get_loader(spec.loader)(spec, read)


def test_all_columns() -> None:
    dataset = made_up_spambase("spambase")
    assert dataset.X[1].tolist() == [float(value) for value in range(101, 158)]
    assert dataset.y[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert dataset.label_names == ("not spam", "spam")
    assert (dataset.input_names[0], dataset.input_names[-1]) == ("word_freq_make", "capital_run_length_total")
    assert len(set(dataset.input_names)) == 57
    assert set(dataset.units) == set(dataset.input_names[:54])


def test_the_eleven_columns_of_the_paper() -> None:
    dataset = made_up_spambase("spambase11")
    assert dataset.X[0].tolist() == [5, 7, 16, 17, 19, 21, 23, 25, 52, 53, 57]
    assert dataset.input_names == ELEVEN
    assert set(dataset.units) == set(ELEVEN[:-1])


def test_spambase(real_dataset: Callable[[str], Dataset]) -> None:
    dataset = real_dataset("spambase")
    assert dataset.X.shape == (4601, 57)
    assert np.count_nonzero(dataset.y == 1.0) == 1813
    assert np.all(np.diff(dataset.y[:, 0]) <= 0)  # sorted by label
    columns = [0, 15, 51, 54, 55, 56]
    means = [0.10455, 0.24885, 0.26907, 5.19152, 52.17279, 283.28928]
    np.testing.assert_allclose(dataset.X[:, columns].mean(axis=0), means, atol=5e-6)
    assert len(np.unique(np.hstack([dataset.X, dataset.y]), axis=0)) == 4210
    whole = np.all(np.round(dataset.X) == dataset.X, axis=0)
    assert np.flatnonzero(whole).tolist() == [55, 56]  # the paper's text says three


def test_spambase11(real_dataset: Callable[[str], Dataset]) -> None:
    full, dataset = real_dataset("spambase"), real_dataset("spambase11")
    assert dataset.X.shape == (4601, 11)
    np.testing.assert_array_equal(dataset.y, full.y)
    for column, name in enumerate(dataset.input_names):
        np.testing.assert_array_equal(dataset.X[:, column], full.X[:, full.input_names.index(name)])
    assert dataset.X[:, -1].mean() == pytest.approx(283.28928, abs=5e-6)
