"""Words as users type them, in the form that the settings have inside: the only place that knows both.

Task keys and published records hold the stored names, so these never change. Users see and type the public ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpsuite.config.files import group_choices, read_file
from gpsuite.config.grammar import FORMATS, with_experiment
from gpsuite.config.overrides import Overrides, choose
from gpsuite.errors import UserError
from gpsuite.text import typed_path

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".xls")  # how the names of a user's tables end

# stored name -> public name, in every experiment that has the stored one
RENAMED = {
    "most_rows": "max_train_rows",
    "train_rows": "max_train_rows",
    "band_rows": "max_train_rows",
    "evaluations": "max_evaluations",
    "radii": "radius",
    "gammas": "radius",
    "gamma": "radius",
    "attack_gammas": "attack_radius",
    "check_radii": "check_radius",
    "margin_radii": "margin_radius",
    "preparation": "scaling_share",
    "tolerance": "gap",
    "tolerance_dimension": "gap_dimension",
    "check_tolerances": "check_gaps",
}
# in which a name has another meaning. `rows` stays where so many are drawn, `points` where `test_rows` has them all
OWN = {
    "guarantee": {"tolerances": "input_errors", "points": "test_rows"},
    "perturbation/region": {"rows": "max_train_rows", "points": "curve_points"},
    "perturbation/band_comparison": {"points": "curve_points"},
    "robustness/posterior_quality": {"gammas": "radius_count"},
    "robustness/runtime_mnist38": {"tolerances": "gap"},
}
ERRORS, PAIR = "input_errors", ("uncertain", "within")  # a dictionary, stored as its names and its amounts
SYNONYMS = {"max_error": "accuracy"}
# short for a setting of the user's table
TABLE_WORDS = {"predict": "dataset.new"}


def in_full(words: Sequence[str]) -> list[str]:
    """Return the words of one run in full: a bare experiment, `dataset=FILE` and `predict=FILE` as their settings."""
    return with_tables(with_experiment(words))


def with_tables(words: Sequence[str]) -> list[str]:
    """Return the words with what is short for settings of the user's table, or of what is printed, in full."""
    found = []
    for word in words:
        key, equals, value = word.partition("=")
        if key == "dataset" and is_table(value):
            found += ["dataset=csv", f"dataset.path={value}"]
        elif key == "output" and value in FORMATS:
            found.append(f"format={value}")
        elif equals and key in TABLE_WORDS:
            found.append(f"{TABLE_WORDS[key]}={value}")
        else:
            found.append(word)
    return found


def is_table(value: str) -> bool:
    """Return whether a value of `dataset=` is a file of the user's, not the name of a dataset."""
    if value in group_choices()["dataset"]:
        return False
    return value.lower().endswith(TABLES) or (bool(value) and typed_path(value).is_file())


def public_names(experiment: str) -> dict[str, str]:
    """Return stored name -> public name of the settings of an experiment that have another one."""
    own = read_file("experiment", experiment)
    return {key: name for key, name in {**RENAMED, **OWN.get(experiment, {})}.items() if key in own}


def stored(overrides: Overrides) -> Overrides:
    """Return the user's values under the names that the settings have inside.

    Raises:
        UserError: if a setting is given by two names.
    """
    groups, experiment = dict(overrides.groups), overrides.groups.get("experiment", "")
    if not experiment:
        return overrides
    own, names = read_file("experiment", experiment), public_names(experiment)
    values: dict[str, Any] = {}
    for key, value in overrides.values.items():
        if key == "kernel" and "kernel" not in own:
            if "model" in groups:
                raise UserError("kernel: given together with model. Give one of the two", key="kernel")
            groups["model"] = choose("kernel", value, group_choices()["model"])
            continue
        for name, content in _stored(key, value, own, names):
            if name in values and key not in names:
                raise UserError(f"{key}: given twice, also by its earlier name", key=key)
            if name not in overrides.values or name == key:  # an earlier name decides between several
                values[name] = content
    return Overrides(groups, values)


def _stored(key: str, value: Any, own: Mapping[str, Any], names: Mapping[str, str]) -> Iterable[tuple[str, Any]]:
    if key == ERRORS and set(PAIR) <= own.keys():
        if isinstance(value, dict):
            amounts = [each for each in value.values() if each is not None]
            return [(PAIR[0], [str(name) for name in value]), (PAIR[1], amounts)]
        return [(PAIR[0], value)]
    inside = [name for name, public in names.items() if public == key and key not in own]
    if not inside and key not in own and SYNONYMS.get(key) in own:
        inside = [SYNONYMS[key]]
    return [(name, value) for name in inside or [key]]


def hints(words: Sequence[str]) -> list[str]:
    """Return a line for each word with an earlier name of a setting: what it is called now."""
    given = [word.partition("=")[0] for word in words]
    experiment = next((word.partition("=")[2] for word in words if word.startswith("experiment=")), "")
    if experiment not in group_choices()["experiment"]:
        return []
    names: dict[str, str] = public_names(experiment)
    own = read_file("experiment", experiment)
    if set(PAIR) <= own.keys():
        names |= dict.fromkeys(PAIR, f"{ERRORS}={{NAME: AMOUNT}}")
    if "kernel" not in own:
        names["model"] = "kernel"
    return [f"{key}= is now called {names[key]}. This version still takes both" for key in given if key in names]


def as_typed(text: str, words: Sequence[str]) -> str:
    """Return a message about stored names with the names that the user typed, or the public ones."""
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
    pairs: dict[str, str] = {}
    experiment = next((word.partition("=")[2] for word in with_experiment(words) if word.startswith("experiment=")), "")
    if experiment in group_choices()["experiment"]:
        pairs = {key: name for key, name in public_names(experiment).items() if key not in given}
        if ERRORS in given and set(PAIR) <= read_file("experiment", experiment).keys():
            pairs |= dict.fromkeys(PAIR, ERRORS)
        if "model" not in given and "kernel" not in read_file("experiment", experiment):
            pairs["model"] = "kernel"
    pairs |= {long: short for short, long in TABLE_WORDS.items() if short in given}
    pairs |= {key: name for name, key in SYNONYMS.items() if name in given}
    if is_table(given.get("dataset", "")):
        pairs["dataset.path"] = "dataset"
    for key, name in pairs.items():
        text = re.sub(rf"^{re.escape(key)}(?=:)|(?<![\w.]){re.escape(key)}(?==)", name, text)
    head = re.match(r"(\w+)=([^\s:]+)(?=: )", text)
    if head and head[2] in words and not any(word.startswith(f"{head[1]}=") for word in words):
        text = text[len(head[1]) + 1 :]
    return text


def public_options(experiment: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return composed settings under their public names, in their order."""
    names, found = public_names(experiment), dict[str, Any]()
    for key, value in options.items():
        if key == PAIR[0] and PAIR[1] in options:
            amounts = [*options[PAIR[1]], *[None] * len(value)]
            found[ERRORS] = dict(zip(value, amounts, strict=False))
        elif key != PAIR[1] or PAIR[0] not in options:
            found.setdefault(names.get(key, key), value)
    return found
