"""pac_bayes/mnist: its plan, its split, what it refuses, and its bounds on labels whose true risk is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates.class_risk_verification import _split as split_of_the_check
from gpsuite.config.request import read_request
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.pac_bayes.mnist import ANCHORS, ClassTask, parts_of, simulate
from gpsuite.statistics.significance import binomial_p


def tasks(*words: str) -> list[Any]:
    request, _ = read_request(["experiment=pac_bayes/mnist", "scale=smoke", *words])
    return list(EXPERIMENTS.get("pac_bayes/mnist").plan(request))


def test_the_plan_has_a_task_for_each_split_and_size_and_one_of_simulations() -> None:
    found = tasks("datasets=[digits]", "inducing=[20,40]", "splits=2")
    sizes = [(each.axes.get("inducing"), each.axes.get("split")) for each in found]
    assert sizes == [(20, 0), (40, 0), (20, 1), (40, 1), (None, None)]


def test_more_inducing_rows_than_the_prior_has_are_as_many_as_it_has() -> None:
    found = tasks("datasets=[digits]", "inducing=[5000,9000]", "simulations=0")
    assert [each.params.inducing for each in found] == [718]
    parts = parts_of(load(found[0].dataset), found[0].params)
    assert len(parts.prior) == 718


def test_a_table_has_no_uninformed_prior() -> None:
    with pytest.raises(UserError, match="Add informed"):
        tasks("datasets=[digits]", "priors=[uninformed]")


def test_the_parts_of_a_split_share_no_row_and_are_those_of_the_check() -> None:
    [task, _] = tasks("datasets=[breast_cancer]")
    params, data = task.params, load(task.dataset)
    assert isinstance(params, ClassTask) and isinstance(data, Dataset)
    parts = parts_of(data, params)
    every = np.concatenate([parts.prior, parts.bound, parts.test])
    assert np.array_equal(np.sort(every), np.arange(len(data.X)))

    stated: Any = SimpleNamespace(rows=SimpleNamespace(**vars(params), count=len(data.X)))
    prior, bound = split_of_the_check(Path("x"), stated, data)
    assert np.array_equal(prior, parts.prior) and np.array_equal(bound, parts.bound)


def test_bounds_hold_on_simulated_labels_as_often_as_they_say() -> None:
    rng, delta, count = np.random.default_rng(0), 0.1, 40
    failed = {"kl": 0, "catoni": 0, "binomial": 0}
    moved = 0
    for _ in range(count):
        bounds, truth, kl = simulate(rng, delta)
        moved += kl > 0.0
        for name in failed:
            failed[name] += bounds[name] < truth[name]
    assert moved > count / 2  # else the KL is not tried
    for found in failed.values():
        assert binomial_p(count - found, count, 1.0 - delta, "less") > 1e-3


def test_anchors_are_error_rates_with_a_source_and_a_standing() -> None:
    assert all(0.0 < value < 1.0 and source and standing for _, _, value, source, standing in ANCHORS)
    assert len({(data, what, source) for data, what, _, source, _ in ANCHORS}) == len(ANCHORS)
