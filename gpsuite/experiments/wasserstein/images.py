"""wasserstein/digits, mnist, fashion_mnist, fashion_mnist_table2: images learned, and uncertainty about unseen ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, Task, every_array, frame_of
from gpsuite.experiments.wasserstein import image_tasks
from gpsuite.experiments.wasserstein.image_tasks import COVERAGES, ENTROPY_BINS, SHOWN, ImageSettings, ImageTask
from gpsuite.experiments.wasserstein.methods import LABELS, classifier_method
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.comparison import Statistic as Row
from gpsuite.reporting.metrics import metric as find_metric
from gpsuite.reporting.palette import LIMIT, method_style, panel
from gpsuite.reporting.tables import mean_and_error, metric_statistics, summarise_groups
from gpsuite.statistics.estimates import Estimate, corrected_mean, mean
from gpsuite.statistics.significance import corrected_t_p, shown_by_t

if TYPE_CHECKING:
    import pandas as pd


SCORES = ("accuracy", "nll", "brier", "ece", "confidence_excess", "aurc")
UNCERTAINTY = ("total_uncertainty", "data_uncertainty", "knowledge_uncertainty")
DETECTION = ("auroc", "auroc_knowledge", "aupr", "fpr95")
COMPARED = ("accuracy", "nll", "ece")
OURS = "gwi"


def scored_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record of a classifier: its axes and metrics.

    A record has no place for infinity: an NLL that is missing next to its accuracy is that of a label that was given
    probability 0, and a mean over it is infinite.
    """
    frame = frame_of(records)
    for name in [name for name in frame.columns if name.startswith("nll")]:
        judged = frame[name.replace("nll", "accuracy", 1)].notna()
        frame[name] = frame[name].astype(float).mask(judged & frame[name].isna(), np.inf)
    return frame


def outside_names(frame: pd.DataFrame) -> list[str]:
    """Return the names of what was shown next to the test images."""
    return [name.split(" ", 1)[1] for name in frame.columns if name.startswith("auroc ")]


def shift_levels(frame: pd.DataFrame) -> list[float]:
    """Return the deviations of the noise added to test images, in increasing order."""
    return sorted(float(name.rsplit(" ", 1)[1]) for name in frame.columns if name.startswith("nll shift "))


def wide(tidy: pd.DataFrame, titles: dict[str, str], metrics: Iterable[str]) -> pd.DataFrame:
    """Return one row per method, `mean ± standard error` per metric."""
    import pandas as pd

    lines = []
    for name, title in titles.items():
        own = tidy[tidy["method"] == name].set_index("metric")
        cells = {
            metric: mean_and_error(float(own["mean"][metric]), float(own["standard_error"][metric]))
            for metric in metrics
            if metric in own.index
        }
        if cells:
            lines.append({"method": title, **cells})
    return pd.DataFrame(lines)


def detection_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per record and outside set, with the columns of `DETECTION`."""
    import pandas as pd

    lines = []
    for _, row in frame.iterrows():
        for name in outside_names(frame):
            found = {metric: row[f"{metric} {name}"] for metric in DETECTION}
            lines.append({"method": row["method"], "repetition": row["repetition"], "outside": name, **found})
    return pd.DataFrame(lines)


def shift_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per record and shift, with accuracy, NLL and ECE."""
    import pandas as pd

    lines = []
    for _, row in frame.iterrows():
        for level in shift_levels(frame):
            found = {name: row[f"{name} shift {level:g}"] for name in COMPARED}
            lines.append({"method": row["method"], "repetition": row["repetition"], "shift": level, **found})
    return pd.DataFrame(lines)


def differences(frame: pd.DataFrame, titles: dict[str, str], test_over_training: float) -> pd.DataFrame:
    """Return GWI minus each other method over shared repetitions, with 95 % t intervals.

    Args:
        frame: records of clean labels.
        titles: of the methods.
        test_over_training: test rows over training rows of a split, 0 where repetitions do not split the same rows.
    """
    import pandas as pd

    names = [*COMPARED, *(f"auroc {name}" for name in outside_names(frame))]
    lines = []
    for other in [name for name in titles if name != OURS]:
        for metric in names:
            pivot = frame.pivot(index="repetition", columns="method", values=metric)
            if not {OURS, other} <= set(pivot.columns):
                continue
            gains = (pivot[OURS] - pivot[other]).dropna().to_numpy(dtype=np.float64)
            found = corrected_mean(gains, test_over_training)
            lines.append(
                {
                    "baseline": titles[other],
                    "metric": metric,
                    "difference": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": found.n,
                }
            )
    return pd.DataFrame(lines, columns=["baseline", "metric", "difference", "low", "high", "n"])


