"""`gpsuite recheck`: recompute a random sample of published records and compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.commands.tables import show_json, show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.errors import ResultsError, UserError
from gpsuite.reporting.collect import PUBLISHED
from gpsuite.reporting.files import RECHECKED, write_text
from gpsuite.text import visible

if TYPE_CHECKING:
    from gpsuite.engine.recheck import Rechecked

HELP = """
gpsuite recheck [experiment ...] [sample=5] [seed=0] [results_dir=DIR] [format=json]

Draws published records at random, from as many runs as possible, and computes their tasks again on this machine.
Counts how many of a record's numbers are the same: bitwise, within rounding (1e-9, relative), within the experiment's
stated tolerance for ill-conditioned searches, or not. Seconds and numbers of evaluations are not compared.

A record computed without AVX-512 instructions, or with OpenBLAS kernels that it names, is computed so here too. If it
names none, OpenBLAS chooses, regardless of OPENBLAS_CORETYPE.

If a sampler decides what is measured next, another processor's last bits give other results. This is `another path`,
which is no disagreement. On the same arithmetic it must agree. A record with an older version of its method, or without
its data here, is named as not checked. An interruption shows what was checked until then.

The page of `gpsuite report` shows the date on which a run's records agreed.
Exit code 0: all that was checked agrees. 1: some do not. 2: nothing could be checked.
"""


def main(words: list[str]) -> int:
    """Recompute a sample of the published records of the experiments named, and compare."""
    given = read_words(words, {"sample": 5, "seed": 0}, reads=True)
    if not given.numbers["sample"]:
        raise UserError("sample=0: at least one record must be drawn", key="sample")
    from gpsuite.config.request import read_request
    from gpsuite.engine.progress import clock, progress
    from gpsuite.engine.recheck import draw, plan_recheck, published_runs, recheck, without_damaged

    runs = published_runs(given.results_dir, experiment_names(given.names))
    readable, damaged = without_damaged(runs)
    chosen = draw(readable, given.numbers["sample"], given.numbers["seed"])
    if not chosen and not damaged:
        of = f" of {', '.join(given.names)}" if given.names else ""
        raise UserError(f"recheck: no published records{of} under {given.results_dir / 'published'}")
    due, unchecked = plan_recheck(chosen, read_request)
    unchecked += damaged
    spent = clock(sum(each.published.timing.get("cpu_seconds", 0.0) for each in due))
    print(f"recheck: {len(due)} tasks, which took {spent} with models shared among tasks", file=sys.stderr)
    found: list[Rechecked] = []
    try:
        with progress("recheck", len(due)) as shown:
            for each in recheck(due):
                found.append(each)
                if each.record is not None:
                    shown.advance(each.record)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"recheck: interrupted after {len(found)} of {len(due)} tasks") from None
    finally:
        rows = [_row(each) for each in [*found, *unchecked]]
        if given.json:
            show_json({"records": rows})
        else:
            show_table("recheck", rows)
    _note(given.results_dir / PUBLISHED, [*found, *unchecked])
    if any(each.verdict == "no" for each in (*found, *unchecked)):
        return 1
    if not found:
        print("gpsuite: none of the records drawn could be checked", file=sys.stderr)
        return 2
    return 0


def _note(published: Path, found: Iterable[Rechecked]) -> None:
    """Write into each run's folder, for the page, when its records agreed or did not."""
    verdicts: dict[str, set[str]] = {}
    for each in found:
        verdicts.setdefault(each.run, set()).add(each.verdict)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for run, seen in verdicts.items():
        ended = "failed" if "no" in seen else "passed"
        if seen & {"yes", "no"}:
            with suppress(ResultsError):  # a folder that may not be written, such as an installed one, keeps no date
                write_text(published / run / RECHECKED, json.dumps({ended: now}) + "\n")


def _row(found: Rechecked) -> dict[str, Any]:
    from gpsuite.engine.recheck import LEVELS

    counts: dict[str, Any] = dict.fromkeys(LEVELS, "")
    said, agreement = found.reason, found.agreement
    if agreement is not None:
        counts.update(agreement.counts)
        said = f"{agreement.worst} ({agreement.difference:.1e})" if agreement.worst else ""
    row = {"run": found.run, "task": visible(found.task), "agrees": found.verdict}
    return {**row, **counts, "differs most": visible(said)}
