"""What the tasks of active_learning/toy are for, and their records by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.base import Record

IDENTITY, COST = "identity_lmc", "likelihood_cost"  # checks


@dataclass(frozen=True)
class _PartNames:
    main: str = "pipelines"
    inference: str = "inference"
    hmc: str = "hmc"
    prior: str = "prior"


PARTS = _PartNames()


@dataclass(frozen=True)
class Parts:
    """The records of the experiment by what they are for.

    Attributes:
        main: every pipeline with the run's inference and the published priors.
        inferences: AL_MOGP by kind of inference, the run's first.
        hmc: every pipeline with the paper's HMC.
        priors: AL_MOGP by multiple of the hyperparameters in the prior; 1 is published.
        checks: check -> its record.
    """

    main: Curves
    inferences: Mapping[str, Curves]
    hmc: Curves
    priors: Mapping[float, Curves]
    checks: Mapping[str, Record]

    @classmethod
    def from_records(cls, records: Sequence[Record], methods: Sequence[str], inference: str) -> Parts:
        """Sort the records of the plan; `inference` is the run's kind."""

        def curves(part: str, **axes: str | float) -> Curves:
            chosen = [record for record in records if record.matches(part=part, **axes)]
            return Curves.from_records(chosen, methods)

        main = curves(PARTS.main)
        kinds = dict.fromkeys(str(r.axes["inference"]) for r in records if r.axes["part"] == PARTS.inference)
        factors = dict.fromkeys(
            float(r.axes["prior_factor"]) for r in records if r.axes["part"] == PARTS.prior
        )
        inferences = {inference: main} | {kind: curves(PARTS.inference, inference=kind) for kind in kinds}
        priors = {1.0: main} | {factor: curves(PARTS.prior, prior_factor=factor) for factor in factors}
        parts = (PARTS.main, PARTS.inference, PARTS.hmc, PARTS.prior)
        checks = {str(r.axes["part"]): r for r in records if r.axes["part"] not in parts}
        return cls(main, inferences, curves(PARTS.hmc), priors, checks)
