"""robustness/safety: a certified class-probability range for points of any dataset, a user's CSV included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.data.splits import DifferentRows
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, Request, only_arrays
from gpsuite.experiments.robustness import safety_runs, safety_tasks
from gpsuite.experiments.robustness.classifiers import present_classes
from gpsuite.experiments.robustness.inputs import BY_NAME, describe
from gpsuite.experiments.robustness.records import few_learnt_warnings, uncertified_warnings, write_certificates
from gpsuite.experiments.robustness.safety_curves import of_points
from gpsuite.experiments.robustness.safety_runs import CANDIDATE_BOXES, CANDIDATE_EPS, CANDIDATE_ROWS, CELLS
from gpsuite.experiments.robustness.safety_tasks import SafetySettings, classes_of, has_several
from gpsuite.experiments.robustness.tasks import AGREEMENT, GAUSSIAN_LATENT
from gpsuite.experiments.sentences import certified
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound
from gpsuite.methods.robustness.verdict import HALF
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLACK, GREEN, GREY, HIGHEST, LIMIT, LOWEST, VERMILION
from gpsuite.rounding import rounded
from gpsuite.statistics.estimates import share
from gpsuite.statistics.significance import LEVEL, wilcoxon_p

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = ("safe", "unsafe", "unknown", "timeout")
UNBUDGETED = "runs that ended with their budget are not counted"
GAP = re.compile(r"gap\[(eps=(.+))\]")
SMALLEST_GAP = 1e-4  # drawn. Smaller ones lie on the edge
# share of the searches -> line and label
QUANTILES = {0.5: ("-", "half of the searches at most"), 0.9: ("--", "nine in ten at most"), 1.0: (":", "all at most")}
COLOURS = {"safe": GREEN, "unsafe": VERMILION, "unknown": GREY, "timeout": GREY}
DELTA = 0.01  # allowed probability that a sentence on new rows is wrong
NORMS = {"linf": "L-infinity", "l2": "L2", "l1": "L1"}
COLUMNS = (
    "row",
    "label",
    "predicted",
    "correct",
    "probability",
    "verdict",
    "min_proved",
    "min_attained",
    "max_attained",
    "max_proved",
    "gap",
    "attacked",
    "attack_succeeds",
    "chosen_by",
    "free_inputs",
    "probabilities_proved",
    "class_proved",
    "boxes",
    "certified_min",
    "certified_max",
    "certificate_decides",
    "uncertified",
    "why",
)


def point_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per method and point. Columns that no record has are left out."""
    import pandas as pd

    present = [name for name in COLUMNS if any(name in record.metrics for record in records)]
    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            **{name: record.metrics.get(name) for name in present},
            "status": record.status,
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def is_safe(record: Record) -> bool:
    """Return whether a point is classified rightly, and stays so."""
    return bool(record.metrics["correct"]) and record.metrics["verdict"] == "safe"


def is_certified(record: Record) -> bool:
    """Return whether that is proved: by probabilities that are (those of two classes), without, or by a certificate."""
    metrics = record.metrics
    proved = metrics.get("probabilities_proved", True) or metrics.get("class_proved")
    return bool(proved or metrics.get("certificate_decides")) and is_safe(record)


