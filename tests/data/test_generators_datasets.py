"""The generated datasets of conf/dataset: what they hold, and that their hash survives the last bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, load, prepare, read_spec
from gpsuite.data.generators import Sizes, gp_samples
from gpsuite.data.sources import generated, get_loader
from gpsuite.errors import DataError, UserError
from gpsuite.seeds import stream
from tests.data.made_up_data import CONF_DIR

NAMES = (
    *("synthetic2d", "lssvm_classes", "kernel_regression", "sin_sigmoid", "sin_sigmoid_code"),
    *("gp_samples", "gp_samples_paper"),
)


def spec_of(name: str) -> DatasetSpec:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return spec


def dataset(name: str) -> Dataset:
    return load(prepare(spec_of(name), cache_dir=Path("nowhere")))


@pytest.mark.parametrize("name", NAMES)
def test_generated_datasets_are_as_described(name: str) -> None:
    spec, data = spec_of(name), dataset(name)
    assert spec.embedded
    assert data.X.shape == (spec.rows, spec.n_inputs)
    assert data.y.shape == (spec.rows, spec.n_targets)
    assert data.n_classes == (spec.n_classes or 0)
    assert data.task == spec.task
    assert not data.stand_in
    assert data.content_hash == prepare(spec, cache_dir=Path("nowhere")).content_hash


def test_hashes_of_variants_differ() -> None:
    assert len({dataset(name).content_hash for name in NAMES}) == len(NAMES)


def test_class_labels_are_numbered_minus_one_first() -> None:
    for name in ("synthetic2d", "lssvm_classes"):
        data = dataset(name)
        assert data.label_names == ("-1", "1")
        half = len(data.y) // 2
        assert (data.y[:half] == 1).all()
        assert (data.y[half:] == 0).all()
    class_one = dataset("synthetic2d").X[:600].mean(axis=0)
    assert class_one[0] > 0.5 > -0.5 > class_one[1]


def test_safe_learning_datasets_end_with_the_safety_value() -> None:
    toy, samples = dataset("sin_sigmoid"), dataset("gp_samples")
    assert toy.target_names == ("y1", "y2", "z")
    safety = np.exp(-0.5 * (toy.X[:, 0] - 0.1) ** 2)
    assert np.abs(toy.y[:, 2] - safety).std() < 0.05
    assert samples.target_names == ("y1", "y2", "y3", "y4", "z")
    assert samples.fixed_split is not None
    assert [len(part) for part in samples.fixed_split] == [400, 100]


def test_variants_share_inputs_and_random_numbers() -> None:
    paper, code = dataset("sin_sigmoid"), dataset("sin_sigmoid_code")
    np.testing.assert_array_equal(paper.y[:, 2], code.y[:, 2])
    slope = 1 / (1 + np.exp(-2 * paper.X[:, 0])) - 1 / (1 + np.exp(-paper.X[:, 0]))
    np.testing.assert_allclose(paper.y[:, 0] - code.y[:, 0], slope, atol=2e-6)
    np.testing.assert_array_equal(dataset("gp_samples").X, dataset("gp_samples_paper").X)


@pytest.mark.parametrize("variant", ["code", "paper"])
def test_no_value_of_the_gp_sample_is_near_the_edge_of_rounding(variant: str) -> None:
    """Other linear algebra changes values by about 1e-9 (measured); none is within 5e-9 of an edge."""
    rng = stream(generated.SEED, "generated", "gp_samples")
    data = gp_samples(rng, Sizes(1, 400, 100), kernel=generated.GP_KERNELS[variant]).data
    values = np.concatenate([data.Y.ravel(), data.z.ravel()])
    scaled = values * 10**generated.DECIMALS_GP
    distance = np.abs(scaled - np.floor(scaled) - 0.5) / 10**generated.DECIMALS_GP
    assert distance.min() > 5e-9


@pytest.mark.parametrize("name", ["synthetic2d", "gp_samples"])
def test_other_numbers_are_an_error(name: str) -> None:
    spec = spec_of(name)
    with pytest.raises(DataError, match=f"dataset={name}: NumPy {np.__version__}") as caught:
        get_loader(spec.loader)(replace(spec, content_sha256="0" * 64), lambda _: b"")
    assert str(spec.content_sha256) in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 4


@pytest.mark.parametrize("name", ["sin_sigmoid", "gp_samples"])
def test_unknown_variants_are_named(name: str) -> None:
    spec = spec_of(name)
    with pytest.raises(UserError, match="variant=papr: unknown variant; did you mean 'paper'"):
        get_loader(spec.loader)(replace(spec, variant="papr"), lambda _: b"")
