"""Models that `gpsuite.certify` takes, the readers of their parts, and the preparation before them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from gpsuite.errors import UserError
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.classification.training import Trained
from gpsuite.models.given.given import GivenModel, latent_moments
from gpsuite.models.latent import LatentPosterior
from gpsuite.python.inputs import Column, Inputs, inputs_of

READERS = {
    "gpflow": "gpsuite.models.given.from_gpflow:from_gpflow",
    "sklearn": "gpsuite.models.given.from_sklearn:from_sklearn",
}
CLASSES = "the class probability, that of gpsuite's own posterior"
MEAN = "the predictive mean, that of gpsuite's own posterior"


def given_model(model: Any) -> GivenModel:
    """Return what is known of a trained model.

    Raises:
        UserError: in a sentence, if it is none that is known.
    """
    if isinstance(model, Trained):
        model = model.fit.posterior
    if isinstance(model, GPCPosterior | MultiClassPosterior):
        labels = tuple(range(len(model.alpha))) if isinstance(model, MultiClassPosterior) else (0, 1)
        return _own(model, labels, CLASSES)
    if is_saved(model):
        return _saved(model)
    for library, reader in READERS.items():
        if any(kind.__module__.split(".")[0] == library for kind in type(model).__mro__):
            module, name = reader.split(":")
            read: Callable[[Any], GivenModel] = getattr(import_module(module), name)
            return read(model)
    raise UserError(
        f"model {type(model).__name__}: certify takes models of GPflow, of scikit-learn (also in a Pipeline) and of "
        "gpsuite"
    )


def inputs_before(model: Any, steps: tuple[Any, ...], count: int) -> Inputs:
    """Return what comes before a model of `count` inputs: the scale of a run, or the steps of a Pipeline."""
    if not is_saved(model):
        return inputs_of(steps, model, count)
    levels = {f"{name}={level}" for name, known in model.categories.items() for level in known}
    shifts = zip(model.inputs, model.arrays["input_mean"], model.arrays["input_scale"], strict=True)
    columns = [
        Column(place, float(mean), float(scale), free=name not in levels)
        for place, (name, mean, scale) in enumerate(shifts)
    ]
    return Inputs(tuple(columns), model.inputs, count)


def is_saved(model: Any) -> bool:
    """Return whether it is what `gpsuite.load` returns."""
    return any(kind.__module__ == "gpsuite.experiments.guarantee.saved" for kind in type(model).__mro__)


def _saved(model: Any) -> GivenModel:
    """Return the model of a run, of its scaled inputs and target."""
    if model.task == "classification":
        return _own(model.posterior, model.labels, CLASSES)
    offset, scale = (float(model.arrays[f"target_{name}"][0]) for name in ("mean", "scale"))
    return _own(model.latent, (), MEAN, noise=model.model.noise, offset=offset, scale=scale)


def _own(
    posterior: LatentPosterior | MultiClassPosterior, labels: tuple[Any, ...], about: str, **more: Any
) -> GivenModel:
    """Return a posterior of gpsuite."""
    inputs = posterior.X.shape[1]
    fault = "there is no certificate format for the robust maximum" if isinstance(posterior, RobustMaxPosterior) else ""
    return GivenModel(
        posterior,
        inputs,
        np.arange(inputs),
        labels,
        about,
        partial(latent_moments, posterior),
        uncertified=fault,
        **more,
    )
