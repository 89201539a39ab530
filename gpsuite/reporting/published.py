"""Published values and claims, read from conf/paper/*.yaml, each with the test that decides it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from gpsuite.reporting.rows import Basis, Cause, Judged

Kind = Literal["equality", "at_least", "at_most", "between", "all_of", "each", "context"]

_TEXTS = (
    "id",
    "where",
    "experiment",
    "dataset",
    "method",
    "quantity",
    "published",
    "unit",
    "statistic",
)
_OPTIONAL = ("condition", "standard_error", "remark", "basis", "test", "rules")
_NEEDED: dict[str, tuple[str, ...]] = {
    "equality": ("value", "tolerance"),
    "at_least": ("value",),
    "at_most": ("value",),
    "between": ("low", "high"),
    "all_of": ("partly",),
    "each": ("values", "tolerance", "partly"),
    "context": ("cause",),
}
_STATISTIC = re.compile(r"[a-z]\w*(\[[a-z]\w*=[^\[\],=]+(,[a-z]\w*=[^\[\],=]+)*\])?", re.ASCII)

_PRINTED = re.compile(r"(-?\d+(?:\.\d+)?)(?: ± [\d.]+)?", re.ASCII)

# libyaml's loader is the same safe loader, ten times faster
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Criterion:
    """The test that decides whether a statistic reproduces a published value.

    The limits are exact: what lies outside them is not reproduced. Only claims about several cells know "partly".

    Args:
        kind: `equality` |ours - value| <= tolerance; `at_least` and `at_most` a one-sided bound `value`;
            `between` a range [low, high]; `all_of` asks that a claim holds in all cells, the statistic being
            the share in which it does; `each` asks that every repetition is within the tolerance of its own value;
            `context` decides nothing: the value is printed for orientation.
        value: of equality, at_least, at_most.
        low: of between.
        high: of between.
        values: of each, one per repetition in their order.
        tolerance: of equality and each, in the unit of the value.
        partly: of all_of and each, the share of cells or repetitions from which on it counts as partly reproduced.
        of: what is judged, the value itself or the low or high end of its interval.
        cause: of context, why nothing can be decided.
    """

    kind: Kind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()
    tolerance: float = 0.0
    partly: float | None = None
    of: Judged = "value"
    cause: Cause | None = None

    def __str__(self) -> str:
        """Return what is asked, such as `0.4 to 0.6`, `low end at least 2.7` or `in all cells`."""
        return self._asked() if self.of == "value" else f"{self.of} end {self._asked()}"

    def _asked(self) -> str:
        if self.kind == "between":
            return f"{_digits(self.low)} to {_digits(self.high)}"
        if self.kind in ("at_least", "at_most"):
            return f"{self.kind.replace('_', ' ')} {_digits(self.value)}"
        if self.kind == "each":
            return f"each of {len(self.values)} within {self.tolerance:.4g}"
        if self.value is not None:
            low, high = self.value - self.tolerance, self.value + self.tolerance
            return (
                f"{_digits(low)} to {_digits(high)}" if self.tolerance else f"{_digits(self.value)} exactly"
            )
        return "in all cells" if self.kind == "all_of" else "no test"


@dataclass(frozen=True)
class Published:
    """One published value or claim.

    Args:
        id: unique over all papers.
        paper: short name of the paper, the YAML file's name.
        where: table, figure or section.
        experiment: `<family>/<name>` that recomputes it.
        dataset: its name.
        method: its name, or several.
        quantity: what is measured, in words.
        published: the value or claim as printed.
        unit: of the value.
        condition: under which it was printed; may be empty.
        statistic: name in the experiment's statistics, `metric` or `metric[axis=value,...]`.
        test: what decides.
        basis: what kind of statement it is; the kinds are counted apart.
        rules: commit in which its test was set down; empty before it is.
        standard_error: of the published value, if given.
        remark: why ours differs and what would settle it, or what a verdict does not say; may be empty.
    """

    id: str
    paper: str
    where: str
    experiment: str
    dataset: str
    method: str
    quantity: str
    published: str
    unit: str
    condition: str
    statistic: str
    test: Criterion
    basis: Basis
    rules: str = ""
    standard_error: float | None = None
    remark: str = ""

    @property
    def number(self) -> float | None:
        """The printed number that a figure can show beside ours; None of a claim in words or a range."""
        return self.printed if self.basis == "result" else None

    @property
    def printed(self) -> float | None:
        """The number as printed, without its standard error; None of words or a range."""
        found = _PRINTED.fullmatch(self.published)
        return float(found[1]) if found else None


def read_published(conf_dir: Path, experiment: str | None = None) -> list[Published]:
    """Read `conf_dir`/paper/*.yaml, in the files' order; with `experiment`, only its entries.

    A file is a mapping with `paper` (the file's name without .yaml), `rules` (the commit that set its tests down; an
    entry whose test is of another one names it itself) and `entries` (a list of mappings with the fields of
    `Published`); other top-level keys are free, for anchors shared by entries.

    Raises:
        ValueError: naming the file, the entry and the fault.
    """
    entries: list[Published] = []
    for path in sorted((conf_dir / "paper").glob("*.yaml")):
        stat = path.stat()
        entries += _read_file(path, (stat.st_mtime_ns, stat.st_size))
    seen: set[str] = set()
    for entry in entries:
        if entry.id in seen:
            raise ValueError(f"conf/paper/{entry.paper}.yaml: id {entry.id} is used twice")
        seen.add(entry.id)
    return [entry for entry in entries if experiment in (None, entry.experiment)]


@lru_cache(maxsize=32)  # every run of a multirun reads them; parsing takes longer than many a task
def _read_file(path: Path, stamp: tuple[int, int]) -> tuple[Published, ...]:
    """Return the entries of a file; `stamp` tells whether it has changed since."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(content, dict) or content.get("paper") != path.stem:
        raise ValueError(f"{path}: needs a key 'paper' with the value '{path.stem}'")
    if not isinstance(content.get("entries"), list):
        raise ValueError(f"{path}: needs a list 'entries'")
    rules = content.get("rules", "")
    if not isinstance(rules, str):
        raise ValueError(f"{path}: rules must be a commit (in quotes)")
    found = []
    for position, entry in enumerate(content["entries"], start=1):
        name = entry.get("id", f"number {position}") if isinstance(entry, dict) else f"number {position}"
        try:
            found.append(_entry(entry, path.stem, rules))
        except ValueError as error:
            raise ValueError(f"{path}: entry {name}: {error}") from error
    return tuple(found)


def _entry(entry: object, paper: str, rules: str) -> Published:
    if not isinstance(entry, dict):
        raise ValueError("must be a mapping")
    _only_known(entry, (*_TEXTS, *_OPTIONAL))
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ValueError(f"{key} must be a text that is not empty (numbers in quotes)")
    said = {
        "rules": entry.get("rules", rules),
        **{key: entry.get(key, "") for key in ("condition", "remark")},
    }
    for key, text in said.items():
        if not isinstance(text, str):
            raise ValueError(f"{key} must be a text")
    _one_of("basis", entry.get("basis"), get_args(Basis))
    if not _STATISTIC.fullmatch(entry["statistic"]):
        raise ValueError(f"statistic={entry['statistic']}: must be metric or metric[axis=value,...]")
    error = _number(entry, "standard_error") if "standard_error" in entry else None
    if error is not None and error < 0:
        raise ValueError("standard_error must not be negative")
    texts = {key: entry[key] for key in _TEXTS}
    test = _criterion(entry.get("test"))
    return Published(**texts, **said, paper=paper, test=test, basis=entry["basis"], standard_error=error)


def _criterion(test: object) -> Criterion:
    if not isinstance(test, dict) or test.get("kind") not in get_args(Kind):
        raise ValueError(f"test needs a kind: {', '.join(get_args(Kind))}")
    needed = _NEEDED[test["kind"]]
    ends = ("of",) if test["kind"] in ("at_least", "at_most", "between") else ()
    _only_known(test, ("kind", *needed, *ends))
    missing = [key for key in needed if key not in test]
    if missing:
        raise ValueError(f"test of kind {test['kind']} needs {', '.join(missing)}")
    _one_of("of", test.get("of", "value"), get_args(Judged))
    if "cause" in test:
        _one_of("cause", test["cause"], get_args(Cause))
    given: dict[str, Any] = {key: test[key] for key in ("kind", "of", "cause") if key in test}
    numbers: dict[str, Any] = {key: _number(test, key) for key in test if key not in (*given, "values")}
    if "values" in test and not isinstance(test["values"], list):
        raise ValueError("values must be a list of numbers")
    values = tuple(_number({"values": value}, "values") for value in test.get("values", []))
    criterion = Criterion(**given, **numbers, values=values)
    _check(criterion)
    return criterion


def _one_of(key: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{key}={given}: must be one of {', '.join(allowed)}")


def _check(test: Criterion) -> None:
    if test.tolerance < 0:
        raise ValueError("tolerance must not be negative")
    if test.partly is not None and not 0 < test.partly < 1:
        raise ValueError("partly must be a share between 0 and 1")
    if test.low is not None and test.high is not None and test.low > test.high:
        raise ValueError("low must not exceed high")
    if test.kind == "each" and not test.values:
        raise ValueError("values must not be empty")


def _digits(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value.is_integer() else f"{value:.5g}"


def _only_known(mapping: Mapping[Any, object], known: tuple[str, ...]) -> None:
    unknown = [str(key) for key in mapping if key not in known]
    if unknown:
        raise ValueError(f"unknown key {', '.join(unknown)}; allowed: {', '.join(known)}")


def _number(mapping: Mapping[str, object], key: str) -> float:
    value = mapping[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} must be a finite number, got {value!r}")
    return float(value)
