"""The pac_bayes family: GPs trained and certified by PAC-Bayesian risk bounds (Reeb et al. 2018)."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
