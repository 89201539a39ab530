"""Roles of a table's columns: number, yes or no, date, time, code, category or text, and columns without information.

A role is a function of a column's evidence. It returns the column in its interpretation, or None. `ROLES` are tried in
order. The functions of `TELLS_NOTHING` return why a column of numbers has no information, also in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.dates import date_days, may_begin_with_day_or_month, number_days, time_hours
from gpsuite.data.table.formats import (
    FALSE_WORDS,
    MISSING_MARKS,
    TRUE_WORDS,
    Cells,
    NumberFormat,
    as_the_table,
    find_format,
    format_of,
    plain_number,
    refuse_twofold,
    same_word,
    yes_and_no,
)
from gpsuite.data.table.layout import TARGETS, UNIT, UNTITLED, Grid
from gpsuite.data.table.names import choose_columns, csv_error, name_list, shorten, split_values, values_by_column
from gpsuite.text import visible

Kind: TypeAlias = Literal["number", "yes/no", "date", "time", "category", "text", "empty"]
Role: TypeAlias = Literal["number", "category", "code", "date", "time", "yes_no", "counter", "constant", "text"]

_VERSION = 2  # version of the decisions. Part of the content hash if something was decided
_MOSTLY = 0.8  # share of cells that are numbers in a column of numbers with mistakes
_RECURS = 3  # least number of rows with a text among such numbers if it is a level, not a mistake
_MOST_CLASSES = 10  # most different whole numbers of a target that may be classes
_LARGEST_WHOLE = 2.0**53  # float64 does not distinguish larger whole numbers
_LONGEST_DIGITS = 400  # a number of more digits overflows float64
_ID_NAME = re.compile(r"(?:.*[ _.-])?(?:id|uid|uuid|index|idx|key)|(?-i:.*[a-z]I[Dd])", re.IGNORECASE)
_COUNTER_NAME = re.compile(
    r"(?:.*[ _.-])?(?:nr|no|num|number|row|rows|rownames?|column_\d+|obs|observation|case|record|rec|row ?num(?:ber)?|"
    r"row ?id|serial|s\.? ?no\.?|sl\.? ?no\.?|seq|sequence|entry|subject|participant|patient|respondent|#|\.\.\.\d+|"
    r"level_0|unnamed: \d+(?:\.\d+)*|unnamed: \d+_level_\d+)"
    r"|(?:doc|seq|case|reg|rec|row|obs|item|line|id)[ _.]?(?:no|nr|num|id|case)"
    r"|(?-i:[A-Z]{1,4}ID)|(?-i:.*[a-z](?:Nr|No|Num|Number|Row|Index|Idx|Obs))",
    re.IGNORECASE,
)
_FIRST_NAMES = {"X": "Y", "V1": "V2"}  # programs' names for a column of row names, unless the other name exists too
_ROW_NAMES = re.compile(r"column_1|row|row_number|unnamed: 0", re.IGNORECASE)  # for columns without name in the file
_LEADING_ZERO = re.compile(r"0\d+")
_YEAR_FIRST = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)")
_DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: .*)?")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_WRITTEN = "written "  # before a column's name in `Dataset.reading`
_NAMES = {"number": "plain numbers", "date": "dates", "time": "times of day", "yes/no": "yes and no"}
_KIND_ROLES: dict[Kind, Role] = {"yes/no": "yes_no", "empty": "constant", "number": "number", "date": "date"}
_KIND_ROLES |= {"time": "time", "category": "category", "text": "text"}
_TABLE_ROLES = {"number": "no code", "date": "date"}  # roles of a second file's columns, by those of the table


@dataclass(frozen=True)
class Stated:
    """Statements about a column, in addition to its cells.

    Attributes:
        role: `number`, `code` or `date` as the user set it. `no code` if the table of new rows reads numbers there.
        na: texts that represent a missing value. A number in any way it is written.
        not_na: texts that are values even if they usually mark a missing one.
        day_first: whether 03/04/2020 is in April.
        unnamed: whether the file has no name for it, or a program's name for row names.
    """

    role: str = ""
    na: tuple[str, ...] = ()
    not_na: tuple[str, ...] = ()
    day_first: bool | None = None
    unnamed: bool = False

    def given(self, cells: Cells) -> BoolArray:
        """Return which texts [K] represent a value."""
        given = ~cells.missing
        if self.not_na:
            given |= np.array([text in self.not_na for text in cells.texts])
        numbers = [number for text in self.na if (number := plain_number(text)) is not None]
        if self.na:
            given &= np.array([text not in self.na for text in cells.texts]) & ~np.isin(cells.numbers, numbers)
        return given


@dataclass(frozen=True, eq=False)
class Column:
    """A column of N cells with its interpretation.

    Attributes:
        name: name of the column.
        kind: kind of its content.
        values: [N] numbers, days since 1970 for dates, 0 and 1 for yes/no, the level's number for a category. NaN for
            gaps and unreadable cells.
        levels: the texts of categories and of no and yes, in the most frequent spelling.
        gaps: [N] cells that represent a missing value.
        bad: texts of cells that do not fit the column's kind, by row.
        notes: decisions about it, each a sentence.
        useless: reason why it has no information, or an empty string.
        symbol: percent or currency sign of the numbers, or an empty string.
        shown: role shown to scripts and people, if that is not its kind.
    """

    name: str
    kind: Kind
    values: FloatArray
    levels: tuple[str, ...]
    gaps: BoolArray
    bad: dict[int, str]
    notes: tuple[str, ...] = ()
    useless: str = ""
    symbol: str = ""
    shown: Role | None = None

    @property
    def role(self) -> Role:
        """Role of the column, in a word."""
        return self.shown or _KIND_ROLES[self.kind]

    @property
    def written(self) -> str:
        """Form of the cells of numbers: their symbol, otherwise the column's kind."""
        return self.symbol or self.kind

    @property
    def unread(self) -> BoolArray:
        """Cells [N] without value: gaps and unreadable cells."""
        unread = self.gaps.copy()
        unread[list(self.bad)] = True
        return unread


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence for the roles.

    Attributes:
        cells: the column's K texts and their positions.
        given: [K] texts that represent a value.
        numbers: [K] the number of each text, in this file's format.
        known: [K] given texts that are a number.
        symbol: percent or currency sign of most numbers, or an empty string.
        notes: decisions so far.
        categories: the largest number of levels of a category.
        strict: numbers are the only kind. Any other cell is a bad one.
        stated: statements in addition to the cells.
    """

    cells: Cells
    given: BoolArray
    numbers: FloatArray
    known: BoolArray
    symbol: str
    notes: tuple[str, ...]
    categories: int
    strict: bool
    stated: Stated = Stated()

    @property
    def name(self) -> str:
        return self.cells.name

    @property
    def gaps(self) -> BoolArray:
        """Cells [N] that represent a missing value."""
        return ~self.given[self.cells.codes]

    @property
    def texts(self) -> list[str]:
        """The different texts that represent a value."""
        return _chosen(self.cells.texts, self.given)

    def column(self, kind: Kind, per_text: FloatArray, useless: str = "", **more: Any) -> Column:
        """Return the column with the value of each text [K] in its cells."""
        values = np.where(self.given, per_text, np.nan)[self.cells.codes]
        parts = {"levels": (), "bad": {}, "notes": self.notes, **more}
        return Column(self.name, kind, values, gaps=self.gaps, useless=useless, **parts)


def read_column(
    cells: Cells, written: NumberFormat, *, categories: int, strict: bool = False, stated: Stated = Stated()
) -> Column:
    """Return the interpretation of a column.

    Args:
        cells: cells of the column.
        written: the file's format of numbers.
        categories: the largest number of levels of a category.
        strict: whether numbers are the only kind. Then any other cell is bad.
        stated: statements in addition to the cells.
    """
    evidence = _evidence(cells, written, categories, strict or stated.role == "number", stated)
    return next(column for role in ROLES if (column := role(evidence)) is not None)


def _evidence(cells: Cells, written: NumberFormat, categories: int, strict: bool, stated: Stated) -> Evidence:
    given = stated.given(cells)
    symbol = "" if strict else _shared_symbol(cells, written)
    numbers, known = written.numbers(cells, without_signs=bool(symbol))
    if symbol:  # zero may have no symbol
        carry = [position for position, (_, sign) in cells.signed.items() if sign == symbol]
        known &= (numbers == 0.0) | np.isin(np.arange(len(known)), carry)
    known &= given
    notes = [f"column {shorten(cells.name)!r} is read without its {symbol}"] if symbol and known.any() else []
    other = _chosen(cells.texts, given & ~known)
    marks = [text for text in other if text.casefold() in MISSING_MARKS]
    if not strict and len(marks) == 1:
        rest = [text for text in _chosen(cells.texts, given) if text != marks[0]]
        if other == marks or yes_and_no(rest) or date_days(rest) is not None:
            notes.append(f"{marks[0]!r} in column {shorten(cells.name)!r} is read as missing")
            given = given & np.array([text != marks[0] for text in cells.texts])
    return Evidence(cells, given, numbers, known, symbol, tuple(notes), categories, strict, stated)


def _chosen(texts: Sequence[str], which: BoolArray) -> list[str]:
    return [texts[position] for position in np.flatnonzero(which)]


def _shared_symbol(cells: Cells, written: NumberFormat) -> str:
    """Return the percent or currency sign of most numbers, or an empty string. A plain zero fits any sign."""
    if not any(sign for _, sign in cells.signed.values()):
        return ""
    numbers, known = written.numbers(cells, without_signs=True)
    signs: Counter[str] = Counter()
    for position in np.flatnonzero(known & ~cells.missing).tolist():
        sign = cells.signed.get(position, ("", ""))[1]
        if sign or numbers[position] != 0.0:
            signs[sign] += int(cells.counts[position])
    sign, count = max(signs.items(), key=lambda item: item[1], default=("", 0))
    return sign if count >= _MOSTLY * signs.total() else ""


def empty(evidence: Evidence) -> Column | None:
    """Return the column if it has no value, otherwise None."""
    if evidence.given.any():
        return None
    return evidence.column("empty", evidence.numbers, "it is empty", notes=())


def yes_no(evidence: Evidence) -> Column | None:
    """Return a column of words for yes and no, in any spelling, otherwise None."""
    unknown = bool((evidence.given & ~evidence.known).any())
    return _yes_no_column(evidence) if unknown and not evidence.strict and yes_and_no(evidence.texts) else None


def number(evidence: Evidence) -> Column | None:
    """Return a column of numbers if other texts are missing or so few that they are mistakes, otherwise None."""
    if evidence.stated.role == "code":
        return None
    counts, other = evidence.cells.counts, evidence.given & ~evidence.known
    numeric, total = int(counts[evidence.known].sum()), int(counts[evidence.given].sum())
    if not (evidence.strict or not other.any() or (numeric >= _MOSTLY * total and not _recur(evidence, other))):
        return None
    finite = evidence.known & np.isfinite(evidence.numbers)
    wrong = (evidence.given & ~finite)[evidence.cells.codes]
    texts, codes = evidence.cells.texts, evidence.cells.codes
    bad = {int(row): texts[codes[row]] for row in np.flatnonzero(wrong)}
    per_text = np.where(finite, evidence.numbers, np.nan)
    found = evidence.column("number", per_text, bad=bad, symbol=evidence.symbol)
    shown, useless = (None, "") if bad else _why_useless(evidence, found.values)
    return replace(found, useless=useless, shown=shown)


def _recur(evidence: Evidence, other: BoolArray) -> bool:
    """Return whether a few numbers and texts among them are levels, as 1, 2, ..., 10 and X: mistakes rarely recur."""
    counts, levels = evidence.cells.counts, int(evidence.given.sum())
    most = min(evidence.categories, int(counts[evidence.given].sum()) // _RECURS)
    return int(counts[other].min()) >= _RECURS and levels <= most


def code(evidence: Evidence) -> Column | None:
    """Return a column of numbers that are names: with a leading zero or listed in `dataset.codes`. Otherwise None."""
    texts = evidence.texts
    zero = next((text for text in texts if text[:1] == "0" and _LEADING_ZERO.fullmatch(text)), "")
    if not zero and evidence.stated.role != "code":
        return None
    digits = evidence.known[evidence.given].all() and (evidence.stated.role == "code" or _all_digits(evidence, zero))
    if evidence.strict or evidence.stated.role in ("date", "no code") or not digits:
        return None
    if useless := counter(evidence, evidence.numbers[evidence.cells.codes]):
        return replace(evidence.column("number", evidence.numbers, useless), shown="counter")
    levels, name = sorted(evidence.texts), shorten(evidence.name)
    why = f"codes (a leading zero, as {zero!r})" if zero else "codes"
    many = f"{why}, {len(levels)} different, more than dataset.categories={evidence.categories}"
    if len(levels) == 1:
        useless = f"it is constant ({levels[0]!r})"
    elif len(levels) == int(evidence.cells.counts[evidence.given].sum()):
        useless = f"it holds {why}, another one in every row"
    elif len(levels) > evidence.categories:
        useless = f"it holds {many}: dataset.categories={len(levels)} keeps them, dataset.numbers reads numbers"
    note = (
        f"column {name!r} holds {why}, read as {len(levels)} categories; dataset.numbers={_item(evidence)} if numbers"
    )
    notes = () if useless else (note,)
    found = _levels_column(evidence, "text" if useless else "category", levels, notes, useless)
    return replace(found, shown="constant" if len(levels) == 1 else "code")


def _all_digits(evidence: Evidence, zero: str) -> bool:
    """Return whether all texts consist of digits, and one text is `zero`."""
    return bool(zero) and all(text.isdecimal() for text in evidence.texts)


def _item(evidence: Evidence) -> str:
    return name_list([evidence.name])


def time(evidence: Evidence) -> Column | None:
    """Return a column of times of day, read as hours, otherwise None."""
    hours = time_hours(evidence.texts)
    if hours is None:
        return None
    return _moments(evidence, "time", hours, f"column {shorten(evidence.name)!r} holds times, read as hours")


def number_date(evidence: Evidence) -> Column | None:
    """Return a column of dates written as numbers, such as 20240301, if `dataset.dates` lists it, otherwise None."""
    days = number_days(evidence.texts) if evidence.stated.role == "date" else None
    if days is None:
        return None
    what = f"holds dates as numbers, as {evidence.texts[0]}, read as days since 1970-01-01"
    return _moments(evidence, "date", days, f"column {shorten(evidence.name)!r} {what}")


def date(evidence: Evidence) -> Column | None:
    """Return a column of dates, all of one form, otherwise None."""
    days = date_days(evidence.texts, evidence.stated.day_first)
    if days is None:
        return None
    note = f"column {shorten(evidence.name)!r} holds dates, read as days since 1970-01-01"
    return _moments(evidence, "date", days, note)


def _moments(evidence: Evidence, kind: Kind, values: FloatArray, note: str) -> Column:
    """Return a column of dates or times, from a value for each given text."""
    per_text = np.full(len(evidence.given), np.nan)
    per_text[evidence.given] = values
    found = evidence.column(kind, per_text, notes=(note, *evidence.notes))
    useless = constant(evidence, found.values)
    return replace(found, useless=useless, shown="constant" if useless else None)


def category(evidence: Evidence) -> Column | None:
    """Return a column of a few texts, some more than once, otherwise None."""
    most = min(evidence.categories, int(evidence.cells.counts[evidence.given].sum()) - 1)
    levels = sorted(set(_level_names(evidence).values()))
    if len(levels) > max(most, 1):
        return None
    name, notes = shorten(evidence.name), []
    if len(levels) > 1:
        what = "numbers and texts, all read as" if evidence.known.any() else "texts, read as"
        notes.append(f"column {name!r} holds {what} {len(levels)} categories")
    if len(evidence.texts) > len(levels):
        others = ", ".join(sorted(set(evidence.texts).difference(levels))[:3])
        notes.append(f"column {name!r}: levels that differ in capital letters only are one, as {others}")
    useless = f"it is constant ({shorten(visible(levels[0]))!r})" if len(levels) == 1 else ""
    ambiguous = may_begin_with_day_or_month(evidence.texts)
    shown: Role | None = "constant" if useless else "date" if ambiguous else None
    return replace(_levels_column(evidence, "category", levels, tuple(notes), useless), shown=shown)


def _level_names(evidence: Evidence) -> dict[str, str]:
    """Return the level's name for each text: among texts that differ only in capital letters, the most frequent."""
    counts = evidence.cells.counts
    best: dict[str, tuple[int, str]] = {}
    given = [(int(counts[place]), evidence.cells.texts[place]) for place in np.flatnonzero(evidence.given).tolist()]
    for count, text in given:
        key = text if evidence.strict else same_word(text)
        best[key] = max(best.get(key, (0, "")), (count, text))
    return {text: best[text if evidence.strict else same_word(text)][1] for _, text in given}


