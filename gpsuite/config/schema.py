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
MODES = ("auto", "serial", "processes", "dask")


limit = Rule(lambda seconds: 0 < seconds < math.inf, "must be above 0 and finite; leave it out for no limit")
plain_name = Rule(
    lambda name: name != "" and not set(name) & set("/\\~\0") and not name.startswith("."),
    "must be a plain folder name without / \\ ~",
)


@dataclass
class BudgetSettings:
    """Limits of one task; None means no limit."""

    seconds: Annotated[float, limit] | None


@dataclass
class ParallelSettings:
    """Where tasks run.

    Attributes:
        mode: one of `MODES`.
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
    """Settings every experiment has; conf/config.yaml gives them. All but `seed` are comfort: they change no number."""

    seed: Annotated[int, at_least(0)]
    scale: str
    budget: BudgetSettings
    parallel: ParallelSettings
    threads: Count
    results_dir: str
    data_dir: str
    run_name: Annotated[str, plain_name] | None
    force: bool
    on_error: Annotated[str, one_of(("continue", "raise"))]
    wait: bool
    debug: bool
