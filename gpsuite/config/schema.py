"""Settings every experiment has, typed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated

from gpsuite.errors import UserError
from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Rule, at_least, one_of

SCALES = ("smoke", "quick", "paper")
ON_ERROR = ("continue", "raise")
OUTPUTS = ("text", "quiet", "json")
MODES = ("auto", "serial", "processes", "dask")


limit = Rule(lambda seconds: 0 < seconds < math.inf, "must be above 0 and finite; leave it out for no limit")
place = Rule(bool, "must be a folder")
plain_name = Rule(
    lambda name: 0 < len(name.encode()) <= 150 and not set(name) & set("/\\~\0") and not name.startswith("."),
    "must be a plain folder name without / \\ ~, of at most 150 bytes",
)


@dataclass
class BudgetSettings:
    """Limits of one task; None means no limit.

    Attributes:
        seconds: wall-clock limit of a task; the best valid answer is kept, and done again when the limit grows.
    """

    seconds: Annotated[float, limit] | None


@dataclass
class ParallelSettings:
    """Where tasks run.

    Attributes:
        mode: serial below about a minute of work, else processes; the numbers do not depend on it.
        workers: worker processes, by default one per core, or all of a cluster's.
        address: of a running Dask scheduler, `tcp://host:port`; with mode dask only.
    """

    mode: Annotated[str, one_of(MODES)]
    workers: Count | None = None
    address: str | None = None

    def check(self) -> None:
        """Refuse an address that is missing, is none, or has no use."""
        address = self.address
        if self.mode != "dask":
            require(address is None, "parallel.address", address, f"needs parallel=dask, not {self.mode}")
            return
        if address is None:
            raise UserError(
                "parallel.address: missing; say where the Dask scheduler listens: parallel.address=tcp://HOST:PORT",
                key="parallel.address",
            )
        valid = re.fullmatch(r"(tcp|tls|wss?)://.+:\d{1,5}", address) is not None
        require(valid, "parallel.address", address, "must be tcp://HOST:PORT or tls://HOST:PORT")


@dataclass
class RunSettings:
    """Settings every experiment has; conf/config.yaml gives them. All but `seed` and `scale` are comfort.

    Attributes:
        seed: of everything random; another seed is another repetition.
        scale: the smallest run, the default, or the paper's own setting.
        budget: limits of one task.
        parallel: where tasks run.
        threads: of BLAS and TensorFlow, per process.
        results_dir: where results go, taken literally but for a leading `~`.
        data_dir: where downloaded data are kept, likewise.
        run_name: part of the folder's name in place of a hash of the changed settings, taken literally.
        force: compute again what is stored.
        on_error: go on with other tasks when one fails, or stop.
        wait: wait for another run of the same folder instead of giving up.
        output: the answer and the paths as text, only the folder, or one JSON object a run on stdout.
        debug: show tracebacks of wrong input.
    """

    seed: Annotated[int, at_least(0)]
    scale: Annotated[str, one_of(SCALES)]
    budget: BudgetSettings
    parallel: ParallelSettings
    threads: Count
    results_dir: Annotated[str, place]
    data_dir: Annotated[str, place]
    run_name: Annotated[str, plain_name] | None
    force: bool
    on_error: Annotated[str, one_of(ON_ERROR)]
    wait: bool
    output: Annotated[str, one_of(OUTPUTS)]
    debug: bool