def text(evidence: Evidence) -> Column | None:
    """Return a column of many texts, which has no information."""
    levels = sorted(evidence.texts)
    first = visible(levels[0])
    shown: Role | None = None
    if all(_YEAR_FIRST.match(level) for level in levels):
        useless = f"its dates, as {shorten(first)!r}, are not all read: write 2024-03-01T00:15:00+02:00"
    elif all(_DATE_LIKE.fullmatch(level) for level in levels):
        useless = "dataset.day_first=true or dataset.day_first=false reads it: "
        useless += f"its dates, as {first!r}, do not say whether day or month comes first"
        shown = "date"
    elif len(levels) == int(evidence.cells.counts[evidence.given].sum()):
        useless = f"every row has another text, as {shorten(first, 30)!r}"
    else:
        useless = f"{len(levels)} different texts, more than dataset.categories={evidence.categories}"
        shown = "category" if _RECURS * len(levels) <= int(evidence.cells.counts[evidence.given].sum()) else None
    return replace(_levels_column(evidence, "text", levels, (), useless), shown=shown)


ROLES: tuple[Callable[[Evidence], Column | None], ...] = (
    empty, yes_no, code, number_date, number, time, date, category, text,
)  # fmt: skip


def _levels_column(
    evidence: Evidence, kind: Kind, levels: Sequence[str], notes: tuple[str, ...], useless: str
) -> Column:
    place = {level: float(position) for position, level in enumerate(levels)}
    names = _level_names(evidence) if kind == "category" else {}
    per_text = np.array([place.get(names.get(text, text), np.nan) for text in evidence.cells.texts])
    shown = tuple(map(visible, levels))
    return evidence.column(kind, per_text, useless, levels=shown, notes=notes)


