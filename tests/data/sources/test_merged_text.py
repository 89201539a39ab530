from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, read_spec
from gpsuite.data.sources import get_loader
from tests.data.made_up_data import CONF_DIR

RealDataset = Callable[[str], Dataset]


@pytest.mark.parametrize("name", ["pol", "kin40k"])
def test_training_rows_come_first(name: str) -> None:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    content = {
        f"{name}_train_data.asc": b"   1.0e+00  -2.0\n 3 4\n",
        f"{name}_train_labels.asc": b" 1\n 2\n",
        f"{name}_test_data.asc": b" 5 6\n",
        f"{name}_test_labels.asc": b" 3\n",
    }
    assert {file.name for file in spec.files} == set(content)
    dataset = get_loader(spec.loader)(spec, content.__getitem__)
    assert dataset.X.tolist() == [[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]]
    assert dataset.y[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert dataset.input_names == ("x1", "x2")
    assert dataset.fixed_split is None


def test_pol(real_dataset: RealDataset) -> None:
    dataset = real_dataset("pol")
    assert dataset.X.shape == (15000, 26)
    assert dataset.X[0, :5].tolist() == [56.0, 104.0, 115.0, 71.0, 94.0]
    assert np.unique(dataset.y).tolist() == [10.0 * value for value in range(11)]
    assert dataset.y.mean() == pytest.approx(28.945333, abs=1e-6)
    assert dataset.y.std() == pytest.approx(41.7244254391, abs=1e-9)  # from the integer sums
    assert dataset.y[:10000].mean() == pytest.approx(28.764, abs=1e-6)
    assert np.all(np.floor(dataset.X) == dataset.X)
    assert len(dataset.X) - len(np.unique(dataset.X, axis=0)) == 42


def test_kin40k(real_dataset: RealDataset) -> None:
    dataset = real_dataset("kin40k")
    assert dataset.X.shape == (40000, 8)
    assert dataset.X[0, 0] == 1.5519641
    assert dataset.y.mean() == pytest.approx(0.015392, abs=1e-6)
    assert dataset.y.std() == pytest.approx(0.996965, abs=1e-6)
    assert (dataset.y.min(), dataset.y.max()) == pytest.approx((-3.945, 3.241), abs=5e-4)
    training = np.hstack([dataset.X[:10000], dataset.y[:10000]])
    np.testing.assert_allclose(training.std(axis=0, ddof=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(
        training.mean(axis=0), 0.0, atol=0.02
    )  # of the target exactly, of the inputs about
    assert training[:, -1].mean() == pytest.approx(0.0, abs=1e-8)
    assert len(np.unique(dataset.X, axis=0)) == 40000
