"""robustness/regression: how far a regression's prediction moves when inputs are known within so much only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Origin, QuantileQuantity, pack
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser, without_copies
from gpsuite.errors import UserError, unknown
from gpsuite.experiments.base import (
    BUDGET,
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
    only_arrays,
    require,
)
from gpsuite.experiments.robustness.classifiers import median_distance, numbers_of
from gpsuite.experiments.robustness.inputs import refuse_categories_alone, version_with
from gpsuite.experiments.robustness.methods import REGRESSOR
from gpsuite.experiments.robustness.records import (
    Certified,
    few_learnt_warnings,
    stored,
    timing_table,
    too_large,
    uncertified_warnings,
    write_certificates,
)
from gpsuite.experiments.robustness.tasks import ChosenPoints
from gpsuite.experiments.sentences import at_most
from gpsuite.experiments.settings import (
    Count,
    Positive,
    at_least,
    between,
    filled,
    increasing,
    require_one_output,
    unique,
)
from gpsuite.experiments.tasks import plain, take
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.regression import MEAN, QuantileRange, prediction_range
from gpsuite.methods.robustness.search.regions import Region, box
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLACK, BLUE, SKY
from gpsuite.rounding import rounded
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import mean
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from gpflow.models import GPR, SGPR

    from gpsuite.models.regression.gpflow_models import RegressionPosterior

START_NOISE = 0.1  # of a standardised target's variance
UNITS = 1e-14  # relative: what the change to the target's own units rounds
VERSION = 3  # raised when the numbers of a task change
ENDS = ("at the point", "lowest proved", "lowest", "highest", "highest proved")
CERTIFIED = ("lowest certified", "highest certified")
AGREEMENT = 1e-2  # the search of a sparse GP stops along flat directions


@dataclass
class RegressionSettings(ChosenPoints):
    """Settings of proved prediction ranges on any dataset with one target.

    Attributes:
        train_rows: training rows. Fewer where the test rows leave no more.
        test_rows: test rows.
        evaluations: largest number of evaluations of the marginal likelihood in training.
        uncertain: names of the inputs that are known only within `within`. Empty: all.
        within: amount per name of `uncertain`, in the input's units. Empty: `radius` for each.
        radius: amount in standard deviations of the input over the training rows.
        quantiles: levels of the predictive quantiles, next to the mean.
        tolerance: largest gap between attained and proved value, in standard deviations of the target.
        boxes: limit for all searches of a point, 0 gives no bound.
        certificates: whether to write a certificate for every point.
        certificate_boxes: limit per claim when a certificate is made. It then claims as much as it can prove.
        samples: points of each region at which the model itself is asked, to check the ranges.
    """

    train_rows: Annotated[int, at_least(2)]
    test_rows: Count
    evaluations: Count
    uncertain: Annotated[list[str], unique]
    within: list[Positive]
    radius: Positive
    quantiles: Annotated[list[Annotated[float, between(0, 1)]], filled, unique, increasing]
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    certificates: bool
    certificate_boxes: Count
    samples: Count

    def check(self) -> None:
        """Refuse amounts that belong to no input, and more test rows than there are."""
        fits = len(self.within) in (0, len(self.uncertain))
        require(fits, "within", self.within, f"one amount per input of uncertain={self.uncertain} is needed")
        self.refuse_absent_points(self.test_rows)


@dataclass(frozen=True)
class RegressionParams:
    """All that decides a trained regression except the dataset.

    Attributes:
        inducing: inducing inputs of the sparse model, 0 for the exact one.
        version: of the method.
        kernel: its name.
        ard: one lengthscale per input.
        noise_floor: exclusive lower bound of the noise variance.
        draw_seed: of the random choice of training and test rows. The same for every method. Further fields as in
            `RegressionSettings`.
    """

    inducing: int
    version: int
    kernel: str
    ard: bool
    noise_floor: float
    draw_seed: int
    evaluations: int
    train_rows: int
    test_rows: int

    @property
    def spec(self) -> ModelSpec:
        """The model's structure."""
        return ModelSpec(kernel=self.kernel, ard=self.ard, noise_floor=self.noise_floor)

    @property
    def name(self) -> str:
        """A name that no other regression on the same dataset has."""
        return json.dumps(plain(self), sort_keys=True)