def _yes_no_column(evidence: Evidence) -> Column:
    """Return words for no and yes as 0 and 1. Each has its most frequent spelling as name."""
    texts, counts = evidence.cells.texts, evidence.cells.counts
    yes = np.array([text.casefold() in TRUE_WORDS for text in texts])
    sides = [np.flatnonzero(evidence.given & side) for side in (~yes, yes)]
    levels = tuple(max(((int(counts[k]), texts[k]) for k in side), default=(0, ""))[1] for side in sides)
    given = evidence.texts
    both = f"column {shorten(evidence.name)!r}: {', '.join(sorted(given))} are two classes"
    notes = ((both,) if len(given) > 2 else ()) + evidence.notes
    useless = "" if all(map(len, sides)) else f"it is constant ({shorten(given[0])!r})"
    found = evidence.column("yes/no", yes.astype(np.float64), useless, levels=levels, notes=notes)
    return replace(found, shown="constant" if useless else None)


def merged(evidence: Evidence, values: FloatArray) -> str:
    """Return a reason if float64 does not distinguish the whole numbers, otherwise an empty string."""
    numbers = evidence.numbers[evidence.given]
    if not (np.abs(numbers) > _LARGEST_WHOLE).any() or len(np.unique(numbers)) == len(numbers):
        return ""
    return f"float64 does not tell its whole numbers apart, as {evidence.texts[0]}"


