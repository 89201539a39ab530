"""The words after `gpsuite run`: `key=value` in Hydra's grammar, sweeps, and values taken literally."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpsuite.errors import UserError, few, unknown, unknown_name

# files, folders, columns and separators may be anything: spaces, commas, brackets, '=', '~' are part of the value
LITERAL = ("results_dir", "data_dir", "run_name")
LITERAL_GROUP = "dataset."
LONGEST_VALUE = 100_000  # letters
MOST_RUNS = 10_000  # of one -m: each is composed and checked before the first begins
GROUPS = ("experiment", "dataset", "method", "model", "parallel")


@dataclass(frozen=True)
class Several:
    """Values for several runs, `1,2` or `range(3)`: refused without -m once the key is known."""

    text: str


@dataclass(frozen=True)
class Overrides:
    """One run's words, read: group -> chosen name, and dotted key -> value or `Several`."""

    groups: Mapping[str, str]
    values: Mapping[str, Any]


def read_overrides(words: Sequence[str], choices: Mapping[str, Sequence[str]]) -> Overrides:
    """Read `key=value` words that contain no sweep. `choices`: group -> names it offers.

    Raises:
        UserError: for a word that is no `key=value`, a key given twice, several or unknown choices of a group.
    """
    groups: dict[str, str] = {}
    values: dict[str, Any] = {}
    for word in words:
        key, text = _split(word)
        if key in groups or key in values:
            raise UserError(f"{key}: given twice. Give it once, or use -m to run several values", key=key)
        if key in GROUPS:
            # which methods there are depends on the experiment
            groups[key] = choose(key, _value(key, text), None if key == "method" else choices[key])
        else:
            values[key] = text if is_literal(key) else _value(key, text)
    return Overrides(groups, values)


def is_literal(key: str) -> bool:
    """Return whether a setting's value is the text as typed."""
    return key in LITERAL or key.startswith(LITERAL_GROUP)


def refuse_several(key: str, several: Several, *, is_list: bool) -> UserError:
    """Build the error for values of several runs without -m."""
    text, word = several.text, shlex.quote(f"{key}={several.text}")
    listed = f"\nor, for one run with all of them, write a list: {key}=[{text}]" if is_list else ""
    return UserError(
        f"{key}={text}: several values. Add -m to run them one after another: gpsuite run -m ... {word}{listed}",
        key=key,
    )