@dataclass(frozen=True, eq=False)
class RegressionProblem:
    """Random rows of a dataset. Inputs and target standardised over the training rows.

    Attributes:
        X: training inputs, [N, D].
        y: training target, [N].
        X_test: test inputs, [T, D].
        y_test: test target, in its own units, [T].
        train_rows: row numbers in the dataset, [N].
        test_rows: as `train_rows`, [T].
        inputs: names, D.
        input_offset: what zero of each input is in its own units, [D].
        input_scale: what one unit of each input is in its own, [D].
        target: its name.
        target_offset: what zero of the target is in its own units.
        target_scale: what one unit is.
        level_inputs: `Dataset.level_inputs`.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    train_rows: IntArray
    test_rows: IntArray
    inputs: tuple[str, ...]
    input_offset: FloatArray
    input_scale: FloatArray
    target: str
    target_offset: float
    target_scale: float
    level_inputs: frozenset[str] = frozenset()

    def own_units(self, values: FloatArray, outward: FloatArray | float = 0.0) -> FloatArray:
        """Return values of the standardised target in its own units.

        Those with `outward` -1 are not above, those with 1 not below the exact ones, in spite of rounding.
        """
        own = self.target_offset + self.target_scale * values
        slack = UNITS * (abs(self.target_offset) + np.abs(np.where(np.isfinite(own), own, 0.0)))
        return np.asarray(own + outward * slack)


def read_regression(dataset: PreparedDataset, params: RegressionParams) -> RegressionProblem:
    """Return the rows that a model's parameters choose: the first of a random permutation are the test rows.

    Raises:
        UserError: if there are several targets or too few rows, or the target is constant.
    """
    data = load(dataset)
    require_one_output(data)
    n_test, least = params.test_rows, max(2, params.inducing)
    if 2 * params.inducing > len(data.X) and len(data.X) < n_test + least:
        left = max(len(data.X) - n_test, 0)
        fault = f"more inducing inputs than the {left} rows that test_rows={n_test} of {len(data.X)} leave to training"
        raise UserError(f"method.inducing={params.inducing}: {fault}\ntake fewer of one or both", key="method.inducing")
    if len(data.X) < n_test + least:
        fault = f"{data.name} has {len(data.X)} rows; {least} or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    order = stream(params.draw_seed, "rows").permutation(len(data.X))
    test = order[:n_test]
    train = without_copies(order[n_test:], test, data.groups)[: params.train_rows]
    if len(train) < least:
        fault = f"{len(train)} rows are no copies of test rows; {least} or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    if len(np.unique(data.y[train])) < 2:
        told = f"the {len(train)} rows to train on\ntake more (train_rows=), or others (seed=)"
        raise UserError(f"dataset.target: {data.target_names[0]} is constant in {told}", key="dataset.target")
    inputs, target = Standardiser.fit(data.X[train]), Standardiser.fit(data.y[train])
    return RegressionProblem(
        X=inputs.transform(data.X[train]),
        y=target.transform(data.y[train])[:, 0],
        X_test=inputs.transform(data.X[test]),
        y_test=data.y[test, 0],
        train_rows=train,
        test_rows=test,
        inputs=data.input_names,
        input_offset=inputs.mean,
        input_scale=inputs.scale,
        target=data.target_names[0],
        target_offset=float(target.mean[0]),
        target_scale=float(target.scale[0]),
        level_inputs=data.level_inputs,
    )


def trained_regression(
    dataset: PreparedDataset, params: RegressionParams, shared: SharedWork, seconds: float | None
) -> tuple[RegressionProblem, Hyperparameters, FloatArray]:
    """Return problem, hyperparameters and inducing inputs [M, D] (none for the exact model), trained once per group."""

    def attempt() -> tuple[RegressionProblem, Hyperparameters, FloatArray]:
        from gpsuite.models.tensorflow_setup import configure

        configure()  # before anything else imports TensorFlow
        from gpsuite.models.regression.gpflow_models import hyperparameters_of, maximise_likelihood

        problem = read_regression(dataset, params)
        lengthscale, D = median_distance(problem.X), problem.X.shape[1]
        start = Hyperparameters(1.0, (lengthscale,) * (D if params.ard else 1), START_NOISE)
        Z = np.zeros((0, D))
        if params.inducing:
            different = len(np.unique(problem.X, axis=0))
            Z = kmeans_inducing(problem.X, min(params.inducing, different), stream(params.draw_seed, "inducing"))
        model = build(problem, params.spec, start, Z)
        maximise_likelihood(model, shared.budget(seconds, evaluations=params.evaluations))
        if hasattr(model, "inducing_variable"):
            Z = np.asarray(model.inducing_variable.Z.numpy(), dtype=np.float64)
        return problem, _above_floor(hyperparameters_of(model), params.spec.noise_floor), Z

    return shared.once(f"regression {params.name}", attempt)


def _above_floor(found: Hyperparameters, floor: float) -> Hyperparameters:
    """Return the hyperparameters with a noise variance that a model takes: training may end on the floor itself."""
    return replace(found, noise_variance=max(found.noise_variance, float(np.nextafter(floor, np.inf))))


def build(problem: RegressionProblem, spec: ModelSpec, hyperparameters: Hyperparameters, Z: FloatArray) -> GPR | SGPR:
    """Return GPflow's model: sparse with inducing inputs, otherwise exact."""
    from gpsuite.models.regression.gpflow_models import build_gpr, build_sgpr

    if len(Z):
        return build_sgpr(problem.X, problem.y, Z, spec, hyperparameters)
    return build_gpr(problem.X, problem.y, spec, hyperparameters)


