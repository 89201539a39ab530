"""The papers' values of conf/paper next to a run's statistics: the verdict on each, and its row in comparison.csv."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import yaml

from gpsuite.plugins import readable
from gpsuite.reporting.files import cannot, read_bytes, write_text

if TYPE_CHECKING:
    from gpsuite.statistics.estimates import Estimate

Verdict = Literal["reproduced", "differs", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
DECIDED: tuple[Verdict, ...] = ("reproduced", "differs")
# what of a statistic a criterion judges: the number, or an end of its interval
Judged = Literal["value", "low", "high"]
# What a paper's value is: a printed result, a claim in words, a fact about a dataset, something that holds by
# mathematics, or what another code measured. They say different things about a reproduction and are counted separately.
Basis = Literal["result", "claim", "dataset", "identity", "measurement"]
# why a paper's value is undecided
Cause = Literal["too few data", "data lost", "protocol unclear", "other metric", "context"]
CAUSES: dict[Cause, str] = {
    "too few data": "our run has too few data to decide",
    "data lost": "the paper's data or draws are not published",
    "protocol unclear": "the paper does not say how it was done",
    "other metric": "the paper does not define the measure",
    "context": "chosen to show this, or given for orientation",
}
TestKind = Literal["equality", "at_least", "at_most", "between", "all_of", "context"]
Row = TypeVar("Row")
# by the annotation, which is a string here
_PARSERS: dict[Any, Any] = {
    "str": str,
    "float": float,
    "float | None": lambda text: float(text) if text else None,
    "int | None": lambda text: int(text) if text else None,
    "tuple[float, ...]": lambda text: tuple(map(float, text.split())),
    "Verdict": lambda text: _word(text, VERDICTS),
    "Basis": lambda text: _word(text, get_args(Basis)),
    "Cause | None": lambda text: _word(text, get_args(Cause)) if text else None,
}
_TEXTS = ("id", "where", "experiment", "dataset", "method", "quantity", "published", "unit", "statistic")
_OPTIONAL = ("part_of", "condition", "standard_error", "remark", "basis", "test", "rules")
_NEEDED: dict[str, tuple[str, ...]] = {
    "equality": ("value", "tolerance"),
    "at_least": ("value",),
    "at_most": ("value",),
    "between": ("low", "high"),
    "all_of": (),
    "context": ("cause",),
}
_STATISTIC = re.compile(r"[a-z]\w*(\[[a-z]\w*=[^\[\],=]+(,[a-z]\w*=[^\[\],=]+)*\])?", re.ASCII)
_PRINTED = re.compile(r"(-?\d+(?:\.(\d+))?)(?: ± [\d.]+)?", re.ASCII)
# libyaml's loader is the same safe loader, ten times faster
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# relative, so that 5.2 lies within 0.1 of 5.1 although their difference is 0.10000000000000053
_ROUNDING = 1e-12
OPEN_CELLS = "open cells missed or held"  # name of an interval
NO_POWER = "too few draws to say that it differs"
# combined standard errors within which two numbers are not known to differ
_OPEN = 2.0


@dataclass(frozen=True)
class Statistic:
    """One number that a run reports. The fields' order is that of the columns of statistics.csv.

    Args:
        name: `metric` or `metric[axis=value,...]`, see `statistic_name`. A paper's value points to it.
        value: NaN if it could not be computed, infinite if larger than any number (a threshold never reached).
        standard_error: of the value, in its unit.
        n: repetitions behind a mean, or cells behind a share.
        interval: the interval's name, such as `95 % t interval`. Empty if there is none.
        note: anything a reader must know.
        repetitions: the values behind a mean, in their order, if they are compared with another code's.
    """

    name: str
    value: float
    standard_error: float | None = None
    n: int | None = None
    interval_low: float | None = None
    interval_high: float | None = None
    interval: str = ""
    unit: str = ""
    note: str = ""
    repetitions: tuple[float, ...] = ()

    @classmethod
    def of(cls, name: str, estimate: Estimate, unit: str = "", note: str = "") -> Statistic:
        """Return an estimate under a name. An infinite error or end of its interval stays empty."""
        error, low, high = (
            number if math.isfinite(number) else None for number in (estimate.error, estimate.low, estimate.high)
        )
        return cls(name, estimate.value, error, estimate.n, low, high, estimate.interval, unit, note)

    def judged(self, of: Judged) -> float:
        """Return the value, or an end of the interval. NaN without one."""
        found = {"value": self.value, "low": self.interval_low, "high": self.interval_high}[of]
        return math.nan if found is None else found


def statistic_name(metric: str, **axes: str | float) -> str:
    """Return `metric`, or `metric[axis=value,...]` with the axes in the order given, 1.0 stays `1.0`."""
    inside = ",".join(f"{axis}={value}" for axis, value in axes.items())
    return f"{metric}[{inside}]" if inside else metric


def claim(name: str, cells: Iterable[object], note: str = "") -> Statistic:
    """Return the share of cells in which a claim holds, with its interval. NaN without cells.

    A cell of None is open: it does not show the claim or its opposite. The interval then reaches from the share with
    these cells missed to that with them held.
    """
    from gpsuite.statistics.estimates import share  # scipy. The page does without

    found = list(cells)
    held, undecided = sum(bool(cell) for cell in found), found.count(None)
    counted = f"{held} of {len(found)} cells{f', {undecided} open' if undecided else ''}" if found else ""
    estimate = share(found)
    if undecided:
        high = (held + undecided) / len(found)
        estimate = replace(estimate, low=held / len(found), high=high, interval=OPEN_CELLS)
    return Statistic.of(name, estimate, note="; ".join(part for part in (counted, note) if part))


@dataclass(frozen=True)
class Criterion:
    """The test that decides whether a statistic reproduces a paper's value.

    The limits are exact: what lies outside them is not reproduced. It differs if the run has the power to show it, see
    `_leaves_open`, and is undecided otherwise.

    Args:
        kind: `equality` |ours - value| <= tolerance. `at_least` and `at_most` a one-sided bound `value`.
            `between` a range [low, high]. `all_of` asks that a claim holds in all cells, the statistic being
            the share in which it does. `context` decides nothing: the value is printed for orientation.
        tolerance: of equality, in the unit of the value.
        of: what is judged, the value itself or the low or high end of its interval.
        cause: of context, why nothing can be decided.
    """

    kind: TestKind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float = 0.0
    of: Judged = "value"
    cause: Cause | None = None

    @property
    def accepted(self) -> tuple[float, float]:
        """The least and the largest value that it accepts."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        value = 1.0 if self.value is None else self.value
        low = -math.inf if self.kind == "at_most" else value - self.tolerance
        return low, math.inf if self.kind == "at_least" else value + self.tolerance

    def __str__(self) -> str:
        """Return what is asked, such as `0.4 to 0.6`, `low end at least 2.7` or `in all cells`."""
        return self._asked() if self.of == "value" else f"{self.of} end {self._asked()}"

    def _asked(self) -> str:
        if self.kind == "between":
            return f"{_digits(self.low)} to {_digits(self.high)}"
        if self.kind in ("at_least", "at_most"):
            return f"{self.kind.replace('_', ' ')} {_digits(self.value)}"
        if self.value is not None:
            low, high = self.value - self.tolerance, self.value + self.tolerance
            return f"{_digits(low)} to {_digits(high)}" if self.tolerance else f"{_digits(self.value)} exactly"
        return "in all cells" if self.kind == "all_of" else "no test"


