"""`gpsuite bench peers`: our time beside other libraries', each in the environment that `make peers` builds."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from gpsuite.commands.tables import show_table
from gpsuite.reporting.atomic import write_text

PEERS = "peers"


def bench_peers(results_dir: Path) -> int:
    """Run every case, print each ratio as it comes, and write peers.csv to results_dir/bench."""
    from gpsuite.engine.peers import PeerRow, compare, peer_python
    from gpsuite.experiments.peers import cases

    peer_python()
    rows = []
    for row in compare(cases()):
        print(
            f"{row.case} / {row.peer}: {row.ratio:.3g} [{row.low:.3g}, {row.high:.3g}] (goal {row.goal:g}),"
            f" {row.verdict}; {row.peer_accuracy}; set-up {row.peer_set_up:.1f} s",
            file=sys.stderr,
        )
        rows.append(row)
    path = results_dir / "bench" / "peers.csv"
    write_csv(path, [field.name for field in fields(PeerRow)], [asdict(row) for row in rows])
    show_table("bench peers", [asdict(row) for row in rows])
    print(path)
    return 0


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, object]]) -> None:
    """Write rows of these columns in one step."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())
