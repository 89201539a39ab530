from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gpsuite.data import Standardiser, fit_standardiser, train_test_indices
from gpsuite.data.splits import DifferentRows, without_copies
from gpsuite.errors import UserError
from tests.arrays import Array

ROUNDING = 1e-9  # columns below are of order 1e3 at most, with deviations of order 1e-3 at least


def test_different_rows_are_first_ones_and_say_what_others_saw() -> None:
    train, test = np.array([0, 3, 4, 7]), np.array([1, 2, 5, 6])
    groups = np.array([0, 1, 0, 3, 1, 5, 6, 6])  # 2 copies 0, 4 copies 1, 7 copies 6
    assert DifferentRows.of(train, test, None) is None
    assert DifferentRows.of(train, test, np.arange(8)) is None
    found = DifferentRows.of(test, train, groups)
    assert found is not None
    assert (found.places.tolist(), found.seen.tolist()) == ([0, 2, 3], [True, False, True])
    of_train = DifferentRows.of(train, train[:0], groups)
    assert of_train is not None
    assert (of_train.places.tolist(), of_train.seen.tolist()) == ([0, 1], [False, False])
    assert without_copies(train, test, groups).tolist() == [3]
    assert without_copies(train, test, None) is train


def test_how_often_a_row_is_stored_does_not_decide_where_it_counts() -> None:
    """Else rows that are stored often, easy ones say, would be on the training side more often."""
    times = np.where(np.arange(60) < 30, 20, 1)
    rows = np.repeat(np.arange(60), times)
    groups = np.searchsorted(rows, rows)
    often = 0
    for seed in range(200):
        train, _ = train_test_indices(len(rows), 0.2, seed)
        found = DifferentRows.of(train, train[:0], groups)
        assert found is not None
        often += int((rows[train[found.places]] < 30).sum())
    assert abs(often - 200 * 24) < 4.0 * (200 * 30 * 0.8 * 0.2) ** 0.5


@pytest.mark.parametrize("random_state", range(10))
@pytest.mark.parametrize(("n", "share"), [(506, 0.2), (200, 0.1), (15, 0.34)])
def test_indices_split_as_scikit_learn_splits_the_rows(n: int, share: float, random_state: int) -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    expected = train_test_split(inputs, targets, test_size=share, random_state=random_state)
    train, test = train_test_indices(n, share, random_state)
    for found, wanted in zip((inputs[train], inputs[test], targets[train], targets[test]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert sorted([*train, *test]) == list(range(n))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_outside_0_1_is_refused(share: float) -> None:
    with pytest.raises(UserError, match="must lie between 0 and 1") as caught:
        train_test_indices(100, share, 0)
    assert caught.value.key == "test_share"


def test_no_training_row_is_refused() -> None:
    with pytest.raises(UserError, match="leaves no training row of 3"):
        train_test_indices(3, 0.9, 0)


MATRICES = hnp.arrays(np.float64, (20, 3), elements=st.integers(-1_000_000, 1_000_000).map(lambda k: k / 1000))


@given(MATRICES)
def test_standardised_rows_have_mean_0_and_deviation_1_and_come_back(rows: Array) -> None:
    standardiser = Standardiser.fit(rows)
    scaled = standardiser.transform(rows)
    varies = np.ptp(rows, axis=0) > 0
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0)[varies], 1.0, rtol=ROUNDING)
    np.testing.assert_allclose(standardiser.inverse(scaled), rows, atol=ROUNDING)
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(rows), atol=1e-6)


def test_constant_columns_are_shifted_only() -> None:
    rows = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    standardiser = Standardiser.fit(rows)
    assert standardiser.scale[0] == 1.0
    assert standardiser.scale[1] == 2.0  # population deviation of 0..6; the sample's is 2.16
    np.testing.assert_allclose(standardiser.transform(rows)[:, 0], 0.0, atol=1e-15)


def test_fit_needs_rows() -> None:
    for rows in (np.ones((0, 2)), np.ones(3)):
        with pytest.raises(ValueError, match="at least one row"):
            Standardiser.fit(rows)


def test_scaling_uses_all_or_the_training_rows() -> None:
    rows = np.arange(10.0)[:, None]
    train = np.array([0, 1, 2])
    assert fit_standardiser(rows, train, "all").mean[0] == 4.5
    assert fit_standardiser(rows, train, "train").mean[0] == 1.0
    with pytest.raises(UserError, match=r"scaling=trian: unknown scaling\. Did you mean 'train'"):
        fit_standardiser(rows, train, "trian")