@dataclass(frozen=True)
class PaperValue:
    """A value that a paper prints, or a claim that it makes.

    Args:
        id: unique over all papers.
        paper: the YAML file's name.
        where: table, figure or section.
        experiment: `<family>/<name>` that recomputes it.
        method: its name, or several.
        quantity: what is measured, in words.
        published: the value or claim as printed.
        condition: under which it was printed. May be empty.
        statistic: name in the experiment's statistics, `metric` or `metric[axis=value,...]`.
        rules: commit in which its test was written. Empty before it is.
        standard_error: of the printed value, if given.
        part_of: id of the statement that it is a part of, if several runs judge it. Pages show one row of it.
        remark: why ours differs, whose doing that is and, after `Needed:`, what would decide it, or what a verdict
            does not say. May be empty.
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
    part_of: str = ""

    @property
    def number(self) -> float | None:
        """The printed number that a figure can show next to ours. None of a claim in words or a range."""
        return self.printed if self.basis == "result" else None

    @property
    def half_digit(self) -> float:
        """Half a unit of the printed number's last digit."""
        found = _PRINTED.fullmatch(self.published)
        return 0.5 * 10.0 ** -len((found and found[2]) or "")

    @property
    def printed(self) -> float | None:
        """The number as printed, without its standard error. None of words or a range."""
        found = _PRINTED.fullmatch(self.published)
        return float(found[1]) if found else None


