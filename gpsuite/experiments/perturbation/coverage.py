"""perturbation/coverage: exactness for all models, groups and noises, and what breaks it (Csáji and Kis 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.generators.classes import lssvm_classes
from gpsuite.data.generators.regression import NOISES, draw_noise
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
from gpsuite.experiments.perturbation.coverage_models import BREAKS, GROUPS, MODELS, draw_inputs
from gpsuite.experiments.perturbation.linear_models import drawn_together
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, filled, one_of, unique
from gpsuite.experiments.tasks import OPTIONAL, named, take
from gpsuite.methods.perturbation.quadratic import LinearLSSVM
from gpsuite.methods.perturbation.ranks import ranks_of_noise, simulated_ranks
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.palette import COLOURS
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import proportion
from gpsuite.statistics.significance import binomial_p, bonferroni_p, chi_square_p, holm

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


pair_of_level = Rule(
    lambda level: len(level) == 2 and 0 < level[0] < level[1],
    "must be pairs [q, m] with 0 < q < m. The confidence is 1 - q/m",
)
distinct_levels = Rule(lambda levels: len(set(map(tuple, levels))) == len(levels), "has a pair twice")


@dataclass
class CoverageSettings:
    """Settings of the coverage study.

    Attributes:
        models: models to test.
        noises: noises to test. A cell exists for every group that does not change the noise's distribution.
        groups: groups that perturb the noise.
        breaks: assumptions to violate, to show what follows.
        rows: data in each simulated data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients per cell, each with an equal share of the repetitions.
        repetitions: simulated data sets per cell.
        levels: pairs [q, m]: the confidence is 1 - q/m.
    """

    models: Annotated[list[Annotated[str, one_of(MODELS)]], filled, unique]
    noises: Annotated[list[Annotated[str, one_of(NOISES)]], unique]
    groups: Annotated[list[Annotated[str, one_of(GROUPS)]], filled, unique]
    breaks: Annotated[list[Annotated[str, one_of(BREAKS)]], unique]
    rows: Annotated[int, at_least(6)]
    noise_scale: Positive
    designs: Count
    repetitions: Annotated[int, drawn_together]
    levels: Annotated[list[Annotated[list[int], pair_of_level]], filled, distinct_levels]

    def check(self) -> None:
        """Refuse designs without a repetition."""
        enough = self.repetitions >= self.designs
        allowed = f"must be at least the number of designs, {self.designs}"
        require(enough, "repetitions", self.repetitions, allowed)

    @property
    def compared(self) -> dict[int, list[int]]:
        """M -> its q, both ascending."""
        grid: dict[int, list[int]] = {}
        for q, m in sorted(self.levels, key=lambda level: (level[1], level[0])):
            grid.setdefault(m, []).append(q)
        return grid


def suits(noise: str, group: str) -> bool:
    """Return whether a group does not change the distribution of a noise (assumption A3)."""
    law = NOISES[noise]
    needs = {
        "signs": law.signs,
        "permutations": law.permutations,
        "signed_permutations": law.signs and law.permutations,
    }
    return needs[group]


VERSION = 1
EXACT, BROKEN, REFUSALS = "exact", "broken", "refusals"
FIXED_DESIGNS = ("fixed", "repeated")  # only noise and perturbations are drawn again


@dataclass(frozen=True)
class CoverageTask:
    """Ranks of true coefficients over simulated data sets.

    Attributes:
        model: key of `MODELS`.
        noise: key of `NOISES`.
        group: key of `GROUPS`.
        rows: data in each data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients.
        repetitions: simulated data sets.
        compared: every m.
        seed: of all that is drawn.
        broken: key of `BREAKS`, or None if coverage must be exact.
        design: how the inputs arise, see `Break`.
        break_ties: whether the tie-breaking permutation is used.
        kind: of task.
    """

    model: str
    noise: str
    group: str
    rows: int
    noise_scale: float
    designs: int
    repetitions: int
    compared: Sequence[int]
    seed: int
    broken: str | None = field(default=None, metadata={**OPTIONAL, **named("break")})
    design: str = "fixed"
    break_ties: bool = True
    kind: str = "perturbation_coverage"

    @property
    def cost(self) -> float:
        """Estimated CPU seconds."""
        if self.design in FIXED_DESIGNS:
            return 3e-8 * self.repetitions * self.rows * sum(self.compared)
        return 5e-4 * self.repetitions


@dataclass(frozen=True)
class RefusalsTask:
    """Regions of every m are requested at inadmissible q."""

    compared: Sequence[int]
    kind: str = "perturbation_refusals"


def plan(request: Request[CoverageSettings]) -> list[Task[object]]:
    """Return one task per cell, exact or broken, and one that requests inadmissible q."""
    settings = request.settings
    refusals = request.task(
        RefusalsTask(list(settings.compared)),
        label="inadmissible q",
        axes={"part": REFUSALS, "model": "", "noise": "", "group": "", "break": ""},
        version=VERSION,
        cost=0.1,
    )
    return [*(_task(request, cell) for cell in _cells(request)), refusals]


def _cells(request: Request[CoverageSettings]) -> Iterator[CoverageTask]:
    settings = request.settings
    for model in settings.models:
        for group in settings.groups:
            for noise in settings.noises:
                if suits(noise, group):
                    yield _cell(request, model, noise, group)
    for name in settings.breaks:
        broken = BREAKS[name]
        for model in broken.models or MODELS:
            if model in settings.models:
                yield _cell(request, model, broken.noise, broken.group, name)


def _cell(
    request: Request[CoverageSettings], model: str, noise: str, group: str, broken: str | None = None
) -> CoverageTask:
    settings = request.settings
    return take(
        CoverageTask,
        settings,
        model=model,
        noise=noise,
        group=group,
        compared=list(settings.compared),
        seed=derived_seed(request.seed, "coverage", broken or "", model, noise, group),
        broken=broken,
        design=BREAKS[broken].design if broken else "fixed",
        break_ties=BREAKS[broken].break_ties if broken else True,
    )


def _task(request: Request[CoverageSettings], cell: CoverageTask) -> Task[CoverageTask]:
    broken = f" ({cell.broken})" if cell.broken else ""
    return request.task(
        cell,
        label=f"{MODELS[cell.model].title}  {cell.noise}, {cell.group}{broken}",
        axes={
            "part": BROKEN if cell.broken else EXACT,
            "model": cell.model,
            "noise": cell.noise,
            "group": cell.group,
            "break": cell.broken or "",
        },
        version=VERSION,
        cost=cell.cost,
    )


CLASS_CENTRE = np.array([1.0, 0.5])  # of label 1 in `lssvm_classes`
ENDOGENOUS = 0.5  # share of the noise that enters the input
AUTOREGRESSION = 0.9  # y_t = 0.9 y_{t-1} + e_t


def run_refusals(task: Task[RefusalsTask], shared: SharedWork) -> Outcome:
    """Count the inadmissible q that are not refused."""
    return Outcome({"accepted": accepted_levels(task.params.compared)}, headline="q outside 0 < q < m")


def run_coverage(task: Task[CoverageTask], shared: SharedWork) -> Outcome:
    """Count the ranks 1..m of the true coefficients for every m of the cell."""
    cell = task.params
    ranks_of = _fixed_ranks if cell.design in FIXED_DESIGNS else _varying_ranks
    counts = {}
    for m in cell.compared:
        ranks = ranks_of(cell, m, stream(cell.seed, "m", m))
        counts[f"ranks_{m}"] = np.bincount(ranks, minlength=m + 1)[1:]
    first = next(iter(counts.values()))
    mean = float(first @ np.arange(1, len(first) + 1)) / float(first.sum())
    expected = (len(first) + 1) / 2
    return Outcome({"repetitions": cell.repetitions}, arrays=counts, headline=f"mean rank {mean:.2f} ({expected:g})")


def _fixed_ranks(cell: CoverageTask, m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks over designs that are fixed while noise and perturbations are drawn again."""
    found = []
    for share in np.array_split(np.arange(cell.repetitions), cell.designs):
        X = draw_inputs(rng, cell.rows, cell.design == "repeated")
        model = MODELS[cell.model]
        objective = model.objective(X)
        truth = model.draw_truth(rng, objective.design.shape[1])
        size = (len(share), cell.rows)
        noise = draw_noise(rng, cell.noise, size, inputs=X[:, 0], scale=cell.noise_scale)
        found.append(simulated_ranks(objective, truth, noise, GROUPS[cell.group], m, rng, cell.break_ties))
    return np.concatenate(found)


