"""The active learning family: safe active learning for multi-output Gaussian processes (Li et al. 2022)."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