@dataclass(frozen=True)
class RangeTask:
    """Proved prediction ranges around a test point, with a certificate unless it may take no box.

    Attributes:
        model: the regression.
        point: number of the test row. Further fields as in `RegressionSettings`.
    """

    model: RegressionParams
    point: int
    uncertain: Sequence[str]
    within: Sequence[float]
    radius: float
    quantiles: Sequence[float]
    tolerance: float
    boxes: int
    certificate_boxes: int
    samples: int
    kind: str = "regression_range"


def plan(request: Request[RegressionSettings]) -> list[Task[object]]:
    """Return one task per method and point.

    The data are read here, so that wrong names are refused before any work.

    Raises:
        UserError: if an input does not exist, there are several targets or too few rows.
    """
    settings, dataset = request.settings, request.require_dataset()
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        model = _model(request, options)
        problem = read_regression(dataset, model)
        names = problem.inputs
        if not settings.uncertain:
            refuse_categories_alone(len(numbers_of(names, problem.level_inputs)))
        for name in settings.uncertain:
            if name not in names:
                raise unknown(f"uncertain={name}: no such input", name, names, "uncertain")
        for point in settings.chosen_points:
            boxes = settings.certificate_boxes if settings.certificates else 0
            own = take(RangeTask, settings, model=model, point=point, certificate_boxes=boxes)
            tasks.append(
                request.task(
                    own,
                    label=f"{options.title}  point {point}",
                    axes={"method": method, "point": point},
                    version=version_with(load(dataset), VERSION),
                    cost=1.0,
                    group=f"{dataset.name}/{model.name}",
                )
            )
    return tasks


def _model(request: Request[RegressionSettings], options: MethodOptions) -> RegressionParams:
    return take(
        RegressionParams,
        request.settings,
        **{name: value for name, value in options.params.items() if name != "builder"},
        version=options.method.version,
        kernel=request.model.kernel,
        ard=request.model.ard,
        noise_floor=request.model.noise_floor,
        draw_seed=derived_seed(request.seed, "draw", 0),
    )


def certify_ranges(
    task: Task[RangeTask],
    problem: RegressionProblem,
    posterior: RegressionPosterior,
    region: Region,
    ranges: Sequence[QuantileRange],
    budget: Budget,
) -> Certified:
    """Certify the ranges of all quantiles over a point's box.

    Arrays: the certificate, and certified [K, 2], the claimed lowest and highest values in the target's own units. NaN
    where nothing is claimed.
    """
    params = task.params
    fault = _no_certificate(posterior, problem, params.model.inducing > 0)
    if fault:
        return Certified({"uncertified": fault})
    origin = _origin(task, problem, posterior, region)
    certificate = certify(
        posterior.latent,
        region,
        [(QuantileQuantity(float(each.level)), end) for each in ranges for end in (each.minimum, each.maximum)],
        slack=1e-2,
        noise=posterior.noise_variance,
        most_boxes=params.certificate_boxes,
        budget=budget,
        origin=origin,
    )
    claimed = {(claim.quantity, claim.sign): claim.outer for claim in certificate.claims}
    ends = [[claimed.get((QuantileQuantity(float(each.level)), sign), np.nan) for sign in (-1, 1)] for each in ranges]
    certified = problem.own_units(np.array(ends), outward=np.array([-1.0, 1.0]))
    arrays = {"certified": certified, **stored(*pack(certificate))}
    return Certified({}, arrays, bool(certificate.search["out_of_time"]))


