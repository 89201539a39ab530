from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.arrays import FloatArray
from gpsuite.data import Dataset, DatasetSpec, FileSpec, load, prepare, read_spec
from gpsuite.data.files import locate, read_verified
from gpsuite.data.sources import get_loader
from gpsuite.data.sources.gengine1 import OUTPUTS, VARIANTS, input_names, low_pass, with_history
from gpsuite.errors import UserError
from tests.data.made_up_data import CONF_DIR, sha256

RealDataset = Callable[[str], Dataset]
NUMBERS = (10, 39, 53, 64)


def described(name: str = "gengine1") -> DatasetSpec:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return spec


def file_name(number: int) -> str:
    return f"raw_{number:06d}_measurement_000000.csv"


def made_up_table(number: int, rows: int = 20) -> FloatArray:
    return np.random.default_rng(number).standard_normal((rows + number % 3, 13))


def as_text(table: FloatArray) -> bytes:
    return "".join(",".join(f"{value:.8e}" for value in row) + "\n" for row in table).encode()


def plainly(table: FloatArray, variant: str) -> tuple[FloatArray, FloatArray]:
    """Return inputs and outputs of one file, step by step as in the description of the data."""
    history = VARIANTS[variant]
    filtered = np.zeros((len(table), 5))
    for channel, p in enumerate(history.time_constants):
        before = 0.0
        for t, x in enumerate(table[:, channel]):
            before = filtered[t, channel] = x / p + (1 - 1 / p) * before
    largest = {"HC_O2": 8, "CO2_HC": 12}[variant]
    pairs = [(channel, lag) for channel, lags in enumerate(history.lags) for lag in lags]
    rows = range(largest, len(table))
    return np.array([[filtered[t - lag, c] for c, lag in pairs] for t in rows]), table[largest:, 5:]


@pytest.mark.parametrize(("name", "variant"), [("gengine1", "HC_O2"), ("gengine1_co2_hc", "CO2_HC")])
def test_files_are_prepared_one_by_one_and_stacked(name: str, variant: str) -> None:
    spec = described(name)
    assert spec.variant == variant
    order = (53, 39, 64, 10)  # the order of the description does not matter
    spec = replace(spec, files=[FileSpec(file_name(number)) for number in order])
    text = {file_name(number): as_text(made_up_table(number)) for number in NUMBERS}
    dataset = get_loader(spec.loader)(spec, text.__getitem__)
    parts = [plainly(np.round(made_up_table(number), 12), variant) for number in NUMBERS]
    np.testing.assert_allclose(dataset.X, np.vstack([part[0] for part in parts]), atol=1e-8)
    np.testing.assert_allclose(dataset.y, np.vstack([part[1] for part in parts]), atol=1e-8)
    assert dataset.fixed_split is not None
    n_train = sum(len(part[0]) for part in parts[:2])
    np.testing.assert_array_equal(dataset.fixed_split[0], np.arange(n_train))
    np.testing.assert_array_equal(dataset.fixed_split[1], np.arange(n_train, len(dataset.X)))
    assert dataset.target_names == OUTPUTS == tuple(spec.target_names)
    assert dataset.input_names[:2] == ("Speed[t]", "Speed[t-1]" if variant == "HC_O2" else "Speed[t-4]")


@given(p=st.floats(1.0, 400.0), start=st.floats(-10.0, 10.0))
def test_the_filter_answers_a_step_like_a_first_order_lag(p: float, start: float) -> None:
    """Constant input x gives f[t] = x (1 - (1 - 1/p)^(t+1)), which starts at x / p and ends at x."""
    answer = low_pass(np.full((50, 1), start), (p,))[:, 0]
    expected = start * (1.0 - (1.0 - 1.0 / p) ** np.arange(1, 51))
    np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=1e-12)


def test_structures_are_those_of_the_table() -> None:
    assert {name: (history.longest, len(input_names(history))) for name, history in VARIANTS.items()} == {
        "HC_O2": (8, 13),
        "CO2_HC": (12, 14),
    }
    assert VARIANTS["HC_O2"].time_constants == (298, 38, 18, 32, 28)
    assert VARIANTS["CO2_HC"].time_constants == (103, 32, 49, 126, 20)
    assert not any(name.startswith("Fuel_Cutoff") for name in input_names(VARIANTS["HC_O2"]))
    assert with_history(np.ones((9, 5)), VARIANTS["HC_O2"]).shape == (1, 13)


def test_an_unknown_variant_is_named() -> None:
    spec = replace(described(), variant="HC_02")
    with pytest.raises(UserError, match="Did you mean 'HC_O2'"):
        get_loader(spec.loader)(spec, lambda name: b"")


def test_compressed_files_are_read_into_a_dataset(tmp_path: Path, no_data_path: None) -> None:
    tables = {file_name(number): as_text(made_up_table(number)) for number in NUMBERS}
    (tmp_path / "gengine1").mkdir()
    for name, text in tables.items():
        (tmp_path / "gengine1" / f"{name}.xz").write_bytes(lzma.compress(text))
    spec = replace(described(), files=[FileSpec(name, sha256(text)) for name, text in tables.items()])
    spec.files.append(next(file for file in described().files if file.optional))
    dataset = load(prepare(spec, cache_dir=tmp_path))
    assert dataset.X.shape == (sum(len(made_up_table(number)) - 8 for number in NUMBERS), 13)
    assert dataset.note.endswith("Not found and not used: raw_000065_measurement_000000.csv.")
    assert (tmp_path / ".parsed" / dataset.content_hash / "parsed.json").is_file()


