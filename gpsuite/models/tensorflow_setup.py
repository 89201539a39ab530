"""Threads, precision and logging of TensorFlow, set only here."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np

QUIET_LOG_LEVEL = "3"
_THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def configure(threads: int | None = None) -> None:
    """Import TensorFlow quietly, with a fixed number of threads and float64 as GPflow's default.

    Call it before any other import of TensorFlow. Calling it again with the same number does nothing. Messages of
    TensorFlow's C++ side are hidden unless `TF_CPP_MIN_LOG_LEVEL` requests them.

    Args:
        threads: number of threads for both the intra-op and the inter-op pool. None: the number of the environment (the
            engine), otherwise 1. If a user started TensorFlow before, as in a notebook, its number is kept.

    Raises:
        ValueError: if `threads` is below 1.
        RuntimeError: if TensorFlow already runs with another number of threads than is requested.
    """
    asked_before = os.environ.get(_THREAD_VARIABLES[0])
    asked = threads is not None or asked_before is not None
    if threads is None:
        threads = int(asked_before or "1")
    if threads < 1:
        raise ValueError(f"threads={threads}: at least 1 is needed")
    already_imported = "tensorflow" in sys.modules
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", QUIET_LOG_LEVEL)
    if not already_imported:
        for name in _THREAD_VARIABLES:
            os.environ[name] = str(threads)
    tensorflow, gpflow = _import_quietly()
    try:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    except RuntimeError as error:
        # TensorFlow was started elsewhere: its threads came from the environment.
        if asked and asked_before != str(threads):
            raise RuntimeError(
                f"TensorFlow runs already and cannot change to {threads} threads. Configure it first"
            ) from error
    gpflow.config.set_default_float(np.float64)
    # every fit compiles a new step, and TensorFlow would warn of retracing
    tensorflow.get_logger().setLevel("ERROR")


def _import_quietly() -> tuple[ModuleType, ModuleType]:
    if "gpflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] != QUIET_LOG_LEVEL:
        return _import_both()
    with _without_start_messages():
        return _import_both()


def _import_both() -> tuple[ModuleType, ModuleType]:
    tensorflow = importlib.import_module("tensorflow")
    # GPflow rewrites the docstrings of its functions at import: a quarter of the time
    importlib.import_module("check_shapes").set_rewrite_docstrings(None)
    return tensorflow, importlib.import_module("gpflow")


@contextmanager
def _without_start_messages() -> Iterator[None]:
    """Hide what is written to file descriptor 2. Show it if the block fails.

    TensorFlow writes some lines before its log level has an effect. They do not go through Python's sys.stderr.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
