from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.data import DatasetSpec, dataset_names, read_spec
from gpsuite.data.hashing import content_hash
from gpsuite.data.standin import MAX_ROWS, generate_stand_in, stand_in_hash
from tests.data.made_up_data import CONF_DIR, made_up

SPECS = {name: read_spec(CONF_DIR, name) for name in dataset_names(CONF_DIR) if name != "csv"}
REPLACEABLE = [name for name, spec in SPECS.items() if spec.task != "measurements"]


def test_measurements_are_never_missing_and_have_no_stand_in() -> None:
    for name in SPECS.keys() - REPLACEABLE:
        spec = SPECS[name]
        assert isinstance(spec, DatasetSpec) and spec.embedded
        with pytest.raises(ValueError, match="no stand-in"):
            generate_stand_in(spec)


@pytest.mark.parametrize("name", REPLACEABLE)
def test_shape_and_task_are_those_of_the_dataset(name: str) -> None:
    spec = SPECS[name]
    assert isinstance(spec, DatasetSpec)
    dataset = generate_stand_in(spec)
    assert dataset.stand_in
    assert (dataset.name, dataset.task) == (name, spec.task)
    assert dataset.X.shape == (min(spec.rows, MAX_ROWS), spec.n_inputs)
    assert dataset.y.shape[1] == spec.n_targets
    assert dataset.n_classes == (spec.n_classes or 0)
    if spec.n_classes:
        assert set(np.unique(dataset.y)) == set(range(spec.n_classes))
    if spec.target_names:
        assert list(dataset.target_names) == spec.target_names
    assert (dataset.fixed_split is None) == (spec.test_rows is None)


def test_a_test_part_is_kept_in_proportion() -> None:
    dataset = generate_stand_in(replace(made_up(), rows=70_000, test_rows=10_000))
    assert dataset.fixed_split is not None
    train, test = dataset.fixed_split
    assert len(dataset.X) == MAX_ROWS
    np.testing.assert_array_equal(np.concatenate([train, test]), np.arange(MAX_ROWS))
    assert len(test) == round(MAX_ROWS / 7)


def test_same_name_same_numbers_other_name_other_numbers() -> None:
    spec = made_up()
    first, again = generate_stand_in(spec), generate_stand_in(spec)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    other = generate_stand_in(replace(spec, name="other"))
    assert not np.array_equal(first.X, other.X)
    assert np.ptp(first.y) > 0


def test_the_hash_marks_it() -> None:
    spec = made_up()
    marked = stand_in_hash(spec)
    assert generate_stand_in(spec).content_hash == marked
    assert marked.startswith("stand-in-")
    assert marked != content_hash(spec)
    assert marked != stand_in_hash(replace(spec, rows=51))
    assert marked != stand_in_hash(replace(spec, test_rows=5))
