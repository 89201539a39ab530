"""Where a range ends: what lies exactly at a limit is taken or refused as the docstring says, and so is what is beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.active_learning.safety import safe_set
from gpsuite.methods.conformal.intervals import cross_validation_plus_intervals
from gpsuite.methods.pac_bayes.bounds.certificates import CertificateSetting
from gpsuite.methods.pac_bayes.bounds.held_out import binomial_upper_bound, mean_loss_upper_bound
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.bounds.kl_inverse import kl_inverse, kl_inverse_lower
from gpsuite.methods.pac_bayes.bounds.objectives import (
    bayes_risk_bound,
    catoni_bound,
    check_catoni_constant,
    lambda_bound_at,
)
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.methods.perturbation import checks
