"""Exact, distribution-free confidence regions for kernel methods, and bands from them.

Equation: Csáji & Kis 2019, Confidence Regions, Main Theorem
"""

from __future__ import annotations

from gpsuite.methods.perturbation.bands import Band, NormBall, members_band, norm_ball_band, pointwise_band
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso
from gpsuite.methods.perturbation.quadratic import KernelLSSVM, KernelRidge, LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Permutations, SignChanges, SignedPermutations
from gpsuite.methods.perturbation.rays import Members, sample_members
from gpsuite.methods.perturbation.region import ConfidenceRegion, ModelClass, confidence_region

__all__ = [
    "Band",
    "ConfidenceRegion",
    "EpsilonSVR",
    "KernelLSSVM",
    "KernelLasso",
    "KernelRidge",
    "LinearLSSVM",
    "Members",
    "ModelClass",
    "NormBall",
    "Permutations",
    "SignChanges",
    "SignedPermutations",
    "SparseKernelRidge",
    "confidence_region",
    "members_band",
    "norm_ball_band",
    "pointwise_band",
    "sample_members",
]
