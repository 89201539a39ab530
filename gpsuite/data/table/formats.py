"""How numbers, dates and gaps are written in a table: the file's decimal and thousands marks, percent, currencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from gpsuite.data.table.names import csv_error, shorten
from gpsuite.errors import DataError

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "?"})
# further marks, taken as gaps where they are the only text in a column of numbers
MISSING_MARKS = frozenset(
    {"-", "--", "---", ".", "..", "*", "none", "nil", "unknown", "missing", "n.a.", "nd", "n/d"}
)

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})
BOOLEAN_WORDS = TRUE_WORDS | FALSE_WORDS

_GROUP_SPACES = " \u00a0\u202f\u2009'’"
_SPACED = re.compile(rf"[+-]?\d{{1,3}}(?:[{_GROUP_SPACES}]\d{{3}})+(?:[.,]\d*)?")
_COMMA_DECIMAL = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)?,\d+(?:[eE][+-]?\d+)?")
_COMMA_GROUPS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_DOT_GROUPS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
_MINUS = ("\u2212", "\u2013")  # the minus sign and the dash that word processors write for it
_WHOLE = re.compile(r"[+-]?\d{1,3}")
_POINT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SYMBOL = re.compile(r"([+\-\u2212\u2013]?)([$€£¥])?\s*(.*?)\s*([%€£¥$])?")
_EXPONENT = re.compile(r"([+-]?\d*\.\d*)[dD]([+-]\d{2,3})")  # as Fortran writes it

DATE_FORMATS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d",
    "%Y.%m.%d", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%b-%d-%Y",
    "%b %Y", "%B %Y", "%b-%Y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_ISO = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2}(?:[T ]\d.*)?)?")
_QUARTER = re.compile(r"(\d{4})[ -]?[Qq]([1-4])")


@dataclass(frozen=True)
class NumberFormat:
    """How a file writes numbers.

    Attributes:
        decimal: the decimal mark, `.` or `,`.
        thousands: the mark between groups of three digits, or an empty string; blanks and apostrophes are always read.
    """

    decimal: str = "."
    thousands: str = ""

    def number(self, text: str) -> float | None:
        """Return the number, None if the text is none; infinite for `inf` and for what leaves float64."""
        text = _plain_minus(text)
        if _SPACED.fullmatch(text):
            text = re.sub(f"[{_GROUP_SPACES}]", "", text)
        if self.thousands and _grouped(text, self.thousands, self.decimal):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        return plain_number(text)


def format_of(reading: Mapping[str, str]) -> NumberFormat | None:
    """Return how the table writes numbers; None where it is not known."""
    if "decimal" not in reading and "thousands" not in reading:
        return None
    return NumberFormat(reading.get("decimal", "."), reading.get("thousands", ""))


def _plain_minus(text: str) -> str:
    if text[:1] in _MINUS and (text[1:2].isdigit() or text[1:2] in (".", ",")):
        text = f"-{text[1:]}"
    return re.sub(r"(?<=[0-9.][eE])[\u2212\u2013](?=\d)", "-", text)


def yes_and_no(texts: Iterable[str]) -> bool:
    """Whether texts are words for yes and no; single letters only in pairs, as T and F: T and Y are two levels."""
    words = {text.casefold() for text in texts}
    if not words <= BOOLEAN_WORDS:
        return False
    paired = all((one in words) == (other in words) for one, other in (("t", "f"), ("y", "n"), ("1", "0")))
    return paired or any(len(word) > 1 for word in words)


def like_number(text: str) -> bool:
    """Whether a text is a number in any of the ways that are read, whichever the file's is."""
    bare = _plain_minus(without_symbol(text)[0])
    return plain_number(bare) is not None or bool(_mark_kind(bare)) or bool(_SPACED.fullmatch(bare))


def plain_number(text: str) -> float | None:
    """Return the number of a text such as `-1.5e3`, None if it is none."""
    try:
        if "_" in text:  # Python reads 1_0 as 10, no other program does
            return None
        return float(_EXPONENT.sub(r"\1e\2", text))
    except ValueError:
        return None


def is_missing(text: str) -> bool:
    """Whether a stripped cell stands for a gap: empty, NA, N/A, NaN, null or a question mark."""
    return text.casefold() in MISSING_WORDS


def without_symbol(text: str) -> tuple[str, str]:
    """Return the text without a currency sign before it or a percent or currency sign behind it, and the sign."""
    match = _SYMBOL.fullmatch(text)
    if match is None or (match[2] and match[4]) or not (match[2] or match[4]):
        return text, ""
    return f"{match[1]}{match[3]}", match[2] or match[4]


