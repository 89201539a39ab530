from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gpsuite.models.tensorflow_setup import _without_start_messages, configure

SCRIPT = """
from gpsuite.models.tensorflow_setup import configure
configure(2)
configure(2)
import gpflow, tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 2
assert tf.config.threading.get_inter_op_parallelism_threads() == 2
assert tf.linalg.cholesky(tf.eye(2, dtype=gpflow.default_float())).dtype == tf.float64
configure(2)
try:
    configure(1)
except RuntimeError as error:
    print(error)
"""


def test_a_fresh_process_is_silent_and_keeps_threads_and_precision() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "cannot change to 1 threads" in run.stdout


STARTED_BY_ITS_USER = """
import gpflow, numpy as np, tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(2)
gpflow.kernels.RBF()(np.zeros((1, 1)))  # runs, with two threads and GPflow's settings as they are
from gpsuite.methods.wasserstein import ClassifierOptions, TrainingOptions, fit_classifier, split_rows
rng = np.random.default_rng(0)
rows = split_rows(rng.normal(size=(20, 2)), np.arange(20) % 2, 0.2, rng)
fitted = fit_classifier("map", rows, 2, ClassifierOptions(TrainingOptions(epochs=1, batches=(8,))))
print(fitted.predict(np.zeros((1, 2))).probabilities.shape, tf.config.threading.get_intra_op_parallelism_threads())
from gpsuite.models.tensorflow_setup import configure
try:
    configure(1)
except RuntimeError as error:
    print(error)
"""


def test_a_tensorflow_that_its_user_started_is_taken_as_it_is() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    run = subprocess.run(
        [sys.executable, "-c", STARTED_BY_ITS_USER], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("(1, 2) 2\n") and "cannot change to 1 threads" in run.stdout


def test_repeated_call_is_harmless() -> None:
    import tensorflow as tf

    configure(1)
    configure(1)
    assert tf.config.threading.get_intra_op_parallelism_threads() == 1


def test_threads_must_be_positive() -> None:
    with pytest.raises(ValueError, match="threads=0"):
        configure(0)


def test_what_is_written_while_importing_is_shown_only_if_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with _without_start_messages():
        os.write(2, b"held back\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    with pytest.raises(ImportError), _without_start_messages():
        os.write(2, b"first\n")
        os.write(2, b"second\n")
        raise ImportError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "first\nsecond\nafter\n"


def test_a_running_tensorflow_keeps_its_threads() -> None:
    import gpflow
    import tensorflow as tf

    configure(1)
    tf.constant(1.0)  # TensorFlow runs from here on
    gpflow.config.set_default_float("float32")
    configure()
    assert gpflow.default_float() is np.float64
    with pytest.raises(RuntimeError, match="cannot change to 2 threads"):
        configure(2)