def parts(dataset: Dataset) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    assert dataset.fixed_split is not None
    train, test = dataset.fixed_split
    return dataset.X[train], dataset.y[train], dataset.X[test], dataset.y[test]


@pytest.fixture
def engine(real_dataset: RealDataset) -> Dataset:
    dataset = real_dataset("gengine1")
    if "000065" not in dataset.note:
        pytest.skip("the expected numbers are those without the optional file")
    return dataset


def test_hc_o2_has_its_known_training_rows(engine: Dataset) -> None:
    inputs, outputs, _, _ = parts(engine)
    assert inputs.shape == (247684, 13)
    first = [
        *(-0.0033, -0.0030, -0.0019, 0.3014, 0.2665, 0.2310, 0.0804),
        *(0.0058, -0.0008, 0.0009, -0.2428, -0.1865, -0.1567),
    ]
    np.testing.assert_allclose(inputs[0], first, atol=5e-5)
    expected = [-0.3845, -0.0879, 0.0918, -0.7606, 0.4302, -0.0361, 1.0905, 0.8280]
    np.testing.assert_allclose(outputs[0], expected, atol=5e-5)
    deviation = inputs.std(axis=0)
    names = [name.split("[")[0] for name in engine.input_names]
    for channel, value in (("Speed", 0.833), ("Load", 0.930), ("Lambda", 0.804), ("Ign_Ang", 0.917)):
        columns = [column for column, name in enumerate(names) if name == channel]
        np.testing.assert_allclose(deviation[columns], value, atol=1e-3)


def test_hc_o2_has_its_known_outputs_and_safe_rows(engine: Dataset) -> None:
    _, outputs, _, test_outputs = parts(engine)
    assert test_outputs.shape == (136233, 8)
    hc, o2, manifold, catalyst = (OUTPUTS.index(name) for name in ("HC", "O2", "T_EXM", "T_CAT1"))
    assert (hc, o2, manifold, catalyst) == (3, 5, 6, 7)
    correlation = np.corrcoef(outputs.T)
    assert correlation[hc, o2] == pytest.approx(0.747, abs=5e-4)
    assert correlation[manifold, catalyst] == pytest.approx(0.978, abs=5e-4)
    safe = np.flatnonzero(outputs[:, manifold] <= 1.0)
    assert len(safe) == 196794
    assert np.mean(test_outputs[:, manifold] > 1.0) == pytest.approx(0.0705, abs=5e-5)
    assert np.quantile(outputs[:, manifold], 0.8) == pytest.approx(1.007486, abs=1e-6)
    assert np.mean(outputs[:, manifold] > 1.0) == pytest.approx(0.20546, abs=5e-6)


def test_the_public_codes_initial_sets_are_drawn_again(engine: Dataset) -> None:
    _, outputs, _, _ = parts(engine)
    safe = np.flatnonzero(outputs[:, OUTPUTS.index("T_EXM")] <= 1.0)
    random = np.random.RandomState(123)
    for first, total in (([132463, 21389, 66885, 23156, 231692, 135769], 5366022), ([127977, 50046, 133045], 6553021)):
        drawn = random.choice(safe, 48, replace=False)
        assert drawn[: len(first)].tolist() == first
        assert drawn.sum() == total


def test_simple_predictions_of_hc_and_o2_have_the_known_errors(engine: Dataset) -> None:
    inputs, outputs, test_inputs, test_outputs = parts(engine)
    columns = [OUTPUTS.index("HC"), OUTPUTS.index("O2")]
    y, y_test = outputs[:, columns], test_outputs[:, columns]
    assert np.sqrt(np.mean((y_test - y.mean(axis=0)) ** 2)) == pytest.approx(1.314, abs=5e-4)
    design = np.column_stack([np.ones(len(inputs)), inputs])
    weights = np.linalg.solve(design.T @ design, design.T @ y)
    error = y_test - np.column_stack([np.ones(len(test_inputs)), test_inputs]) @ weights
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.811, abs=5e-4)
    np.testing.assert_allclose(np.sqrt(np.mean(error**2, axis=0)), [0.937, 0.662], atol=5e-4)


def test_co2_hc_has_its_known_rows_and_temperatures(engine: Dataset, real_dataset: RealDataset) -> None:
    dataset = real_dataset("gengine1_co2_hc")
    inputs, outputs, test_inputs, _ = parts(dataset)
    assert inputs.shape == (247604, 14)
    assert test_inputs.shape == (136185, 14)
    manifold = outputs[:, OUTPUTS.index("T_EXM")]
    assert np.quantile(manifold, 0.8) == pytest.approx(1.007371, abs=1e-6)
    assert np.mean(manifold > 1.0) == pytest.approx(0.20540, abs=5e-6)


def test_raw_training_columns_are_standardised(real_spec: Callable[[str], DatasetSpec]) -> None:
    spec = real_spec("gengine1")
    tables = []
    for file in spec.files[:20]:
        found = locate(spec, file, Path("nowhere"))
        assert found is not None
        tables.append(np.loadtxt(read_verified(spec, file, found).splitlines(), delimiter=","))
    rows = np.vstack(tables)
    assert rows.shape == (247844, 13)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(rows.std(axis=0), 1.0, atol=1e-5)
