"""gpsuite: Gaussian processes with guarantees, rerun, checked and extended."""

__version__ = "0.1.0"
