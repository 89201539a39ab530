"""Run the default answer on the cross-sectional tables of the study, and count what its checks of assumptions say.

    python scripts/study_runs.py FOLDER_OF_CSV_FILES OUTPUT.csv RESULTS_FOLDER [MOST_TABLES]

Cross-sectional: 30 to 2,000 rows, no dates or times, no column named after time, and no whole numbers that rise in
every row but row numbers. The target is the last column of the file that `describe` says can be one.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.describe import TableDescription, describe_table
from gpsuite.data.table.doubts import TIME_NAME
from scripts.study_tables import SEED, draw

ROWS = (30, 2000)
SECONDS = 60
COLUMNS = ["table", "target", "task", "rows", "seconds", "exit", "contradicted", "doubtful", "what", "same", "said"]


def cross_sectional(found: TableDescription) -> bool:
    """Whether the rows do not look like moments."""
    named = any(TIME_NAME.fullmatch(str(column["name"])) for column in found.meanings)
    dated = any(column["role"] in ("date", "time") for column in found.meanings)
    rising = any("rise or fall in every row" in text for text in found.warnings)
    return ROWS[0] <= found.rows <= ROWS[1] and not (named or dated or rising)


def last_target(found: TableDescription) -> str:
    """Return the column furthest to the right among those that can be a target, or an empty string."""
    names = [column["name"] for column in found.meanings]
    possible = [settings["target"] for settings in (found.regression, found.classification) if settings is not None]
    return max(possible, key=names.index, default="")


def run(path: Path, target: str, results: Path) -> dict[str, Any]:
    """Run the default answer; return what its checks say, and whether it tells the same of the table as `describe`."""
    words = ["experiment=guarantee", "dataset=csv", f"dataset.path={path}", f"dataset.target={target}"]
    folder = results / path.stem
    command = [sys.executable, "-m", "gpsuite.cli", "run", *words, "parallel=serial", f"results_dir={folder}"]
    began, code, said = time.perf_counter(), "", ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=os.environ)
        code, said = str(done.returncode), f"{done.stdout}\n{done.stderr}"
    except subprocess.TimeoutExpired:
        code = "timeout"
    (results / f"{path.stem}.txt").write_text(said, encoding="utf-8")
    row = {"table": path.name, "target": target, "seconds": round(time.perf_counter() - began, 1), "exit": code}
    for record in folder.glob("guarantee/*/run.json"):
        row |= _read(record, CsvSpec(path=str(path), target=target))
    if code != "0":
        row["said"] = said.strip()[-300:]
    return row


def _read(record: Path, spec: CsvSpec) -> dict[str, Any]:
    """Return the verdicts of a run, and whether run.json holds what `describe` says of the table."""
    told = json.loads(record.read_text(encoding="utf-8"))
    with (record.parent / "tables" / "assumptions.csv").open(newline="", encoding="utf-8") as file:
        checks = list(csv.DictReader(file))
    verdicts = Counter(check["verdict"] for check in checks)
    found = describe_table(spec)
    unused = {
        f"column {column['name']!r} left out: {column['reason']}" for column in found.meanings if not column["used"]
    }
    left_out = {note for note in told["dataset"]["notes"] if " left out: " in note and note.startswith("column ")}
    # describe asks the same by printing a command of each task
    said = [text for text in told["dataset"].get("warnings", []) if "classes or a number?" not in text]
    what = [check["assumption"] for check in checks if check["verdict"] in ("contradicted", "doubtful")]
    return {
        "rows": found.rows,
        "task": told["answer"][0].split("; ")[-1].split(" of ")[0],
        "contradicted": verdicts["contradicted"],
        "doubtful": verdicts["doubtful"],
        "what": json.dumps(what),
        "same": list(found.warnings) == said and left_out == unused,
    }


def main(folder: str, output: str, results: str, most: str = "60") -> None:
    """Write one line per table."""
    rows: list[dict[str, Any]] = []
    Path(results).mkdir(parents=True)
    with Path(output).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for path in draw(Path(folder), SEED):
            found = describe_table(CsvSpec(path=str(path)))
            target = last_target(found) if cross_sectional(found) else ""
            if target and len(rows) < int(most):
                rows.append(run(path, target, Path(results)))
                writer.writerow(rows[-1])
                file.flush()
    _sum_up(rows)


def _sum_up(rows: Sequence[dict[str, Any]]) -> None:
    ended = [row for row in rows if "contradicted" in row]
    for key in ("contradicted", "doubtful", "same"):
        print(f"{key}: {sum(bool(row[key]) for row in ended)} of {len(ended)} answered tables")
    print(f"{len(rows)} tables, {len(rows) - len(ended)} without an answer")


if __name__ == "__main__":
    main(*sys.argv[1:])
