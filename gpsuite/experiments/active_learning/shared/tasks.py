"""The task that every experiment on learning curves has: one repetition of one pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.active_learning.methods import PipelineParams
from gpsuite.experiments.active_learning.shared.engine_data import EngineData
from gpsuite.experiments.active_learning.shared.generated_data import GpData, ToyData
from gpsuite.experiments.params import OPTIONAL
from gpsuite.methods.active_learning.inference import InferenceSettings, Kind
from gpsuite.methods.active_learning.pipelines import Kernel, Pipeline
from gpsuite.methods.active_learning.safety import WhenNothingIsSafe
from gpsuite.models.sampling.priors import HyperPriors
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings


@dataclass(frozen=True)
class InferenceParams:
    """What decides an inference's numbers, and no setting of another kind of inference.

    Attributes:
        kind: smc, hmc, map or ml.
        particles: of smc.
        pool_members: hyperparameter vectors used for predictions at the pool; None: all.
    """

    kind: Kind
    particles: int | None = field(default=None, metadata=OPTIONAL)
    pool_members: int | None = field(default=None, metadata=OPTIONAL)

    @property
    def settings(self) -> InferenceSettings:
        """How hyperparameters are inferred."""
        if self.particles is None:
            return InferenceSettings(self.kind, pool_members=self.pool_members)
        return InferenceSettings(
            self.kind, smc=SMCSettings(particles=self.particles), pool_members=self.pool_members
        )


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
        state_iteration: of which model predictions on the whole pool are kept, counted from 1; 0 keeps none.
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
