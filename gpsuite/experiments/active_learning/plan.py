"""active_learning/plan: the next safe measurements for the user's own table; a longer table continues."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.plan_figure import draw_plan, input_columns
from gpsuite.experiments.active_learning.plan_history import (
    ABOUT,
    STATE,
    VERSION,
    about,
    find_start,
    new_planner,
    question,
    safety_of,
    unpack,
)
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    only_arrays,
    require,
)
from gpsuite.methods.active_learning.plan_answer import NothingToMeasureError, Plan
from gpsuite.methods.active_learning.plan_effort import plan_seconds
from gpsuite.models.sequential_monte_carlo import SMCSettings
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed

if TYPE_CHECKING:
    import pandas as pd

MOST_PER_PLAN = 100
LONGEST_STEP = 1e6
WARNINGS_APART = " | "
ALL_OUTPUTS = -1  # in the array of proposed outputs
CHOICES = {
    "queries": ("partial", "full"),
    "when_nothing_is_safe": ("stop", "safest"),
    "mixing": ("free", "identity"),
    "kernel": ("matern52", "squared_exponential"),
}
UNITS = (
    "expected value and sd (noise-free) in own units; entropy in nats of the output in standard deviations of its "
    "measured values, as if the proposals before were measured"
)
PROMISE = (
    "probability_safe is the model's estimate, tried on made-up functions, no guarantee: a cliff that no measurement "
    "hints at is not foreseen"
)
OWN_COLUMNS = (
    "order",
    "candidate",
    "measure",
    "entropy",
    "probability_safe",
    "expected value",
    "expected sd",
)


@dataclass
class PlanSettings:
    """Settings of a measurement plan.

    Attributes:
        measurements: how many to propose.
        delta: a proposal must be safe with probability above 1 - delta.
        step: while the safety value has hardly varied, no input of a proposal lies more than this many measured ranges
            outside its measured range.
        queries: `partial`: one output per measurement; `full`: all outputs.
        when_nothing_is_safe: `stop` as infeasible, or propose one measurement at the `safest` candidate.
        mixing: `free`: correlated outputs (linear model of coregionalisation); `identity`: independent ones.
        kernel: of the latent processes and of the safety model.
        particles: of the posterior of the hyperparameters, at most: large tables get fewer, never below 32.
        moves: trajectories per particle after each resampling.
        leapfrog: steps per trajectory.
    """

    measurements: int = 3
    delta: float = 0.05
    step: float = 0.15
    queries: str = "partial"
    when_nothing_is_safe: str = "stop"
    mixing: str = "free"
    kernel: str = "matern52"
    particles: int = 128
    moves: int = 3
    leapfrog: int = 10

    def check(self) -> None:
        """Refuse impossible values."""
        fits = 1 <= self.measurements <= MOST_PER_PLAN
        require(fits, "measurements", self.measurements, f"must be from 1 to {MOST_PER_PLAN}")
        require(0.0 < self.delta < 1.0, "delta", self.delta, "must lie between 0 and 1")
        require(
            0.0 <= self.step <= LONGEST_STEP, "step", self.step, f"must lie between 0 and {LONGEST_STEP:g}"
        )
        for name, valid in CHOICES.items():
            value = getattr(self, name)
            require(value in valid, name, value, f"valid: {', '.join(valid)}")
        for name, least in (("particles", 2), ("moves", 1), ("leapfrog", 1)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")


def plan(request: Request) -> list[Task]:
    """Return one task; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: if nothing is left to measure.
    """
    settings: PlanSettings = request.settings
    dataset = _dataset(request)
    data = load(dataset)
    params: dict[str, Any] = {
        "kind": "active_learning_plan",
        "seed": derived_seed(request.seed, "plan"),
        **vars(settings),
    }
    planner = new_planner(data, params)
    planner.tell(data.X, data.y, safety_of(data).z)
    try:
        planner.check(_candidates(data))
    except NothingToMeasureError as error:
        raise UserError(f"dataset.candidates: {error}; add candidates", key="dataset.candidates") from error
    start = find_start(Path(str(request.options.get("results_dir", "results"))), dataset, params)
    carried = {"state": start.state, "parent": start.parent, "question": question(dataset, params)}
    return [
        Task(
            request.experiment,
            start.told,
            {},
            {**params, **carried},
            dataset,
            VERSION,
            cost=_seconds(data, settings, start.state is not None),
            budget_seconds=request.budget_seconds,
        )
    ]


def run(task: Task, shared: SharedWork) -> Outcome:
    """Learn what is new in the table and ask for the next measurements."""
    if task.dataset is None:
        raise ValueError("a task of active_learning/plan needs a dataset")
    params, data = task.params, load(task.dataset)
    planner = new_planner(data, params)
    if params["state"] is not None:
        planner.restore(unpack(params["state"]))
    planner.tell(data.X, data.y, safety_of(data).z)
    budget = Budget(seconds=task.budget_seconds, observer=shared.observer)
    found = planner.ask(_candidates(data), params["measurements"], params["when_nothing_is_safe"], budget)
    metrics: dict[str, float | int | str | bool | None] = {
        "values": planner.n_values,
        "candidates": len(_candidates(data)),
        "safe_candidates": found.n_safe,
        "beyond_step": found.n_beyond_step,
        "proposals": len(found.proposals),
        "started": found.started,
        "note": found.reason,
        "warnings": WARNINGS_APART.join(found.warnings),
    }
    for model, diagnostics in found.diagnostics.items():
        metrics |= {f"{model}_{name}": finite_or_none(value) for name, value in diagnostics.items()}
    arrays = {f"{STATE}{name}": values for name, values in planner.state().items()}
    return Outcome(
        metrics,
        status=found.status,
        reason=found.reason if found.status != "done" else "",
        arrays={
            **arrays,
            **_arrays(found),
            ABOUT: about(data, params, task.label),
        },
        headline=f"{len(found.proposals)} proposals, {found.n_safe} of {metrics['candidates']} candidates safe",
    )


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Print and write the proposals in the user's units, and how the posteriors came about; draw the state."""
    data, record = load(_dataset(request)), records[0]
    settings: PlanSettings = request.settings
    proposals = proposal_table(record, data)
    safe = _safe(record, data, settings)
    caption = f"Next measurements: {safe}; {UNITS}{f' ({note})' if note else ''}"
    write_table(proposals, folder / "tables", "plan", caption)
    write_table(inference_table(record), folder / "tables", "plan_inference", f"Inference; {record.label}")
    print(f"{record.label}; {safe}\n{proposals.to_string(index=False, float_format='{:.6g}'.format)}")
    if record.metrics["note"]:
        print(record.metrics["note"])
    print(f"{UNITS}\n{PROMISE}")
    for warning in str(record.metrics["warnings"]).split(WARNINGS_APART):
        if warning:
            print(f"warning: {warning}", file=sys.stderr)
    draw_plan(record, data, settings.delta, folder / "figures", note)
    n = int(record.number("candidates"))
    return [Statistic("safe_candidates", record.number("safe_candidates"), n=n)]


