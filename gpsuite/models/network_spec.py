"""What a network is made of, as plain data; no TensorFlow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gpsuite.errors import UserError, unknown_name

ACTIVATIONS = ("relu", "tanh")
KERNEL_SIZE, POOL = 3, 2


@dataclass(frozen=True)
class NetworkSpec:
    """Hidden layers of a network whose outputs are linear in the last of them.

    Attributes:
        image: height, width, channels of inputs that are images, row by row; None for plain vectors. Each hidden
            layer is then a 3 x 3 convolution of that many channels, followed by 2 x 2 pooling of the maximum.

    Raises:
        UserError: if the activation is unknown, a width is below 1, or the image is too small for the pooling.
    """

    widths: tuple[int, ...] = (100,)
    activation: str = "relu"
    image: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)
        if not self.widths or min(self.widths) < 1:
            raise UserError(f"widths={list(self.widths)}: at least one layer, each at least 1 wide", "widths")
        if self.image is not None and min(self.image[:2]) < POOL ** len(self.widths):
            height, width, _ = self.image
            raise UserError(
                f"widths={list(self.widths)}: {len(self.widths)} poolings leave nothing of {height} x {width} "
                "pixels; use fewer layers",
                "widths",
            )

    def shapes(self, inputs: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of weights and biases, layer by layer, the output layer last.

        Raises:
            ValueError: if the inputs are not as many as the image has values.
        """
        if self.image is None:
            sizes = (inputs, *self.widths)
            hidden = [shape for a, b in itertools.pairwise(sizes) for shape in ((a, b), (b,))]
            return (*hidden, (self.widths[-1], outputs), (outputs,))
        height, width, channels = self.image
        if height * width * channels != inputs:
            raise ValueError(f"{inputs} inputs are no images of {height} x {width} x {channels}")
        sizes = (channels, *self.widths)
        filters: list[tuple[int, ...]] = [
            shape for a, b in itertools.pairwise(sizes) for shape in ((KERNEL_SIZE, KERNEL_SIZE, a, b), (b,))
        ]
        left = (height // POOL ** len(self.widths)) * (width // POOL ** len(self.widths)) * self.widths[-1]
        return (*filters, (left, outputs), (outputs,))
