"""pac_bayes/predictive_snelson: what the accuracy goal does to predictions (Fig. 1, App. E of Reeb et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    EXPERIMENTS,
    Experiment,
    MethodOptions,
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
from gpsuite.experiments.pac_bayes.fits import AGREEMENT
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND, risk_method, sparse_options, with_inducing
from gpsuite.experiments.pac_bayes.tables import dataset_statistics
from gpsuite.experiments.pac_bayes.training import Trained, Training
from gpsuite.experiments.settings import Count, Positive, Share
from gpsuite.experiments.tasks import take
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Terms, certify
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL, gibbs_risk
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import SKY, method_style
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


GOALS = ("small", "middle", "large")
PAC = "kl_pac_sgp"


@dataclass
class Goals:
    """One number for each of the three plots of Fig. 1, from left to right.

    Attributes:
        small: of the left plot.
        middle: of the middle plot.
        large: of the right plot.
    """

    small: Positive
    middle: Positive
    large: Positive


@dataclass
class PredictiveSettings:
    """Settings of the predictive distributions. Nothing is standardised, so all widths are in units of y.

    Attributes:
        epsilons: accuracy goals of the three plots.
        inducing: number M of inducing inputs of every sparse method.
        starts: k-means clusterings to start from. The first of those whose objective ends lowest is kept.
        published_kl_over_n: values that the paper prints for the three plots. The scan is compared with them.
        scan_epsilons: further accuracy goals at which kl-PAC-SGP is trained, to find the settings that the paper does
            not give.
        scan_inducing: numbers M of the same scan.
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per start.
    """

    epsilons: Goals
    inducing: Count
    starts: Count
    published_kl_over_n: Goals
    scan_epsilons: list[Positive]
    scan_inducing: list[Count]
    delta: Share
    max_evaluations: Count

    def check(self) -> None:
        """Refuse goals that do not rise."""
        goals = self.epsilons
        rising = goals.small < goals.middle < goals.large
        require(rising, "epsilons.middle", goals.middle, "must lie between epsilons.small and epsilons.large")


@dataclass(frozen=True, kw_only=True)
class PredictiveTask:
    """A fit to all rows in their own units.

    Attributes:
        method: options of the method.
        epsilon: accuracy goal, in units of y.
        starts: k-means clusterings that a sparse method starts from.
        seed: of the clusterings.
        ard: one lengthscale per input, or a single one.
        delta: allowed probability that the bound fails.
        max_evaluations: limit on objective evaluations per start.
    """

    method: MethodOptions
    epsilon: float
    starts: int
    seed: int
    ard: bool
    delta: float
    max_evaluations: int
    kind: str = "predictive"


def plan(request: Request[PredictiveSettings]) -> list[Task[PredictiveTask]]:
    """Return one task per method and plotted goal, and one per further cell of the scan."""
    return list(_tasks(request))


def _tasks(request: Request[PredictiveSettings]) -> Iterator[Task[PredictiveTask]]:
    settings = request.settings
    plotted = list(asdict(settings.epsilons).values())
    for name, options in request.methods.items():
        inducing = 0 if sparse_options(options) is None else settings.inducing
        for epsilon in plotted:
            yield _task(request, name, inducing, epsilon)
    if PAC in request.methods:
        cells = {(count, goal) for count in settings.scan_inducing for goal in settings.scan_epsilons}
        for inducing, epsilon in sorted(cells - {(settings.inducing, goal) for goal in plotted}):
            yield _task(request, PAC, inducing, epsilon)


def _task(request: Request[PredictiveSettings], name: str, inducing: int, epsilon: float) -> Task[PredictiveTask]:
    """Return one fit. `inducing` is 0 for a full GP."""
    settings, options = request.settings, request.methods[name]
    shown = f"  M {inducing}" if inducing else ""
    return request.task(
        take(
            PredictiveTask,
            settings,
            method=with_inducing(options, inducing),
            epsilon=epsilon,
            seed=request.seed,
            ard=request.model.ard,
        ),
        label=f"{options.heading}{shown}  epsilon {epsilon:g}",
        axes={"method": name, "inducing": inducing, "epsilon": epsilon},
        version=options.method.version,
        # a marginal likelihood does not know the goal: one training serves all goals
        group=name if risk_method(options).shares_training(options) else "",
        cost=0.1 * settings.starts,
    )


CURVE_POINTS = 401
CURVE_MARGIN = 0.1  # of the inputs' range, drawn on both sides
AS_GOOD = 1e-4  # a start counts as good as the best when its objective is this close


@dataclass(frozen=True)
class _Fitted:
    """A trained model before rounding. The inducing inputs at the start and at the end [M, 1], none of a full GP."""

    trained: Trained
    start: FloatArray
    end: FloatArray
    share_as_good: float = 1.0


def run(task: Task[PredictiveTask], shared: SharedWork) -> Outcome:
    """Train on all rows in their own units, round to the grid, certify, and predict along the input.

    Returns metrics, among them how far the inducing inputs moved and how rough the mean is, and arrays with the
    curve (x, mean, standard deviation of the latent function) and the inducing inputs before and after.
    """
    data, params = load(task.require_dataset()), task.params
    X, y = data.X, data.y[:, 0]
    options, loss = params.method, BandLoss(params.epsilon)
    limits = (params.max_evaluations, params.seed, task.budget_seconds)
    work = Training(X, y, options, params.ard, params.delta, *limits, began=shared.began)
    fitted = shared.once("fitted", lambda: _fit(work, loss, params.starts))
    trained = fitted.trained
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = risk_method(options).certify(options, rounded, X, y, trained)
    found = posterior.hyperparameters
    risk = gibbs_risk(posterior, loss)
    certificate = certify(RiskAndKL(risk, posterior.kl), Terms(len(y), found.n_kernel, params.delta))
    x = _curve_inputs(X)
    mean, variance = posterior.predict(x[:, None])
    numbers = {
        "kl_over_n": posterior.kl / len(y),
        "bound_kl": certificate.bound_kl,
        "gibbs_risk_train": certificate.gibbs_risk,
        "noise_std": found.noise_variance**0.5,
        "variance": found.variance,
        "lengthscale": found.lengthscales[0],
        "displacement": _displacement(fitted),
        "roughness": roughness(posterior.predict, float(X.min()), float(X.max())),
        "objective": trained.objective,
        "share_as_good": fitted.share_as_good,
    }
    arrays = {"x": x, "mean": mean, "std": np.sqrt(variance), "start": fitted.start, "end": fitted.end}
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else certificate.reason,
        arrays=arrays,
        headline=f"KL/n {numbers['kl_over_n']:.4f}",
    )


def roughness(
    predict: Callable[[FloatArray], tuple[FloatArray, FloatArray]], low: float, high: float, points: int = 2001
) -> float:
    """Return the integral of the squared second derivative of the predictive mean from `low` to `high`.

    Central differences and the trapezoidal rule on an even grid of `points` inputs.
    """
    x, step = np.linspace(low, high, points, retstep=True)
    mean, _ = predict(x[:, None])
    bend = np.diff(mean, 2) / step**2
    squared = bend**2
    return float(step * (squared.sum() - 0.5 * (squared[0] + squared[-1])))


def _curve_inputs(X: FloatArray) -> FloatArray:
    low, high = float(X.min()), float(X.max())
    margin = CURVE_MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, CURVE_POINTS)


def _displacement(fitted: _Fitted) -> float:
    """Return the mean distance of the inducing inputs from their start. NaN without any."""
    if not len(fitted.end):
        return float("nan")
    return float(np.mean(np.linalg.norm(fitted.end - fitted.start, axis=1)))


def _fit(work: Training[MethodOptions], loss: BandLoss, starts: int) -> _Fitted:
    """Train a full GP. A sparse one from several k-means clusterings: the first that ends as low as the best."""
    method, sparse = risk_method(work.options), sparse_options(work.options)
    if method.train_from is None or sparse is None:
        none = np.empty((0, work.X.shape[1]))
        return _Fitted(method.train(work, loss), none, none)
    clock, runs = work.clock, list[tuple[FloatArray, Trained]]()
    inducing = min(sparse.inducing, len(np.unique(work.X, axis=0)))
    for number in range(starts):
        if runs and clock.exhausted:
            break
        start = kmeans_inducing(work.X, inducing, stream(work.seed, "inducing", number))
        runs.append((start, method.train_from(replace(work, seconds=clock.left), loss, start)))
    lowest = min(run.objective for _, run in runs)
    as_low = [run.objective <= lowest + AS_GOOD for _, run in runs]
    # not the very lowest: spare inducing inputs can wander far for a millionth of the bound
    start, best = runs[as_low.index(True)]
    end = start if best.Z is None else best.Z
    if len(runs) < starts:
        best = replace(best, status=BUDGET, reason=clock.reason)
    return _Fitted(best, start, end, float(np.mean(as_low)))


# What Reeb et al. (2018) say about Fig. 1, as statistics that decide it.


CHOSEN = "ε and M were chosen to match the printed KL/n, so agreement is no independent check"
MOVES_LEAST = "Z moves least at the largest ε"


def claims(pac: Mapping[str, Record], elsewhere: str = "") -> list[Statistic]:
    """Return the statistics that decide what Sec. 4(a) says, as far as the three goals' records are there.

    Args:
        pac: goal -> record of kl-PAC-SGP.
        elsewhere: what the scan says about the inducing inputs at other M, for the note.
    """
    if set(pac) != set(GOALS):
        return []
    kl, rough, way = (
        {goal: pac[goal].number(metric) for goal in GOALS} for metric in ("kl_over_n", "roughness", "displacement")
    )
    steps = [kl["middle"] > kl["small"], kl["small"] > kl["large"]]
    return [
        Statistic.of("share_kl_order_of_epsilons", share(steps), note=f"{listed(kl)}; {CHOSEN}"),
        Statistic("smoothest_at_largest_epsilon", _smallest_at_large(rough), n=3, note=listed(rough)),
        Statistic(
            "inducing_inputs_move_least_at_largest_epsilon",
            _smallest_at_large(way),
            n=3,
            note="; ".join(part for part in (listed(way), elsewhere) if part),
        ),
    ]


def where_inputs_move_least(scan: pd.DataFrame) -> str:
    """Return for which M of the scan the inducing inputs move least at the largest of the closest epsilons."""
    if not len(scan):
        return ""
    held = [f"{row['M']}" for row in scan.to_dict("records") if row[MOVES_LEAST] == "yes"]
    return f"in the scan over {len(scan)} values of M it holds at M = {', '.join(held) or 'none'}"


def _smallest_at_large(values: Mapping[str, float]) -> float:
    return float(values["large"] < min(values["small"], values["middle"]))


def listed(values: Mapping[str, float]) -> str:
    """Return the goals' values in words."""
    return ", ".join(f"{goal} {value:.4g}" for goal, value in values.items())


