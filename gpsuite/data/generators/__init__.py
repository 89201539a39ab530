"""The papers' generated data: pure functions from a Generator and sizes to arrays.

Sizes are `n` or `(..., n)`. The last number counts the points. The numbers before count independent repetitions, all
drawn at once.
"""

from __future__ import annotations

from gpsuite.data.generators.classes import Classes, lssvm_classes, synthetic2d
from gpsuite.data.generators.gp_samples import (
    KERNELS,
    PROCESSES,
    ConvolutionParameters,
    GpSamples,
    LmcParameters,
    Sizes,
    convolution_covariance,
    gp_samples,
    lmc_covariance,
    matern52,
    sample_gaussian,
    squared_exponential,
    squared_exponential_paper,
)
from gpsuite.data.generators.regression import FUNCTIONS, NOISES, Noise, RegressionSample, draw_noise, kernel_regression
from gpsuite.data.generators.sin_sigmoid import STEEPNESS, SafeSample, exploration_grid, initial_inputs, sin_sigmoid

__all__ = [
    "FUNCTIONS",
    "KERNELS",
    "NOISES",
    "PROCESSES",
    "STEEPNESS",
    "Classes",
    "ConvolutionParameters",
    "GpSamples",
    "LmcParameters",
    "Noise",
    "RegressionSample",
    "SafeSample",
    "Sizes",
    "convolution_covariance",
    "draw_noise",
    "exploration_grid",
    "gp_samples",
    "initial_inputs",
    "kernel_regression",
    "lmc_covariance",
    "lssvm_classes",
    "matern52",
    "sample_gaussian",
    "sin_sigmoid",
    "squared_exponential",
    "squared_exponential_paper",
    "synthetic2d",
]