def constant(evidence: Evidence, values: FloatArray) -> str:
    """Return a reason if all numbers are the same or there are none, otherwise an empty string."""
    given = values[~np.isnan(values)]
    if not len(given):
        return "it is empty"
    return f"it is constant ({given[0]:g})" if given.min() == given.max() else ""


def counter(evidence: Evidence, values: FloatArray) -> str:
    """Return a reason if the numbers count the rows, with or without gaps, and have no name or a row number's name."""
    named = _ID_NAME.fullmatch(evidence.name) or _COUNTER_NAME.fullmatch(evidence.name)
    if not (named or evidence.stated.unnamed) or evidence.strict:
        return ""
    steps = np.diff(values)
    if (steps == 1.0).all() or (steps == -1.0).all():
        return "it counts the rows"
    return "it is a row number with gaps: whole, and higher in every row" if rises(values) else ""


def rises(values: FloatArray) -> bool:
    """Return whether whole numbers rise in every row, or fall in every row."""
    steps = np.diff(values)
    return bool(len(steps) and ((steps > 0.0).all() or (steps < 0.0).all()) and (values == np.floor(values)).all())


def identifier(evidence: Evidence, values: FloatArray) -> str:
    """Return a reason if every row has another whole number and the name is an id's, otherwise an empty string."""
    return "it is an id, another number in every row" if _ID_NAME.fullmatch(evidence.name) and _tells(values) else ""


