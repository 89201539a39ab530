"""The regression tables of Wild et al. 2022, Table 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.data import DatasetSpec, dataset_names, load, prepare, read_spec
from gpsuite.data.sources.uci import TABLES, load_uci
from tests.data.made_up_data import CONF_DIR


def described(name: str) -> DatasetSpec:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return spec


# rows, inputs, rows whose inputs occur before, and the target's deviation with divisor N - 1
FACTS = {
    "concrete": (1030, 8, 38, 16.7057),
    "energy": (768, 8, 0, 10.0902),
    "energy_cooling": (768, 9, 0, 9.5133),
    "kin8nm": (8192, 8, 0, 0.26360),
    "power": (9568, 4, 41, 17.0670),
    "protein": (45730, 9, 1756, 6.1183),
    "wine_red": (1599, 11, 240, 0.80757),
    "yacht": (308, 6, 0, 15.1605),
    "naval": (11934, 16, 0, 0.0147202),
    "naval_turbine": (11934, 17, 0, 0.0075003),
}


@pytest.mark.parametrize("name", FACTS)
def test_the_tables_have_the_known_rows_copies_and_deviation(name: str, real_spec: Any) -> None:
    data = load(prepare(real_spec(name), cache_dir=Path("nowhere")))
    rows, inputs, copies, deviation = FACTS[name]
    assert data.X.shape == (rows, inputs) and data.y.shape == (rows, 1)
    assert len(data.X) - len(np.unique(data.X, axis=0)) == copies
    assert data.y.std(ddof=1) == pytest.approx(deviation, rel=1e-4)
    assert data.groups is None  # copies stay, as in the paper


def test_the_trivial_error_of_naval_is_the_printed_one_of_others(real_spec: Any) -> None:
    # two competitors print -2.80, which is the normal density of the compressor's column, not of the turbine's
    nll = []
    for name in ("naval", "naval_turbine"):
        y = load(prepare(real_spec(name), cache_dir=Path("nowhere"))).y
        nll.append(0.5 * np.log(2.0 * np.pi * y.var()) + 0.5)
    np.testing.assert_allclose(nll, [-2.800, -3.474], atol=5e-4)


def test_the_two_copies_of_the_building_table_agree(real_spec: Any) -> None:
    heating, cooling = (
        load(prepare(real_spec(name), cache_dir=Path("nowhere"))) for name in ("energy", "energy_cooling")
    )
    np.testing.assert_allclose(cooling.X[:, :8], heating.X, atol=1e-9)
    np.testing.assert_allclose(cooling.X[:, 8], heating.y[:, 0], atol=0.005)


@pytest.mark.parametrize("name", TABLES)
def test_inputs_are_the_columns_before_the_target(name: str) -> None:
    spec, width = described(name), 18 if name.startswith("naval") else len(TABLES[name].inputs) + 1
    numbers = np.arange(3.0 * width).reshape(3, width)
    comma = spec.files[0].name.endswith(".csv")
    lines = [("," if comma else " ").join(map(str, row)) for row in numbers]
    content = "\n".join([*(["a header"] if comma else []), *lines]).encode()
    data = load_uci(replace(spec, rows=3), lambda file: content)
    np.testing.assert_array_equal(data.X, numbers[:, : spec.n_inputs])
    np.testing.assert_array_equal(data.y[:, 0], numbers[:, TABLES[name].column])


def test_every_table_is_described() -> None:
    assert {name for name in dataset_names(CONF_DIR) if getattr(read_spec(CONF_DIR, name), "loader", "") == "uci"} == {
        *TABLES
    }
