"""robustness/explain_synthetic2d, explain_spam: which way each input moves the class (Blaas et al. 2020, Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.matlab_streams import MatlabStream
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
    every_array,
    require,
)
from gpsuite.experiments.robustness.classifiers import (
    Problem,
    classifier_params,
    model_metrics,
    task_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.records import timing_table
from gpsuite.experiments.robustness.tasks import AGREEMENT, AUTHORS, CLASSIFIER, ClassifierParams, ClassifierSettings
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.explain.effects import (
    SAMPLES_PER_INPUT,
    lime_weights,
    one_sided_ranges,
    proximity,
    weighted_slopes,
)
from gpsuite.methods.robustness.explain.lines import binary_lines
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, GREY, LIMIT, ORANGE, PURPLE, SKY, VERMILION
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import corrected_mean
from gpsuite.statistics.significance import rank_correlation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


VERSION = 1  # raised when the numbers of a task change. The classifier has its own in the model
DRAWS = "means over the points. One value per training draw"
COLOURS = {"LIME": ORANGE, "class direction": GREY}
GAMMAS = (SKY, BLUE, VERMILION, GREEN, PURPLE, BLACK)


@dataclass
class GlobalEffectsSettings(ClassifierSettings):
    """Settings of Fig. 6 of Blaas et al. 2020.

    Attributes:
        evaluations: largest number of evaluations of the marginal likelihood in training.
        gammas: lengths of the one-sided intervals, in scaled inputs, increasing.
        points: test points that are averaged over.
        draws: random choices of training and test rows, 1 with protocol=authors, which has one.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of one length.
    """

    evaluations: Count
    gammas: Annotated[list[Positive], filled, unique, increasing]
    points: Count
    draws: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse more points than test rows."""
        super().check()
        require(self.points <= self.test_rows, "points", self.points, f"must be 1 to {self.test_rows}")
        several = self.draws > 1 and self.protocol == AUTHORS
        require(not several, "draws", self.draws, "protocol=authors has one draw")


@dataclass(frozen=True)
class GlobalEffectsTask:
    """Effects of all inputs at test points of one classifier, as in `GlobalEffectsSettings`."""

    model: ClassifierParams
    gammas: Sequence[float]
    points: int
    tolerance: float
    boxes: int
    kind: str = "global_effects"


def plan(request: Request[GlobalEffectsSettings]) -> list[Task[object]]:
    """Return one task per method and draw."""
    settings, dataset = request.settings, request.require_dataset()
    inputs = int(dataset.spec["n_inputs"])
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        for draw in range(settings.draws):
            model = classifier_params(request, settings, options, draw, settings.evaluations)
            params = take(GlobalEffectsTask, settings, model=model)
            rows = settings.train_rows / 1000
            training, search = settings.evaluations * rows**3, settings.points * inputs * rows**2
            tasks.append(
                request.task(
                    params,
                    label=f"{options.title}  draw {draw}",
                    axes={"method": method, "draw": draw},
                    version=VERSION,
                    cost=0.3 * training + 0.01 * len(settings.gammas) * search,
                    group=model.group(dataset),
                )
            )
    return tasks


