"""The rows that the code of Blaas et al. 2020 draws, and MATLAB's random numbers behind them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, load, prepare, read_spec
from gpsuite.data.generators.matlab_streams import EDGES, HEIGHTS, MatlabStream, V
from gpsuite.data.sources.vlfeat_patches import vlfeat_patch
from gpsuite.experiments.robustness.inputs import image_order
from tests.data.made_up_data import CONF_DIR

HERE = Path(__file__).parents[1] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "blaas_protocol.json"
EXPECTED: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
# the last bits of a draw are not known: 6e-8, which standardising may double
DRAW = 2e-7

reference = pytest.mark.reference


def read(name: str) -> Dataset:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    return load(prepare(spec, cache_dir=Path("nowhere")))


@reference
@pytest.mark.parametrize("name", [name for name in ("randn_seed1_first10", "rand_seed1_first5") if name in EXPECTED])
def test_streams_begin_as_published(name: str) -> None:
    stream, expected = MatlabStream(1), np.array(EXPECTED[name])
    found = stream.randn(len(expected)) if name.startswith("randn") else stream.rand(len(expected))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=DRAW)


def test_the_stream_at_start_up_is_the_documented_one() -> None:
    np.testing.assert_allclose(MatlabStream(0).randn(5), [0.5377, 1.8339, -2.2588, 0.8622, 0.3188], atol=5e-5)
    np.testing.assert_array_equal(MatlabStream(0).randperm(6) + 1, [6, 3, 5, 1, 2, 4])


def test_means_of_normal_draws_are_the_printed_ones() -> None:
    # six means that a page on MATLAB's generator prints; they use 26 draws of the tail and 1686 other rejections
    stream = MatlabStream(123456789)
    stream.randn(5)
    printed = {1: 0.326832, 10: 0.018427, 100: 0.067092, 1000: 0.023507, 10_000: 0.008770, 100_000: -0.000765}
    for count, mean in printed.items():
        assert stream.randn(count).mean() == pytest.approx(mean, abs=6e-7), count


def test_matrices_are_filled_column_by_column() -> None:
    np.testing.assert_array_equal(MatlabStream(3).randn(2, 3).ravel(order="F"), MatlabStream(3).randn(6))


def test_every_layer_of_the_ziggurat_has_the_same_area() -> None:
    edges, heights = np.array(EDGES), np.array(HEIGHTS)
    areas = edges[2:] * (heights[1:-1] - heights[2:])  # of the layers between the curve's heights
    np.testing.assert_allclose(areas[:-1], V, rtol=1e-9)
    assert heights[0] == 1.0 and np.all(np.diff(edges) > 0.0)


@reference
@pytest.mark.skipif("synthetic2d" not in EXPECTED, reason="the reference has no such section")
def test_synthetic2d_is_the_authors_draw() -> None:
    data, expected = read("synthetic2d_authors"), EXPECTED["synthetic2d"]
    assert data.fixed_split is not None
    train, test = data.fixed_split
    labels = 2.0 * data.y[:, 0] - 1.0
    assert (len(train), len(test), (labels[train] > 0).sum()) == (1000, 200, expected["train_positive"])
    np.testing.assert_array_equal(train[:5] + 1, [1142, 1189, 904, 454, 142])
    np.testing.assert_allclose(data.X[train[:3]], expected["train_first3"], atol=DRAW)
    np.testing.assert_array_equal(labels[train[:10]], expected["train_labels_first10"])
    np.testing.assert_allclose(data.X[test[80]], expected["test_point_81_from_1"], atol=DRAW)
    assert labels[test[80]] == expected["test_label_81"]


@reference
@pytest.mark.skipif("spam_test_rows_from_1" not in EXPECTED, reason="the reference has no such section")
def test_the_rows_of_spam_are_the_authors_draw() -> None:
    order = MatlabStream(1).randperm(4601) + 1
    first = EXPECTED["spam_train_rows_first20_from_1"]
    np.testing.assert_array_equal(order[: len(first)], first)
    np.testing.assert_array_equal(order[1000:1200], EXPECTED["spam_test_rows_from_1"])


def test_spam_has_the_split_of_its_stream(real_spec: Any) -> None:
    data = load(prepare(real_spec("spambase11_authors"), cache_dir=Path("nowhere")))
    assert data.fixed_split is not None
    order = MatlabStream(1).randperm(4601)
    np.testing.assert_array_equal(np.concatenate(data.fixed_split), order[:1200])
    assert data.X.shape == (4601, 11) and data.y[data.fixed_split[1][40], 0] == 0.0  # point 41 is no spam


@pytest.mark.parametrize(("name", "train"), [("mnist38", 1000), ("mnist358", 500)])
def test_the_first_images_are_those_of_the_whole_set(name: str, train: int, real_spec: Any, tmp_path: Path) -> None:
    few, whole = (load(prepare(real_spec(each), cache_dir=tmp_path)) for each in (f"{name}_first", name))
    assert few.fixed_split is not None and whole.fixed_split is not None
    np.testing.assert_array_equal(few.X[few.fixed_split[0]], whole.X[whole.fixed_split[0][:train]])
    np.testing.assert_array_equal(few.X[few.fixed_split[1]], whole.X[whole.fixed_split[1][:200]])
    np.testing.assert_array_equal(few.y[few.fixed_split[1]], whole.y[whole.fixed_split[1][:200]])


@reference
@pytest.mark.skipif("mnist38_test_patches" not in EXPECTED, reason="the reference has no such section")
def test_the_patches_of_the_first_images_are_stored(real_spec: Any, tmp_path: Path) -> None:
    data = load(prepare(real_spec("mnist38_first"), cache_dir=tmp_path))
    assert data.fixed_split is not None
    order = image_order(data.input_names)
    for row, expected in zip(data.fixed_split[1], EXPECTED["mnist38_test_patches"]["patches"], strict=True):
        found = vlfeat_patch(data.X[row][order], 10)
        assert (found is None) == (expected is None)
        assert expected is None or (found is not None and found.tolist() == expected["pixels"])
