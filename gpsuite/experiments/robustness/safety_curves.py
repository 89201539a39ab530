"""robustness/safety_synthetic2d, safety_spam, safety_mnist38: local safety (Blaas et al. 2020, Fig. 2-3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.classes import SYNTHETIC2D_SHIFT
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, Request, only_arrays
from gpsuite.experiments.robustness import safety_curve_tasks
from gpsuite.experiments.robustness.inputs import describe, image_order
from gpsuite.experiments.robustness.safety_curve_tasks import (
    ATTACKS,
    NAMED_POINT,
    VERDICTS,
    WHOLE_FILE,
    LocalSafetySettings,
    whole_file,
)
from gpsuite.experiments.robustness.tasks import AGREEMENT, CLASSIFIER
from gpsuite.methods.robustness.verdict import HALF, binary_comparison
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.palette import BLACK, HIGHEST, LIMIT, LOWEST, ORANGE, PURPLE, SKY, VERMILION
from gpsuite.statistics.estimates import OF_POINTS, corrected_mean, share
from gpsuite.statistics.paired import Paired

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SECOND = "none had the property: the one with most radii at which GPFGS fails although an adversarial example exists"
BY_AUTHORS = "the point that the authors' script names, where the first point has the number 1"
NO_MEAN = 1e-3  # a latent mean this near to 0 is that of a point far from all data
LAST = "none had an adversarial example: the first correctly classified one"
POINT_COLUMNS = (
    "row",
    "label",
    "correct",
    "probability",
    "chosen_by",
    "free_inputs",
    "safe_gamma",
    "cross_gamma",
    "gpfgs_gamma",
    "gpjm_gamma",
    "strong_gamma",
    "monotone",
    "linear_r2",
    "largest_gap",
    "boxes",
)
PRINTED = {"not spam": "benign"}  # label -> the paper's word
# open marks of falling size: of equal values all are seen
STYLES: dict[str, dict[str, Any]] = {
    "gpfgs": {"color": PURPLE, "marker": "o", "ms": 9, "mfc": "none", "label": "GPFGS attack"},
    "gpjm": {"color": ORANGE, "marker": "s", "ms": 6, "mfc": "none", "label": "GPJM attack"},
    "strong": {"color": BLACK, "marker": "x", "ms": 4, "label": "multi-start attack"},
}
CLASSES = (SKY, VERMILION)
SECONDS = "seconds and boxes of one search, means over the test points"
RULES = {
    "attack_fails": "correctly classified, an adversarial example exists, GPFGS fails at every radius. Of those the "
    "one with the smallest unsafe radius",
    "locally_linear": "correctly classified and an adversarial example exists. Of those the one whose latent mean is "
    "most nearly linear in the largest box (R² of a linear fit)",
}


@dataclass(frozen=True)
class DisplayedPoint:
    """A displayed point.

    Attributes:
        record: its curve.
        rule: the rule that chose it, in words.
        as_asked: whether it has the property requested.
    """

    record: Record
    rule: str
    as_asked: bool


def curves(records: Sequence[Record], features: str | None = None, method: str | None = None) -> list[Record]:
    """Return the records of points, of one panel and method where named."""
    return [
        record
        for record in records
        if record.axes.get("part") == "point"
        and (features is None or record.axes["features"] == features)
        and (method is None or record.axes["method"] == method)
    ]


def attacked(curve: Record, records: Sequence[Record]) -> FloatArray:
    """Return what GPFGS reaches at the radii of a curve, then at the larger ones at which only it was run."""
    axes = {**curve.axes, "part": "attack"}
    further = [record.arrays["gpfgs"] for record in records if record.axes == axes]
    return np.concatenate([curve.arrays["gpfgs"], *further])


def maps(records: Sequence[Record], method: str) -> Record | None:
    """Return the contour plot of a method's first panel, if there is one."""
    found = [r for r in records if r.axes.get("part") == "map" and r.axes["method"] == method]
    return found[0] if found else None


