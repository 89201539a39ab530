"""States on disk: what is read is what was written, and a killed training ends as one that was not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.training import StateFolder, TrainingState, train
from tests.methods.wasserstein.test_training import OPTIONS, ROWS, Linear

ARRAYS = (np.ones(3), np.zeros((2, 2)))
STATE = TrainingState(
    epoch=2,
    values=(np.arange(3.0), np.eye(2, dtype=np.float32)),
    first=ARRAYS,
    second=ARRAYS,
    best=ARRAYS,
    learning_rate=0.01,
    batch=64,
    scores=(1.5, 0.7),
    evaluations=9,
)
KILLED = """
import os, signal, sys
from pathlib import Path
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.training import StateFolder
from gpsuite.methods.wasserstein.training import train
from tests.methods.wasserstein.test_training import OPTIONS, ROWS, Linear
folder = StateFolder(Path(sys.argv[1]), seconds=0.0)
def keep(state):
    folder.save("model", state)
    if state.epoch == 3:
        os.kill(os.getpid(), signal.SIGKILL)
train(Linear(0.3), ROWS, OPTIONS, 7, Budget(), keep=keep)
"""


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    StateFolder(tmp_path, seconds=0.0).save("member-1", STATE)
    found = StateFolder(tmp_path).load("member-1")
    assert found is not None
    assert (found.epoch, found.learning_rate, found.batch, found.scores, found.evaluations) == (
        2,
        0.01,
        64,
        (1.5, 0.7),
        9,
    )
    for name in ("values", "first", "second", "best"):
        for ours, theirs in zip(getattr(found, name), getattr(STATE, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    assert StateFolder(tmp_path).load("member-0") is None


def test_states_are_not_written_all_the_time_and_damaged_ones_not_believed(tmp_path: Path) -> None:
    StateFolder(tmp_path, seconds=60.0).save("model", STATE)
    assert not list(tmp_path.iterdir())
    StateFolder(tmp_path, seconds=0.0).save("model", STATE)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:200])
    assert StateFolder(tmp_path).load("model") is None
    StateFolder(path / "no folder", seconds=0.0).save("model", STATE)  # refused by the system: no matter


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_end(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    start = StateFolder(tmp_path).load("model")
    assert start is not None
    assert start.epoch == 3
    again = train(Linear(0.3), ROWS, OPTIONS, 7, Budget(), start=start).state
    whole = train(Linear(0.3), ROWS, OPTIONS, 7, Budget()).state
    assert again.scores == whole.scores
    np.testing.assert_array_equal(again.values[0], whole.values[0])


def test_a_state_with_a_flipped_bit_is_none_or_read(tmp_path: Path) -> None:
    arrays = (np.ones((2, 2)),)
    states = StateFolder(tmp_path, 0)
    states.save("part", TrainingState(1, arrays, arrays, arrays, arrays, 0.1, 8, (1.0, 2.0), 3))
    whole = (tmp_path / "part.npz").read_bytes()
    central = whole.index(b"PK\x01\x02")
    for bit in range(8 * central, 8 * (central + 46)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "part.npz").write_bytes(damaged)
        states.load("part")
