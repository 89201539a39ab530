"""Exports of `gpsuite.methods.pac_bayes`.

Equation: none, a list of names
"""

from __future__ import annotations

from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Certificate, HyperparameterGrid, Terms, certify
from gpsuite.methods.pac_bayes.evaluation import Copies, Evaluation, evaluate
from gpsuite.methods.pac_bayes.full_gp import train_full_gp
from gpsuite.methods.pac_bayes.losses import BandLoss, CappedAbsoluteLoss, CappedSquareLoss, ExponentialLoss, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior, RiskAndKL
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormPosterior, TrainedFreeForm, train_free_form
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import TrainedSparseGP, train_sparse_gp, train_sparse_likelihood
from gpsuite.models.config import Hyperparameters

__all__ = [
    "PAPER_GRID",
    "BandLoss",
    "Budget",
    "CappedAbsoluteLoss",
    "CappedSquareLoss",
    "Certificate",
    "Copies",
    "Evaluation",
    "ExponentialLoss",
    "FreeFormPosterior",
    "FullGPPosterior",
    "HyperparameterGrid",
    "Hyperparameters",
    "Loss",
    "Posterior",
    "RiskAndKL",
    "RiskProblem",
    "Search",
    "SparseGPPosterior",
    "Terms",
    "TrainedFreeForm",
    "TrainedGP",
    "TrainedSparseGP",
    "certify",
    "evaluate",
    "train_free_form",
    "train_full_gp",
    "train_sparse_gp",
    "train_sparse_likelihood",
]
