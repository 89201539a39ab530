import numpy as np
import pytest

from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse import algebra
from gpsuite.methods.pac_bayes.sparse.algebra import (
    BLOCK,
    LONG_BLOCK,
    MANY_ROWS,
    STORED_BYTES,
    BlockArray,
    WeightedGram,
    blocks,
    stores,
)
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective


def test_stored_blocks_keep_what_was_written() -> None:
    n = 2 * BLOCK + 5
    array = BlockArray(n, 3, stored=True)
    for rows in blocks(n):
        array.block(rows)[...] = np.arange(rows.start, rows.stop)
    for rows in blocks(n):
        np.testing.assert_array_equal(array.block(rows), np.tile(np.arange(rows.start, rows.stop), (3, 1)))


@pytest.mark.parametrize("n", [7, BLOCK + 5])
def test_blocks_that_are_not_stored_share_one_place(n: int) -> None:
    array = BlockArray(n, 3, stored=False)
    *_, last = blocks(n)
    array.block(last)[...] = 1.0
    first = array.block(slice(0, min(n, BLOCK)))
    assert first.shape == (3, min(n, BLOCK))
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(first.ravel()[: 3 * (last.stop - last.start)], 1.0)


def test_many_rows_are_cut_into_long_blocks_that_cover_them() -> None:
    cut = list(blocks(MANY_ROWS + 7))
    assert [rows.start for rows in cut] == [0, *(rows.stop for rows in cut[:-1])]
    assert cut[-1].stop == MANY_ROWS + 7
    assert {rows.stop - rows.start for rows in cut[:-1]} == {LONG_BLOCK}


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_long_blocks_give_what_short_ones_do(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(MANY_ROWS + 7, 2))
    problem = RiskProblem(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X)), BandLoss(0.6), 0.01)
    theta = np.log([1.0, 1.5, 2.0, 0.1])
    long = SparseGPObjective(problem, alpha, 5, store=False).value_and_gradient(theta, X[:5].copy())
    monkeypatch.setattr(algebra, "LONG_BLOCK", BLOCK)
    short = SparseGPObjective(problem, alpha, 5, store=True).value_and_gradient(theta, X[:5].copy())
    np.testing.assert_allclose(long[0], short[0], rtol=1e-12)
    np.testing.assert_allclose(long[1], short[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(long[2], short[2], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_inducing", [1, 63, 64, 65, 200])
def test_weighted_gram_is_the_product_for_weights_of_either_sign(n_inducing: int) -> None:
    rng = np.random.default_rng(3)
    V, weights = rng.normal(size=(n_inducing, 90)), rng.normal(size=90)
    gram = WeightedGram(n_inducing)
    gram.add(np.ascontiguousarray(V[:, :50]), weights[:50])
    gram.add(np.ascontiguousarray(V[:, 50:]), weights[50:])
    np.testing.assert_allclose(gram.total(), (V * weights) @ V.T, atol=1e-12)
    np.testing.assert_array_equal(gram.total(), gram.total().T)


def test_blocks_are_stored_up_to_the_limit() -> None:
    points = STORED_BYTES // (8 * 2 * 256)
    assert stores(points, 256, 2)
    assert not stores(points + 1, 256, 2)
    assert not stores(points, 256, 3)