def find_format(
    key: str,
    path: str,
    columns: Iterable[tuple[str, Sequence[str]]],
    plain: Iterable[tuple[str, Sequence[str]]],
    decimal: str | None,
    thousands: str | None,
    separator: str,
) -> tuple[NumberFormat, str]:
    """Return the format in which the file's numbers are written, and a sentence if it is not the usual one.

    The columns decide together: 1,5 can only have a decimal comma, 1,234.5 only a comma between thousands, and 1,234
    may be either, unless there is a number such as 1.5 somewhere.

    Args:
        key: of the file, for messages.
        path: the file, for messages.
        columns: name and different texts of each column that holds more than plain numbers.
        plain: name and cells of the columns of plain numbers; looked at where the others leave a doubt.
        decimal: the mark the user says, None where they say nothing.
        thousands: the same between thousands.
        separator: between cells; where it is no comma, 1.032 beside 948 may have a point between thousands.

    Raises:
        DataError: if the marks are no marks, the columns contradict each other, or cannot say.
    """
    if decimal is not None or thousands is not None:
        return _stated_format(decimal, thousands), ""
    seen = _Seen()
    for name, texts in columns:
        numbers = [_plain_minus(without_symbol(text)[0]) for text in texts if not is_missing(text)]
        seen.add(name, numbers)
    if seen.decimal or seen.proved or seen.either or separator != ",":
        for name, texts in plain:
            seen.add_plain(name, texts)
    return _decided(seen, separator, partial(csv_error, key, path))


def _decided(seen: _Seen, separator: str, fault: Callable[..., DataError]) -> tuple[NumberFormat, str]:
    """Return the format that the numbers seen have, and a sentence on what was decided; `fault` says what cannot be."""
    comma, points = seen.decimal or seen.proved, seen.groups or seen.point
    if comma and points:
        text = f"{comma} needs a decimal comma, {points} a decimal point"
        raise fault(text, "write all numbers in one way, as 1234.5")
    if comma and seen.dotted and not seen.proved:
        text = f"{comma} needs a decimal comma; is the point in {seen.dotted} between thousands?"
        raise fault(text, "if it is:", fix={"decimal": ",", "thousands": "."})
    if comma:
        mark = "a decimal comma" if seen.decimal else "a point between thousands"
        return NumberFormat(",", "."), f"numbers are read with {mark} ({comma})"
    if seen.groups or (seen.either and seen.point):
        mark = "a comma between thousands"
        return NumberFormat(".", ","), f"numbers are read with {mark} ({seen.groups or seen.either})"
    if seen.either:
        text = f"{seen.either}: a decimal comma, or a comma between thousands?"
        raise fault(text, "dataset.decimal=, if it is decimal; if not:", fix={"thousands": ","})
    doubt = f"{seen.mixed}, beside numbers without a point" if seen.mixed else seen.round
    if doubt and not seen.point and separator != ",":
        text = f"{doubt}: a decimal point, or one between thousands?"
        raise fault(text, "dataset.decimal=. if it is decimal; if not:", fix={"thousands": "."})
    if seen.dotted and not seen.point and separator != ",":
        told = f"{seen.dotted} is read with a decimal point; dataset.thousands=. if it is between thousands"
        return NumberFormat(), told
    return NumberFormat(), ""


def as_the_table(
    table: NumberFormat | None, columns: Sequence[tuple[str, Sequence[str]]], alike: bool
) -> tuple[NumberFormat, str] | None:
    """Return the table's format for a file that belongs to it, and a sentence; None where it has no marks or others.

    Args:
        table: how the table writes numbers; None for the table itself.
        columns: name and texts of the file's columns.
        alike: whether the cells are separated as in the table; if not, 1.234 alone does not say that it is 1234.
    """
    marked = [text for _, text in _marked(columns)]
    if table is None or table == NumberFormat() or not marked:
        return None
    if not alike and all(_mark_kind(text) in ("dotted", "either") for text in marked):
        return None
    if any(table.number(text) is None for text in marked):
        return None
    return table, f"numbers are read as the table's are: {marked[0]!r} is {table.number(marked[0]):.10g}"


def refuse_twofold(
    key: str,
    path: str,
    columns: Sequence[tuple[str, Sequence[str]]],
    table: NumberFormat | None,
    written: NumberFormat,
) -> None:
    """Refuse a file that belongs to a table and holds a number that reads otherwise as the table writes numbers.

    Raises:
        DataError: naming the number.
    """
    if table is None or table == written or table == NumberFormat():
        return
    for name, text in _marked(columns):
        theirs, ours = table.number(text), written.number(text)
        if theirs is not None and ours is not None and theirs != ours:
            what = f"{shorten(text)!r} in column {shorten(name)!r}"
            fault = f"{what} is {theirs:.10g} as the table writes numbers, here {ours:.10g}"
            raise csv_error(key, path, fault, "write this file's numbers as the table's")


def _marked(columns: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, str]]:
    """Return column name and number of each text that is a number with a point, a comma or blanks in it."""
    bare = [(name, _plain_minus(without_symbol(text)[0])) for name, texts in columns for text in texts]
    return [(name, text) for name, text in bare if _mark_kind(text) or _SPACED.fullmatch(text)]