def _varying_ranks(cell: CoverageTask, m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks where the inputs are drawn with the noise: linear models, one data set after the other."""
    X, noise, truth = DESIGNS[cell.design](rng, cell.repetitions, cell.rows, cell.noise_scale)
    drawn = GROUPS[cell.group]
    found = [
        ranks_of_noise(LinearLSSVM(x, 1.0, bias=False), truth, e[None], drawn.draw(len(e), m, rng))
        for x, e in zip(X, noise, strict=True)
    ]
    return np.concatenate(found)


def labelled(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 2] of two Laplace classes, residuals of their labels y = +-1, and the best coefficients.

    The coefficients are E[xx']^-1 E[xy] of the whole distribution. The clouds have twice the scale.
    """
    drawn, centre, spread = (lssvm_classes(rng, (repetitions, rows), scale=2.0 * scale), CLASS_CENTRE, 2.0 * scale)
    best = np.linalg.solve(np.outer(centre, centre) + 2.0 * spread**2 * np.eye(2), centre)
    return drawn.X, drawn.y - drawn.X @ best, best


def endogenous(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] that hold a part of the noise, Laplace noise [R, n], and the coefficient 1."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = rng.uniform(-1.0, 1.0, (repetitions, rows)) + ENDOGENOUS * noise
    return X[..., None], noise, np.ones(1)


def autoregressive(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] with x_t = y_{t-1}, y_t = 0.9 y_{t-1} + e_t from 0, Laplace noise [R, n], and 0.9."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = np.zeros((repetitions, rows))
    for t in range(1, rows):
        X[:, t] = AUTOREGRESSION * X[:, t - 1] + noise[:, t - 1]
    return X[..., None], noise, np.full(1, AUTOREGRESSION)


DESIGNS = {"labels": labelled, "endogenous": endogenous, "autoregression": autoregressive}


def accepted_levels(compared: Sequence[int]) -> int:
    """Return how many of q = -1, 0, m and m + 1 a region of each m accepts. None should be."""
    accepted = 0
    for m in compared:
        rng = np.random.default_rng(0)
        X = draw_inputs(rng, 6)
        drawn = GROUPS["signs"].draw(len(X), m, rng)
        for q in (-1, 0, m, m + 1):
            try:
                ConfidenceRegion(LinearLSSVM(X, 1.0), X[:, 0], drawn, q)
            except ValueError:
                continue
            accepted += 1
    return accepted


SEEN = 7000  # repetitions that show a departure of 0.02 from any coverage: the 99.9 % interval is narrower
STRICT = 0.001  # level of the tests of coverage: the published one of 99.9 %


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Counts of ranks of one cell and m.

    Attributes:
        model: key of `MODELS`.
        noise: key of `NOISES`.
        group: key of `GROUPS`.
        broken: key of `BREAKS`. Empty if coverage must be exact.
        counts: [m], how often the rank was 1..m.
        excluded: q of each level, ascending.
    """

    model: str
    noise: str
    group: str
    broken: str
    counts: IntArray
    excluded: Sequence[int]

    @property
    def m(self) -> int:
        """Number of compared values."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """Number of repetitions."""
        return int(self.counts.sum())

    def inside(self, q: int) -> int:
        """Return in how many repetitions the true coefficients were in the region."""
        return int(self.counts[: self.m - q].sum())

    def p_value(self, q: int) -> float:
        """Return the p value of the exact two-sided binomial test of coverage 1 - q/m."""
        return binomial_p(self.inside(q), self.total, (self.m - q) / self.m)

    def bins(self) -> tuple[IntArray, FloatArray]:
        """Return counts between the levels and their expected values."""
        edges = [0, *sorted(self.m - q for q in self.excluded), self.m]
        widths = np.diff(edges)
        return np.add.reduceat(self.counts, edges[:-1]), self.total * widths / self.m


def pooled_p_value(cells: Sequence[RankCounts]) -> tuple[float, int]:
    """Return the p value and degrees of freedom of one chi^2 test of all counts between levels. Cells independent."""
    return chi_square_p(cell.bins() for cell in cells)


def uniformity_p_value(cells: Sequence[RankCounts]) -> tuple[float, int]:
    """Return the p value and degrees of freedom of one chi^2 test of all ranks being uniform on 1..m."""
    return chi_square_p((cell.counts, np.full(cell.m, cell.total / cell.m)) for cell in cells)


def not_rejected(p_values: Sequence[float], level: float) -> list[bool]:
    """Return which hypotheses Holm's procedure keeps at a family-wise level."""
    return [not rejected for rejected in holm(p_values, level)]


def departs(cells: Sequence[RankCounts]) -> bool:
    """Return whether any level's coverage has a p value below 0.1 % over the number of levels."""
    return _together(cells) < STRICT


def _without_departure(cells: Sequence[RankCounts]) -> bool | None:
    """Return False if the repetitions would show a departure of 0.02, otherwise None: an open cell."""
    return False if min(cell.total for cell in cells) >= SEEN else None


def statistics(cells: Sequence[RankCounts], needed: Mapping[str, str], accepted: int, tried: int) -> list[Statistic]:
    """Return the statistics that conf/paper names.

    Args:
        cells: of all models, exact and broken.
        needed: names in `RankCounts.broken` that the statement about the assumptions is about -> the assumption.
        accepted: inadmissible q that were not refused.
        tried: how many were tried.
    """
    found = [Statistic("violations_inadmissible_q", accepted, n=tried)]
    exact = [cell for cell in cells if not cell.broken]
    if exact:
        found += _exactness(exact)
    broken = _grouped([cell for cell in cells if cell.broken in needed])
    if broken:
        found.append(
            claim("share_departures_when_broken", [departs(group) or _without_departure(group) for group in broken])
        )
    return found


def _exactness(cells: Sequence[RankCounts]) -> list[Statistic]:
    stated = not_rejected([cell.p_value(q) for cell in cells for q in cell.excluded], STRICT)
    noises = _grouped(cells, ("noise", "model"))
    smallest = [_together(group) for group in noises]
    pooled, freedom = pooled_p_value(cells)
    uniform, more = uniformity_p_value(cells)
    repetitions = sum(cell.total for cell in cells)
    return [
        claim("share_coverage_as_stated", stated),
        Statistic("coverage_pooled_p_value", pooled, n=repetitions, note=f"{freedom} degrees of freedom"),
        claim("share_noises_with_exact_coverage", not_rejected(smallest, STRICT)),
        Statistic("rank_uniformity_p_value", uniform, n=repetitions, note=f"{more} degrees of freedom"),
    ]


def _together(cells: Sequence[RankCounts]) -> float:
    """Return the p value of all levels together."""
    return bonferroni_p([cell.p_value(q) for cell in cells for q in cell.excluded])


def _grouped(cells: Sequence[RankCounts], by: Sequence[str] = ("broken", "model")) -> list[list[RankCounts]]:
    groups: dict[tuple[str, ...], list[RankCounts]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, name) for name in by), []).append(cell)
    return list(groups.values())


