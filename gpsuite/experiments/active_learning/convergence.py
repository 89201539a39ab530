"""active_learning/convergence: Lemma 1 and Theorems 2, 3 and 9 of Li et al. 2022 made visible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.gp_samples import (
    KERNELS,
    convolution_covariance,
    lmc_covariance,
    sample_gaussian,
    squared_exponential,
)
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
    require,
)
from gpsuite.experiments.settings import Count, Rule, at_least, filled, one_of, unique
from gpsuite.experiments.tasks import choice, take
from gpsuite.methods.active_learning.convergence import (
    AllowedRegion,
    Kernel,
    QueryRun,
    SafeRegion,
    lemma_constant,
    log_slope,
    mutual_information,
    query_all_outputs,
    query_single_outputs,
    rate,
    slope_points,
    summed_information_gain,
    variance_bound,
)
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, VERMILION, panel
from gpsuite.reporting.tables import estimate_text
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import Estimate, mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


TITLES: dict[Kernel, str] = {
    "se": "LMC, squared exponential",
    "matern52": "LMC, Matérn-5/2",
    "convolution": "convolution process",
}
LATENT_KERNELS = {"se": "squared_exponential", "matern52": "matern52"}
PARTIAL, FULL = "partial", "full"
UNCONSTRAINED, SAFE = "unconstrained", "safe"
SAFETY_STARTS = 3  # inputs of largest h, measured beforehand
Range = Annotated[
    list[float],
    Rule(
        lambda ends: len(ends) == 2 and 0.0 < ends[0] <= ends[1] < math.inf, "must be [lowest, highest], both above 0"
    ),
]


@dataclass
class ConvergenceSettings:
    """Settings of the convergence study. The paper gives the theory only, these numbers are ours.

    Attributes:
        kernels: se and matern52 (linear model of coregionalisation), convolution (Gaussian convolution process).
        dimensions: numbers D of inputs.
        regions: unconstrained (Theorem 2), safe (Theorem 3: the safe set of a Gaussian process, new at each query).
        outputs: partial (one output per query), full (all outputs of an input).
        runs: drawn processes and pools.
        queries: observed values of each run.
        fit_from: slopes are fitted from this number of observed values on, equally spaced in log n.
        pool: inputs in the pool, uniform on [-1, 1]^D.
        n_outputs: P.
        n_latent: L.
        lengthscales: range of the latent lengthscales.
        smoothing: range of the widths of the convolution process's smoothing.
        noise_sd: range of the outputs' noise standard deviations.
    """

    kernels: Annotated[list[Annotated[str, one_of(TITLES)]], filled, unique]
    dimensions: Annotated[list[Count], filled, unique]
    regions: Annotated[list[Annotated[str, one_of((UNCONSTRAINED, SAFE))]], filled, unique]
    outputs: Annotated[list[Annotated[str, one_of((PARTIAL, FULL))]], filled, unique]
    runs: Count
    queries: int
    fit_from: int
    pool: Annotated[int, at_least(SAFETY_STARTS)]
    n_outputs: Count
    n_latent: Count
    lengthscales: Range
    smoothing: Range
    noise_sd: Range

    def check(self) -> None:
        """Refuse too few queries to fit a slope: two, each of all outputs, and log n > 0."""
        least = 2 * self.n_outputs
        require(self.fit_from >= least, "fit_from", self.fit_from, f"must be {least} or more")
        enough = self.queries >= 2 * self.fit_from
        require(enough, "queries", self.queries, f"must be twice fit_from, {2 * self.fit_from}, or more")


VERSION = 1


@dataclass(frozen=True)
class ConvergenceTask:
    """Greedy queries of one drawn process over its pool. Further settings as `ConvergenceSettings`.

    Attributes:
        kernel: se, matern52 or convolution.
        inputs: D.
        region: unconstrained or safe.
        outputs: partial or full.
        seed: of process and pool.
    """

    kernel: Kernel
    inputs: int
    region: str
    outputs: str
    seed: int
    queries: int
    fit_from: int
    pool: int
    n_outputs: int
    n_latent: int
    lengthscales: Sequence[float]
    smoothing: Sequence[float]
    noise_sd: Sequence[float]
    kind: str = "convergence"


def plan(request: Request[ConvergenceSettings]) -> list[Task[ConvergenceTask]]:
    """Return one task per kernel, D, region, kind of outputs and run."""
    settings = request.settings
    cells = product(settings.kernels, settings.dimensions, settings.regions, settings.outputs, range(settings.runs))
    return [_task(request, *cell) for cell in cells]


def _task(
    request: Request[ConvergenceSettings], kernel: str, inputs: int, region: str, outputs: str, run: int
) -> Task[ConvergenceTask]:
    settings = request.settings
    params = take(
        ConvergenceTask,
        settings,
        kernel=choice(kernel, TITLES),
        inputs=inputs,
        region=region,
        outputs=outputs,
        seed=derived_seed(request.seed, "convergence", inputs, run),
    )
    return request.task(
        params,
        label=f"{TITLES[params.kernel]}, D={inputs}, {region}, {outputs} {run}",
        axes={"kernel": kernel, "inputs": inputs, "region": region, "outputs": outputs, "run": run},
        version=VERSION,
        cost=0.1 + 6e-10 * settings.queries**2 * settings.pool * settings.n_outputs,
    )


SAFETY_NOISE = 0.05  # standard deviation of z
SAFETY_QUANTILE = 0.2  # of h over the pool: the limit, as in the paper's simulations
DELTA = 0.05


def run(task: Task[ConvergenceTask], shared: SharedWork) -> Outcome:
    """Query a drawn process greedily and compare with Lemma 1 and the rate of Theorems 2, 3 and 9.

    The arrays hold, at about 80 numbers of queries: the mean average and mean maximal variance (or determinant), the
    bound of Lemma 1, the mutual information and the greedy sum of maximum information gains.
    """
    params = task.params
    X, covariance, noise, largest = draw_process(params)
    region = _safe_region(params, X) if params.region == SAFE else None
    full = params.outputs == FULL
    queries = params.queries // (len(noise) if full else 1)
    found = (query_all_outputs if full else query_single_outputs)(covariance, noise, queries, region)
    constant = lemma_constant(largest, float(noise.max()), len(noise) if full else 1)
    gain = summed_information_gain(covariance, noise, found)
    first = params.fit_from // (len(noise) if full else 1)
    slopes = _slopes(found, params, first)
    entries = found.entries
    by_determinant = mutual_information(covariance[np.ix_(entries, entries)], noise[entries % len(noise)])
    metrics = {
        "queries": queries,
        "fit_from": first,
        "constant": constant,
        "violations": found.violations(constant),
        "largest_ratio": float(np.max(found.mean_maximal / found.bound(constant))),
        **slopes,
        "information": float(found.information[-1]),
        "information_error": abs(by_determinant - float(found.information[-1])),
        "information_gain": float(gain[-1]),
        "allowed_first": float(found.allowed[0]),
        "allowed_last": float(found.allowed[-1]),
    }
    at = slope_points(1, queries, 80)
    shown = {
        "mean_average": found.mean_average,
        "mean_maximal": found.mean_maximal,
        "bound": found.bound(constant),
        "information": found.information,
        "gain": gain,
    }
    arrays = {"n": at, **{name: values[at - 1] for name, values in shown.items()}}
    headline = f"slope {slopes['slope']:.2f}, rate's {slopes['rate_slope']:.2f}, {metrics['violations']} violations"
    return Outcome(metrics, arrays=arrays, headline=headline)


def draw_process(params: ConvergenceTask) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Draw pool and process: latent variances 1, rows of W of unit norm, so that prior variances are at most 1.

    Returns:
        inputs [n, D], prior covariance [n P, n P] in the order x * P + p, noise variances [P], and the bound of the
        prior variances that the constants of Lemma 1 use.
    """
    rng = stream(params.seed, "process")
    outputs, latent, inputs = params.n_outputs, params.n_latent, params.inputs
    X = rng.uniform(-1.0, 1.0, (params.pool, inputs))
    W = rng.standard_normal((outputs, latent))
    W /= np.linalg.norm(W, axis=1)[:, None]
    lengthscales = _uniform(rng, params.lengthscales, latent)
    widths = _uniform(rng, params.smoothing, outputs)
    noise = _uniform(rng, params.noise_sd, outputs) ** 2
    if params.kernel == "convolution":
        covariance, largest = _convolution(X, W, lengthscales, widths)
    else:
        kernel = KERNELS[LATENT_KERNELS[params.kernel]]
        covariance = lmc_covariance(np.stack([kernel(X, X, 1.0, length) for length in lengthscales]), W)
        largest = variance_bound(W, np.ones(latent))
    size = len(X) * outputs
    return X, covariance.reshape(size, size), noise, largest


