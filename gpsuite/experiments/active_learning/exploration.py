"""Settings of the experiments on safe active learning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast, get_args

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.generators.gp_samples import Process
from gpsuite.data.loading import load
from gpsuite.errors import unknown_name
from gpsuite.experiments.active_learning.methods import PipelineParams, pipeline_params
from gpsuite.experiments.active_learning.repetitions import OFFERS, EngineData, GpData, Repetition, Samples, ToyData
from gpsuite.experiments.base import (
    BUDGET,
    DONE,
    INFEASIBLE,
    MethodOptions,
    Outcome,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.settings import Count, Positive, Share, at_least, one_of
from gpsuite.experiments.tasks import OPTIONAL, choice
from gpsuite.methods.active_learning.acquisition import Kernel, Pipeline, entropy, rmse, safety_precision
from gpsuite.methods.active_learning.exploration import Step, explore
from gpsuite.methods.active_learning.inference import InferenceSettings, Kind
from gpsuite.methods.active_learning.problem import (
    ExplorationProblem,
    Judgement,
    Monitor,
    Oracle,
    Pool,
    WhenNothingIsSafe,
    safe_set,
)
from gpsuite.models.config import ModelSpec
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.priors import HyperPriors
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import derived_seed

INFERENCES: tuple[Kind, ...] = get_args(Kind)
WHEN_NOTHING_IS_SAFE: tuple[WhenNothingIsSafe, ...] = get_args(WhenNothingIsSafe)
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
FORMS = ("code", "paper")


@dataclass
class RepetitionSettings:
    """Settings of repetitions of safe active learning.

    Attributes:
        repetitions: independent repetitions, the same data for every pipeline.
        iterations: models per repetition. The first has the starting data only, each further one a query more.
        initial: values measured at the beginning, all outputs together.
        delta: a query must be safe with a probability above 1 - delta.
        inference: inference of the hyperparameters: smc, hmc, map or ml.
        particles: number of particles of sequential Monte Carlo.
        offers: outputs that a pool row gives: all, one after the other (`pairs`, the paper), or one, after which it
            leaves the pool (`one_output`, the authors' code).
        when_nothing_is_safe: `stop` with status infeasible, or query the `safest` point.
    """

    repetitions: Count
    iterations: Count
    initial: Count
    delta: Share
    inference: Annotated[str, one_of(INFERENCES)]
    particles: Annotated[int, at_least(2)]
    offers: Annotated[str, one_of(OFFERS)]
    when_nothing_is_safe: Annotated[str, one_of(WHEN_NOTHING_IS_SAFE)]


@dataclass
class ActiveSettings(RepetitionSettings):
    """Settings of every experiment on learning curves.

    Attributes:
        precision_step: precision of the safety model is tabulated at every so many values from the start.
        thresholds: errors whose first number of values is requested.
    """

    precision_step: Count
    thresholds: list[Positive]

    def points(self, last: int) -> list[int]:
        """Return the N_sum of the precision tables, up to `last`."""
        return list(range(self.initial, last + 1, self.precision_step))


@dataclass(frozen=True)
class InferenceParams:
    """Settings that decide an inference's numbers, without those of other kinds of inference.

    Attributes:
        kind: smc, hmc, map or ml.
        particles: of smc.
        pool_members: hyperparameter vectors used for predictions at the pool. None: all.
    """

    kind: Kind
    particles: int | None = field(default=None, metadata=OPTIONAL)
    pool_members: int | None = field(default=None, metadata=OPTIONAL)

    @property
    def settings(self) -> InferenceSettings:
        """Settings of the inference of hyperparameters."""
        if self.particles is None:
            return InferenceSettings(self.kind, pool_members=self.pool_members)
        return InferenceSettings(self.kind, smc=SMCSettings(particles=self.particles), pool_members=self.pool_members)


@dataclass(frozen=True, kw_only=True)
class RepetitionTask:
    """One repetition of one pipeline.

    Attributes:
        source: name of where the data come from.
        data: the same for every pipeline.
        pipeline: model and rule.
        kernel: of the latent processes and of the safety model.
        prior_factor: every prior of the hyperparameters is that of this multiple.
        inference: of the hyperparameters.
        sampler_seed: of inference and of random queries.
        delta: a query must be safe with a probability above 1 - delta.
        iterations: number of models.
        state_iteration: number of the model whose predictions on the whole pool are kept, from 1. 0 keeps none.
        when_nothing_is_safe: stop, or query the safest point.
        kind: of task.
        joint: true if the entropy of all outputs together is kept with these predictions.
    """

    source: str
    data: ToyData | GpData | EngineData
    pipeline: PipelineParams
    kernel: Kernel
    prior_factor: float
    inference: InferenceParams
    sampler_seed: int
    delta: float
    iterations: int
    state_iteration: int
    when_nothing_is_safe: WhenNothingIsSafe
    kind: str = "safe_active_learning"
    joint: bool | None = field(default=None, metadata=OPTIONAL)

    def read_pipeline(self) -> Pipeline:
        """Return the pipeline with its kernel and priors."""
        scaled = dict.fromkeys(("variance", "lengthscale", "noise", "mixing"), self.prior_factor)
        pipeline = self.pipeline
        return Pipeline(
            "pipeline",
            mixing=pipeline.mixing,
            acquisition=pipeline.acquisition,
            safe=pipeline.safe,
            queries=pipeline.queries,
            kernel=self.kernel,
            priors=HyperPriors().scaled(**scaled),
        )


Axes = dict[str, str | int | float]


@dataclass(frozen=True)
class Source:
    """Source of the data of the repetitions.

    Attributes:
        name: of the source.
        data: number of a repetition -> its data.
        n_outputs: P.
        seconds: rough CPU seconds of one iteration.
        pool_members: hyperparameter vectors used for predictions at the pool, or None for all.
        state_iteration: number of the model whose predictions on the whole pool are kept, from 1. 0 keeps none.
    """

    name: str
    data: Callable[[int], ToyData | GpData | EngineData]
    n_outputs: int
    seconds: float
    pool_members: int | None = None
    state_iteration: int = 0


def repetition_seed(seed: int, source: str, repetition: int) -> int:
    """Return the seed of a repetition's data."""
    return derived_seed(seed, source, "repetition", repetition)


@dataclass(frozen=True)
class RepetitionSet:
    """One set of repetitions of a plan, with what distinguishes it from the others.

    Attributes:
        axes: columns of records.csv next to method and repetition.
        inference: how hyperparameters are inferred, in place of the settings'.
        iterations: in place of the settings'.
        repetitions: in place of the settings'.
        prior_factor: every prior of the hyperparameters is that of this multiple.
        label: for people.
    """

    axes: Axes = field(default_factory=dict)
    inference: str | None = None
    iterations: int | None = None
    repetitions: int | None = None
    prior_factor: float = 1.0
    label: str = ""


def pipeline_kernel(model: ModelSpec) -> Kernel:
    """Return the kernel of the latent processes and of the safety model, with one lengthscale for all inputs.

    Raises:
        UserError: if there is none of that name for multi-output models.
    """
    if model.kernel not in KERNELS:
        raise unknown_name("model.kernel", model.kernel, KERNELS)
    return choice(model.kernel, KERNELS)


def repetition_tasks(
    request: Request[object],
    settings: RepetitionSettings,
    source: Source,
    variation: RepetitionSet | None = None,
    methods: tuple[str, ...] = (),
) -> list[Task[RepetitionTask]]:
    """Return one task per repetition and method. All methods of a repetition work on the same data.

    Args:
        request: the validated request.
        settings: of the repetitions.
        source: of the data.
        variation: what is different in these repetitions.
        methods: names of some of the request's methods; default: all.
    """
    chosen = {name: request.methods[name] for name in methods or request.methods}
    different = variation or RepetitionSet()
    iterations = different.iterations or settings.iterations
    kind = choice(different.inference or settings.inference, INFERENCES)
    ordinary = (different.prior_factor, iterations, kind) == (1.0, settings.iterations, settings.inference)
    drawn = bool(source.state_iteration) and ordinary
    return [
        request.task(
            RepetitionTask(
                source=source.name,
                data=source.data(repetition),
                pipeline=pipeline_params(options),
                kernel=pipeline_kernel(request.model),
                prior_factor=different.prior_factor,
                inference=_inference(kind, settings, source),
                sampler_seed=derived_seed(request.seed, source.name, "sampler", repetition),
                delta=settings.delta,
                iterations=_iterations(iterations, options, source.n_outputs),
                state_iteration=min(source.state_iteration, iterations),
                when_nothing_is_safe=choice(settings.when_nothing_is_safe, WHEN_NOTHING_IS_SAFE),
                # of the repetition that is drawn
                joint=(drawn and repetition == 0) or None,
            ),
            label="  ".join(filter(None, (options.title, different.label, f"repetition {repetition}"))),
            axes={"method": name, **different.axes, "repetition": repetition},
            version=options.method.version,
            cost=source.seconds * iterations * COSTS[kind],
        )
        for repetition in range(different.repetitions or settings.repetitions)
        for name, options in chosen.items()
    ]


COSTS = {"smc": 1.0, "hmc": 400.0, "map": 2.5, "ml": 10.0}  # relative


def _inference(kind: Kind, settings: RepetitionSettings, source: Source) -> InferenceParams:
    return InferenceParams(
        kind,
        particles=settings.particles if kind == "smc" else None,
        pool_members=source.pool_members if kind in ("smc", "hmc") else None,
    )


def _iterations(iterations: int, options: MethodOptions, n_outputs: int) -> int:
    """Return the number of models: full queries add P values each, and end at the same number of values."""
    partial = pipeline_params(options).queries == "partial"
    return iterations if partial else (iterations - 1) // n_outputs + 1


SECONDS = 0.4  # of one iteration at the published sizes
PUBLISHED_SEED = 123  # of the draws. Another generator than the authors' makes other draws of it


@dataclass
class GpRepetitions(RepetitionSettings):
    """Settings of repetitions on draws from one random process: repetition k works on draw k.

    Attributes:
        form: form of the generator's kernel: exp(-r^2 / 2 l^2) (`code`, the authors') or exp(-r^2 / l) (`paper`).
        draws: number of draws. The threshold of the safety value is a quantile of all of them together.
        pool_rows: pool rows of each draw.
        test_rows: test rows of each draw.
        outputs: P.
        pool_members: hyperparameter vectors used for predictions, 0 uses all.
    """

    form: Annotated[str, one_of(FORMS)]
    draws: int
    pool_rows: Annotated[int, at_least(20)]
    test_rows: Annotated[int, at_least(5)]
    outputs: Annotated[int, at_least(2)]
    pool_members: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse fewer draws than repetitions."""
        enough, least = self.draws >= self.repetitions, self.repetitions
        require(enough, "draws", self.draws, f"must be at least the number of repetitions, {least}")

    def samples(self, seed: int, process: Process = "lmc") -> Samples:
        """Return the draws of a linear model of coregionalisation, or of a convolution; seed: the request's."""
        return Samples(
            seed=PUBLISHED_SEED if seed == 0 else derived_seed(seed, "gp_samples"),
            draws=self.draws,
            n_train=self.pool_rows,
            n_test=self.test_rows,
            n_outputs=self.outputs,
            form=self.form,
            process=process,
        )

    def source(self, seed: int, process: Process = "lmc") -> Source:
        """Return the data of the repetitions; seed: the request's."""
        samples, name = self.samples(seed, process), "gp_samples"

        def data(repetition: int) -> GpData:
            return GpData(
                seed=repetition_seed(seed, name, repetition),
                initial=self.initial,
                offers=self.offers,
                draw=repetition,
                samples=samples,
            )

        seconds = SECONDS * self.pool_rows / 2000
        return Source(name, data, self.outputs, seconds, pool_members=self.pool_members or None)


@dataclass
class GpSamplesSettings(GpRepetitions, ActiveSettings):
    """Settings of learning curves on draws from one random process."""


SAFE, UNSAFE = ("safe", "unsafe")  # test rows, judged separately: the published errors are those of the safe ones
MODELS = {"main": "outputs", "safety": "safety"}
Rows = dict[str, list[float]]
Arrays = dict[str, npt.NDArray[Any]]


def run_repetition(task: Task[RepetitionTask], shared: SharedWork) -> Outcome:
    """Explore with one pipeline. Return one value per model of every measure, and the last ones as metrics."""
    params = task.params
    repetition, pipeline = read_repetition(task), params.read_pipeline()
    explorer = explore(
        problem_of(repetition, params.delta),
        pipeline,
        oracle_of(repetition),
        np.random.default_rng(params.sampler_seed),
        params.iterations,
        params.inference.settings,
        params.when_nothing_is_safe,
    )
    budget = shared.budget(task.budget_seconds, evaluations=params.iterations)
    rows: Rows = defaultdict(list)
    arrays: Arrays = {}
    steps: list[Step] = []
    for step in explorer:
        steps.append(step)
        for name, value in measure(step, repetition, params.delta).items():
            rows[name].append(value)
        if step.index + 1 == params.state_iteration:
            arrays |= state_of(step, steps, repetition, pipeline, params.delta)
            arrays |= _safety_state(explorer.planner.safety_moments())
            if params.joint:
                arrays["state_joint_entropy"] = explorer.planner.joint_entropies(repetition.test.X)
        budget.spend(evaluations=1)
        if task.budget_seconds is not None and budget.exhausted:
            break
    arrays |= {name: np.array(values) for name, values in rows.items()}
    complete = len(steps) == params.iterations
    status = DONE if complete else INFEASIBLE if explorer.status == INFEASIBLE else BUDGET
    reasons = {DONE: "", INFEASIBLE: explorer.reason, BUDGET: budget.reason}
    return _outcome(arrays, steps, status, reasons[status])


def read_repetition(task: Task[RepetitionTask]) -> Repetition:
    """Return the repetition's data. The same for every pipeline with the same kind of queries."""
    params = task.params
    return params.data.read(params.pipeline.queries, lambda: load(task.require_dataset()))


def problem_of(repetition: Repetition, delta: float) -> ExplorationProblem:
    """Return what the pipeline may see: pool, starting values, limit, and test points."""
    row, p = np.nonzero(repetition.start_outputs)
    start = repetition.start
    targets = published_targets(repetition)
    monitors = {
        name: Monitor(repetition.test.X[rows], targets[rows])
        for name, rows in ((SAFE, repetition.test_safe), (UNSAFE, ~repetition.test_safe))
        if rows.any()
    }
    return ExplorationProblem(
        pool=Pool(repetition.pool.X, repetition.available),
        outputs=Observations(start.X[row], p.astype(np.int64), start.Y[row, p]),
        safety=Observations(start.X, np.zeros(len(start.X), dtype=np.int64), start.z),
        limit=repetition.limit,
        delta=delta,
        monitors=monitors,
    )


def published_targets(repetition: Repetition) -> FloatArray:
    """Return what the paper holds predictions at the test rows against."""
    return cast("FloatArray", repetition.test.F) if repetition.targets == "true" else repetition.test.Y


def oracle_of(repetition: Repetition) -> Oracle:
    """Return the measuring function: a row's values in the pool."""
    pool = repetition.pool

    def measured(row: int, p: int | None) -> tuple[float | FloatArray, float]:
        y = pool.Y[row].copy() if p is None else float(pool.Y[row, p])
        return y, float(pool.z[row])

    return measured


def measure(step: Step, repetition: Repetition, delta: float) -> dict[str, float]:
    """Return the measures of one model and of its query."""
    found: dict[str, float] = {
        "n_sum": step.n_sum,
        "row": step.row,
        "p": -1 if step.p is None else step.p,
        "z": step.z,
        "entropy": step.entropy,
        "n_available": step.n_available,
        "safe_noisy": float(repetition.limit.holds(repetition.pool.z[step.row])),
    }
    if repetition.pool.h is not None:
        found["safe_true"] = float(repetition.limit.holds(repetition.pool.h[step.row]))
    if step.probabilities is not None:
        found["probability_safe"] = step.probability_safe
        found |= _precisions(safe_set(step.probabilities, delta), repetition)
    found |= _errors(step.monitors, repetition)
    for model, diagnostics in step.diagnostics.items():
        found |= {f"{MODELS[model]}_{name}": value for name, value in diagnostics.items()}
    return found


def _precisions(marked: BoolArray, repetition: Repetition) -> dict[str, float]:
    pool, limit = repetition.pool, repetition.limit
    found = {"marked_safe": float(marked.mean()), "precision_noisy": safety_precision(marked, limit.holds(pool.z))}
    if pool.h is not None:
        found["precision_true"] = safety_precision(marked, limit.holds(pool.h))
    return found


def _errors(monitors: Mapping[str, Judgement], repetition: Repetition) -> dict[str, float]:
    """Return errors on safe test rows, by published, true and noisy targets, per output, and on all rows."""
    safe, test = repetition.test_safe, repetition.test
    mean = on_all_rows(monitors, safe, "mean")
    targets = published_targets(repetition)
    found = {
        "rmse": rmse(mean[safe], targets[safe]),
        "rmse_all": rmse(mean, targets),
        "rmse_noisy": rmse(mean[safe], test.Y[safe]),
        "log_density": _log_density(monitors, SAFE),
    }
    weights = {SAFE: float(safe.mean()), UNSAFE: float((~safe).mean())}
    parts = [weights[name] * _log_density(monitors, name) for name in monitors]
    found["log_density_all"] = float(np.sum(parts))
    if test.F is not None:
        found["rmse_true"] = rmse(mean[safe], test.F[safe])
    for p in range(repetition.n_outputs):
        found[f"rmse_output_{p + 1}"] = rmse(mean[safe][:, [p]], targets[safe][:, [p]])
    return found


def on_all_rows(monitors: Mapping[str, Judgement], safe: BoolArray, what: str) -> FloatArray:
    """Return `mean` or `variance` at all test rows [n, P], put together from the safe and the unsafe ones."""
    first: FloatArray = getattr(monitors[SAFE], what)
    joined = np.empty((len(safe), first.shape[1]))
    for name, rows in ((SAFE, safe), (UNSAFE, ~safe)):
        if name in monitors:
            joined[rows] = getattr(monitors[name], what)
    return joined


def _log_density(monitors: Mapping[str, Judgement], name: str) -> float:
    values = monitors[name].log_density
    return float("nan") if values is None else float(values.mean())


def state_of(step: Step, steps: list[Step], repetition: Repetition, pipeline: Pipeline, delta: float) -> Arrays:
    """Return the models at the test grid, the data they know, and the query they request."""
    variance = on_all_rows(step.monitors, repetition.test_safe, "variance")
    row, p = np.nonzero(repetition.start_outputs)
    before = steps[:-1]
    single = [each for each in before if each.p is not None]
    state: Arrays = {
        "x": repetition.test.X,
        "mean": on_all_rows(step.monitors, repetition.test_safe, "mean"),
        "variance": variance,
        "entropy": entropy(variance),
        "measured_x": np.vstack([repetition.start.X[row], *(each.x[None] for each in single)]),
        "measured_p": np.concatenate([p, [int(cast("int", each.p)) for each in single]]).astype(np.int64),
        "measured_y": np.concatenate([repetition.start.Y[row, p], [float(each.y) for each in single]]),
        "measured_safety_x": np.vstack([repetition.start.X, *(each.x[None] for each in before)]),
        "measured_z": np.concatenate([repetition.start.z, [each.z for each in before]]),
        "query_x": step.x,
        "query_p": np.array(-1 if step.p is None else step.p),
    }
    if step.probabilities is not None:
        state["probability_safe"] = step.probabilities
    if pipeline.acquisition == "entropy" and pipeline.queries == "partial":
        allowed = _safe_pairs(step, steps, repetition, delta)
        if allowed.any():  # otherwise it is the safest one
            largest = state["entropy"][allowed].max()
            state["query_at_maximum"] = np.isclose(state["entropy"][step.row, step.p], largest, rtol=0.0, atol=1e-9)
    return {f"state_{name}": value for name, value in state.items()}


def _safety_state(moments: tuple[FloatArray, FloatArray] | None) -> Arrays:
    return {} if moments is None else {"state_h_mean": moments[0], "state_h_variance": moments[1]}


def _safe_pairs(step: Step, steps: list[Step], repetition: Repetition, delta: float) -> BoolArray:
    """Return which (row, output) pairs were left and safe when the query was chosen, [n, P]."""
    left = repetition.available.copy()
    for each in steps[:-1]:
        left[each.row, each.p] = False
    if step.probabilities is not None:
        left &= safe_set(step.probabilities, delta)[:, None]
    return left


def _outcome(arrays: Arrays, steps: list[Step], status: str, reason: str) -> Outcome:
    """Return the record: arrays, and as metrics the last model's measures, shares of safe queries and seconds."""
    if not steps:
        return Outcome({}, status, reason, arrays, "nothing was queried")
    metrics: dict[str, float | int | str | bool | None] = {"models": len(steps), "n_sum": steps[-1].n_sum}
    for name in ("rmse", "rmse_all", "log_density", "precision_noisy", "precision_true"):
        if name in arrays:
            metrics[name] = finite_or_none(arrays[name][-1])
    for name in ("safe_noisy", "safe_true"):
        if name in arrays:
            metrics[f"{name}_share"] = float(arrays[name].mean())
    if "state_query_at_maximum" in arrays:
        metrics["query_at_maximum"] = bool(arrays["state_query_at_maximum"])
    for part, label in (("main", "outputs"), ("safety", "safety"), ("predict", "predict")):
        metrics[f"seconds_{label}"] = sum(float(step.seconds.get(part, 0.0)) for step in steps)
    headline = f"RMSE {float(arrays['rmse'][-1]):.3f} at {steps[-1].n_sum}"
    return Outcome(metrics, status, reason, arrays, headline)
