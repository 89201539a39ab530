"""Coverage where a wrong bound fails: what the simulation of trained GPs, whose bounds are loose, cannot show.

Two settings. (1) Prior = posterior, a predictor that is right or wrong: the errors on n rows are binomial and the
largest probability of failure over all true risks is a finite sum. A kl inverse, a delta or a confidence term that is
off makes it exceed delta. (2) Targets that are noise, and a GP that fits them: what keeps the bound above the true risk
is the KL alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, roots_legendre, xlog1py, xlogy

from gpsuite.experiments.base import Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.methods.pac_bayes.bounds import certificates
from gpsuite.methods.pac_bayes.bounds.certificates import Terms
from gpsuite.methods.pac_bayes.bounds.kl_inverse import binary_kl
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.models.config import Hyperparameters
from gpsuite.reporting.comparison import Statistic
from gpsuite.seeds import derived_seed
from gpsuite.statistics.estimates import clopper_pearson
from gpsuite.statistics.significance import binomial_p

if TYPE_CHECKING:
    import pandas as pd


ROWS = (8, 12, 20, 30)


DELTAS = (0.5, 0.1, 0.01)


NOISE_DELTA = 0.5  # at which the GP that fits noise is certified


PRIOR = Hyperparameters(
    1.0, (0.1,), 0.1
)  # fits noise: without the KL its bound holds in 1 to 5 % of the data sets


EPSILON, HALF_WIDTH = 1.0, 2.0  # of the loss, and of the inputs' uniform distribution


NODES = 200


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
    excess = n * binary_kl(risk, true) - certificates.penalty(0.0, Terms(n, 0, NOISE_DELTA)).total
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

    The number of errors k is Binomial(n, risk); as a function of the risk the probability is largest just beyond one of
    the n + 1 bounds.
    """
    terms = Terms(n, 0, delta)
    found = [certificates.certify(RiskAndKL(k / n, 0.0), terms) for k in range(n + 1)]
    upper = np.array([each.bound_kl for each in found])
    lower = np.array([each.lower_kl for each in found])
    ends = np.concatenate([upper, lower])
    k = np.arange(n + 1)
    choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chances = np.exp(choices + xlogy(k, ends[:, None]) + xlog1py(n - k, -ends[:, None]))
    above = np.concatenate([np.ones(n + 1, dtype=bool), np.zeros(n + 1, dtype=bool)])[:, None]
    ends = ends[:, None]
    # just above an upper bound that bound fails, just below a lower one that one does; 0 and 1 are no way out
    failed = np.where(above, (upper <= ends) | (lower > ends), (lower >= ends) | (upper < ends))
    inside = np.where(above, ends < 1.0, ends > 0.0)
    return float((chances * (failed & inside)).sum(axis=1).max())


def least_share(n: int, delta: float) -> float:
    """Return the smallest share of the penalty with which the upper bound would still hold: the setting's power.

    A bound holds for k of n errors if and only if it is at least the exact binomial one, u_k, so kl(k/n || u_k) / c is
    the share that k needs.
    """
    c = certificates.penalty(0.0, Terms(n, 0, delta)).per_point
    exact = [clopper_pearson(k, n, 2.0 * delta)[1] for k in range(n)]
    return float(np.max(binary_kl(np.arange(n) / n, exact)) / c)


def fitted_noise(
    n: int, simulations: int, rng: np.random.Generator
) -> list[tuple[float, float, float, float, float]]:
    """Return bound, bound without the KL, training risk, true risk and KL of a GP that fits noise, per data set."""
    nodes, weights = roots_legendre(NODES)
    grid, loss = HALF_WIDTH * nodes[:, None], BandLoss(EPSILON)
    rows = []
    for _ in range(simulations):
        X, y = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n, 1)), rng.standard_normal(n)
        posterior = FullGPPosterior.fit(PRIOR, X, y)
        mean, variance = posterior.predict(grid)
        true = float(0.5 * weights @ loss.expected(np.zeros(NODES), mean, variance + 1.0))
        risk = posterior.gibbs_risk(loss)
        terms, kls = Terms(n, 0, NOISE_DELTA), (posterior.kl, 0.0)
        bounds = [certificates.certify(RiskAndKL(risk, kl), terms).bound_kl for kl in kls]
        rows.append((bounds[0], bounds[1], risk, true, posterior.kl))
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
                    **{
                        "setting": "prior = posterior, exact",
                        "rows": n,
                        "delta": delta,
                        "promised": 1.0 - delta,
                    },
                    **{"share": 1.0 - failure, "detects": record.number(f"share_{delta:g}")},
                    "contradicted": not failure <= delta + _ROUNDING,
                }
            )
        held, count = int(record.number("held")), int(record.number("count"))
        chance = binomial_p(held, count, 1.0 - NOISE_DELTA, "less")
        lines.append(
            {
                **{
                    "setting": "GP that fits noise",
                    "rows": n,
                    "delta": NOISE_DELTA,
                    "promised": 1.0 - NOISE_DELTA,
                },
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
        "Where a wrong bound fails. Prior = posterior: the least probability over all true risks, a finite sum, held "
        "against the exact binomial limits; the penalty is the confidence term. GP that fits noise: simulated; the "
        f"penalty is the KL; contradicted: a right bound holds so rarely with probability below {LEVEL:g}. "
        "What makes a bound larger than it need be shows in neither"
    )
    report.table(table, "coverage_power", caption, columns)


def power_statistic(table: pd.DataFrame) -> Statistic:
    """Return in how many settings with power the bound does not hold."""
    wrong = int(table["contradicted"].sum())
    least, most = table["detects"].min(), table["detects"].max()
    note = f"detects penalties below {least:.2f} to {most:.2f} of the right ones"
    return Statistic(VIOLATIONS, float(wrong), n=len(table), note=note)
