"""Random streams derived from one experiment seed and named axes, never enumerated by hand."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def derived_seed(seed: int, *axes: str | int | float) -> int:
    """Return a 32-bit seed that depends on the experiment seed and on the named axes only.

    The same axes (names and values, such as `"split", 3`) give the same seed for every method, order of tasks and
    worker: SHA-256 of the canonical JSON of `(seed, *axes)`.
    """
    text = json.dumps([seed, *axes], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def stream(seed: int, *axes: str | int | float) -> np.random.Generator:
    """Return an independent Generator for the named axes (see `derived_seed`)."""
    return np.random.default_rng(derived_seed(seed, *axes))


def require_generator(rng: object) -> None:
    """Raise TypeError, saying how to make a Generator, for anything else: the caller continues drawing from it."""
    if not isinstance(rng, np.random.Generator):
        example = f"numpy.random.default_rng({rng if isinstance(rng, int) else ''})"
        raise TypeError(f"rng={rng!r}: a random generator is needed, {example}")
