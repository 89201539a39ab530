"""Repetitions on simulated data: sine and sigmoid, and draws from multi-output GPs (Li et al. 2022, I.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from gpsuite.data.generators.gp_samples import GpSamples, Process, Sizes, gp_samples
from gpsuite.data.generators.safe_sample import SafeSample
from gpsuite.data.generators.sin_sigmoid import (
    THRESHOLD,
    Form,
    exploration_grid,
    initial_inputs,
    sin_sigmoid,
    true_safety,
)
from gpsuite.experiments.active_learning.shared.repetition_data import (
    PAIRS,
    Campaign,
    Table,
    offered,
    spawned,
    started_outputs,
    without_started,
)
from gpsuite.methods.active_learning.safety import SafetyLimit

TOY_OUTPUTS = 2


UNEQUAL = 10.0  # variance ratio of the outputs, or of their noises, where they are made unequal


EQUAL, UNEQUAL_NOISE, UNEQUAL_VARIANCE = "equal", "noise", "variance"


GP_KERNELS = {"code": "squared_exponential", "paper": "squared_exponential_paper"}


def toy_campaign(params: Mapping[str, Any], queries: str) -> Campaign:
    """Return a repetition of sine and sigmoid: the grid is pool and test set, starting inputs lie in [-.6, .6].

    Args:
        params: seed, form, initial, pool_rows, offers, and unequal: which output has 10 times the variance or noise.
        queries: `partial` or `full`.
    """
    inputs, start_noise, pool_noise, test_noise = spawned(params, 4)
    form = cast(Form, params["form"])
    given = started_outputs(int(params["initial"]), TOY_OUTPUTS, queries)
    # as many starting inputs are drawn as partial queries need, so that full ones start from the first of them
    start_X = initial_inputs(inputs, int(params["initial"]))
    grid = exploration_grid(int(params["pool_rows"]))

    def measured(rng: np.random.Generator, X: Any) -> Table:
        return _unequal(_table(sin_sigmoid(rng, X, form=form)), str(params["unequal"]))

    offers = _offers(params, queries)
    return Campaign(
        pool=measured(pool_noise, grid),
        available=offered(len(grid), TOY_OUTPUTS, offers),
        start=measured(start_noise, start_X).rows(np.arange(len(given))),
        start_outputs=given,
        test=measured(test_noise, grid),
        test_safe=true_safety(grid[:, 0]) > THRESHOLD,
        targets="true",
        limit=SafetyLimit(THRESHOLD, "above"),
    )


def gp_campaign(params: Mapping[str, Any], queries: str) -> Campaign:
    """Return a draw of the multi-output process; starting inputs are random safe rows of the pool.

    Args:
        params: seed (of the starting rows), draw, initial, offers, and `samples`: what `drawn_samples` needs.
        queries: `partial` or `full`.
    """
    samples = drawn_samples(**params["samples"])
    data, e, n_train = samples.data, int(params["draw"]), samples.n_train
    whole = Table(data.X, data.Y[e], data.z[e], data.F[e], data.h[e])
    pool, test = whole.rows(np.arange(n_train)), whole.rows(np.arange(n_train, len(data.X)))
    n_outputs = pool.Y.shape[1]
    (rng,) = spawned(params, 1)
    safe = np.flatnonzero(pool.z > data.threshold)
    given = started_outputs(int(params["initial"]), n_outputs, queries)
    chosen = rng.permutation(safe)[: int(params["initial"])][: len(given)]
    if len(chosen) < len(given):
        raise ValueError(f"draw {e} has {len(safe)} safe rows; {len(given)} are needed to start")
    offers = _offers(params, queries)
    return Campaign(
        pool=pool,
        available=without_started(offered(n_train, n_outputs, offers), chosen, given, offers),
        start=pool.rows(chosen),
        start_outputs=given,
        test=test,
        test_safe=test.z > data.threshold,
        targets="noisy",
        limit=SafetyLimit(data.threshold, "above"),
    )


@lru_cache(maxsize=1)
def drawn_samples(
    seed: int, draws: int, n_train: int, n_test: int, n_outputs: int, form: str, process: Process
) -> GpSamples:
    """Return all draws; the tasks of one worker share them.

    Args:
        seed: of the generator.
        draws: number of draws; the threshold is theirs together.
        n_train: pool rows of each draw.
        n_test: test rows of each draw.
        n_outputs: P.
        form: of the squared exponential kernel: `code` exp(-r^2 / 2 l^2), or `paper` exp(-r^2 / l).
        process: `lmc` or `convolution`.
    """
    sizes = Sizes(draws, n_train, n_test, n_outputs=n_outputs, n_latent=max(1, n_outputs - 1))
    return gp_samples(np.random.default_rng(seed), sizes, kernel=GP_KERNELS[form], process=process)


def _table(sample: SafeSample) -> Table:
    return Table(sample.X, sample.Y, sample.z, sample.F, sample.h)


def _unequal(table: Table, which: str) -> Table:
    """Return the table with 10 times the variance, or noise variance, of the first output."""
    if which == EQUAL or table.F is None:
        return table
    F, noise = table.F.copy(), table.Y - table.F
    (noise if which == UNEQUAL_NOISE else F)[:, 0] *= UNEQUAL**0.5
    return replace(table, Y=F + noise, F=F)


def _offers(params: Mapping[str, Any], queries: str) -> str:
    """Return what pool rows offer: full queries measure everything, and a row leaves."""
    return PAIRS if queries == "full" else str(params["offers"])
