"""active_learning/minimise: the best setting found safely, by our planner and by others, on thirteen kinds and more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.generators.safe_tuning import KINDS, PLAIN, TuningTask, draw_task
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.active_learning.repetitions import LIMIT as ENGINE_LIMIT
from gpsuite.experiments.active_learning.repetitions import engine_table, training_and_test
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    every_task,
)
from gpsuite.experiments.settings import Count, Share, at_least, filled, one_of, unique
from gpsuite.experiments.tasks import choice, take
from gpsuite.methods.active_learning.acquisition import Pipeline
from gpsuite.methods.active_learning.constrained_ei import constrained_expected_improvement
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.plan.optimum import Goal as PlannerGoal
from gpsuite.methods.active_learning.plan.safety import SafetyGuard
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.methods.active_learning.safe_opt import VARIANTS, SafeOpt, true_constants
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, ORANGE, PURPLE, SKY, panel
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import clopper_pearson, proportion

if TYPE_CHECKING:
    import pandas as pd

# The goals were fixed before any constant of the planner was chosen. A verdict reads one statistic.
DELTA = 0.05
AT = 20  # queries at which regrets are compared
NEGLIGIBLE = 0.01  # a smaller median regret (1 at the start, 0 at the optimum) counts as this much in a ratio


@dataclass(frozen=True)
class Goal:
    """A statement about our planner that holds if a statistic is at most a limit.

    Attributes:
        statistic: of the run.
        limit: the largest value with which it holds.
        statement: in words.
    """

    statistic: str
    limit: float
    statement: str


GOALS = (
    Goal("unsafe_kinds", 0.0, "on no kind is the share of truly unsafe queries shown to be above delta"),
    Goal(
        "unsafe_share_upper", DELTA, "over all kinds at most delta of the queries are truly unsafe (upper 95 % limit)"
    ),
    Goal("regret_ratio[to=safeopt]", 0.5, "median regret at 20 queries at most half of SafeOpt's"),
    Goal("regret_ratio[to=losbo]", 0.5, "median regret at 20 queries at most half of LoSBO's"),
    Goal("regret_ratio[to=constrained_ei]", 1.2, "at most 1.2 times the unguarded rule's on kinds without traps"),
    Goal("stopped_early", 0.0, "no search ends before its queries are used up"),
)
OURS = "planner"
ENGINE = "engine"
ENGINE_STARTS = 24
ENGINE_NOISE = 0.1  # what the others are given, in standard deviations: a row of the file is measured once
TITLES = {
    OURS: "our planner",
    "random": "random safe search",
    "safeopt": "SafeOpt",
    "real_beta": "Real-beta-SafeOpt",
    "losbo": "LoSBO",
    "constrained_ei": "constrained EI, unguarded",
}
TOLD = {
    OURS: "delta",
    "random": "delta",
    "safeopt": "delta, kernel and lengthscale, RKHS norms, noise",
    "real_beta": "delta, kernel and lengthscale, RKHS norms, noise",
    "losbo": "Lipschitz constant, largest noise, kernel and lengthscale",
    "constrained_ei": "nothing",
}
COLOURS = {
    OURS: (BLUE, "o"),
    "random": (BLACK, "x"),
    "safeopt": (ORANGE, "s"),
    "real_beta": (PURPLE, "D"),
    "losbo": (GREEN, "^"),
    "constrained_ei": (SKY, "v"),
}
ALL_KINDS = (*KINDS, ENGINE)
SECONDS = 0.25  # of one proposal of a planner


@dataclass
class MinimiseSettings:
    """Settings of the comparison.

    Attributes:
        kinds: kinds of functions. `engine`: hydrocarbons of the engine data, its exhaust temperature kept low.
        searches: the methods that search.
        repetitions: tasks drawn of each kind, the same for every method.
        queries: number of queries of one search.
        shown: numbers of queries at which regrets are tabled.
        delta: a proposal must be safe with probability above 1 - delta.
        particles: number of particles of the hyperparameters' posterior.
        engine_pool: rows of the engine data that may be measured.
    """

    kinds: Annotated[list[Annotated[str, one_of(ALL_KINDS)]], filled, unique]
    searches: Annotated[list[Annotated[str, one_of(TITLES)]], filled, unique]
    repetitions: Count
    queries: Count
    shown: Annotated[list[Count], filled, unique]
    delta: Share
    particles: Annotated[int, at_least(2)]
    engine_pool: Annotated[int, at_least(50)]


VERSION = 1


@dataclass(frozen=True)
class MinimiseTask:
    """One search. Further settings as `MinimiseSettings`.

    Attributes:
        method: key of `TITLES`.
        seed: of task, noise and search.
        pool: rows of the engine data; 0 for another kind.
    """

    method: str
    what: str
    seed: int
    queries: int
    delta: float
    particles: int
    pool: int
    kind: str = "safe_minimisation"


def plan(request: Request[MinimiseSettings]) -> list[Task[MinimiseTask]]:
    """Return one task per repetition, kind and method."""
    settings = request.settings
    return [
        _task(request, what, method, repetition)
        for repetition in range(settings.repetitions)
        for what in settings.kinds
        for method in settings.searches
    ]


def _task(request: Request[MinimiseSettings], what: str, method: str, repetition: int) -> Task[MinimiseTask]:
    settings = request.settings
    params = take(
        MinimiseTask,
        settings,
        method=method,
        what=what,
        seed=derived_seed(request.seed, "minimise", what, repetition),
        pool=settings.engine_pool if what == ENGINE else 0,
    )
    each = 0.02 if method in VARIANTS else SECONDS * (0.3 + 0.7 * settings.particles / 128)
    return request.task(
        params,
        label=f"{TITLES[method]}  {what}  {repetition}",
        axes={"kind": what, "method": method, "repetition": repetition},
        version=VERSION,
        cost=0.5 + each * settings.queries,
    )


class Search(Protocol):
    """A method on one task: given what is measured, it names the next row, or None if it has none."""

    def __call__(self, rows: IntArray, Y: FloatArray, z: FloatArray) -> int | None: ...


def run(task: Task[MinimiseTask], shared: SharedWork) -> Outcome:
    """Search one drawn task, and judge every query by the true functions."""
    params = task.params
    tuning = read_task(params, task.require_dataset() if params.what == ENGINE else None)
    search = searcher(tuning, params)
    measuring = stream(params.seed, "noise")
    rows, Y, z = list(map(int, tuning.starts)), list[FloatArray](), list[float]()
    budget = shared.budget(task.budget_seconds)
    for query in range(params.queries + 1):
        for row in rows[len(z) :]:
            Y.append(tuning.F[row] + tuning.noise * measuring.standard_normal(len(tuning.noise)))
            z.append(float(tuning.h[row] + tuning.safety_noise * measuring.standard_normal()))
        budget.spend()
        found = search(np.array(rows), np.array(Y), np.array(z)) if query < params.queries else None
        if found is None:
            break
        rows.append(found)
    queried = np.array(rows[len(tuning.starts) :], dtype=np.int64)
    curve = np.array([tuning.regret(queried[:count]) for count in range(params.queries + 1)])
    unsafe = tuning.h[queried] > 0.0
    metrics = {"queries": len(queried), "unsafe_queries": int(unsafe.sum()), "regret": float(curve[-1])}
    arrays = {"row": queried, "unsafe": unsafe, "regret": curve}
    return Outcome(metrics, arrays=arrays, headline=f"regret {curve[-1]:.3f}, {unsafe.sum()} of {len(queried)} unsafe")


def read_task(params: MinimiseTask, dataset: PreparedDataset | None) -> TuningTask:
    """Return the drawn task, or one on rows of the engine data, treated as the truth."""
    rng = stream(params.seed, "task")
    if dataset is None:
        return draw_task(params.what, rng)
    data = load(dataset)
    rows = rng.permutation(training_and_test(data)[0])[: params.pool]
    table = engine_table(data, rows)
    X = (table.X - table.X.min(axis=0)) / np.maximum(np.ptp(table.X, axis=0), 1e-12)
    safe = table.z <= ENGINE_LIMIT
    worse = np.flatnonzero(safe & (table.Y[:, 0] >= np.median(table.Y[safe, 0])))
    starts = rng.choice(worse, min(ENGINE_STARTS, len(worse)), replace=False)
    return TuningTask(X, table.Y, table.z - ENGINE_LIMIT, np.zeros(table.Y.shape[1]), 0.0, starts, safe)


class PlannerSearch:
    """A measurement planner that gets what is new at each step."""

    def __init__(self, task: TuningTask, params: MinimiseTask) -> None:
        ours, guarded = params.method == OURS, params.method != "constrained_ei"
        goal: PlannerGoal = "minimise" if ours else "learn"
        self._task, self._told = task, 0
        self._choose_freely = not guarded
        self._planner = MeasurementPlanner(
            SafetyLimit(0.0, "below"),
            stream(params.seed, "search", params.method),
            pipeline=Pipeline(
                "search", acquisition="random" if params.method == "random" else "entropy", queries="full"
            ),
            delta=params.delta,
            smc=SMCSettings(params.particles),
            guard=SafetyGuard() if guarded else None,
            goal=goal,
        )

    def __call__(self, rows: IntArray, Y: FloatArray, z: FloatArray) -> int | None:
        new = slice(self._told, None)
        self._planner.tell(self._task.X[rows[new]], Y[new], z[new])
        self._told = len(rows)
        plan = self._planner.ask(self._task.X)
        if self._choose_freely:
            measured, held = (np.zeros(len(self._task.X), dtype=np.bool_) for _ in range(2))
            measured[rows], held[rows[z <= 0.0]] = True, True
            return constrained_expected_improvement(plan, measured, held)
        return plan.proposals[0].row if plan.proposals else None


def searcher(task: TuningTask, params: MinimiseTask) -> Search:
    """Return the method on a task. The others get the true constants."""
    if params.method not in VARIANTS:
        return PlannerSearch(task, params)
    noise = float(task.noise[0]) or ENGINE_NOISE
    objective, safety = (true_constants(task.X, values, noise) for values in (task.F[:, 0], task.h))
    most = len(task.starts) + params.queries
    method = SafeOpt(choice(params.method, VARIANTS), task.X, objective, safety, task.starts, params.delta, most)
    return lambda rows, Y, z: method.propose(rows, Y[:, 0], z)


@dataclass(frozen=True)
class Searches:
    """The searches of one method.

    Attributes:
        method: key of `TITLES`.
        records: one per task.
    """

    method: str
    records: Sequence[Record]

    def of(self, kinds: Iterable[str]) -> Searches:
        """Return those on some kinds."""
        wanted = set(kinds)
        return Searches(self.method, [each for each in self.records if each.axes["kind"] in wanted])

    @property
    def queries(self) -> int:
        return int(sum(each.number("queries") for each in self.records))

    @property
    def unsafe(self) -> int:
        return int(sum(each.number("unsafe_queries") for each in self.records))

    def regrets(self, count: int) -> FloatArray:
        """Return the regret of every search after so many queries, or its last one."""
        return np.array([each.arrays["regret"][min(count, len(each.arrays["regret"]) - 1)] for each in self.records])

    def median(self, count: int) -> float:
        """Return the median regret after so many queries."""
        return float(np.median(self.regrets(count)))

    @property
    def stopped(self) -> BoolArray:
        """Which searches ended before their queries were used up."""
        return np.array([each.number("queries") < len(each.arrays["regret"]) - 1 for each in self.records])


def group(report: Report[MinimiseSettings]) -> dict[str, Searches]:
    found = {name: Searches(name, report.records(method=name)) for name in report.settings.searches}
    return {name: each for name, each in found.items() if each.records}


def statistics(found: dict[str, Searches], kinds: Sequence[str], delta: float) -> list[Statistic]:
    """Return what the goals read, and the share of unsafe queries and median regret of every method."""
    numbers = []
    for name, each in found.items():
        share = proportion(each.unsafe, each.queries)
        numbers.append(Statistic.of(statistic_name("unsafe_share", method=name), share))
        regret = each.median(AT)
        numbers.append(Statistic(statistic_name("median_regret", method=name), regret, n=len(each.records)))
    if OURS not in found:
        return numbers
    ours = found[OURS]
    shown = [what for what in kinds if ours.of([what]).queries and _least(ours.of([what])) > delta]
    numbers.append(Statistic("unsafe_kinds", len(shown), n=len(kinds), note=", ".join(shown)))
    if ours.queries:
        upper = clopper_pearson(ours.unsafe, ours.queries, 2.0 * 0.05)[1]
        numbers.append(Statistic("unsafe_share_upper", upper, n=ours.queries))
    for name, over in (("safeopt", kinds), ("losbo", kinds), ("constrained_ei", list(PLAIN))):
        if name in found and ours.of(over).records:
            ratio = _ratio(ours.of(over), found[name].of(over))
            numbers.append(Statistic(statistic_name("regret_ratio", to=name), ratio, n=len(ours.of(over).records)))
    numbers.append(Statistic("stopped_early", int(ours.stopped.sum()), n=len(ours.records)))
    return numbers


def _least(searches: Searches) -> float:
    """Return the lower end of the interval of the share of unsafe queries."""
    return clopper_pearson(searches.unsafe, searches.queries)[0]


def _ratio(ours: Searches, theirs: Searches) -> float:
    return max(ours.median(AT), NEGLIGIBLE) / max(theirs.median(AT), NEGLIGIBLE)


def goal_table(numbers: Sequence[Statistic]) -> pd.DataFrame:
    """Return one row per goal: the statement, its limit, the number of this run and whether it holds."""
    import pandas as pd

    values = {each.name: each for each in numbers}
    rows = []
    for goal in GOALS:
        number = values.get(goal.statistic)
        held = "not run" if number is None else "holds" if number.value <= goal.limit else "does not hold"
        value, n = (None, None) if number is None else (number.value, number.n)
        rows.append({"goal": goal.statement, "limit": goal.limit, "found": value, "n": n, "verdict": held})
    return pd.DataFrame(rows)


def kind_table(found: dict[str, Searches], kinds: Sequence[str], shown: Sequence[int]) -> pd.DataFrame:
    """Return one row per kind and method: unsafe queries with their interval, median regrets."""
    import pandas as pd

    rows = []
    for what in [*kinds, "all"]:
        for name, every in found.items():
            each = every if what == "all" else every.of([what])
            if not each.records:
                continue
            share = proportion(each.unsafe, each.queries)
            regrets = {f"median regret at {count}": each.median(count) for count in shown}
            rows.append(
                {
                    "kind": what,
                    "searched by": TITLES[name],
                    "searches": len(each.records),
                    "queries": each.queries,
                    "unsafe": each.unsafe,
                    "unsafe share": share.value,
                    "interval_low": share.low,
                    "interval_high": share.high,
                    **regrets,
                    "stopped early": int(each.stopped.sum()),
                }
            )
    return pd.DataFrame(rows)


def timing_table(found: dict[str, Searches]) -> pd.DataFrame:
    """Return the CPU seconds per query of each method, and what it must be given."""
    import pandas as pd

    rows = []
    for name, each in found.items():
        seconds = sum(record.timing.get("cpu_seconds", np.nan) for record in each.records)
        per_query = seconds / each.queries if each.queries else np.nan
        rows.append({"searched by": TITLES[name], "needs to know": TOLD[name], "CPU seconds per query": per_query})
    return pd.DataFrame(rows)


def draw(report: Report[MinimiseSettings], found: dict[str, Searches]) -> None:
    """Draw the median regret against the number of queries, and the share of unsafe queries of each method."""
    import pandas as pd

    styles = {name: {"color": colour, "marker": ""} for name, (colour, _) in COLOURS.items()}
    frames = [_curve(name, each) for name, each in found.items()]
    with report.figure("minimise", columns=2, size=(10.5, 4.4), remark="bands: quartiles of the searches") as drawing:
        left, right = drawing.axes
        panel(left, pd.concat(frames), "queries", TITLES, kind="band", error="interval", styles=styles)
        left.set_xlabel("queries")
        left.xaxis.get_major_locator().set_params(integer=True)
        left.set_ylabel("regret (1 at the start, 0 at the safe optimum)")
        for number, (name, each) in enumerate(found.items()):
            share = proportion(each.unsafe, each.queries)
            ends = [[share.value - share.low], [share.high - share.value]]
            colour, marker = COLOURS[name]
            right.errorbar([share.value], [number], xerr=ends, color=colour, marker=marker, capsize=3)
        right.axvline(report.settings.delta, color=LIMIT, ls="--", lw=0.8, label="delta")
        right.set_yticks(range(len(found)), [TITLES[name] for name in found])
        right.invert_yaxis()
        right.set_xlabel("share of truly unsafe queries")
        drawing.legend("below")
        drawing.data = pd.concat(frames)


def _curve(name: str, each: Searches) -> pd.DataFrame:
    import pandas as pd

    curves = np.array([record.arrays["regret"] for record in each.records])
    low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    counts = np.arange(curves.shape[1])
    return pd.DataFrame({"method": name, "queries": counts, "mean": middle, "interval_low": low, "interval_high": high})


def draw_kinds(report: Report[MinimiseSettings], found: dict[str, Searches], kinds: Sequence[str]) -> None:
    """Draw every method's median regret after `AT` queries, kind by kind."""
    import pandas as pd

    rows = [
        {"kind": what, "method": name, "mean": each.of([what]).median(AT), "standard_error": np.nan}
        for what in kinds
        for name, each in found.items()
        if each.of([what]).records
    ]
    styles = {name: {"color": colour, "marker": marker} for name, (colour, marker) in COLOURS.items()}
    ticks = {what: what.replace("_", "\n") for what in kinds}
    with report.figure("minimise_kinds", size=(max(6.0, 0.8 * len(kinds) + 2.0), 4.4)) as drawing:
        panel(drawing.ax, pd.DataFrame(rows), "kind", TITLES, kind="points", ticks=ticks, apart=0.1, styles=styles)
        drawing.ax.set_ylabel(f"median regret at {min(AT, report.settings.queries)} queries")
        drawing.ax.tick_params(axis="x", labelsize=7)
        drawing.legend("below")
        drawing.data = pd.DataFrame(rows)


def summarise(report: Report[MinimiseSettings]) -> list[Statistic]:
    """Write the goals, unsafe queries and regrets by kind, and seconds. Draw regret and safety."""
    settings, found = report.settings, group(report)
    kinds = [what for what in settings.kinds if any(each.of([what]).records for each in found.values())]
    numbers = statistics(found, kinds, settings.delta)
    report.table(goal_table(numbers), "minimise_goals", f"Goals at {min(AT, settings.queries)} queries")
    shown = [count for count in settings.shown if count <= settings.queries]
    caption = "Truly unsafe queries with 95 % Clopper-Pearson interval, and median regrets (1 at the start)"
    report.table(kind_table(found, kinds, shown), "minimise", caption)
    report.table(timing_table(found), "minimise_timing", "CPU seconds of a query, set-up included, and what is given")
    if found:
        draw(report, found)
        draw_kinds(report, found, kinds)
    return numbers


EXPERIMENTS.register("active_learning/minimise")(
    Experiment(
        MinimiseSettings,
        plan,
        run,
        summarise,
        parts=("kinds", "searches", "repetitions"),
        model_keys=(),
        published=every_array,
        chaotic=every_task,
    )
)
