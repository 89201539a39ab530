from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, dataset_names, load, prepare, read_spec
from gpsuite.data.sources import LOADERS, get_loader
from gpsuite.errors import DataError, UserError
from tests.data.made_up_data import CONF_DIR

RealSpec = Callable[[str], DatasetSpec]


def embedded(name: str) -> Dataset:
    return load(prepare(read_spec(CONF_DIR, name), cache_dir=Path("nowhere")))


def test_every_described_dataset_has_a_loader() -> None:
    for name in dataset_names(CONF_DIR):
        spec = read_spec(CONF_DIR, name)
        if isinstance(spec, DatasetSpec):
            assert callable(get_loader(spec.loader))
    assert "boston" in LOADERS
    with pytest.raises(UserError, match="loader=bostn: unknown loader; did you mean 'boston'"):
        get_loader("bostn")


@pytest.mark.parametrize("name", ["diabetes", "breast_cancer", "digits"])
def test_embedded_data_have_the_described_shape_and_hash(name: str) -> None:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    dataset = embedded(name)
    assert dataset.X.shape == (spec.rows, spec.n_inputs)
    assert dataset.task == spec.task
    assert dataset.n_classes == (spec.n_classes or 0)
    assert not dataset.stand_in


def test_embedded_data_are_the_known_ones() -> None:
    diabetes = embedded("diabetes")
    assert diabetes.X[0, :2].tolist() == [59.0, 2.0]
    assert diabetes.y[0, 0] == 151.0
    assert embedded("breast_cancer").label_names == ("malignant", "benign")
    assert np.count_nonzero(embedded("breast_cancer").y == 0) == 212
    digits = embedded("digits")
    assert digits.label_names == tuple("0123456789")
    assert (digits.X.min(), digits.X.max()) == (0.0, 16.0)


def test_other_numbers_in_scikit_learn_are_an_error() -> None:
    import sklearn

    spec = read_spec(CONF_DIR, "diabetes")
    assert isinstance(spec, DatasetSpec)
    with pytest.raises(DataError) as caught:
        get_loader("diabetes")(replace(spec, content_sha256="0" * 64), lambda name: b"")
    message = str(caught.value)
    assert f"scikit-learn {sklearn.__version__}" in message
    assert "0" * 64 in message
    assert str(spec.content_sha256) in message
    assert len(message.splitlines()) <= 4


def test_snelson(real_spec: RealSpec) -> None:
    dataset = load(prepare(real_spec("snelson"), cache_dir=Path("nowhere")))
    assert dataset.X.shape == (200, 1)
    assert dataset.X.min() == pytest.approx(0.05917, abs=1e-5)
    assert dataset.X.max() == pytest.approx(5.96577, abs=1e-5)
    assert dataset.y.mean() == pytest.approx(-0.342745, abs=1e-6)
    assert dataset.y.std() == pytest.approx(0.842630, abs=1e-6)
    assert dataset.grid is not None
    assert dataset.grid.shape == (301, 1)
    assert (dataset.grid[0, 0], dataset.grid[-1, 0]) == (-3.0, 10.0)


def test_boston(real_spec: RealSpec) -> None:
    dataset = load(prepare(real_spec("boston"), cache_dir=Path("nowhere")))
    assert dataset.X.shape == (506, 13)
    assert dataset.target_names == ("MEDV",)
    assert dataset.units["MEDV"] == "1000 USD"
    assert dataset.y.mean() == pytest.approx(22.532806, abs=1e-6)
    assert dataset.y.std() == pytest.approx(9.188012, abs=1e-6)
    assert np.count_nonzero(dataset.X[:, dataset.input_names.index("CHAS")] == 1) == 35


def test_loaders_parse_blank_separated_text() -> None:
    """Without the real files: the parsing itself, on made-up content."""
    boston, snelson = read_spec(CONF_DIR, "boston"), read_spec(CONF_DIR, "snelson")
    assert isinstance(boston, DatasetSpec)
    assert isinstance(snelson, DatasetSpec)
    rows = "\n".join(" ".join(str(14 * row + column) for column in range(14)) for row in range(3))
    dataset = get_loader("boston")(boston, lambda name: rows.encode())
    assert dataset.X[1].tolist() == [float(value) for value in range(14, 27)]
    assert dataset.y[:, 0].tolist() == [13.0, 27.0, 41.0]
    columns = {"train_inputs": b" 1.0\n 2.0\n", "train_outputs": b"-1e0\n3\n", "test_inputs": b"0\n1\n2\n"}
    toy = get_loader("snelson")(snelson, columns.__getitem__)
    assert (toy.X[:, 0].tolist(), toy.y[:, 0].tolist()) == ([1.0, 2.0], [-1.0, 3.0])
    assert toy.grid is not None
    assert toy.grid[:, 0].tolist() == [0.0, 1.0, 2.0]
