"""Formats of cells: numbers with their marks and symbols, and gaps. Also the distinct texts of a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.errors import DataError

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "?"})
# further marks. They are gaps if they are the only text in a column of numbers
MISSING_MARKS = frozenset({"-", "--", "---", ".", "..", "*", "none", "nil", "unknown", "missing", "n.a.", "nd", "n/d"})

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1", "on"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0", "off"})
BOOLEAN_WORDS = TRUE_WORDS | FALSE_WORDS
CURRENCIES = frozenset("$€£¥")
_GROUP_SPACES = " \u00a0\u202f\u2009'’"
_SPACED = re.compile(rf"[+-]?\d{{1,3}}(?:[{_GROUP_SPACES}]\d{{3}})+(?:[.,]\d*)?")
_COMMA_DECIMAL = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)?,\d+(?:[eE][+-]?\d+)?")
_COMMA_GROUPS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_DOT_GROUPS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
_MINUS = ("\u2212", "\u2013")  # the minus sign and the dash that word processors use instead
_MOSTLY = 0.8  # a column decides how numbers are written only if at least this share of its different texts are numbers
_WORD = 3  # least letters of a word
_BEGINS = frozenset("+-.,\u2212\u2013")  # characters other than digits of numbers that float does not read
_WHOLE = re.compile(r"[+-]?\d{1,3}")
_POINT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?")
_EXPONENT = re.compile(r"([+-]?\d*\.\d*)[dD]([+-]\d{2,3})")  # as Fortran writes it


@dataclass(frozen=True, eq=False)
class Cells:
    """The N cells of a column as K distinct texts: rules look at texts, and whole columns are filled by position.

    Attributes:
        name: the column's name.
        texts: the stripped texts, in the order in which they first occur.
        codes: [N] position of each cell's text.
        numbers: [K] the number of a text as programs write it. NaN for other texts.
        plain: [K] whether a text is such a number.
        missing: [K] whether a text represents a gap.
    """

    name: str
    texts: tuple[str, ...]
    codes: IntArray
    numbers: FloatArray
    plain: BoolArray
    missing: BoolArray

    @classmethod
    def of(cls, name: str, cells: Sequence[str] | NDArray[np.object_]) -> Cells:
        """Return the distinct texts of stripped cells [N]."""
        import pandas as pd  # imported here: commands that read no table start faster

        codes, found = pd.factorize(np.array(cells, dtype=object))
        texts = tuple(found)
        numbers, plain = plain_numbers(texts)
        missing = np.zeros(len(texts), dtype=bool)
        for position in np.flatnonzero(np.isnan(numbers)):
            missing[position] = is_missing(texts[position])
        return cls(name, texts, codes, numbers, plain, missing)

    @cached_property
    def counts(self) -> IntArray:
        """Number of cells with each text [K]."""
        return np.bincount(self.codes, minlength=len(self.texts))

    @cached_property
    def signed(self) -> dict[int, tuple[str, str]]:
        """The text without its sign, and the sign, by position of each text that is not a plain number or a gap."""
        others = np.flatnonzero(~self.plain & ~self.missing).tolist()
        return {position: without_symbol(self.texts[position]) for position in others}

    @cached_property
    def regular(self) -> bool:
        """Whether every cell is a finite number as programs write it."""
        return bool(np.isfinite(self.numbers).all())


@dataclass(frozen=True)
class NumberFormat:
    """Number format of a file.

    Attributes:
        decimal: the decimal mark, `.` or `,`.
        thousands: the mark between groups of three digits, or an empty string. Blanks and apostrophes always count as
            such marks.
    """

    decimal: str = "."
    thousands: str = ""

    def number(self, text: str) -> float | None:
        """Return the number, or None if the text is not one. It is infinite for `inf` and for overflow of float64."""
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

    def numbers(self, cells: Cells, *, without_signs: bool = False) -> tuple[FloatArray, BoolArray]:
        """Return the number of each text, NaN for other texts, and whether it is one [K]."""
        values, known = cells.numbers.copy(), cells.plain.copy()
        if self.decimal == ",":
            for position in np.flatnonzero(known & ~cells.missing):
                number = self.number(cells.texts[position]) if "." in cells.texts[position] else values[position]
                values[position], known[position] = np.nan if number is None else number, number is not None
        for position, (bare, _) in cells.signed.items():
            text = bare if without_signs else cells.texts[position]
            if text[:1].isdigit() or text[:1] in _BEGINS or without_signs:
                number = self.number(text)
                if number is not None:
                    values[position], known[position] = number, True
        return values, known


def format_of(reading: Mapping[str, str]) -> NumberFormat | None:
    """Return how the table writes numbers, or None if that is not known."""
    if "decimal" not in reading and "thousands" not in reading:
        return None
    return NumberFormat(reading.get("decimal", "."), reading.get("thousands", ""))


def _plain_minus(text: str) -> str:
    if _MINUS[0] not in text and _MINUS[1] not in text:
        return text
    if text[:1] in _MINUS and (text[1:2].isdigit() or text[1:2] in (".", ",")):
        text = f"-{text[1:]}"
    return re.sub(r"(?<=[0-9.][eE])[\u2212\u2013](?=\d)", "-", text)


def yes_and_no(texts: Iterable[str]) -> bool:
    """Return whether texts are words for yes and no.

    Single letters count only in pairs, as T and F. T and Y are two levels.
    """
    words = set()
    for text in texts:
        words.add(text.casefold())
        if not words <= BOOLEAN_WORDS:
            return False
    paired = all((one in words) == (other in words) for one, other in (("t", "f"), ("y", "n"), ("1", "0")))
    return bool(words) and (paired or any(len(word) > 1 for word in words))


def same_word(text: str) -> str:
    """Return the text without features that do not distinguish levels: capital letters and blanks of words.

    Short texts do not change: AA, Aa and aa are three genotypes.
    """
    return " ".join(text.casefold().split()) if sum(map(str.isalpha, text)) >= _WORD else text


def like_number(text: str) -> bool:
    """Return whether a text is a number in any known format, regardless of the file's."""
    if plain_number(text) is not None:
        return True
    bare = _plain_minus(without_symbol(text)[0])
    return plain_number(bare) is not None or bool(_mark_kind(bare)) or bool(_SPACED.fullmatch(bare))