def _origin(
    task: Task[RangeTask], problem: RegressionProblem, posterior: RegressionPosterior, region: Region
) -> Origin:
    dataset, params, sparse = task.require_dataset(), task.params, task.params.model.inducing > 0
    return Origin(
        dataset=dataset.name,
        content=dataset.content_hash,
        row=int(problem.test_rows[params.point]),
        outputs=(problem.target,),
        inputs=tuple(problem.inputs[place] for place in region.free),
        inference="sparse" if sparse else "exact",
        rows=problem.train_rows.astype(np.int64),
        targets=problem.y,
        offset=problem.input_offset,
        scale=problem.input_scale,
        X=problem.X if sparse else np.empty((0, problem.X.shape[1])),
        sites=np.empty((2, 0)),
        jitter=posterior.jitter,
        target_offset=problem.target_offset,
        target_scale=problem.target_scale,
    )


def _no_certificate(posterior: RegressionPosterior, problem: RegressionProblem, sparse: bool) -> str:
    if posterior.jitter and not sparse:
        return f"the covariance needed a jitter of {posterior.jitter:g} to be factorised"
    latent = posterior.latent
    return too_large((latent.root, latent.alpha, latent.X, problem.X), 1)


def run(task: Task[RangeTask], shared: SharedWork) -> Outcome:
    """Bound the predictions around one point.

    Arrays: ranges [K, 5], for mean and quantiles the value at the point, lowest proved and attained, highest attained
    and proved, in the target's own units; certified [K, 2], what the certificate claims; moved [D], how far each
    input may be off, in its own units.
    """
    clock, params = shared.budget(task.budget_seconds), task.params
    problem, found, Z = trained_regression(task.require_dataset(), params.model, shared, task.budget_seconds)
    from gpsuite.models.regression.gpflow_models import regression_posterior

    model = build(problem, params.model.spec, found, Z)
    posterior = regression_posterior(model)
    region = uncertain_box(problem, params)
    levels = [MEAN, *params.quantiles]
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    ranges = prediction_range(posterior.latent, posterior.noise_variance, region, levels, params.tolerance, budget)
    own = np.array([own_units(problem, each) for each in ranges])
    certified = Certified({})
    if params.certificate_boxes:
        certified = certify_ranges(task, problem, posterior, region, ranges, clock.rest())
        own = _best_of_both(own, ranges, certified.arrays.get("certified", np.full((len(own), 2), np.nan)))
    metrics = {
        **_metrics(problem, params.point, own[0]),
        "noise_deviation": float(problem.target_scale * np.sqrt(found.noise_variance)),
        "boxes": sum(each.boxes for each in ranges),
        "outside": _outside(problem, model, found, region, own, levels, params),
        **certified.metrics,
    }
    moved = np.zeros(len(problem.inputs))
    moved[region.free] = (region.upper - region.start) * problem.input_scale[region.free]
    reason = next((each.status for each in ranges if each.status != "closed"), "")
    cut = any(side.status == "budget" for each in ranges for side in (each.minimum, each.maximum))
    status = BUDGET if cut else DONE  # done, too, where rounding leaves nothing to be searched
    if certified.out_of_time and not cut:
        status, reason = BUDGET, f"{task.budget_seconds:g} seconds used up, in the certificate"
    arrays = {"ranges": own, "moved": moved, **certified.arrays}
    headline = f"{own[0, 0]:.4g} in [{own[0, 1]:.4g}, {own[0, 4]:.4g}]"
    return Outcome(metrics, status, reason, arrays, headline)


def _metrics(problem: RegressionProblem, point: int, mean: FloatArray) -> dict[str, float]:
    """Return a test point's row, target and prediction, and how far its range [5] lets the prediction move."""
    change = float(max(mean[4] - mean[0], mean[0] - mean[1]))
    return {
        "row": int(problem.test_rows[point]),
        "target": float(problem.y_test[point]),
        "prediction": float(mean[0]),
        "largest_change": change,
        "relative_change": change / problem.target_scale,
        "target_deviation": problem.target_scale,
    }


