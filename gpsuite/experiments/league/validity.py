"""The rules of validity of league, fixed before the first run.

1. A cell is one statement at one size of one table. Each seed draws the rows that a user would have, and fresh rows
   from the others. All statements of one model are about the same rows.
2. A bound on a share of rows fails at a seed if its fresh rows contradict it: under the bound, a share as large as
   theirs has a probability below `CONTRADICTED`. Intervals and sets fail in the share of fresh rows that they miss.
   Proofs fail in the share that an attack breaks.
3. What is promised: bounds fail with probability delta, and a true one is contradicted with `CONTRADICTED` at most.
   Intervals and sets miss 1 - coverage of the rows. Proofs never fail.
4. One binomial bound serves all cells (Hoeffding 1963, Theorem 1): of R independent values in [0, 1] with mean p or
   less, a mean of f > p has probability exp(-R kl(f, p)) at most. A cell, or a statement over all its cells, is marked
   where this is below `LEVEL` divided by how many of both are judged.

Seeds of one table draw from the same rows: a mark is about new draws from that table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.tasks import ERROR_RATE
from gpsuite.experiments.league.plan import DRAW, OFF, STATEMENTS, LeagueSettings, Statement
from gpsuite.methods.pac_bayes.bounds import mean_loss_upper_bound
from gpsuite.methods.pac_bayes.kl_inverse import binary_kl

if TYPE_CHECKING:
    import pandas as pd

CONTRADICTED = 0.01  # of fresh rows under a bound
LEVEL = 0.05  # of all marks together


def chance(failed: float, promised: float, count: int) -> float:
    """Return a bound on the probability of a mean failure as large as this, of `count` values of mean `promised`."""
    if not failed > promised:
        return 1.0
    return 0.0 if promised <= 0.0 else math.exp(-count * float(binary_kl(failed, promised)))


def failure(kind: str, stated: float, missed: float, rows: int) -> float:
    """Return by how much a statement failed at one seed, from 0 to 1."""
    return float(chance(missed, stated, rows) < CONTRADICTED) if kind == "bound" else missed


def promised(kind: str, settings: LeagueSettings) -> tuple[float, float]:
    """Return how often a statement may fail, and the same with what fresh rows contradict by chance."""
    if kind == "bound":
        return settings.delta, settings.delta + CONTRADICTED
    share = round(1.0 - settings.coverage, 12) if kind == "rows" else 0.0
    return share, share


def judgements(records: Sequence[Record], titles: Mapping[str, str], tasks: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per statement, table, size and seed: what was stated, and by how much it failed.

    Args:
        records: of the run.
        titles: method -> its title.
        tasks: table -> regression or classification.
    """
    import pandas as pd

    lines = []
    for record in records:
        method = str(record.axes["method"])
        for name, statement in _statements(record, titles).items():
            stated, missed, rows = (record.number(f"{name}_{each}") for each in ("stated", "missed", "rows"))
            if name in (METHOD, METHOD_DRAW):
                stated, missed, rows = (record.number(metric) for metric in FITTED[name])
            if not (rows > 0.0 and math.isfinite(missed)):  # nothing that could judge
                continue
            stated = stated if math.isfinite(stated) else math.inf
            lines.append(
                {
                    **{key: record.axes[key] for key in ("dataset", "size", "rows", "seed")},
                    "task": tasks[str(record.axes["dataset"])],
                    **{"method": method, "statement": statement.title, "question": statement.question},
                    **{"kind": statement.kind, "unit": statement.unit, "stated": stated, "missed": missed},
                    "failed": failure(statement.kind, stated, missed, int(rows)),
                    "seconds": record.timing.get("cpu_seconds", math.nan),
                    "memory": record.timing.get("peak_memory_mb", math.nan),
                }
            )
    return pd.DataFrame(lines)


METHOD, METHOD_DRAW = "of the mean", "of a draw"
FITTED = {METHOD: ("bound_bayes", "bayes_risk_test", "n_test"), METHOD_DRAW: ("bound_kl", "gibbs_risk_test", "n_test")}


def _statements(record: Record, titles: Mapping[str, str]) -> dict[str, Statement]:
    """Return name -> statement, for each that a record has. A method of pac_bayes/regression has two."""
    title = titles.get(str(record.axes["method"]), "")
    if FITTED[METHOD][0] in record.metrics:
        draw = Statement(f"{title}, random draw", DRAW, "bound", OFF)
        return {METHOD: Statement(title, ERROR_RATE, "bound", OFF), METHOD_DRAW: draw}
    known = {name: each for name, each in STATEMENTS.items() if f"{name}_missed" in record.metrics}
    return {name: replace(each, title=each.title.format(method=title)) for name, each in known.items()}


def counted_failures(frame: pd.DataFrame, by: list[str], settings: LeagueSettings, judged: int) -> pd.DataFrame:
    """Return one row per group of judgements: promised and found failures with their 95 % interval, and the mark.

    Args:
        frame: of `judgements`.
        by: columns that make a group.
        settings: of the run.
        judged: how many groups are judged in all, of every grouping.
    """
    import pandas as pd

    lines = []
    for key, group in frame.groupby(by, sort=False):
        kind, count, failed = str(group["kind"].iloc[0]), len(group), float(group["failed"].mean())
        says, allowed = promised(kind, settings)
        p = chance(failed, allowed, count)
        line: dict[str, object] = dict(zip(by, key, strict=True))
        line |= {"kind": kind, "unit": group["unit"].iloc[0], "promised": says, "failed": failed}
        line |= {
            "failed_low": 1.0 - mean_loss_upper_bound(1.0 - failed, count, LEVEL / 2.0),
            "failed_high": mean_loss_upper_bound(failed, count, LEVEL / 2.0),
        }
        line |= {"seeds": count, "p": p, "marked": p < LEVEL / judged}
        line |= {"stated": float(group["stated"].mean()), "stated_error": _error(group["stated"].to_numpy())}
        lines.append(line)
    return pd.DataFrame(lines)


def _error(values: FloatArray) -> float:
    """Return the standard error of the mean; NaN of one value, or of infinite ones."""
    known = len(values) > 1 and np.isfinite(values).all()
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if known else math.nan