def shuffled(evidence: Evidence, values: FloatArray) -> str:
    """Return a reason if a first column without name has another whole number in every row: numbers of moved rows."""
    unnamed = evidence.stated.unnamed and _ROW_NAMES.fullmatch(evidence.name)
    return "it numbers the rows in another order" if unnamed and _tells(values) else ""


def _tells(values: FloatArray) -> bool:
    """Return whether every row has another whole number."""
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)


TELLS_NOTHING: dict[Callable[[Evidence, FloatArray], str], Role] = {
    merged: "code",
    constant: "constant",
    counter: "counter",
    identifier: "code",
    shuffled: "counter",
}


def _why_useless(evidence: Evidence, values: FloatArray) -> tuple[Role | None, str]:
    found = ((role, reason(evidence, values)) for reason, role in TELLS_NOTHING.items())
    return next(((role, why) for role, why in found if why), (None, ""))


def class_or_number(column: Column) -> Literal["classes", "number", "either"]:
    """Return what a target can be: texts and two whole numbers are classes, three to ten whole numbers are either."""
    if column.kind not in ("number", "empty"):
        return "classes"
    different = np.unique(column.values[~np.isnan(column.values)])
    if column.bad or not 2 <= len(different) <= _MOST_CLASSES or not (different == np.floor(different)).all():
        return "number"
    return "classes" if len(different) == 2 else "either"


