"""GPyTorch's side of `gpsuite bench peers`: the exact marginal likelihood by Cholesky, in float64."""

from __future__ import annotations

import gpytorch
import numpy as np
import torch
from protocol import Work, serve

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


class Model(gpytorch.models.ExactGP):
    """A full GP with zero mean and the squared exponential kernel."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.Likelihood) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior at X."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def prepare(arrays: dict[str, np.ndarray]) -> Work:
    """Return negative log marginal likelihood and gradient in the logarithms of the hyperparameters."""
    X, y, values = (torch.as_tensor(arrays[name]) for name in ("X", "y", "theta"))
    values = values.exp()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(X, y, likelihood)
    model.covar_module.outputscale = values[0]
    model.covar_module.base_kernel.lengthscale = values[1:-1]
    likelihood.noise = values[-1]
    model.train()
    raw = [
        model.covar_module.raw_outputscale,
        model.covar_module.base_kernel.raw_lengthscale,
        likelihood.noise_covar.raw_noise,
    ]
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    # every positive value is a constant + softplus(raw)
    slopes = torch.cat([torch.sigmoid(each.detach()).ravel() for each in raw])

    def work(_: int) -> dict:
        for each in raw:
            each.grad = None
        exact = gpytorch.settings.fast_computations(False, False, False)
        with exact, gpytorch.settings.max_cholesky_size(10**6):
            value = -objective(model(X), y) * len(y)
            value.backward()
        gradient = torch.cat([each.grad.ravel() for each in raw]) / slopes * values
        return {"value": value.item(), "gradient": gradient.tolist()}

    return work


if __name__ == "__main__":
    serve(prepare)
