"""Doubts about the reading of a table. Each gives the finding, its meaning and the setting that decides it.

A doubt does not change the reading. `describe` and a run's answer report the same doubts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.dates import YEARS, number_days
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.names import name_list, shorten, split_values
from gpsuite.data.table.roles import Column, rises
from gpsuite.text import counted

_SHOWN = 5  # names in a sentence
_FEWEST_ROWS = 5  # with fewer rows, rising whole numbers are no evidence
_POST = re.compile(r"(?:.*[ _.-])?(?:zip(?:[ _-]?code)?|post(?:al)?[ _-]?code|postal|plz|pin[ _-]?code)", re.IGNORECASE)
_PHONE = re.compile(r"(?:.*[ _.-])?(?:(?:tele|cell|mobile)?[ _-]?phone.*|tel|mobile|fax|msisdn)", re.IGNORECASE)
_CODE = re.compile(
    r"(?:.*[ _.-])?(?:codes?|cd|fips|sic|naics|isic|nace|icd|isbn|ean|upc|gtin|sku|account|acct|id|uid)"
    r"|(?-i:.*[a-z](?:Code|ID|Id|Cd))",
    re.IGNORECASE,
)
_KIND = re.compile(
    r"(?:.*[ _.-])?(?:subject|participant|patient|respondent|individual|household|strat(?:a|um)|cluster|block|batch|"
    r"firm|company|bank|brand|store|shop|hospital|clinic|cent(?:er|re)|site|station|lab(?:oratory)?|street|commune|"
    r"village|district|county|province|state|region|country|nation|race|ethnic(?:ity)?|religion|species|breed|"
    r"occupation|industry|sector|party|vote|treatment|marital|status|type|kind|category)(?:[ _.-]?\d+)?",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:.*[ _.-])?(?:years?|yr|yyyy|jahr|baujahr|ann[ée]e|a[ñn]o|anno|vintage)|(?-i:.*[a-z]Year)", re.I)
TIME_NAME = re.compile(r".*(?:date|datum|day|month|period|year|yyyy|time).*", re.IGNORECASE)
_NINES = re.compile(r"-?(?:9+|9+\.9+|8{3,}|7{3,}|32767|32768|65535|2147483647|2147483648)(?:\.0*)?|-?1e\+[2-9]\d")
_WIDE = 3  # least digits of a code by its width
_LONG = 10  # digits of telephone numbers
_LEVELS = 20
_RECURS = 5  # least number of rows per code
_SHARED = 0.2  # least distance of a value far from the others in several columns, as a share of their range
_SEVERAL = 3
_STRAY = 3  # most different marks on one side of the values


def doubts(spec: CsvSpec, grid: Grid, columns: Sequence[Column], targets: Sequence[str] = ()) -> list[str]:
    """Return the doubts about the used columns, each a sentence or two.

    Args:
        spec: the user's statements, which decide some doubts.
        grid: the cells.
        columns: used inputs and targets.
        targets: names of targets. Rising numbers, codes and dates are only doubts about inputs.
    """
    if spec.strict:
        return []
    columns = sorted(columns, key=lambda column: grid.header.index(column.name))
    inputs = [column for column in columns if column.name not in targets]
    return [
        *_rising(spec, inputs),
        *_codes(spec, grid, inputs),
        *_dates(spec, grid, inputs),
        *_marks(spec, columns),
        *_north_america(spec, grid, columns),
        *_untitled(grid),
    ]


def years(spec: CsvSpec, columns: Sequence[Column]) -> list[str]:
    """Return a sentence about columns of years: their reading, and the alternative."""
    if spec.strict:
        return []
    named = set(split_values(spec.numbers))
    found = [column.name for column in _numbers(columns) if column.name not in named and _holds_years(column)]
    if not found:
        return []
    verb, each = ("holds", "it") if len(found) == 1 else ("hold", "them")
    return [f"{_shown(found)} {verb} years, read as numbers; {setting(spec, 'codes', found)} reads {each} as levels"]


def _numbers(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.kind == "number" and not column.useless]


def _shown(names: Sequence[str]) -> str:
    """Return `column 'a'`, or `columns 'a', 'b' and 3 more`."""
    quoted = ", ".join(repr(shorten(name, 40)) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"column{'s' if len(names) > 1 else ''} {quoted}{more}"


def setting(spec: CsvSpec, key: str, values: Sequence[str]) -> str:
    """Return the command-line word that adds values to a list setting."""
    every = [*split_values(getattr(spec, key)), *values]
    one = len(every) == 1 and not set(every[0]) & set("[],\"'")
    return shlex.quote(f"dataset.{key}={every[0] if one else name_list(every)}")


def _given(column: Column) -> FloatArray:
    return column.values[~np.isnan(column.values)]


def _whole(values: FloatArray) -> bool:
    return bool(len(values) and (values == np.floor(values)).all())


def _rising(spec: CsvSpec, columns: Sequence[Column]) -> Iterator[str]:
    """Yield a doubt about whole numbers that rise in every row under a name that is not a counter's."""
    names = [column.name for column in _numbers(columns) if len(column.values) >= _FEWEST_ROWS and rises(column.values)]
    if names:
        holds = "holds whole numbers that rise" if len(names) == 1 else "hold whole numbers that rise"
        out = setting(spec, "ignore", names)
        yield f"{_shown(names)} {holds} or fall in every row: if they only number the rows, leave them out: {out}"


