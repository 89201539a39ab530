"""The table of what the guarantees assume, with the check of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.checks import HOLDS, LEVEL, UNCHECKED, VIOLATED, Check

SAMPLES = "test rows, PAC-Bayes, conformal, jackknife+"
OF_CLASSES = "test rows, certified"


def row_checks(
    record: Record, samples: str = OF_CLASSES, copies: str = OF_CLASSES, order: str = OF_CLASSES
) -> list[Check]:
    """Return the checks of rows as independent draws from one distribution.

    Args:
        record: of the judged model.
        samples: guarantees that need draws from one distribution.
        copies: those that copies hurt.
        order: those that an order in time hurts.
    """
    repeated = int(record.number("repeated_rows"))
    drift_p, order_p = record.number("drift_p"), record.number("order_p")
    moved = f"first against last third of the file: {record.metrics['drift_column']} differs most, p = {drift_p:.2g}"
    return [
        Check(
            "rows are independent: no copies",
            copies,
            f"{repeated} rows repeat an earlier one; the bounds are the worse of those with and without them"
            if repeated
            else "no row repeats another",
            VIOLATED if record.metrics["repeated"] else UNCHECKED if repeated else HOLDS,
        ),
        Check.of("rows come from one distribution: no drift", samples, moved, drift_p < LEVEL),
        Check.of(
            "rows are independent: no order in time",
            order,
            f"correlation of residuals with the next row's, p = {order_p:.2g}",
            order_p < LEVEL,
        ),
        Check(
            "new rows come from the same distribution", samples, "cannot be seen from the table", UNCHECKED
        ),
    ]


def regression_checks(record: Record, bands: Sequence[Record], excluded: int) -> list[Check]:
    """Return the checks of a regression."""
    found = row_checks(record, SAMPLES, "jackknife+", f"{SAMPLES}, band")
    pattern, inside = record.number("pattern_p"), int(record.number("gp_inside"))
    n, spread_p = int(record.number("n_test")), record.number("gp_inside_p")
    found.append(
        Check.of(
            "the model's own spread is not too small",
            "the model's own intervals",
            f"they held {inside} of {n} test targets, p = {spread_p:.2g}",
            spread_p < LEVEL,
        )
    )
    found.append(
        Check.of(
            "the model leaves no pattern in the residuals",
            "the model's own intervals",
            f"correlation of residuals of neighbouring test rows, p = {pattern:.2g}",
            pattern < LEVEL,
        )
    )
    if bands:
        found += band_checks(bands, excluded)
    return found


def band_checks(bands: Sequence[Record], excluded: int) -> list[Check]:
    """Return the checks of the bands: their models' residuals, and whether the models contradict each other."""
    found = []
    if len(bands) == 2:
        first, second = (
            (each.arrays[f"pointwise_lower_{excluded}"], each.arrays[f"pointwise_upper_{excluded}"])
            for each in bands
        )
        apart = int(np.count_nonzero((first[0] > second[1]) | (second[0] > first[1])))
        found.append(
            Check.of(
                "the function is in the span of the band's model",
                "band",
                f"the two models' bands exclude each other at {apart} of {len(first[0])} places",
                apart > 0,
            )
        )
    found.append(
        Check(
            "the noise is symmetric about 0, and independent of the inputs (none is an earlier target)",
            "band",
            "not seen apart from the model's own error",
            UNCHECKED,
        )
    )
    return found
