from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from scipy.io import savemat

from gpsuite.data import Dataset, DatasetSpec, read_spec
from gpsuite.data.sources import get_loader
from tests.data.made_up_data import CONF_DIR


def mat(variable: str, rows: int, start: int) -> bytes:
    stream = io.BytesIO()
    table = np.arange(start, start + 28 * rows, dtype=np.float64).reshape(rows, 28)
    savemat(stream, {variable: table, "something_else": np.zeros(3)})  # type: ignore[arg-type]
    return stream.getvalue()


def test_training_and_test_rows_are_stacked_and_the_first_torque_taken() -> None:
    content = {
        "sarcos_inv.mat": mat("sarcos_inv", 3, 0),
        "sarcos_inv_test.mat": mat("sarcos_inv_test", 2, 1000),
    }
    for name, rows in (("sarcos", 5), ("sarcos_test", 2)):
        spec = read_spec(CONF_DIR, name)
        assert isinstance(spec, DatasetSpec)
        dataset = get_loader(spec.loader)(spec, content.__getitem__)
        assert dataset.X.shape == (rows, 21)
        np.testing.assert_array_equal(dataset.y, dataset.X[:, -1:] + 1.0)  # column 21
        assert dataset.X[-2:, 0].tolist() == [1000.0, 1028.0]
        assert dataset.target_names == ("torque_1",)
        assert dataset.input_names[6:8] == ("position_7", "velocity_1")
        assert dataset.fixed_split is None


def test_the_test_part_is_called_that() -> None:
    spec = read_spec(CONF_DIR, "sarcos_test")
    assert isinstance(spec, DatasetSpec)
    assert "test rows only" in spec.title
    assert spec.note.startswith("Only the test part of SARCOS")


def test_sarcos_test(real_dataset: Callable[[str], Dataset]) -> None:
    dataset = real_dataset("sarcos_test")
    assert dataset.X.shape == (4449, 21)
    assert dataset.y.mean() == pytest.approx(13.692101, abs=1e-6)
    assert dataset.y.std() == pytest.approx(20.351353, abs=1e-6)
    assert (dataset.y.min(), dataset.y.max()) == pytest.approx((-84.682, 120.974), abs=5e-4)
    assert len(np.unique(dataset.X, axis=0)) == 4449


def test_sarcos(real_dataset: Callable[[str], Dataset]) -> None:
    dataset = real_dataset("sarcos")
    assert dataset.X.shape == (44484 + 4449, 21)
    assert dataset.y[44484:].mean() == pytest.approx(13.692101, abs=1e-6)
