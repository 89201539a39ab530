"""robustness/posterior_quality: Laplace's and EP's distance to HMC, and whether it goes with robustness (Sec. 6.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    finite_or_none,
    require,
)
from gpsuite.experiments.robustness.classifiers import (
    Classifier,
    classifier_method,
    classifier_params,
    model_metrics,
    read_problem,
    task_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.probability_change import (
    EP,
    LAPLACE,
    STUDIES,
    DeltaSettings,
    DeltaTask,
    SearchSettings,
    Study,
    by_classifier,
    claims_over_draws,
    delta_tasks,
    log_ratios,
    run_delta,
)
from gpsuite.experiments.robustness.records import records_frame, timing_table
from gpsuite.experiments.robustness.tasks import (
    AGREEMENT,
    AT_HYPERPARAMETERS,
    CLASSIFIER,
    Axes,
    ClassifierParams,
    Metrics,
)
from gpsuite.experiments.settings import at_least, filled, unique, within
from gpsuite.experiments.tasks import take
from gpsuite.models.classification.approximation import (
    BinaryProblem,
    GPCPosterior,
    gaussian_kl,
    gaussian_wasserstein,
    wasserstein_to_draws,
)
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.training import INFERENCES
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import LIMIT, dataset_style, panel, paper_marks
from gpsuite.reporting.tables import estimate_text
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import corrected_mean
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import LEVEL, corrected_t_p, shown_by_t
from gpsuite.statistics.significance import rank_correlation as spearman

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as PlotAxes

    from gpsuite.models.classification.hmc import HMCLatents


DELTA, HMC = "delta", "hmc"
DISTANCES = ("wasserstein", "wasserstein_draws", "kl", "probability_error")
BLOCK = 2000  # draws whose class probabilities are averaged at once
SPAM, MNIST = "spam", "mnist38"
PAIRED = ("wasserstein", "probability_error")  # the metrics in which EP is compared with Laplace
NAMES = {"wasserstein": "hmc_distance", "kl": "hmc_kl", "probability_error": "hmc_probability_error"}
APART = 0.16  # between the methods of a dataset
ADVICE = "a method of this run whose trained hyperparameters HMC is run for"


@dataclass
class PosteriorQualitySettings(DeltaSettings):
    """Settings of the study over datasets; scaling, features, radii and tolerance are each dataset's (`Study`).

    Attributes:
        gammas: number of each dataset's radii that are run to compare delta between datasets.
        hmc_evaluations: evaluations in training of the classifiers that HMC is run for, one of `evaluations`.
        hmc_trained_by: methods at whose hyperparameters HMC is run. The distances are those of the first, and
            which method is closer is asked at all.
        chains: HMC chains.
        burn_in: draws thrown away per chain.
        samples: draws kept per chain.
    """

    gammas: Annotated[int, within(1, 3)]
    hmc_evaluations: int
    hmc_trained_by: Annotated[list[str], filled, unique]
    chains: Annotated[int, at_least(2)]
    burn_in: Annotated[int, at_least(10)]
    samples: Annotated[int, at_least(10)]

    def check(self) -> None:
        """Refuse HMC for classifiers that are not trained."""
        super().check()
        known, allowed = (self.hmc_evaluations in self.evaluations, f"must be one of evaluations={self.evaluations}")
        require(known, "hmc_evaluations", self.hmc_evaluations, allowed)

    def on(self, study: Study) -> SearchSettings:
        """Return how delta is searched on one dataset."""
        return take(SearchSettings, self, scaling=study.scaling, features=study.features, tolerance=study.tolerance)


@dataclass(frozen=True)
class HMCTask:
    """HMC at a trained classifier's hyperparameters, and the approximations' distances to it.

    Attributes:
        model: the classifier. Further fields as in `PosteriorQualitySettings`.
        inferences: name of a method -> its inference.
    """

    model: ClassifierParams
    inferences: Mapping[str, str]
    chains: int
    burn_in: int
    samples: int
    kind: str = "hmc_distance"


def plan(request: Request[PosteriorQualitySettings]) -> list[Task[object]]:
    """Return per dataset the deltas, the same tasks as in distribution_*, and one HMC task per draw and training."""
    settings = request.settings
    for name in settings.hmc_trained_by:
        require(name in request.methods, "hmc_trained_by", name, f"{ADVICE}: {', '.join(request.methods)}")
    tasks: list[Task[object]] = []
    for name, dataset in request.datasets.items():
        study = STUDIES[name]
        own = settings.on(study)
        options = next(iter(request.methods.values()))
        axes: Axes = {"part": DELTA, "dataset": study.title}
        # first: there may be too many
        tasks += delta_tasks(request, own, dataset, study.radii[: settings.gammas], axes)
        tasks += _hmc_tasks(request, dataset, study)
        for number in range(own.draws):
            read_problem(dataset, classifier_params(request, own, options, number, 1))
    return tasks


def _hmc_tasks(
    request: Request[PosteriorQualitySettings], dataset: PreparedDataset, study: Study
) -> Iterator[Task[HMCTask]]:
    settings, searched = request.settings, request.settings.on(study)
    inferences = {
        name: classifier_method(options).decides(options).inference for name, options in request.methods.items()
    }
    rows = min(settings.train_rows, dataset.rows) / 1000
    transitions = settings.burn_in + settings.samples
    evaluations = settings.hmc_evaluations
    for number in range(settings.draws):
        for name in settings.hmc_trained_by:
            options = request.methods[name]
            model = classifier_params(request, searched, options, number, evaluations)
            axes: Axes = {"part": HMC, "dataset": study.title, "method": name, "evaluations": evaluations}
            yield request.task(
                take(HMCTask, settings, model=model, inferences=inferences),
                label=f"{dataset.name}  HMC at {options.title}'s hyperparameters  draw {number}",
                axes={**axes, "draw": number},
                version=options.method.version,
                cost=8.0 + 0.002 * settings.chains * transitions * rows**2,
                group=model.group(dataset),
                dataset=dataset,
            )


@dataclass(frozen=True, eq=False)
class Gold:
    """HMC's posterior at the test points.

    Attributes:
        mean: of the latent value, [B].
        variance: [B].
        draws: of the latent value, [S, B].
        probability: of the positive class, [B].
    """

    mean: FloatArray
    variance: FloatArray
    draws: FloatArray
    probability: FloatArray


@unconverged_is_diverged
def run_hmc_distance(task: Task[HMCTask], shared: SharedWork) -> Outcome:
    """Sample the exact posterior at trained hyperparameters and measure the approximations' distances at test points.

    A chain that has not converged is a record too, with `hmc_converged` false: the summary keeps it out of the means.
    """
    params = task.params
    classifier = task_classifier(task, shared)
    problem, posteriors = classifier.problem, approximations(classifier, params)
    latents = _sample(classifier, posteriors, params)
    gold = gold_standard(latents, classifier.posterior.link, stream(params.model.draw_seed, "noise"))
    metrics: Metrics = {
        **model_metrics(classifier),
        "r_hat": finite_or_none(latents.r_hat),
        "ess": finite_or_none(latents.ess),
        "acceptance": finite_or_none(latents.acceptance),
        "hmc_converged": latents.converged,
    }
    arrays = {}
    for name, posterior in posteriors.items():
        for distance, values in distances(posterior, problem.X_test, gold).items():
            metrics[f"{distance}_{name}"] = finite_or_none(float(values.mean()))
            arrays[f"{distance}_{name}"] = values
    state = "" if latents.converged else f"HMC not converged: R-hat {latents.r_hat:.3f}, ESS {latents.ess:.0f}"
    shown = ", ".join(f"{name} {metrics[f'wasserstein_{name}']:.3g}" for name in posteriors)
    return Outcome(metrics, reason=state, arrays=arrays, headline=f"distance {shown}")


def approximations(classifier: Classifier, params: HMCTask) -> dict[str, GPCPosterior]:
    """Return every method's approximation at the trained hyperparameters.

    Raises:
        NotConvergedError: if one does not converge there.
    """
    problem, trained, own = classifier.problem, classifier.trained.hyperparameters, classifier.posterior
    same = BinaryProblem(problem.X, problem.y, params.model.spec, own.link)
    assert trained is not None  # the trait AT_HYPERPARAMETERS
    return {
        name: own
        if inference == classifier.trained.inference
        else INFERENCES.get(inference)(same, trained, None).require_converged()
        for name, inference in params.inferences.items()
    }


def _sample(classifier: Classifier, posteriors: Mapping[str, GPCPosterior], params: HMCTask) -> HMCLatents:
    """Run the chains in EP's coordinates where EP is among the approximations."""
    from gpsuite.models.classification.hmc import LatentHMCSettings, sample_latents

    by_ep = [posteriors[name] for name, inference in params.inferences.items() if inference == "ep"]
    coordinates = [*by_ep, *posteriors.values()][0]
    problem, settings = (
        classifier.problem,
        LatentHMCSettings(chains=params.chains, burn_in=params.burn_in, draws=params.samples),
    )
    generator = stream(params.model.draw_seed, "hmc", classifier.trained.inference)
    return sample_latents(coordinates, problem.y, problem.X_test, generator, settings)


