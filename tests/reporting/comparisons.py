"""A published number and its row of comparison, as the tests of comparing use them."""

from __future__ import annotations

from typing import Any

from gpsuite.reporting.comparison import ComparisonRow, Criterion, PaperValue, Statistic, compare

EQUALITY = Criterion("equality", value=5.0, tolerance=0.1)


def published(test: Criterion = EQUALITY, **changes: Any) -> PaperValue:
    values: dict[str, Any] = {
        **{"id": "X1", "paper": "p1", "where": "Table 1", "experiment": "family/name", "dataset": "toy"},
        **{"method": "m", "quantity": "risk", "published": "5.0", "unit": "risk", "condition": ""},
        **{"basis": "result", "statistic": "risk", "test": test, **changes},
    }
    return PaperValue(**values)


def only(entry: PaperValue, *statistics: Statistic) -> ComparisonRow:
    (row,) = compare([entry], statistics)
    return row
