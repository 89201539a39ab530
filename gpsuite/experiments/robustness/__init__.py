"""The robustness family: certified class-probability ranges of GP classifiers (Blaas et al. 2020)."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