def uncertain_box(problem: RegressionProblem, params: RangeTask) -> Region:
    """Return the box of what the inputs may be, standardised. Levels of a category stay unless they are named."""
    named = np.array([problem.inputs.index(name) for name in params.uncertain], dtype=np.int64)
    places = named if len(named) else numbers_of(problem.inputs, problem.level_inputs)
    radii = np.zeros(len(problem.inputs))
    radii[places] = np.array(params.within) / problem.input_scale[places] if params.within else params.radius
    return box(problem.X_test[params.point], radii)


def own_units(problem: RegressionProblem, found: QuantileRange) -> FloatArray:
    """Return centre, lowest proved and attained, highest attained and proved [5], in original units, outwards."""
    # the point's own value is attained, too. Both are known up to rounding
    lowest, highest = min(found.lowest, found.centre), max(found.highest, found.centre)
    values = [found.centre, found.lowest_proved, lowest, highest, found.highest_proved]
    return problem.own_units(np.array(values), outward=np.array([0.0, -1.0, 1.0, -1.0, 1.0]))


def _best_of_both(own: FloatArray, ranges: Sequence[QuantileRange], certified: FloatArray) -> FloatArray:
    """Return ranges [K, 5] with the certificate's ends [K, 2] where its bound is better than a search cut short."""
    cut = np.array([each.status != "closed" for each in ranges])
    found = own.copy()
    found[cut, 1] = np.fmax(own[cut, 1], certified[cut, 0])
    found[cut, 4] = np.fmin(own[cut, 4], certified[cut, 1])
    return found


def _outside(
    problem: RegressionProblem,
    model: GPR | SGPR,
    found: Hyperparameters,
    region: Region,
    ranges: FloatArray,
    levels: list[float],
    params: RangeTask,
) -> int:
    """Return how many values of GPflow's own prediction at random points of the box lie outside the proved ranges.

    A thousandth of the target's deviation is allowed for GPflow's jitter of 1e-6 on the inducing covariance.
    """
    from gpsuite.models.regression.gpflow_models import predict

    rng = stream(params.model.draw_seed, "samples", params.point)
    share = rng.choice([0.0, 0.5, 1.0], (params.samples, len(region.free)))
    share = np.where(rng.random((params.samples, 1)) < 0.5, share, rng.random(share.shape))
    points = region.embed(region.lower + share * (region.upper - region.lower))
    mean, variance = (part[:, 0] for part in predict(model, points))
    deviation, room = np.sqrt(variance + found.noise_variance), 1e-3 * problem.target_scale
    count = 0
    for level, row in zip(levels, ranges, strict=True):
        z = 0.0 if level == MEAN else float(ndtri(level))
        values = problem.own_units(mean + z * deviation)
        count += int(np.count_nonzero((values < row[1] - room) | (values > row[4] + room)))
    return count


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write and draw the ranges. Return the mean relative change per method and the count of values outside."""
    settings, dataset, records = report.settings, report.request.require_dataset(), report.records()
    if not records:
        return []
    write_certificates(records, report.folder / "certificates")
    report.warnings.extend(uncertified_warnings(records))
    data = load(dataset)
    report.warnings.extend(few_learnt_warnings(len(data.X), settings.test_rows))
    name = dataset.shown_name
    moved = records[0].arrays["moved"]
    known = ", ".join(
        f"{each} ± {rounded(float(f'{amount:.12g}'), 3, -1)}"  # 12 digits: scaled and back
        for each, amount in zip(data.input_names, moved, strict=True)
        if amount > 0.0
    )
    caption = f"{name}: {data.target_names[0]} predicted where inputs are known within so much only ({known}); "
    caption += f"proved up to {settings.tolerance:g} deviations of the target"
    table = range_table(records, report.titles, settings.quantiles)
    report.table(table, "regression", caption)
    report.table(timing_table(records, ["method"], report.titles), "regression_timing", "CPU seconds per point")
    draw(report, records, data.target_names[0], table)
    report.answer.extend(moved_sentences(records, report.titles, data.target_names[0]))
    found = []
    for method in report.titles:
        own = [record for record in records if record.axes["method"] == method]
        changes = mean([record.number("relative_change") for record in own])
        note = "largest proved change of the mean, in deviations of the target. Given the model"
        found.append(Statistic.of(statistic_name("relative_change", method=method), changes, note=note))
    outside = float(sum(record.number("outside") for record in records))
    asked = settings.samples * len(records) * (1 + len(settings.quantiles))
    return [*found, Statistic("points_outside_range", outside, n=asked, note="values of the model itself")]


def moved_sentences(records: Sequence[Record], titles: Mapping[str, str], target: str) -> Iterator[str]:
    """Yield for each method how far the predictions of the test rows provably move at most."""
    for method, title in titles.items():
        ranges = np.array([each.arrays["ranges"][0] for each in records if each.axes["method"] == method])
        of = f"the predictions of {title} for"
        proved = ranges[np.isfinite(ranges[:, [1, 4]]).all(axis=1)] if len(ranges) else ranges
        inputs = "inputs that are off by as much as stated"
        if len(proved):
            moved = float(np.max(np.abs(proved[:, [1, 4]] - proved[:, [0]])))
            rest = "" if len(proved) == len(ranges) else f". Not proved for {len(ranges) - len(proved)} more"
            most = f"{counted(len(proved), 'row')} by at most {at_most(moved)} ({target})"
            yield f"Proved: {inputs} move {of} {most}{rest}."
        elif len(ranges):
            yield f"Not proved: how far {inputs} move {of} any of {counted(len(ranges), 'row')}."


def range_table(records: Sequence[Record], titles: Mapping[str, str], quantiles: Sequence[float]) -> pd.DataFrame:
    """Return one row per method, point and predicted quantity, in the target's own units."""
    import pandas as pd

    unknown = np.full((1 + len(quantiles), 2), np.nan)
    names = ["mean", *(f"{100 * level:g} % quantile" for level in quantiles)]
    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "row": record.metrics["row"],
            "quantity": name,
            **dict(zip(ENDS, values.tolist(), strict=True)),
            **dict(zip(CERTIFIED, claimed.tolist(), strict=True)),
            "status": record.status,
        }
        for record in records
        for name, values, claimed in zip(
            names, record.arrays["ranges"], record.arrays.get("certified", unknown), strict=True
        )
    ]
    made = any("certified" in record.arrays for record in records)
    return pd.DataFrame(rows).drop(columns=[] if made else [*CERTIFIED])


