"""robustness/explain: what moves a classifier's decision at points of any dataset, a user's CSV included."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.base import (
    BUDGET,
    DONE,
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    only_arrays,
)
from gpsuite.experiments.robustness.classifiers import (
    class_count,
    classifier_params,
    present_classes,
    read_rows,
    task_classifier,
    trained_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.inputs import (
    PIXEL,
    image_order,
    levels_of,
    refuse_categories_alone,
    switched,
    version_with,
)
from gpsuite.experiments.robustness.judging import classes_of
from gpsuite.experiments.robustness.records import timing_table
from gpsuite.experiments.robustness.safety_tasks import check_domain, methods_of_several, own_domain
from gpsuite.experiments.robustness.safety_tasks import classes_of as chosen_classes
from gpsuite.experiments.robustness.tasks import (
    AGREEMENT,
    CLASSIFIER,
    AnyDataSettings,
    Axes,
    ClassifierParams,
    Metrics,
    increasing_pair,
    up_to_ten,
)
from gpsuite.experiments.settings import Count, Positive, Rule, at_least
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.explain.effects import DOWN, UP, OneSidedRanges, lime_weights, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import binary_lines
from gpsuite.methods.robustness.verdict import HALF
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import BLACK, BLUE, LIMIT, VERMILION
from gpsuite.rounding import rounded
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import mean
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as PlotAxes

    from gpsuite.reporting.figures import Drawing

# raised when the numbers of a task change. The classifier of two classes has its own in the model
VERSION, CLASSES_VERSION = 1, 3
SOFTMAX_LINE = 0.4  # seconds of an input for each of several classes, measured with 5 inputs and 3 classes
EXACT = 1e-10  # tolerance of the effects that are compared with the gradient
CLEAR = 10.0  # a difference from the gradient counts if it is so many times its own uncertainty
STATED = "not proved of {count} points: probabilities of so many classes, or such variances, have an estimated error"
NAMED, NAMED_CATEGORIES = 3, 3  # inputs and categories in the answer's sentences
ENDS = ("lowest proved", "lowest", "highest", "highest proved")
MOST_POINTS, MOST_INPUTS = 6, 10  # drawn
LEAST_DRAWN = 0.01  # of the largest mean effect
PREDICTED = "the predicted class"
IRRELEVANT = "0.6"  # grey of pixels that a map leaves out
END_STYLES = {"interval": (LIMIT, 1.0, "95 % t interval over points"), "proved": (BLACK, 2.5, "mean of proved ends")}
SIDES = {DOWN: ("lowered", BLUE), UP: ("raised", VERMILION)}
SCALED = {"none": "", "pixels": " (pixels from 0 to 1)"}

falling = Rule(
    lambda values: len(values) >= 2 and all(low < high for high, low in pairwise(values)), "two or more falling numbers"
)


@dataclass
class ExplainSettings(AnyDataSettings):
    """Settings of explanations on any dataset.

    Attributes:
        classes: two to ten labels, of two the negative class first. Empty: the dataset's classes.
        evaluations: largest number of evaluations of the marginal likelihood in training.
        radius: distance that each input moves, one at a time, up and down, in scaled inputs.
        domain: lowest and highest value of every input, in the dataset's units. Empty: each input's range in the data.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of a point, 0 gives the trivial range.
        check_points: points at which the effect is compared with the gradient.
        check_radii: falling radii of that check, in scaled inputs.
    """

    classes: Annotated[list[str], up_to_ten]
    evaluations: Count
    radius: Positive
    domain: Annotated[list[float], increasing_pair]
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    check_points: Annotated[int, at_least(0)]
    check_radii: Annotated[list[Positive], falling]

    def check(self) -> None:
        """Raise if there are fewer test rows than requested."""
        super().check()
        self.refuse_absent_points(self.test_rows)


@dataclass(frozen=True, kw_only=True)
class PointTask:
    """Effect of every single input at a test point, as in `ExplainSettings`.

    With several classes its kind is another.
    """

    model: ClassifierParams
    point: int
    radius: float
    domain: Sequence[float]
    tolerance: float
    boxes: int
    kind: str = "explain"


@dataclass(frozen=True)
class GradientTask:
    """Effects of falling radii against the gradient at a test point."""

    model: ClassifierParams
    point: int
    radii: Sequence[float]
    boxes: int
    kind: str = "explain_gradient"


def plan(request: Request[ExplainSettings]) -> list[Task[object]]:
    """Return one task per method and point, and of two classes the checks against the gradient at the first points.

    The data are read here, so that wrong labels, points and domains are refused before any work.

    Raises:
        UserError: if the data have not the classes or too few rows, or a point lies outside the domain.
    """
    settings, dataset = request.settings, request.require_dataset()
    chosen = replace(settings, classes=chosen_classes(dataset.name, settings))
    several = class_count(load(dataset), chosen.classes) > 2
    kind, version = ("explain_classes", CLASSES_VERSION) if several else ("explain", VERSION)
    version, check_version = (version_with(load(dataset), each) for each in (version, VERSION))
    tasks: list[Task[object]] = []
    methods = methods_of_several(request.methods) if several else request.methods
    for number, (method, options) in enumerate(methods.items()):
        model = classifier_params(request, chosen, options, 0, settings.evaluations)
        if number == 0:
            problem = read_rows(dataset, model)
            refuse_categories_alone(len(problem.numbers))
            check_domain(problem, dataset, settings.domain, settings.chosen_points)
        cost = 0.5 * (min(dataset.rows, settings.train_rows) / 300) ** 2
        cost += SOFTMAX_LINE * len(problem.input_names) * len(problem.label_names) if several else 0.0
        for rank, point in enumerate(settings.chosen_points):
            own = replace(take(PointTask, settings, model=model, point=point), kind=kind)
            title = f"{options.title}  point {point}"
            axes: Axes = {"method": method, "part": "point", "point": point}
            group = model.group(dataset)
            tasks.append(request.task(own, label=title, axes=axes, version=version, cost=cost, group=group))
            if rank < settings.check_points and not several:
                check = GradientTask(model, point, settings.check_radii, settings.boxes)
                title, axes = f"{options.title}  gradient at point {point}", {**axes, "part": "gradient"}
                tasks.append(request.task(check, label=title, axes=axes, version=check_version, cost=cost, group=group))
    return tasks


def category_table(records: Sequence[Record], titles: Mapping[str, str], data: Dataset) -> pd.DataFrame:
    """Return one row per method, point and level of a category: how far it moves the class probability."""
    import pandas as pd

    pairs = levels_of(data)
    parts = []
    for record in records:
        row = data.X[int(record.number("row"))]
        own = [_level(data, row, name) for name, _ in pairs]
        parts.append(
            pd.DataFrame(
                {
                    "method": titles[str(record.axes["method"])],
                    "point": record.axes["point"],
                    "category": [name for name, _ in pairs],
                    "from": own,
                    "to": [level for _, level in pairs],
                    "change": record.arrays["switches"],
                }
            )
        )
    table = pd.concat(parts, ignore_index=True)
    return table[table["from"] != table["to"]].reset_index(drop=True)


def _level(data: Dataset, row: FloatArray, name: str) -> str:
    """Return a row's level of a category: where no input says it, it is the level that has none."""
    places = {each: place for place, each in enumerate(data.input_names)}
    said = {level: places.get(f"{name}={level}") for level in data.categories[name]}
    for level, place in said.items():
        if place is not None and row[place] == 1.0:
            return level
    return next(level for level, place in said.items() if place is None)


