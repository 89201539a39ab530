"""pac_bayes/coverage: how often the bound holds on simulated data (Theorem 1 and Eq. 5 of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import gammaln, roots_legendre, xlog1py, xlogy

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import (
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
)
from gpsuite.experiments.pac_bayes.methods import BOUND, FULL, RISK_BOUND, risk_method
from gpsuite.experiments.pac_bayes.training import Training
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled
from gpsuite.experiments.tasks import take
from gpsuite.methods.pac_bayes import bounds
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Terms, certify
from gpsuite.methods.pac_bayes.kl_inverse import binary_kl
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior, RiskAndKL, gibbs_risk
from gpsuite.models.config import Hyperparameters
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.seeds import derived_seed
from gpsuite.statistics.estimates import CLOPPER_PEARSON, clopper_pearson, proportion
from gpsuite.statistics.significance import binomial_p

if TYPE_CHECKING:
    import pandas as pd


TRUTH, DOMAIN = "sin_2x", (-2.0, 2.0)


@dataclass
class CoverageSettings:
    """Settings of the simulation: y = sin(2x) + noise_scale N(0, 1), x uniform on [-2, 2].

    Attributes:
        simulations: number of simulated data sets.
        batch: data sets per task.
        rows: training rows of each data set.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure. The first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
        power_simulations: data sets of noise per number of rows, in the settings where a wrong bound fails.
    """

    simulations: Count
    batch: Count
    rows: Annotated[int, at_least(5)]
    epsilon: Positive
    noise_scale: Positive
    deltas: Annotated[list[Share], filled]
    max_evaluations: Count
    power_simulations: Count


@dataclass(frozen=True, kw_only=True)
class CoverageTask:
    """A block of simulated data sets.

    Attributes:
        method: options of the method.
        seed: of the data.
        count: how many data sets.
        rows: training rows of each.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure. The first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
    """

    method: MethodOptions
    seed: int
    count: int
    rows: int
    epsilon: float
    noise_scale: float
    deltas: tuple[float, ...]
    max_evaluations: int
    kind: str = "coverage"


def plan(request: Request[CoverageSettings]) -> list[Task[CoverageTask | PowerTask]]:
    """Return one task per method and batch of simulated data sets, the same for all methods, and those with power."""
    version = max(options.method.version for options in request.methods.values())
    return [*_tasks(request), *power_tasks(request, version)]


def _tasks(request: Request[CoverageSettings]) -> Iterator[Task[CoverageTask]]:
    settings = request.settings
    for start in range(0, settings.simulations, settings.batch):
        for name, options in request.methods.items():
            count = min(settings.batch, settings.simulations - start)
            yield request.task(
                take(
                    CoverageTask,
                    settings,
                    method=options,
                    seed=derived_seed(request.seed, "coverage", start),
                    count=count,
                ),
                label=f"{options.heading}  data sets {start} to {start + count - 1}",
                axes={"method": name, "start": start},
                version=options.method.version,
                cost=0.05 * count,
            )


# Coverage where a wrong bound fails: what the simulation of trained GPs, whose bounds are loose, cannot show.
#
# Two settings. (1) Prior = posterior, a predictor that is right or wrong: the errors on n rows are binomial and the
# largest probability of failure over all true risks is a finite sum. A kl inverse, a delta or a confidence term that
# is
# off makes it exceed delta. (2) Targets that are noise, and a GP that fits them: only the KL keeps the bound above the
# true risk.


ROWS = (8, 12, 20, 30)
DELTAS = (0.5, 0.1, 0.01)
NOISE_DELTA = 0.5  # at which the GP that fits noise is certified
PRIOR = Hyperparameters(1.0, (0.1,), 0.1)  # fits noise: without the KL its bound holds in 1 to 5 % of the data sets
EPSILON, HALF_WIDTH = 1.0, 2.0  # of the loss, and of the inputs' uniform distribution
POWER_NODES = 200


# A share of data sets as small as the one found, or smaller, has at most this probability if the bound holds.
LEVEL = 1e-3
_ROUNDING = 1e-12
VIOLATIONS = "violations_where_coverage_has_power"


@dataclass(frozen=True, kw_only=True)
class PowerTask:
    """Both settings at one number of rows.

    Attributes:
        rows: n.
        simulations: data sets of noise.
        deltas: allowed probabilities of failure.
        seed: of the noise.
    """

    rows: int
    simulations: int
    deltas: tuple[float, ...]
    seed: int
    kind: str = "coverage_power"


def power_tasks(request: Request[CoverageSettings], version: int) -> list[Task[PowerTask]]:
    """Return one task per number of rows."""
    simulations = request.settings.power_simulations
    return [
        request.task(
            PowerTask(
                rows=rows,
                simulations=simulations,
                deltas=DELTAS,
                seed=derived_seed(request.seed, "coverage power", rows),
            ),
            label=f"settings with power  {rows} rows",
            axes={"part": "power", "rows": rows},
            version=version,
            cost=0.002 * simulations,
        )
        for rows in ROWS
    ]


def run_power(task: Task[PowerTask], shared: SharedWork) -> Outcome:
    """Return the exact probabilities of failure, and how often the bound of a GP that fits noise held."""
    params = task.params
    n, metrics = params.rows, {}
    for delta in params.deltas:
        metrics[f"failure_{delta:g}"] = largest_failure(n, delta)
        metrics[f"share_{delta:g}"] = least_share(n, delta)
    found = np.array(fitted_noise(n, params.simulations, np.random.default_rng(params.seed)))
    bound, without, risk, true, kl = found.T
    excess = n * binary_kl(risk, true) - bounds.penalty(0.0, Terms(n, 0, NOISE_DELTA)).total
    needed = np.where(true > risk, excess / kl, 0.0)
    counts = {
        "count": len(found),
        "held": int((true <= bound).sum()),
        "held_without_kl": int((true <= without).sum()),
        "share_kl": max(float(np.quantile(needed, 1.0 - NOISE_DELTA)), 0.0),
    }
    return Outcome(metrics | counts, headline=f"{counts['held']} of {len(found)} held")


def largest_failure(n: int, delta: float) -> float:
    """Return the largest probability, over all true risks, that a predictor's risk is outside its certified range.

    The number of errors k is Binomial(n, risk). As a function of the risk the probability is largest just beyond one of
    the n + 1 bounds.
    """
    terms = Terms(n, 0, delta)
    found = [bounds.certify(RiskAndKL(k / n, 0.0), terms) for k in range(n + 1)]
    upper = np.array([each.bound_kl for each in found])
    lower = np.array([each.lower_kl for each in found])
    ends = np.concatenate([upper, lower])
    k = np.arange(n + 1)
    choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chances = np.exp(choices + xlogy(k, ends[:, None]) + xlog1py(n - k, -ends[:, None]))
    above = np.concatenate([np.ones(n + 1, dtype=bool), np.zeros(n + 1, dtype=bool)])[:, None]
    ends = ends[:, None]
    # just above an upper bound that bound fails, just below a lower one that one does, 0 and 1 are no way out
    failed = np.where(above, (upper <= ends) | (lower > ends), (lower >= ends) | (upper < ends))
    inside = np.where(above, ends < 1.0, ends > 0.0)
    return float((chances * (failed & inside)).sum(axis=1).max())


def least_share(n: int, delta: float) -> float:
    """Return the smallest share of the penalty with which the upper bound would still hold: the setting's power.

    A bound holds for k of n errors if and only if it is at least the exact binomial one, u_k, so kl(k/n || u_k) / c is
    the share that k needs.
    """
    c = bounds.penalty(0.0, Terms(n, 0, delta)).per_point
    exact = [clopper_pearson(k, n, 2.0 * delta)[1] for k in range(n)]
    return float(np.max(binary_kl(np.arange(n) / n, exact)) / c)


def fitted_noise(n: int, simulations: int, rng: np.random.Generator) -> list[tuple[float, float, float, float, float]]:
    """Return bound, bound without the KL, training risk, true risk and KL of a GP that fits noise, per data set."""
    nodes, weights = roots_legendre(POWER_NODES)
    grid, loss = HALF_WIDTH * nodes[:, None], BandLoss(EPSILON)
    rows = []
    for _ in range(simulations):
        X, y = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n, 1)), rng.standard_normal(n)
        posterior = FullGPPosterior.fit(PRIOR, X, y)
        mean, variance = posterior.predict(grid)
        true = float(0.5 * weights @ loss.expected(np.zeros(POWER_NODES), mean, variance + 1.0))
        risk = posterior.gibbs_risk(loss)
        terms, kls = Terms(n, 0, NOISE_DELTA), (posterior.kl, 0.0)
        bound, without = (bounds.certify(RiskAndKL(risk, kl), terms).bound_kl for kl in kls)
        rows.append((bound, without, risk, true, posterior.kl))
    return rows


def power_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per setting, number of rows and delta, each with its verdict."""
    import pandas as pd

    lines = []
    for record in records:
        n = int(record.axes["rows"])
        for delta in DELTAS:
            failure = record.number(f"failure_{delta:g}")
            lines.append(
                {
                    **{"setting": "prior = posterior, exact", "rows": n, "delta": delta, "promised": 1.0 - delta},
                    **{"share": 1.0 - failure, "detects": record.number(f"share_{delta:g}")},
                    "contradicted": not failure <= delta + _ROUNDING,
                }
            )
        held, count = int(record.number("held")), int(record.number("count"))
        chance = binomial_p(held, count, 1.0 - NOISE_DELTA, "less")
        lines.append(
            {
                **{"setting": "GP that fits noise", "rows": n, "delta": NOISE_DELTA, "promised": 1.0 - NOISE_DELTA},
                **{"share": held / count, "detects": record.number("share_kl")},
                **{"contradicted": chance < LEVEL, "without_kl": record.number("held_without_kl") / count},
                "count": count,
            }
        )
    return pd.DataFrame(lines)