def gold_standard(latents: HMCLatents, link: Link, generator: np.random.Generator) -> Gold:
    """Return moments, draws and class probabilities, the latter averaged over draws and exact within each."""
    conditional, total = latents.conditional_variance, np.zeros_like(latents.mean)
    for start in range(0, len(latents.means), BLOCK):
        means = latents.means[start : start + BLOCK]
        variances = np.broadcast_to(conditional, means.shape)
        total += link.probability(means.ravel(), variances.ravel()).reshape(means.shape).sum(axis=0)
    return Gold(latents.mean, latents.variance, latents.draws(generator), total / len(latents.means))


def distances(posterior: GPCPosterior, X_test: FloatArray, gold: Gold) -> dict[str, FloatArray]:
    """Return for every test point [B] the distances named in `DISTANCES`.

    2-Wasserstein distance of the latent marginals taken as normal, the same from the draws, KL(HMC | approximation) of
    the normal marginals in nats, and the absolute difference of the class probabilities.
    """
    mean, variance = posterior.latent(X_test)
    probability = posterior.link.probability(mean, variance)
    return {
        "wasserstein": gaussian_wasserstein(mean, variance, gold.mean, gold.variance),
        "wasserstein_draws": wasserstein_to_draws(mean, variance, gold.draws),
        "kl": gaussian_kl(gold.mean, gold.variance, mean, variance),
        "probability_error": np.abs(probability - gold.probability),
    }