def label_column(cells: Cells, *, strict: bool = False, stated: Stated = Stated()) -> Column:
    """Return the labels as 0, ..., C-1. `levels` are the file's names for them.

    Integers are ordered by value. If any label is a text, all are texts and ordered alphabetically. Several words for
    yes and no (`yes`, `No`, `TRUE`, `0`) are two classes, no first. In a column of integers another number is a bad
    cell.

    Args:
        cells: cells of the column.
        strict: whether words for yes and no are texts like others.
        stated: statements in addition to the cells.

    Raises:
        DataError: if there is only one class.
    """
    given = stated.given(cells)
    evidence = Evidence(cells, given, cells.numbers, cells.plain & given, "", (), len(cells.texts), strict, stated)
    if not strict and yes_and_no(evidence.texts) and not _plain_pair(evidence):
        column = _yes_no_column(evidence)
    elif given.any() and evidence.known[given].all():
        column = _whole_labels(evidence)
    else:
        named = {text: visible(level) for text, level in _level_names(evidence).items()}
        levels = sorted(set(named.values()))
        place = {level: float(position) for position, level in enumerate(levels)}
        per_text = np.array([place.get(named.get(text, ""), np.nan) for text in cells.texts])
        column = evidence.column("category", per_text, levels=tuple(levels))
    levels = [level for level in column.levels if level or column.kind == "category"]
    if len(levels) < 2 and not column.bad:
        said = f"all rows have the label {shorten(levels[0])!r}" if levels else "no row has a label"
        raise csv_error("target", cells.name, said, "two are needed")
    return column