def plain_number(text: str) -> float | None:
    """Return the number of a text such as `-1.5e3`, or None for other texts."""
    if "_" in text:  # Python reads 1_0 as 10, other programs do not
        return None
    try:
        return float(text)
    except ValueError:
        found = _EXPONENT.fullmatch(text)
        return float(f"{found[1]}e{found[2]}") if found and found[1].strip("+-.") else None


def plain_numbers(texts: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Return `plain_number` of each text, NaN for other texts, and whether it is one [K]."""
    try:
        values = np.array(list(map(float, texts)), dtype=np.float64)
        if "_" not in "\n".join(texts):
            return values, np.ones(len(texts), dtype=bool)
    except ValueError:
        pass
    found = [plain_number(text) for text in texts]
    values = np.array([np.nan if number is None else number for number in found], dtype=np.float64)
    return values, np.array([number is not None for number in found], dtype=bool)


def is_missing(text: str) -> bool:
    """Return whether a stripped cell represents a gap: empty, NA, N/A, NaN, null or a question mark."""
    return text.casefold() in MISSING_WORDS


def without_symbol(text: str) -> tuple[str, str]:
    """Return the text without a currency sign before it or a percent or currency sign after it, and the sign."""
    sign = text[:1] if text[:1] in ("+", "-", *_MINUS) else ""
    first, last = text[len(sign) : len(sign) + 1], text[-1:]
    before = first if first in CURRENCIES else ""
    middle = text[len(sign) + len(before) :]
    behind = last if middle and (last == "%" or last in CURRENCIES) else ""
    middle = middle[: len(middle) - len(behind)].strip()
    if bool(before) == bool(behind) or "\n" in middle:
        return text, ""
    return f"{sign}{middle}", before or behind


def find_format(
    key: str, path: str, columns: Sequence[Cells], decimal: str | None, thousands: str | None, separator: str
) -> tuple[NumberFormat, str]:
    """Return the format of the file's numbers, and a sentence if it is not the usual one.

    All columns decide together. 1,5 can only have a decimal comma, 1,234.5 only a comma between thousands. 1,234 may be
    either, unless there is a number such as 1.5 somewhere. Columns of plain numbers are used if the others leave a
    doubt.

    Args:
        key: key of the file, for messages.
        path: the file, for messages.
        columns: the file's columns.
        decimal: the decimal mark that the user states, or None.
        thousands: the mark between thousands that the user states, or None.
        separator: separator of cells. If it is not a comma, 1.032 next to 948 may have a point between thousands.

    Raises:
        DataError: if the marks are not valid, or the columns contradict each other or do not decide.
    """
    if decimal is not None or thousands is not None:
        return _stated_format(decimal, thousands), ""
    seen = _Seen()
    for cells in columns:
        if not cells.regular:
            seen.add(cells)
    if seen.decimal or seen.proved or seen.either or separator != ",":
        for cells in columns:
            if cells.regular:
                seen.add(cells)
    return _decided(seen, separator, partial(csv_error, key, path))


def _decided(seen: _Seen, separator: str, fault: Callable[..., DataError]) -> tuple[NumberFormat, str]:
    """Return the format of the seen numbers, and a sentence on the decision. `fault` makes the error."""
    comma, points = seen.decimal or seen.proved, seen.groups or seen.point
    if comma and points:
        text = f"{comma} needs a decimal comma, {points} a decimal point"
        raise fault(text, "write all numbers in one way, as 1234.5")
    if comma and seen.dotted and not seen.proved:
        text = f"{comma} needs a decimal comma. Is the point in {seen.dotted} between thousands?"
        raise fault(text, "if it is:", fix={"decimal": ",", "thousands": "."})
    if comma:
        mark = "a decimal comma" if seen.decimal else "a point between thousands"
        return NumberFormat(",", "."), f"numbers are read with {mark} ({comma})"
    if seen.groups or (seen.either and seen.point):
        mark = "a comma between thousands"
        return NumberFormat(".", ","), f"numbers are read with {mark} ({seen.groups or seen.either})"
    if seen.either:
        text = f"{seen.either}: a decimal comma, or a comma between thousands?"
        raise fault(text, "dataset.decimal=, if it is decimal. If not:", fix={"thousands": ","})
    doubt = f"{seen.mixed}, next to numbers without a point" if seen.mixed else seen.round
    if doubt and not seen.point and separator != ",":
        text = f"{doubt}: a decimal point, or one between thousands?"
        raise fault(text, "dataset.decimal=. if it is decimal. If not:", fix={"thousands": "."})
    if seen.dotted and not seen.point and separator != ",":
        told = f"{seen.dotted} is read with a decimal point. Set dataset.thousands=. if it is between thousands"
        return NumberFormat(), told
    return NumberFormat(), ""


def as_the_table(table: NumberFormat | None, columns: Sequence[Cells], alike: bool) -> tuple[NumberFormat, str] | None:
    """Return the table's format for a file that belongs to it, and a sentence. None if the file has no marks or others.

    Args:
        table: the table's format of numbers. None for the table itself.
        columns: the file's columns.
        alike: whether the cells are separated as in the table. If not, 1.234 need not be 1234.
    """
    if table is None or table == NumberFormat():
        return None
    marked = [text for _, text in _marked(columns)]
    if not marked:
        return None
    if not alike and all(_mark_kind(text) in ("dotted", "either") for text in marked):
        return None
    if any(table.number(text) is None for text in marked):
        return None
    return table, f"numbers are read as the table's are: {marked[0]!r} is {table.number(marked[0]):.10g}"


def refuse_twofold(
    key: str, path: str, columns: Sequence[Cells], table: NumberFormat | None, written: NumberFormat
) -> None:
    """Raise if a file that belongs to a table has a number with another value in the table's format.

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


def _marked(columns: Sequence[Cells]) -> list[tuple[str, str]]:
    """Yield column name and number of each text that is a number with a point, a comma or blanks in it.

    Columns of plain numbers come last.
    """
    ordered = sorted(columns, key=lambda cells: cells.regular)
    bare = [
        (cells.name, _plain_minus(cells.signed.get(position, (text,))[0]))
        for cells in ordered
        for position, text in enumerate(cells.texts)
    ]
    return [(name, text) for name, text in bare if _mark_kind(text) or _SPACED.fullmatch(text)]


def _stated_format(decimal: str | None, thousands: str | None) -> NumberFormat:
    """Return the format of the marks that the user states."""
    for key, mark, allowed in (("decimal", decimal, (".", ",")), ("thousands", thousands, (",", ".", "", " ", "'"))):
        if mark is not None and mark not in allowed:
            raise csv_error(
                key, mark, "is no such mark", "it is " + " or ".join(repr(each) for each in allowed if each)
            )
    point = decimal or ("," if thousands == "." else ".")
    if point == thousands:
        raise csv_error("thousands", thousands, "is also the decimal mark", "the two marks differ")
    # then the other mark can only be between groups of three digits
    return NumberFormat(point, ("." if point == "," else ",") if thousands is None else thousands)


class _Seen:
    """The first number of each kind that shows the file's format, as `'1,5' in column 'a'`.

    Attributes:
        decimal: number that must have a decimal comma.
        groups: number that must have a comma between thousands.
        either: number that has one of the two.
        point: number that must have a decimal point.
        dotted: number with a decimal point or a point between thousands.
        mixed: number as `dotted`, in a column with whole numbers that have no point.
        round: number as `dotted`, in a column of such numbers that all end in 00. Programs do not write such decimals.
        proved: number that must have a point between thousands.
    """

    def __init__(self) -> None:
        self.decimal = self.groups = self.either = self.point = self.dotted = self.mixed = self.proved = ""
        self.round = ""

    def add(self, cells: Cells) -> None:
        """Note the numbers of a column. A column without numbers is no evidence."""
        others = {position: _plain_minus(bare) for position, (bare, _) in cells.signed.items()}
        kinds = {bare: _mark_kind(bare) for bare in others.values()}
        if others:
            plain = {cells.texts[position] for position in np.flatnonzero(cells.plain & ~cells.missing)}
            # a text without a sign is known to be no plain number
            changed = {bare for position, bare in others.items() if bare != cells.texts[position]}
            wrong = sum(
                not kind and bare not in plain and (bare not in changed or plain_number(bare) is None)
                for bare, kind in kinds.items()
            )
            count = len(plain | kinds.keys())
            if count - wrong < _MOSTLY * count:
                return
        for position in np.flatnonzero(~cells.missing).tolist():
            text = others.get(position)
            if text is None:
                if self.point:  # then plain numbers add nothing
                    continue
                text = cells.texts[position]
                kinds[text] = _mark_kind(text)
            self._note(kinds[text], cells.name, text)
            if kinds[text] == "decimal" and "." in text:
                self._note("proved", cells.name, text)
        if not self.point:
            self._note_mixed(cells.name, kinds)

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
    """Return the attribute of `_Seen` for a number with marks, or an empty string."""
    zero = text.lstrip("+-").startswith("0")
    if "," in text:
        grouped, decimal = _COMMA_GROUPS.fullmatch(text), _COMMA_DECIMAL.fullmatch(text)
        if decimal and not (grouped and not zero):
            return "decimal"
        return ("either" if decimal else "groups") if grouped else ""
    if text[-4:-3] == "." and not zero and _DOT_GROUPS.fullmatch(text):
        return "dotted" if text.count(".") == 1 else "proved"
    return "point" if "." in text and _POINT.fullmatch(text) else ""


def _grouped(text: str, thousands: str, decimal: str) -> bool:
    whole = text.partition(decimal)[0]
    if whole.lstrip("+-").startswith("0"):
        return False
    pattern = _COMMA_GROUPS if thousands == "," else _DOT_GROUPS
    return bool(pattern.fullmatch(whole))