def write_power(report: Report[CoverageSettings], table: pd.DataFrame) -> None:
    """Write the table, with what each of its rows can detect."""
    columns = {
        "delta": "δ",
        "share": "probability that the bound holds",
        "detects": "detects a penalty below this share of the right one",
        "without_kl": "share without the KL",
        "contradicted": "contradicts the bound",
        "count": "data sets",
    }
    caption = (
        "Settings in which a wrong bound fails. Prior = posterior: the least probability over all risks against "
        "the exact binomial limits. The penalty is the confidence term. GP that fits noise: simulated. The "
        f"penalty is the KL. Contradicted: a right bound holds so rarely with probability below {LEVEL:g}. "
        "An unnecessarily large bound shows in no column"
    )
    report.table(table, "coverage_power", caption, columns)


def power_statistic(table: pd.DataFrame) -> Statistic:
    """Return in how many settings with power the bound does not hold."""
    wrong = int(table["contradicted"].sum())
    least, most = table["detects"].min(), table["detects"].max()
    note = f"detects penalties below {least:.2f} to {most:.2f} of the right ones"
    return Statistic(VIOLATIONS, float(wrong), n=len(table), note=note)


NODES = 200  # Gauss-Legendre nodes over the domain. The integrand is smooth


def run(task: Task[CoverageTask], shared: SharedWork) -> Outcome:
    """Train on every data set of the batch. Compare its bounds with its true risk."""
    params = task.params
    sample = kernel_regression(
        np.random.default_rng(params.seed),
        (params.count, params.rows),
        function=TRUTH,
        noise="gaussian",
        noise_scale=params.noise_scale,
        domain=DOMAIN,
    )
    pairs = [_bounds_and_risk(X, y, params) for X, y in zip(sample.X, sample.y, strict=True)]
    bounds, risks = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    held = (risks[:, None] <= bounds).sum(axis=0)
    metrics = {f"held_{delta:g}": int(count) for delta, count in zip(params.deltas, held, strict=True)}
    means = {"mean_bound": float(bounds[:, 0].mean()), "mean_risk": float(risks.mean())}
    return Outcome(
        {"count": params.count, **metrics, **means},
        arrays={"bounds": bounds, "risks": risks},
        headline=f"{held[0]} of {params.count} held",
    )


