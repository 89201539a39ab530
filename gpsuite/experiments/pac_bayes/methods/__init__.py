"""The family's methods, one module each: options, how it trains and certifies, and its traits."""

from gpsuite.registry import import_members

import_members(__name__, __path__)
