"""pac_bayes/predictive_snelson: what the accuracy goal does to predictions (Fig. 1, App. E of Reeb et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import (
    EXPERIMENTS,
    METHODS,
    Experiment,
    MethodOptions,
    Record,
    Request,
    Task,
    require,
)
from gpsuite.experiments.pac_bayes.frames import dataset_statistics
from gpsuite.experiments.pac_bayes.methods import FullGPOptions
from gpsuite.experiments.pac_bayes.predictive_figure import LABELS, draw
from gpsuite.experiments.pac_bayes.predictive_fits import run
from gpsuite.experiments.pac_bayes.settings import AGREEMENT, check_epsilon, request_dataset
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd

GOALS = ("small", "middle", "large")
PAC = "kl_pac_sgp"
CHOSEN = "ε and M were chosen to match the printed KL/n, so agreement is no independent check"
MOVES_LEAST = "Z moves least at the largest of them"
SHOWN = ("kl_over_n", "bound_kl", "gibbs_risk_train", "noise_std", "lengthscale", "variance", "displacement",
         "roughness", "share_as_good")  # fmt: skip
TABLE_LABELS = {
    "goal": "goal",
    "epsilon": "ε (units of y)",
    "inducing": "M",
    "kl_over_n": "KL/n (nats)",
    "published_kl_over_n": "KL/n in the paper",
    "bound_kl": "upper bound B_kl",
    "gibbs_risk_train": "Gibbs training risk",
    "noise_std": "noise σ (units of y)",
    "lengthscale": "lengthscale (units of x)",
    "variance": "signal variance",
    "displacement": "mean way of Z from its start (units of x)",
    "roughness": "∫ (mean'')² dx",
    "share_as_good": "share of starts that end as low",
}


@dataclass
class Goals:
    """One number for each of the three plots of Fig. 1, from left to right."""

    small: float
    middle: float
    large: float


@dataclass
class PredictiveSettings:
    """Settings of the predictive distributions; nothing is standardised, so all widths are in units of y.

    Attributes:
        epsilons: accuracy goals of the three plots.
        inducing: number M of inducing inputs of every sparse method.
        starts: k-means clusterings to start from; the first of those whose objective ends lowest is kept.
        published_kl_over_n: what the paper prints for the three plots; the scan is held against it.
        scan_epsilons: accuracy goals at which kl-PAC-SGP is trained besides, to look for the lost settings.
        scan_inducing: numbers M of the same scan.
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per start.
    """

    epsilons: Goals = field(default_factory=lambda: Goals(0.141, 0.282, 1.41))
    inducing: int = 8
    starts: int = 10
    published_kl_over_n: Goals = field(default_factory=lambda: Goals(0.097, 0.109, 0.031))
    scan_epsilons: list[float] = field(default_factory=lambda: [0.141, 0.282, 1.41])
    scan_inducing: list[int] = field(default_factory=lambda: [8])
    delta: float = 0.01
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse impossible values."""
        goals = self.epsilons
        for name in GOALS:
            check_epsilon(f"epsilons.{name}", getattr(goals, name))
            check_epsilon(f"published_kl_over_n.{name}", getattr(self.published_kl_over_n, name))
        rising = goals.small < goals.middle < goals.large
        require(rising, "epsilons.middle", goals.middle, "must lie between epsilons.small and epsilons.large")
        for value in self.scan_epsilons:
            check_epsilon("scan_epsilons", value)
        for count in (self.inducing, *self.scan_inducing):
            require(count >= 1, "inducing and scan_inducing", count, "must be 1 or more")
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
        for name in ("starts", "max_evaluations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")


def plan(request: Request) -> list[Task]:
    """Return one task per method and plotted goal, and one per further cell of the scan."""
    return list(_tasks(request, request.settings))


def _tasks(request: Request, settings: PredictiveSettings) -> Iterator[Task]:
    plotted = list(asdict(settings.epsilons).values())
    for name, options in request.methods.items():
        inducing = 0 if isinstance(options, FullGPOptions) else settings.inducing
        for epsilon in plotted:
            yield _task(request, settings, name, options, inducing, epsilon)
    if PAC in request.methods:
        cells = {(count, goal) for count in settings.scan_inducing for goal in settings.scan_epsilons}
        for inducing, epsilon in sorted(cells - {(settings.inducing, goal) for goal in plotted}):
            yield _task(request, settings, PAC, request.methods[PAC], inducing, epsilon)