def _uniform(rng: np.random.Generator, ends: Sequence[float], n: int) -> FloatArray:
    return rng.uniform(ends[0], ends[1], n)


def _convolution(
    X: FloatArray, W: FloatArray, lengthscales: FloatArray, widths: FloatArray
) -> tuple[FloatArray, float]:
    """Return the covariance with latent variances k_l(x, x) = 1, and L w v of supplement H.1."""
    inputs, unit = X.shape[1], np.eye(X.shape[1])
    factors = (np.sqrt(2.0 * np.pi) * lengthscales) ** inputs  # c_l: k_l = c_l N(. | 0, l^2 I) is 1 at 0
    smoothing = widths[:, None, None] ** -2.0 * unit
    covariance = convolution_covariance(X, X, smoothing, lengthscales[:, None, None] ** -2.0 * unit, W, factors)
    # the integral of |G_pl(x - z) G_pl(x' - z')| is W_pl^2, smoothing being by normal densities
    return covariance, variance_bound(W, np.ones(W.shape[1]))


def _safe_region(params: ConvergenceTask, X: FloatArray) -> AllowedRegion:
    """Draw h from a squared exponential process of variance and lengthscale 1, and measure the safest inputs."""
    rng = stream(params.seed, "safety")
    covariance = squared_exponential(X, X, 1.0, 1.0)
    h = sample_gaussian(rng, covariance, 1)[0]
    limit = float(np.quantile(h, SAFETY_QUANTILE))
    region = SafeRegion(
        covariance,
        SAFETY_NOISE**2,
        lambda x: float(h[x] + SAFETY_NOISE * rng.standard_normal()),
        limit,
        DELTA,
        SAFETY_STARTS + params.queries,
    )
    for x in np.argsort(-h)[:SAFETY_STARTS]:
        region.observe(int(x))
    return region


