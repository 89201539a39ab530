"""Tables of a plan: the proposals in the user's units, and how the hyperparameters were inferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.active_learning.plan.figures import input_columns
from gpsuite.experiments.active_learning.plan.history import safety_of
from gpsuite.experiments.active_learning.plan.plan import candidate_inputs
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.base import Record
from gpsuite.rounding import sureness

if TYPE_CHECKING:
    import pandas as pd


ALL_OUTPUTS = -1  # in the array of proposed outputs


UNITS = (
    "expected value and sd (noise-free) in own units; entropy in nats of the output in standard deviations of its "
    "measured values (of a continued plan: as when it last started anew), as if the proposals before were measured"
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


def started_anew(record: Record) -> str:
    """Return why a plan that follows an earlier one did not go on from what it knew; empty if it did."""
    started = str(record.metrics["started"])
    anew = "continues" in record.label and started.startswith("cold")
    return f", inferred anew ({started.removeprefix('cold: ')})" if anew else ""


def safe_text(record: Record, data: Dataset, settings: PlanSettings) -> str:
    """Return what safe means, in the user's words."""
    column = safety_of(data)
    sign = "at least" if column.side == "above" else "at most"
    sure = sureness(settings.delta)
    beyond = record.number("beyond_step")
    verb = "is" if beyond == 1 else "are"
    farther = f"; {beyond:g} more {verb} too far from what was measured to be proposed yet" if beyond else ""
    count, judged = (
        int(record.number("candidates")),
        int(np.isfinite(record.arrays["probability_safe"]).sum()),
    )
    of = f"{count} candidates" if judged == count else f"{judged} judged of {count} candidates"
    return (
        f"{column.name}, without its noise, is {sign} {column.limit:.15g} with probability above {sure} at "
        f"{record.number('safe_candidates'):g} of {of}{farther}"
    )
