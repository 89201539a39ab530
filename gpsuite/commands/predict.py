"""`gpsuite predict`: predictions for new rows by the model of a run, with the run's guarantee."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.commands.tables import say, show_json
from gpsuite.errors import UserError, unknown_name
from gpsuite.reporting.files import read_bytes
from gpsuite.text import counted, typed_path, visible
from gpsuite.untrusted import guard_links, refuse_links
from gpsuite.waiting import doing, done

if TYPE_CHECKING:
    import pandas as pd

    from gpsuite.experiments.guarantee.saved import Saved

HELP = """
gpsuite predict RUN FILE.csv [output=FILE] [format=json] [strict=true]
                [separator=CHARACTER] [decimal=MARK] [thousands=MARK]

RUN       folder of a run of experiment=guarantee: results/guarantee/...
FILE.csv  rows to predict, with the columns of the run's inputs. Other columns are ignored
output=   CSV file for predictions and intervals. Without it they are printed, in a terminal with few digits
strict=true   refuse a file with a row that cannot be read. Without it the others are predicted, and the column
          not_predicted says what is wrong with it
separator=, decimal=, thousands=   of the file, if it differs from the run's table. dataset.decimal= and so on work too

Rows outside the range of the training rows are marked: no guarantee was checked there.
"""

READING = ("separator", "decimal", "thousands")
OPTIONS = ("output", "format", "strict", *READING)


def main(words: list[str]) -> int:
    """Predict the rows of a file. The table goes to stdout or a file, notes and the guarantee to stderr."""
    from gpsuite import load

    names, options = _read(words)
    as_json = _as_json(options)
    target = _target(options["output"], typed_path(names[1])) if "output" in options else None
    run = guard_links(typed_path(names[0]))
    refuse_links(run / "model")
    doing("loading the model")
    saved = load(run)
    frame, told = _predicted(saved, names[1], options)
    from gpsuite.experiments.guarantee.answer import Rows, promised
    from gpsuite.experiments.guarantee.predictions import shown_rows
    from gpsuite.reporting.files import write_text

    text = frame.to_csv(index=False, lineterminator="\n")
    if target is not None:
        _require_like(target, text)
        write_text(target, text)
    if as_json:
        files = [] if target is None else [target]
        show_json({"predictions": frame.to_dict("records"), "notes": told, "files": files})
        return 0
    if target is not None:
        print(target)
    elif sys.stdout.isatty():
        print("\n".join(Rows(table=shown_rows(frame, promised(saved.guarantee))).lines()))
    else:
        print(text, end="")  # a pipe wants names as they are, and every digit
    for line in told:
        say(visible(line), sys.stderr)
    return 0


def _predicted(saved: Saved, file: str, options: Mapping[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return a file's predictions, and their notes."""
    import pandas as pd

    from gpsuite.data.table.new_rows import inputs_of_file, unread_rows
    from gpsuite.experiments.guarantee.predictions import with_unread

    stated = {key: mark for key, mark in options.items() if key in READING}
    needed = [*saved.inputs, *filter(None, [saved.weight_name])]
    rows = inputs_of_file(file, needed, saved.reading, saved.categories, stated, _strict(options))
    X, count = rows.X[rows.readable], len(saved.inputs)
    found = saved.predict(X[:, :count], X[:, count] if saved.weight_name else None)
    done()
    frame = pd.DataFrame({"row": rows.readable + 1, **found.columns()})
    frame = with_unread(frame.rename(columns={"outside": "outside_training_range"}), rows.unread)
    told = [*saved.guarantee[:2], *(f"{file}: {note}" for note in rows.notes)]
    if rows.unread:
        told.append(f"{file}: {unread_rows(rows.unread, len(rows.X))}")
    told.append(f"Outside the training range: {int(found.outside.sum())} of {counted(len(found.outside), 'row')}.")
    return frame, told


def _as_json(options: Mapping[str, str]) -> bool:
    form = options.get("format", "text")
    if form not in ("text", "json"):
        raise unknown_name("format", form, ["text", "json"])
    return form == "json"


def _strict(options: Mapping[str, str]) -> bool | None:
    """Return whether a row that cannot be read is a reason to refuse the file. None: as the table was read."""
    value = options.get("strict")
    if value not in (None, "true", "false"):
        raise UserError(f"strict={value}: must be true or false", key="strict")
    return None if value is None else value == "true"


def _read(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return run and file, and the options."""
    names, options = [], {}
    for word in words:
        key, equals, value = word.removeprefix("dataset.").partition("=")
        if equals and key in OPTIONS:
            options[key] = value
        else:
            names.append(word)
    if len(names) != 2:
        raise UserError(
            f"predict: a run's folder and a file are needed, not {' '.join(names) or 'nothing'}\n"
            "gpsuite predict results/guarantee/quick~1a2b3c4d new.csv output=predictions.csv"
        )
    return names, options


def _target(text: str, rows: Path) -> Path:
    """Return the output file: a new one, or one of earlier predictions, never that of the rows."""
    path = typed_path(text)
    if text in ("text", "json"):
        raise UserError(f"output={text}: output is a file. What is printed:", key="output", better=("output", "format"))
    if not text or path.is_dir() or not path.parent.is_dir():
        fix = "name a file in an existing folder, or leave it out: the rows are printed"
        raise UserError(f"output={text}: {fix}", key="output")
    if path.exists() and rows.exists() and path.samefile(rows):
        raise UserError(f"output={text}: that is the file of the rows. Choose another name", key="output")
    return path.resolve()


def _require_like(path: Path, text: str) -> None:
    # only earlier predictions may be overwritten
    header = text.partition("\n")[0].encode()
    if path.exists() and not (path.is_file() and read_bytes(path).splitlines()[:1] == [header]):
        raise UserError(f"output={path}: file exists. Choose another name", key="output")
