"""active_learning/toy: sine and sigmoid. Learning curves, safety, and what inference and priors do (Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.generators.sin_sigmoid import STEEPNESS, THRESHOLD, Form, true_outputs, true_safety
from gpsuite.experiments.active_learning import toy_tasks
from gpsuite.experiments.active_learning.curves import Curves, draw_curves, draw_safety, errors, report_curves
from gpsuite.experiments.active_learning.exploration import KERNELS, RepetitionTask, run_repetition
from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.toy_tables import KINDS, report_parts, toy_statistics
from gpsuite.experiments.active_learning.toy_tasks import Parts, ToySettings, draw_priors
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, every_array, every_task
from gpsuite.experiments.tasks import choice
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, PURPLE, VERMILION
from gpsuite.statistics.estimates import mean, proportion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


# How many queries were truly unsafe, repetition by repetition. There is no guarantee for a function that is given.
#
# That the share is at most delta on average holds only where the safety value is drawn from the model's own prior:
# with
# learned hyperparameters and a query that depends on all before, a given function may have more unsafe queries.


MEASURE = "safe_true"
LABELS = {
    "counted": "first queries",
    "delta": "δ",
    "low_percent": "from",
    "high_percent": "to",
    "any_low_percent": "at least",
    "any_high_percent": "at most",
}


def report_unsafe(report: Report[ToySettings], sets: Mapping[str, Curves], name: str) -> None:
    """Write `name`, one row per inference and pipeline, and `name`_by_seed, one row per repetition. None without h.

    Args:
        report: what is written on.
        sets: label of the inference -> its repetitions.
        name: of the file.
    """
    by_seed = unsafe_by_seed(sets)
    if by_seed.empty:
        return
    by_seed["method"] = [report.titles[method] for method in by_seed["method"]]
    each = (
        "Truly unsafe queries of each repetition, in percent. Exact binomial 95 % intervals, as if a repetition's "
        "queries were independent"
    )
    report.table(by_seed, f"{name}_by_seed", each, LABELS)
    overall = (
        "Truly unsafe queries, in percent: mean over the repetitions with its 95 % t interval. Repetitions with at "
        "least one, and the exact binomial 95 % interval of their share. Those whose binomial interval lies above δ"
    )
    report.table(unsafe_table(by_seed, report.settings.delta), name, overall, LABELS)


def unsafe_by_seed(sets: Mapping[str, Curves]) -> pd.DataFrame:
    """Return one row per number of first queries counted, inference, method and repetition.

    All queries of each kind of inference are counted, and of the longer ones also as many as the shorter ones have:
    shares are comparable among rows with equal `counted` only.
    """
    import pandas as pd

    lengths = sorted({_longest(curves, method) for curves in sets.values() for method in _methods(curves)})
    rows = [
        row
        for counted in lengths
        for inference, curves in sets.items()
        for method in _methods(curves)
        if _longest(curves, method) >= counted
        for row in _repetitions(curves, method, counted, inference)
    ]
    return pd.DataFrame(rows)


def _methods(curves: Curves) -> list[str]:
    return [method for method in curves.methods if curves.has(method, MEASURE)]


def _longest(curves: Curves, method: str) -> int:
    return max(len(run.arrays[MEASURE]) for run in curves.runs[method].values())


def _repetitions(curves: Curves, method: str, counted: int, inference: str) -> Iterator[dict[str, str | int | float]]:
    for repetition, run in curves.runs[method].items():
        safe = run.arrays[MEASURE][:counted]
        unsafe = int(np.count_nonzero(safe == 0.0))
        share = proportion(unsafe, len(safe))
        yield {
            "counted": counted,
            "inference": inference,
            "method": method,
            "repetition": repetition,
            "queries": len(safe),
            "unsafe": unsafe,
            "share_percent": 100.0 * unsafe / len(safe),
            "low_percent": 100.0 * share.low,
            "high_percent": 100.0 * share.high,
        }


def unsafe_table(by_seed: pd.DataFrame, delta: float) -> pd.DataFrame:
    """Return one row per number of queries counted, inference and method of `unsafe_by_seed`'s rows.

    The interval of the mean is over repetitions, which are independent. Queries of one repetition are not, so that no
    binomial interval is given for all queries together. A t interval says nothing where no query was unsafe: the
    binomial interval of the share of repetitions with one does.
    """
    import pandas as pd

    rows = []
    keys = ["counted", "inference", "method"]
    for key, group in by_seed.groupby(keys, sort=False):
        whole = mean(group["share_percent"]).within(0.0, 100.0)
        some = int((group["unsafe"] > 0).sum())
        concerned = proportion(some, len(group))
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "delta": delta,
                "share_percent": whole.value,
                "low_percent": whole.low,
                "high_percent": whole.high,
                "queries": int(group["queries"].sum()),
                "unsafe": int(group["unsafe"].sum()),
                "any_percent": 100.0 * some / len(group),
                "any_low_percent": 100.0 * concerned.low,
                "any_high_percent": 100.0 * concerned.high,
                "surely_above": int((group["low_percent"] > 100.0 * delta).sum()),
                "repetitions": len(group),
            }
        )
    return pd.DataFrame(rows)


# State of the models at one iteration on a scalar input: predictions, entropy, safety (Li et al. 2022, Fig. 4, 5).


COLOURS = (BLUE, VERMILION)  # of the two outputs
JOINT = "joint_entropy"
BAND = 2.0  # standard deviations of a shaded band


def draw_state(report: Report[ToySettings], records: Mapping[str, Record]) -> None:
    """Draw one column per method: predictions over data and truth, entropies, safety model.

    A column's title says in how many seconds the outputs' model was trained, on average over the run's models.

    Args:
        report: what is drawn on.
        records: method -> record with the arrays `state_...` of one repetition.
    """
    form, delta = choice(report.settings.form, STEEPNESS), report.settings.delta
    n_sum = len(next(iter(records.values())).arrays["state_measured_y"])
    size = (max(7.0, 3.1 * len(records) + 0.6), 8.2)
    with report.figure("toy_state", rows=3, columns=len(records), size=size, sharex=True, sharey="row") as drawing:
        for (outputs, entropy, safety), (method, record) in zip(drawing.grid.T, records.items(), strict=True):
            state = state_arrays(record)
            _draw_outputs(outputs, state, form)
            _draw_entropy(entropy, state)
            _draw_safety(safety, state, delta)
            outputs.set_title(f"{report.titles[method]}, {_training(record)}")
            safety.set_xlabel("input x")
        for ax, label in zip(
            drawing.grid[:, 0], ("outputs", "entropy (nats)", "safety value, probability"), strict=True
        ):
            ax.set_ylabel(label)
        drawing.legend("below", columns=4 if len(records) > 2 else 2)
        drawing.fig.suptitle(
            f"sine and sigmoid: models from {n_sum} values, and the next query\n"
            f"repetition {next(iter(records.values())).axes['repetition']}; bands: {BAND:g} standard deviations"
        )
        drawing.data = state_frame(records)


def _training(record: Record) -> str:
    """Return the mean seconds in which the outputs' model was trained, in words."""
    return f"{record.number('seconds_outputs') / record.number('models'):.2f} s a training"