@unconverged_is_diverged
def run(task: Task[GlobalEffectsTask], shared: SharedWork) -> Outcome:
    """Return effects by gamma, point and input with their proved ranges, LIME's slopes, and the class direction.

    Arrays: delta, delta_low, delta_high [G, P, D]; lime [P, D]; direction [D].
    """
    clock, params = shared.budget(task.budget_seconds), task.params
    classifier = task_classifier(task, shared)
    problem, posterior = classifier.problem, classifier.posterior
    points, inputs = problem.X_test[: params.points], np.arange(problem.X.shape[1])
    lines = binary_lines(posterior, points, inputs)
    found = []
    for gamma in params.gammas:
        budget = clock.rest(boxes=params.boxes, observer=shared.observer)
        found.append(one_sided_ranges(lines, points, inputs, gamma, problem.domain, params.tolerance, budget))
    ends = [each.delta_range for each in found]
    lime = _lime(posterior.probability, points, params.model, load(task.require_dataset()))
    arrays = {
        "delta": np.array([each.delta for each in found]),
        "delta_low": np.array([low for low, _ in ends]),
        "delta_high": np.array([high for _, high in ends]),
        "lime": np.array(lime),
        "direction": class_direction(problem),
    }
    still_open = sum(int(np.count_nonzero(~each.closed)) for each in found)
    metrics = {**model_metrics(classifier), "boxes": sum(each.boxes for each in found), "open_intervals": still_open}
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    largest = " ".join(f"{each:+.3f}" for each in arrays["delta"][-1].mean(axis=0)[:4])
    return Outcome(metrics, status, reason, arrays, f"mean effect at γ={params.gammas[-1]:g}: {largest}")


def _lime(
    probability: Callable[[FloatArray], FloatArray], points: FloatArray, model: ClassifierParams, data: Dataset
) -> list[FloatArray]:
    """Return LIME's slopes [D] at each point, with protocol=authors from the draws of the paper's code."""
    if model.protocol != AUTHORS:
        return [
            lime_weights(probability, x, stream(model.draw_seed, "lime", number)) for number, x in enumerate(points)
        ]
    slopes = []
    for x, noise in zip(points, authors_noise(data, len(points)), strict=True):
        samples = x + noise
        samples[0] = x
        slopes.append(weighted_slopes(samples, probability(samples), proximity(samples, x)))
    return slopes


def authors_noise(data: Dataset, points: int) -> list[FloatArray]:
    """Return the noise [S, D] of LIME's samples at each point: MATLAB's stream 1 after it drew a dataset's rows."""
    rows, inputs = data.X.shape
    draws = MatlabStream(1)
    if data.name.startswith("synthetic2d"):  # whose points it drew, too
        draws.randn(rows, inputs)
    draws.randperm(rows)
    return [draws.randn(SAMPLES_PER_INPUT * inputs, inputs) for _ in range(points)]


def class_direction(problem: Problem) -> FloatArray:
    """Return how the mean of the positive class' training rows differs from the negative one's, [D]."""
    positive = problem.y > 0
    return np.asarray(problem.X[positive].mean(axis=0) - problem.X[~positive].mean(axis=0))


