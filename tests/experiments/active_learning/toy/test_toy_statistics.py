from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma, norm

from gpsuite.config.files import conf_dir
from gpsuite.experiments.active_learning import toy_tables
from gpsuite.experiments.active_learning.curves import Curves
from gpsuite.experiments.active_learning.engine import engine_statistics
from gpsuite.experiments.active_learning.gp_samples import gp_statistics
from gpsuite.experiments.active_learning.observation_ablation import ablation_statistics
from gpsuite.experiments.active_learning.toy_tasks import (
    Parts,
    draw_priors,
    identity_error,
    likelihood_seconds,
)
from gpsuite.experiments.base import Record
from gpsuite.reporting.comparison import Statistic, read_paper_values
from tests.experiments.active_learning.made_up_repetition_records import record, toy_report
from tests.experiments.composed_settings import composed_settings

METHODS = ("al_mogp", "rs_mogp", "al_indgps", "al_mogp_nosafe")
TIMED = {"likelihood_cost_slope"}  # a measured time: in a timing table, not among the statistics


def runs(part: str, methods: Sequence[str], steps: int, level: float = 1.0, **own: Any) -> list[Record]:
    found = []
    for number, method in enumerate(methods):
        for r in range(8):
            error = [level * (1.0 + 0.1 * number) - 0.02 * k + 0.001 * r for k in range(steps)]
            words = {"part": part, "inference": "smc", **own}
            made = record(method, r, error, **words)
            found.append(made)
    return found


def with_axis(records: list[Record], **axes: str | float) -> list[Record]:
    return [replace(each, axes={**each.axes, **axes}) for each in records]


def toy_records() -> list[Record]:
    acceptance = {"outputs_acceptance": np.full(11, 0.7)}
    return [
        *with_axis(runs("pipelines", METHODS, 31, query_at_maximum=True), prior_factor=1.0),
        *with_axis(runs("inference", METHODS[:1], 11, 1.2), inference="map", prior_factor=1.0),
        *with_axis(runs("inference", METHODS[:1], 11, 0.8), inference="ml", prior_factor=1.0),
        *with_axis(runs("hmc", METHODS, 11, **acceptance), inference="hmc", prior_factor=1.0),  # type: ignore[arg-type]
        *with_axis(runs("prior", METHODS[:1], 31, 1.3), prior_factor=2.0),
        record("", 0, [1.0], part="identity_lmc", inference="", max_relative_error=1e-15),
    ]


def values(found: Sequence[Statistic]) -> dict[str, float]:
    assert len({statistic.name for statistic in found}) == len(found)
    return {statistic.name: statistic.value for statistic in found}


def published(experiment: str) -> set[str]:
    return {entry.statistic for entry in read_paper_values(conf_dir(), f"active_learning/{experiment}")}


def test_every_published_statistic_of_the_toy_is_computed() -> None:
    parts = Parts.from_records(toy_records(), METHODS, "smc")
    found = values(toy_tables.toy_statistics(parts, composed_settings("active_learning/toy")))
    assert published("toy") - TIMED <= set(found)
    assert found["true_safe_low"] == pytest.approx(-0.7446, abs=1e-4)
    assert found["max_relative_error_identity_lmc"] == 1e-15
    assert found["share_acceptance_in_range"] == found["share_next_query_at_entropy_maximum"] == 1.0
    assert found["max_marked_safe_outside_share"] == 0.0
    # MAP is worse in both cells of RMSE, ML better; precision is equal everywhere
    assert found["share_bayes_better_than_point_estimates"] == 2 / 8