def state_arrays(record: Record) -> dict[str, Any]:
    """Return a record's arrays of the state, by their names without `state_`."""
    prefix = "state_"
    return {name.removeprefix(prefix): value for name, value in record.arrays.items() if name.startswith(prefix)}


def _draw_outputs(ax: Axes, state: Mapping[str, Any], form: Form) -> None:
    x = state["x"][:, 0]
    truth = true_outputs(x, form)
    for p, colour in enumerate(COLOURS):
        mean, deviation = state["mean"][:, p], np.sqrt(state["variance"][:, p])
        ax.plot(x, truth[:, p], color=colour, ls=":", lw=1.2, label=f"true output {p + 1}")
        ax.plot(x, mean, color=colour, label=f"prediction of output {p + 1}")
        ax.fill_between(x, mean - BAND * deviation, mean + BAND * deviation, color=colour, alpha=0.15, lw=0)
        own = state["measured_p"] == p
        ax.plot(state["measured_x"][own, 0], state["measured_y"][own], "o", ms=3.5, color=colour)
    _mark_query(ax, state)


def _draw_entropy(ax: Axes, state: Mapping[str, Any]) -> None:
    x = state["x"][:, 0]
    for p, colour in enumerate(COLOURS):
        ax.plot(x, state["entropy"][:, p], color=colour)
    if JOINT in state:
        ax.plot(x, state[JOINT], color=BLACK, label="entropy of both outputs together")
    _mark_query(ax, state)


