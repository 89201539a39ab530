"""The wasserstein family: Gaussian Wasserstein inference for classification and regression (Wild et al. 2022)."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