def _slopes(found: QueryRun, params: ConvergenceTask, first: int) -> dict[str, float]:
    """Return log-log slopes of the means, of the rate, and of their ratio: the excess over the rate."""
    at = slope_points(first, len(found.maximal))
    n = at.astype(np.float64)
    bounding = rate(params.kernel, params.inputs, n)
    average, maximal = found.mean_average[at - 1], found.mean_maximal[at - 1]
    return {
        "slope": log_slope(n, average),
        "slope_maximal": log_slope(n, maximal),
        "rate_slope": log_slope(n, bounding),
        "excess": log_slope(n, average / bounding),
        "excess_maximal": log_slope(n, maximal / bounding),
    }


LMC = ("se", "matern52")


@dataclass(frozen=True)
class ProcessRuns:
    """The runs of one kernel, D, region and kind of outputs.

    Attributes:
        kernel: se, matern52 or convolution.
        inputs: D.
        region: unconstrained or safe.
        outputs: partial or full.
        records: one per run, at least one.
    """

    kernel: Kernel
    inputs: int
    region: str
    outputs: str
    records: Sequence[Record]

    def values(self, metric: str) -> FloatArray:
        return np.array([record.number(metric) for record in self.records])

    def mean(self, metric: str) -> Estimate:
        """Return a metric's mean over the runs."""
        return mean(self.values(metric))

    @property
    def excess(self) -> float:
        """Log-log slope of the mean variance over the rate, less one standard error: at most 0 if the rate holds.

        A single run has no error to subtract.
        """
        found = self.mean("excess")
        return found.value - (found.error if found.n > 1 else 0.0)


def group_runs(records: Sequence[Record]) -> list[ProcessRuns]:
    """Group records by everything but the run, in the order of the records."""
    groups: dict[tuple[Kernel, int, str, str], list[Record]] = {}
    for record in records:
        axes, kernel = record.axes, choice(str(record.axes["kernel"]), TITLES)
        key = (kernel, int(axes["inputs"]), str(axes["region"]), str(axes["outputs"]))
        groups.setdefault(key, []).append(record)
    return [ProcessRuns(*key, records=found) for key, found in groups.items()]


def statistics(cells: Sequence[ProcessRuns]) -> list[Statistic]:
    """Return the statistics that conf/paper names. Rates by single outputs, the lemma for the LMC."""
    partial = [cell for cell in cells if cell.outputs == PARTIAL]
    free = [cell for cell in partial if cell.region == UNCONSTRAINED]
    found = []
    for kernel, name in (
        ("matern52", "max_slope_excess"),
        ("se", "variance_to_rate_slope_excess"),
        ("convolution", "variance_to_rate_slope_excess"),
    ):
        found += _largest_excess(statistic_name(name, kernel=kernel), _of(free, (kernel,)))
    for outputs in (PARTIAL, FULL):
        found += _violations(outputs, [cell for cell in _of(cells, LMC) if cell.outputs == outputs])
    for region in (UNCONSTRAINED, SAFE):
        inside = [cell for cell in partial if cell.region == region]
        found += _reached(statistic_name("share_rate_reached", region=region), _of(inside, LMC))
        name = statistic_name("share_rate_reached", region=region, model="convolution")
        found += _reached(name, _of(inside, ("convolution",)))
    return found


