"""Settings every experiment has, typed."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require

SCALES = ("smoke", "quick", "paper")


@dataclass
class BudgetSettings:
    """Limits of one task; None means no limit."""

    seconds: float | None = None


@dataclass
class ParallelSettings:
    """Where tasks run: mode auto, serial or processes; workers, by default one per core."""

    mode: str = "auto"
    workers: int | None = None


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
        seconds, workers, name = self.budget.seconds, self.parallel.workers, self.run_name
        require(seconds is None or seconds > 0, "budget.seconds", seconds, "must be above 0")
        require(workers is None or workers >= 1, "parallel.workers", workers, "must be 1 or more")
        plain = name is None or (name != "" and not set(name) & set("/\\~\0") and not name.startswith("."))
        require(plain, "run_name", name, "must be a plain folder name without / \\ ~")