def _stated_format(decimal: str | None, thousands: str | None) -> NumberFormat:
    """Return the format of the marks that the user says."""
    for key, mark, allowed in (
        ("decimal", decimal, (".", ",")),
        ("thousands", thousands, (",", ".", "", " ", "'")),
    ):
        if mark is not None and mark not in allowed:
            raise csv_error(
                key, mark, "is no such mark", "it is " + " or ".join(repr(each) for each in allowed if each)
            )
    point = decimal or ("," if thousands == "." else ".")
    if point == thousands:
        raise csv_error("thousands", thousands, "is also the decimal mark", "the two marks differ")
    # the other mark can then only stand between groups of three digits
    return NumberFormat(point, ("." if point == "," else ",") if thousands is None else thousands)


class _Seen:
    """The first number of each kind that tells how the file writes them, as `'1,5' in column 'a'`.

    Attributes:
        decimal: only with a decimal comma.
        groups: only with a comma between thousands.
        either: with one of the two.
        point: only with a decimal point.
        dotted: with a decimal point or a point between thousands.
        mixed: as `dotted`, in a column with whole numbers that have no point.
        round: as `dotted`, in a column of such numbers that all end in 00, as no decimals do that a program writes.
        proved: only with a point between thousands.
    """

    def __init__(self) -> None:
        self.decimal = self.groups = self.either = self.point = self.dotted = self.mixed = self.proved = ""
        self.round = ""

    def add(self, name: str, texts: Sequence[str]) -> None:
        """Look at different texts; a column that does not hold numbers says nothing."""
        kinds = {text: _mark_kind(text) for text in texts}
        if sum(bool(kind) or plain_number(text) is not None for text, kind in kinds.items()) < 0.8 * len(
            kinds
        ):
            return
        for text, kind in kinds.items():
            self._note(kind, name, text)
            if kind == "decimal" and "." in text:
                self._note("proved", name, text)
        self._note_mixed(name, kinds)

    def add_plain(self, name: str, texts: Sequence[str]) -> None:
        """Look at cells that are all plain numbers, for one with a point."""
        kinds = {}
        for text in texts:
            kinds[text] = _mark_kind(text) if "." in text else ""
            self._note(kinds[text], name, text)
            if self.point:
                return
        self._note_mixed(name, kinds)

    def _note_mixed(self, name: str, kinds: Mapping[str, str]) -> None:
        dotted = next((text for text, kind in kinds.items() if kind == "dotted"), "")
        if dotted and any(_WHOLE.fullmatch(text) for text in kinds):
            self._note("mixed", name, dotted)
        if len(kinds) >= 3 and all(kind == "dotted" and text.endswith("00") for text, kind in kinds.items()):
            self._note("round", name, dotted)

    def _note(self, kind: str, name: str, text: str) -> None:
        if kind and not getattr(self, kind):
            setattr(self, kind, f"{shorten(text)!r} in column {shorten(name)!r}")


def _mark_kind(text: str) -> str:
    """Return which attribute of `_Seen` a number with marks speaks for, or an empty string."""
    grouped, decimal = _COMMA_GROUPS.fullmatch(text), _COMMA_DECIMAL.fullmatch(text)
    zero = text.lstrip("+-").startswith("0")
    if decimal and not (grouped and not zero):
        return "decimal"
    if grouped:
        return "groups" if not decimal else "either"
    if _DOT_GROUPS.fullmatch(text) and not zero:
        return "dotted" if text.count(".") == 1 else "proved"
    return "point" if _POINT.fullmatch(text) else ""


def _grouped(text: str, thousands: str, decimal: str) -> bool:
    whole = text.partition(decimal)[0]
    if whole.lstrip("+-").startswith("0"):
        return False
    pattern = _COMMA_GROUPS if thousands == "," else _DOT_GROUPS
    return bool(pattern.fullmatch(whole))


def date_days(texts: Sequence[str]) -> dict[str, float] | None:
    """Return text -> days since 1970-01-01 if all texts are dates of one form, None if not.

    A form that could be day first or month first for every text is none: nobody can tell.
    """
    if not texts or any(len(text) > 40 or not re.search(r"\d", text) for text in texts):
        return None
    import pandas as pd

    if all(_QUARTER.fullmatch(text) for text in texts):
        starts = {
            text: _QUARTER.sub(lambda found: f"{found[1]}-{3 * int(found[2]) - 2:02d}-01", text)
            for text in texts
        }
        return _days(pd.to_datetime(list(starts.values()), format="%Y-%m-%d", utc=True), texts)
    if all(_ISO.fullmatch(text) for text in texts):
        return _days(pd.to_datetime(list(texts), format="ISO8601", errors="coerce", utc=True), texts)
    fitting = [
        form for date in DATE_FORMATS for form in (date + time for time in _TIMES) if _fits(texts[0], form)
    ]
    parsed = [pd.to_datetime(list(texts), format=form, errors="coerce", utc=True) for form in fitting]
    found = [days for each in parsed if (days := _days(each, texts)) is not None]
    return found[0] if found and all(each == found[0] for each in found) else None


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _days(parsed: object, texts: Sequence[str]) -> dict[str, float] | None:
    import numpy as np
    import pandas as pd

    assert isinstance(parsed, pd.DatetimeIndex)
    if parsed.isna().any():
        return None
    stamps = parsed.tz_localize(None).to_numpy()
    days = (stamps - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return dict(zip(texts, map(float, days), strict=True))