def category_sentences(table: pd.DataFrame, shown: str) -> list[str]:
    """Return one sentence per method: how far the best change of level moves a probability, on average over points.

    Args:
        table: what `category_table` returned.
        shown: whose probability it is.
    """
    said = []
    for method, own in table.groupby("method", sort=False):
        largest = own["change"].abs().groupby([own["category"], own["point"]]).max()
        means = largest.groupby("category").mean().sort_values(ascending=False, kind="stable")
        named = ", ".join(f"{name} ({value:.3g})" for name, value in means.iloc[:NAMED_CATEGORIES].items())
        said.append(
            f"Categories change from level to level: the change that moves {method}'s probability of {shown} most "
            f"moves it, on average over the same points, by: {named}."
        )
    return said


@unconverged_is_diverged
def run_point(task: Task[PointTask], shared: SharedWork) -> Outcome:
    """Explain one point by the second of two classes, or by the predicted one of several.

    Arrays: moved, how far each of the K inputs that are numbers moves down and up in its own units [K, 2]; ranges, of
    the class probability on the way: lowest proved, lowest attained, highest attained, highest proved [K, 2, 4];
    delta, delta_low, delta_high. LIME's slopes per scaled unit, [K] each. With categories, switches: the change of the
    probability from the point's level to each, [S].
    """
    clock, params = shared.budget(task.budget_seconds), task.params
    classifier = trained_classifier(task.require_dataset(), params.model, shared, task.budget_seconds)
    problem, posterior, data = classifier.problem, classes_of(classifier), load(task.require_dataset())
    rows, inputs = data.X, problem.numbers
    x, row = problem.X_test[params.point], int(problem.test_rows[params.point])
    low, high = ((end - rows[row]) / problem.scale for end in own_domain(rows, params.domain))
    domain = np.minimum(x, x + low), np.maximum(x, x + high)
    at_point = posterior.probabilities(x[None])[0]
    own = int(np.argmax(at_point))
    followed = posterior.followed(own)

    def followed_probability(X: FloatArray) -> FloatArray:
        return np.asarray(posterior.probabilities(X)[:, followed])

    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    lines = posterior.lines(x[None], inputs, followed)
    found = one_sided_ranges(lines, x[None], inputs, params.radius, domain, params.tolerance, budget)
    lime = lime_weights(followed_probability, x, stream(params.model.draw_seed, "lime", row))
    probability = float(at_point[followed])
    delta = found.delta[0]
    strongest = int(np.argmax(np.abs(delta)))
    still_open = int(np.count_nonzero(~found.closed))
    metrics: Metrics = {
        "row": row,
        "label": classifier.labels[problem.test_classes[params.point]],
        "predicted": classifier.labels[own],
        "probability": probability,
        "strongest": problem.input_names[inputs[strongest]],
        "strongest_effect": float(delta[strongest]),
        "boxes": found.boxes,
        "open_intervals": still_open,
        **posterior.proof_metrics(lines),
    }
    moved = (found.ends[0] - x[inputs, None]) * problem.scale[inputs, None]
    arrays = {"moved": moved, **_range_arrays(found), "lime": lime[inputs]}
    if data.categories:
        arrays["switches"] = followed_probability(switched(problem, data, x)) - probability
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    headline = f"p {probability:.3f}, strongest {metrics['strongest']} {delta[strongest]:+.3f}"
    return Outcome(metrics, status, reason, arrays, headline)


