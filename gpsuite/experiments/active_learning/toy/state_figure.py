"""State of the models at one iteration on a scalar input: predictions, entropy, safety (Li et al. 2022, Fig. 4, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.generators.sin_sigmoid import STEEPNESS, THRESHOLD, Form, true_outputs, true_safety
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.params import choice
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, PURPLE, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
    size = (max(7.0, 3.7 * len(records) + 0.6), 8.2)
    with report.figure(
        "toy_state", rows=3, columns=len(records), size=size, sharex=True, sharey="row"
    ) as drawing:
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
    return {
        name.removeprefix(prefix): value for name, value in record.arrays.items() if name.startswith(prefix)
    }


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
    """Draw the true safety value, its prediction and the probability of being safe, where there is a model."""
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
    ax.axvline(
        float(state["query_x"][0]), color=colour, lw=1.0, ls=(0, (4, 2)), label="next query (output's colour)"
    )


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