SHOWN = (
    "kl_over_n",
    "bound_kl",
    "gibbs_risk_train",
    "noise_std",
    "lengthscale",
    "variance",
    "displacement",
    "roughness",
    "share_as_good",
)


TABLE_LABELS = {"epsilon": "ε (units of y)", "inducing": "M"}


def plots_table(plots: Mapping[tuple[str, str], Record], settings: PredictiveSettings) -> pd.DataFrame:
    """Return one row per plotted fit."""
    import pandas as pd

    rows = []
    for (name, goal), record in plots.items():
        printed = getattr(settings.published_kl_over_n, goal) if name == PAC else float("nan")
        row: dict[str, Any] = {"method": name, "goal": goal, "epsilon": record.axes["epsilon"]}
        row["inducing"] = str(record.axes["inducing"] or "all rows")
        for metric in SHOWN:
            row[metric] = record.number(metric)
            if metric == "kl_over_n":
                row["published_kl_over_n"] = printed
        rows.append(row)
    return pd.DataFrame(rows)


def scan_table(records: Sequence[Record], settings: PredictiveSettings) -> pd.DataFrame:
    """Return one row per M: KL/n at every epsilon, and the triple of epsilons closest to the printed KL/n."""
    import pandas as pd

    cells: dict[int, dict[float, Record]] = {}
    for record in records:
        if record.axes["method"] == PAC:
            cells.setdefault(int(record.axes["inducing"]), {})[float(record.axes["epsilon"])] = record
    printed = tuple(asdict(settings.published_kl_over_n).values())
    lines = []
    for inducing, row in sorted(cells.items()):
        found = {epsilon: row[epsilon].number("kl_over_n") for epsilon in sorted(row)}
        triple, difference = closest_triple(found, printed)
        ways = [row[epsilon].number("displacement") for epsilon in triple]
        lines.append(
            {
                "M": inducing,
                **{f"ε = {epsilon:g}": value for epsilon, value in found.items()},
                "closest ε": ", ".join(f"{epsilon:g}" for epsilon in triple),
                "largest difference (%)": 100 * difference,
                MOVES_LEAST: "yes" if ways and ways[-1] == min(ways) else "no",
            }
        )
    return pd.DataFrame(lines)


