"""Settings every experiment has, typed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from gpsuite.errors import UserError
from gpsuite.experiments.base import require

SCALES = ("smoke", "quick", "paper")
MODES = ("auto", "serial", "processes", "dask")


@dataclass
class BudgetSettings:
    """Limits of one task; None means no limit."""

    seconds: float | None = None


@dataclass
class ParallelSettings:
    """Where tasks run.

    Attributes:
        mode: one of `MODES`.
        workers: worker processes, by default one per core, or all of a cluster's.
        address: of a running Dask scheduler, `tcp://host:port`; with mode dask only.
    """

    mode: str = "auto"
    workers: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Raise `UserError` for values of the right type that are impossible, or do not go together."""
        require(self.mode in MODES, "parallel.mode", self.mode, f"valid: {', '.join(MODES)}")
        workers, address = self.workers, self.address
        require(workers is None or workers >= 1, "parallel.workers", workers, "must be 1 or more")
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
    """Settings every experiment has. All but `seed` are comfort: they change no number."""

    seed: int = 0
    scale: str = "quick"
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    parallel: ParallelSettings = field(default_factory=ParallelSettings)
    threads: int = 1
    results_dir: str = "results"
    data_dir: str = "data"
    run_name: str | None = None
    force: bool = False
    on_error: str = "continue"
    wait: bool = False
    debug: bool = False

    def check(self) -> None:
        """Raise `UserError` for values of the right type that are impossible."""
        require(self.seed >= 0, "seed", self.seed, "must be 0 or more")
        require(self.threads >= 1, "threads", self.threads, "must be 1 or more")
        require(self.on_error in ("continue", "raise"), "on_error", self.on_error, "valid: continue, raise")
        self.parallel.check()
        seconds, name = self.budget.seconds, self.run_name
        limit = seconds is None or 0 < seconds < math.inf
        require(limit, "budget.seconds", seconds, "must be above 0 and finite; leave it out for no limit")
        plain = name is None or (name != "" and not set(name) & set("/\\~\0") and not name.startswith("."))
        require(plain, "run_name", name, "must be a plain folder name without / \\ ~")