def expand_sweeps(words: Sequence[str], choices: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return one list of words per run of a multirun: the product of all sweeps, in the order typed.

    Commas, `choice()` and `range()` follow Hydra's sweep syntax. `glob()` selects among a group's names,
    nested ones included.

    Raises:
        UserError: for a word that cannot be read, and for more than `MOST_RUNS` runs, before they are listed.
    """
    from hydra.core.override_parser.types import Glob

    columns: list[list[str]] = []
    for word in words:
        key, text = _split(word)
        if is_literal(key):
            columns.append([word])
            continue
        override = _parse(key, text)
        if not override.is_sweep_override():
            columns.append([word])
        elif isinstance(override.value(), Glob):
            columns.append([f"{key}={name}" for name in _globbed(key, override.value(), choices)])
        elif not override.is_discrete_sweep():
            raise UserError(f"{key}={text}: an interval has no values to run. Use range() or a list", key=key)
        else:
            _check_range(key, text, override.value())
            columns.append([f"{key}={value}" for value in override.sweep_string_iterator()])
    if math.prod(map(len, columns)) > MOST_RUNS:
        swept = {column[0].partition("=")[0]: len(column) for column in columns if len(column) > 1}
        raise _too_many(", ".join(f"{key} ({count} values)" for key, count in swept.items()), next(iter(swept)))
    return [list(run) for run in itertools.product(*columns)]


def _check_range(key: str, text: str, value: Any) -> None:
    # a range without end is refused too, before its values are listed
    from hydra.core.override_parser.types import RangeSweep
    from hydra.errors import HydraException

    if not isinstance(value, RangeSweep):
        return
    try:
        length = sum(1 for _ in itertools.islice(value.range(), MOST_RUNS + 1))
    except (ValueError, ArithmeticError, HydraException) as error:
        raise UserError(f"{key}={text}: not a range ({error})", key=key) from error
    if length > MOST_RUNS:
        raise _too_many(f"{key}={text}", key)


def _too_many(what: str, key: str) -> UserError:
    return UserError(f"{what}: more than {MOST_RUNS} runs, the most that -m may start. Sweep fewer values", key=key)


def _globbed(key: str, glob: Any, choices: Mapping[str, Sequence[str]]) -> list[str]:
    if key not in GROUPS:
        raise UserError(f"{key}: glob() works for {', '.join(GROUPS)} only", key=key)
    kept = [
        name
        for name in choices[key]
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in glob.include)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in glob.exclude)
    ]
    if not kept:
        raise UserError(f"{key}: no name matches {', '.join(glob.include)}", key=key)
    return kept


def _split(word: str) -> tuple[str, str]:
    key, equals, text = word.partition("=")
    if word.startswith("-"):
        raise UserError(f"{word}: unknown option. Settings are written key=value or --key value, sweeps need -m")
    bare = key.lstrip("+~")
    if word.startswith("~") and bare:
        raise UserError(
            f"{word}: settings cannot be deleted. Leave {bare} out for its default, or write {bare}=VALUE", key=bare
        )
    if word.startswith("+") and bare:
        raise UserError(
            f"{word}: settings cannot be added. An existing one is set without +: {bare}={text or 'VALUE'}\n"
            "all there are: gpsuite run NAME --help",
            key=bare,
        )
    if not equals or not bare:
        raise UserError(f"'{word}': expected key=value, for example scale=smoke")
    return key, text


def _parse(key: str, text: str) -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if len(text) > LONGEST_VALUE:
        fault = f"{len(text)} letters. A value has at most {LONGEST_VALUE}"
        raise UserError(f"{key}={text[:20]}...: {fault}", key=key)
    try:
        return OverridesParser.create().parse_override(f"{key}={text}")
    except ValueError as error:  # an integer of thousands of digits
        raise UserError(f"{key}={text[:20]}...: too long to be a number", key=key) from error
    except HydraException as error:
        reason = str(error).splitlines()[0]
        quoted = "['...','...']" if text.startswith("[") else "'...'"
        advice = f'quote values with special characters: {key}="{quoted}"'
        if text.count("[") != text.count("]"):
            advice = f"a bracket is missing: {key}=[A,B]"
        raise UserError(f"{key}={text}: cannot be read ({reason})\n{advice}", key=key) from None


def _value(key: str, text: str) -> Any:
    if text.startswith("{") and '"' in text:  # names with spaces and brackets, which Hydra's grammar has not
        return _quoted_names(key, text)
    override = _parse(key, text)
    return Several(text) if override.is_sweep_override() else override.value()


def _quoted_names(key: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(re.sub(r'":(?=\S)', '": ', text))
    except yaml.YAMLError as error:
        raise UserError(f"{key}={text}: cannot be read\nwrite {key}='{{\"NAME\": AMOUNT}}'", key=key) from error


def choose(group: str, value: Any, names: Sequence[str] | None) -> str:
    """Return the one name that a group's value is. `names`: all there are, None if the experiment decides.

    Raises:
        UserError: for several values, another type, a family or an unknown name.
    """
    if isinstance(value, Several):
        raise refuse_several(group, value, is_list=False)
    if not isinstance(value, str):
        valid = "" if names is None else f"\nvalid: {few(names)}"
        raise UserError(f"{group}={value}: expected one name{valid}", key=group)
    if names is not None and value not in names:
        members = [name for name in names if name.startswith(f"{value}/")]
        if members:
            raise UserError(
                f"{group}={value}: a family. Choose one of\n{few(members)}\ngpsuite list {value}", key=group
            )
        raise unknown_name(group, value, names)
    return value


def unknown_key(key: str, valid: Sequence[str], experiment: str) -> UserError:
    """Build the error for a key the experiment does not have."""
    head, dot, _ = key.partition(".")
    siblings = [name for name in valid if name.startswith(f"{head if dot else key}.")]
    told = f"{key}: {experiment} has no such setting"
    error = unknown(told, key, siblings or valid, key)
    return (
        error
        if error.better or siblings
        else UserError(f"{told}\nall there are: gpsuite run {experiment} --help", key=key)
    )
