"""The rows of statistics.csv and comparison.csv, written and read without pandas."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from gpsuite.reporting.atomic import cannot, write_text
from gpsuite.reporting.reading import read_bytes

if TYPE_CHECKING:
    from gpsuite.statistics.estimates import Estimate

Verdict = Literal["reproduced", "partly", "not reproduced", "not run", "not comparable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

DECIDED: tuple[Verdict, ...] = ("reproduced", "partly", "not reproduced")
"""Those that a test has reached."""

Judged = Literal["value", "low", "high"]
"""What of a statistic a criterion judges: the number, or an end of its interval."""

Basis = Literal["result", "claim", "dataset", "identity", "measurement"]
"""What a published value is: a printed result, a claim in words, a fact about a dataset, something that holds by
mathematics, or what another code measured. They say different things of a reproduction and are counted apart."""

Cause = Literal["value lost", "data lost", "protocol unclear", "other metric", "context"]
"""Why a published value is not comparable; `context`: it holds by selection or is no result to be had again."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class Statistic:
    """One number that a run reports, by a name that a published value can point to.

    Args:
        name: `metric` or `metric[axis=value,...]`, see `statistic_name`.
        value: the number; NaN if it could not be computed, infinite if larger than any (a threshold never reached).
        standard_error: of the value, in its unit.
        n: repetitions behind a mean, or cells behind a share.
        interval_low: lower end of the interval.
        interval_high: upper end of the interval.
        interval: the interval's name, such as `95 % t interval`; empty if there is none.
        unit: of the value.
        note: anything a reader must know.
        repetitions: the values behind a mean, in their order, where they are held against another code's.
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
        """Return an estimate under a name; what is not known or infinite of its error and interval stays empty."""
        error, low, high = (
            number if math.isfinite(number) else None
            for number in (estimate.error, estimate.low, estimate.high)
        )
        return cls(name, estimate.value, error, estimate.n, low, high, estimate.interval, unit, note)

    def judged(self, of: Judged) -> float:
        """Return the number that a criterion asks about: the value, or an end of the interval; NaN without one."""
        ends = {"value": self.value, "low": self.interval_low, "high": self.interval_high}
        found = ends[of]
        return math.nan if found is None else found


@dataclass(frozen=True)
class ComparisonRow:
    """One line of comparison.csv; the fields' order is the columns' order."""

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
        """What the run notes on its value, then the remark."""
        return ". ".join(filter(None, (self.note, self.remark)))


def statistic_name(metric: str, **axes: str | float) -> str:
    """Return `metric`, or `metric[axis=value,...]` with the axes in the order given; 1.0 stays `1.0`."""
    inside = ",".join(f"{axis}={value}" for axis, value in axes.items())
    return f"{metric}[{inside}]" if inside else metric


def write_comparison(folder: Path, rows: Sequence[ComparisonRow]) -> None:
    """Write `folder`/comparison.csv (the run's folder).

    Raises:
        ResultsError: if it cannot be written.
    """
    _write(folder / "comparison.csv", ComparisonRow, rows)


def read_comparison(folder: Path) -> list[ComparisonRow]:
    """Read `folder`/comparison.csv.

    Raises:
        ResultsError: if it is missing or not as `write_comparison` writes it.
    """
    return _read(folder / "comparison.csv", ComparisonRow)


def write_statistics(folder: Path, statistics: Sequence[Statistic]) -> None:
    """Write `folder`/statistics.csv (the run's tables folder).

    Raises:
        ValueError: if two have the same name.
        ResultsError: if it cannot be written.
    """
    names = [statistic.name for statistic in statistics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"statistics with the same name: {', '.join(twice)}")
    _write(folder / "statistics.csv", Statistic, statistics)


def read_statistics(folder: Path) -> list[Statistic]:
    """Read `folder`/statistics.csv.

    Raises:
        ResultsError: if it is missing or not as `write_statistics` writes it.
    """
    return _read(folder / "statistics.csv", Statistic)


def _write(path: Path, kind: type[Any], rows: Sequence[object]) -> None:
    columns = [field.name for field in fields(kind)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(getattr(row, column)) for column in columns])
    write_text(path, stream.getvalue())


def _read(path: Path, kind: type[Row]) -> list[Row]:
    described: Any = kind
    parsers = {field.name: _PARSERS[field.type] for field in fields(described)}
    try:
        text = read_bytes(path).decode("utf-8")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if reader.fieldnames != list(parsers):
            raise ValueError("its columns are not those of this version; run the experiment again")
        lines = list(reader)
        if not text.endswith("\n") or any(None in line or None in line.values() for line in lines):
            raise ValueError("a line is cut short or has too many cells; run the experiment again")
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