def summary_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return per method the number of points with each verdict, and certified and attacked accuracy."""
    import pandas as pd

    rows = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        counted = Counter(str(record.metrics["verdict"]) for record in own)
        right = [bool(record.metrics["correct"]) for record in own]
        kept = [hit and not record.metrics["attack_succeeds"] for hit, record in zip(right, own, strict=True)]
        rows.append(
            {
                "method": title,
                "points": len(own),
                **{name: counted[name] for name in VERDICTS},
                "accuracy": float(np.mean(right)),
                "accuracy under attack": float(np.mean(kept)),
                "certified accuracy": float(np.mean([is_certified(record) for record in own])),
                "mean gap": float(np.mean([record.number("gap") for record in own])),
                "mean boxes": float(np.mean([record.number("boxes") for record in own])),
            }
        )
    return pd.DataFrame(rows)


def change_table(records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]) -> pd.DataFrame:
    """Return the counterexamples as changes of the point's inputs, in the dataset's own units."""
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "input": input_names[column],
            "change": float(record.arrays["change"][column]),
        }
        for record in records
        if "change" in record.arrays
        for column in np.flatnonzero(record.arrays["change"])
    ]
    return pd.DataFrame(rows, columns=["method", "point", "input", "change"])


def timing_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return seconds of both searches, one row per method and point."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": titles[str(record.axes["method"])],
                "point": record.axes["point"],
                "search seconds": record.number("search_seconds"),
                "CPU seconds, certificate and training included": record.timing.get("cpu_seconds"),
            }
            for record in records
        ]
    )


def _gaps(record: Record) -> Iterator[tuple[float, float | None, float | None, bool]]:
    """Yield tolerance, final gap, gap of Prop. 1 at the point (ceil(2 / eps) cells), whether no budget ended it."""
    for name, gap in record.metrics.items():
        if asked := GAP.fullmatch(name):
            cell_gap, unbudgeted = (record.metrics.get(f"prop1_{name}"), record.metrics[f"unbudgeted[{asked[1]}]"])
            known = [each if isinstance(each, float) else None for each in (gap, cell_gap)]
            yield float(asked[2]), known[0], known[1], bool(unbudgeted)


def _falls_like_cells(record: Record) -> bool | None:
    """Return whether Prop. 1 at the point approaches the closed form, which has no gap there, like 1 / cells."""
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
    """Return 1 if the candidates of App. D lower the boxes until eps, paired by search. NaN without searches that end.

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
    what = f"paper's bound on {CANDIDATE_ROWS} training rows, eps {CANDIDATE_EPS:g}. Candidates are no boxes"
    note = f"{what}. Closed at least once: {len(closed)} of {len(pairs)} searches"
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
    note = f"{len(known)} regions with a proved margin, which is positive in n. Attacks from several starts"
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


