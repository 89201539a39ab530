"""`gpsuite certify`: every guarantee that applies to a table of the user's, short for a run of experiment=guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from gpsuite.commands import run
from gpsuite.config.spelling import is_table
from gpsuite.errors import UserError

HELP = """
gpsuite certify FILE [TARGET] [key=value ...]

FILE      your table: .csv, .parquet or .xlsx. gpsuite data describe FILE shows how it is read
TARGET    the column to predict. Without it the columns are listed
--max-error 5        largest error of a prediction, in the target's unit. The share that exceeds it is certified
--predict rows.csv   rows to predict, with guarantees for each
--max-train-rows N   largest number of rows that the model learns from
--dataset.group COLUMN, --dataset.order time, ...   how rows belong together, and how the table is read
--format json        numbers, and every file written, as one JSON object

It is short for gpsuite run guarantee dataset=FILE dataset.target=TARGET, and takes the same settings:
gpsuite run guarantee --help
"""


def main(words: list[str]) -> int:
    """Run experiment=guarantee on the table named."""
    names, settings = _split(words)
    try:
        return run.main(_full(names, settings))
    except UserError as error:
        raise _as_certify(error, names) from error


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return file and target, and the settings. A file or column may have `=` in its name."""
    names = [word for word in words if "=" not in word and not word.startswith("-")]
    settings = [word for word in words if word not in names]
    if not names and settings and is_table(settings[0]):
        names.append(settings.pop(0))
    if not names or len(names) > 2:
        told = "name your table, and the column to predict" if not names else f"{names[2]}: one word too many"
        raise UserError(f"certify: {told}\ngpsuite certify my.csv price")
    for word in settings:
        if word.startswith(("experiment=", "dataset=", "dataset.path=")):
            raise UserError(f"{word}: certify takes the table as its first word\ngpsuite certify my.csv price")
    return names, settings


def _full(names: Sequence[str], settings: Sequence[str]) -> list[str]:
    target = [f"dataset.target={names[1]}"] if len(names) > 1 else []
    return ["experiment=guarantee", "dataset=csv", f"dataset.path={names[0]}", *target, *settings]


def _as_certify(error: UserError, names: Sequence[str]) -> UserError:
    """Return the error with file and target as they were typed, and with what puts them right."""
    text = str(error).replace("dataset.target: ", "TARGET: ", 1) if len(names) == 1 else str(error)
    for key, name in zip(("dataset.path", "dataset.target"), names, strict=False):
        text = text.replace(f"{key}={name}: ", f"{name}: ", 1)
        if key in error.fix:
            return type(error)(text, error.key, better=(name, error.fix[key]))
    return type(error)(text, error.key, error.fix, error.better)