def seeming_codes(spec: CsvSpec, grid: Grid, columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Return columns of numbers that may be names of things, by the kind of thing."""
    settled = {*split_values(spec.numbers), *split_values(spec.codes)}
    found: dict[str, list[Column]] = {}
    for column in [] if spec.strict else _numbers(columns):
        if column.name not in settled and (what := _code_kind(grid, column)):
            found.setdefault(what, []).append(column)
    return found


def _codes(spec: CsvSpec, grid: Grid, columns: Sequence[Column]) -> Iterator[str]:
    """Yield doubts about numbers that may be names of things."""
    for what, group in seeming_codes(spec, grid, columns).items():
        names = [column.name for column in group]
        few = [each for each in group if len(np.unique(_given(each))) <= spec.categories]
        ways = []
        if few:
            ways.append(f"{setting(spec, 'codes', [each.name for each in few])} reads them as levels")
        if len(few) < len(group):
            many = [each.name for each in group if each not in few]
            ways.append(f"{setting(spec, 'ignore', many)} leaves them out")
        verb, be = ("seems", "is") if len(names) == 1 else ("seem", "are")
        why = "near numbers need not mean like things"
        yield f"{_shown(names)} {verb} to hold {what}, but {be} read as numbers: {why}. If so, {', '.join(ways)}"


def _code_kind(grid: Grid, column: Column) -> str:
    """Return the kind of thing that a column's numbers name, by its name or digits, or an empty string."""
    values = _given(column)
    if (
        not _whole(values)
        or values.min() < 0.0
        or _holds_years(column)
        or number_days(_texts(grid, column)) is not None
    ):
        return ""
    different = len(np.unique(values))
    if different < 3:
        return ""
    if _POST.fullmatch(column.name) and values.max() >= 100:
        return "postcodes"
    if _PHONE.fullmatch(column.name) and values.max() >= 1e5:
        return "telephone numbers"
    if _CODE.fullmatch(column.name):
        return "codes"
    width = _width(grid, column)
    if (
        width >= _LONG
        and different > len(values) // 2
        and not (TIME_NAME.fullmatch(column.name) or values.max() < 2.1e9)
    ):
        return "telephone numbers or ids"
    recurs = different <= _LEVELS and len(values) >= _RECURS * different
    if (
        width >= _WIDE
        and recurs
        and not (TIME_NAME.fullmatch(column.name) or _YEAR.fullmatch(column.name) or _even(values))
    ):
        return f"codes of {width} digits"
    return "codes" if _KIND.fullmatch(column.name) and 2 * different <= len(values) else ""


def _texts(grid: Grid, column: Column) -> list[str]:
    """Return the different texts of a column that are numbers."""
    cells = grid.column(grid.header.index(column.name))
    return [text for text, plain, gap in zip(cells.texts, cells.plain, cells.missing, strict=True) if plain and not gap]


def _width(grid: Grid, column: Column) -> int:
    """Return the number of digits of the numbers, or 0 if it differs or they are written in another way."""
    lengths = {len(text) if text.isdecimal() else 0 for text in _texts(grid, column)}
    return lengths.pop() if len(lengths) == 1 else 0


def _even(values: FloatArray) -> bool:
    """Return whether numbers look like settings of a quantity: multiples of 5, or steps of one size."""
    levels = np.unique(values)
    steps = np.diff(levels)
    return bool((levels % 5 == 0).all() or (steps.min() == steps.max() > 1.0))


def _holds_years(column: Column) -> bool:
    values = _given(column)
    if not _whole(values) or values.min() < YEARS[0] or values.max() > YEARS[1] or values.min() == values.max():
        return False
    close = values.min() >= 1900.0 and values.max() <= 2035.0 and len(np.unique(values)) > 2
    return bool(_YEAR.fullmatch(column.name) or (close and not column.name.casefold().endswith(("id", "code"))))


def _dates(spec: CsvSpec, grid: Grid, columns: Sequence[Column]) -> Iterator[str]:
    settled = {*split_values(spec.numbers), *split_values(spec.dates), *split_values(spec.codes)}
    found: list[str] = []
    for column in _numbers(columns):
        if column.name in settled or not _whole(_given(column)):
            continue
        texts = _texts(grid, column)
        fewest = 3 if TIME_NAME.fullmatch(column.name) else 12 if texts and len(texts[0]) == 6 else 5
        if len(texts) >= fewest and number_days(texts) is not None:
            found.append(column.name)
    if found:
        what = (
            f"seem{'s' if len(found) == 1 else ''} to hold dates as numbers, which jump at the end of a month or year"
        )
        yield f"{_shown(found)} {what}: {setting(spec, 'dates', found)} reads days"
    twofold = [column.name for column in columns if column.kind == "category" and column.role == "date"]
    if twofold:
        what = "dates that may begin with the day or the month, now read as categories"
        yield f"{_shown(twofold)}: {what}. dataset.day_first=true or dataset.day_first=false decides it"


def _marks(spec: CsvSpec, columns: Sequence[Column]) -> Iterator[str]:
    """Yield doubts about values that recur far from all others, especially the same value in several columns."""
    levels = {
        column.name: np.unique(_given(column), return_counts=True) for column in _numbers(columns) if len(column.values)
    }
    found: dict[float, dict[str, int]] = {}
    for name, (values, counts) in levels.items():
        for mark in _far_values(values, counts):
            found.setdefault(mark, {})[name] = int(counts[values == mark][0])
    shared = _shared_marks(levels, found)
    items: list[str] = []
    for mark in sorted(shared):
        elsewhere = [name for name, (values, _) in levels.items() if name not in shared[mark] and mark in values]
        items += [f"{name}={mark:g}" for name in shared[mark]] if elsewhere else [f"{mark:g}"]
    for mark, times in sorted(shared.items()):
        where = ", ".join(f"{count} times in {shorten(name, 40)!r}" for name, count in list(times.items())[:_SHOWN])
        more = f" and {counted(len(times) - _SHOWN, 'more column')}" if len(times) > _SHOWN else ""
        lies = "lies far from all other values" if len(times) == 1 else "lies outside all other values of each"
        yield (
            f"{mark:g} occurs {where}{more} and {lies}: it probably marks a missing value. "
            f"{setting(spec, 'na', items)} reads it as missing"
        )


def _far_values(values: FloatArray, counts: IntArray) -> list[float]:
    """Return the repeated extreme values that are far from all others.

    Args:
        values: different values, in order [K].
        counts: number of occurrences of each [K].
    """
    found: list[float] = []
    for side in (1, -1):
        ordered, times = values[::side], counts[::side]
        for few in range(1, min(_STRAY, len(ordered) - 3) + 1):
            far, rest = ordered[:few], ordered[few:]
            usual = all(map(_is_usual, far)) or _count_down(far)
            if (
                (few > 1 and not (usual or _count_down(ordered[: few + 1])))
                or times[:few].min() < 2
                or times[few:].sum() < 5
            ):
                break
            gap, spread = abs(rest[0] - far[-1]), abs(rest[-1] - rest[0])
            below = side > 0 and far[-1] < 0.0 <= rest[0]  # the only negative values
            alone = below and usual and (far[-1] <= -99.0 or times[few - 1] > 2)
            alone = alone or (below and far[0] == -1.0 and _is_frequent(rest, times))
            enough = len(rest) >= 5 and times[few:].sum() >= 10
            if alone or (gap > (0.5 if usual else _apart(far[0], below=below)) * spread and (usual or enough)):
                found += far.tolist()
                break
    return found


def _count_down(far: FloatArray) -> bool:
    """Return whether values are 99, 98, 97 or 999, 998, the usual numbers of missing answers."""
    return bool(_is_usual(far[0]) and far[0] > 10.0 and len(far) > 1 and (np.diff(far) == -1.0).all())


def _is_frequent(rest: FloatArray, times: IntArray) -> bool:
    """Return whether -1 below counts is not one of them: it is far more frequent than the rarest count."""
    return len(rest) >= 10 and bool((rest == np.floor(rest)).all()) and times[0] >= max(5, 3 * times[1])


def _is_usual(mark: float) -> bool:
    """Return whether a value is a usual mark of a missing value, such as -999."""
    return bool(_NINES.fullmatch(f"{mark:.12g}"))


def _apart(mark: float, *, below: bool) -> float:
    """Return the least distance of an unusual mark, in ranges of the other values. It is less for a round mark."""
    if below:
        return 1.0
    return 3.0 if len(f"{abs(mark):.12g}".rstrip("0").strip("0.")) <= 1 else 10.0


def _shared_marks(
    levels: dict[str, tuple[FloatArray, IntArray]], found: dict[float, dict[str, int]]
) -> dict[float, dict[str, int]]:
    """Return the marks, with all columns in which they are the repeated extreme, and the marks of several columns."""
    lowest: dict[float, dict[str, int]] = {}
    for name, (values, counts) in levels.items():
        if len(values) > 10 and counts[0] > 1 and values[0] <= 0.0 <= values[1]:
            apart = values[1] - values[0] > _SHARED * (values[-1] - values[1])
            if apart or values[0] < -1.0:
                lowest.setdefault(float(values[0]), {})[name] = int(counts[0])
    shared = {mark: times for mark, times in lowest.items() if len(times) >= _SEVERAL} | found
    everywhere = {mark: times | _elsewhere(mark, levels) for mark, times in shared.items()}
    return {mark: {name: times[name] for name in levels if name in times} for mark, times in everywhere.items()}


def _elsewhere(mark: float, levels: dict[str, tuple[FloatArray, IntArray]]) -> dict[str, int]:
    """Return the columns in which a mark of another column is the repeated extreme, with its number of occurrences."""
    found = {}
    for name, (values, counts) in levels.items():
        if len(values) < 6 or mark not in (values[0], values[-1]) or not (mark < 0.0 or _is_usual(mark)):
            continue
        side = 1 if values[0] == mark else -1
        rest = values[::side][1:]
        apart = abs(rest[0] - mark) > _SHARED * abs(rest[-1] - rest[0])
        if counts[::side][0] > 1 and (apart or mark < 0.0 <= rest[0]):
            found[name] = int(counts[::side][0])
    return found


def _north_america(spec: CsvSpec, grid: Grid, columns: Sequence[Column]) -> Iterator[str]:
    """Yield a doubt about NA among two-letter codes: it is read as missing, but may be North America or Namibia."""
    for column in columns:
        if column.kind not in ("category", "text") or not column.gaps.any():
            continue
        cells = grid.column(grid.header.index(column.name))
        place = cells.texts.index("NA") if "NA" in cells.texts else -1
        others = [text for text, gap in zip(cells.texts, cells.missing, strict=True) if not gap]
        two = [text for text in others if len(text) == 2 and text.isalpha() and text.isupper()]
        if place >= 0 and cells.missing[place] and len(two) > 1 and len(two) >= 0.7 * len(others):
            like = ", ".join(two[:3])
            what = f"{int(cells.counts[place])} cells 'NA' in column {shorten(column.name)!r} are read as missing"
            keep = setting(spec, "not_na", [f"{column.name}=NA"])
            yield f"{what}, but the others are codes of two letters ({like}): NA may be a code. {keep} keeps it"


def _untitled(grid: Grid) -> Iterator[str]:
    """Yield a doubt about columns without a title: a decimal comma between cells can cause them."""
    if not (places := grid.untitled):
        return
    said = f"{_shown([grid.header[place] for place in places])}: no title above"
    split = [place for place in places if _all_digits(grid, place) and _all_digits(grid, place - 1)]
    if not split:
        yield said
        return
    cells = ",".join(grid.cells[0, split[0] - 1 : split[0] + 1])
    fix = "Write such numbers with a point, or cells apart by ';'"
    yield f"{said}, and it holds whole numbers. Is {cells} one number, split at its decimal comma? {fix}"


def _all_digits(grid: Grid, place: int) -> bool:
    texts = [text for text in grid.column(place).texts if text]
    return bool(texts) and all(text.lstrip("-").isdecimal() for text in texts)