@dataclass(frozen=True)
class ComparisonRow:
    """One line of comparison.csv. The fields' order is the columns' order."""

    id: str
    paper: str
    where: str
    experiment: str
    dataset: str
    method: str
    basis: Basis
    quantity: str
    unit: str
    condition: str
    published: str
    asked: str
    ours: float | None
    standard_error: float | None
    n: int | None
    interval: str
    difference: float | None
    verdict: Verdict
    cause: Cause | None
    note: str
    remark: str
    rules: str

    @property
    def why(self) -> str:
        """The run's note on its value, then the remark."""
        return ". ".join(filter(None, (self.note, self.remark)))

    @property
    def clause(self) -> str:
        """The first clause of a number's condition, which tells it from others of the same quantity."""
        return "" if self.basis == "claim" else self.condition.partition(";")[0]

    @property
    def reason(self) -> str:
        """Reason why it is not reproduced: the remark without what is needed, or the cause in words."""
        told = self.remark.partition("Needed: ")[0].strip()
        return told or (CAUSES[self.cause] if self.cause else "")

    @property
    def needed(self) -> str:
        """Evidence that is missing to decide the row. Empty if the remark names nothing."""
        return self.remark.partition("Needed: ")[2]


def compare(values: Iterable[PaperValue], statistics: Iterable[Statistic]) -> list[ComparisonRow]:
    """Compare each of the paper's values with the run's statistic of that name."""
    by_name = {statistic.name: statistic for statistic in statistics}
    rows = []
    for entry in values:
        ours = by_name.get(entry.statistic)
        if entry.test.kind == "context":
            shown = ours if ours is not None and math.isfinite(ours.value) else None
            note = ours.note if ours else ""
            rows.append(_row(entry, "undecided", note, ours=shown, cause=entry.test.cause))
        elif ours is None:
            rows.append(not_run(entry, f"this run has no statistic {entry.statistic}"))
        else:
            rows.append(_compare_one(entry, ours))
    return rows


def not_run(entry: PaperValue, why: str) -> ComparisonRow:
    """Return the row of a value without a statistic of ours."""
    return _row(entry, "not run", why)


def _compare_one(entry: PaperValue, ours: Statistic) -> ComparisonRow:
    number = ours.judged(entry.test.of)
    if math.isnan(ours.value):
        return _lost(entry, ours, "ours could not be computed")
    if math.isnan(number):
        return _lost(entry, ours, f"ours has no {entry.test.of} end of an interval")
    if entry.test.kind == "all_of" and (not 0.0 <= ours.value <= 1.0 or ours.n == 0):
        return _lost(entry, ours, f"ours is not a share of cells: {ours.value:g}, n={ours.n}")
    verdict, difference = judge(entry.test, number)
    if entry.standard_error is not None and entry.printed is not None:
        difference = number - entry.printed  # also if the test has another limit
    judged = "" if entry.test.of == "value" else f"judged: {entry.test.of} end of the interval, {number:.6g}"
    if math.isinf(number):
        return _row(entry, verdict, judged, ours.note, ours=ours)
    notes = (judged, _in_cells(entry, ours), _distance(entry, ours, difference), ours.note)
    if verdict == "differs" and _leaves_open(entry, ours, difference):
        return _row(entry, "undecided", NO_POWER, *notes, ours=ours, difference=difference, cause="too few data")
    return _row(entry, verdict, *notes, ours=ours, difference=difference)


def _leaves_open(entry: PaperValue, ours: Statistic, difference: float) -> bool:
    """Return whether the run has too few draws to say that it differs.

    With a printed standard error: within two combined standard errors. Otherwise: the 95 % interval reaches what is
    asked. The interval of a share of cells is no ground unless the test judges its end, or it counts open cells: the
    cells are not a sample.
    """
    error = _combined_error(entry, ours)
    if error is not None:
        return abs(difference) <= _OPEN * error
    if ours.interval_low is None or ours.interval_high is None:
        return False
    if entry.test.of == "value" and "Clopper" in ours.interval:
        return False
    low, high = entry.test.accepted
    return ours.interval_low <= high and low <= ours.interval_high