def _draw_safety(ax: Axes, state: Mapping[str, Any], delta: float) -> None:
    """Draw the true safety value, its prediction and the probability of being safe, if there is a model."""
    x = state["x"][:, 0]
    ax.plot(x, true_safety(x), "k:", lw=1.2, label="true safety value")
    ax.axhline(THRESHOLD, color=LIMIT, lw=0.9, ls="--", label="limit")
    ax.plot(state["measured_safety_x"][:, 0], state["measured_z"], "k.", ms=4, label="measured safety value")
    if "h_mean" in state:
        mean, deviation = state["h_mean"], np.sqrt(state["h_variance"])
        ax.plot(x, mean, color=GREEN, label="predicted safety value")
        ends = mean - BAND * deviation, mean + BAND * deviation
        ax.fill_between(x, *ends, color=GREEN, alpha=0.15, lw=0)
        probability = state["probability_safe"]
        ax.plot(x, probability, color=PURPLE, lw=1.2, label="probability of being safe")
        safe = probability > 1.0 - delta
        ax.plot(x[safe], np.full(safe.sum(), -0.08), "|", color=GREEN, ms=5, label="marked safe")
    ax.set_ylim(-0.2, 1.4)
    _mark_query(ax, state)


def _mark_query(ax: Axes, state: Mapping[str, Any]) -> None:
    p = int(state["query_p"])
    colour = COLOURS[p] if p >= 0 else "k"
    ax.axvline(float(state["query_x"][0]), color=colour, lw=1.0, ls=(0, (4, 2)), label="next query (output's colour)")


def state_frame(records: Mapping[str, Record]) -> pd.DataFrame:
    """Return the drawn curves, one row per method and grid point."""
    import pandas as pd

    parts = []
    for method, record in records.items():
        state = state_arrays(record)
        columns: dict[str, Any] = {"method": method, "x": state["x"][:, 0]}
        for p in range(state["mean"].shape[1]):
            columns |= {f"{key}_{p + 1}": state[key][:, p] for key in ("mean", "variance", "entropy")}
        kept = (JOINT, "h_mean", "h_variance", "probability_safe")
        columns |= {key: state[key] for key in kept if key in state}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def summarise(report: Report[ToySettings]) -> list[Statistic]:
    """Write curves, safety, the state at one iteration, and the comparisons. Return what the paper states."""
    settings = report.settings
    parts = Parts.from_records(report.records(), tuple(report.titles), settings.inference)
    if settings.prior_factors:  # a run that is about priors
        draw_priors(report)
    report_parts(report, parts)
    kinds = {**parts.inferences, **({"hmc": parts.hmc} if parts.hmc.methods else {})}
    report_unsafe(report, {KINDS[kind]: curves for kind, curves in kinds.items()}, "toy_unsafe_queries")
    if parts.main.methods:
        report_curves(report, parts.main, "toy", "Sine and sigmoid")
        heading = "sine and sigmoid: safe test points, noise-free targets"
        labels = errors("output units")
        draw_curves(report, parts.main, "toy_curves", heading, labels, thresholds=settings.thresholds)
        draw_safety(report, parts.main, "toy_safety", "sine and sigmoid: safety")
        _draw_state(report, parts.main)
    return toy_statistics(parts, settings)


def _draw_state(report: Report[ToySettings], curves: Curves) -> None:
    """Draw the state of every pipeline's models in the first repetition that all of them have."""
    kept = {method: [r for r in runs.values() if "state_x" in r.arrays] for method, runs in curves.runs.items()}
    shared = set.intersection(*({int(r.axes["repetition"]) for r in found} for found in kept.values()))
    if shared:
        draw_state(report, {method: curves.runs[method][min(shared)] for method in curves.methods})


EXPERIMENTS.register("active_learning/toy")(
    Experiment(
        toy_tasks.ToySettings,
        toy_tasks.plan,
        {
            RepetitionTask: run_repetition,
            toy_tasks.IdentityTask: toy_tasks.run_identity,
            toy_tasks.CostTask: toy_tasks.run_cost,
        },
        summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions", "hmc_repetitions"),
        published=every_array,
    )
)
