"""active_learning/plan: the next safe measurements for the user's table. A longer table continues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.active_learning import plan_tasks
from gpsuite.experiments.active_learning.plan_tasks import (
    ABOUT,
    STATE,
    PlanSettings,
    PlanTask,
    about,
    candidate_inputs,
    new_planner,
    objective_of,
    safety_of,
    unpack,
)
from gpsuite.experiments.base import (
    EXPERIMENTS,
    WARNINGS_APART,
    Experiment,
    Outcome,
    Record,
    Report,
    SharedWork,
    Task,
    finite_or_none,
    only_arrays,
)
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, Plan
from gpsuite.methods.active_learning.plan.optimum import Recommendation
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, ORANGE, PURPLE, SKY, VERMILION
from gpsuite.rounding import sureness
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MOST_POINTS = 4000  # of a scatter plot. More candidates are thinned evenly, the proposed ones stay
MODEL, SAFE, PROPOSED = BLUE, GREEN, VERMILION
OUTPUT_COLOURS = (BLUE, ORANGE, PURPLE, SKY, BLACK, GREEN)


def draw_plan(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw `plan`: what the models say at the candidates, and the proposals."""
    if data.X.shape[1] == 1:
        _draw_curves(report, record, data)
    else:
        _draw_map(report, record, data)


def _draw_curves(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw every output's prediction, and the probability of being safe, over the one input."""
    frame = candidate_frame(record, data)
    frame = frame.sort_values(frame.columns[0], kind="stable")
    x, outputs = frame.iloc[:, 0].to_numpy(), data.target_names
    rows = len(outputs) + 1
    with report.figure("plan", rows=rows, size=(7.2, 1.0 + 2.1 * rows), sharex=True) as drawing:
        *panels, last = drawing.axes
        for p, (ax, name) in enumerate(zip(panels, outputs, strict=True)):
            mean, sd = frame[f"mean {name}"].to_numpy(), frame[f"sd {name}"].to_numpy()
            ax.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=MODEL, alpha=0.2, lw=0, label="2 sd, without noise")
            ax.plot(x, mean, color=MODEL, label="prediction")
            ax.plot(data.X[:, 0], data.y[:, p], "k.", label="measured")
            ax.set_ylabel(name)
        safe = record.arrays["safe"][frame.index]
        _draw_probability(last, x, frame["probability_safe"].to_numpy(), safe, data, report.settings.delta)
        for number, (row, p) in enumerate(_proposals(record), 1):
            at = float(frame.iloc[:, 0].loc[row])
            for ax in panels if p < 0 else [panels[p]]:
                _mark(ax, at, number)
            last.axvline(at, color=PROPOSED, lw=1.0, ls=":")
        last.set_xlabel(data.input_names[0])
        drawing.legend("below")
        drawing.data = frame


def _draw_probability(
    ax: Axes, x: npt.NDArray[Any], probability: npt.NDArray[Any], safe: npt.NDArray[Any], data: Dataset, delta: float
) -> None:
    ax.plot(x, probability, color=SAFE, label="probability of being safe")
    ax.fill_between(x, 0.0, 1.0, where=safe, color=SAFE, alpha=0.12, lw=0, label="may be proposed")
    ax.axhline(1.0 - delta, color=LIMIT, lw=0.8, ls="--", label=f"{1.0 - delta:g}")
    if data.safety is not None:
        met = data.safety.safe
        ax.plot(data.X[met, 0], np.ones(met.sum()), "|", color="k", ms=7, label="measured safe")
        bad = ~met & ~np.isnan(data.safety.z)
        if bad.any():
            ax.plot(data.X[bad, 0], np.zeros(bad.sum()), "x", color="k", ms=5, label="measured unsafe")
    ax.set_ylim(-0.05, 1.05)
    ax.set_ylabel(f"P({data.safety.name if data.safety else 'z'} safe)")


