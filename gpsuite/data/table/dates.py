"""Dates, date-times and times of day, as texts or as numbers such as 20240301."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from gpsuite.arrays import FloatArray

DATE_FORMATS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d",
    "%Y.%m.%d", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%b-%d-%Y",
    "%b %Y", "%B %Y", "%b-%Y", "%d%b%Y", "%a, %d %b %Y", "%A, %B %d, %Y", "%a %b %d %Y",
)  # fmt: skip
_TIMES = (
    "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p", " %I:%M:%S%p", "T%H:%M",
    "T%H:%M:%S", " %H.%M.%S",
)  # fmt: skip
_ISO = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2}(?:[T ]\d.*)?)?")
_QUARTER = re.compile(r"(\d{4})[ -]?[Qq]([1-4])")
_MAYBE_DATE = re.compile(r"\d{1,4}[./\s-]?\s*\w|[^\W\d_]{3,}[\s,-]\s*\w")  # beginnings of DATE_FORMATS
_LONGEST_DATE = 40
_TIME = re.compile(r"(\d{1,3}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?(?: ?([AaPp])\.?[Mm]\.?)?|(\d\d?)\.(\d\d)\.(\d\d)")
_NUMBER_FORMS = {8: "%Y%m%d", 6: "%Y%m"}
YEARS = (1000, 2100)  # whole numbers that may be read as a year


def date_days(texts: Sequence[str], day_first: bool | None = None) -> FloatArray | None:
    """Return the days since 1970-01-01 of each text [K] if all are dates of one form, None if not.

    Args:
        texts: texts of the cells.
        day_first: whether the day comes first, if no text shows which part is the day. None: unknown, so neither form.
    """
    found = _ways(texts)
    if len(found) > 1 and day_first is not None:
        found = [way for way in found if (way[0][:2] == "%d") is day_first]
    return found[0][1] if found and all(np.array_equal(days, found[0][1]) for _, days in found) else None


def may_begin_with_day_or_month(texts: Sequence[str]) -> bool:
    """Return whether all texts are dates and no text distinguishes day and month."""
    return len(_ways(texts)) > 1 and date_days(texts) is None


def _ways(texts: Sequence[str]) -> list[tuple[str, FloatArray]]:
    """Return each form in which all texts are dates, with the days since 1970-01-01 [K] in this form."""
    if not texts or any(len(text) > _LONGEST_DATE or not re.search(r"\d", text) for text in texts):
        return []
    if all(map(_QUARTER.fullmatch, texts)):
        starts = [_QUARTER.sub(lambda found: f"{found[1]}-{3 * int(found[2]) - 2:02d}-01", text) for text in texts]
        forms, texts = ["%Y-%m-%d"], starts
    elif all(map(_ISO.fullmatch, texts)):
        forms = ["ISO8601"]
    elif _MAYBE_DATE.match(texts[0]):
        forms = [form for date in DATE_FORMATS for time in _TIMES if _fits(texts[0], form := date + time)]
    else:
        forms = []
    return [(form, days) for form in forms if (days := _days(texts, form)) is not None]


def number_days(texts: Sequence[str]) -> FloatArray | None:
    """Return the days since 1970-01-01 of numbers such as 20240301 or 202403 [K], or None if they are not dates."""
    length = len(texts[0]) if texts else 0
    if length not in _NUMBER_FORMS or any(len(text) != length or not text.isdecimal() for text in texts):
        return None
    if any(not text.isascii() or not YEARS[0] <= int(text[:4]) <= YEARS[1] for text in texts):
        return None
    return _days(texts, _NUMBER_FORMS[length])


def time_hours(texts: Sequence[str]) -> FloatArray | None:
    """Return the hours of times such as 18:00:00, 6:30 pm or 18.00.00 [K], or None if a text is not a time."""
    found = [_TIME.fullmatch(text) for text in texts]
    return np.array([_hours(each) for each in found if each]) if texts and all(found) else None


def _hours(found: re.Match[str]) -> float:
    hours, minutes, seconds, half, *dotted = found.groups()
    if dotted[0]:
        hours, minutes, seconds = dotted
    whole = float(hours) % 12.0 if half else float(hours)
    noon = 12.0 if half and half in "Pp" else 0.0
    return whole + noon + float(minutes) / 60.0 + float((seconds or "0").replace(",", ".")) / 3600.0


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _days(texts: Sequence[str], form: str) -> FloatArray | None:
    """Return the days since 1970-01-01 of dates of one form [K], or None if a text is not a date."""
    import pandas as pd

    parsed = pd.to_datetime(list(texts), format=form, errors="coerce", utc=True)
    if parsed.isna().any():
        return None
    stamps = parsed.tz_localize(None).to_numpy()
    days: FloatArray = (stamps - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return days
