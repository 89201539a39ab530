"""What a claim of a certificate is about: a class probability, the lead of a class, or a predictive quantile.

Equation: Blaas et al. 2020, Sec. 5, Definition 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpsuite.untrusted import real


@dataclass(frozen=True)
class ClassQuantity:
    """The probability of a class, or (1 + p_own - p_rival) / 2, above 1/2 where `own` is ahead of `rival`."""

    own: int
    rival: int | None = None

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that it is about."""
        return (self.own,) if self.rival is None else (self.own, self.rival)


@dataclass(frozen=True)
class QuantileQuantity:
    """A predictive quantile of this level in (0, 1), in the units of the model; that of .5 is the mean."""

    level: float


Quantity = ClassQuantity | QuantileQuantity


def pack_quantity(quantity: Quantity) -> dict[str, Any]:
    """Return what the description holds."""
    if isinstance(quantity, QuantileQuantity):
        return {"level": quantity.level}
    return {"class": quantity.own, "rival": quantity.rival}


def parse_quantity(stated: dict[str, Any]) -> Quantity:
    """Return the quantity that a description holds.

    Raises:
        KeyError, ValueError: if it holds none.
    """
    if "level" in stated:
        return QuantileQuantity(real(stated["level"]))
    rival = stated["rival"]
    return ClassQuantity(whole(stated["class"]), None if rival is None else whole(rival))


def whole(value: Any) -> int:
    """Return a whole number of a description.

    Raises:
        ValueError: for anything else, true and false included.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a number is not whole")
    return value