def converged(records: Sequence[Record], trained_by: str) -> list[Quality]:
    """Return the distances of the records whose chains converged, at one method's hyperparameters."""
    return [
        Quality(str(record.axes["dataset"]), int(record.axes["draw"]), dict(record.arrays))
        for record in records
        if record.axes["method"] == trained_by and record.metrics.get("hmc_converged")
    ]


@dataclass(frozen=True, eq=False)
class Quality:
    """Distances to HMC at the test points of one dataset and draw, where the chains converged.

    Attributes:
        dataset: the study's title.
        draw: number of the draw of rows.
        at_points: `distance_method` -> values at the test points, [B].
    """

    dataset: str
    draw: int
    at_points: Mapping[str, FloatArray]


def quality_claims(
    by_training: Sequence[Sequence[Quality]], deltas: Mapping[str, pd.DataFrame], at: int, test_over_training: float
) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml over datasets.

    Args:
        by_training: distances to HMC, of converged chains, by the method that learned the hyperparameters.
        deltas: dataset's title -> records of delta. Per dataset the radii in their order of importance.
        at: evaluations in training of the classifiers that HMC was run for.
        test_over_training: test rows over training rows of a draw.
    """
    found = by_training[0]
    main = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in deltas.items()}
    return [
        *distance_statistics(found, test_over_training),
        *(each for title, frame in deltas.items() for each in _claims_of(title, frame, test_over_training)),
        ep_closer(by_training, list(deltas), test_over_training),
        smallest_difference(main, SPAM, test_over_training),
        smallest_delta(deltas, MNIST),
        same_order(found, main, at),
        rank_correlation(found, main, at),
    ]


def _claims_of(title: str, frame: pd.DataFrame, test_over_training: float) -> Iterator[Statistic]:
    """Yield one dataset's claims over draws, under its name."""
    tables = [by_classifier(part) for _, part in frame.groupby("rank")]
    for each in claims_over_draws(tables, test_over_training):
        yield replace(each, name=statistic_name(each.name, dataset=title))