TITLES = {"signs": "sign changes", "permutations": "permutations", "signed_permutations": "signed permutations"}


def draw(report: Report[CoverageSettings], exact: pd.DataFrame, broken: pd.DataFrame) -> None:
    """Draw coverage minus 1 - q/m: exact cells by group on the left, broken ones by assumption on the right."""
    import pandas as pd

    with report.figure("coverage", columns=2, size=(13.0, 5.8)) as drawing:
        left, right = drawing.axes
        if len(exact):
            _pooled(left, exact.assign(kind=exact["group"].map(TITLES)))
        left.set_title("assumptions hold: cells, groups with 95 % intervals")
        if len(broken):
            _rows(right, broken.assign(kind=broken["broken"]))
        left.set_xlabel("nominal coverage 1 - q/m (probability)")
        left.set_ylabel("measured coverage - (1 - q/m)")
        for ax, count, title in ((left, 3, ""), (right, 5, "nominal coverage 1 - q/m")):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=count, title=title or None)
        data = pd.concat([exact, broken], ignore_index=True)
        drawing.data = data.drop(columns="assumption", errors="ignore")


def _pooled(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw cells as small dots, and each group's cells of a level together with their interval."""
    places = [-0.012, 0.0, 0.012]  # one a group
    for number, (kind, part) in enumerate(frame.groupby("kind", sort=False)):
        colour = COLOURS[number]
        ax.plot(
            part["nominal"] + places[number], part["coverage"] - part["nominal"], ".", ms=2, color=colour, alpha=0.4
        )
        for nominal, level in part.groupby("nominal"):
            total = int(level["n"].sum())
            inside = int((level["coverage"] * level["n"]).round().sum())
            found, place = proportion(inside, total), float(str(nominal)) + places[number]
            label = str(kind) if nominal == part["nominal"].min() else "_"
            ends = [[found.value - found.low], [found.high - found.value]]
            ax.errorbar(
                [place], [found.value - float(str(nominal))], ends, fmt="D", ms=4, color=colour, label=label, capsize=4
            )
    ax.axhline(0.0, color="0.3", lw=1.0)


def _rows(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw one row per missing assumption: each cell's deviation with its interval, coloured by its nominal level."""
    kinds, levels = list(dict.fromkeys(frame["kind"])), sorted(set(frame["nominal"].round(6)))
    step = 0.8 / max(len(levels), 1)
    for number, level in enumerate(levels):
        colour, place = COLOURS[number % len(COLOURS)], step * (number - (len(levels) - 1) / 2)
        for row, kind in enumerate(kinds):
            part = frame[(frame["kind"] == kind) & (frame["nominal"].round(6) == level)]
            ends = np.array([part["coverage"] - part["low"], part["high"] - part["coverage"]])
            label = f"{level:g}" if row == 0 else "_"
            ax.errorbar(
                part["coverage"] - part["nominal"],
                np.full(len(part), row + place),
                xerr=ends,
                fmt="o",
                ms=3,
                lw=0.7,
                capsize=0,
                color=colour,
                alpha=0.7,
                label=label,
            )
    ax.axvline(0.0, color="0.3", lw=1.0)
    for row in range(1, len(kinds)):
        ax.axhline(row - 0.5, color="0.85", lw=0.7)
    ax.set_yticks(range(len(kinds)), kinds)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("measured coverage - (1 - q/m)")
    ax.set_title("an assumption broken, by which, 95 % intervals")


LABELS = {
    "broken": "what is broken",
    "low": "95 % interval from",
    "high": "to",
    "n": "repetitions",
    "p_value": "p value",
}


def summarise(report: Report[CoverageSettings]) -> list[Statistic]:
    """Write coverage of every exact and every broken cell, with intervals. Draw both against 1 - q/m."""
    compared = report.settings.compared
    refusals = report.records(part=REFUSALS)
    tested = [*report.records(part=EXACT), *report.records(part=BROKEN)]
    cells = [cell for record in tested for cell in _rank_counts(record, compared)]
    accepted = int(sum(record.number("accepted") for record in refusals))
    needed = {name: case.assumption for name, case in BREAKS.items() if case.needed}
    found = statistics(cells, needed, accepted, 4 * len(compared) * len(refusals))
    if cells:
        _write(report, coverage_table(cells))
    return found


def _rank_counts(record: Record, compared: dict[int, list[int]]) -> list[RankCounts]:
    model, noise, group, broken = (str(record.axes[axis]) for axis in ("model", "noise", "group", "break"))
    return [
        RankCounts(model, noise, group, broken, record.arrays[f"ranks_{m}"], excluded)
        for m, excluded in compared.items()
    ]


def coverage_table(cells: Sequence[RankCounts]) -> pd.DataFrame:
    """Return one row per cell and level: nominal and measured coverage with its exact 95 % interval."""
    import pandas as pd

    rows = []
    for cell in cells:
        for q in cell.excluded:
            found = proportion(cell.inside(q), cell.total)
            rows.append(
                {
                    "broken": cell.broken,
                    "model": MODELS[cell.model].title,
                    "noise": cell.noise,
                    "group": cell.group,
                    "q": q,
                    "m": cell.m,
                    "nominal": 1.0 - q / cell.m,
                    "coverage": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": cell.total,
                    "p_value": cell.p_value(q),
                }
            )
    return pd.DataFrame(rows)


def _write(report: Report[CoverageSettings], frame: pd.DataFrame) -> None:
    exact, broken = frame[frame["broken"] == ""], frame[frame["broken"] != ""]
    data = f"{report.settings.rows} data, {report.settings.repetitions} repetitions a cell"
    interval = "exact binomial 95 % intervals"
    if len(exact):
        caption = f"Coverage of the true coefficients where the assumptions hold; {data}; {interval}"
        report.table(exact.drop(columns="broken"), "coverage", caption, LABELS)
    if len(broken):
        broken = broken.copy()
        broken.insert(1, "assumption", [BREAKS[name].assumption for name in broken["broken"]])
        caption = f"Coverage where something exactness rests on is missing; {data}; {interval}"
        report.table(broken, "coverage_broken", caption, LABELS)
    draw(report, exact, broken)


EXPERIMENTS.register("perturbation/coverage")(
    Experiment(
        CoverageSettings,
        plan,
        {CoverageTask: run_coverage, RefusalsTask: run_refusals},
        summarise,
        parts=("repetitions", "models", "noises", "groups", "breaks"),
        model_keys=(),
        published=every_array,
    )
)