def _whole_labels(evidence: Evidence) -> Column:
    """Return classes of integers, by value. Any other number is a bad cell."""
    texts, codes = evidence.cells.texts, evidence.cells.codes
    whole = {
        position: _whole(texts[position], float(evidence.numbers[position]))
        for position in np.flatnonzero(evidence.given)
        if float(evidence.numbers[position]).is_integer()
    }
    levels = sorted(set(whole.values()))
    place = {level: float(position) for position, level in enumerate(levels)}
    per_text = np.full(len(texts), np.nan)
    per_text[list(whole)] = [place[level] for level in whole.values()]
    wrong = (evidence.given & np.isnan(per_text))[codes]
    bad = {int(row): texts[codes[row]] for row in np.flatnonzero(wrong)}
    return evidence.column("category", per_text, levels=tuple(map(str, levels)), bad=bad)


def _whole(text: str, value: float) -> int:
    """Return the integer by its digits: float64 does not distinguish integers above 2^53."""
    return int(text) if len(text) < _LONGEST_DIGITS and _DIGITS.fullmatch(text) else int(value)


def _plain_pair(evidence: Evidence) -> bool:
    """Return whether the labels are numbers, or one word for no and one for yes. Then no spellings need merging."""
    if evidence.known[evidence.given].all():
        return True
    folded = [text.casefold() for text in evidence.texts]
    return len(folded) == 2 and len(TRUE_WORDS.intersection(folded)) == len(FALSE_WORDS.intersection(folded)) == 1


def reading_of(spec: CsvSpec, notes: Sequence[str]) -> list[object]:
    """Return the part of a table's hash on its reading: empty if nothing was decided and nothing stated."""
    settings = [spec.decimal, spec.thousands, spec.missing, spec.skip_rows, spec.categories, spec.strict]
    stated = spec.decimal is not None or spec.thousands is not None or spec.skip_rows > 0
    keys = ("titles", "na", "not_na", "codes", "numbers", "dates", "day_first")
    more = [[key, str(value)] for key in keys if (value := getattr(spec, key)) is not None]
    return [["reading", _VERSION, *settings, *more]] if notes or stated or more else []


def read_columns(
    spec: CsvSpec,
    grid: Grid,
    positions: Sequence[int],
    notes: list[str],
    *,
    table: Mapping[str, str] | None = None,
    numbers_only: bool = False,
) -> tuple[dict[int, Column], NumberFormat]:
    """Return the columns by position, and the file's format of numbers, decided by all columns and added to `notes`.

    Args:
        spec: decimal and thousands marks, most categories, strict.
        grid: the cells.
        positions: positions of the columns.
        notes: decisions, extended.
        table: `Dataset.reading` of the table to which this file belongs.
        numbers_only: whether a cell that is not a number is always bad.

    Raises:
        DataError: if the columns write numbers in different formats, or in an ambiguous one.
    """
    cells = [grid.column(position) for position in positions]
    if spec.strict:
        written, said = NumberFormat(spec.decimal or ".", spec.thousands or ""), ""
    else:
        marks = spec.decimal, spec.thousands
        guessed, theirs = marks == (None, None), format_of(table or {})
        alike = (table or {}).get("separator", grid.separator) == grid.separator
        shared = as_the_table(theirs, cells, alike) if guessed else None
        written, said = shared or find_format(grid.key, grid.path, cells, *marks, grid.separator)
        if shared is None and guessed:
            refuse_twofold(grid.key, grid.path, cells, theirs, written)
    if said:
        notes.append(said)
    strict = spec.strict or numbers_only
    stated = stated_columns(spec, grid, table or {})
    found = {
        position: read_column(
            each, written, categories=spec.categories, strict=strict, stated=stated.get(each.name, Stated())
        )
        for position, each in zip(positions, cells, strict=True)
    }
    if grid.numbered and all(
        column.role == "counter" for column in found.values()
    ):  # the columns of a curve can all rise
        found = {place: replace(column, useless="", shown=None) for place, column in found.items()}
    return found, written