def global_claims(records: Sequence[Record], gammas: Sequence[float], test_over_training: float) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on Fig. 6.

    Args:
        records: of one method, one per draw.
        gammas: lengths of the intervals.
        test_over_training: test rows over training rows of a draw.
    """
    lime = [record.arrays["lime"].mean(axis=0) for record in records]
    truth = [record.arrays["direction"] for record in records]
    wrong = [bool((np.sign(own) == -np.sign(true)).all()) for own, true in zip(lime, truth, strict=True)]
    found = [claim("share_lime_signs_wrong", wrong, "training draws. All inputs' signs are wrong")]
    found.append(_over_draws("cosine_lime_with_truth", cosine, lime, truth, test_over_training))
    agree: list[bool] = []
    decided: list[bool] = []
    lime_signs = decided_signs(lime, test_over_training)
    for number, gamma in enumerate(gammas):
        delta = [record.arrays["delta"][number].mean(axis=0) for record in records]
        for name, measure, other in (
            ("cosine_delta_with_lime", cosine, lime),
            ("cosine_delta_with_truth", cosine, truth),
            ("spearman_delta_with_lime", _spearman, lime),
        ):
            named = statistic_name(name, gamma=gamma)
            found.append(_over_draws(named, measure, delta, other, test_over_training))
        for own, theirs in zip(delta, lime, strict=True):
            agree.extend((np.sign(own) == np.sign(theirs)).tolist())
        signs = decided_signs(delta, test_over_training)
        decided.extend((signs == lime_signs)[(signs != 0) & (lime_signs != 0)].tolist())
    shown = f"{sum(decided)} of {len(decided)} signs that the draws show in both pictures"
    return [*found, claim("share_signs_as_lime", agree, f"input, gamma and training draw; {shown}")]


def decided_signs(effects: Sequence[FloatArray], test_over_training: float) -> IntArray:
    """Return each input's sign over the training draws: of the mean if its 95 % interval leaves 0 out, otherwise 0.

    Args:
        effects: of every input, [D], one per draw.
        test_over_training: as in `corrected_mean`.
    """
    means = [corrected_mean(column, test_over_training) for column in np.transpose(effects)]
    return np.array([int(each.low > 0.0) - int(each.high < 0.0) for each in means])


def cosine(first: FloatArray, second: FloatArray) -> float:
    """Return the cosine of the angle between two vectors. NaN if one is zero."""
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms > 0.0 else float("nan")


def _spearman(first: FloatArray, second: FloatArray) -> float:
    return rank_correlation(first.tolist(), second.tolist())


def _over_draws(
    name: str,
    measure: Callable[[FloatArray, FloatArray], float],
    first: Sequence[FloatArray],
    second: Sequence[FloatArray],
    test_over_training: float,
) -> Statistic:
    values = [measure(own, other) for own, other in zip(first, second, strict=True)]
    found = corrected_mean(values, test_over_training).within(-1.0, 1.0)
    return Statistic.of(name, found, note=DRAWS)


def summarise(report: Report[GlobalEffectsSettings]) -> list[Statistic]:
    """Write the mean effect of every input, draw it next to LIME's slopes. Return whether the two agree."""
    request, settings, records = report.request, report.settings, report.records()
    name = request.experiment.split("/")[1]
    data = load(request.require_dataset())
    ratio = settings.test_rows / settings.train_rows
    if not records:
        return global_claims([], settings.gammas, ratio)
    table = effect_table(records, report.titles, data.input_names, settings.gammas, ratio)
    caption = (
        f"{data.name}: effect of each input on the probability of the positive class, mean over {settings.points} test "
        f"points and {settings.draws} training draws. Proved: the mean of proved ends. Normed: largest size 1"
    )
    report.table(table, name, caption)
    report.table(timing_table(records, ["method"], report.titles), f"{name}_timing", "CPU seconds per draw")
    draw(report, table, name)
    first = records[0].axes["method"]
    own = [record for record in records if record.axes["method"] == first]
    return global_claims(own, settings.gammas, ratio)


def effect_table(
    records: Sequence[Record],
    titles: Mapping[str, str],
    input_names: Sequence[str],
    gammas: Sequence[float],
    test_over_training: float,
) -> pd.DataFrame:
    """Return one row per method, measure and input: the mean over draws with its interval, and normed to size 1."""
    import pandas as pd

    parts = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        measures = {"LIME": (np.array([record.arrays["lime"].mean(axis=0) for record in own]), None, None)}
        for number, gamma in enumerate(gammas):
            means = [
                np.array([record.arrays[part][number].mean(axis=0) for record in own])
                for part in ("delta", "delta_low", "delta_high")
            ]
            measures[f"Δ, γ = {gamma:g}"] = (means[0], means[1].mean(axis=0), means[2].mean(axis=0))
        measures["class direction"] = (np.array([record.arrays["direction"] for record in own]), None, None)
        for measure, (values, low, high) in measures.items():
            found = [corrected_mean(column, test_over_training) for column in values.T]
            mean = np.array([each.value for each in found])
            largest = np.max(np.abs(mean))
            rows = {
                "method": title,
                "measure": measure,
                "input": list(input_names),
                "mean": mean,
                "interval_low": [each.low for each in found],
                "interval_high": [each.high for each in found],
                "n": len(own),
                "proved_low": np.nan if low is None else low,
                "proved_high": np.nan if high is None else high,
                "normed": mean / largest if largest > 0.0 else mean,
            }
            parts.append(pd.DataFrame(rows))
    return pd.concat(parts, ignore_index=True)


