"""The ways of choosing measurements that Li et al. 2022 compare (section 5), and their variants.

Equation: Li et al. 2022, Sec. 5
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from gpsuite.models.multi_output.convolution_process import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import MultiOutputModel
from gpsuite.models.sampling.priors import HyperPriors

Mixing = Literal["free", "identity", "convolution"]
Acquisition = Literal["entropy", "random"]
Queries = Literal["partial", "full"]
Kernel = Literal["matern52", "squared_exponential"]


@dataclass(frozen=True)
class Pipeline:
    """A model of the outputs, a rule for the next query, and whether queries must be safe.

    Attributes:
        name: as in tables.
        mixing: `free` is the linear model of coregionalization with L = P, `identity` independent processes,
            `convolution` the convolution process of the paper's section G.
        acquisition: `entropy` takes the largest predictive entropy, Eq. (7); `random` any allowed query.
        safe: whether only queries that are probably safe are allowed; if not, no safety model is trained.
        queries: `partial` measures one output per query, `full` all P.
        kernel: of the latent processes and of the safety model; the convolution process has its own.
        priors: of the hyperparameters, of the outputs' and of the safety model.

    Raises:
        ValueError: if one of the names is unknown, or `safe` is neither true nor false.
    """

    name: str
    mixing: Mixing = "free"
    acquisition: Acquisition = "entropy"
    safe: bool = True
    queries: Queries = "partial"
    kernel: Kernel = "matern52"
    priors: HyperPriors = field(default_factory=HyperPriors)

    def __post_init__(self) -> None:
        names = {"mixing": Mixing, "acquisition": Acquisition, "queries": Queries, "kernel": Kernel}
        for field_name, known in names.items():
            if getattr(self, field_name) not in get_args(known):
                allowed = ", ".join(get_args(known))
                raise ValueError(f"{field_name}={getattr(self, field_name)!r}: must be one of {allowed}")
        if not isinstance(self.safe, bool):
            raise ValueError(f"safe={self.safe!r}: must be true or false")

    def output_model(self, n_outputs: int, n_inputs: int) -> MultiOutputModel:
        """Return the model of P outputs of D inputs."""
        if self.mixing == "convolution":
            return ConvolutionProcess(n_outputs, n_inputs, priors=self.priors)
        return LinearCoregionalization(n_outputs, mixing=self.mixing, kernel=self.kernel, priors=self.priors)

    def safety_model(self) -> LinearCoregionalization:
        """Return the model of the safety value: one process."""
        return LinearCoregionalization(1, mixing="identity", kernel=self.kernel, priors=self.priors)


PIPELINES: dict[str, Pipeline] = {
    pipeline.name: pipeline
    for pipeline in (
        Pipeline("AL_MOGP"),
        Pipeline("RS_MOGP", acquisition="random"),
        Pipeline("AL_indGPs", mixing="identity"),
        Pipeline("AL_MOGP_nosafe", safe=False),
    )
}
"""The four of the paper, by its names."""