def _task(
    request: Request,
    settings: PredictiveSettings,
    name: str,
    options: MethodOptions,
    inducing: int,
    epsilon: float,
) -> Task:
    method = {key: value for key, value in asdict(options).items() if key not in ("title", "reference")}
    if inducing:
        method["inducing"] = inducing
    shown = f"  M {inducing}" if inducing else ""
    return Task(
        experiment=request.experiment,
        label=f"{options.title}{shown}  epsilon {epsilon:g}",
        axes={"method": name, "inducing": inducing, "epsilon": epsilon},
        params={
            "kind": "predictive",
            "method": method,
            "epsilon": epsilon,
            "starts": settings.starts,
            "seed": request.seed,
            "ard": request.model.ard,
            "delta": settings.delta,
            "max_evaluations": settings.max_evaluations,
        },
        dataset=request_dataset(request),
        version=METHODS.get(options.builder).version,
        # a marginal likelihood does not know the goal: one training serves all goals
        group="" if options.builder == "pac_sgp" else name,
        cost=0.1 * settings.starts,
        budget_seconds=request.budget_seconds,
    )


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the table of the plots, the scan's table and the figure; return what the paper prints and says."""
    settings: PredictiveSettings = request.settings
    plots = plotted_records(records, settings)
    suffix = f" ({note})" if note else ""
    titles = {name: options.title for name, options in request.methods.items()}
    why = (
        "ε and M of the printed figure are lost in the text: these were chosen by a scan, as those whose KL/n come "
        "closest to the three printed values. ε is in units of y; nothing is standardised, all rows train. Bounds "
        f"hold with probability {1 - settings.delta:g} for an ε and M fixed in advance."
    )
    table = _plots_table(plots, settings)
    shown = table.assign(method=table["method"].map(titles))
    write_table(shown, folder / "tables", "predictive_snelson", f"{why}{suffix}", TABLE_LABELS)
    scan = scan_table(records, settings)
    if len(scan):
        printed = ", ".join(f"{value:g}" for value in asdict(settings.published_kl_over_n).values())
        heading = (
            f"kl-PAC-SGP: KL/n (nats) at every ε and M of the scan, and the rising ε closest to {printed}"
        )
        write_table(scan, folder / "tables", "predictive_snelson_scan", f"{heading}{suffix}")
    draw(request, plots, folder / "figures", note)
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
    labels = "; ".join(LABELS[name] for name in request.methods if name in LABELS)
    return [
        *dataset_statistics(request),
        *numbers,
        *claims(pac, _where_inputs_move_least(scan)),
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


def claims(pac: Mapping[str, Record], elsewhere: str = "") -> list[Statistic]:
    """Return the statistics that decide what Sec. 4(a) says, as far as the three goals' records are there.

    Args:
        pac: goal -> record of kl-PAC-SGP.
        elsewhere: what the scan says about the inducing inputs at other M, for the note.
    """
    if set(pac) != set(GOALS):
        return []
    kl, rough, way = (
        {goal: pac[goal].number(metric) for goal in GOALS}
        for metric in ("kl_over_n", "roughness", "displacement")
    )
    steps = [kl["middle"] > kl["small"], kl["small"] > kl["large"]]
    return [
        Statistic("share_kl_order_of_epsilons", sum(steps) / 2, n=2, note=f"{_listed(kl)}; {CHOSEN}"),
        Statistic("smoothest_at_largest_epsilon", _smallest_at_large(rough), n=3, note=_listed(rough)),
        Statistic(
            "inducing_inputs_move_least_at_largest_epsilon",
            _smallest_at_large(way),
            n=3,
            note="; ".join(part for part in (_listed(way), elsewhere) if part),
        ),
    ]


def _where_inputs_move_least(scan: pd.DataFrame) -> str:
    """Return for which M of the scan the inducing inputs move least at the largest of the closest epsilons."""
    if not len(scan):
        return ""
    held = [f"{row['M']}" for row in scan.to_dict("records") if row[MOVES_LEAST] == "yes"]
    return f"in the scan over {len(scan)} values of M it holds at M = {', '.join(held) or 'none'}"


def _smallest_at_large(values: Mapping[str, float]) -> float:
    return float(values["large"] < min(values["small"], values["middle"]))


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{goal} {value:.4g}" for goal, value in values.items())


def _plots_table(plots: Mapping[tuple[str, str], Record], settings: PredictiveSettings) -> pd.DataFrame:
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


def closest_triple(
    found: Mapping[float, float], printed: tuple[float, ...]
) -> tuple[tuple[float, ...], float]:
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


EXPERIMENTS.register("pac_bayes/predictive_snelson")(
    Experiment(
        PredictiveSettings,
        plan,
        run,
        summarise,
        builders=("pac_sgp", "full_gp", "sparse_gp"),
        agreement=AGREEMENT,
    )
)
