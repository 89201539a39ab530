"""How and where to run; none of it changes a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunOptions:
    """Comfort settings: how and where to run; none of them changes a number.

    Attributes:
        results_dir: where results go.
        tag: part of the run folder's name when the settings differ from the shipped ones.
        named: whether the tag was chosen by the user (`run_name=`).
        science: hash of everything that decides the numbers.
        changed: the science keys that differ from the shipped experiment.
        parts: those of them that are a part of the shipped setting, in words.
        mode: auto, serial, processes or dask.
        workers: number of worker processes, or None for one per core (dask: all there are).
        address: where the Dask scheduler listens, for mode dask.
        threads: BLAS and TensorFlow threads per process.
        force: compute again what is stored.
        raise_errors: stop at the first failed task.
        wait: wait for another run of the same folder instead of giving up.
        output: what a run tells: `text`, `quiet` (on stderr only what went wrong) or `json`.
        command: the words the user typed.
        conf_dir: where conf/ is.
        meta: the experiment file's meta block.
    """

    results_dir: Path
    conf_dir: Path
    tag: str | None = None
    named: bool = False
    science: str = ""
    changed: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    mode: str = "auto"
    workers: int | None = None
    address: str | None = None
    threads: int = 1
    force: bool = False
    raise_errors: bool = False
    wait: bool = False
    output: str = "text"
    command: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