def distance_statistics(found: Sequence[Quality], test_over_training: float) -> list[Statistic]:
    """Return the mean distances per dataset and method, each draw's mean over its test points being one value."""
    statistics = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        for distance, name in NAMES.items():
            for method in (LAPLACE, EP):
                values = _draw_means(found, dataset, f"{distance}_{method}")
                if len(values):
                    named = statistic_name(name, dataset=dataset, method=method)
                    found_mean = corrected_mean(values, test_over_training).within(0.0, math.inf)
                    note = "means over the test points of a draw"
                    statistics.append(Statistic.of(named, found_mean, note=note))
    return statistics


def ep_closer(
    by_training: Sequence[Sequence[Quality]], datasets: Sequence[str], test_over_training: float
) -> Statistic:
    """Return the share of trainings, datasets and metrics in which EP is surely closer to HMC, draw by draw.

    One draw proves nothing: its test points share the classifiers and the chains. NaN if a dataset has no two.
    """
    cells, name = [], "share_ep_closer_to_hmc"
    for found, dataset, distance in product(by_training, datasets, PAIRED):
        laplace, ep = (_draw_means(found, dataset, f"{distance}_{method}") for method in (LAPLACE, EP))
        if len(ep) < 2 or len(laplace) != len(ep):
            return Statistic(name, float("nan"), note=f"{dataset} has fewer than two draws whose chains converged")
        cells.append(shown_by_t(laplace - ep, test_over_training, LEVEL / 2.0))
    return claim(name, cells)


def _draw_means(found: Sequence[Quality], dataset: str, name: str) -> FloatArray:
    own = [each.at_points[name] for each in found if each.dataset == dataset and name in each.at_points]
    return np.array([values.mean() for values in own])


def smallest_difference(deltas: Mapping[str, Paired], dataset: str, test_over_training: float) -> Statistic:
    """Return with which confidence Laplace's and EP's median deltas differ least on a dataset, by their ratio.

    At the largest number of evaluations: 1 less the largest p-value of the one-sided tests of the ratio's mean absolute
    logarithm over training draws against each other dataset's. NaN unless each has two draws.
    """
    name = statistic_name("smallest_difference_confidence", dataset=dataset)
    if dataset not in deltas or len(deltas) < 2:
        return Statistic(name, float("nan"), n=0)
    logs = {title: np.abs(log_ratios(each, each.levels("evaluations")[-1])) for title, each in deltas.items()}
    draws = min(len(values) for values in logs.values())
    if draws < 2:
        return Statistic(name, float("nan"), n=draws, note="two training draws or more are needed")
    # draws are numbered alike, so that the first ones of two datasets can be subtracted
    own = logs.pop(dataset)[:draws]
    p_values = [corrected_t_p(values[:draws] - own, test_over_training) for values in logs.values()]
    return Statistic(name, 1.0 - max(p_values), n=draws, note="training draws")


