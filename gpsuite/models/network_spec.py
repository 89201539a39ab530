"""Settings of a network, as plain data. No TensorFlow."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from gpsuite.errors import UserError, unknown_name

ACTIVATIONS = ("relu", "tanh")
KERNEL_SIZE, POOL = 3, 2


@dataclass(frozen=True)
class NetworkSpec:
    """Hidden layers of a network. Its outputs are linear in the last layer.

    Attributes:
        image: height, width, channels of inputs that are images, row by row. None for plain vectors. Each hidden
            layer is then a convolution of that many channels, followed by 2 x 2 pooling of the maximum.
        filter_size: height and width of the convolutions.
        dense: widths of dense layers after the convolutions.

    Raises:
        UserError: if the activation is unknown, a width is below 1, or the image is too small for the pooling.
    """

    widths: tuple[int, ...] = (100,)
    activation: str = "relu"
    image: tuple[int, int, int] | None = None
    filter_size: int = KERNEL_SIZE
    dense: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)
        if not self.widths or min(self.widths) < 1:
            raise UserError(f"widths={list(self.widths)}: at least one layer, each at least 1 wide", "widths")
        if min(self.filter_size, *self.dense, 1) < 1:
            raise UserError(f"filter_size={self.filter_size}, dense={list(self.dense)}: must be at least 1", "dense")
        if self.image is None and self.dense:
            raise UserError(f"dense={list(self.dense)}: only after convolutions. Use widths", "dense")
        if self.image is not None and min(self.image[:2]) < POOL ** len(self.widths):
            height, width, _ = self.image
            raise UserError(
                f"widths={list(self.widths)}: {len(self.widths)} poolings leave nothing of {height} x {width} "
                "pixels. Use fewer layers",
                "widths",
            )

    def shapes(self, inputs: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of weights and biases, layer by layer, the output layer last.

        Raises:
            ValueError: if the number of inputs is not the number of the image's values.
        """
        left, dense = inputs, self.widths
        filters: list[tuple[int, ...]] = []
        if self.image is not None:
            height, width, channels = self.image
            if height * width * channels != inputs:
                raise ValueError(f"{inputs} inputs are no images of {height} x {width} x {channels}")
            side, poolings = self.filter_size, POOL ** len(self.widths)
            pairs = itertools.pairwise((channels, *self.widths))
            filters = [shape for a, b in pairs for shape in ((side, side, a, b), (b,))]
            left, dense = (height // poolings) * (width // poolings) * self.widths[-1], self.dense
        pairs = itertools.pairwise((left, *dense, outputs))
        return (*filters, *(shape for a, b in pairs for shape in ((a, b), (b,))))

    def multiplications(self, inputs: int, outputs: int) -> int:
        """Return the number of multiplications per input. Errors are as in `shapes`."""
        total = 0
        for layer, shape in enumerate(self.shapes(inputs, outputs)[::2]):
            pixels = 1
            if self.image is not None and len(shape) == 4:  # a filter is applied at every pixel left by the poolings
                pixels = (self.image[0] // POOL**layer) * (self.image[1] // POOL**layer)
            total += pixels * math.prod(shape)
        return total