def closest_triple(found: Mapping[float, float], printed: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    """Return the rising epsilons whose KL/n come closest to the printed ones, and the largest relative difference.

    Args:
        found: epsilon -> KL/n.
        printed: KL/n of as many rising epsilons.

    Returns:
        An empty tuple and NaN if there are fewer epsilons than printed values.
    """

    def distance(epsilons: tuple[float, ...]) -> float:
        return max(abs(found[e] / value - 1.0) for e, value in zip(epsilons, printed, strict=True))

    finite = sorted(epsilon for epsilon, value in found.items() if math.isfinite(value))
    best = min(combinations(finite, len(printed)), key=distance, default=())
    return best, distance(best) if best else math.nan


KL_PAC_SGP, FULL = "kl_pac_sgp", "full_gp"


# what each shaded area contains, as the legend says it
LABELS = {
    KL_PAC_SGP: "kl-PAC-SGP: mean ± std., without noise",
    FULL: "full GP: mean ± std., with noise",
    "vfe": "VFE: mean ± std., with noise",
    "fitc": "FITC: mean ± std., with noise",
}


def draw(report: Report[PredictiveSettings], plots: Mapping[tuple[str, str], Record]) -> None:
    """Draw one panel per goal of kl-PAC-SGP, and one per other method.

    Args:
        report: of the run.
        plots: records by (method, goal).
    """
    data = load(report.request.require_dataset())
    goals = [goal for name, goal in plots if name == KL_PAC_SGP]
    others = list(dict.fromkeys(name for name, _ in plots if name != KL_PAC_SGP))
    first = {name: next(record for (other, _), record in plots.items() if other == name) for name in others}
    panels = max(len(goals), len(others), 1)
    rows = bool(goals) + bool(others)
    size = (4.4 * panels, 3.3 * rows + 0.8)
    with report.figure("predictive_snelson", rows=rows, columns=panels, size=size, sharex=True, sharey=True) as drawing:
        for ax, goal in zip(drawing.axes, goals, strict=False):
            _draw_goal(ax, data, plots[KL_PAC_SGP, goal], goal, first.get(FULL))
        for ax, name in zip(drawing.axes[panels * bool(goals) :], others, strict=False):
            _draw_method(ax, data, name, report.titles[name], first[name])
        drawing.name_axes("input x", "output y")
        drawing.legend("above", columns=3)
        drawing.data = _curves(plots)


def _draw_goal(ax: Axes, data: Dataset, record: Record, goal: str, full: Record | None) -> None:
    """Draw kl-PAC-SGP at one goal over the full GP, with the band inside which data cost nothing."""
    epsilon = float(record.axes["epsilon"])
    x, mean = record.arrays["x"], record.arrays["mean"]
    if full is not None:
        _shade(ax, full, FULL, noise=True)
    band: dict[str, Any] = {"color": SKY, "linewidth": 1.0, "linestyle": (0, (4, 2))}
    ax.fill_between(
        x, mean - epsilon, mean + epsilon, color=SKY, alpha=0.15, linewidth=0, label="± ε around the mean: no loss"
    )
    for side in (-epsilon, epsilon):
        ax.plot(x, mean + side, **band)
    _shade(ax, record, KL_PAC_SGP, noise=False)
    _data_and_inducing(ax, data, record)
    ax.set_title(f"{goal} ε = {epsilon:g}: KL/n = {record.number('kl_over_n'):.3f}")


def _draw_method(ax: Axes, data: Dataset, name: str, title: str, record: Record) -> None:
    _shade(ax, record, name, noise=True)
    _data_and_inducing(ax, data, record)
    ax.set_title(f"{title}: noise σ = {record.number('noise_std'):.3f}")


def _shade(ax: Axes, record: Record, name: str, noise: bool) -> None:
    x, mean, deviation = (record.arrays[key] for key in ("x", "mean", "std"))
    if noise:
        deviation = np.hypot(deviation, record.number("noise_std"))
    colour = method_style(name)["color"]
    label = LABELS.get(name, f"{name}: mean ± std., {'with' if noise else 'without'} noise")
    ax.plot(x, mean, color=colour)
    ax.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.3, linewidth=0, label=label)