def _lost(entry: PaperValue, ours: Statistic, why: str) -> ComparisonRow:
    return _row(entry, "undecided", why, ours.note, cause="too few data")


def _row(
    entry: PaperValue,
    verdict: Verdict,
    *notes: str,
    ours: Statistic | None = None,
    difference: float | None = None,
    cause: Cause | None = None,
) -> ComparisonRow:
    named = {field.name for field in fields(ComparisonRow)} & {field.name for field in fields(PaperValue)}
    of_paper: dict[str, Any] = {name: getattr(entry, name) for name in named - {"standard_error"}}
    interval = ""
    if ours and ours.interval and ours.interval_low is not None and ours.interval_high is not None:
        interval = f"{ours.interval} [{ours.interval_low:.6g}, {ours.interval_high:.6g}]"
    return ComparisonRow(
        **of_paper,
        asked=str(entry.test),
        ours=ours.value if ours else None,
        standard_error=ours.standard_error if ours else None,
        n=ours.n if ours else None,
        interval=interval,
        difference=difference,
        verdict=verdict,
        cause=cause,
        note="; ".join(filter(None, notes)),
    )


def judge(test: Criterion, ours: float) -> tuple[Verdict, float]:
    """Decide on a number, which may be infinite, such as a threshold never reached.

    Args:
        test: of any kind except `context`.
        ours: the statistic, or the end of its interval that is judged. For `all_of` a share in [0, 1].

    Returns:
        The verdict, and the signed difference to what is asked: the value or limit, 1 for all_of, the nearest end of
        `between`, 0 inside it.
    """
    value = 1.0 if test.value is None else test.value
    difference = ours - value
    outside = abs(difference)
    if test.kind == "at_least":
        outside = max(0.0, -difference)
    elif test.kind == "at_most":
        outside = max(0.0, difference)
    elif test.low is not None and test.high is not None:
        difference = ours - min(max(ours, test.low), test.high)
        outside = abs(difference)
    slack = _ROUNDING * max(abs(ours), abs(ours - difference)) if math.isfinite(ours) else 0.0
    return ("reproduced" if outside <= test.tolerance + slack else "differs"), difference


def _in_cells(entry: PaperValue, ours: Statistic) -> str:
    if entry.test.kind != "all_of" or ours.n is None or not ours.interval:
        return ""  # without an interval it is a decision, whose n counts something else
    counted = f"{round(ours.value * ours.n)} of {ours.n}"
    return "" if ours.note.startswith(counted) else f"holds in {counted}"


def _distance(entry: PaperValue, ours: Statistic, difference: float) -> str:
    """Return how far ours is from a printed number: within its digits, or in standard errors. Empty if neither."""
    number = entry.printed if entry.basis in ("result", "measurement") else None
    if number is not None and abs(ours.value - number) <= entry.half_digit * (1.0 + _ROUNDING):
        return "within the printed digits"
    error = _combined_error(entry, ours)
    if error is None:
        return ""
    name = "combined" if ours.standard_error is not None and math.isfinite(ours.standard_error) else "published"
    return f"difference = {difference / error:.2f} {name} standard errors"


def _combined_error(entry: PaperValue, ours: Statistic) -> float | None:
    """Return the standard error of the difference. The printed one if ours is not known. None without a printed one."""
    own = ours.standard_error if ours.standard_error is not None and math.isfinite(ours.standard_error) else 0.0
    return math.hypot(entry.standard_error, own) or None if entry.standard_error is not None else None


