"""Settings of active_learning/plan."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from gpsuite.data.dataset import Dataset, SafetyColumn
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.spec import json_hash
from gpsuite.errors import UserError, unknown
from gpsuite.experiments.active_learning.exploration import KERNELS, WHEN_NOTHING_IS_SAFE
from gpsuite.experiments.active_learning.methods import MIXINGS, QUERIES
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.settings import Count, Rule, Share, at_least, one_of, within
from gpsuite.experiments.tasks import INLINE, choice, left_out_as, plain, take
from gpsuite.methods.active_learning.acquisition import Kernel, Mixing, Pipeline, Queries
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, NothingToMeasureError
from gpsuite.methods.active_learning.plan.optimum import Goal
from gpsuite.methods.active_learning.plan.predictions import plan_seconds
from gpsuite.methods.active_learning.plan.safety import SafetyGuard
from gpsuite.methods.active_learning.problem import SafetyLimit, WhenNothingIsSafe
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.reporting.files import read_bytes
from gpsuite.seeds import derived_seed, stream
from gpsuite.text import typed_path
from gpsuite.untrusted import LARGEST_RECORD_ARRAYS, parse_json, unpack_arrays

MOST_PER_PLAN = 100
LEARN: Goal = "learn"
GOALS: tuple[Goal, ...] = (LEARN, "minimise", "maximise")
LONGEST_STEP = 1e6


in_reach = Rule(lambda step: 0.0 <= step <= LONGEST_STEP, f"must lie between 0 and {LONGEST_STEP:g}")


@dataclass
class PlanSettings:
    """Settings of a measurement plan.

    Attributes:
        measurements: number of measurements to propose.
        delta: a proposal must be safe with probability above 1 - delta.
        step: while the safety value has hardly varied, no input of a proposal lies more than this many measured ranges
            outside its measured range.
        queries: `partial`: one output per measurement. `full`: all outputs.
        when_nothing_is_safe: `stop` as infeasible, or propose one measurement at the `safest` candidate.
        mixing: `free`: correlated outputs (linear model of coregionalisation). `identity`: independent ones.
        kernel: kernel of the latent processes and of the safety model.
        particles: largest number of particles of the hyperparameters' posterior. Large tables get fewer, never below
            32.
        moves: trajectories per particle after each resampling.
        leapfrog: steps per trajectory.
        goal: `learn` proposes what tells most, `minimise` and `maximise` what improves an output.
        objective: name of the output to improve. Empty: the first.
    """

    measurements: Annotated[int, within(1, MOST_PER_PLAN)]
    delta: Share
    step: Annotated[float, in_reach]
    queries: Annotated[str, one_of(("partial", "full"))]
    when_nothing_is_safe: Annotated[str, one_of(("stop", "safest"))]
    mixing: Annotated[str, one_of(("free", "identity"))]
    kernel: Annotated[str, one_of(("matern52", "squared_exponential"))]
    particles: Annotated[int, at_least(2)]
    moves: Count
    leapfrog: Count
    goal: Annotated[str, one_of(GOALS)]
    objective: str


@dataclass(frozen=True, kw_only=True)
class PlannerParams:
    """Request to the planner, regardless of its start. Settings as `PlanSettings`."""

    seed: int
    measurements: int
    delta: float
    step: float
    queries: Queries
    when_nothing_is_safe: WhenNothingIsSafe
    mixing: Mixing
    kernel: Kernel
    particles: int
    moves: int
    leapfrog: int
    goal: Goal = field(default=LEARN, metadata=left_out_as(LEARN))
    objective: str = field(default="", metadata=left_out_as(""))
    kind: str = "active_learning_plan"


@dataclass(frozen=True)
class PlanTask:
    """One plan for a table as it is.

    Attributes:
        asked: of the planner.
        state: of the planner that it continues, as text; None: cold.
        parent: key of the record that holds this state; empty: cold.
        question: what identifies data and parameters, regardless of the plan's start.
    """

    asked: PlannerParams = field(metadata=INLINE)
    state: str | None
    parent: str
    question: str


# Earlier plans of the same experiment, kept in the results folder: a longer table continues from them.
#
# A plan's record holds the state of its planner (particles and random numbers). It outlives its run's folder.


Arrays = Mapping[str, npt.NDArray[Any]]
VERSION = 5


"""Of the method: 2 bounds what the safety model extrapolates, 3 asks the mixture itself, too, 4 counts equal readings,
5 leaves inputs far from all others and from every candidate out of the measured range.
Plans by another version are not continued."""


ABOUT, STATE = "about", "state_"
POSTERIOR = ("seed", "mixing", "kernel", "particles", "moves", "leapfrog")


"""Parameters that a continued plan shares with the earlier one. The number of measurements may change."""


@dataclass(frozen=True)
class Start:
    """Start of a plan.

    Attributes:
        state: of the planner that it continues, as text; None: cold.
        parent: key of the record that holds this state; empty: cold.
        told: for people.
    """

    state: str | None
    parent: str
    told: str


@dataclass(frozen=True, eq=False)
class _Earlier:
    key: str
    about: Mapping[str, Any]
    planner: MeasurementPlanner
    state: Arrays


def new_planner(data: Dataset, params: PlannerParams) -> MeasurementPlanner:
    """Return the planner of a dataset and what is asked, which knows no measurement yet."""
    column = safety_of(data)
    pipeline = Pipeline("plan", mixing=params.mixing, queries=params.queries, kernel=params.kernel)
    return MeasurementPlanner(
        SafetyLimit(column.limit, column.side),
        stream(params.seed, "plan"),
        pipeline=pipeline,
        delta=params.delta,
        smc=SMCSettings(params.particles, params.moves, params.leapfrog),
        guard=SafetyGuard(step=params.step),
        input_names=data.input_names,
        goal=params.goal,
        objective=objective_of(data, params),
    )


def objective_of(data: Dataset, params: PlannerParams) -> int:
    """Return the number of the output to be improved.

    Raises:
        UserError: if there is no output of this name.
    """
    if params.objective and params.objective not in data.target_names:
        raise unknown(
            f"objective={params.objective}: no output of this name", params.objective, data.target_names, "objective"
        )
    return data.target_names.index(params.objective) if params.objective else 0


def safety_of(data: Dataset) -> SafetyColumn:
    """Return the safety column of measurements."""
    if data.safety is None:
        raise ValueError(f"{data.name} has no safety column")
    return data.safety


def find_start(results_dir: Path, dataset: PreparedDataset, params: PlannerParams) -> Start:
    """Return the earlier plan that knows most of the table's values and none that is not in it, if there is one.

    The same question again starts where it started the first time, so that its record is found.
    """
    data = load(dataset)
    column = safety_of(data)
    earlier, others, unread = _earlier_plans(results_dir, data, params)
    for plan in earlier:
        if plan.about["question"] == question(dataset, params):
            parent = [other for other in earlier if other.key == plan.about["parent"]]
            if parent or not plan.about["parent"]:
                return _start(parent, plan.about["told"])
    table = new_planner(data, params)
    table.tell(data.X, data.y, column.z)
    lost = {plan.key: plan.planner.lost(data.X, data.y, column.z) for plan in earlier}
    known = [plan for plan in earlier if not lost[plan.key]]
    if known:
        best = max(known, key=lambda plan: (plan.planner.n_values, plan.key))
        new = table.n_values - best.planner.n_values
        return _start([best], f"{table.n_values} values, continues an earlier plan, {new} of them new{unread}")
    if earlier:
        nearest = min(earlier, key=lambda plan: (lost[plan.key], plan.key))
        told = f"starts cold: {lost[nearest.key]} of the {nearest.planner.n_values} values of an earlier plan"
        return _start([], f"{table.n_values} values, {told} are not in the table{unread}")
    if others:
        return _start([], f"{table.n_values} values, starts again: earlier plans {others}{unread}")
    return _start([], f"{table.n_values} values, first plan{unread}")


def question(dataset: PreparedDataset, params: PlannerParams) -> str:
    """Return what identifies data and parameters, regardless of the plan's start."""
    return json_hash([dataset.content_hash, sorted(plain(params).items())])


