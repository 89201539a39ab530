"""How far Laplace and EP are from HMC at a trained classifier's hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import DIVERGED, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.robustness.posterior_quality.plan import HMCTask
from gpsuite.experiments.robustness.shared.classifiers import Problem, model_metrics, task_classifier
from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.distance import (
    gaussian_kl,
    gaussian_wasserstein,
    wasserstein_to_draws,
)
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.classification.training import INFERENCES, TrainedGPC
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpsuite.models.classification.hmc import HMCLatents


DISTANCES = ("wasserstein", "wasserstein_draws", "kl", "probability_error")


BLOCK = 2000  # draws whose class probabilities are averaged at once


@dataclass(frozen=True, eq=False)
class Gold:
    """HMC's posterior at the test points.

    Attributes:
        mean: of the latent value, [B].
        variance: [B].
        draws: of the latent value, [S, B].
        probability: of the positive class, [B].
    """

    mean: FloatArray
    variance: FloatArray
    draws: FloatArray
    probability: FloatArray


def run_hmc_distance(task: Task[HMCTask], shared: SharedWork) -> Outcome:
    """Sample the exact posterior at trained hyperparameters and measure the approximations' distances at test points.

    A chain that has not converged is a record too, with `hmc_converged` false: the summary keeps it out of the means.
    """
    params = task.params
    try:
        problem, trained = task_classifier(task, shared)
        posteriors = approximations(problem, trained, params)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    latents = _sample(problem, posteriors, params)
    gold = gold_standard(latents, trained, stream(params.model.draw_seed, "noise"))
    metrics: dict[str, float | int | str | bool | None] = {
        **model_metrics(problem, trained),
        "r_hat": finite_or_none(latents.r_hat),
        "ess": finite_or_none(latents.ess),
        "acceptance": finite_or_none(latents.acceptance),
        "hmc_converged": latents.converged,
    }
    arrays = {}
    for name, posterior in posteriors.items():
        for distance, values in distances(posterior, problem.X_test, gold).items():
            metrics[f"{distance}_{name}"] = finite_or_none(float(values.mean()))
            arrays[f"{distance}_{name}"] = values
    state = (
        "" if latents.converged else f"HMC not converged: R-hat {latents.r_hat:.3f}, ESS {latents.ess:.0f}"
    )
    shown = ", ".join(f"{name} {metrics[f'wasserstein_{name}']:.3g}" for name in posteriors)
    return Outcome(metrics, reason=state, arrays=arrays, headline=f"distance {shown}")


def approximations(problem: Problem, trained: TrainedGPC, params: HMCTask) -> dict[str, GPCPosterior]:
    """Return every method's approximation at the trained hyperparameters.

    Raises:
        NotConvergedError: if one does not converge there.
    """
    model = params.model
    link, own = trained.fit.posterior.link, model.method.inference
    found = {}
    for name, inference in params.inferences.items():
        if inference == own:
            found[name] = trained.fit.require_converged()
            continue
        same = BinaryProblem(problem.X, problem.y, model.spec, link)
        fit = INFERENCES.get(inference)(same, trained.hyperparameters, None)
        found[name] = fit.require_converged()
    return found


def _sample(problem: Problem, posteriors: Mapping[str, GPCPosterior], params: HMCTask) -> HMCLatents:
    """Run the chains in EP's coordinates where EP is among the approximations."""
    from gpsuite.models.classification.hmc import LatentHMCSettings, sample_latents

    by_ep = [posteriors[name] for name, inference in params.inferences.items() if inference == "ep"]
    coordinates = [*by_ep, *posteriors.values()][0]
    settings = LatentHMCSettings(chains=params.chains, burn_in=params.burn_in, draws=params.samples)
    generator = stream(params.model.draw_seed, "hmc", params.model.method.inference)
    return sample_latents(coordinates, problem.y, problem.X_test, generator, settings)


def gold_standard(latents: HMCLatents, trained: TrainedGPC, generator: np.random.Generator) -> Gold:
    """Return moments, draws and class probabilities, the latter averaged over draws and exact within each."""
    link, conditional = trained.fit.posterior.link, latents.conditional_variance
    total = np.zeros_like(latents.mean)
    for start in range(0, len(latents.means), BLOCK):
        means = latents.means[start : start + BLOCK]
        variances = np.broadcast_to(conditional, means.shape)
        total += link.probability(means.ravel(), variances.ravel()).reshape(means.shape).sum(axis=0)
    return Gold(latents.mean, latents.variance, latents.draws(generator), total / len(latents.means))


def distances(posterior: GPCPosterior, X_test: FloatArray, gold: Gold) -> dict[str, FloatArray]:
    """Return for every test point [B] the distances named in `DISTANCES`.

    2-Wasserstein distance of the latent marginals taken as normal, the same from the draws, KL(HMC | approximation) of
    the normal marginals in nats, and the absolute difference of the class probabilities.
    """
    mean, variance = posterior.latent(X_test)
    probability = posterior.link.probability(mean, variance)
    return {
        "wasserstein": gaussian_wasserstein(mean, variance, gold.mean, gold.variance),
        "wasserstein_draws": wasserstein_to_draws(mean, variance, gold.draws),
        "kl": gaussian_kl(gold.mean, gold.variance, mean, variance),
        "probability_error": np.abs(probability - gold.probability),
    }
