"""`gpsuite list`: experiments, datasets, methods, without composing or importing anything heavy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpsuite.commands.show import show_table
from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir, group_choices, read_file
from gpsuite.config.schema import SCALES
from gpsuite.data.catalogue import describe
from gpsuite.errors import unknown_name

HELP = """
gpsuite list [experiments|datasets|methods]

experiments: the paper's figure or table, the cost at each scale, the data needed and whether it is here
datasets:    rows, inputs, licence, and where each was found
methods:     title and source of each
"""


def main(words: list[str]) -> int:
    """Print the lists asked for, all three by default."""
    given = read_words(words)
    kinds = given.names or ("experiments", "datasets", "methods")
    for kind in kinds:
        if kind not in ("experiments", "datasets", "methods"):
            raise unknown_name("list", kind, ("experiments", "datasets", "methods"))
    states = {row.name: row for row in describe(conf_dir(), given.data_dir)}
    for kind in kinds:
        if kind == "experiments":
            show_table("experiments", _experiments({name: row.state for name, row in states.items()}))
        elif kind == "datasets":
            show_table("datasets", [asdict(row) for row in states.values()])
        else:
            show_table("methods", _methods())
    return 0


def _experiments(states: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for name in group_choices()["experiment"]:
        meta = read_file("experiment", name).get("meta") or {}
        cost = meta.get("cost") or {}
        needed = [str(each) for each in meta.get("data") or []]
        rows.append(
            {
                "experiment": name,
                "paper": meta.get("paper", ""),
                "figure or table": meta.get("figure", ""),
                "what": meta.get("title", ""),
                **{f"cost {scale}": cost.get(scale, "") for scale in SCALES},
                "data": ", ".join(f"{each} ({states.get(each, 'unknown')})" for each in needed) or "none",
            }
        )
    return rows


def _methods() -> list[dict[str, Any]]:
    rows = []
    for name in group_choices()["method"]:
        content = read_file("method", name)
        rows.append(
            {"method": name, "title": content.get("title", ""), "source": content.get("reference", "")}
        )
    return rows