def stated_columns(spec: CsvSpec, grid: Grid, table: Mapping[str, str]) -> dict[str, Stated]:
    """Return statements by column in addition to its cells: from the user, the names and a second file's table."""
    if spec.strict:
        return {}
    na = values_by_column(spec.na or table.get("na"), grid.header)
    not_na = values_by_column(spec.not_na or table.get("not_na"), grid.header)
    day_first = (
        {"True": True, "False": False}.get(table.get("day_first", "")) if spec.day_first is None else spec.day_first
    )
    roles = {name: _TABLE_ROLES.get(table.get(f"{_WRITTEN}{name}", ""), "") for name in grid.header}
    roles |= dict.fromkeys(_named(spec.codes, "codes", grid), "code")
    roles |= dict.fromkeys(_named(spec.numbers, "numbers", grid), "number")
    roles |= dict.fromkeys(_named(spec.dates, "dates", grid), "date")
    first = grid.header[0]
    if first in _FIRST_NAMES:
        row_names = len(grid.header) > 2 and _FIRST_NAMES[first] not in grid.header
    else:
        row_names = bool(_ROW_NAMES.fullmatch(first)) and not grid.numbered
    return {
        name: Stated(
            role=roles[name],
            na=(*na.get("", ()), *na.get(name, ())),
            not_na=(*not_na.get("", ()), *not_na.get(name, ())),
            day_first=day_first,
            unnamed=name == first and row_names,
        )
        for name in grid.header
    }


def _named(value: object, key: str, grid: Grid) -> list[str]:
    """Return the columns that a setting names. A second file may lack some."""
    if value is None:
        return []
    if grid.key != "path":
        return [name for name in split_values(value) if name in grid.header]
    return [grid.header[place] for place in choose_columns(key, value, grid.header)]


def levels_in(columns: Sequence[Column], rows: BoolArray) -> dict[str, tuple[str, ...]]:
    """Return the levels in the used rows by category, in the order of their inputs."""
    return {
        column.name: tuple(column.levels[int(level)] for level in np.unique(column.values[rows]))
        for column in columns
        if column.kind == "category"
    }


def encode(column: Column, rows: BoolArray) -> tuple[FloatArray, list[str]]:
    """Return a column's inputs in the used rows, [N', K], and their K names.

    A category has one input for each level that occurs, but only one for two levels. Other columns have their values.
    """
    values, name = column.values[rows], column.name
    if column.kind != "category":
        return values[:, None], [name]
    present = np.unique(values)
    if len(present) == 2:
        present = present[1:]
    hot = (values[:, None] == present).astype(np.float64)
    return hot, [f"{name}={column.levels[int(level)]}" for level in present]


def reading_of_table(
    spec: CsvSpec, grid: Grid, numbers: NumberFormat, inputs: Sequence[Column], targets: Sequence[str] = ()
) -> dict[str, str]:
    """Return separator, marks of numbers and gaps, units of columns, and the format of the inputs' cells."""
    marks = {"separator": grid.separator, "decimal": numbers.decimal, "thousands": numbers.thousands}
    marks |= {key: name_list(values) for key in ("na", "not_na") if (values := split_values(getattr(spec, key)))}
    marks |= {UNTITLED: name_list(grid.header), TARGETS: name_list(targets)} if grid.numbered else {}
    marks |= {} if spec.day_first is None else {"day_first": str(spec.day_first)}
    marks |= {"missing": spec.missing} if spec.missing else {}
    units = {f"{UNIT}{name}": unit for name, unit in grid.units.items()}
    return marks | units | {f"{_WRITTEN}{column.name}": column.written for column in inputs}


def otherwise_written(grid: Grid, columns: Sequence[Column], reading: Mapping[str, str]) -> list[str]:
    """Return a sentence for each column with cells in another format than the table's.

    If the table has yes and no, the numbers 0 and 1 are valid. A plain 0 is valid for percents and currency.
    """
    faults = []
    for column in columns:
        theirs = reading.get(f"{_WRITTEN}{column.name}", column.written)
        plain = {"yes/no": {0.0, 1.0}, "date": set(), "time": set()}.get(theirs, {0.0})
        if column.written == theirs or column.kind in ("category", "text", "empty"):
            continue
        if column.written == "number" and set(column.values.tolist()) <= plain:
            continue
        cell = grid.cells[0, grid.header.index(column.name)]
        what = f"holds {_NAMES.get(column.written, f'numbers with {column.written}')}, as {shorten(cell)!r}"
        faults.append(
            f"column {shorten(column.name)!r} {what}. In the table {_NAMES.get(theirs, f'numbers with {theirs}')}"
        )
    return faults
