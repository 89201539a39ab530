"""`gpsuite list`: experiments, datasets, methods, without composing or importing anything heavy."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpsuite.commands.tables import show_table
from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir, group_choices, read_file
from gpsuite.config.typed import SCALES
from gpsuite.data.catalogue import Description, describe
from gpsuite.errors import UserError, unknown
from gpsuite.reporting.catalogue import ExperimentNote, read_experiments

HELP = """
gpsuite list [experiments|datasets|methods|NAME ...] [scale=quick|paper|smoke]

experiments: the paper's figure or table, the cost at the scale, the data needed and whether it is here
datasets:    rows, inputs, licence, and whether each was found
methods:     title and source of each
NAME:        details of one of them; a method's settings: gpsuite run experiment=... method=NAME --help

A terminal shows one line each; a pipe gets every column, whole and tab separated.
"""

KINDS = ("experiments", "datasets", "methods")

Rows = Sequence[Mapping[str, Any]]


def main(words: list[str]) -> int:
    """Print the lists asked for, all three by default, or the details of what is named."""
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
    for kind, (rows, brief) in lists.items():
        names = [next(iter(row.values())) for row in rows]
        if len(words) > 1 and set(words) <= set(names):  # of one kind: one table
            wanted = [number for number, name in enumerate(names) if name in words]
            show_table(kind, [rows[number] for number in wanted], [brief[number] for number in wanted])
            return 0
    for word in words or KINDS:
        if word in KINDS:
            if sys.stdout.isatty() and len(words) != 1:
                print(f"{chr(10) if word != KINDS[0] else ''}{word.upper()}")
            show_table(word, *lists[word])
        else:
            show_table(word, [named[word]])
            if word in known and known[word].figures:
                figures = known[word].figures.items()
                rows = [{"figure": name, "of": note.of, "shows": note.shows} for name, note in figures]
                show_table("figures", rows)
    return 0


def _meant(word: str, named: Collection[str]) -> list[str]:
    """Return the list or the names that a word means: a family's name means its experiments."""
    if word in (*KINDS, *named):
        return [word]
    members = [name for name in named if name.startswith(f"{word.rstrip('/')}/")]
    if not members:
        error = unknown(f"{word}: no experiment, dataset or method", word, [*KINDS, *named])
        raise error if error.better else UserError(f"{word}: no experiment, dataset or method\ngpsuite list shows all")
    return members


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
        **{f"cost {scale}": note.cost.get(scale, "") for scale in SCALES},
        "data": _needed(note, states),
    }


def _experiment_brief(name: str, note: ExperimentNote, states: Mapping[str, str], scale: str) -> dict[str, Any]:
    missing = [each for each in note.data if states.get(each) == "missing"]
    data = f"missing: {', '.join(missing)}" if missing else ", ".join(note.data) or "none"
    cost = note.cost.get(scale, "")
    return {"experiment": name, "figure or table": note.figure, f"cost {scale}": cost, "data": data}


def _methods() -> list[dict[str, Any]]:
    contents = {name: read_file("method", name) for name in group_choices()["method"]}
    return [
        {"method": name, "title": each.get("title", ""), "source": each.get("reference", "")}
        for name, each in contents.items()
    ]