def smallest_delta(deltas: Mapping[str, pd.DataFrame], dataset: str, ranks: int = 2) -> Statistic:
    """Return the share of methods, evaluations and radii in which a dataset's median delta is below all others'."""
    cells = []
    if dataset in deltas and len(deltas) > 1:
        for rank in range(ranks):
            tables = {title: by_classifier(frame[frame["rank"] == rank]) for title, frame in deltas.items()}
            for method in (LAPLACE, EP):
                for evaluations in tables[dataset].levels("evaluations"):
                    medians = {title: _median(each("delta", method, evaluations)) for title, each in tables.items()}
                    if np.isfinite(list(medians.values())).all():
                        own = medians.pop(dataset)
                        cells.append(own < min(medians.values()))
    return claim("share_delta_smallest_on_mnist38", cells)


def same_order(found: Sequence[Quality], deltas: Mapping[str, Paired], at: int) -> Statistic:
    """Return 1 if (Laplace / EP distance to HMC) and (Laplace / EP delta) order the datasets the same way."""
    name = "same_order_of_quality_and_robustness"
    pairs = []
    for title, each in deltas.items():
        laplace, ep = (_draw_means(found, title, f"wasserstein_{method}") for method in (LAPLACE, EP))
        if len(laplace) and len(ep):
            pairs.append((float(laplace.mean() / ep.mean()), _ratio(each("delta", LAPLACE, at), each("delta", EP, at))))
    if len(pairs) < 2 or not np.isfinite(pairs).all():
        return Statistic(name, float("nan"), n=0)
    quality, robustness = np.array(pairs).T
    same = bool((np.argsort(quality) == np.argsort(robustness)).all())
    return Statistic(name, float(same), n=1, note=f"{len(pairs)} datasets")


def quality_pairs(found: Sequence[Quality], deltas: Mapping[str, Paired], at: int) -> list[tuple[str, float, float]]:
    """Return, per dataset and draw, its title and the ratios Laplace / EP of distance to HMC and of median delta."""
    pairs = []
    for each in found:
        table = deltas.get(each.dataset)
        both = [each.at_points.get(f"wasserstein_{name}") for name in (LAPLACE, EP)]
        if table is None or each.draw not in table.levels("draw") or both[0] is None or both[1] is None:
            continue
        row, distance = table.levels("draw").index(each.draw), float(both[0].mean() / both[1].mean())
        deltas_of = (table("delta", method, at)[row] for method in (LAPLACE, EP))
        pairs.append((each.dataset, distance, _ratio(*deltas_of)))
    return [pair for pair in pairs if np.isfinite(pair[1:]).all()]


def rank_correlation(found: Sequence[Quality], deltas: Mapping[str, Paired], at: int) -> Statistic:
    """Return Spearman's correlation of the two ratios over datasets and draws. NaN with fewer than three pairs."""
    pairs = quality_pairs(found, deltas, at)
    name = "quality_robustness_spearman"
    quality, robustness = [pair[1] for pair in pairs], [pair[2] for pair in pairs]
    correlation = spearman(quality, robustness)
    return Statistic(name, correlation, n=len(pairs), note="" if np.isnan(correlation) else "dataset and draw")


def _median(values: FloatArray) -> float:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")


def _ratio(laplace: FloatArray, ep: FloatArray) -> float:
    below = _median(ep)
    return _median(laplace) / below if below > 0.0 else float("nan")


