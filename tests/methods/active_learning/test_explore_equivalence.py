"""The exploration against the loop written out plainly, and against itself when it is broken off and continued."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.methods.active_learning.acquisition import PIPELINES, Pipeline
from gpsuite.methods.active_learning.exploration import Step, explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.models.sampling.hamiltonian import HMCSettings
from gpsuite.models.sampling.posterior import OptimumSettings
from tests.methods.active_learning.exploration_problems import AL, SMALL, run, tiny
from tests.methods.active_learning.naive_exploration import ROUNDING, naive_loop

QUICK = {
    "smc": SMALL,
    "hmc": replace(
        SMALL,
        kind="hmc",
        hmc=HMCSettings(burn_in=25, adaptation=20, step=0.1, samples=5, thinning=1, leapfrog=3),
    ),
    "map": replace(SMALL, kind="map", optimum=OptimumSettings(starts=1, evaluations=30)),
    "ml": replace(SMALL, kind="ml", optimum=OptimumSettings(starts=1, evaluations=10)),
}
VARIANTS = [
    *PIPELINES.values(),
    Pipeline("full", queries="full"),
    Pipeline("full random", queries="full", acquisition="random"),
    Pipeline("convolution", mixing="convolution"),
    Pipeline("squared exponential", kernel="squared_exponential"),
]


@pytest.mark.parametrize("pipeline", VARIANTS, ids=lambda pipeline: pipeline.name)
def test_the_exploration_is_the_loop_written_out_plainly(pipeline: Pipeline) -> None:
    check_against_naive_loop(pipeline, SMALL)


@pytest.mark.parametrize("kind", ["hmc", "map", "ml"])
def test_so_it_is_with_every_inference(kind: str) -> None:
    check_against_naive_loop(AL, QUICK[kind])


def check_against_naive_loop(pipeline: Pipeline, how: InferenceSettings) -> None:
    problem, truth = tiny()
    explorer, steps = run(problem, truth, pipeline, settings=how)
    assert explorer.status == "done"
    plain = naive_loop(problem, pipeline, truth, 7, 6, how)
    for step, naive in zip(steps, plain, strict=True):
        assert (step.row, step.p) == naive["query"]
        np.testing.assert_allclose(step.entropy, naive["entropy"], rtol=ROUNDING)
        if pipeline.safe:
            np.testing.assert_allclose(step.probabilities, naive["probabilities"], atol=ROUNDING)  # type: ignore[arg-type]
        judged = step.monitors["test"]
        np.testing.assert_allclose(judged.mean, naive["mean"], atol=ROUNDING)
        np.testing.assert_allclose(judged.variance, naive["variance"], atol=ROUNDING)
        np.testing.assert_allclose(judged.log_density, naive["log_density"], rtol=ROUNDING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pipeline", "how"),
    [
        *(pytest.param(pipeline, SMALL, id=pipeline.name) for pipeline in VARIANTS),
        *(pytest.param(AL, how, id=kind) for kind, how in QUICK.items() if kind != "smc"),
        pytest.param(AL, replace(SMALL, pool_members=5), id="members"),
    ],
)
def test_a_saved_exploration_continues_bit_by_bit(
    pipeline: Pipeline, how: InferenceSettings, tmp_path: Path
) -> None:
    problem, truth = tiny()
    _, whole = run(problem, truth, pipeline, settings=how)
    for after in (0, 4):
        rng = np.random.default_rng(7)
        broken = explore(problem, pipeline, truth.oracle, rng, 6, how)
        for _ in range(after):
            next(broken)
        np.savez(tmp_path / "state.npz", **broken.state())
        with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
            _, rest = run(problem, truth, pipeline, seed=99, settings=how, resume=dict(saved))
        assert len(rest) == len(whole) - after
        for first, second in zip(whole[after:], rest, strict=True):
            assert_same(first, second)


def assert_same(first: Step, second: Step) -> None:
    for name, value in vars(first).items():
        if name == "seconds":
            continue
        other = getattr(second, name)
        if name == "monitors":
            for key, judged in value.items():
                np.testing.assert_array_equal(judged.mean, other[key].mean)
                np.testing.assert_array_equal(judged.variance, other[key].variance)
                np.testing.assert_array_equal(judged.log_density, other[key].log_density)
        else:
            np.testing.assert_equal(value, other)
