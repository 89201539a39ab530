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

from gpsuite.reporting.rows import Judged

Kind = Literal["equality", "at_least", "at_most", "between", "all_of", "context"]
SOURCES = ("paper", "authors' method, measured")

_TEXTS = (
    "id",
    "where",
    "experiment",
    "dataset",
    "method",
    "quantity",
    "published",
    "unit",
    "source",
    "statistic",
)
_OPTIONAL = ("condition", "standard_error", "test")
_NEEDED: dict[str, tuple[str, ...]] = {
    "equality": ("value", "tolerance"),
    "at_least": ("value",),
    "at_most": ("value",),
    "between": ("low", "high"),
    "all_of": ("partly",),
    "context": (),
}
_STATISTIC = re.compile(r"[a-z]\w*(\[[a-z]\w*=[^\[\],=]+(,[a-z]\w*=[^\[\],=]+)*\])?", re.ASCII)

# libyaml's loader is the same safe loader, ten times faster
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Criterion:
    """The test that decides whether a statistic reproduces a published value.

    Args:
        kind: `equality` |ours - value| <= tolerance; `at_least` and `at_most` a one-sided bound `value`;
            `between` a range [low, high]; `all_of` asks that a claim holds in all cells, the statistic being
            the share in which it does; `context` decides nothing: the value is printed for orientation.
        value: of equality, at_least, at_most.
        low: of between.
        high: of between.
        tolerance: how far outside still counts as reproduced, in the unit of the value.
        partly: how far outside counts as partly reproduced (equality: twice the tolerance by default, else no
            such zone); for all_of the share of cells from which on the claim counts as partly reproduced.
        of: what is judged, the value itself or the low or high end of its interval.
    """

    kind: Kind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float = 0.0
    partly: float | None = None
    of: Judged = "value"

    def __str__(self) -> str:
        """Return what is asked, such as `0.5 ± 0.1`, `low end at least 2.7` or `in all cells`."""
        return self._asked() if self.of == "value" else f"{self.of} end {self._asked()}"

    def _asked(self) -> str:
        if self.kind == "between":
            return f"{_digits(self.low)} to {_digits(self.high)}{self._slack()}"
        if self.kind in ("at_least", "at_most"):
            return f"{self.kind.replace('_', ' ')} {_digits(self.value)}{self._slack()}"
        if self.kind == "equality":
            return f"{_digits(self.value)}{self._slack() or ' exactly'}"
        return "in all cells" if self.kind == "all_of" else "no test"

    def _slack(self) -> str:
        return f" ± {self.tolerance:.4g}" if self.tolerance else ""


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
        source: `paper`, or `authors' method, measured` where the printed number is not available.
        statistic: name in the experiment's statistics, `metric` or `metric[axis=value,...]`.
        test: what decides.
        standard_error: of the published value, if given.
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
    source: str
    statistic: str
    test: Criterion
    standard_error: float | None = None


def read_published(conf_dir: Path, experiment: str | None = None) -> list[Published]:
    """Read `conf_dir`/paper/*.yaml, in the files' order; with `experiment`, only its entries.

    A file is a mapping with `paper` (the file's name without .yaml) and `entries` (a list of mappings with
    the fields of `Published`); other top-level keys are free, for anchors shared by entries.

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
    found = []
    for position, entry in enumerate(content["entries"], start=1):
        name = entry.get("id", f"number {position}") if isinstance(entry, dict) else f"number {position}"
        try:
            found.append(_entry(entry, path.stem))
        except ValueError as error:
            raise ValueError(f"{path}: entry {name}: {error}") from error
    return tuple(found)


def _entry(entry: object, paper: str) -> Published:
    if not isinstance(entry, dict):
        raise ValueError("must be a mapping")
    _only_known(entry, (*_TEXTS, *_OPTIONAL))
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ValueError(f"{key} must be a text that is not empty (numbers in quotes)")
    condition = entry.get("condition", "")
    if not isinstance(condition, str):
        raise ValueError("condition must be a text")
    if entry["source"] not in SOURCES:
        raise ValueError(f"source={entry['source']}: must be one of {', '.join(SOURCES)}")
    if not _STATISTIC.fullmatch(entry["statistic"]):
        raise ValueError(f"statistic={entry['statistic']}: must be metric or metric[axis=value,...]")
    error = _number(entry, "standard_error") if "standard_error" in entry else None
    if error is not None and error < 0:
        raise ValueError("standard_error must not be negative")
    texts = {key: entry[key] for key in _TEXTS}
    test = _criterion(entry.get("test"))
    return Published(**texts, paper=paper, condition=condition, test=test, standard_error=error)


def _criterion(test: object) -> Criterion:
    if not isinstance(test, dict) or test.get("kind") not in get_args(Kind):
        raise ValueError(f"test needs a kind: {', '.join(get_args(Kind))}")
    needed = _NEEDED[test["kind"]]
    optional = () if test["kind"] in ("all_of", "context") else ("tolerance", "partly", "of")
    _only_known(test, ("kind", *needed, *optional))
    missing = [key for key in needed if key not in test]
    if missing:
        raise ValueError(f"test of kind {test['kind']} needs {', '.join(missing)}")
    of = test.get("of", "value")
    if of not in get_args(Judged):
        raise ValueError(f"of={of}: must be one of {', '.join(get_args(Judged))}")
    numbers = {key: _number(test, key) for key in test if key not in ("kind", "of")}
    criterion = Criterion(test["kind"], **numbers, of=of)
    _check(criterion)
    return criterion


def _check(test: Criterion) -> None:
    if test.tolerance < 0:
        raise ValueError("tolerance must not be negative")
    if test.kind == "all_of":
        if test.partly is None or not 0 < test.partly < 1:
            raise ValueError("partly must be a share of cells between 0 and 1")
    elif test.partly is not None and test.partly < test.tolerance:
        raise ValueError("partly must not be smaller than tolerance")
    if test.low is not None and test.high is not None and test.low > test.high:
        raise ValueError("low must not exceed high")


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