def proposal_table(record: Record, data: Dataset) -> pd.DataFrame:
    """Return one row per proposed measurement, in its order: candidate, what to measure, entropy, safety, expectation.

    Candidates are counted from 1, as the rows of their file.
    """
    import pandas as pd

    arrays, grid = record.arrays, _candidates(data)
    rows = []
    for order, (row, p) in enumerate(zip(arrays["row"], arrays["output"], strict=True), 1):
        line: dict[str, object] = {"order": order, "candidate": int(row) + 1}
        line |= dict(zip(input_columns(data, OWN_COLUMNS), grid[row], strict=True))
        line["measure"] = "all outputs" if p == ALL_OUTPUTS else data.target_names[p]
        line["entropy"] = arrays["proposal_entropy"][order - 1]
        line["probability_safe"] = arrays["probability_safe"][row]
        if p == ALL_OUTPUTS:
            for q, name in enumerate(data.target_names):
                line |= {f"expected {name}": arrays["mean"][row, q], f"sd {name}": arrays["sd"][row, q]}
        else:
            line |= {"expected value": arrays["mean"][row, p], "expected sd": arrays["sd"][row, p]}
        rows.append(line)
    return pd.DataFrame(rows)


def inference_table(record: Record) -> pd.DataFrame:
    """Return the sampler's diagnostics, one row per model."""
    import pandas as pd

    names = ("ess", "acceptance", "unmoved", "step_size", "temperatures", "restarted", "log_evidence")
    rows = [
        {"model": model, "started": record.metrics["started"]}
        | {name: record.number(f"{model}_{name}") for name in names}
        for model in ("outputs", "safety")
    ]
    return pd.DataFrame(rows)


def _arrays(found: Plan) -> Mapping[str, np.ndarray[Any, Any]]:
    outputs = [ALL_OUTPUTS if each.p is None else each.p for each in found.proposals]
    return {
        "row": np.array([each.row for each in found.proposals], dtype=np.int64),
        "output": np.array(outputs, dtype=np.int64),
        "proposal_entropy": np.array([each.entropy for each in found.proposals], dtype=np.float64),
        "probability_safe": found.probability_safe,
        "safe": found.safe,
        "mean": found.mean,
        "sd": found.sd,
        "entropy": found.entropy,
    }


def _seconds(data: Dataset, settings: PlanSettings, warm: bool) -> float:
    """Return the CPU seconds to expect, roughly."""
    measured = [int((~np.isnan(values)).sum()) for values in (data.y, safety_of(data).z)]
    return plan_seconds(
        *measured,
        outputs=len(data.target_names),
        candidates=len(_candidates(data)),
        measurements=settings.measurements,
        smc=SMCSettings(settings.particles, settings.moves, settings.leapfrog),
        warm=warm,
    )


def _safe(record: Record, data: Dataset, settings: PlanSettings) -> str:
    column = safety_of(data)
    sign = "at least" if column.side == "above" else "at most"
    return (
        f"{column.name} is {sign} {column.limit:g} with probability above {1.0 - settings.delta:g} at "
        f"{record.number('safe_candidates'):g} of {record.number('candidates'):g} candidates"
    )


def _candidates(data: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    if data.grid is None:
        raise ValueError(f"{data.name} has no candidates")
    return data.grid


def _dataset(request: Request) -> PreparedDataset:
    if request.dataset is None:
        raise UserError("dataset: active_learning/plan needs one", key="dataset")
    return request.dataset


EXPERIMENTS.register("active_learning/plan")(
    Experiment(
        PlanSettings,
        plan,
        run,
        summarise,
        dataset_tasks=("measurements",),
        published=only_arrays(
            "row", "output", "p*", "mean", "sd", "entropy", "safe"
        ),  # not the state: it holds data
    )
)