def _digits(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value.is_integer() else f"{value:.5g}"


def read_paper_values(conf_dir: Path, experiment: str | None = None) -> list[PaperValue]:
    """Read the papers' files, ours first, in their order. With `experiment`, only its entries.

    A file is a mapping with `paper` (the file's name without .yaml), `rules` (the commit in which its tests were
    written, unless an entry names another) and `entries` (a list of mappings with the fields of `PaperValue`).
    Other top-level keys are free, for anchors shared by entries.

    Raises:
        ValueError: naming the file, the entry and the fault.
    """
    seen: set[str] = set()

    def read(path: Path) -> tuple[PaperValue, ...]:
        stat = path.stat()
        found = _read_file(path, (stat.st_mtime_ns, stat.st_size))
        ids = [entry.id for entry in found]
        twice = sorted(each for each in ids if each in seen or ids.count(each) > 1)
        if twice:
            raise ValueError(f"conf/paper/{path.name}: id {twice[0]} is used twice")
        seen.update(ids)
        return found

    entries = [entry for found in readable(conf_dir, "paper", read).values() for entry in found]
    return [entry for entry in entries if experiment in (None, entry.experiment)]


@lru_cache(maxsize=32)  # every run of a multirun reads them. Parsing takes longer than many a task
def _read_file(path: Path, stamp: tuple[int, int]) -> tuple[PaperValue, ...]:
    """Return the entries of a file. Another `stamp` means that it has changed since."""
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


def _entry(entry: object, paper: str, rules: str) -> PaperValue:
    if not isinstance(entry, dict):
        raise ValueError("must be a mapping")
    _only_known(entry, (*_TEXTS, *_OPTIONAL))
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ValueError(f"{key} must be a text that is not empty (numbers in quotes)")
    said = {
        "rules": entry.get("rules", rules),
        **{key: entry.get(key, "") for key in ("condition", "remark", "part_of")},
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
    return PaperValue(**texts, **said, paper=paper, test=test, basis=entry["basis"], standard_error=error)


def _criterion(test: object) -> Criterion:
    if not isinstance(test, dict) or test.get("kind") not in get_args(TestKind):
        raise ValueError(f"test needs a kind: {', '.join(get_args(TestKind))}")
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
    numbers: dict[str, Any] = {key: _number(test, key) for key in test if key not in given}
    criterion = Criterion(**given, **numbers)
    _check(criterion)
    return criterion


def _check(test: Criterion) -> None:
    if test.tolerance < 0:
        raise ValueError("tolerance must not be negative")
    if test.low is not None and test.high is not None and test.low > test.high:
        raise ValueError("low must not exceed high")


def _one_of(key: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{key}={given}: must be one of {', '.join(allowed)}")


def _only_known(mapping: Mapping[Any, object], known: tuple[str, ...]) -> None:
    unknown = [str(key) for key in mapping if key not in known]
    if unknown:
        raise ValueError(f"unknown key {', '.join(unknown)}; allowed: {', '.join(known)}")


def _number(mapping: Mapping[str, object], key: str) -> float:
    value = mapping[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} must be a finite number, got {value!r}")
    return float(value)


def write_comparison(folder: Path, rows: Sequence[ComparisonRow]) -> None:
    """Write comparison.csv to a run's folder. A ResultsError if it cannot be written."""
    write_text(folder / "comparison.csv", csv_text(ComparisonRow, rows))


def read_comparison(folder: Path) -> list[ComparisonRow]:
    """Read comparison.csv of a run's folder. A ResultsError if it is missing or not as `write_comparison` writes it."""
    return _read(folder / "comparison.csv", ComparisonRow)


def write_statistics(folder: Path, statistics: Sequence[Statistic]) -> None:
    """Write statistics.csv to a run's tables folder. A ValueError if two have the same name."""
    names = [statistic.name for statistic in statistics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"statistics with the same name: {', '.join(twice)}")
    write_text(folder / "statistics.csv", csv_text(Statistic, statistics))


def read_statistics(folder: Path) -> list[Statistic]:
    """Read statistics.csv of a run's tables folder. A ResultsError as of `read_comparison`."""
    return _read(folder / "statistics.csv", Statistic)


def csv_text(kind: type[Any], rows: Sequence[object]) -> str:
    """Return rows of one kind as CSV, with its fields as columns."""
    columns = [field.name for field in fields(kind)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(getattr(row, column)) for column in columns])
    return stream.getvalue()


def _read(path: Path, kind: type[Row]) -> list[Row]:
    described: Any = kind
    parsers = {field.name: _PARSERS[field.type] for field in fields(described)}
    try:
        text = read_bytes(path).decode("utf-8")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if reader.fieldnames != list(parsers):
            raise ValueError("its columns are not those of this version. Run the experiment again")
        lines = list(reader)
        if not text.endswith("\n") or any(None in line or None in line.values() for line in lines):
            raise ValueError("a line is cut short or has too many cells. Run the experiment again")
        return [kind(**{name: parse(line[name]) for name, parse in parsers.items()}) for line in lines]
    except (OSError, ValueError, csv.Error) as error:
        raise cannot("read", path, error) from error


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(map(repr, value))
    return "" if value is None else value


def _word(text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ValueError(f"unknown word {text!r}")
    return text
