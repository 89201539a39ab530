"""`gpsuite list`: experiments, datasets, methods, without composing or importing anything heavy."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpsuite.commands.tables import show_json, show_lines, show_table
from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir, group_choices, read_file
from gpsuite.config.typed import SCALES
from gpsuite.data.catalogue import Description, describe
from gpsuite.errors import UserError, unknown
from gpsuite.plugins import plugins
from gpsuite.reporting.catalogue import ExperimentNote, read_experiments

HELP = """
gpsuite list [experiments|datasets|methods|NAME ...] [scale=quick|paper|smoke] [format=json]

experiments: by family, the question that each answers, and its cost at the scale
datasets:    rows, inputs, licence, and whether each was found
methods:     title and source of each
NAME:        details of one of them. A method's settings: gpsuite run EXPERIMENT method=NAME --help

A pipe gets every column, whole and tab separated.
"""

KINDS = ("experiments", "datasets", "methods")

Rows = Sequence[Mapping[str, Any]]


def main(words: list[str]) -> int:
    """Print the lists requested, all three by default, or the details of what is named."""
    given = read_words(words, choices={"scale": ("quick", *(each for each in SCALES if each != "quick"))})
    found = describe(conf_dir(), given.data_dir)
    states = {row.name: row.state for row in found}
    known = read_experiments(conf_dir())
    lists: dict[str, tuple[Rows, Rows]] = {
        "experiments": (
            [_experiment(name, note, states) for name, note in known.items()],
            [_experiment_brief(name, note, states, given.choices["scale"]) for name, note in known.items()],
        ),
        "datasets": ([asdict(row) for row in found], dataset_lines(found)),
        "methods": (_methods(), _methods()),
    }
    named = {next(iter(row.values())): row for rows, _ in lists.values() for row in rows}
    words = list(dict.fromkeys(each for word in given.names for each in _meant(word, named)))
    _name_broken_plugins()
    if given.json:
        show_json({kind: _rows_of(kind, rows, words) for kind, (rows, _) in lists.items()})
        return 0
    for kind, (rows, brief) in lists.items():
        names = [next(iter(row.values())) for row in rows]
        if len(words) > 1 and set(words) <= set(names):  # of one kind: one table
            wanted = [number for number, name in enumerate(names) if name in words]
            _show_kind(kind, [rows[number] for number in wanted], [brief[number] for number in wanted])
            return 0
    for word in words or KINDS:
        if word in KINDS:
            if sys.stdout.isatty() and len(words) != 1:
                print(f"{chr(10) if word != KINDS[0] else ''}{word.upper()}")
            _show_kind(word, *lists[word])
        else:
            show_table(word, [named[word]])
            if word in known and known[word].figures:
                figures = known[word].figures.items()
                rows = [{"figure": name, "of": note.of, "shows": note.shows} for name, note in figures]
                show_table("figures", rows)
    return 0


def _rows_of(kind: str, rows: Rows, words: Sequence[str]) -> Rows:
    """Return the rows of a kind that the words name. All if they name the kind, or nothing at all."""
    return [row for row in rows if not words or kind in words or next(iter(row.values())) in words]


def _show_kind(kind: str, rows: Rows, brief: Rows) -> None:
    """Print a list. On a terminal experiments by family, each under its family's name."""
    if kind != "experiments" or not sys.stdout.isatty():
        show_table(kind, rows, brief)
        return
    families: dict[str, list[Mapping[str, Any]]] = {}
    for row in brief:
        family, slash, name = str(row["experiment"]).partition("/")
        families.setdefault(family if slash else "", []).append({**row, "experiment": name or family})
    longest = max(len(str(row["experiment"])) for rows in families.values() for row in rows)
    for family, members in sorted(families.items()):
        print(f"\n{family or 'your own data, and all families'}/" if family else "")
        show_lines([{**row, "experiment": f"{row['experiment']:<{longest}}"} for row in members])


def _meant(word: str, named: Collection[str]) -> list[str]:
    """Return the list or the names that a word means: a family's name means its experiments."""
    if word in (*KINDS, *named):
        return [word]
    members = [name for name in named if name.startswith(f"{word.rstrip('/')}/")]
    if not members:
        error = unknown(f"{word}: no experiment, dataset or method", word, [*KINDS, *named])
        raise error if error.better else UserError(f"{word}: no experiment, dataset or method\ngpsuite list shows all")
    return members


def _name_broken_plugins() -> None:
    if plugins():  # what they are made of is imported for no other reason
        from gpsuite.commands.plugins import plugin_faults

        for fault in plugin_faults():
            print(f"gpsuite: {fault}", file=sys.stderr)


def dataset_lines(found: Sequence[Description]) -> Rows:
    """Return what a terminal shows of datasets: no addresses."""
    columns = {"name": "name", "rows x inputs": "shape", "task": "task", "state": "state", "licence": "licence"}
    return [{column: getattr(row, name) for column, name in columns.items()} for row in found]


def _needed(note: ExperimentNote, states: Mapping[str, str]) -> str:
    return ", ".join(f"{each} ({states.get(each, 'unknown')})" for each in note.data) or "none"


def _experiment(name: str, note: ExperimentNote, states: Mapping[str, str]) -> dict[str, Any]:
    return {
        "experiment": name,
        "paper": note.paper,
        "figure or table": note.figure,
        "what": note.title,
        "question": note.question,
        **{f"cost {scale}": note.cost.get(scale, "") for scale in SCALES},
        "data": _needed(note, states),
    }


def _experiment_brief(name: str, note: ExperimentNote, states: Mapping[str, str], scale: str) -> dict[str, Any]:
    missing = [each for each in note.data if states.get(each) == "missing"]
    told = f" ({', '.join(missing)}: not here)" if missing else ""
    return {"experiment": name, "answers": f"{note.question}{told}", scale: note.cost.get(scale, "")}


def _methods() -> list[dict[str, Any]]:
    contents = {name: read_file("method", name) for name in group_choices()["method"]}
    return [
        {"method": name, "title": each.get("title", ""), "source": each.get("reference", "")}
        for name, each in contents.items()
    ]
