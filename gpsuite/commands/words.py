"""What the smaller commands share: names and the few `key=value` words they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.config.files import group_choices
from gpsuite.errors import UserError, unknown_name

PLACES = ("results_dir", "data_dir")


@dataclass(frozen=True)
class Words:
    """Names in the order typed, and the places results and data are in."""

    names: tuple[str, ...]
    results_dir: Path
    data_dir: Path


def read_words(words: Sequence[str]) -> Words:
    """Split names from `results_dir=` and `data_dir=`.

    Raises:
        UserError: for another option.
    """
    names: list[str] = []
    places = {"results_dir": "results", "data_dir": "data"}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key not in PLACES:
            raise UserError(
                f"{word}: unknown setting\nvalid: {', '.join(f'{place}=DIR' for place in PLACES)}"
            )
        if equals:
            places[key] = value
        elif word.startswith("-"):
            raise UserError(f"{word}: unknown option")
        else:
            names.append(word)
    return Words(tuple(names), Path(places["results_dir"]), Path(places["data_dir"]))


def experiment_names(names: Sequence[str]) -> list[str]:
    """Return the experiments named, all when none is; a family's name stands for its experiments.

    Raises:
        UserError: for an unknown name.
    """
    known = [name for name in group_choices()["experiment"] if name != "tour"]
    if not names:
        return known
    chosen: list[str] = []
    for name in names:
        members = [each for each in known if each == name or each.startswith(f"{name}/")]
        if not members:
            raise unknown_name("experiment", name, known)
        chosen += members
    return list(dict.fromkeys(chosen))