def _bounds_and_risk(X: FloatArray, y: FloatArray, params: CoverageTask) -> tuple[list[float], float]:
    """Return the bound at every delta, and the true Gibbs risk of the trained posterior."""
    loss, deltas, options = BandLoss(params.epsilon), params.deltas, params.method
    method = risk_method(options)
    work = Training(X, y, options, False, deltas[0], params.max_evaluations, params.seed)
    fit = method.train(work, loss)
    rounded = PAPER_GRID.rounded(fit.hyperparameters)
    posterior = method.certify(options, rounded, X, y, fit)
    found, counted = RiskAndKL(gibbs_risk(posterior, loss), posterior.kl), rounded.n_kernel
    bounds = [certify(found, Terms(len(y), counted, delta)).bound_kl for delta in deltas]
    return bounds, true_gibbs_risk(posterior, params.epsilon, params.noise_scale)


def true_gibbs_risk(posterior: Posterior, epsilon: float, noise_scale: float) -> float:
    """Return P(|y - f(x)| > epsilon) over new x, y and f drawn from the posterior, exact up to quadrature.

    For Gaussian noise y - f is N(truth - mean, variance + noise_scale^2) at every x; x is integrated by
    Gauss-Legendre quadrature over its uniform distribution.
    """
    nodes, weights = roots_legendre(NODES)
    half = 0.5 * (DOMAIN[1] - DOMAIN[0])
    x = DOMAIN[0] + half * (nodes + 1.0)
    mean, variance = posterior.predict(x[:, None])
    loss = BandLoss(epsilon).expected(FUNCTIONS[TRUTH](x), mean, variance + noise_scale**2)
    return float(0.5 * weights @ loss)