def draw(report: Report[GlobalEffectsSettings], table: pd.DataFrame, name: str) -> None:
    """Draw the normed values: arrows in the plane for two inputs, bars for more."""
    titles = list(dict.fromkeys(table["method"]))
    inputs = list(dict.fromkeys(table["input"]))
    flat = len(inputs) == 2
    size = (6.0 * len(titles), 5.2) if flat else (8.0, 1.0 + 3.2 * len(titles))
    columns = len(titles) if flat else 1
    with report.figure(name, rows=len(titles) // columns, columns=columns, size=size) as drawing:
        drawing.data = table
        for ax, title in zip(drawing.axes, titles, strict=True):
            own = table[table["method"] == title]
            (_draw_arrows if flat else _draw_bars)(ax, own, inputs)
            ax.set_title(title)
        normed, several = "normed to largest size 1", bool(table["n"].max() > 1)
        drawing.name_axes(
            f"effect of {inputs[0]}, {normed}" if flat else "input",
            f"effect of {inputs[1]}, {normed}" if flat else normed + "\n(ticks: 95 % intervals)" * several,
        )
        drawing.legend("below", 3, "bars: 95 % t intervals over draws" if flat and several else "")


def measure_colours(own: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each measure of a table, in its order."""
    measures = list(dict.fromkeys(own["measure"]))
    others = iter([GAMMAS[number % len(GAMMAS)] for number in range(len(measures))])
    return {measure: COLOURS.get(measure) or next(others) for measure in measures}


def _draw_arrows(ax: Axes, own: pd.DataFrame, inputs: Sequence[str]) -> None:
    for measure, colour in measure_colours(own).items():
        rows = own[own["measure"] == measure].set_index("input").loc[list(inputs)]
        x, y = rows["normed"]
        ax.arrow(0, 0, x, y, color=colour, width=0.015, head_width=0.08, length_includes_head=True, label=measure)
        across, up = _normed_errors(rows).T[:, :, None]
        ax.errorbar([x], [y], xerr=across, yerr=up, color=colour, ls="", elinewidth=0.9, capsize=2)
    ax.axhline(0.0, color=LIMIT, lw=0.8)
    ax.axvline(0.0, color=LIMIT, lw=0.8)
    ax.set_aspect("equal", adjustable="datalim")


def _normed_errors(rows: pd.DataFrame) -> FloatArray:
    """Return how far the intervals reach below and above the normed means, [2, D]."""
    unit = np.abs(rows["mean"]).max() or 1.0
    return np.array([rows["mean"] - rows["interval_low"], rows["interval_high"] - rows["mean"]]) / unit


def _draw_bars(ax: Axes, own: pd.DataFrame, inputs: Sequence[str]) -> None:
    shown = {measure: colour for measure, colour in measure_colours(own).items() if measure != "class direction"}
    width = 0.8 / len(shown)
    for number, (measure, colour) in enumerate(shown.items()):
        rows = own[own["measure"] == measure].set_index("input").loc[list(inputs)]
        spread = _normed_errors(rows)
        places = np.arange(len(inputs)) + width * (number - 0.5 * (len(shown) - 1))
        ax.bar(places, rows["normed"], width, color=colour, label=measure, yerr=spread, error_kw={"lw": 0.9})
    ax.axhline(0.0, color=LIMIT, lw=0.8)
    ax.set_xticks(range(len(inputs)), list(inputs), rotation=45, ha="right", fontsize=8)


for _name in ("explain_synthetic2d", "explain_spam"):
    EXPERIMENTS.register(f"robustness/{_name}")(
        Experiment(
            GlobalEffectsSettings,
            plan,
            run,
            summarise,
            method_traits=(CLASSIFIER,),
            parts=("points", "draws"),
            agreement=AGREEMENT,
            published=every_array,
        )
    )
