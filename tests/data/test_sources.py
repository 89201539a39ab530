"""Each source of data gives what its description says."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from gpsuite.data import Dataset, DatasetSpec, dataset_names, load, prepare, read_spec
from gpsuite.data.generators import Sizes, gp_samples
from gpsuite.data.sources import LOADERS, get_loader
from gpsuite.data.sources import embedded as embedded_sources
from gpsuite.errors import DataError, UserError
from gpsuite.seeds import stream
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
    with pytest.raises(UserError, match=r"loader=bostn: unknown loader\. Did you mean 'boston'"):
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


def test_snelson_has_the_known_values(real_spec: RealSpec) -> None:
    dataset = load(prepare(real_spec("snelson"), cache_dir=Path("nowhere")))
    assert dataset.X.shape == (200, 1)
    assert dataset.X.min() == pytest.approx(0.05917, abs=1e-5)
    assert dataset.X.max() == pytest.approx(5.96577, abs=1e-5)
    assert dataset.y.mean() == pytest.approx(-0.342745, abs=1e-6)
    assert dataset.y.std() == pytest.approx(0.842630, abs=1e-6)
    assert dataset.grid is not None
    assert dataset.grid.shape == (301, 1)
    assert (dataset.grid[0, 0], dataset.grid[-1, 0]) == (-3.0, 10.0)


def test_boston_has_the_known_values(real_spec: RealSpec) -> None:
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


GENERATED = (
    *("synthetic2d", "lssvm_classes", "kernel_regression", "sin_sigmoid", "sin_sigmoid_code"),
    *("gp_samples", "gp_samples_paper"),
)


def spec_of(name: str) -> DatasetSpec:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return spec


def dataset(name: str) -> Dataset:
    return load(prepare(spec_of(name), cache_dir=Path("nowhere")))


@pytest.mark.parametrize("name", GENERATED)
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
    assert len({dataset(name).content_hash for name in GENERATED}) == len(GENERATED)


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
    rng = stream(embedded_sources.SEED, "generated", "gp_samples")
    data = gp_samples(rng, Sizes(1, 400, 100), kernel=embedded_sources.GP_KERNELS[variant]).data
    values = np.concatenate([data.Y.ravel(), data.z.ravel()])
    scaled = values * 10**embedded_sources.DECIMALS_GP
    distance = np.abs(scaled - np.floor(scaled) - 0.5) / 10**embedded_sources.DECIMALS_GP
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
    with pytest.raises(UserError, match=r"variant=papr: unknown variant\. Did you mean 'paper'"):
        get_loader(spec.loader)(replace(spec, variant="papr"), lambda _: b"")


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


def test_pol_has_the_known_values(real_dataset: RealDataset) -> None:
    dataset = real_dataset("pol")
    assert dataset.X.shape == (15000, 26)
    assert dataset.X[0, :5].tolist() == [56.0, 104.0, 115.0, 71.0, 94.0]
    assert np.unique(dataset.y).tolist() == [10.0 * value for value in range(11)]
    assert dataset.y.mean() == pytest.approx(28.945333, abs=1e-6)
    assert dataset.y.std() == pytest.approx(41.7244254391, abs=1e-9)  # from the integer sums
    assert dataset.y[:10000].mean() == pytest.approx(28.764, abs=1e-6)
    assert np.all(np.floor(dataset.X) == dataset.X)
    assert len(dataset.X) - len(np.unique(dataset.X, axis=0)) == 42


def test_kin40k_has_the_known_values(real_dataset: RealDataset) -> None:
    dataset = real_dataset("kin40k")
    assert dataset.X.shape == (40000, 8)
    assert dataset.X[0, 0] == 1.5519641
    assert dataset.y.mean() == pytest.approx(0.015392, abs=1e-6)
    assert dataset.y.std() == pytest.approx(0.996965, abs=1e-6)
    assert (dataset.y.min(), dataset.y.max()) == pytest.approx((-3.945, 3.241), abs=5e-4)
    training = np.hstack([dataset.X[:10000], dataset.y[:10000]])
    np.testing.assert_allclose(training.std(axis=0, ddof=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(training.mean(axis=0), 0.0, atol=0.02)  # of the target exactly, of the inputs about
    assert training[:, -1].mean() == pytest.approx(0.0, abs=1e-8)
    assert len(np.unique(dataset.X, axis=0)) == 40000


def mat(variable: str, rows: int, start: int) -> bytes:
    stream = io.BytesIO()
    table = np.arange(start, start + 28 * rows, dtype=np.float64).reshape(rows, 28)
    savemat(stream, {variable: table, "something_else": np.zeros(3)})  # type: ignore[arg-type]
    return stream.getvalue()


def test_training_and_test_rows_are_stacked_and_the_first_torque_taken() -> None:
    content = {"sarcos_inv.mat": mat("sarcos_inv", 3, 0), "sarcos_inv_test.mat": mat("sarcos_inv_test", 2, 1000)}
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


def test_sarcos_test_has_the_known_values(real_dataset: Callable[[str], Dataset]) -> None:
    dataset = real_dataset("sarcos_test")
    assert dataset.X.shape == (4449, 21)
    assert dataset.y.mean() == pytest.approx(13.692101, abs=1e-6)
    assert dataset.y.std() == pytest.approx(20.351353, abs=1e-6)
    assert (dataset.y.min(), dataset.y.max()) == pytest.approx((-84.682, 120.974), abs=5e-4)
    assert len(np.unique(dataset.X, axis=0)) == 4449


def test_sarcos_has_the_known_values(real_dataset: Callable[[str], Dataset]) -> None:
    dataset = real_dataset("sarcos")
    assert dataset.X.shape == (44484 + 4449, 21)
    assert dataset.y[44484:].mean() == pytest.approx(13.692101, abs=1e-6)


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


def test_all_columns_of_spambase_are_read_in_order() -> None:
    dataset = made_up_spambase("spambase")
    assert dataset.X[1].tolist() == [float(value) for value in range(101, 158)]
    assert dataset.y[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert dataset.label_names == ("not spam", "spam")
    assert (dataset.input_names[0], dataset.input_names[-1]) == ("word_freq_make", "capital_run_length_total")
    assert len(set(dataset.input_names)) == 57
    assert set(dataset.units) == set(dataset.input_names[:54])


def test_spambase11_has_the_eleven_columns_of_the_paper() -> None:
    dataset = made_up_spambase("spambase11")
    assert dataset.X[0].tolist() == [5, 7, 16, 17, 19, 21, 23, 25, 52, 53, 57]
    assert dataset.input_names == ELEVEN
    assert set(dataset.units) == set(ELEVEN[:-1])


def test_spambase_has_the_known_values(real_dataset: Callable[[str], Dataset]) -> None:
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


def test_spambase11_has_the_columns_of_spambase(real_dataset: Callable[[str], Dataset]) -> None:
    full, dataset = real_dataset("spambase"), real_dataset("spambase11")
    assert dataset.X.shape == (4601, 11)
    np.testing.assert_array_equal(dataset.y, full.y)
    for column, name in enumerate(dataset.input_names):
        np.testing.assert_array_equal(dataset.X[:, column], full.X[:, full.input_names.index(name)])
    assert dataset.X[:, -1].mean() == pytest.approx(283.28928, abs=5e-6)