def draw(report: Report[CoverageSettings], points: pd.DataFrame) -> None:
    """Draw each data set's bound against its true risk, one panel per method. The bound holds above the diagonal."""
    delta, edge = report.settings.deltas[0], 1.05 * float(max(points["bound"].max(), points["risk"].max()))
    size = (4.2 * len(report.titles), 4.8)
    with report.figure("coverage", columns=len(report.titles), size=size, sharey=True, sharex=True) as drawing:
        for ax, (name, title) in zip(drawing.axes, report.titles.items(), strict=True):
            part = points[points["method"] == name]
            held = int((part["bound"] >= part["risk"]).sum())
            ax.plot(part["risk"], part["bound"], ".", ms=3, alpha=0.25, color=method_style(name)["color"])
            ax.plot([0, edge], [0, edge], color=LIMIT, linestyle="--", label="bound = risk")
            ax.set_title(f"{title}: held in {held} of {len(part)} sets")
            ax.set_xlim(0.0, edge)
            ax.set_ylim(0.0, edge)
        drawing.legend("below")
        drawing.name_axes("true Gibbs risk (probability)", f"upper bound, δ = {delta:g} (probability)")
        drawing.data = points


POWER = "what a wrong bound would do is in the table coverage_power"


def summarise(report: Report[CoverageSettings]) -> list[Statistic]:
    """Write the table of shares with their intervals and the figure of bounds against true risks."""
    import pandas as pd

    settings, titles = report.settings, report.titles
    power = power_table(report.records(part="power"))
    records = [record for record in report.records() if "part" not in record.axes]
    table = pd.DataFrame([row for name in titles for row in _shares(name, records, settings.deltas)])
    labels = {
        "delta": "δ",
        "share": "share of data sets in which the bound holds",
        "held": "held",
        "count": "data sets",
    }
    data = f"y = sin(2x) + N(0, {settings.noise_scale:g}²), {settings.rows} rows"
    caption = (
        f"{data}, ε = {settings.epsilon:g}; {CLOPPER_PEARSON}. Bounds this loose hold even without their KL: {POWER}"
    )
    shown = table.assign(method=table["method"].map(titles))
    report.table(shown, "coverage", caption, labels)
    points = pd.DataFrame(
        [
            {"method": record.axes["method"], "risk": risk, "bound": bounds[0]}
            for record in records
            for risk, bounds in zip(record.arrays["risks"], record.arrays["bounds"], strict=True)
        ]
    )
    draw(report, points)
    write_power(report, power)
    return [*_statistics(table), power_statistic(power)]


def _shares(name: str, records: Sequence[Record], deltas: Sequence[float]) -> Iterator[dict[str, Any]]:
    mine = [record for record in records if record.axes["method"] == name]
    count = sum(int(record.number("count")) for record in mine)
    for delta in deltas if count else ():
        held = sum(int(record.number(f"held_{delta:g}")) for record in mine)
        share = proportion(held, count)
        yield {
            **{"method": name, "delta": delta, "promised": 1 - delta, "share": share.value},
            **{"interval_low": share.low, "interval_high": share.high, "held": held, "count": count},
        }


def _statistics(table: pd.DataFrame) -> list[Statistic]:
    return [
        Statistic.of(
            statistic_name("coverage", method=row["method"], delta=row["delta"]),
            proportion(row["held"], row["count"]),
            note=f"{row['held']} of {row['count']} held",
        )
        for row in table.to_dict("records")
    ]


EXPERIMENTS.register("pac_bayes/coverage")(
    Experiment(
        CoverageSettings,
        plan,
        {CoverageTask: run, PowerTask: run_power},
        summarise,
        method_traits=(RISK_BOUND, FULL, BOUND),
        model_keys=(),
        published=every_array,
    )
)
