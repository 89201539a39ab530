"""The perturbation family: exact, finite-sample confidence regions (Csáji and Kis 2019)."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
