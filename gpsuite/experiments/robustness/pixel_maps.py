"""robustness/explain_mnist358: what each pixel does to the class of an image (Blaas et al. 2020, Fig. 5).

Equation: Blaas et al. 2020, Prop. 4
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.ndimage import label
from scipy.special import roots_legendre

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
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
    require,
)
from gpsuite.experiments.robustness.classifiers import (
    Classifier,
    classifier_method,
    classifier_params,
    read_classes,
    trained_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.explain import draw_images, heat_maps
from gpsuite.experiments.robustness.inputs import image_order
from gpsuite.experiments.robustness.records import dataset_statistics
from gpsuite.experiments.robustness.tasks import CLASSIFIER, ClassifierParams, ClassifierSettings, Metrics
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.explain.effects import lime_mask_weights, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import softmax_lines
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import (
    CLASSES,
    LatentBoxes,
    PaperSoftmaxBound,
    mass_of_cells,
)
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLACK
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

VERSION, INTEGRALS = 5, 4  # raised when the numbers of a task change. The classifier has its own in the model
PIXELS = (0.0, 1.0)
RECTANGLES = 200  # for every image
BRIGHTEST, RADIUS = 3, 1e-3  # of the box of inputs: the image's brightest pixels
CORNERS = 4
ROUNDING = 1e-9  # of a mass
PRINTED, PRINTED_AMONG = 0.58, 10  # class probability of the paper's 3, looked for among so many first test images
CREDIT = "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)"
TOWARDS = {"3": "8", "5": "8", "8": "3"}  # what the paper's digits become
IMAGES = (
    "first images of each digit that are classified correctly. How many show what the shown one does, and "
    "which class gains most when the patch is white. Median and middle 95 % of drop and patch size"
)
COLUMNS = (
    *("test_image", "probability", "whitened_probability", "drop", "p_value", "gains_most", "patch_size", "patch_row"),
    *("patch_column", "top_left_size", "boxes"),
)
# LIME's slopes are 1e-4 of a probability a pixel: the sixth digit of the probabilities is their second
AGREEMENT = 0.02
_NODES, _WEIGHTS = roots_legendre(16)


@dataclass
class PixelMapSettings(ClassifierSettings):
    """Settings of Fig. 5 of Blaas et al. 2020.

    Attributes:
        evaluations: largest number of evaluations of the marginal likelihood in training.
        digits: labels, each shown by one test image.
        shown: numbers in the test part, from 1, of the images that are drawn. A digit without one shows its first.
        images: test images of each label, in their order, those first that are classified correctly. The tables count
            over these.
        gamma: length of the one-sided intervals, in pixel values from 0 to 1.
        core: pixels whose mean over the training images is above this count for patches. The others are white in
            hardly any image, so that raising one leaves the data.
        negative: share of the core's largest |effect| below which, with a minus sign, a pixel of the core belongs to a
            negative patch.
        random_patches: number of random patches of equal size that the whitened patch is compared with.
        lime_samples: masks of LIME, per pixel above 0.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of an image.
    """

    evaluations: Count
    digits: Annotated[list[str], filled, unique]
    shown: list[Count]
    images: Count
    gamma: Positive
    core: Share
    negative: Share
    random_patches: Count
    lime_samples: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse inputs that are no pixels."""
        super().check()
        require(self.scaling == "pixels", "scaling", self.scaling, "pixel maps need scaling=pixels")


@dataclass(frozen=True)
class PixelMapTask:
    """Effects of all pixels of one image.

    Attributes:
        model: the classifier.
        digit: label of the image.
        rank: of the image among the label's, in their order, those first that are classified correctly. Further fields
            as in `PixelMapSettings`.
    """

    model: ClassifierParams
    digit: str
    rank: int
    gamma: float
    core: float
    negative: float
    random_patches: int
    lime_samples: int
    tolerance: float
    boxes: int
    kind: str = "pixel_map"


@dataclass(frozen=True)
class IntegralTask:
    """Prop. 4 at one image of three classes."""

    model: ClassifierParams
    digit: str
    kind: str = "latent_integrals"