def distance_table(records: Sequence[Record], titles: dict[str, str], test_over_training: float) -> pd.DataFrame:
    """Return one row per dataset, training method and approximation: mean distances over converged draws.

    Args:
        records: of the chains.
        titles: of the methods.
        test_over_training: test rows over training rows of a draw.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(str(record.axes["dataset"]) for record in records):
        for trained_by in dict.fromkeys(str(record.axes["method"]) for record in records):
            own = [r for r in records if (r.axes["dataset"], r.axes["method"]) == (dataset, trained_by)]
            kept = [record for record in own if record.metrics.get("hmc_converged")]
            for method, title in titles.items():
                row: dict[str, Any] = {"dataset": dataset, "hyperparameters by": titles[trained_by], "method": title}
                for distance in DISTANCES:
                    heading = metric(distance, "robustness").heading
                    of_draws = [float(r.arrays[f"{distance}_{method}"].mean()) for r in kept]
                    row[heading] = estimate_text(corrected_mean(of_draws, test_over_training))
                rows.append({**row, "draws": f"{len(kept)} of {len(own)}"})
    return pd.DataFrame(rows)


def chain_table(records: Sequence[Record], titles: dict[str, str]) -> pd.DataFrame:
    """Return how the chains of every task went, and the hyperparameters they were run at."""
    import pandas as pd

    numbers = ("variance", "shortest_lengthscale", "r_hat", "ess", "acceptance")
    rows = [
        {
            "dataset": record.axes["dataset"],
            "hyperparameters by": titles[str(record.axes["method"])],
            "draw": record.axes["draw"],
            **{name: record.number(name) for name in numbers},
            "converged": "yes" if record.metrics.get("hmc_converged") else "no",
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def draw(
    report: Report[PosteriorQualitySettings],
    statistics: Sequence[Statistic],
    found: Sequence[Quality],
    deltas: Mapping[str, pd.DataFrame],
) -> None:
    """Draw the mean distance per dataset and method, and per draw the ratio of distances against that of delta.

    Args:
        report: gives titles and settings.
        statistics: holding the mean distances.
        found: distances of converged chains.
        deltas: dataset's title -> records of delta.
    """
    import pandas as pd

    settings, titles = report.settings, report.titles
    means = [row for title in deltas for row in _means(statistics, title, titles)]
    main = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in deltas.items()}
    ratios = [
        {"panel": "ratios", "dataset": title, "distance_ratio": quality, "delta_ratio": robustness}
        for title, quality, robustness in quality_pairs(found, main, settings.hmc_evaluations)
    ]
    by = titles.get(settings.hmc_trained_by[0], settings.hmc_trained_by[0])
    lows = pd.DataFrame(means, columns=["low"]).astype(float)
    cut = "an interval that reaches 0 ends on the axis" if (lows <= 0.0).to_numpy().any() else ""
    with report.figure("posterior_quality", remark=cut, columns=2, size=(10.5, 4.6)) as drawing:
        left, right = drawing.axes
        if means:
            _draw_quality_means(left, pd.DataFrame(means), titles, list(deltas))
            marks = _printed(report.printed, titles, list(deltas))
            paper_marks(left, [(method, place, value) for method, _, place, value in marks])
            left.legend(title="mean, 95 % t interval")
            means += [
                {"panel": "distance", "dataset": dataset, "method": method, "printed": value}
                for method, dataset, _, value in marks
            ]
        studies = [STUDIES[name] for name in report.request.datasets]
        radii = {study.title: study.radii[0] for study in studies if study.title in deltas}
        _draw_ratios(right, ratios, radii)
        drawing.fig.suptitle(f"Hyperparameters of {by} after {settings.hmc_evaluations} evaluations")
        drawing.data = pd.DataFrame([*means, *ratios])


def _means(statistics: Sequence[Statistic], dataset: str, titles: Mapping[str, str]) -> list[dict[str, object]]:
    known = {each.name: each for each in statistics}
    rows: list[dict[str, object]] = []
    for method in titles:
        mean = known.get(statistic_name("hmc_distance", dataset=dataset, method=method))
        if mean is not None:
            interval = {"low": mean.interval_low, "high": mean.interval_high}
            rows.append({"panel": "distance", "dataset": dataset, "method": method, "mean": mean.value, **interval})
    return rows


def _draw_quality_means(ax: PlotAxes, rows: pd.DataFrame, titles: Mapping[str, str], datasets: Sequence[str]) -> None:
    tidy = rows.rename(columns={"low": "interval_low", "high": "interval_high"})
    lows = tidy["interval_low"].astype(float)
    floor = 0.5 * float(np.nanmin([tidy["mean"].min(), lows.where(lows > 0.0).min()]))
    tidy["interval_low"] = lows.clip(lower=floor)
    ticks = {dataset: dataset for dataset in datasets}
    panel(ax, tidy, "dataset", titles, kind="points", error="interval", ticks=ticks, apart=APART)
    ax.set_yscale("log")
    ax.set_ylim(bottom=floor)
    ax.set_ylabel(metric("hmc_distance").axis)


def _printed(
    printed: Mapping[str, float], titles: Mapping[str, str], datasets: Sequence[str]
) -> list[tuple[str, str, float, float]]:
    """Return method, dataset, place on the axis and value of the distances that the paper prints."""
    found = []
    for number, method in enumerate(titles):
        for place, dataset in enumerate(datasets):
            value = printed.get(statistic_name("hmc_distance", dataset=dataset, method=method))
            if value is not None:
                found.append((method, dataset, place + APART * (number - (len(titles) - 1) / 2), value))
    return found


def _draw_ratios(ax: PlotAxes, rows: Sequence[Mapping[str, object]], radii: Mapping[str, float]) -> None:
    """Draw one mark per draw. Its delta is that in the ball of a dataset's main radius."""
    for dataset, radius in radii.items():
        own = [row for row in rows if row["dataset"] == dataset]
        style = dataset_style(dataset)
        ax.plot(
            [float(str(row["distance_ratio"])) for row in own],
            [float(str(row["delta_ratio"])) for row in own],
            linestyle="",
            marker=style["marker"],
            color=style["color"],
            label=f"{dataset}, γ = {radius:g}",
        )
    if rows:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.legend(title="one mark per draw")
    ax.axhline(1.0, color=LIMIT, linewidth=1)
    ax.axvline(1.0, color=LIMIT, linewidth=1)
    ax.set_xlabel("distance to HMC, Laplace / EP")
    ax.set_ylabel("median δ, Laplace / EP")


