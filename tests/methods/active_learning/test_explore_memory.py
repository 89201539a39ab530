"""Memory of an exploration, in a process of its own: libraries loaded by other tests would hide what it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RESIDENT = Path("/proc/self/statm")

# Sine and sigmoid as published, with half the particles; prints the resident pages after 5 and 40 models.
EXPLORATION = """
import numpy as np
from gpsuite.experiments.active_learning.repetitions import ToyData, toy_repetition
from gpsuite.experiments.active_learning.exploration import oracle_of, problem_of
from gpsuite.methods.active_learning.exploration import explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.acquisition import PIPELINES
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

data = ToyData(seed=0, form="paper", initial=12, pool_rows=200, unequal="equal", offers="pairs")
repetition = toy_repetition(data, "partial")
explorer = explore(
    problem_of(repetition, 0.05),
    PIPELINES["AL_MOGP"],
    oracle_of(repetition),
    np.random.default_rng(0),
    40,
    InferenceSettings(smc=SMCSettings(particles=64)),
    when_nothing_is_safe="safest",
)
moves = 0
for step in explorer:
    moves += step.diagnostics["main"]["temperatures"] > 0.0
    if step.index + 1 in (5, 40):
        with open("/proc/self/statm") as pages:
            print(pages.read().split()[1])
print(moves)
"""


@pytest.mark.skipif(not RESIDENT.exists(), reason="resident memory is read from /proc")
def test_memory_is_flat() -> None:
    """Buffers are made for the last model at the start, so that only their pages' first use adds a little."""
    ended = subprocess.run([sys.executable, "-c", EXPLORATION], capture_output=True, text=True, check=True)
    early, late, moves = map(int, ended.stdout.split())
    assert moves >= 5  # predictions were computed anew several times
    assert late <= 1.1 * early