def _of(cells: Sequence[ProcessRuns], kernels: Sequence[str]) -> list[ProcessRuns]:
    return [cell for cell in cells if cell.kernel in kernels]


def _largest_excess(name: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    if not cells:
        return []
    parts = [(cell.inputs, cell.mean("excess")) for cell in cells]
    note = "; ".join(f"D={inputs}: {estimate_text(each)}" for inputs, each in parts)
    return [Statistic(name, max(cell.excess for cell in cells), n=sum(len(cell.records) for cell in cells), note=note)]


def _violations(outputs: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    if not cells:
        return []
    checked = int(sum(cell.values("queries").sum() for cell in cells))
    largest = max(float(cell.values("largest_ratio").max()) for cell in cells)
    count = int(sum(cell.values("violations").sum() for cell in cells))
    note = f"largest mean / bound {largest:.3f}"
    return [Statistic(statistic_name("violations_of_lemma_1", outputs=outputs), count, n=checked, note=note)]


def _reached(name: str, cells: Sequence[ProcessRuns]) -> list[Statistic]:
    return [claim(name, [cell.excess <= 0.0 for cell in cells])] if cells else []


LABELS = {"n": "checked n", "inputs": "D"}


def _place(cell: ProcessRuns) -> dict[str, str | int]:
    return {
        "process": TITLES[cell.kernel],
        "inputs": cell.inputs,
        "region": cell.region,
        "outputs": cell.outputs,
        "runs": len(cell.records),
    }


def lemma_table(cells: Sequence[ProcessRuns]) -> pd.DataFrame:
    """Return one row per cell: checks of the bound, and the information by both routes and against its maximum."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **_place(cell),
                "n": int(cell.values("queries").sum()),
                "violations": int(cell.values("violations").sum()),
                "largest_ratio": float(cell.values("largest_ratio").max()),
                "information (nats)": float(cell.values("information").mean()),
                "greedy sum of maximum gains (nats)": float(cell.values("information_gain").mean()),
                "log det minus chain rule, largest": float(cell.values("information_error").max()),
                "allowed share of the pool, first": float(cell.values("allowed_first").mean()),
                "allowed share of the pool, last": float(cell.values("allowed_last").mean()),
            }
            for cell in cells
        ]
    )


def rate_table(cells: Sequence[ProcessRuns]) -> pd.DataFrame:
    """Return one row per cell: slopes of the mean and mean maximal variance, of the rate, and whether it is kept."""
    import pandas as pd

    def text(cell: ProcessRuns, metric: str) -> str:
        return estimate_text(cell.mean(metric))

    return pd.DataFrame(
        [
            {
                **_place(cell),
                "slope": text(cell, "slope"),
                "slope of the maximal": text(cell, "slope_maximal"),
                "slope of the rate": float(cell.values("rate_slope").mean()),
                "excess": text(cell, "excess"),
                "excess of the maximal": text(cell, "excess_maximal"),
                "rate kept": "yes" if cell.excess <= 0.0 else "no",
            }
            for cell in cells
        ]
    )


DRAWN_KERNELS: tuple[Kernel, ...] = ("se", "matern52", "convolution")
RATE = "rate"

CURVES = (  # array, region, label, colour, line
    ("bound", UNCONSTRAINED, "bound of Lemma 1: (2 C / n) I", BLACK, "--"),
    ("mean_maximal", UNCONSTRAINED, "mean maximal {what}", VERMILION, "-"),
    ("mean_average", UNCONSTRAINED, "mean {what}", BLUE, "-"),
    ("mean_average", SAFE, "mean {what} in the safe region", GREEN, "-"),
    (RATE, "", "rate of the theorem, scaled", LIMIT, ":"),
)


def draw(report: Report[object], cells: Sequence[ProcessRuns]) -> None:
    """Draw one figure per kind of outputs: D by kernel."""
    for outputs in dict.fromkeys(cell.outputs for cell in cells):
        _draw_one(report, [cell for cell in cells if cell.outputs == outputs], outputs)


def _draw_one(report: Report[object], cells: Sequence[ProcessRuns], outputs: str) -> None:
    import pandas as pd

    kernels = [kernel for kernel in DRAWN_KERNELS if any(cell.kernel == kernel for cell in cells)]
    dimensions = sorted({cell.inputs for cell in cells})
    what = "determinant" if outputs == FULL else "variance"
    runs = max(len(cell.records) for cell in cells)
    told = f"medians of {runs} runs; shaded: quartiles" if runs > 1 else "one run"
    with report.figure(
        f"convergence_{outputs}",
        remark=f"{told}. The rate starts where slopes are fitted",
        rows=len(dimensions),
        columns=len(kernels),
        size=(3.2 * len(kernels) + 0.6, 2.8 * len(dimensions) + 1.0),
        sharex=True,
        sharey="row",
    ) as drawing:
        shown = []
        for row, inputs in zip(drawing.grid, dimensions, strict=True):
            for ax, kernel in zip(row, kernels, strict=True):
                own = [cell for cell in cells if (cell.kernel, cell.inputs) == (kernel, inputs)]
                if own:
                    shown.append(_panel(ax, own, kernel, what))
                ax.set_title(f"{TITLES[kernel]}, D = {inputs}", fontsize=10)
        drawing.name_axes("queries n", f"mean predictive {what}")
        drawing.legend()
        drawing.data = pd.concat(shown, ignore_index=True)


def _panel(ax: Axes, cells: Sequence[ProcessRuns], kernel: Kernel, what: str) -> pd.DataFrame:
    """Draw one kernel and D, with the rate from where slopes are fitted. Return the plotted numbers."""
    import pandas as pd

    shown = pd.concat(_frames(cells, kernel), ignore_index=True)
    series = shown["curve"] + " " + shown["region"].fillna("")
    drawn = shown.rename(columns={"median": "mean", "low": "interval_low", "high": "interval_high"})
    titles, styles = {}, {}
    for name, region, label, colour, line in CURVES:
        titles[f"{name} {region}"] = label.format(what=what)
        styles[f"{name} {region}"] = {"color": colour, "linestyle": line, "marker": ""}
    panel(ax, drawn.assign(series=series), "n", titles, by="series", kind="band", error="interval", styles=styles)
    ax.set_xscale("log")
    ax.set_yscale("log")
    return shown


def _frames(cells: Sequence[ProcessRuns], kernel: Kernel) -> list[pd.DataFrame]:
    """Return the numbers of each curve of one kernel and D, the rate last."""
    import pandas as pd

    frames = []
    for name, region, *_ in CURVES:
        for cell in (cell for cell in cells if cell.region == region):
            low, median, high = _quartiles(cell, name)
            where = {"kernel": kernel, "inputs": cell.inputs, "region": region, "curve": name}
            ends = {"low": low, "high": high, "runs": len(cell.records)}
            frames.append(pd.DataFrame({**where, "n": cell.records[0].arrays["n"], "median": median, **ends}))
    first = cells[0]
    n = first.records[0].arrays["n"].astype(np.float64)
    start = _quartiles(first, "mean_average")[1]
    n, scaled = _scaled_rate(kernel, first.inputs, n, start, first.records[0].number("fit_from"))
    where = {"kernel": kernel, "inputs": first.inputs, "curve": RATE}
    return [*frames, pd.DataFrame({**where, "n": n, "median": scaled})]


def _quartiles(cell: ProcessRuns, name: str) -> FloatArray:
    """Return the quartiles of a curve over the runs, [3, k]."""
    quartiles: FloatArray = np.quantile([record.arrays[name] for record in cell.records], [0.25, 0.5, 0.75], axis=0)
    return quartiles


def _scaled_rate(
    kernel: Kernel, inputs: int, n: FloatArray, values: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return the counts from the first on, and the rate there, times the factor that lets it start at the values."""
    later = n >= first
    bounding = rate(kernel, inputs, n[later])
    return n[later], bounding * (values[later][0] / bounding[0])


def summarise(report: Report[ConvergenceSettings]) -> list[Statistic]:
    """Write the checks of Lemma 1 and the slopes next to the rates, draw both. Return what conf/paper names."""
    settings, cells = report.settings, group_runs(report.records())
    drawn = f"{settings.runs} drawn processes of {settings.n_outputs} outputs, pool of {settings.pool} inputs"
    caption = f"Lemma 1: mean maximal variance (full: determinant) against (2 C / n) I; {drawn}"
    report.table(lemma_table(cells), "lemma_1", caption, LABELS)
    caption = (
        f"Log-log slopes against n, mean ± standard error over {drawn}. From {settings.fit_from} to "
        f"{settings.queries} observed values; excess: slope of the mean over the rate"
    )
    report.table(rate_table(cells), "rates", caption, LABELS)
    draw(report, cells)
    return statistics(cells)


EXPERIMENTS.register("active_learning/convergence")(
    Experiment(
        ConvergenceSettings,
        plan,
        run,
        summarise,
        parts=("runs", "kernels", "dimensions", "regions", "outputs"),
        model_keys=(),
        published=every_array,
    )
)