def choose_shown(records: Sequence[Record], rule: str, label: str) -> DisplayedPoint | None:
    """Return the displayed point among the curves of one panel and method. None if there are none.

    Args:
        records: the curves.
        rule: a word of `LocalSafetySettings.shown`. A named point that is not among the curves is chosen as by
            attack_fails.
        label: its label, or an empty string. Without effect where no curve has it, as in stand-in data.
    """
    named = NAMED_POINT.fullmatch(rule)
    if named is not None:
        for record in records:
            if record.axes["point"] == int(named[1]):
                return DisplayedPoint(record, BY_AUTHORS, True)
    own = [record for record in records if record.metrics["label"] == label] or records
    right = [record for record in own if record.metrics["correct"]]
    unsafe = [record for record in right if record.metrics["cross_gamma"] is not None]
    if not right:
        return DisplayedPoint(records[0], LAST, False) if records else None
    if not unsafe:
        return DisplayedPoint(right[0], LAST, False)
    if rule == "locally_linear":
        return DisplayedPoint(max(unsafe, key=_linearity), RULES[rule], True)
    failing = [record for record in unsafe if record.metrics["gpfgs_gamma"] is None]
    if failing:
        return DisplayedPoint(
            min(failing, key=lambda record: record.number("cross_gamma")), RULES["attack_fails"], True
        )
    return DisplayedPoint(max(unsafe, key=lambda record: record.number("attack_fails_radii")), SECOND, False)


def _linearity(record: Record) -> float:
    found = record.number("linear_r2")
    return found if math.isfinite(found) else -math.inf