def _range_arrays(found: OneSidedRanges) -> dict[str, FloatArray]:
    ends = (found.lowest_proved, found.lowest, found.highest, found.highest_proved)
    low, high = found.delta_range
    ranges = np.stack(ends, axis=-1)[0]
    return {"ranges": ranges, "delta": found.delta[0], "delta_low": low[0], "delta_high": high[0]}


@unconverged_is_diverged
def run_gradient(task: Task[GradientTask], shared: SharedWork) -> Outcome:
    """Return how fast |Delta / (2 gamma) - d pi / d x_i| falls with gamma: the smallest log-log slope over inputs.

    Inputs whose difference at some radius is not well above what is known of the effect are left out.
    """
    params = task.params
    classifier = task_classifier(task, shared)
    problem, posterior = classifier.problem, classifier.posterior
    x = problem.X_test[params.point]
    points, inputs = x[None], problem.numbers
    lines, gradient = (
        binary_lines(posterior, points, inputs),
        posterior.probability_with_gradient(points)[1][:, inputs],
    )
    everywhere, errors, seen = (-np.inf, np.inf), [], np.ones(len(inputs), dtype=bool)
    for radius in params.radii:
        budget = Budget(boxes=params.boxes, observer=shared.observer)
        found = one_sided_ranges(lines, points, inputs, radius, everywhere, EXACT, budget)
        low, high = found.delta_range
        errors.append(np.abs(found.delta / (2.0 * radius) - gradient)[0])
        seen &= errors[-1] > CLEAR * (high - low)[0] / (2.0 * radius)
    falls = np.array(errors)
    logs = np.log(falls[:, seen])
    centred = np.log(params.radii) - np.mean(np.log(params.radii))
    slopes = centred @ (logs - logs.mean(axis=0)) / (centred @ centred)
    smallest = float(slopes.min()) if len(slopes) else None
    metrics = {"smallest_slope": smallest, "inputs_seen": int(seen.sum())}
    return Outcome(metrics, arrays={"errors": falls}, headline=f"{len(slopes)} slopes, least {smallest}")


def unproved(records: Sequence[Record]) -> str:
    """Return for how many points the ends called proved rest on a cubature whose error is estimated. Empty for none."""
    count = sum(not record.metrics.get("probabilities_proved", True) for record in records)
    return STATED.format(count=count) if count else ""