def test_every_published_statistic_of_draws_engine_and_ablation_is_computed() -> None:
    made = [record(m, r, [1.5 - 0.01 * k - 0.1 * n + 0.001 * r for k in range(101)], start=40)
            for n, m in enumerate(METHODS) for r in range(4)]  # fmt: skip
    curves = Curves.from_records(made, METHODS)
    names = set(values(list(gp_statistics(curves, range(40, 141, 20), [0.6]))))
    assert published("gp_samples") - {"safe_row_percent"} <= names
    errors = {"standardised_z": 0.3, "standardised_output_1": 0.9, "standardised_output_2": 0.2}
    curve = 1.5 - 0.01 * np.arange(60)
    engine = [record(m, r, curve + 0.001 * r, start=48, **errors) for m in METHODS for r in range(4)]  # type: ignore[arg-type]
    facts = record("", 0, [1.0], part="data")
    sparse = [
        replace(made, axes={**made.axes, "rows": 100 * (1 + n)}, metrics={"rmse": 0.7 - 0.1 * n})
        for n in range(2)
        for made in (record("", r, [1.0], part="saturation") for r in range(2))
    ]
    found = values(
        engine_statistics(
            Curves.from_records(engine, METHODS),
            [facts, *sparse],
            composed_settings("active_learning/engine"),
        )
    )
    assert published("engine") <= set(found)
    assert found["saturated_rmse"] == pytest.approx(0.6)
    assert found["saturated_rmse_drop"] == pytest.approx(1.5 - 0.59 + 0.0015 - 0.6)
    assert found["share_temperature_easiest"] == 0.5
    sets = {
        "toy": Curves.from_records(
            [record(m, 0, [1.0, 0.5]) for m in ("al_mogp", "full")], ("al_mogp", "full")
        )
    }
    kinds = {"al_mogp": True, "full": False}
    assert published("observation_ablation") <= set(values(ablation_statistics(sets, kinds, sets)))


def test_the_lead_and_the_gain() -> None:
    slow = [record("rs_mogp", 0, [1.0, 0.9, 0.8]), record("al_indgps", 0, [1.0, 0.9, 0.8])]
    fast = record("al_mogp", 0, [1.0, 0.3, 0.2])
    bold = record("al_mogp_nosafe", 0, [1.0, 1.0, 1.0], safe_noisy=[1, 0, 0])
    curves = Curves.from_records([fast, *slow, bold], METHODS)
    assert values(toy_tables.lead_statistics(curves)) == {"points_to_rmse_lead[threshold=0.4]": 14 - 13}
    assert values(toy_tables.gain_statistics(curves))["safe_query_percent_gain"] == pytest.approx(200 / 3)


def test_priors_are_compared_in_pairs_of_repetitions() -> None:
    def curves(level: float) -> Curves:
        return Curves.from_records([record("al_mogp", r, [9.0, level + r]) for r in range(3)], METHODS)

    found = toy_tables.prior_statistics({1.0: curves(1.0), 0.5: curves(1.3), 2.0: curves(0.8)})
    assert values(found)["max_relative_rmse_change_with_prior"] == pytest.approx(0.5 / 2.05)


def test_what_was_not_run_gives_no_statistic() -> None:
    empty = Parts.from_records([], METHODS, "smc")
    assert set(values(toy_tables.toy_statistics(empty, composed_settings("active_learning/toy")))) == {
        "true_safe_low",
        "true_safe_high",
    }
    only = Curves.from_records([record("rs_mogp", 0, [1.0, 0.9])], METHODS)
    for found in (
        toy_tables.lead_statistics(only),
        toy_tables.gain_statistics(only),
        toy_tables.prior_statistics({1.0: only}),
    ):
        assert found == []


def test_independent_gps_are_the_lmc_with_the_identity() -> None:
    errors = [identity_error(np.random.default_rng(seed), 3) for seed in range(5)]
    assert max(errors) < 1e-9
    assert likelihood_seconds(np.random.default_rng(0), 20, 2, "free") > 0.0


def test_the_drawn_priors_are_the_papers(tmp_path: Path) -> None:
    import pandas as pd

    draw_priors(toy_report(tmp_path))
    frame = pd.read_csv(tmp_path / "figures" / "toy_priors.csv")
    laws = {
        "variance": gamma(2.5, scale=1.0),
        "lengthscale": gamma(1.5, scale=1.0),
        "noise": gamma(1.5, scale=1 / 3),
        "mixing": norm(0.0, 2.0),
    }
    for kind, part in frame.groupby("hyperparameter"):
        np.testing.assert_allclose(part["density"], laws[str(kind)].pdf(part["value"]))