def _data_and_inducing(ax: Axes, data: Dataset, record: Record) -> None:
    """Draw the data, and crosses above and below for the inducing inputs before and after training."""
    y = data.y[:, 0]
    ax.plot(data.X[:, 0], y, "k.", markersize=2.5, rasterized=True, label="data")
    low, high = float(y.min()), float(y.max())
    room = 0.3 * (high - low)
    for part, height, colour, when in (("start", high + room, "0.45", "before"), ("end", low - room, "k", "after")):
        inputs = record.arrays[part]
        if len(inputs):
            marks = np.full(len(inputs), height)
            ax.plot(
                inputs[:, 0],
                marks,
                "x",
                color=colour,
                label=f"inducing inputs {when} training ({'top' if part == 'start' else 'bottom'})",
            )
    ax.set_ylim(low - 1.25 * room, high + 1.25 * room)
    edges = record.arrays["x"][[0, -1]]
    ax.set_xlim(*edges)
    outside = int(np.sum((record.arrays["end"] < edges[0]) | (record.arrays["end"] > edges[1])))
    if outside:
        ax.text(0.02, 0.08, f"{outside} after training outside", transform=ax.transAxes, fontsize=8)


def _curves(plots: Mapping[tuple[str, str], Record]) -> pd.DataFrame:
    """Return the drawn curves, without the data's rows."""
    import pandas as pd

    return pd.concat(
        [
            pd.DataFrame(
                {
                    "method": name,
                    "goal": goal,
                    "epsilon": record.axes["epsilon"],
                    **{key: record.arrays[key] for key in ("x", "mean", "std")},
                    "noise_std": record.number("noise_std"),
                }
            )
            for (name, goal), record in plots.items()
        ],
        ignore_index=True,
    )


