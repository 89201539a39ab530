"""Tasks of pac_bayes/loss_exp: one fit per dataset, split, M, method and loss."""

from __future__ import annotations

from dataclasses import replace

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.pac_bayes.loss_exp.claims import BAND, EXP, LIKELIHOOD
from gpsuite.experiments.pac_bayes.loss_exp.settings import ExponentialSettings
from gpsuite.experiments.pac_bayes.shared.method import BOUND
from gpsuite.experiments.pac_bayes.shared.plan import sparse_fit, split_tasks
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask


def plan(request: Request[ExponentialSettings]) -> list[Task[FitTask]]:
    """Return one task per dataset, M, split, method and loss to train on; likelihoods have no loss to choose."""
    settings = request.settings
    tasks = []
    for name, data in request.datasets.items():
        ard = request.model.ard and name not in settings.single_lengthscale
        for inducing in settings.inducing:
            fits = []
            for method, options in request.methods.items():
                for trained_on in _trainings(options):
                    loss = EXP if trained_on == EXP else BAND
                    fit = sparse_fit(method, options, inducing, data, ard, settings.epsilon, loss)
                    fits.append(replace(fit, axes={"dataset": name, "trained_on": trained_on, **fit.axes}))
            tasks += split_tasks(request, fits)
    return tasks


def _trainings(options: MethodOptions) -> tuple[str, ...]:
    return (BAND, EXP) if BOUND in options.method.traits else (LIKELIHOOD,)
