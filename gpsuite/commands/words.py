"""Arguments of the smaller commands: names and the few `key=value` words they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpsuite.config.files import group_choices
from gpsuite.errors import UserError, nearest, unknown, unknown_name
from gpsuite.text import typed_path
from gpsuite.untrusted import guard_links

PLACES = ("results_dir", "data_dir")


@dataclass(frozen=True)
class Words:
    """Names in the order typed, the folders of results and data, and a command's own numbers and choices."""

    names: tuple[str, ...]
    results_dir: Path
    data_dir: Path
    numbers: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> bool:
        """Whether stdout gets one JSON object."""
        return self.choices["format"] == "json"


def read_words(
    words: Sequence[str],
    numbers: Mapping[str, int] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
    *,
    reads: bool = False,
) -> Words:
    """Split names from `results_dir=`, `data_dir=` and a command's own numbers and choices.

    Args:
        words: as typed.
        numbers: key -> default of each whole number, zero or more, that the command takes.
        choices: key -> its values, the default first.
        reads: whether the command reads results: a `results_dir=` must exist.
    """
    names: list[str] = []
    places = {"results_dir": "results", "data_dir": "data"}
    found = dict(numbers or {})
    choices = {**(choices or {}), "format": ("text", "json")}
    chosen = {key: allowed[0] for key, allowed in choices.items()}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in found:
            found[key] = _whole_number(key, value)
        elif equals and key in choices:
            if value not in choices[key]:
                raise unknown_name(key, value, choices[key])
            chosen[key] = value
        elif equals and key in PLACES:
            places[key] = str(_place(key, value, exists=reads and key == "results_dir"))
        elif equals:
            own = [f"{name}=NUMBER" for name in found]
            own += [f"{name}={'|'.join(allowed)}" for name, allowed in choices.items()]
            valid = [*(f"{place}=DIR" for place in PLACES), *own]
            near = nearest(key, [each.partition("=")[0] for each in valid])
            if near:
                raise UserError(f"{word}: unknown setting. Did you mean '{near}'?", better=(key, near))
            raise UserError(f"{word}: unknown setting\nvalid: {', '.join(valid)}")
        elif word.startswith("-"):
            raise UserError(f"{word}: unknown option")
        else:
            names.append(word)
    return Words(tuple(names), guard_links(Path(places["results_dir"])), Path(places["data_dir"]), found, chosen)


def _place(key: str, value: str, *, exists: bool) -> Path:
    path = typed_path(value)
    if not value or (path.exists() and not path.is_dir()):
        raise UserError(f"{key}={value}: must be a folder", key=key)
    if exists and not path.is_dir():
        raise UserError(f"{key}={value}: no such folder", key=key)
    return path


def _whole_number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UserError(f"{key}={value}: must be a whole number, not negative", key=key)
    return int(value)


def experiment_names(names: Sequence[str]) -> list[str]:
    """Return the experiments named, all if none is. A family's name means its experiments."""
    known = [name for name in group_choices()["experiment"] if name != "tour"]
    if not names:
        return known
    chosen: list[str] = []
    for name in names:
        if name == "tour":
            raise UserError("tour: several runs. Name their experiments", key="experiment")
        members = [each for each in known if each == name or each.startswith(f"{name.rstrip('/')}/")]
        if not members:
            raise unknown(f"{name}: unknown experiment", name, [*{each.split("/")[0]: None for each in known}, *known])
        chosen += members
    return list(dict.fromkeys(chosen))
