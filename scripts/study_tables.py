"""Draw 400 public tables of a folder, describe each, and compare the roles of some with those found by hand.

    python scripts/study_tables.py FOLDER_OF_CSV_FILES OUTPUT.csv [ROLES.json]

ROLES.json holds, for hand-checked tables, each column's role or a list of the roles that are right. The draw is one
random order of the file names: the first 60 are checked by hand and 30 more, and another 30 after any fault was fixed.
What is right is what a person would say who sees names and values. Row numbers are counters; kinds with numbers for
names (region, religion, firm) are categories or codes; numbers of few levels in an order, and 0 and 1, may be numbers
or categories, which makes no difference to what is learned; row names that differ in every row are text.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import multiprocessing
import random
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.describe import describe_table
from gpsuite.errors import UserError

SEED = 20261128
TABLES = 400
CHECKED = (0, 60, 90, 120)  # the study; more of its kind; tables that nobody saw before the faults were fixed
LARGEST = 4_000_000  # bytes
COLUMNS = ["table", "rows", "columns", "seconds", "peak_mb", "warnings", "target", "error", "said", "roles"]


def draw(folder: Path, seed: int) -> list[Path]:
    """Return the tables of the study in their random order; those of the project's own tests are none."""
    paths = [path for path in folder.glob("*.csv") if not path.name.startswith("real__")]
    paths = sorted(path for path in paths if path.stat().st_size <= LARGEST)
    random.Random(seed).shuffle(paths)
    return paths[:TABLES]


def study(path: Path) -> dict[str, Any]:
    """Describe one table; its first line of text if it is refused."""
    began = time.perf_counter()
    row: dict[str, Any] = {"table": path.name, "error": ""}
    try:
        found = describe_table(CsvSpec(path=str(path)))
    except UserError as error:
        row["error"] = str(error).splitlines()[0]
    else:
        row |= {"rows": found.rows, "columns": len(found.meanings), "warnings": len(found.warnings)}
        row["target"] = (found.regression or found.classification or {}).get("target", "")
        row["said"] = json.dumps(found.warnings)
        row["roles"] = json.dumps({column["name"]: column["role"] for column in found.meanings})
    row["seconds"] = round(time.perf_counter() - began, 3)
    row["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return row


def wrong_roles(found: Mapping[str, str], right: Mapping[str, str | list[str]]) -> dict[str, str]:
    """Return the columns whose role is not one of the right ones, and those that only one side has."""
    roles = {name: [role] if isinstance(role, str) else role for name, role in right.items()}
    names = [*roles, *(name for name in found if name not in roles)]
    return {name: found.get(name, "missing") for name in names if found.get(name) not in roles.get(name, [])}


def compare(rows: Sequence[Mapping[str, Any]], right: Mapping[str, Mapping[str, str | list[str]]]) -> None:
    """Print the shares of tables and of columns that are read rightly."""
    checked = [row for row in rows if row["table"] in right]
    good = columns = wrong = 0
    for row in checked:
        faults = wrong_roles(json.loads(row.get("roles", "{}")), right[row["table"]])
        good, columns, wrong = good + (not faults), columns + len(right[row["table"]]), wrong + len(faults)
        for name, role in faults.items():
            print(f"{row['table']}: {name!r} is {right[row['table']].get(name)}, read as {role}")
    print(f"{good} of {len(checked)} tables and {columns - wrong} of {columns} columns read rightly")


def main() -> None:
    """Write one line per table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("roles", type=Path, nargs="?")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    paths = draw(options.folder, options.seed)
    with multiprocessing.Pool(1, maxtasksperchild=1) as pool:  # one process per table, so that peaks are its own
        rows = pool.map(study, paths, chunksize=1)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    if options.roles is None:
        return
    right = json.loads(options.roles.read_text(encoding="utf-8"))
    for start, stop in itertools.pairwise(CHECKED):
        names = {path.name for path in paths[start:stop]}
        compare(rows, {name: roles for name, roles in right.items() if name in names})


if __name__ == "__main__":
    main()