def point_table(records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]) -> pd.DataFrame:
    """Return one row per method, point and input, the strongest effects of a point first."""
    import pandas as pd

    parts = []
    for record in records:
        arrays = record.arrays
        order = np.argsort(-np.abs(arrays["delta"]), kind="stable")
        sides = {
            f"{name}, {word}": arrays["ranges"][order, side, place]
            for side, word in ((DOWN, "down"), (UP, "up"))
            for place, name in enumerate(ENDS)
        }
        parts.append(
            pd.DataFrame(
                {
                    "method": titles[str(record.axes["method"])],
                    "point": record.axes["point"],
                    "row": record.metrics["row"],
                    "label": record.metrics["label"],
                    "predicted": record.metrics["predicted"],
                    "probability": record.metrics["probability"],
                    "input": [input_names[place] for place in order],
                    "down by": arrays["moved"][order, DOWN],
                    "up by": arrays["moved"][order, UP],
                    **sides,
                    "effect": arrays["delta"][order],
                    "effect, proved low": arrays["delta_low"][order],
                    "effect, proved high": arrays["delta_high"][order],
                    "LIME slope": arrays["lime"][order],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def mean_table(records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]) -> pd.DataFrame:
    """Return one row per method and input: means over the points, the strongest first."""
    import pandas as pd

    parts = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        effects = [mean([record.arrays["delta"][place] for record in own]) for place in range(len(input_names))]
        frame = pd.DataFrame(
            {
                "method": title,
                "input": list(input_names),
                "mean": [each.value for each in effects],
                "interval_low": [each.low for each in effects],
                "interval_high": [each.high for each in effects],
                "n": len(own),
                "proved_low": np.mean([record.arrays["delta_low"] for record in own], axis=0),
                "proved_high": np.mean([record.arrays["delta_high"] for record in own], axis=0),
                "LIME slope": np.mean([record.arrays["lime"] for record in own], axis=0),
            }
        )
        parts.append(frame.sort_values("mean", key=np.abs, ascending=False, kind="stable"))
    return pd.concat(parts, ignore_index=True)


def strongest_sentences(means: pd.DataFrame, shown: str) -> list[str]:
    """Return one sentence per method: which inputs move a probability most by their mean effect.

    Args:
        means: what `mean_table` returned.
        shown: whose probability it is.
    """
    said = []
    for method, own in means.groupby("method", sort=False):
        strongest = zip(own["input"][:NAMED], own["mean"][:NAMED], strict=True)
        named = ", ".join(f"{name} ({effect:+.3g})" for name, effect in strongest)
        points = counted(int(own["n"].iloc[0]), "test point")
        said.append(
            f"The inputs that move {method}'s probability of {shown} most, by the mean effect Δ over {points} "
            f"(positive: it rises with the input): {named}."
        )
    return said


def constant_inputs(data: Dataset, classes: Sequence[str]) -> list[str]:
    """Return the inputs that have one value in all rows of these classes: their lengthscale is where training began."""
    known, labels, _ = present_classes(data)
    rows = data.X[np.isin(labels, [known.index(name) for name in classes if name in known])]
    return [name for name, each in zip(data.input_names, rows.T, strict=True) if (each == each[:1]).all()]


def is_image(data: Dataset) -> bool:
    """Return whether the inputs are the pixels of an image, all of them."""
    if not all(PIXEL.fullmatch(name) for name in data.input_names):
        return False
    with contextlib.suppress(UserError):  # some have no input
        return bool(image_order(data.input_names).size)
    return False


def draw_bars(
    report: Report[Any],
    records: Sequence[Record],
    inputs: tuple[Sequence[str], Mapping[str, str]],
    second: str | None,
    table: pd.DataFrame,
) -> None:
    """Draw, for the first points, the proved and attained range of the class probability as one input at a time moves.

    Args:
        report: writes the figure.
        records: of one method.
        inputs: names of the inputs that move, and units by name.
        second: the second of two classes, whose probability is followed. None of several: the predicted one's.
        table: the figure's numbers.
    """
    shown = records[:MOST_POINTS]
    rows = -(-len(shown) // 2)
    most = min(MOST_INPUTS, len(inputs[0]))
    with report.figure(
        "explain_points", rows=rows, columns=min(2, len(shown)), size=(11.5, 1.0 + rows * (0.9 + 0.34 * most))
    ) as drawing:
        for ax, record in zip(drawing.axes, shown, strict=False):
            _draw_point(ax, record, *inputs)
            title = f"point {record.axes['point']}, label {record.metrics['label']}"
            if second is None:
                title += f", predicted {record.metrics['predicted']}"
            else:
                ax.axvline(HALF, color=LIMIT, lw=1, ls=":")
            ax.set_title(title, fontsize=10)
        drawing.name_axes(f"probability of {second or PREDICTED}", "")
        thin = "stated" if unproved(records) else "proved"
        drawing.legend("below", 4, f"thin: {thin}, wide: attained range as only one input moves")
        drawing.data = table


def _draw_point(ax: PlotAxes, record: Record, inputs: Sequence[str], units: Mapping[str, str]) -> None:
    arrays = record.arrays
    order = np.argsort(-np.abs(arrays["delta"]), kind="stable")[:MOST_INPUTS][::-1]
    for side, (word, colour) in SIDES.items():
        places = np.arange(len(order)) + (0.18 if side == UP else -0.18)
        low, lowest, highest, high = arrays["ranges"][order, side].T
        ax.hlines(places, low, high, color=colour, alpha=0.35, lw=2)
        ax.hlines(places, lowest, highest, color=colour, lw=6, label=f"input {word}")
    ax.axvline(record.number("probability"), color=BLACK, lw=1, label="at the point")
    names = [inputs[place] for place in order]
    moved = [
        f"−{abs(arrays['moved'][place, DOWN]):.3g} +{abs(arrays['moved'][place, UP]):.3g} {units.get(name, '')}"
        for place, name in zip(order, names, strict=True)
    ]
    names = [f"{name}  {by}".rstrip() for name, by in zip(names, moved, strict=True)]
    ax.set_yticks(range(len(order)), names, fontsize=8)
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.set_xlim(-0.02, 1.02)


def draw_maps(
    report: Report[Any], records: Sequence[Record], data: Dataset, constant: Collection[str], credit: str
) -> None:
    """Draw, for the first points, the image, the effects of its pixels and LIME's slopes. Constant pixels are grey."""
    shown = records[:MOST_POINTS]
    order = image_order(data.input_names)
    varies = ~np.isin(data.input_names, list(constant))
    images = [data.X[int(record.number("row"))][order] for record in shown]
    size = (1.6 + 1.9 * len(shown), 6.6)
    with report.figure("explain_points", remark=credit, rows=3, columns=len(shown), size=size) as drawing:
        draw_images(drawing, images, data)
        for row, name, title in ((1, "delta", f"effect Δ, γ = {report.settings.radius:g}"), (2, "lime", "LIME slope")):
            maps = [np.where(varies, record.arrays[name], np.nan)[order] for record in shown]
            heat_maps(drawing, row, maps, title)
        for ax, record in zip(drawing.grid[0], shown, strict=True):
            label, p = record.metrics["label"], record.number("probability")
            ax.set_title(f"point {record.axes['point']}\n{label}, p {p:.2f}", fontsize=10)
        drawing.data = _pixel_frame(shown, data.input_names)


def draw_images(drawing: Drawing, images: Sequence[FloatArray], data: Dataset) -> None:
    """Draw images [h, w] in the first row."""
    for ax, image in zip(drawing.grid[0], images, strict=True):
        ax.imshow(image, cmap="gray", vmin=float(data.X.min()), vmax=float(data.X.max()))
        ax.set_axis_off()


def heat_maps(drawing: Drawing, row: int, maps: Sequence[FloatArray], title: str) -> None:
    """Draw a row of maps [h, w] on one scale: red where a lighter pixel raises the probability. NaN is grey."""
    largest = max(float(np.abs(np.nan_to_num(each)).max()) for each in maps) or 1.0
    for ax, each in zip(drawing.grid[row], maps, strict=True):
        shown = ax.imshow(each, cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set_facecolor(IRRELEVANT)
        ax.grid(visible=False)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
    drawing.fig.colorbar(shown, ax=list(drawing.grid[row]), label=title)


def _pixel_frame(records: Sequence[Record], input_names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    parts: list[Mapping[str, Any]] = [
        {
            "method": record.axes["method"],
            "point": record.axes["point"],
            "input": list(input_names),
            "effect": record.arrays["delta"],
            "LIME slope": record.arrays["lime"],
        }
        for record in records
    ]
    return pd.concat([pd.DataFrame(part) for part in parts])


def draw_means(report: Report[Any], table: pd.DataFrame, constant: Collection[str], stated: str) -> None:
    """Draw the mean effect of the strongest inputs with its proved range and its interval over points.

    Args:
        report: writes the figure.
        table: `mean_table`.
        constant: inputs that are left out.
        stated: what is not proved of the range, empty if all is.
    """
    titles = list(dict.fromkeys(table["method"]))
    varying = table[~table["input"].isin(constant)]
    inputs = varying["input"].nunique()
    most = min(2 * MOST_INPUTS, inputs)
    what = "inputs that vary" if len(constant) else "inputs"
    with report.figure("explain", rows=len(titles), size=(7.5, len(titles) * (1.2 + 0.26 * most))) as drawing:
        drawing.data = table
        for ax, title in zip(drawing.axes, titles, strict=True):
            own = varying[varying["method"] == title].head(most)
            own = own[own["mean"].abs() >= LEAST_DRAWN * own["mean"].abs().max()].iloc[::-1]
            places = np.arange(len(own))
            ax.barh(places, own["mean"], color=BLUE, height=0.7, label="mean effect")
            for ends, (colour, width, label) in END_STYLES.items():
                ax.hlines(places, own[f"{ends}_low"], own[f"{ends}_high"], color=colour, lw=width, label=label)
            ax.axvline(0.0, color=LIMIT, lw=0.8)
            ax.set_yticks(places, own["input"], fontsize=8)
            ax.set_title(title if len(own) == inputs else f"{title}, the strongest {len(own)} of {inputs} {what}")
        drawing.name_axes("effect Δ on the class probability", "")
        drawing.legend("below", title=stated)


def summarise(report: Report[ExplainSettings]) -> list[Statistic]:
    """Write the effects of every input, at each point and on average. Draw both. Return the check of the gradient."""
    settings, dataset = report.settings, report.request.require_dataset()
    points, checks = report.records(part="point"), report.records(part="gradient")
    slopes = [record.number("smallest_slope") for record in checks if record.metrics["smallest_slope"] is not None]
    note = f"points with a difference above rounding. Radii {settings.check_radii}"
    value = min(slopes, default=float("nan"))
    statistics = [Statistic("min_gradient_error_slope", value, n=len(slopes), note=note)]
    if not points:
        return statistics
    data = load(dataset)
    named = chosen_classes(dataset.name, settings) or list(data.label_names or ("0", "1"))
    second = named[-1] if len(named) == 2 else None
    name = dataset.shown_name
    unit = SCALED.get(settings.scaling, " standard deviations")
    radius = rounded(settings.radius, 6, -1)
    caption = (
        f"{name}: probability of {second or PREDICTED} as one input at a time moves by up to {radius}{unit} "
        f"within its domain. Tolerance {settings.tolerance:g}"
    )
    stated = unproved(points)
    caption += f"; {stated}" if stated else ""
    own = f"{caption}. How far each input moves is in its units"
    names = [each for each in data.input_names if each not in data.level_inputs]
    table, means = point_table(points, report.titles, names), mean_table(points, report.titles, names)
    report.answer.extend(strongest_sentences(means, second or PREDICTED))
    if data.categories:
        _tell_categories(report, points, second or PREDICTED)
    report.table(table, "explain_points", own)
    effect = "effect Δ: change of highest plus change of lowest probability between raising and lowering"
    report.table(means, "explain", f"{caption}. Mean over the points of the {effect}")
    report.table(timing_table(points, ["method"], report.titles), "explain_timing", "CPU seconds per point")
    first = [record for record in points if record.axes["method"] == points[0].axes["method"]]
    constant = constant_inputs(data, named)
    if is_image(data):
        draw_maps(report, first, data, constant, f"images: {data.name}, {data.citation}" if data.citation else "")
    else:
        draw_bars(report, first, (names, data.units), second, table)
    draw_means(report, means, constant, stated)
    return statistics


def _tell_categories(report: Report[ExplainSettings], points: Sequence[Record], shown: str) -> None:
    dataset = report.request.require_dataset()
    changes = category_table(points, report.titles, load(dataset))
    report.answer.extend(category_sentences(changes, shown))
    told = f"{dataset.shown_name}: change of the probability of {shown} when a category takes another level"
    report.table(changes, "explain_categories", told)


EXPERIMENTS.register("robustness/explain")(
    Experiment(
        ExplainSettings,
        plan,
        {PointTask: run_point, GradientTask: run_gradient},
        summarise,
        method_traits=(CLASSIFIER,),
        dataset_tasks=("classification",),
        parts=("count", "check_points"),
        published=only_arrays("moved", "ranges", "delta", "delta_low", "delta_high", "lime"),
        agreement=AGREEMENT,
    )
)
