"""Which models `gpsuite.certify` takes, and who takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from gpsuite.errors import UserError
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.given.given import GivenModel

READERS = {
    "gpflow": "gpsuite.models.given.from_gpflow:from_gpflow",
    "sklearn": "gpsuite.models.given.from_sklearn:from_sklearn",
}
OURS = "the class probability, that of gpsuite's own posterior"


def given_model(model: Any) -> GivenModel:
    """Return what is known of a trained model.

    Raises:
        UserError: in a sentence, if it is none that is known.
    """
    own = getattr(model, "posterior", None)
    if isinstance(model, GPCPosterior | MultiClassPosterior):
        return _posterior(model)
    if isinstance(own, GPCPosterior | MultiClassPosterior):
        return _posterior(own)
    for library, reader in READERS.items():
        if any(kind.__module__.split(".")[0] == library for kind in type(model).__mro__):
            module, name = reader.split(":")
            read: Callable[[Any], GivenModel] = getattr(import_module(module), name)
            return read(model)
    raise UserError(
        f"model {type(model).__name__}: certify takes models of GPflow, of scikit-learn (also in a Pipeline) and of "
        "gpsuite"
    )


def _posterior(posterior: GPCPosterior | MultiClassPosterior) -> GivenModel:
    """Return a posterior of gpsuite."""
    inputs, several = posterior.X.shape[1], isinstance(posterior, MultiClassPosterior)
    labels = tuple(range(len(posterior.alpha))) if several else (0, 1)
    fault = "there is no certificate format for the robust maximum" if isinstance(posterior, RobustMaxPosterior) else ""

    def own(X: Any) -> Any:
        mean, variance = posterior.latent(X)
        return mean, np.einsum("bcc->bc", variance) if several else variance

    return GivenModel(posterior, inputs, np.arange(inputs), labels, OURS, own, uncertified=fault)
