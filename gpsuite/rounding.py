"""Numbers in words, rounded to the side that keeps a statement true.

A float counts as the shortest decimal that names it, as Python prints it: 0.1 is shown as 0.1.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_EXACT = 60  # digits of intermediate results, which are rounded to the same side
_MOST = 17  # digits that tell any two floats apart


def rounded(value: float, digits: int, side: int) -> str:
    """Return a number with so many significant digits, not below it (side 1) or not above it (side -1)."""
    return _shown(_named(value), digits, side)


def rounded_units(value: float, scale: float, offset: float, side: int) -> str:
    """Return `value * scale + offset`, not below it (side 1) or not above it (side -1), without rounding in between.

    It has 10 digits, and more if they are needed to show a millionth of the scale next to a large offset.
    """
    if not math.isfinite(value * scale + offset):
        return f"{value * scale + offset:g}"
    own = _context(_EXACT, side).fma(_named(value), _named(scale), _named(offset))
    digits = own.adjusted() - _named(scale).adjusted() + 7 if own else 0
    return _shown(own, min(max(digits, 10), _MOST), side)


def rounded_interval(low: float, high: float, scale: float = 1.0, offset: float = 0.0) -> tuple[str, str]:
    """Return the ends of an interval, times scale plus offset, that reach no further than the interval itself.

    They have 6 digits, and more if they are needed to show a thousandth of its width.
    """
    if not (math.isfinite(low * scale + offset) and math.isfinite(high * scale + offset)):
        return f"{low * scale + offset:g}", f"{high * scale + offset:g}"
    first = _context(_EXACT, 1).fma(_named(low), _named(scale), _named(offset))
    last = _context(_EXACT, -1).fma(_named(high), _named(scale), _named(offset))
    width = last - first
    largest = max(first.adjusted() if first else 0, last.adjusted() if last else 0)
    needed = largest - width.adjusted() + 4 if width > 0 else _MOST
    digits = min(max(6, needed), _EXACT)
    return _shown(first, digits, 1), _shown(last, digits, -1)


def sureness(delta: float) -> str:
    """Return `1 - delta` as a percentage with every digit that delta has: 1e-9 is 99.9999999 %."""
    down = _context(_EXACT, -1)
    return f"{down.multiply(down.subtract(1, _named(delta)), 100):f}".rstrip("0").rstrip(".") + " %"


def _named(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _shown(value: Decimal, digits: int, side: int) -> str:
    if not value.is_finite():
        return f"{float(value):g}"
    short = _context(digits, side).create_decimal(value).normalize()
    return f"{short:f}" if -7 < short.adjusted() < _MOST else f"{short:e}"


def _context(digits: int, side: int) -> Context:
    return Context(prec=digits, rounding=ROUND_CEILING if side > 0 else ROUND_FLOOR)