def curve_table(shown: Sequence[DisplayedPoint], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the displayed points' curves, one row per radius."""
    import pandas as pd

    frames = []
    for each in shown:
        record, arrays = each.record, each.record.arrays
        columns = {name: arrays[name] for name in ("gamma", "inner", "outer", *ATTACKS)}
        frame = pd.DataFrame(columns).assign(verdict=[VERDICTS[code] for code in arrays["verdict"]])
        frame.insert(0, "point", record.axes["point"])
        frame.insert(0, "method", titles[str(record.axes["method"])])
        frame.insert(0, "features", record.axes["features"])
        frames.append(frame.assign(boxes=arrays["boxes"]))
    return pd.concat(frames, ignore_index=True)


def accuracy_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return per panel and radius which share of points stays right: proved, under each attack, not refuted."""
    import pandas as pd

    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((str(record.axes["features"]), str(record.axes["method"])), []).append(record)
    rows = []
    for (features, method), members in groups.items():
        correct = np.array([bool(member.metrics["correct"]) for member in members])
        verdict = np.array([member.arrays["verdict"] for member in members])
        missed = {name: ~np.array([_crossed(member, name) for member in members]) for name in ATTACKS}
        for step, gamma in enumerate(members[0].arrays["gamma"]):
            right = {name: correct & values[:, step] for name, values in missed.items()}
            rows.append(
                {
                    "features": features,
                    "method": titles[method],
                    "gamma": float(gamma),
                    "certified": float(np.mean(correct & (verdict[:, step] == VERDICTS.index("safe")))),
                    **{f"under {name}": float(values.mean()) for name, values in right.items()},
                    "not proved unsafe": float(np.mean(correct & (verdict[:, step] != VERDICTS.index("unsafe")))),
                    **{name: int(np.sum(verdict[:, step] == code)) for code, name in enumerate(VERDICTS)},
                    "points": len(members),
                }
            )
    return pd.DataFrame(rows)


def _crossed(record: Record, name: str) -> BoolArray:
    return np.asarray(binary_comparison(int(record.number("sign"))).crossed(record.arrays[name]))


def point_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per test point."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "features": record.axes["features"],
                "method": titles[str(record.axes["method"])],
                "point": record.axes["point"],
                **{name: record.metrics[name] for name in POINT_COLUMNS},
                "status": record.status,
            }
            for record in records
        ]
    )


def timing_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return mean and largest seconds and boxes of a search, per panel and radius."""
    import pandas as pd

    rows = [
        {
            "features": record.axes["features"],
            "method": titles[str(record.axes["method"])],
            "gamma": float(gamma),
            "seconds": float(seconds),
            "boxes": int(boxes),
        }
        for record in records
        for gamma, seconds, boxes in zip(*(record.arrays[name] for name in ("gamma", "seconds", "boxes")), strict=True)
    ]
    grouped = pd.DataFrame(rows).groupby(["features", "method", "gamma"], sort=False)
    table = grouped.agg(
        mean_seconds=("seconds", "mean"),
        largest_seconds=("seconds", "max"),
        mean_boxes=("boxes", "mean"),
        points=("boxes", "size"),
    )
    return table.reset_index()


def of_points(name: str, hits: Iterable[object], note: str = "") -> Statistic:
    """Return the share of points, which share one classifier and one training draw. NaN without points."""
    return Statistic.of(name, share(hits, OF_POINTS), note=note)


def crosses(record: Record, name: str) -> bool:
    """Return whether an attack, or the bounds (`cross`), reach the other class at any radius."""
    return record.metrics[f"{name}_gamma"] is not None


def point_statistics(shown: Sequence[DisplayedPoint], records: Sequence[Record]) -> list[Statistic]:
    """Return what all three experiments say about their displayed points and about all points.

    Args:
        shown: the displayed points.
        records: all curves of the displayed points' panels.
    """
    points = [each.record for each in shown]
    rules = "; ".join(
        f"features {each.record.axes['features']}: point {each.record.axes['point']} ({each.rule})" for each in shown
    )
    both = [crosses(record, "cross") for record in points]
    attacked = [crosses(record, "gpfgs") for record in points]
    checked = [bool(record.metrics["witness_checked"]) for record in points]
    fails = [crosses(record, "cross") and not crosses(record, "gpfgs") for record in records]
    return [
        Statistic("decision_threshold", HALF),
        Statistic("points_both_bounds_cross", float(sum(both)), n=len(both), note=rules),
        Statistic("points_attack_crosses", float(sum(attacked)), n=len(attacked), note=rules),
        Statistic.of("share_points_with_checked_witness", share(checked), note=rules),
        of_points("share_monotone_curves", [bool(record.metrics["monotone"]) for record in records]),
        of_points("share_attack_fails_although_adversarial", fails, "all test points of the panels"),
        of_points("share_adversarial", [crosses(record, "cross") for record in records], "largest radius"),
        *(
            of_points(f"share_attacked[attack={name}]", [crosses(record, name) for record in records])
            for name in ("gpfgs", "gpjm", "strong")
        ),
    ]


def gpfgs_statistics(shown: Sequence[DisplayedPoint], records: Sequence[Record] = ()) -> list[Statistic]:
    """Return how GPFGS fares at the displayed points.

    Args:
        shown: the displayed points.
        records: the run's. Some follow GPFGS to larger radii.
    """
    if not shown:
        return []
    points = [each.record for each in shown]
    whole_curves = [attacked(record, records) for record in points]
    rising = any(
        _still_rising(record, curve) and not _left_the_data(record, records)
        for record, curve in zip(points, whole_curves, strict=True)
    )
    largest = max(float(curve.max()) for curve in whole_curves)
    undecided = f"{largest:.5f} where the radii end, still rising" if rising and largest <= HALF else ""
    failing = [
        crosses(record, "cross") and not binary_comparison(int(record.number("sign"))).crossed(curve).any()
        for record, curve in zip(points, whole_curves, strict=True)
    ]
    with_bounds = [_with_the_bounds(record) for record in points]
    whole = [_fails_at_the_end(record) for record in points]
    linear = ", ".join(f"{record.number('linear_r2'):.3f}" for record in points)
    return [
        Statistic("max_attack_probability", float("nan") if undecided else largest, n=len(points), note=undecided),
        claim("attack_fails_although_adversarial", [] if undecided else failing, undecided),
        Statistic.of("share_attack_crosses_with_bounds", share(with_bounds), note=f"R² of the linear fit: {linear}"),
        Statistic("largest_gamma_attack_fails", min(map(_last_failure, points)), n=len(points)),
        Statistic.of("share_attack_fails_at_whole_range", share(whole)),
    ]


def never_attacked(points: Sequence[Record], records: Sequence[Record]) -> list[Statistic]:
    """Return the share of points at which GPFGS fails at every radius though an adversarial example exists.

    Args:
        points: the curves of one panel.
        records: the run's. Nothing is returned unless some follow GPFGS to larger radii.
    """
    if not any(record.axes.get("part") == "attack" for record in records):
        return []
    never = [
        crosses(point, "cross")
        and not binary_comparison(int(point.number("sign"))).crossed(attacked(point, records)).any()
        for point in points
    ]
    return [of_points("share_attack_never_crosses", never, "all test points, up to the largest radius of the attack")]


def _still_rising(record: Record, curve: FloatArray) -> bool:
    """Return whether the attack's curve moves towards the other class where the radii end."""
    towards = int(record.number("sign")) * curve
    return len(towards) > 1 and bool(towards[-1] > towards[-2])


def _left_the_data(curve: Record, records: Sequence[Record]) -> bool:
    """Return whether GPFGS ends where the latent mean is 0, so that no larger radius takes it elsewhere."""
    axes = {**curve.axes, "part": "attack"}
    ends = [abs(float(record.arrays["mean"][-1])) for record in records if record.axes == axes]
    return bool(ends) and max(ends) <= NO_MEAN


def _with_the_bounds(record: Record) -> bool:
    """Return whether the attack crosses at most one radius after the bounds."""
    if not (crosses(record, "cross") and crosses(record, "gpfgs")):
        return False
    gammas = record.arrays["gamma"].tolist()
    first, attack = (gammas.index(record.number(f"{name}_gamma")) for name in ("cross", "gpfgs"))
    return bool(attack <= first + 1)


def _attack_crosses(record: Record) -> Any:
    return binary_comparison(int(record.number("sign"))).crossed(record.arrays["gpfgs"])


def _fails_at_the_end(record: Record) -> bool:
    both = binary_comparison(int(record.number("sign"))).crossed(record.arrays["inner"])
    return bool(both[-1] and not _attack_crosses(record)[-1])


def _last_failure(record: Record) -> float:
    """Return the largest radius at which the attack stays in the original class. NaN if there is none."""
    failing = record.arrays["gamma"][~_attack_crosses(record)]
    return float(failing.max()) if len(failing) else float("nan")


def dataset_statistics(data: Dataset) -> list[Statistic]:
    """Return the dataset's size and the share of every class, under the names the paper's rows use."""
    labels = data.y[:, 0].astype(np.int64)
    names = data.label_names or tuple(str(number) for number in range(data.n_classes))
    found = [Statistic("dataset_rows", float(len(data.X))), Statistic("dataset_inputs", float(data.X.shape[1]))]
    for number, name in enumerate(names):
        if np.any(labels == number):
            percent = 100 * float(np.mean(labels == number))
            found.append(Statistic(f"class_percent[label={PRINTED.get(name, name)}]", percent))
    if data.name.startswith("synthetic2d"):
        found.append(Statistic("class_shift", SYNTHETIC2D_SHIFT))
    return found


def accuracy_gain(records: Sequence[Record], ours: str, other: str, test_over_training: float) -> list[Statistic]:
    """Return the paired difference of test accuracy over splits, which share rows. No interval for one.

    Args:
        records: of the accuracy tasks.
        ours: the dataset with the chosen inputs.
        other: that with all.
        test_over_training: test rows over training rows of a split.
    """
    own = [record for record in records if record.axes.get("part") == "accuracy"]
    rows = {
        "features": [str(record.axes["features"]) for record in own],
        "split": [int(record.axes["point"]) for record in own],
        "accuracy": [record.number("test_accuracy") for record in own],
    }
    chosen, every = Paired(rows, ["split"], ["features"]).pair("accuracy", ours, other)
    if not len(chosen):
        return []
    return [Statistic.of("accuracy_gain", corrected_mean(chosen - every, test_over_training))]


def draw_safety(
    report: Report[LocalSafetySettings],
    shown: Sequence[DisplayedPoint],
    contour: Record | None,
    data: Dataset,
    curves: pd.DataFrame,
    credit: str,
) -> None:
    """Draw each displayed image over its curves, or the classifier with the displayed points next to their curves.

    Args:
        report: the run's.
        shown: the displayed points.
        contour: the contour plot's record, or None for images.
        data: the dataset with the image that is drawn.
        curves: the numbers of the curves, saved next to the figure.
        credit: of an image, drawn at the bottom.
    """
    name = report.request.experiment.split("/")[1]
    limits = report.settings.shown_range or _shown_range([each.record for each in shown])
    with report.figure(name, remark=credit, **_layout(len(shown), contour is not None)) as drawing:
        if contour is None:
            for ax, each in zip(drawing.grid[0], shown, strict=True):
                _draw_image(ax, each, data)
            below = drawing.grid[1]
        else:
            _draw_contour(drawing.ax, shown, contour)
            below = drawing.grid[0, 1:]
        for ax, each in zip(below, shown, strict=True):
            _draw_curves(ax, each.record, limits)
            if contour is not None:
                ax.set_title(f"free: {describe(str(each.record.axes['features']))}", fontsize=10)
        drawing.legend("below", 4)
        drawing.data = curves


def _layout(count: int, contour: bool) -> dict[str, Any]:
    """Return rows and columns: an image over each point's curves, or the one contour plot left of all curves."""
    if contour:
        return {"columns": 1 + count, "size": (5.6 + 3.4 * count, 4.8), "width_ratios": (1.35, *[1.0] * count)}
    return {"rows": 2, "columns": count, "size": (max(6.4, 4.9 * count), 7.6), "height_ratios": (1.15, 1)}


def draw_accuracy(report: Report[object], table: pd.DataFrame, name: str) -> None:
    """Draw certified and attacked accuracy against the radius, one panel per choice of inputs."""
    words = list(dict.fromkeys(table["features"]))
    size = (max(6.4, 4.6 * len(words)), 4.2)
    least = float(table["certified"].min())
    lowest = math.floor(10.0 * least) / 10.0 if least > 0.4 else 0.0
    with report.figure(name, columns=len(words), size=size, sharey=True) as drawing:
        for ax, word in zip(drawing.axes, words, strict=True):
            first = table[table["features"] == word]
            rows = first[first["method"] == first["method"].iloc[0]]
            gamma = rows["gamma"]
            ax.plot(gamma, rows["certified"], color=HIGHEST, marker="v", label="certified")
            ax.plot(gamma, rows["not proved unsafe"], color=HIGHEST, ls="--", label="not proved unsafe")
            for attack, style in STYLES.items():
                ax.plot(gamma, rows[f"under {attack}"], ls=":", **style)
            ax.set_title(f"{describe(word)}, {rows['points'].iloc[0]} test points", fontsize=10)
            ax.set_ylim(lowest, 1.02)
        drawing.name_axes("γ (radius, scaled inputs)", "share of points classified correctly")
        drawing.legend("below")
        drawing.data = table


def _draw_curves(ax: Axes, record: Record, limits: Sequence[float]) -> None:
    arrays, highest = record.arrays, record.number("sign") > 0
    gamma, color = arrays["gamma"], HIGHEST if highest else LOWEST
    what = "max" if highest else "min"
    ax.fill_between(gamma, arrays["inner"], arrays["outer"], color=color, alpha=0.2, lw=0)
    ax.plot(gamma, arrays["outer"], color=color, label=f"π {what}: proved")
    ax.plot(gamma, arrays["inner"], color=color, ls="--", label=f"π {what}: attained")
    for attack, style in STYLES.items():
        values = arrays[attack]
        ax.plot(gamma, values, ls=":", color=style["color"])
        ax.plot(gamma, np.where((values >= limits[0]) & (values <= limits[1]), values, np.nan), ls=":", **style)
    ax.axhline(HALF, color=LIMIT, lw=1)
    ax.set_ylim(*limits)
    ax.set_xlabel("γ (radius, scaled inputs)")
    ax.set_ylabel("probability of the positive class")


def _shown_range(records: Sequence[Record]) -> tuple[float, float]:
    """Return where all curves lie, with one half and a margin."""
    drawn = np.concatenate([record.arrays[name] for record in records for name in ("inner", "outer", *STYLES)])
    low, high = min(float(drawn.min()), HALF), max(float(drawn.max()), HALF)
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _draw_contour(ax: Axes, shown: Sequence[DisplayedPoint], contour: Record) -> None:
    """Draw the class probability over two inputs, the test points and, in red, the displayed ones."""
    arrays = contour.arrays
    levels = np.linspace(0, 1, 11)
    filled = ax.contourf(
        arrays["axis_first"], arrays["axis_second"], arrays["map"], levels=levels, cmap="cividis", alpha=0.75
    )
    ax.contour(arrays["axis_first"], arrays["axis_second"], arrays["map"], levels=[HALF], colors=BLACK, linewidths=1.5)
    ax.plot([], [], color=BLACK, lw=1.5, label="probability one half")
    for positive, color in enumerate(CLASSES):
        points = arrays["points"][(arrays["labels"] > 0) == bool(positive)]
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=9,
            color=color,
            edgecolor="white",
            linewidth=0.3,
            label=f"test points of the {('negative', 'positive')[positive]} class",
        )
    for place in {int(each.record.axes["point"]) for each in shown}:
        x, y = arrays["points"][place]
        ax.scatter(x, y, s=70, color="red", edgecolor="white", zorder=5, label="the point of the curves")
    ax.set_xlim(float(arrays["axis_first"][0]), float(arrays["axis_first"][-1]))
    ax.set_ylim(float(arrays["axis_second"][0]), float(arrays["axis_second"][-1]))
    ax.set_xlabel(f"{contour.metrics['map_first']} (scaled)")
    ax.set_ylabel(f"{contour.metrics['map_second']} (scaled)")
    ax.set_title("\n".join(dict.fromkeys(_whose(each) for each in shown)), fontsize=10)
    ax.figure.colorbar(filled, ax=ax, label="probability of the positive class")


