"""Settings of a network, as plain data. No TensorFlow."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from gpsuite.errors import UserError, unknown_name

ACTIVATIONS = ("relu", "tanh")
PLAIN, THREE_AND_THREE = "plain", "3c3d"
ARCHITECTURES = (PLAIN, THREE_AND_THREE)
# 3c3d: sizes of the filters, whether zeros keep the image's size, and the dense layers (`NetworkSpec`)
_SIZES, _PADDED, _DENSE = (5, 3, 3), (False, False, True), (512, 256)


@dataclass(frozen=True)
class Convolution:
    """Filters, then the maximum of `pool` x `pool` pixels around every second one.

    Attributes:
        width: number of filters.
        size: height and width of a filter.
        padded: whether zeros around the image keep its size. Otherwise filters are applied where they fit.
        pool: 2, which leaves out an odd last row, or 3, which pools it too.
    """

    width: int
    size: int = 3
    padded: bool = True
    pool: int = 2

    def filtered(self, side: int) -> int:
        """Return the height or width of an image after the filters."""
        return side if self.padded else max(side - self.size + 1, 0)

    def pooled(self, side: int) -> int:
        """Return the height or width of an image after filters and pooling."""
        return (self.filtered(side) + self.pool - 2) // 2


@dataclass(frozen=True)
class NetworkSpec:
    """Hidden layers of a network. Its outputs are linear in the last layer.

    Attributes:
        widths: units of the dense layers, or filters of the convolutions.
        activation: of these layers.
        image: height, width, channels of inputs that are images, row by row. None for plain vectors.
        architecture: plain, or 3c3d. Plain convolutions are of 3 x 3 pixels, each followed by the maximum of 2 x 2.
            3c3d is the network of DeepOBS (Schneider et al. 2019) as Immer et al. 2021 changed it: convolutions of
            5 x 5, 3 x 3 and 3 x 3 pixels, each followed by the maximum of 3 x 3, then dense layers of 512 and 256
            with tanh.

    Raises:
        UserError: if a name is unknown, a width is below 1, or the image or the widths do not fit the architecture.
    """

    widths: tuple[int, ...] = (100,)
    activation: str = "relu"
    image: tuple[int, int, int] | None = None
    architecture: str = PLAIN

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)
        if self.architecture not in ARCHITECTURES:
            raise unknown_name("architecture", self.architecture, ARCHITECTURES)
        if not self.widths or min(self.widths) < 1:
            raise UserError(f"widths={list(self.widths)}: at least one layer, each at least 1 wide", "widths")
        if self.architecture == THREE_AND_THREE and (self.image is None or len(self.widths) != len(_SIZES)):
            raise UserError("architecture=3c3d: only with convolution=true and three widths", "architecture")
        if self.image is not None and min(self.sides[-1]) < 1:
            height, width, _ = self.image
            raise UserError(
                f"widths={list(self.widths)}: {len(self.widths)} poolings leave nothing of {height} x {width} "
                "pixels. Use fewer layers",
                "widths",
            )

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        if self.architecture == THREE_AND_THREE:
            return tuple(Convolution(*each, pool=3) for each in zip(self.widths, _SIZES, _PADDED, strict=True))
        return () if self.image is None else tuple(Convolution(width) for width in self.widths)

    @property
    def dense(self) -> tuple[int, ...]:
        """Widths of the dense layers."""
        if self.architecture == THREE_AND_THREE:
            return _DENSE
        return self.widths if self.image is None else ()

    @property
    def dense_activation(self) -> str:
        return "tanh" if self.architecture == THREE_AND_THREE else self.activation

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Height and width of the image before each convolution, and of what the last one leaves."""
        sides = [(0, 0) if self.image is None else self.image[:2]]
        for each in self.convolutions:
            sides.append((each.pooled(sides[-1][0]), each.pooled(sides[-1][1])))
        return sides

    def shapes(self, inputs: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of weights and biases, layer by layer, the output layer last.

        Raises:
            ValueError: if the number of inputs is not the number of the image's values.
        """
        left = inputs
        filters: list[tuple[int, ...]] = []
        if self.image is not None:
            height, width, channels = self.image
            if height * width * channels != inputs:
                raise ValueError(f"{inputs} inputs are no images of {height} x {width} x {channels}")
            for each in self.convolutions:
                filters += [(each.size, each.size, channels, each.width), (each.width,)]
                channels = each.width
            left = math.prod(self.sides[-1]) * channels
        pairs = itertools.pairwise((left, *self.dense, outputs))
        return (*filters, *(shape for a, b in pairs for shape in ((a, b), (b,))))

    def multiplications(self, inputs: int, outputs: int) -> int:
        """Return the number of multiplications per input. Errors are as in `shapes`."""
        sizes = [math.prod(shape) for shape in self.shapes(inputs, outputs)[::2]]
        applied = [c.filtered(h) * c.filtered(w) for c, (h, w) in zip(self.convolutions, self.sides, strict=False)]
        return sum(size * count for size, count in itertools.zip_longest(sizes, applied, fillvalue=1))