def draw(report: Report[RegressionSettings], records: Sequence[Record], target: str, table: pd.DataFrame) -> None:
    """Draw, per method, every point's proved range of the mean and, wide, from the lowest to the highest quantile."""
    present = [method for method in report.titles if any(each.axes["method"] == method for each in records)]
    with report.figure("regression", rows=len(present), size=(7.5, 0.6 + 3.4 * len(present))) as drawing:
        for ax, method in zip(drawing.axes, present, strict=True):
            own = sorted(
                (each for each in records if each.axes["method"] == method), key=lambda each: each.number("prediction")
            )
            ranges, places = np.array([each.arrays["ranges"] for each in own]), np.arange(len(own))
            low, high = ranges[:, 1:, 1].min(axis=1), ranges[:, 1:, 4].max(axis=1)
            ax.vlines(places, low, high, color=SKY, lw=5, alpha=0.6, label="quantiles, proved")
            ax.vlines(places, ranges[:, 0, 1], ranges[:, 0, 4], color=BLUE, lw=5, label="mean, proved")
            ax.plot(places, ranges[:, 0, 0], "_", color=BLACK, ms=8, label="mean at the point")
            names = [str(each.axes["point"]) for each in own]
            ax.set_xticks(places, names, fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.grid(visible=False, axis="x")
            ax.set_title(report.titles[method])
        drawing.name_axes("test point by its number, smallest prediction first", target)
        drawing.legend("below")
        drawing.data = table


EXPERIMENTS.register("robustness/regression")(
    Experiment(
        RegressionSettings,
        plan,
        run,
        summarise,
        method_traits=(REGRESSOR,),
        dataset_tasks=("regression",),
        parts=("count",),
        published=only_arrays("ranges", "moved", "certified"),
        agreement=AGREEMENT,
        model_keys=("kernel", "ard", "noise_floor"),
    )
)