def _draw_image(ax: Axes, shown: DisplayedPoint, data: Dataset) -> None:
    from matplotlib.patches import Rectangle

    record = shown.record
    order = image_order(data.input_names)
    image = data.X[int(record.number("row"))][order]
    ax.imshow(image, cmap="gray", vmin=float(data.X.min()), vmax=float(data.X.max()))
    for place in record.arrays["free"]:
        row, column = np.argwhere(order == place)[0]
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="red", linewidth=1.6))
    ax.set_axis_off()
    ax.set_title(_heading(shown), fontsize=10)


def _heading(shown: DisplayedPoint) -> str:
    return f"{_whose(shown)}\n{describe(str(shown.record.axes['features']))}"


def _whose(shown: DisplayedPoint) -> str:
    record, point = shown.record, int(shown.record.axes["point"])
    whose = f"the authors' point {point + 1}" if shown.rule == BY_AUTHORS else f"our point, {point}"
    return f"{whose}, label {record.metrics['label']}"


def summarise(report: Report[LocalSafetySettings]) -> list[Statistic]:
    """Write curves, accuracies, points and timings. Draw the displayed points. Return the statistics."""
    request, records = report.request, report.records()
    settings = report.settings
    dataset, name = request.require_dataset(), request.experiment.split("/")[1]
    titles = report.titles
    points = curves(records)
    statistics = dataset_statistics(load(dataset))
    statistics += _file_statistics(request, dataset, records)
    if not points:
        return statistics
    caption = _caption(settings, dataset.name, _words(points))
    report.table(point_table(points, titles), f"{name}_points", caption)
    accuracy = accuracy_table(points, titles)
    report.table(accuracy, f"{name}_accuracy", caption)
    report.table(timing_table(points, titles), f"{name}_timing", SECONDS)
    draw_accuracy(report, accuracy, f"{name}_accuracy")
    method = next(iter(request.methods))
    shown = _shown(settings, points, method)
    if shown:
        curve = curve_table(shown, titles)
        rules = "; ".join(f"point {each.record.axes['point']}: {each.rule}" for each in shown)
        report.table(curve, name, f"{caption}; displayed: {rules}")
        contour = maps(records, method)
        draw_safety(report, shown, contour, load(dataset), curve, _credit(dataset, contour))
    first = judged_panels(shown, contour_run(records))
    own = [each.record.axes["features"] for each in first]
    panel = [point for point in points if point.axes["features"] in own]
    statistics += [*point_statistics(first, panel), *never_attacked(panel, records)]
    return statistics + gpfgs_statistics(first, records)