FAMILY = "wasserstein"
LINES = ("-", "--", ":", "-.")
RARE = 1e-3  # error rates below are drawn on a linear axis
FEW = 20  # images of a bin, whose accuracy says little


def line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return each method's style, with a line of its own among the methods of one colour."""
    drawn: Counter[str] = Counter()
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        style = method_style(name)
        styles[name] = {**style, "linestyle": LINES[drawn[style["color"]] % len(LINES)]}
        drawn[style["color"]] += 1
    return styles


def draw_reliability(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw accuracy against confidence, and how many images that rests on, all repetitions of a method together."""
    import pandas as pd

    lines = []
    for name, title in report.titles.items():
        own = [record for record in records if record.axes["method"] == name]
        if not own:
            continue
        counts = np.array([record.arrays["bin counts"] for record in own])
        for b, count in enumerate(counts.sum(axis=0)):
            if count > 0:
                means = {
                    part: sum(c * record.arrays[f"bin {part}"][b] for c, record in zip(counts[:, b], own, strict=True))
                    / count
                    for part in ("confidence", "accuracy")
                }
                lines.append({"method": name, "title": title, "count": int(count), **means})
    frame, styles = pd.DataFrame(lines), line_styles(report.titles)
    with report.figure("reliability", rows=2, size=(6.0, 7.6), sharex=True, height_ratios=[3, 1]) as drawing:
        for name, title in report.titles.items():
            own_rows = frame[frame["method"] == name]
            enough = own_rows[own_rows["count"] >= FEW]
            for ax, shown, rows in zip(drawing.axes, ("accuracy", "count"), (enough, own_rows), strict=True):
                if len(rows):
                    ax.plot(rows["confidence"], rows[shown], label=title, **styles[name])
        drawing.ax.plot([0, 1], [0, 1], color=LIMIT, linestyle="--", label="calibrated")
        drawing.name_axes("confidence: mean largest probability in a bin", "images in the bin")
        drawing.ax.set_ylabel("accuracy in the bin")
        drawing.axes[1].set_yscale("log")
        drawing.legend("below", title=f"accuracy of bins of {FEW} images or more")
        drawing.data = frame


def draw_entropies(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the histograms of the entropy of test and outside images, one panel per method."""
    import pandas as pd

    names = [name for name in report.titles if any(r.axes["method"] == name for r in records)]
    columns = max(1, min(4, len(names)))
    rows, lines = -(-len(names) // columns), []
    size = (3.0 * columns, 2.4 * rows + 0.8)
    with report.figure("entropies", rows=rows, columns=columns, size=size, sharex=True) as drawing:
        for ax, name in zip(drawing.axes, names, strict=False):
            own = [record for record in records if record.axes["method"] == name]
            for part in [key for key in own[0].arrays if key.startswith("entropy ")]:
                counts = np.sum([record.arrays[part] for record in own], axis=0)
                shares = counts / counts.sum()
                edges = np.linspace(0.0, 1.0, ENTROPY_BINS + 1)
                ax.stairs(shares, edges, label=part.removeprefix("entropy "))
                lines += [
                    {"method": name, "images": part, "left": left, "share": share}
                    for left, share in zip(edges[:-1], shares, strict=True)
                ]
            ax.set_title(report.titles[name])
        drawing.name_axes("entropy / ln C", "share of images")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)


def draw_risk_coverage(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the error rate among the most certain images against their share."""
    import pandas as pd

    lines, styles = [], line_styles(report.titles)
    with report.figure("risk_coverage", size=(6.4, 5.0)) as drawing:
        for name, title in report.titles.items():
            own = [record.arrays["risk"] for record in records if record.axes["method"] == name]
            if own:
                risk = np.mean(own, axis=0)
                drawing.ax.plot(COVERAGES, risk, label=title, markevery=10, **styles[name])
                lines += [{"method": name, "coverage": c, "risk": r} for c, r in zip(COVERAGES, risk, strict=True)]
        # rates of a thousandth are distinguished. A method without an error has none to take the logarithm of
        drawing.ax.set_yscale("symlog", linthresh=RARE)
        drawing.ax.set_ylim(bottom=0.0)
        drawing.name_axes("share of images predicted, most certain first", "error rate among them")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)


def draw_curves(report: Report[ImageSettings], tidy: pd.DataFrame, x: str, label: str, name: str) -> None:
    """Draw accuracy, NLL and ECE against a shift or a share of noisy labels."""
    names, styles = list(dict.fromkeys(tidy["metric"])), line_styles(report.titles)
    levels = {level: f"{level:g}" for level in sorted(set(tidy[x]))}
    low, high = tidy["mean"] - tidy["standard_error"], tidy["mean"] + tidy["standard_error"]
    cut = tidy.assign(interval_low=low.clip(lower=0.0), interval_high=high)
    with report.figure(name, columns=len(names), size=(4.4 * len(names), 4.6)) as drawing:
        for ax, one in zip(drawing.axes, names, strict=True):
            panel(ax, cut[cut["metric"] == one], x, report.titles, error="interval", styles=styles)
            ax.set_xticks(list(levels), list(levels.values()))
            ax.set_ylabel(find_metric(one, FAMILY).axis)
            ax.set_xlabel(label)
        drawing.legend(
            "below", columns=4, title="mean ± standard error, cut at 0. No mean where a repetition's is infinite"
        )
        drawing.data = tidy


def draw_images(report: Report[ImageSettings], records: Sequence[Record]) -> None:
    """Draw the images on which the first method is most and least certain. Only where the data are embedded."""
    import pandas as pd

    shown = [record for record in records if "certain images" in record.arrays]
    if not shown:
        return
    images, entropies = shown[0].arrays["certain images"], shown[0].arrays["certain entropies"]
    side = int(np.sqrt(images.shape[1]))
    with report.figure("certain_images", rows=2, columns=SHOWN, size=(1.5 * SHOWN, 3.8)) as drawing:
        for ax, image, value in zip(drawing.axes, images, entropies, strict=True):
            ax.imshow(image.reshape(side, side), cmap="gray_r", vmin=0.0, vmax=1.0)
            ax.set_title(f"{value:.2f} nats", fontsize=9)
            ax.set_axis_off()
        title = report.titles[str(shown[0].axes["method"])]
        drawing.fig.suptitle(f"{title}: most certain (above) and least certain test images, entropy")
        drawing.data = pd.DataFrame({"image": range(len(entropies)), "entropy": entropies})


# What the notes on Wild et al. 2022 say in words, as statistics of the image experiments.


Estimator = Callable[[FloatArray], Estimate]

ROBUST_MAX, SOFTMAX = "gwi", "gwi_softmax"
CHANCE = 0.5  # the AUROC of a number that tells nothing
_ERRORS = {
    "max_expected_log_likelihood_error": "expected_log_likelihood_error",
    "max_class_probability_error": "class_probability_error",
    "max_probability_sum_error": "probability_sum_error",
    "max_class_probability_sum_error": "class_probability_sum_error",
}


def claims(clean: pd.DataFrame, every: pd.DataFrame, test_over_training: float) -> list[Statistic]:
    """Return the statistics of the claims that these records can decide.

    Args:
        clean: records of clean labels.
        every: those of noisy ones too.
        test_over_training: test rows over training rows of a split, 0 where repetitions do not split the same rows.
    """
    estimate = partial(corrected_mean, test_over_training=test_over_training)
    found = [*_formulas(clean), *_ensemble(clean, estimate), *_knowledge(clean, estimate), _all_measures(clean)]
    if every["label_noise"].max() > 0.0:
        found.append(_label_noise(every, test_over_training))
    return found


def _formulas(frame: pd.DataFrame) -> list[Statistic]:
    ours = frame[frame["method"] == ROBUST_MAX]
    if ours.empty or "prediction_is_argmax" not in ours:
        return []
    largest = [Row.of(name, Estimate(float(ours[column].max()), n=len(ours))) for name, column in _ERRORS.items()]
    share = float(ours["prediction_is_argmax"].min())
    return [*largest, Row.of("share_prediction_is_argmax", Estimate(share, n=len(ours)))]


def _ensemble(frame: pd.DataFrame, estimate: Estimator) -> list[Statistic]:
    """Return whether an ensemble is better than a separate network. Its NLL is always better than its members'."""
    own = frame.set_index("repetition")
    ensemble, single = (own[own["method"] == name] for name in ("ensemble", "map"))
    shared = ensemble.index.intersection(single.index)
    if shared.empty:
        return []
    gained = ensemble.loc[shared, "accuracy"] - single.loc[shared, "accuracy"]
    saved = single.loc[shared, "nll"] - ensemble.loc[shared, "nll"]
    better = [estimate(gain.to_numpy(dtype=np.float64)).shows_above(0.0) for gain in (gained, saved)]
    return [claim("share_ensemble_better_than_one", better)]


def _knowledge(frame: pd.DataFrame, estimate: Estimator) -> list[Statistic]:
    rows = detection_rows(frame)
    found = []
    ours = rows[rows["method"] == ROBUST_MAX]
    if not ours.empty:
        gap = float(np.abs(ours["auroc_knowledge"] - ours["auroc"]).max())
        found.append(Row.of("max_auroc_difference[method=gwi]", Estimate(gap, n=len(ours))))
    cells, notes = [], []
    for name in ("ensemble", "mc_dropout"):
        own = rows[rows["method"] == name]
        if own.empty:
            continue
        means = own.groupby("repetition")[["auroc_knowledge", "auroc"]].mean().to_numpy(dtype=np.float64)
        own_auroc, gain = estimate(means[:, 0]), estimate(means[:, 0] - means[:, 1])
        # one repetition has no interval: nothing is shown then
        cells.append(own_auroc.low > CHANCE and (gain.low >= 0.0 or gain.contains(0.0)))
        notes.append(
            f"{name}: {own_auroc.value:.3f}, against entropy {gain.value:+.4f} from {gain.low:.4f} to {gain.high:.4f}"
        )
    if not cells:
        return found
    return [*found, claim("share_mutual_information_useful", cells, note="; ".join(notes))]


def _all_measures(frame: pd.DataFrame) -> Statistic:
    """Return the share of methods with calibration, scores, detection and shifted-input curves."""
    names = [
        name
        for name in frame.columns
        if name in ("ece", "brier", "nll") or name.split(" ")[0] in (*DETECTION, *COMPARED)
    ]
    shifted = any("shift" in name for name in names)
    cells = [shifted and bool(rows[names].notna().all(axis=None)) for _, rows in frame.groupby("method")]
    return claim("share_methods_with_all_measures", cells)


def _label_noise(frame: pd.DataFrame, test_over_training: float) -> Statistic:
    """Return the share of noise levels at which robust max loses significantly less accuracy than softmax."""
    cells, notes = [], []
    pivot = frame.pivot_table(index="repetition", columns=["method", "label_noise"], values="accuracy")
    for level in sorted(set(frame["label_noise"]) - {0.0}):
        columns = [(name, at) for name in (ROBUST_MAX, SOFTMAX) for at in (0.0, level)]
        if not set(columns) <= set(pivot.columns):
            continue
        drops = {name: pivot[name, 0.0] - pivot[name, level] for name in (ROBUST_MAX, SOFTMAX)}
        saved = (drops[SOFTMAX] - drops[ROBUST_MAX]).dropna().to_numpy(dtype=np.float64)
        p = corrected_t_p(saved, test_over_training) if len(saved) > 1 else float("nan")
        cells.append(shown_by_t(saved, test_over_training))
        notes.append(f"{100 * level:g} %: {saved.mean():+.4f}, p = {p:.2g}")
    return claim("share_robust_max_loses_less", cells, note="; ".join(notes))


CHOICES = "learning rate, batch, epoch, temperature and precision chosen only on validation rows"


def summarise(report: Report[ImageSettings]) -> list[Statistic]:
    """Write scores, detection, shifts and label noise by method. Draw them. Return statistics and claims."""
    clean = report.records(label_noise=0.0)
    if not clean:
        return []
    every, frame = scored_frame(report.records()), scored_frame(clean)
    name = report.request.prepared[0].shown_name
    bins, ratio = report.settings.bins, split_ratio(report)
    tidy = summarise_groups(frame, ["method"], [*SCORES, *UNCERTAINTY], _estimate(ratio))
    repeated = "random splits, corrected for shared rows" if ratio else "repetitions, given the test rows"
    caption = (
        f"{name}: mean ± standard error over {frame.groupby('method').size().min()} {repeated}; "
        f"ECE with {bins} equal-width bins; {CHOICES}"
    )
    report.table(wide(tidy, report.titles, [*SCORES, *UNCERTAINTY]), "scores", caption)
    report.table(tidy, "scores_tidy", caption)
    report.table(
        differences(frame, report.titles, ratio),
        "differences",
        f"{name}: GWI minus each method over the same {repeated}, 95 % t intervals",
    )
    detection = summarise_groups(detection_rows(frame), ["method", "outside"], DETECTION, _estimate(ratio))
    report.table(
        detection,
        "out_of_distribution",
        f"{name}: other images told from test images by entropy (AUROC, AUPR, FPR95) and by mutual information",
    )
    draw_reliability(report, clean)
    draw_entropies(report, clean)
    draw_risk_coverage(report, clean)
    draw_images(report, clean)
    if report.settings.shifts:
        _shifts(report, frame, name)
    if every["label_noise"].max() > 0.0:
        _label_noise_shown(report, every, name)
    report.answer.extend(_named_labels(report.request.prepared[0]))
    return [
        *metric_statistics(tidy, ["method"]),
        *metric_statistics(detection, ["method", "outside"]),
        *claims(frame, every, ratio),
    ]


def split_ratio(report: Report[ImageSettings]) -> float:
    """Return test rows over training rows of a random split, 0 if the dataset has a fixed split."""
    data, settings = report.request.prepared[0], report.settings
    if data.spec.get("test_rows"):
        return 0.0
    test = round(settings.test_share * data.rows)
    train = data.rows - test
    return min(settings.test_rows, test) / min(settings.train_rows or train, train)


def _estimate(test_over_training: float) -> Callable[[Sequence[float]], Estimate]:
    return partial(corrected_mean, test_over_training=test_over_training) if test_over_training else mean


def _named_labels(data: PreparedDataset) -> list[str]:
    """Return a line on the numbers that represent the labels of a file of the user's own."""
    if data.spec.get("n_classes") is not None:
        return []
    names = load(data).label_names or ()
    if names == tuple(map(str, range(len(names)))):
        return []
    return ["labels are numbered: " + ", ".join(f"{number} = {name}" for number, name in enumerate(names))]


def _shifts(report: Report[ImageSettings], frame: pd.DataFrame, name: str) -> None:
    """Write and draw accuracy, NLL and ECE against the noise added to the test images."""
    shifts = summarise_groups(shift_rows(frame), ["method", "shift"], COMPARED, _estimate(split_ratio(report)))
    report.table(shifts, "shifts", f"{name}: test images with normal noise added")
    noise_label = "deviation of the added noise, largest grey level 1"
    draw_curves(report, shifts, "shift", noise_label, "shifts")


def _label_noise_shown(report: Report[ImageSettings], every: pd.DataFrame, name: str) -> None:
    """Write and draw accuracy, NLL and ECE against the share of wrong training labels."""
    chosen = every[every["method"].isin(report.settings.noise_methods)]
    noisy = summarise_groups(chosen, ["method", "label_noise"], COMPARED, _estimate(split_ratio(report)))
    report.table(noisy, "label_noise", f"{name}: training labels replaced by another class")
    draw_curves(report, noisy, "label_noise", "share of wrong training labels", "label_noise")


# Entropies that tie but for rounding are ranked otherwise by another processor's last bits: AUPR moved by 2e-4.
AGREEMENT = 1e-3


def _chaotic(task: Task[ImageTask]) -> bool:
    return classifier_method(task.params.method).chaotic


for name in ("digits", "mnist", "fashion_mnist", "fashion_mnist_table2"):
    EXPERIMENTS.register(f"wasserstein/{name}")(
        Experiment(
            image_tasks.ImageSettings,
            image_tasks.plan,
            image_tasks.run,
            summarise,
            method_traits=(LABELS,),
            dataset_tasks=("classification",),
            several_datasets=name != "digits",
            parts=("methods", "repetitions"),
            agreement=AGREEMENT,
            chaotic=_chaotic,
            model_keys=(),
            published=every_array,
        )
    )