def _mark(ax: Axes, at: float, number: int) -> None:
    """Draw a proposal as a line, numbered at the lower edge of an output's panel."""
    label = "proposed, in this order" if number == 1 else "_"
    ax.axvline(at, color=PROPOSED, lw=1.0, ls=":", label=label)
    ax.annotate(
        str(number),
        (at, 0.03),
        xycoords=("data", "axes fraction"),
        color=PROPOSED,
        ha="center",
        va="bottom",
        bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": PROPOSED},
    )


def _draw_map(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw entropy against the probability of being safe at all candidates, and the proposals as ranked bars."""
    frame, enough = candidate_frame(record, data), 1.0 - report.settings.delta
    proposals = _proposals(record)
    kept = _thinned(len(frame), [row for row, _ in proposals])
    size = (11.0, max(4.8, 1.0 + 0.42 * len(proposals)))
    with report.figure("plan", columns=2, size=size, width_ratios=(1.25, 1.0)) as drawing:
        left, right = drawing.axes
        for p, name in enumerate(data.target_names):
            colour = OUTPUT_COLOURS[p % len(OUTPUT_COLOURS)]
            left.plot(
                frame["probability_safe"].iloc[kept],
                frame[f"entropy {name}"].iloc[kept],
                ".",
                ms=3,
                alpha=0.5,
                color=colour,
                label=f"{name} at a candidate",
            )
        left.axvline(enough, color=LIMIT, lw=0.8, ls="--", label=f"safe enough: above {enough:g}")
        left.set_xlabel("probability of being safe")
        left.set_ylabel("entropy before the plan (nats)")
        for number, (row, p) in enumerate(proposals):
            columns = [f"entropy {name}" for name in (data.target_names if p < 0 else [data.target_names[p]])]
            at = frame[["probability_safe", *columns]].iloc[row].to_numpy()
            label = "_" if number else "proposed"
            left.plot(np.repeat(at[0], len(columns)), at[1:], "o", mfc="none", color=PROPOSED, label=label)
        _draw_bars(right, record, data, proposals)
        drawing.legend("below")
        drawing.data = frame.iloc[kept]


def _draw_bars(ax: Axes, record: Record, data: Dataset, proposals: Sequence[tuple[int, int]]) -> None:
    entropy = record.arrays["proposal_entropy"]
    places = np.arange(len(proposals))
    colours = [PROPOSED if p < 0 else OUTPUT_COLOURS[p % len(OUTPUT_COLOURS)] for _, p in proposals]
    ax.barh(places, entropy, color=colours, alpha=0.75)
    ax.set_yticks(places, [_label(i, *pair, record, data) for i, pair in enumerate(proposals, 1)])
    ax.invert_yaxis()
    ax.axvline(0.0, color=LIMIT, lw=0.8)
    ax.set_xlabel("entropy given the proposals before (nats)")


def _label(number: int, row: int, p: int, record: Record, data: Dataset) -> str:
    what = "all outputs" if p < 0 else data.target_names[p]
    return f"{number}: {what}, candidate {row + 1}\nP(safe) {record.arrays['probability_safe'][row]:.3f}"


def candidate_frame(record: Record, data: Dataset) -> pd.DataFrame:
    """Return one row per candidate: inputs, probability of being safe, mean, sd and entropy of each output."""
    import pandas as pd

    if data.grid is None:
        raise ValueError(f"{data.name} has no candidates")
    columns = {"probability_safe": record.arrays["probability_safe"]}
    for p, name in enumerate(data.target_names):
        columns |= {f"{what} {name}": record.arrays[what][:, p] for what in ("mean", "sd", "entropy")}
    inputs = zip(input_columns(data, list(columns)), data.grid.T, strict=True)
    return pd.DataFrame(dict(inputs) | columns)


def input_columns(data: Dataset, others: Collection[str]) -> list[str]:
    """Return the names of the inputs for a table that has these other columns."""
    return [f"input {name}" if name in others else name for name in data.input_names]


def _proposals(record: Record) -> list[tuple[int, int]]:
    """Return row and output (negative: all) of each proposal."""
    return [(int(row), int(p)) for row, p in zip(record.arrays["row"], record.arrays["output"], strict=True)]


def _thinned(n: int, proposed: Sequence[int]) -> IntArray:
    even = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64))
    return np.union1d(even, np.array(proposed, dtype=np.int64))


ALL_OUTPUTS = -1  # in the array of proposed outputs
UNITS = (
    "expected value and sd (noise-free) in the table's units. Entropy in nats, as if the proposals before were "
    "measured, with outputs in standard deviations of their measured values. A continued plan keeps the standard "
    "deviations of its last new start"
)
# Predicted along the line of the recommended setting, in arrays and figure.
LINE_POINTS = 61
OWN_COLUMNS = ("order", "candidate", "measure", "entropy", "probability_safe", "expected value", "expected sd")


def proposal_table(record: Record, data: Dataset) -> pd.DataFrame:
    """Return one row per proposed measurement, in its order: candidate, what to measure, entropy, safety, expectation.

    Candidates are counted from 1, as the rows of their file.
    """
    import pandas as pd

    arrays, grid = record.arrays, candidate_inputs(data)
    taken = [*OWN_COLUMNS, *(f"{what} {name}" for name in data.target_names for what in ("expected", "sd"))]
    rows = []
    for order, (row, p) in enumerate(zip(arrays["row"], arrays["output"], strict=True), 1):
        line: dict[str, object] = {"order": order, "candidate": int(row) + 1}
        line |= dict(zip(input_columns(data, taken), grid[row], strict=True))
        line["measure"] = "all outputs" if p == ALL_OUTPUTS else data.target_names[p]
        line["entropy"] = arrays["proposal_entropy"][order - 1]
        line["probability_safe"] = arrays["probability_safe"][row]
        if p == ALL_OUTPUTS:
            for q, name in enumerate(data.target_names):
                line |= {f"expected {name}": arrays["mean"][row, q], f"sd {name}": arrays["sd"][row, q]}
        else:
            line |= {"expected value": arrays["mean"][row, p], "expected sd": arrays["sd"][row, p]}
        if "best_row" in arrays:
            line["expected gain"] = arrays["proposal_gain"][order - 1]
        rows.append(line)
    columns = ["order", "candidate", *input_columns(data, taken), "measure", *OWN_COLUMNS[3:]]
    return pd.DataFrame(rows, columns=None if rows else columns)


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


def started_again(record: Record) -> str:
    """Return why a plan that follows an earlier one did not continue from its state. Empty if it did."""
    started = str(record.metrics["started"])
    again = "continues" in record.label and started.startswith("cold")
    return f", inferred again ({started.removeprefix('cold: ')})" if again else ""


def safe_text(record: Record, data: Dataset, settings: PlanSettings) -> str:
    """Return what safe means, in the user's words."""
    column = safety_of(data)
    sign = "at least" if column.side == "above" else "at most"
    sure = sureness(settings.delta)
    beyond = record.number("beyond_step")
    verb = "is" if beyond == 1 else "are"
    farther = f"; {beyond:g} more {verb} too far from what was measured to be proposed yet" if beyond else ""
    count, judged = (int(record.number("candidates")), int(np.isfinite(record.arrays["probability_safe"]).sum()))
    of = f"{count} candidates" if judged == count else f"{judged} judged of {count} candidates"
    return (
        f"{column.name}, without its noise, is {sign} {column.limit:.15g} with probability above {sure} at "
        f"{record.number('safe_candidates'):g} of {of}{farther}"
    )


def best_text(report: Report[PlanSettings], record: Record, data: Dataset) -> str:
    """Return the recommended setting and whether more measurements pay. Write both as a table."""
    import pandas as pd

    number, pays = record.number, bool(record.metrics["best_pays"])
    name = report.settings.objective or data.target_names[0]
    taken = ["predicted", "low", "high", "probability_safe", "expected gain", "more measurements pay"]
    x = np.concatenate([data.X, candidate_inputs(data)])[int(record.arrays["best_row"][0])]
    line = dict(zip(input_columns(data, taken), x, strict=True))
    line |= {"predicted": number("best_value"), "low": number("best_low"), "high": number("best_high")}
    line |= {"probability_safe": number("best_probability_safe"), "expected gain": number("best_gain")}
    line["more measurements pay"] = "yes" if pays else "no"
    report.table(pd.DataFrame([line]), "plan_best", f"Recommended setting to {report.settings.goal} {name}")
    at = ", ".join(f"{column} = {value:.6g}" for column, value in zip(data.input_names, x, strict=True))
    more = "More measurements would pay" if pays else "More measurements would hardly pay"
    return (
        f"to {report.settings.goal} {name}: {at}. Predicted {number('best_value'):.6g}, 95 % interval "
        f"{number('best_low'):.6g} to {number('best_high'):.6g}, safe with probability "
        f"{number('best_probability_safe'):.4f}. {more} (expected gain of the next one {number('best_gain'):.3g})"
    )


def draw_best(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw objective and safety along the line to the recommended setting, and the best safe value so far."""
    import pandas as pd

    arrays, p = record.arrays, data.target_names.index(report.settings.objective or data.target_names[0])
    frame = pd.DataFrame({name: arrays[f"line_{name}"] for name in ("place", "mean", "sd", "probability")})
    remark = "places: 0 is the middle of the measurements, 1 the recommended setting"
    with report.figure("plan_best", columns=3, size=(11.0, 3.6), remark=remark) as drawing:
        left, middle, right = drawing.axes
        low, high = frame["mean"] - 2 * frame["sd"], frame["mean"] + 2 * frame["sd"]
        left.fill_between(frame["place"], low, high, color=MODEL, alpha=0.2, lw=0, label="2 sd, without noise")
        left.plot(frame["place"], frame["mean"], color=MODEL, label="prediction")
        left.set_ylabel(data.target_names[p])
        middle.plot(frame["place"], frame["probability"], color=SAFE, label="probability of being safe")
        middle.axhline(1.0 - report.settings.delta, color=LIMIT, lw=0.8, ls="--", label="safe enough")
        middle.set_ylim(-0.05, 1.05)
        middle.set_ylabel("probability of being safe")
        for ax in (left, middle):
            ax.axvline(1.0, color=PROPOSED, lw=1.0, ls=":", label="recommended")
            ax.set_xlabel("place on the line")
        history = best_so_far(data, p, report.settings.goal)
        right.step(np.arange(1, len(history) + 1), history, where="post", color=BLACK, label="best safe value measured")
        right.set_xlabel("measured rows")
        right.set_ylabel(data.target_names[p])
        drawing.legend("below")
        drawing.data = frame


def best_so_far(data: Dataset, p: int, goal: str) -> FloatArray:
    """Return the best measured value of output p at a measured safe row, after each row; NaN before the first."""
    sign, worst = (-1.0, -np.inf) if goal == "maximise" else (1.0, np.inf)
    values = np.where(safety_of(data).safe & ~np.isnan(data.y[:, p]), data.y[:, p], worst)
    found = sign * np.minimum.accumulate(sign * values)
    return np.where(np.isfinite(found), found, np.nan)


def run(task: Task[PlanTask], shared: SharedWork) -> Outcome:
    """Learn what is new in the table and propose the next measurements."""
    asked, data = task.params.asked, load(task.require_dataset())
    planner = new_planner(data, asked)
    if task.params.state is not None:
        planner.restore(unpack(task.params.state))
    planner.tell(data.X, data.y, safety_of(data).z)
    budget = shared.budget(task.budget_seconds)
    found = planner.ask(candidate_inputs(data), asked.measurements, asked.when_nothing_is_safe, budget)
    metrics: dict[str, float | int | str | bool | None] = {
        "values": planner.n_values,
        "candidates": len(candidate_inputs(data)),
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
    if found.recommendation is not None:
        metrics |= _best_metrics(found.recommendation)
        arrays |= _best_arrays(planner, data, found.recommendation, objective_of(data, asked))
        arrays["proposal_gain"] = np.array([each.gain for each in found.proposals], dtype=np.float64)
    return Outcome(
        metrics,
        status=found.status,
        reason=found.reason if found.status != "done" else "",
        arrays={**arrays, **_arrays(found), ABOUT: about(data, task.params, task.label)},
        headline=f"{counted(len(found.proposals), 'proposal')}, "
        f"{found.n_safe} of {metrics['candidates']} candidates safe",
    )


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


def _best_metrics(best: Recommendation) -> dict[str, float | bool]:
    names = ("value", "low", "high", "probability_safe", "measured", "gain", "pays")
    return {f"best_{name}": getattr(best, name) for name in names}


def _best_arrays(planner: MeasurementPlanner, data: Dataset, best: Recommendation, p: int) -> Mapping[str, FloatArray]:
    """Return the recommended setting, as a row of table and candidates, and what the models say along the line to it.

    The line leads from the middle of the measured inputs as far as measurements and candidates reach.
    """
    every = np.concatenate([data.X, candidate_inputs(data)])
    low, high, middle = every.min(axis=0), every.max(axis=0), data.X.mean(axis=0)
    along = best.x - middle
    if not np.any(along):
        along = np.eye(len(middle))[0] * (high - low)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(along != 0.0, np.stack([(low - middle) / along, (high - middle) / along]), np.nan)
    places = np.linspace(np.nanmax(ends.min(axis=0)), np.nanmin(ends.max(axis=0)), LINE_POINTS)
    mean, sd, probability = planner.predict(middle + places[:, None] * along)
    found = {"place": places, "mean": mean[:, p], "sd": sd[:, p], "probability": probability}
    row = int(np.argmin(np.abs(every - best.x).sum(axis=1)))
    return {"best_row": np.array([row]), **{f"line_{name}": values for name, values in found.items()}}


PROMISE = (
    "probability_safe is the model's estimate, tried on made-up functions, no guarantee: a cliff that no measurement "
    "hints at is not foreseen"
)


def summarise(report: Report[PlanSettings]) -> list[Statistic]:
    """Write the proposals in the user's units, and how the posteriors were made. Draw the state."""
    data, (record,) = load(report.request.require_dataset()), report.records()
    proposals = proposal_table(record, data)
    safe, begun = safe_text(record, data, report.settings), f"{record.label}{started_again(record)}"
    report.table(proposals, "plan", f"Next measurements: {safe}; {UNITS}")
    report.table(inference_table(record), "plan_inference", f"Inference; {begun}")
    shown = proposals.to_string(index=False, float_format="{:.6g}".format) if len(proposals) else ""
    note = str(record.metrics["note"])
    best = best_text(report, record, data) if "best_row" in record.arrays else ""
    report.answer.extend(filter(None, (f"{begun}; {safe}", best, shown, note, UNITS, PROMISE)))
    report.warnings.extend(record.warnings)
    draw_plan(report, record, data)
    if best:
        draw_best(report, record, data)
    n = int(record.number("candidates"))
    return [Statistic("safe_candidates", record.number("safe_candidates"), n=n)]


EXPERIMENTS.register("active_learning/plan")(
    Experiment(
        plan_tasks.PlanSettings,
        plan_tasks.plan,
        run,
        summarise,
        dataset_tasks=("measurements",),
        published=only_arrays(
            "row", "output", "p*", "mean", "sd", "entropy", "safe", "best_row", "line_*"
        ),  # not the state: it holds data
        model_keys=(),
    )
)