def summarise(report: Report[PosteriorQualitySettings]) -> list[Statistic]:
    """Write distances and chains, and the ratios. Draw both. Return means and the paper's claims over datasets."""
    settings, titles = report.settings, report.titles
    deltas, sampled = delta_frames(report), report.records(part=HMC)
    by_training = [converged(sampled, name) for name in settings.hmc_trained_by]
    found, ratio = by_training[0], settings.test_rows / settings.train_rows
    caption = (
        f"Distance to HMC, mean ± standard error over random splits, corrected for shared rows, at the hyperparameters "
        f"that the named method learned in {settings.hmc_evaluations} evaluations. Draws whose chains did not converge "
        "are left out"
    )
    if sampled:
        report.table(distance_table(sampled, titles, ratio), "posterior_quality", caption)
        report.table(chain_table(sampled, titles), "posterior_quality_chains", "HMC chains")
    timing = timing_table(report.records(), ["part", "dataset", "method", "evaluations"], titles)
    report.table(timing, "posterior_quality_timing", "CPU seconds per task. The first of a model trains it")
    statistics = quality_claims(by_training, deltas, settings.hmc_evaluations, ratio)
    draw(report, statistics, found, deltas)
    return statistics


def delta_frames(report: Report[PosteriorQualitySettings]) -> dict[str, pd.DataFrame]:
    """Return the records of delta per dataset's title. The column rank is a radius's place in its study."""
    frames = {}
    for name in report.request.datasets:
        study = STUDIES[name]
        own = report.records(part=DELTA, dataset=study.title, training=report.settings.trainings[0])
        if own:
            frame = records_frame(own)
            frames[study.title] = frame.assign(rank=[study.radii.index(radius) for radius in frame["radius"]])
    return frames


EXPERIMENTS.register("robustness/posterior_quality")(
    Experiment(
        PosteriorQualitySettings,
        plan,
        {DeltaTask: run_delta, HMCTask: run_hmc_distance},
        summarise,
        method_traits=(CLASSIFIER, AT_HYPERPARAMETERS),
        dataset_tasks=("classification",),
        several_datasets=True,
        only_datasets=tuple(STUDIES),
        parts=("points", "draws", "gammas", "hmc_trained_by"),
        agreement=AGREEMENT,
        published=every_array,
    )
)