def plan(request: Request[PixelMapSettings]) -> list[Task[object]]:
    """Return the maps of each digit and, of three classes, Prop. 4 at the first one, with Laplace's softmax posterior.

    Raises:
        UserError: if a digit is none of the labels, or has fewer test images than wanted.
    """
    settings, dataset = request.settings, request.require_dataset()
    method, options = next(iter(request.methods.items()))
    model = classifier_params(request, settings, options, 0, settings.evaluations)
    several = classifier_method(options).most_classes(options) > 2
    require(several, "methods", method, "several classes need laplace")
    problem = read_classes(dataset, model)
    names = problem.label_names
    # a stand-in's labels are numbers
    digits = names[: len(settings.digits)] if dataset.stand_in else settings.digits
    tasks: list[Task[object]] = []
    for digit in digits:
        require(digit in names, "digits", digit, f"no such label\nvalid: {', '.join(names)}")
        held = int(np.count_nonzero(problem.y_test == names.index(digit)))
        require(settings.images <= held, "images", settings.images, f"{digit} has {held} test images")
        tasks.extend(_map(request, model, digit, rank) for rank in range(settings.images))
        if len(names) == CLASSES:
            tasks.append(_integrals(request, model, digit))
    return tasks


def _map(request: Request[PixelMapSettings], model: ClassifierParams, digit: str, rank: int) -> Task[PixelMapTask]:
    settings, dataset = request.settings, request.require_dataset()
    return request.task(
        take(PixelMapTask, settings, model=model, digit=digit, rank=rank),
        label=f"digit {digit}  image {rank}",
        axes={"digit": digit, "image": rank},
        version=VERSION,
        cost=8.0 * (settings.train_rows / 500) ** 2,
        group=model.group(dataset),
    )


def _integrals(request: Request[PixelMapSettings], model: ClassifierParams, digit: str) -> Task[IntegralTask]:
    return request.task(
        IntegralTask(model, digit),
        label=f"digit {digit}  Prop. 4",
        axes={"digit": digit, "part": "integrals"},
        version=INTEGRALS,
        cost=5.0,
        group=model.group(request.require_dataset()),
    )


def negative_pixels(effect: FloatArray, core: BoolArray, share: float) -> BoolArray:
    """Return the pixels [h, w] of the core whose effect is below minus this share of the core's largest."""
    return np.asarray(core & (effect < -share * np.abs(effect[core]).max(initial=0.0)))


def strongest_patch(effect: FloatArray, chosen: BoolArray) -> BoolArray:
    """Return the 4-connected part of the chosen pixels [h, w] whose effects have the largest sum in absolute value.

    The first of equals. Empty if no pixel is chosen.
    """
    numbers, count = label(chosen)
    if not count:
        return np.zeros_like(chosen)
    sums = np.bincount(numbers.ravel(), weights=effect.ravel())[1:]
    return np.asarray(numbers == 1 + int(np.argmax(np.abs(sums))))


def random_patch(core: BoolArray, size: int, rng: np.random.Generator) -> BoolArray:
    """Return a 4-connected patch of so many pixels of the core that grows from a random one by random neighbours.

    Some connected part of the core must have so many: a start in a smaller one is drawn again.
    """
    patch = np.zeros_like(core)
    if size:
        patch[tuple(rng.permutation(np.argwhere(core))[0])] = True
    while patch.sum() < size:
        rim = np.zeros_like(patch)
        rim[1:] |= patch[:-1]
        rim[:-1] |= patch[1:]
        rim[:, 1:] |= patch[:, :-1]
        rim[:, :-1] |= patch[:, 1:]
        places = np.argwhere(rim & core & ~patch)
        if not len(places):
            return random_patch(core, size, rng)
        patch[tuple(places[rng.integers(len(places))])] = True
    return patch


def middle(patch: BoolArray) -> FloatArray:
    """Return mean row and column of a patch, as shares of the image's from 0 to 1. NaN if it is empty."""
    places = np.argwhere(patch)
    if not len(places):
        return np.full(2, np.nan)
    return np.asarray(places.mean(axis=0) / (np.array(patch.shape) - 1.0))


