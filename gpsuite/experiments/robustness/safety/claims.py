"""Statistics of robustness/safety: shares of verdicts, and the checks of the paper's statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety.checks import CANDIDATE_BOXES, CANDIDATE_EPS, CANDIDATE_ROWS, CELLS
from gpsuite.experiments.robustness.safety.tables import VERDICTS, is_certified
from gpsuite.experiments.robustness.safety_curves.claims import of_points
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import share
from gpsuite.statistics.significance import LEVEL, wilcoxon_p

UNBUDGETED = "runs that ended with their budget are not counted"


GAP = re.compile(r"gap\[(eps=(.+))\]")


def _gaps(record: Record) -> Iterator[tuple[float, float | None, float | None, bool]]:
    """Yield tolerance, final gap, gap of Prop. 1 at the point (ceil(2 / eps) cells), whether no budget ended it."""
    for name, gap in record.metrics.items():
        if asked := GAP.fullmatch(name):
            cell_gap, unbudgeted = (
                record.metrics.get(f"prop1_{name}"),
                record.metrics[f"unbudgeted[{asked[1]}]"],
            )
            known = [each if isinstance(each, float) else None for each in (gap, cell_gap)]
            yield float(asked[2]), known[0], known[1], bool(unbudgeted)


def _falls_like_cells(record: Record) -> bool | None:
    """Tell whether Prop. 1 at the point approaches the closed form, which has no gap there, like 1 / cells."""
    found = {2 / eps: gap for eps, _, gap, _ in _gaps(record) if gap is not None}
    few, many = min(found, default=0.0), max(found, default=0.0)
    return found[many] <= 2 * found[few] * few / many if few < many else None


def check_statistics(checks: Sequence[Record], tolerances: Sequence[float]) -> list[Statistic]:
    """Return the statistics by which the paper's statements about its method are decided."""
    found = [
        Statistic(f"prop1_cells[eps={eps}]", float(np.ceil(2 / eps)), note="the number whose gap is checked")
        for eps in dict.fromkeys((*tolerances, 0.025))
    ]
    if not checks:
        return found
    n = len(checks)
    gaps = [gap for record in checks for gap in _gaps(record)]
    closed = [found <= eps + 1e-12 for eps, found, _, unbudgeted in gaps if unbudgeted and found is not None]
    cells = [cell_gap <= eps for eps, _, cell_gap, _ in gaps if cell_gap is not None]
    approached = [like for record in checks if (like := _falls_like_cells(record)) is not None]
    boxes = sum(int(record.number("closed_form_boxes")) for record in checks)
    strictly = sum(int(record.number("prop1_approaches")) for record in checks)
    return [
        *found,
        Statistic("points_outside_bounds", _total(checks, "points_outside_bounds"), n=n),
        Statistic.of("share_runs_with_gap_closed", share(closed), note=UNBUDGETED),
        Statistic.of("share_prop1_cells_suffice", share(cells)),
        Statistic("violations_closed_form_tighter", _total(checks, "closed_form_violations"), n=boxes),
        claim(
            "share_prop1_approaches_closed_form",
            approached,
            f"in {strictly} of {boxes} boxes at each step of N = {', '.join(map(str, CELLS))}",
        ),
        Statistic(
            "points_outside_mixture_bounds",
            _total(checks, "points_outside_mixture_bounds"),
            n=n,
            note="mixture over four sets of hyperparameters around the trained ones",
        ),
        candidates_lower_boxes(checks),
    ]


def candidates_lower_boxes(checks: Sequence[Record]) -> Statistic:
    """Return 1 if the candidates of App. D lower the boxes until eps, paired by search; NaN without searches that end.

    A search that ends only with them, or only without them, counts the other time as `CANDIDATE_BOXES`: it took more.
    """
    pairs = np.array(
        [
            [record.number(f"boxes_{variant}_candidates[side={side}]") for variant in ("with", "without")]
            for record in checks
            for side in ("minimum", "maximum")
        ]
    )
    closed = np.nan_to_num(pairs[np.isfinite(pairs).any(axis=1)], nan=CANDIDATE_BOXES)
    what = f"paper's bound on {CANDIDATE_ROWS} training rows, eps {CANDIDATE_EPS:g}; candidates are no boxes"
    note = f"{what}; closed at least once: {len(closed)} of {len(pairs)} searches"
    if not len(closed):
        return Statistic("candidates_lower_boxes", float("nan"), n=0, note=note)
    ratio, p = float(np.mean(closed[:, 0] / closed[:, 1])), wilcoxon_p(closed[:, 0], closed[:, 1])
    lower = float(ratio < 1.0 and p < LEVEL)
    note = f"mean ratio {ratio:.3g}, p {p:.2g}; {note}"
    return Statistic("candidates_lower_boxes", lower, n=len(closed), note=note)


def _total(checks: Sequence[Record], name: str) -> float:
    return float(sum(record.number(name) for record in checks))


def margin_statistics(records: Sequence[Record]) -> list[Statistic]:
    """Return in how many regions an attack reaches a smaller margin than was proved, among several classes.

    An attack that succeeds where the margin is proved to be positive is one of them. Without a positive proved margin
    nothing is decided.
    """
    proved = [(record.metrics["margin_proved"], record.number("attacked")) for record in records]
    known = [(margin, attacked) for margin, attacked in proved if isinstance(margin, float)]
    positive = sum(margin > 0.0 for margin, _ in known)
    against = float(sum(attacked < margin for margin, attacked in known)) if positive else float("nan")
    note = f"{len(known)} regions with a proved margin, positive in n of them; attacks from several starts"
    return [Statistic("contradictions_multi_class", against, n=positive, note=note)] if records else []


def point_statistics(records: Sequence[Record], titles: Mapping[str, str]) -> list[Statistic]:
    """Return shares of points by method."""
    found = []
    for method in titles:
        own = [record for record in records if record.axes["method"] == method]
        for verdict in VERDICTS:
            hits = [record.metrics["verdict"] == verdict for record in own]
            found.append(of_points(f"share_{verdict}[method={method}]", hits))
        safe = [is_certified(record) for record in own]
        found.append(of_points(f"certified_accuracy[method={method}]", safe))
    return found