def judged_panels(shown: list[DisplayedPoint], one_point: bool) -> list[DisplayedPoint]:
    """Return the panels that the paper's statements are about: the first of one point's. Else those of named points.

    A point that a rule of ours chose by what it shows decides nothing next to one that the authors' script names.
    """
    return shown[:1] if one_point else [each for each in shown if each.rule == BY_AUTHORS] or shown


def contour_run(records: Sequence[Record]) -> bool:
    """Return whether the panels are the same point with other inputs free. The first is the paper's."""
    return any(record.axes.get("part") == "map" for record in records)


def _shown(settings: LocalSafetySettings, points: Sequence[Record], method: str) -> list[DisplayedPoint]:
    found = []
    for number, word in enumerate(_words(points)):
        own = curves(points, word, method)
        each = choose_shown(own, settings.shown_of(number), settings.label_of(number))
        if each is not None:
            found.append(each)
    return found


def _words(points: Sequence[Record]) -> list[str]:
    """Return the choices of inputs in the order of the settings, with the fallback that was used."""
    return list(dict.fromkeys(str(point.axes["features"]) for point in points))


def _file_statistics(
    request: Request[LocalSafetySettings], dataset: PreparedDataset, records: Sequence[Record]
) -> list[Statistic]:
    if dataset.name not in WHOLE_FILE:
        return []
    other, settings = WHOLE_FILE[dataset.name], request.settings
    inputs = int(whole_file(request, dataset).spec["n_inputs"])
    return [
        Statistic("dataset_file_inputs", float(inputs)),
        *accuracy_gain(records, dataset.name, other, settings.test_rows / settings.train_rows),
    ]