@unconverged_is_diverged
def run(task: Task[PixelMapTask], shared: SharedWork) -> Outcome:
    """Explain one image.

    Arrays: delta, delta_low, delta_high, lime, by input [D]; core, and patch, the strongest negative one, [h, w].
    """
    clock, params = shared.budget(task.budget_seconds), task.params
    found = trained_classifier(task.require_dataset(), params.model, shared, task.budget_seconds)
    problem, posterior = found.problem, found.posterior
    point, own = explained_image(found, params.digit, params.rank)
    x = problem.X_test[point]
    inputs, started = np.arange(len(x)), time.process_time()
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    lines = softmax_lines(posterior, x[None], inputs, own)
    ranges = one_sided_ranges(lines, x[None], inputs, params.gamma, PIXELS, params.tolerance, budget)
    seconds = time.process_time() - started
    rng = stream(params.model.draw_seed, "pixel_map", params.digit)
    lime = lime_mask_weights(lambda X: posterior.probabilities(X)[:, own], x, rng, params.lime_samples)
    order = image_order(problem.input_names)
    delta, (low, high) = ranges.delta[0], ranges.delta_range
    core = problem.X.mean(axis=0)[order] > params.core
    negative = negative_pixels(delta[order], core, params.negative)
    patch = strongest_patch(delta[order], negative)
    negative[(order.shape[0] + 1) // 2 :] = False
    negative[:, (order.shape[1] + 1) // 2 :] = False
    still_open = int(np.count_nonzero(~ranges.closed))
    metrics = {
        "row": int(problem.test_rows[point]),
        "test_image": point + 1,
        "boxes": ranges.boxes,
        "map_cpu_seconds": seconds,
        "open_intervals": still_open,
        "top_left_size": int(strongest_patch(delta[order], negative).sum()),
        **patch_metrics(found, x, own, order, core, patch, params),
    }
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    arrays = {"delta": delta, "delta_low": low[0], "delta_high": high[0], "lime": lime, "core": core, "patch": patch}
    return Outcome(metrics, status, reason, arrays, f"map in {seconds:.1f} CPU s, {ranges.boxes} boxes")


def explained_image(found: Classifier, digit: str, rank: int = 0) -> tuple[int, int]:
    """Return the digit's test row of this rank in their order, and its class. Those classified wrongly come last."""
    problem = found.problem
    own = problem.label_names.index(digit)
    rows = np.flatnonzero(problem.y_test == own)
    wrong = found.posterior.probabilities(problem.X_test[rows]).argmax(axis=1) != own
    return int(rows[np.argsort(wrong, kind="stable")[rank]]), own


def patch_metrics(
    found: Classifier, x: FloatArray, own: int, order: IntArray, core: BoolArray, patch: BoolArray, params: PixelMapTask
) -> Metrics:
    """Return place and size of the negative patch, and what whitening it does, against random patches of its size."""
    names, size = found.problem.label_names, int(patch.sum())
    rng = stream(params.model.draw_seed, "patches", params.digit)
    others = [random_patch(core, size, rng) for _ in range(params.random_patches)]
    white = np.array([_whitened(x, order, each) for each in (np.zeros_like(patch), patch, *others)])
    p = found.posterior.probabilities(white)
    drops = p[0, own] - p[1:, own]
    row, column = middle(patch)
    gain = p[1] - p[0]
    return {
        "correct": bool(p[0].argmax() == own),
        "probability": float(p[0, own]),
        "whitened_probability": float(p[1, own]),
        "drop": float(drops[0]),
        "p_value": float((1 + np.count_nonzero(drops[1:] >= drops[0])) / (1 + len(others))),
        "gains_most": names[int(np.argmax(gain))],
        "patch_size": size,
        "patch_row": float(row) if size else None,
        "patch_column": float(column) if size else None,
    }


def _whitened(x: FloatArray, order: IntArray, patch: BoolArray) -> FloatArray:
    white = x.copy()
    white[order[patch]] = PIXELS[1]
    return white


# Prop. 4 at the first images: masses of latent rectangles against its bounds, corrected and as printed.
#
# The bounds hold for a small box of inputs around the image. The true masses are those at its centre and corners, by
# Gauss-Legendre quadrature.


@unconverged_is_diverged
def run_integrals(task: Task[IntegralTask], shared: SharedWork) -> Outcome:
    """Compare the masses of rectangles around one image's latent means with both formulas."""
    params = task.params
    found = trained_classifier(task.require_dataset(), params.model, shared, task.budget_seconds)
    point, _ = explained_image(found, params.digit)
    x, posterior = found.problem.X_test[point], found.posterior
    free = np.sort(np.argsort(-x)[:BRIGHTEST])
    rng = stream(params.model.draw_seed, "integrals", params.digit)
    low, high = x[free] - RADIUS, x[free] + RADIUS
    latent, _ = PaperSoftmaxBound(posterior, x, free).latent(low[None], high[None])
    points = np.repeat(x[None], 1 + CORNERS, axis=0)
    points[1:, free] = np.where(rng.random((CORNERS, len(free))) < 0.5, low, high)
    mean, covariance = posterior.latent(points)
    counts = {"violations": 0, "printed_violations": 0}
    widths = []
    for _ in range(RECTANGLES):
        deviation = np.sqrt(np.diag(covariance[0]))
        lower = mean[0] + deviation * rng.uniform(-2.0, 1.5, CLASSES)
        upper = lower + deviation * rng.uniform(0.1, 0.8, CLASSES)
        true = np.array([rectangle_mass(*each, lower, upper) for each in zip(mean, covariance, strict=True)])
        for name, sign in (("violations", 1.0), ("printed_violations", -1.0)):
            least, most = _bounds(latent, lower, upper, sign)
            counts[name] += bool((true < least - ROUNDING).any() or (true > most + ROUNDING).any())
            if sign > 0.0:
                widths.append((most - least) / max(float(true.max()), 1e-300))
    correlation = np.abs(covariance[0] / np.sqrt(np.outer(*[np.diag(covariance[0])] * 2)) - np.eye(CLASSES)).max()
    metrics = {"rectangles": RECTANGLES, **counts, "median_relative_width": float(np.median(widths))}
    headline = f"{counts['violations']} outside the corrected, {counts['printed_violations']} the printed bounds"
    return Outcome({**metrics, "largest_correlation": float(correlation)}, headline=headline)


def rectangle_mass(mean: FloatArray, covariance: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the mass of N(mean, covariance) in a rectangle of R^3, by the product rule."""
    half = 0.5 * (upper - lower)
    axes = [a + h * (_NODES + 1.0) - m for a, h, m in zip(lower, half, mean, strict=True)]
    z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, CLASSES)
    weights = np.einsum("i,j,k->ijk", *(h * _WEIGHTS for h in half)).ravel()
    root = np.linalg.cholesky(covariance)
    u = np.linalg.solve(root, z.T)
    density = np.exp(-0.5 * np.einsum("kq,kq->q", u, u)) / ((2.0 * np.pi) ** 1.5 * np.prod(np.diag(root)))
    return float(weights @ density)


def _bounds(latent: LatentBoxes, lower: FloatArray, upper: FloatArray, sign: float) -> tuple[float, float]:
    edges = [np.array([[low, high]]) for low, high in zip(lower, upper, strict=True)]
    least, most = mass_of_cells(latent, edges, sign)
    return float(least.item()), float(most.item())


def summarise(report: Report[PixelMapSettings]) -> list[Statistic]:
    """Write what whitening does, draw image and maps. Return the paper's statements on the three digits."""
    dataset, settings = report.request.require_dataset(), report.settings
    maps = [record for record in report.records() if "part" not in record.axes]
    integrals = report.records(part="integrals")
    statistics = dataset_statistics(dataset) + integral_statistics(integrals)
    records = shown_images(maps, settings)
    if not records:
        return statistics
    import pandas as pd

    rows = [{"digit": record.axes["digit"], **{name: record.metrics[name] for name in COLUMNS}} for record in records]
    caption = (
        f"{dataset.name}: connected pixels whose effects at γ = {settings.gamma:g} are below −{settings.negative:g} of "
        "the largest and have the largest sum. Also the class probability with this patch white. p value: against "
        f"{settings.random_patches} random connected patches of its size"
    )
    report.table(pd.DataFrame(rows), "explain_mnist358", caption)
    several = [each for each in by_digit(maps) if len(each) > 1]
    if several:
        report.table(pd.DataFrame([images_row(each) for each in several]), "explain_mnist358_images", IMAGES)
    seconds = [
        {
            "digit": record.axes["digit"],
            "image": record.axes["image"],
            "CPU seconds of the map": record.metrics["map_cpu_seconds"],
        }
        for record in maps
    ]
    report.table(pd.DataFrame(seconds), "explain_mnist358_timing", "one pixel map, both directions")
    draw(report, records, load(dataset), "" if dataset.stand_in else CREDIT)
    named = [record for record in records if record.metrics["test_image"] in settings.shown]
    statistics += [each for record in named for each in image_statistics(record)]
    statistics += probability_as_printed(maps)
    return statistics + [each for own in several for each in images_statistics(own)]


def shown_images(maps: Sequence[Record], settings: PixelMapSettings) -> list[Record]:
    """Return the record of each digit's shown image. Of the digit's first, where that image is not among them."""
    own = [[record for record in maps if record.axes["digit"] == digit] for digit in _digits(maps)]
    shown = [[record for record in each if record.metrics["test_image"] in settings.shown] for each in own]
    return [(found or each)[0] for found, each in zip(shown, own, strict=True)]


def _digits(maps: Sequence[Record]) -> list[object]:
    return list(dict.fromkeys(record.axes["digit"] for record in maps))


def probability_as_printed(maps: Sequence[Record]) -> list[Statistic]:
    """Return the class probability nearest to the printed one, of the 3s among the first test images."""
    first = [r for r in maps if r.axes["digit"] == "3" and r.number("test_image") <= PRINTED_AMONG]
    if not first:
        return []
    nearest = min(first, key=lambda record: abs(record.number("probability") - PRINTED))
    note = f"test image {nearest.number('test_image'):.0f}, one of {len(first)} 3s among the first {PRINTED_AMONG}"
    return [Statistic("class3_probability_before", nearest.number("probability"), note=note)]


def by_digit(maps: Sequence[Record]) -> list[list[Record]]:
    """Return the maps of the images that are classified correctly, digit by digit."""
    correct = [record for record in maps if record.metrics["correct"]]
    return [[record for record in correct if record.axes["digit"] == digit] for digit in _digits(maps)]


def images_row(records: Sequence[Record]) -> dict[str, float | int | str]:
    """Return how far the statements on one image hold for all images of its digit."""
    drops = np.quantile([record.number("drop") for record in records], (0.5, 0.025, 0.975))
    sizes = np.quantile([record.number("top_left_size") for record in records], (0.5, 0.025, 0.975))
    gains = Counter(str(record.metrics["gains_most"]) for record in records)
    return {
        "digit": str(records[0].axes["digit"]),
        "images": len(records),
        "patch left of the centre": sum(_left(record) for record in records),
        "in the top left quadrant": sum(_top_left(record) for record in records),
        "p value at most .05": sum(record.number("p_value") <= 0.05 for record in records),
        "gains most": ", ".join(f"{name}: {count}" for name, count in gains.most_common()),
        "drop, median": drops[0],
        "drop, from": drops[1],
        "drop, to": drops[2],
        "top left pixels, median": sizes[0],
        "top left pixels, from": sizes[1],
        "top left pixels, to": sizes[2],
    }


def images_statistics(records: Sequence[Record]) -> list[Statistic]:
    """Return in what share of a digit's images each statement on one image holds."""
    digit = str(records[0].axes["digit"])
    holds = {
        "share_patch_left_of_centre": [_left(record) for record in records],
        "share_patch_in_top_left": [_top_left(record) for record in records],
        "share_lowers_more_than_random": [record.number("p_value") <= 0.05 for record in records],
        "share_class_probability_falls": [record.number("drop") > 0.0 for record in records],
    }
    if towards := TOWARDS.get(digit):
        holds[f"share_gains_most_is_{towards}"] = [r.metrics["gains_most"] == towards for r in records]
    return [
        Statistic.of(statistic_name(name, digit=digit), share(found), note=f"{sum(found)} of {len(found)} images")
        for name, found in holds.items()
    ]


def integral_statistics(records: Sequence[Record]) -> list[Statistic]:
    """Return how many masses of rectangles lie outside Prop. 4, corrected, and whether any does as printed."""
    if not records:
        return []
    n = int(sum(record.number("rectangles") for record in records))
    outside, printed = (
        float(sum(record.number(name) for record in records)) for name in ("violations", "printed_violations")
    )
    width = np.median([record.number("median_relative_width") for record in records])
    correlation = max(record.number("largest_correlation") for record in records)
    note = f"latent correlations up to {correlation:.2g}. Bounds {width:.2g} times as wide as the mass in the median"
    return [
        Statistic("violations_corrected_formula", outside, n=n, note=note),
        Statistic("printed_formula_fails", float(printed > 0.0), n=n, note=f"{printed:.0f} masses outside"),
    ]


def image_statistics(record: Record) -> list[Statistic]:
    """Return the statements of conf/paper/blaas2020.yaml on one image."""
    digit = str(record.axes["digit"])

    def named(name: str) -> str:
        return statistic_name(name, digit=digit)

    drop = record.number("drop")
    found = [Statistic(named("patch_pixels"), record.number("top_left_size"), note="in the top left quadrant")]
    if towards := TOWARDS.get(digit):
        found.append(Statistic(named(f"gains_most_is_{towards}"), float(record.metrics["gains_most"] == towards)))
    if digit == "3":
        found.append(Statistic("class3_probability_drop", drop))
    return found


def _left(record: Record) -> bool:
    return record.metrics["patch_column"] is not None and record.number("patch_column") < 0.5


def _top_left(record: Record) -> bool:
    return _left(record) and record.number("patch_row") < 0.5


def draw(report: Report[PixelMapSettings], records: Sequence[Record], data: Dataset, credit: str) -> None:
    """Draw the images, the effects of their pixels with the negative patch framed, and LIME's weights."""
    order = image_order(data.input_names)
    images = [data.X[int(record.number("row"))][order] for record in records]
    effects = [np.where(record.arrays["core"], record.arrays["delta"][order], np.nan) for record in records]
    lit = [image > 0.0 for image in images]
    limes = [np.where(each, record.arrays["lime"][order], np.nan) for each, record in zip(lit, records, strict=True)]
    size = (1.6 + 2.4 * len(records), 7.8)
    with report.figure("explain_mnist358", remark=credit, rows=3, columns=len(records), size=size) as drawing:
        draw_images(drawing, images, data)
        heat_maps(drawing, 1, effects, f"effect Δ, γ = {report.settings.gamma:g}")
        heat_maps(drawing, 2, limes, "LIME weight of keeping a pixel")
        for column, record in enumerate(records):
            p, white = record.number("probability"), record.number("whitened_probability")
            drawing.grid[0, column].set_title(f"a {record.axes['digit']}, p {p:.2f}", fontsize=10)
            drawing.grid[1, column].set_title(f"patch white: p {white:.2f}", fontsize=10)
            frame(drawing.grid[1, column], record.arrays["patch"])
        drawing.data = _numbers(records, data.input_names, lit)


def frame(ax: Axes, patch: BoolArray) -> None:
    """Draw the sides where pixels of a patch [h, w] meet others or the image's edge."""
    inside = np.pad(patch.astype(int), 1)
    rows, columns = np.nonzero(np.diff(inside, axis=0)[:, 1:-1])
    ax.hlines(rows - 0.5, columns - 0.5, columns + 0.5, color=BLACK, lw=2)
    rows, columns = np.nonzero(np.diff(inside, axis=1)[1:-1])
    ax.vlines(columns - 0.5, rows - 0.5, rows + 0.5, color=BLACK, lw=2)


def _numbers(records: Sequence[Record], input_names: Sequence[str], lit: Sequence[BoolArray]) -> pd.DataFrame:
    import pandas as pd

    places = np.argsort(image_order(input_names).ravel())
    parts = [
        pd.DataFrame(
            {
                "digit": record.axes["digit"],
                "input": list(input_names),
                "effect": record.arrays["delta"],
                "proved_low": record.arrays["delta_low"],
                "proved_high": record.arrays["delta_high"],
                "in the core": record.arrays["core"].ravel()[places],
                "LIME weight": record.arrays["lime"],
                "LIME moves it": own.ravel()[places],
            }
        )
        for record, own in zip(records, lit, strict=True)
    ]
    return pd.concat(parts)


EXPERIMENTS.register("robustness/explain_mnist358")(
    Experiment(
        PixelMapSettings,
        plan,
        {PixelMapTask: run, IntegralTask: run_integrals},
        summarise,
        method_traits=(CLASSIFIER,),
        published=only_arrays("delta", "delta_low", "delta_high", "lime", "core", "patch"),
        agreement=AGREEMENT,
    )
)