def about(data: Dataset, task: PlanTask, told: str) -> npt.NDArray[Any]:
    """Return the entry of a record by which later plans find its state; `told` says how it began."""
    entry = {"question": task.question, "parent": task.parent, "asked": _asked(data, task.asked)}
    lineage = _lineage(data, task.asked)
    return np.array(json.dumps({**entry, "lineage": lineage, "version": VERSION, "told": told}))


def unpack(text: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a state that was carried as text."""
    return unpack_arrays(base64.b64decode(text), LARGEST_RECORD_ARRAYS)


def _columns(data: Dataset) -> list[Any]:
    return [list(data.input_names), list(data.target_names), safety_of(data).name]


def _lineage(data: Dataset, params: PlannerParams) -> str:
    column = safety_of(data)
    posterior = [getattr(params, name) for name in POSTERIOR]
    return json_hash([_columns(data), column.limit, column.side, posterior])


def _asked(data: Dataset, params: PlannerParams) -> dict[str, Any]:
    """Return what plans that continue each other share, by the names that the user knows."""
    column, posterior = safety_of(data), {name: getattr(params, name) for name in POSTERIOR}
    return {"columns": _columns(data), "limit": [column.limit, column.side], **posterior}


def _differing(entry: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the request to an earlier plan of the same columns differed. Empty for other columns."""
    theirs = entry.get("asked", {})
    columns = [each.get("columns", []) for each in (theirs, asked)]
    if columns[0] != columns[1]:
        # inputs and outputs are lists of names
        ordered = [[sorted(map(str, part)) if isinstance(part, list) else part for part in each] for each in columns]
        return ("order of columns",) if ordered[0] == ordered[1] else ()
    return tuple(name for name, value in asked.items() if theirs.get(name) != value)


def _nearest(differing: Collection[tuple[str, ...]]) -> str:
    """Return how the request to the plan with the fewest other names differed. Empty if none differs."""
    nearest = min(sorted(filter(None, differing)), key=len, default=())
    return f"have another {', '.join(nearest)}" if nearest else ""


def _start(plans: Sequence[_Earlier], told: str) -> Start:
    if not plans:
        return Start(None, "", told)
    buffer = io.BytesIO()
    np.savez(buffer, **dict(sorted(plans[0].state.items())))
    return Start(base64.b64encode(buffer.getvalue()).decode(), plans[0].key, told)


def _earlier_plans(results_dir: Path, data: Dataset, params: PlannerParams) -> tuple[list[_Earlier], str, str]:
    """Return the plans of the same columns, limit and posterior settings, and what is said of the others.

    Each record is returned once. Said are what the nearest other plan was asked otherwise, and which files cannot be
    read.
    """
    found: dict[str, _Earlier] = {}
    damaged: dict[str, Path] = {}
    others, asked = "", _asked(data, params)
    differing: set[tuple[str, ...]] = set()
    for path in _kept(results_dir):
        try:
            stored = unpack_arrays(read_bytes(path), LARGEST_RECORD_ARRAYS)
            if path.stem in found or ABOUT not in stored:
                continue
            entry = parse_json(str(stored[ABOUT]).encode())
            if entry["lineage"] != _lineage(data, params):
                differing.add(_differing(entry, asked))
                continue
            if entry.get("version") != VERSION:
                others = "were made by another version of the method"
                continue
            state = {name.removeprefix(STATE): array for name, array in stored.items() if name.startswith(STATE)}
            planner = new_planner(data, params)
            planner.restore(state)
        except Exception:  # a damaged archive raises a dozen kinds, from zlib.error to MemoryError
            damaged[path.stem] = path
            continue
        found[path.stem] = _Earlier(path.stem, entry, planner, state)
    lost = [path for key, path in damaged.items() if key not in found]
    unread = f"; {len(lost)} kept before cannot be read, {lost[0]} for one" if lost else ""
    return list(found.values()), others or _nearest(differing), unread


def _kept(results_dir: Path) -> list[Path]:
    """Return the files of arrays in which states may be: of run folders, and of the store, which outlives them."""
    own = (results_dir / "active_learning" / "plan").glob("*/artifacts/*.npz")
    return [*sorted(own), *sorted((results_dir / ".records" / "active_learning").glob("*.npz"))]


def plan(request: Request[PlanSettings]) -> list[Task[PlanTask]]:
    """Return one task. The data are read, so that bad ones are refused before any work.

    Raises:
        UserError: if nothing is left to measure.
    """
    settings, dataset = request.settings, request.require_dataset()
    data, asked = load(dataset), _plan_asked(request)
    planner = new_planner(data, asked)
    planner.tell(data.X, data.y, safety_of(data).z)
    try:
        planner.check(candidate_inputs(data))
    except NothingToMeasureError as error:
        raise UserError(f"dataset.candidates: {error}. Add candidates", key="dataset.candidates") from error
    start = find_start(typed_path(str(request.options.get("results_dir", "results"))), dataset, asked)
    params = PlanTask(asked, start.state, start.parent, question(dataset, asked))
    cost = _seconds(data, settings, start.state is not None)
    return [request.task(params, label=start.told, axes={}, version=VERSION, cost=cost)]


def _plan_asked(request: Request[PlanSettings]) -> PlannerParams:
    settings = request.settings
    return take(
        PlannerParams,
        settings,
        seed=derived_seed(request.seed, "plan"),
        queries=choice(settings.queries, QUERIES),
        goal=choice(settings.goal, GOALS),
        when_nothing_is_safe=choice(settings.when_nothing_is_safe, WHEN_NOTHING_IS_SAFE),
        mixing=choice(settings.mixing, MIXINGS),
        kernel=choice(settings.kernel, KERNELS),
    )


def _seconds(data: Dataset, settings: PlanSettings, warm: bool) -> float:
    """Return the CPU seconds to expect, roughly."""
    measured = [int((~np.isnan(values)).sum()) for values in (data.y, safety_of(data).z)]
    return plan_seconds(
        *measured,
        outputs=len(data.target_names),
        candidates=len(candidate_inputs(data)),
        measurements=settings.measurements,
        smc=SMCSettings(settings.particles, settings.moves, settings.leapfrog),
        warm=warm,
    )


def candidate_inputs(data: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the inputs that may be measured next, in the user's units [C, D]."""
    if data.grid is None:
        raise ValueError(f"{data.name} has no candidates")
    return data.grid
