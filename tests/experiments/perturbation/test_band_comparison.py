from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Outcome, Record, Report, SharedWork, Task
from gpsuite.experiments.perturbation import band_comparison
from gpsuite.experiments.perturbation import band_comparison as peer_bands
from gpsuite.experiments.perturbation.band_comparison import PEERS, Sample, features
from gpsuite.experiments.perturbation.band_comparison import run as run_task

NAME = "experiment=perturbation/band_comparison"
REGION = "bands=[region_ellipsoid,region_pointwise,region_members]"
NUMPY = "bands=[region_ellipsoid,region_pointwise,region_members,bootstrap,bootstrap_sup,mapie_split]"


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([NAME, "scale=smoke", *words])
    return EXPERIMENTS.get(request.experiment).plan(request)


def run(task: Task[Any]) -> Outcome:
    return run_task(task, SharedWork())


def record(task: Task[Any]) -> Record:
    outcome = run(task)
    parts = {"arrays": outcome.arrays, "timing": {}, "reason": outcome.reason, "status": outcome.status}
    return Record(task_key(task), task.experiment, task.label, task.axes, metrics=outcome.metrics, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["q=20", "m=20"], "0 < q < m"),
        (["q=0"], "0 < q < m"),
        (["q=-1"], "0 < q < m"),
        (["rows=1"], "16 or more"),
        (["bands=[bootstrp]"], "bootstrap"),
        (["noises=[laplace,laplace]"], "twice"),
        (["noise_scale=inf"], "above 0"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        plan(*words)


def test_every_band_sees_the_same_data() -> None:
    tasks = plan("noises=[laplace,cauchy]")
    assert len({task_key(task) for task in tasks}) == len(tasks) == 2 * len(PEERS)
    seeds = {(task.axes["noise"], task.params.seed) for task in tasks}
    assert len(seeds) == 2


def test_bands_of_one_region_nest() -> None:
    """The ellipsoid's band holds the extremes', which holds the members': data set by data set."""
    rng = np.random.default_rng(0)
    X, grid = rng.uniform(-2.0, 2.0, (80, 1)), np.linspace(-2.0, 2.0, 15)[:, None]
    y = features(X) @ rng.standard_normal(8) + 0.3 * rng.laplace(size=80)
    sample = Sample(X, y, grid, 5, 50, 200, 5)
    names = ("region_members", "region_pointwise", "region_ellipsoid")
    inner, middle, outer = (PEERS[name].compute(sample, np.random.default_rng(1)) for name in names)
    assert np.all((outer[0] <= middle[0]) & (middle[0] <= inner[0]))
    assert np.all((outer[1] >= middle[1]) & (middle[1] >= inner[1]))
    assert np.all(np.isfinite(outer))


def test_the_sup_band_is_the_wider_bootstrap() -> None:
    single, everywhere = (run(task).arrays["width"] for task in plan("bands=[bootstrap,bootstrap_sup]", "draws=400"))
    assert np.all(everywhere > single)


def test_gaussian_process_intervals_grow_by_the_noise() -> None:
    rng = np.random.default_rng(0)
    X = np.linspace(-2.0, 2.0, 40)[:, None]
    sample = Sample(X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(40), X[::4], 10, 100, 10, 30)
    f, y = (peer_bands.gaussian_process(sample, rng, response) for response in (False, True))
    assert np.all(y[1] - y[0] > f[1] - f[0])
    assert np.all((f[0] < np.sin(X[::4, 0]) + 0.5) & (f[1] > np.sin(X[::4, 0]) - 0.5))


@pytest.mark.parametrize("band", ["mapie_split", "mapie_cv_plus"])
def test_conformal_intervals_cover_responses(band: str) -> None:
    (task,) = plan(f"bands=[{band}]", "data_sets=30", "rows=100", "points=41")
    assert run(task).arrays["share"].mean() == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("band", sorted(PEERS))
def test_a_band_is_the_same_from_the_same_seed(band: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    y = features(X) @ rng.standard_normal(8) + 0.3 * rng.laplace(size=60)
    sample = Sample(X, y, np.linspace(-2.0, 2.0, 7)[:, None], 5, 50, 50, 5)
    first, again = (PEERS[band].compute(sample, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_a_small_run_is_summarised(tmp_path: Path) -> None:
    request, _ = read_request([NAME, "scale=smoke", NUMPY])
    records = [record(task) for task in plan(NUMPY) if task.axes["band"] != "mapie_split"]
    found = {s.name for s in band_comparison.summarise(Report(request, records, tmp_path, "note"))}  # type: ignore[arg-type]
    assert "band_width[noise=laplace,band=bootstrap]" in found
    table = band_comparison.band_table([r for r in records if r.axes["band"] == "region_ellipsoid"])
    assert table["n"].tolist() == [2]
    assert table["low"].iloc[0] <= table["simultaneous"].iloc[0] <= table["high"].iloc[0]
    caption = (tmp_path / "tables/function_coverage.md").read_text(encoding="utf-8").splitlines()[0]
    assert "Without conformal, split (MAPIE)" in caption  # its task has ended without a record to use
    assert (tmp_path / "tables/function_coverage.csv").is_file()
    assert (tmp_path / "figures/band_comparison.png").is_file()


def test_regions_hold_the_function() -> None:
    """At least the stated 0.9, were it exact: 40 data sets leave it above 0.75 but once in a thousand."""
    for task in plan(REGION, "data_sets=40", "rows=60")[:2]:
        assert run(task).arrays["everywhere"].mean() > 0.75


def test_a_band_of_a_library_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = r"(?s)bands=mapie_split.*not installed.*gpsuite\[peers\].*bands=\[gp_credible\]"
    with pytest.raises(UserError, match=said):
        plan("bands=[gp_credible,mapie_split]")
    assert plan("bands=[gp_credible]")  # needs no other library
