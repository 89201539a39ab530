"""`gpsuite data`: list, download and verify datasets, describe a user's table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gpsuite.commands.list import dataset_lines
from gpsuite.commands.tables import say, say_command, show_json, show_table
from gpsuite.commands.words import Words, read_words
from gpsuite.config.files import conf_dir
from gpsuite.config.spelling import as_typed, is_table
from gpsuite.data.catalogue import dataset_names, describe, read_spec
from gpsuite.data.files import fetch, verify
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec, DatasetSpec, csv_value
from gpsuite.data.table.describe import TableDescription, describe_table
from gpsuite.data.table.names import choose_columns, shorten
from gpsuite.errors import DataError, UserError, unknown, unknown_name
from gpsuite.text import counted, typed_path, visible, visible_lines

HELP = """
gpsuite data list                   rows, inputs, licence, and where each dataset was found
gpsuite data fetch [name ...]       download what is missing into data/, verified by SHA-256
gpsuite data describe FILE [dataset.KEY=...]   how each column of your own table is read, and the commands that fit.
                                    format=json for scripts: columns with name, role, used and reason
gpsuite data verify [name ...]      read every file and compare its SHA-256. Exit code 2 if one has changed, or a
                                    dataset that is named is not here

Files are looked up in $GPSUITE_DATA_PATH (a list of folders), then in data/ (data_dir=DIR).
"""

ACTIONS = ("list", "fetch", "verify", "describe")

# experiments that `describe` names for a table whose target is a number, or a class
REGRESSIONS = ("guarantee", "pac_bayes/regression", "perturbation/region", "robustness/regression")
CLASSIFICATIONS = ("guarantee", "robustness/safety", "robustness/explain")
COLUMNS = ("dataset", "file", "state", "path", "hash", "expected", "found")
NAMING = {"target", "inputs", "ignore", "safety"}  # settings that name columns, which must exist
LONGEST_REASON = 300  # characters. A cell in it may have 100,000
LARGEST_TRIED = 200_000  # cells. Planning runs on a larger table takes minutes and gigabytes


def main(words: list[str]) -> int:
    """List, fetch or verify the datasets named, all by default, or describe a table."""
    if words[:1] == ["describe"]:
        return _describe(words[1:])
    given = read_words(words)
    if not given.names:
        raise UserError(f"data: say what to do\nvalid: {', '.join(ACTIONS)}")
    action, names = given.names[0], given.names[1:]
    if action not in ACTIONS:
        raise unknown(f"{action}: data cannot do that", action, ACTIONS)
    known = dataset_names(conf_dir())
    for name in names:
        if name not in known:
            raise unknown(f"{name}: unknown dataset", name, known)
    if action == "list":
        rows = [row for row in describe(conf_dir(), given.data_dir) if not names or row.name in names]
        if given.json:
            show_json({"datasets": [asdict(row) for row in rows]})
            return 0
        show_table("datasets", [asdict(row) for row in rows], dataset_lines(rows))
        return 0
    specs = [read_spec(conf_dir(), name) for name in names or known]
    chosen = [spec for spec in specs if isinstance(spec, DatasetSpec)]  # all but the user's CSV
    if action == "fetch":
        return _fetch(chosen, given)
    return _verify(chosen, given, wanted=bool(names))


def _describe(words: Sequence[str]) -> int:
    given = [word.partition("=") for word in words if word.startswith("dataset.")]
    settings = {key.removeprefix("dataset."): text for key, _, text in given}
    formats = [word for word in words if word.startswith("format=")]
    files = [word for word in words if not word.startswith("dataset.") and word not in formats]
    wrong = [f"dataset.{key}" for key in settings if key not in CSV_OPTIONS]
    wrong += [word.partition("=")[0] for word in files if "=" in word and not typed_path(word).exists()]
    if wrong:
        raise unknown(f"{wrong[0]}: unknown setting", wrong[0], [f"dataset.{key}" for key in CSV_OPTIONS])
    paths = [*files, *([settings.pop("path")] if "path" in settings else [])]
    if len(paths) != 1:
        raise UserError("data describe: name one file, for example: gpsuite data describe my.csv")
    spec = replace(CsvSpec(path=paths[0]), **{key: csv_value(key, text) for key, text in settings.items()})
    found = describe_table(spec)
    for key in NAMING & settings.keys():
        choose_columns(key, settings[key], [str(row["column"]) for row in found.columns])
    form = formats[-1].removeprefix("format=") if formats else "text"
    if form not in ("text", "json"):
        raise unknown_name("format", form, ["text", "json"])
    if form == "json":
        said = {"notes": found.notes, "warnings": found.warnings}
        show_json({"rows": found.rows, "columns": found.meanings, **said})
        return 0
    show_table(f"{paths[0]}: {counted(found.rows, 'row')}", found.columns)
    print(f"{counted(found.rows, 'row')}, {counted(len(found.columns), 'column')}")
    for note in found.notes:
        say(f"- {visible(note)}")
    for doubt in found.warnings:
        say(f"- check: {visible(doubt)}")
    _say_commands(found, paths[0], settings)
    return 0


def _say_commands(found: TableDescription, path: str, settings: Mapping[str, str]) -> None:
    """Print the command of each experiment that takes the table, or why it does not."""
    chosen = _chosen(found)
    reading = {key: text for key, text in settings.items() if key not in ("target", "inputs", "task")}
    tried = found.rows * len(found.columns) <= LARGEST_TRIED
    if not tried:
        say("- the table is large: the commands below are not tried on it. A run says at once what it cannot take")
    refusals: dict[str, list[str]] = {}  # by reason, which is the same for many
    commands: list[list[str]] = []
    for experiment, run in chosen:
        if run is not None:
            own = [f"dataset.{key}={text}" for key, text in {**run, **reading}.items()]
            refused = _refusal([f"experiment={experiment}", "dataset=csv", *own]) if tried else ""
            if refused:
                refusals.setdefault(refused, []).append(experiment)
            else:
                commands.append(_short(experiment, path, run, reading))
    for reason, experiments in refusals.items():
        say(visible(f"- not for {', '.join(dict.fromkeys(experiments))}: {reason}"))
    for command in commands:
        say_command(command)


def _short(experiment: str, path: str, run: Mapping[str, str], reading: Mapping[str, str]) -> list[str]:
    """Return the command of a run in its shortest form."""
    own = {**run, **reading}
    own.pop("path", None)
    target = own["target"]
    if experiment == "guarantee" and "=" not in f"{path}{target}" and target[:1] != "-":
        start = ["certify", path, own.pop("target")]
    else:
        table = [f"dataset={path}"] if is_table(path) else ["dataset=csv", f"dataset.path={path}"]
        start = ["run", experiment, *table]
    return ["gpsuite", *start, *(f"dataset.{key}={text}" for key, text in own.items())]


def _chosen(found: TableDescription) -> list[tuple[str, dict[str, str] | None]]:
    """Return experiments and their settings. A target that may be classes or a number is given both ways."""
    chosen: list[tuple[str, dict[str, str] | None]] = []
    for names, run, task in (
        (REGRESSIONS, found.regression, "regression"),
        (CLASSIFICATIONS, found.classification, "classification"),
    ):
        unsure = run is not None and run["target"] in found.unsure
        for name in names:
            stated = unsure and name in REGRESSIONS and name in CLASSIFICATIONS
            chosen.append((name, {**run, "task": task} if run and stated else run))
    both = found.classification
    if both and both["target"] in found.unsure and both != found.regression:
        chosen += [(name, {**both, "task": "regression"}) for name in REGRESSIONS if name in CLASSIFICATIONS]
    return chosen


def _refusal(words: Sequence[str]) -> str:
    """Return in one line why a run would be refused before any work. Empty if it would not."""
    from gpsuite.config.request import read_request
    from gpsuite.experiments.base import EXPERIMENTS

    try:
        request, _ = read_request(words)
        EXPERIMENTS.get(request.experiment).plan(request)
    except UserError as error:
        return shorten(as_typed(str(error), words).splitlines()[0], LONGEST_REASON)
    return ""


def _fetch(chosen: Sequence[DatasetSpec], given: Words) -> int:
    code, found = 0, dict[str, list[Path]]()
    for spec in chosen:
        try:
            paths = fetch(spec, given.data_dir)
        except DataError as error:  # does not stop the others
            print(f"gpsuite: {visible_lines(str(error))}", file=sys.stderr)
            code = 2
            continue
        found[spec.name] = list(paths.values())
        for path in () if given.json else paths.values():
            print(visible(str(path)))
        if not paths and not given.json:
            print(f"{spec.name}: embedded, nothing to fetch")
    if given.json:
        show_json({"datasets": found, "exit_code": code})
    return code


def _verify(chosen: Sequence[DatasetSpec], given: Words, *, wanted: bool) -> int:
    """Print every file's state. Return 2 if one was changed, or a `wanted` one is missing."""
    rows, bad = [], {"changed", "missing"} if wanted else {"changed"}
    for spec in chosen:
        for state in verify(spec, given.data_dir):
            shown = f"{state.state} (optional)" if state.optional else state.state
            cells: tuple[object, ...] = (state.name, shown, state.path, state.hash_kind, state.expected, state.found)
            rows.append(dict(zip(COLUMNS, (spec.name, *cells), strict=True)))
        if not spec.files:
            cells = ("(embedded)", "verified when loaded", "", "sha256 of the arrays", spec.content_sha256, "")
            rows.append(dict(zip(COLUMNS, (spec.name, *cells), strict=True)))
    if given.json:
        show_json({"files": rows})
    else:
        show_table("files", rows)
    return 2 if any(row["state"] in bad or str(row["state"]).startswith("changed") for row in rows) else 0