def _caption(settings: LocalSafetySettings, dataset: str, words: Sequence[str]) -> str:
    moving = "; ".join(f"{word}: {describe(word)}" for word in words)
    return (
        f"{dataset}: class probability over L-infinity balls of radius γ (scaled inputs), tolerance "
        f"{settings.tolerance:g}, bound {settings.bound}. Free inputs: {moving}"
    )


def _credit(dataset: PreparedDataset, contour: Record | None) -> str:
    """Return the credit line of an image."""
    if contour is not None or dataset.stand_in:
        return ""
    return "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)" if dataset.name.startswith("mnist38") else ""


EXPERIMENT = Experiment(
    safety_curve_tasks.LocalSafetySettings,
    safety_curve_tasks.plan,
    {
        safety_curve_tasks.CurveTask: safety_curve_tasks.run_curve,
        safety_curve_tasks.AttackTask: safety_curve_tasks.run_attack,
        safety_curve_tasks.MapTask: safety_curve_tasks.run_map,
        safety_curve_tasks.AccuracyTask: safety_curve_tasks.run_accuracy,
    },
    summarise,
    method_traits=(CLASSIFIER,),
    parts=("points",),
    published=only_arrays("[!xw]*"),  # not x, a row of the dataset, or the witnesses near it
    agreement=AGREEMENT,
)


for _name in ("safety_synthetic2d", "safety_spam", "safety_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(EXPERIMENT)