def summarise(report: Report[PredictiveSettings]) -> list[Statistic]:
    """Write the table of the plots, the scan's table and the figure. Return what the paper prints and says."""
    records, settings, titles = report.records(), report.settings, report.titles
    plots = plotted_records(records, settings)
    why = (
        "ε and M of the printed figure are lost in the text. A scan chose these: their KL/n come "
        "closest to the three printed values. ε is in units of y. Nothing is standardised, all rows train. Bounds "
        f"hold with probability {1 - settings.delta:g} for an ε and M fixed in advance."
    )
    table = plots_table(plots, settings)
    shown = table.assign(method=table["method"].map(titles))
    report.table(shown, "predictive_snelson", why, TABLE_LABELS)
    scan = scan_table(records, settings)
    if len(scan):
        printed = ", ".join(f"{value:g}" for value in asdict(settings.published_kl_over_n).values())
        heading = f"kl-PAC-SGP: KL/n (nats) at every ε and M of the scan, and the rising ε closest to {printed}"
        report.table(scan, "predictive_snelson_scan", heading)
    draw(report, plots)
    numbers = [
        Statistic(
            statistic_name(metric, method=name, epsilon=goal),
            record.number(metric),
            n=1,
            note=CHOSEN if (metric, name) == ("kl_over_n", PAC) else "",
        )
        for (name, goal), record in plots.items()
        for metric in ("kl_over_n", "bound_kl", "gibbs_risk_train", "noise_std")
        if math.isfinite(record.number(metric))
    ]
    pac = {goal: record for (name, goal), record in plots.items() if name == PAC}
    labels = "; ".join(LABELS[name] for name in titles if name in LABELS)
    return [
        *dataset_statistics(report.request),
        *numbers,
        *claims(pac, where_inputs_move_least(scan)),
        Statistic("figure_labels", float("nan"), note=labels),
    ]


def plotted_records(records: Sequence[Record], settings: PredictiveSettings) -> dict[tuple[str, str], Record]:
    """Return the records of the figure's panels by (method, goal)."""
    goals = {value: goal for goal, value in asdict(settings.epsilons).items()}
    return {
        (str(record.axes["method"]), goals[float(record.axes["epsilon"])]): record
        for record in records
        if record.axes["inducing"] in (0, settings.inducing) and float(record.axes["epsilon"]) in goals
    }


EXPERIMENTS.register("pac_bayes/predictive_snelson")(
    Experiment(
        PredictiveSettings,
        plan,
        run,
        summarise,
        method_traits=(RISK_BOUND,),
        agreement=AGREEMENT,
        model_keys=("ard",),
        published=every_array,
    )
)