def draw_ranges(report: Report[object], table: pd.DataFrame, shown: str, binary: bool) -> None:
    """Draw every point's proved and attained range of a class probability, in the order of that."""
    present = [title for title in report.titles.values() if (table["method"] == title).any()]
    with report.figure("safety", rows=len(present), size=(7.5, 0.6 + 3.4 * len(present))) as drawing:
        for ax, title in zip(drawing.axes, present, strict=True):
            own = table[table["method"] == title].sort_values("probability", kind="stable")
            places = np.arange(len(own))
            for verdict, rows in own.groupby("verdict", sort=False):
                at, color = places[own["verdict"] == verdict], COLOURS[str(verdict)]
                ax.vlines(at, rows["min_proved"], rows["max_proved"], color=color, alpha=0.3, lw=5)
                ax.vlines(at, rows["min_attained"], rows["max_attained"], color=color, lw=2, label=str(verdict))
            ax.plot(places, own["probability"], ".", color=BLACK, ms=5, label="at the point")
            if binary:  # where the class changes
                ax.axhline(HALF, color=LIMIT, lw=1, label="decided here")
            ax.set_xticks(places, own["point"], fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.grid(visible=False, axis="x")
            ax.set_ylim(-0.02, 1.02)
            ax.set_title(title)
        drawing.name_axes("test point by its number, smallest probability first", f"probability of {shown}")
        drawing.legend("below", 5, "thin bars: attained range of the probability, wide pale bars: proved range")
        drawing.data = table[["method", "point", "probability", *COLUMNS[5:10]]]


def draw_traces(report: Report[SafetySettings], records: Sequence[Record]) -> None:
    """Draw quantiles over the searches of the gap against the boxes bounded so far, where one needed several."""
    rows: list[dict[str, object]] = [
        {
            "method": report.titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "side": side,
            "boxes": max(1.0, float(boxes)),
            "gap": abs(float(outer - inner)),
        }
        for record in records
        for side in ("minimum", "maximum")
        for boxes, inner, outer in record.arrays[f"{side}_trace"]
    ]
    if len({row["boxes"] for row in rows}) > 1:  # otherwise no search began, or each ended with its first box
        _draw_quantiles(report, rows)


def _draw_quantiles(report: Report[SafetySettings], rows: Sequence[dict[str, object]]) -> None:
    import pandas as pd

    frame = pd.DataFrame(rows)
    quantiles = gap_quantiles(frame)
    with report.figure("safety_trace", columns=2, size=(10.0, 4.4), sharey=True) as drawing:
        for ax, (side, colour) in zip(drawing.axes, {"maximum": HIGHEST, "minimum": LOWEST}.items(), strict=True):
            own = quantiles[quantiles["side"] == side].sort_values("boxes")
            for share, (style, label) in QUANTILES.items():
                gap = own[f"{100 * share:g} %"].clip(lower=SMALLEST_GAP)
                ax.step(own["boxes"], gap, style, where="post", color=colour, marker=".", label=label)
            ax.axhline(report.settings.tolerance, color=LIMIT, lw=1, label="tolerance")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlim(0.8, max(10.0, 1.2 * float(frame["boxes"].max())))
            ax.set_ylim(bottom=SMALLEST_GAP / 2.0)
            closed = int((_last(frame[frame["side"] == side]) <= report.settings.tolerance).sum())
            count = frame[frame["side"] == side].groupby(["method", "point"]).ngroups
            ax.set_title(f"searches for the {side}: {closed} of {count} closed")
        drawing.name_axes("boxes bounded", metric("gap", "robustness").label)
        drawing.legend("below", 4)
        drawing.data = quantiles


def _last(own: pd.DataFrame) -> pd.Series[float]:
    return own.sort_values("boxes", kind="stable").groupby(["method", "point"])["gap"].last()


def gap_quantiles(frame: pd.DataFrame) -> pd.DataFrame:
    """Return quantiles over the searches of their gap by boxes bounded. One that ended keeps its last gap.

    Args:
        frame: columns method, point, side, boxes and gap, one row per step of a search.
    """
    import pandas as pd

    rows: list[dict[str, object]] = []
    for side, own in frame.groupby("side"):
        steps = own.groupby(["boxes", "method", "point"])["gap"].min().unstack(["method", "point"])
        current = steps.sort_index().ffill()
        for boxes, gaps in current.iterrows():
            values = {f"{100 * share:g} %": float(gaps.quantile(share)) for share in QUANTILES}
            rows.append({"side": side, "boxes": boxes, "searches": int(gaps.count()), **values})
    return pd.DataFrame(rows)


def summarise(report: Report[SafetySettings]) -> list[Statistic]:
    """Write the certificates, one row per point, verdicts and changes. Draw ranges and traces."""
    request, settings = report.request, report.settings
    points, checks = report.records(part="point"), report.records(part="check")
    certificates = write_certificates(points, report.folder / "certificates")
    several = has_several(request.require_dataset(), settings)
    statistics = check_statistics(checks, settings.check_tolerances)
    statistics += margin_statistics(points if several else report.records(part="three_classes"))
    if not points:
        return statistics
    computed = {str(record.axes["method"]) for record in points}
    titles = {name: title for name, title in report.titles.items() if not several or name in computed}
    free = describe(settings.features, len(points[0].arrays["free"]))
    if load(request.require_dataset()).level_inputs:
        free += " that are numbers (categories stay)"
    if settings.uncertain:
        free = f"the values of {', '.join(settings.uncertain)}"
    caption = _caption(request, str(points[0].metrics["chosen_by"]), free)
    if not settings.points:  # points that the user chose are no sample
        report.answer.extend(certified_sentences(report, points, titles, free))
    rows = point_table(points, titles)
    report.table(summary_table(points, titles), "safety", caption)
    where = ". The range is the predicted class'" if several else ""
    if certificates:
        where += "; certificates: certificates/METHOD_point_I.npz"
    report.table(rows, "safety_points", f"{caption}{where}")
    names = load(request.require_dataset()).input_names
    changes = f"{caption}. Change that turns the point into its counterexample, in units of the dataset"
    report.table(change_table(points, titles, names), "safety_changes", changes)
    report.table(timing_table(points, titles), "safety_timing", caption)
    fitting = safety_tasks.methods_of_several(request.methods) if several else request.methods
    for name in request.methods.keys() - fitting.keys():
        report.warnings.append(f"{report.titles[name]} is for two classes: it is left out")
    report.warnings.extend(uncertified_warnings(points))
    report.warnings.extend(few_learnt_warnings(_rows(request), settings.test_rows))
    labels = sorted({str(record.metrics["label"]) for record in points})
    draw_ranges(report, rows, "the predicted class" if several else _positive(request, labels), not several)
    draw_traces(report, points)
    return statistics + point_statistics(points, titles)


def certified_sentences(
    report: Report[SafetySettings], points: Sequence[Record], titles: Mapping[str, str], free: str
) -> Iterator[str]:
    """Yield what the certified test rows of each method say of new rows, with or without copies."""
    change = f"{free} move within the {_shape(report.settings)} and stay within {_within(report.settings)}"
    groups = load(report.request.require_dataset()).groups
    learnt = np.empty(0, dtype=np.int64)  # no copy of a test row
    compared = _compared(report.request)
    rows = f"new rows of class {' or '.join(compared)}" if compared else "new rows"
    for method, title in titles.items():
        own = [record for record in points if record.axes["method"] == method]
        if not own:
            continue
        asked = sum(record.matches(method=method, part="point") for record in report.planned)
        if len(own) < asked:  # which rows fail or take long depends on them: the others are no sample
            lacking = f"{asked - len(own)} of {asked} test rows failed or are missing"
            yield f"{title}: nothing is said of {rows}, as {lacking}."
            continue
        safe = sum(map(is_safe, own))
        held = np.array([is_certified(each) for each in own])
        different = DifferentRows.of(np.array([each.metrics["row"] for each in own]), learnt, groups)
        bound = 1.0 - cautious_upper_bound(~held, different, DELTA)
        yield f"{title}: {certified(DELTA, bound, 'this model', change, rows)}"
        counted = f"{held.sum()} of {len(own)} test rows"
        if different is not None:
            counted += f". Of the {len(different.places)} that repeat no other {held[different.places].sum()}"
        if held.sum() < safe:
            counted += f", {safe - held.sum()} more by a cubature whose error is stated, not proved"
        yield f"  ({counted}.)"


def _positive(request: Request[SafetySettings], labels: Sequence[str]) -> str:
    data = request.require_dataset()
    named = classes_of(data.name, request.settings)
    if named:
        return named[1]
    names = load(data).label_names
    return names[-1] if names and len(names) == 2 else labels[-1]


def _rows(request: Request[SafetySettings]) -> int:
    """Return how many rows the dataset has of the classes that are compared."""
    dataset = request.require_dataset()
    known, labels, present = present_classes(load(dataset))
    named = classes_of(dataset.name, request.settings) or present
    return int(np.isin(labels, [known.index(name) for name in named]).sum())


def _compared(request: Request[SafetySettings]) -> list[str]:
    """Return the classes that are compared, if the dataset has others."""
    dataset = request.require_dataset()
    named, present = classes_of(dataset.name, request.settings), present_classes(load(dataset))[2]
    return named if len(named) < len(present) else []


def _caption(request: Request[SafetySettings], chosen_by: str, free: str) -> str:
    settings = request.settings
    data = request.require_dataset()
    name = data.shown_name
    if compared := _compared(request):
        name += f", classes {', '.join(compared[:-1])} and {compared[-1]}"
    asked = chosen_by == BY_NAME or chosen_by in settings.features
    fallback = "" if asked else f", chosen by {chosen_by}"
    return (
        f"{name}: class probability over the {_shape(settings)} around test points, within {_within(settings)}; "
        f"free: {free}{fallback}. Tolerance {settings.tolerance:g}, bound {settings.bound}"
    )


def _shape(settings: SafetySettings) -> str:
    if settings.within:
        return f"box of {', '.join(f'± {rounded(amount, 6, -1)}' for amount in settings.within)} (each in its units)"
    scaled = {"none": "", "pixels": " (pixels from 0 to 1)"}.get(settings.scaling, " standard deviations")
    return f"{NORMS[settings.norm]} ball of radius {rounded(settings.radius, 6, -1)}{scaled}"


def _within(settings: SafetySettings) -> str:
    """Return the inputs' domain, to which every region is cut."""
    ends = ", ".join(f"{end:g}" for end in settings.domain)
    return f"[{ends}]" if ends else "the inputs' ranges in the data"


EXPERIMENTS.register("robustness/safety")(
    Experiment(
        safety_tasks.SafetySettings,
        safety_tasks.plan,
        {safety_tasks.PointTask: safety_runs.run_point, safety_tasks.CheckTask: safety_runs.run_check},
        summarise,
        method_traits=(GAUSSIAN_LATENT,),
        dataset_tasks=("classification",),
        parts=("count", "check_points"),
        published=only_arrays("change", "free", "*_trace"),
        agreement=AGREEMENT,
    )
)
