"""The suite's colours, those of Okabe and Ito (safe for colour-blind readers), and those of methods, by their names."""

from __future__ import annotations

import hashlib
from itertools import product

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#777777"

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # in the order of `house.mplstyle`
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

HIGHEST, LOWEST = BLUE, GREEN  # what belongs to a maximum, and to a minimum
LIMIT = "0.4"  # lines at a limit, a nominal value, zero
NOTE = "#9a3412"

METHODS = {
    "kl_pac_gp": (BLUE, "o"),
    "kl_pac_sgp": (BLUE, "s"),
    "kl_pac_gp_restarts": (BLACK, "^"),
    "kl_pac_sgp_restarts": (BLACK, "v"),
    "kl_pac_free_form": (BLACK, "P"),
    "sqrt_pac_gp": (VERMILION, "s"),
    "sqrt_pac_sgp": (VERMILION, "o"),
    "sqrt_pac_gp_restarts": (GREY, "v"),
    "sqrt_pac_sgp_restarts": (GREY, "^"),
    "full_gp": (ORANGE, "D"),
    "vfe": (GREEN, "^"),
    "fitc": (PURPLE, "X"),
    "vfe_fitc_posterior": (SKY, "v"),
    "laplace": (BLUE, "o"),
    "ep": (VERMILION, "s"),
    "gpr": (GREEN, "o"),
    "sgpr": (PURPLE, "s"),
    "al_mogp": (VERMILION, "s"),
    "al_mogp_full": (VERMILION, "X"),
    "al_indgps": (GREEN, "^"),
    "al_indgps_full": (GREEN, "v"),
    "rs_mogp": (BLUE, "o"),
    "rs_mogp_full": (BLUE, "P"),
    "al_mogp_nosafe": (PURPLE, "D"),
    "al_convolution": (ORANGE, "v"),
    "rs_convolution": (SKY, "P"),
    "gwi": (BLUE, "o"),
    "gwi_kernel": (BLUE, "s"),
    "gwi_softmax": (ORANGE, "P"),
    "gwi_nngp": (BLUE, "D"),
    "svgp": (VERMILION, "o"),
    "svgp_softmax": (VERMILION, "^"),
    "map": (ORANGE, "s"),
    "temperature": (ORANGE, "v"),
    "mc_dropout": (PURPLE, "P"),
    "ensemble": (GREEN, "X"),
    "mean_field": (SKY, "D"),
    "last_layer_laplace": (BLACK, "*"),
    "gwi_regression": (BLUE, "P"),
    "gwi_kernel_regression": (SKY, "s"),
    "gwi_nngp_regression": (PURPLE, "D"),
    "svgp_regression": (VERMILION, "v"),
    "exact_gp": (BLACK, "X"),
    "gwi_classifier": (PURPLE, "P"),
    "svgp_classifier": (VERMILION, "v"),
}

INFERENCES = {"smc": (BLUE, "o"), "hmc": (BLACK, "X"), "map": (ORANGE, "s"), "ml": (GREEN, "^")}

DATASETS = {"synthetic2d": (BLUE, "o"), "spam": (VERMILION, "s"), "mnist38": (GREEN, "^")}

Style = dict[str, str]


def tint(color: str, share: float) -> str:
    """Return a colour `#RRGGBB` with this share of it in white, opaque: bands on one another stay the legend's."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def method_style(name: str) -> Style:
    """Return `color` and `marker` of a method, the same in every figure, to be passed on to `Axes.plot`.

    A method that is not listed gets one of the pairs that no listed method has, by its name's hash.
    """
    return _style(METHODS, name)


def inference_style(name: str) -> Style:
    """Return `color` and `marker` of a kind of inference where a figure tells those of one method apart."""
    return _style(INFERENCES, name)


def dataset_style(name: str) -> Style:
    """Return `color` and `marker` of a dataset where a figure tells datasets apart."""
    return _style(DATASETS, name)


def numbered_style(number: int) -> Style:
    """Return `color` and `marker` of a line that has no name of its own, by its place in the figure from 0."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def _style(named: dict[str, tuple[str, str]], name: str) -> Style:
    if name not in named:
        free = [pair for pair in product(COLOURS, MARKERS) if pair not in named.values()]
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        colour, marker = free[number % len(free)]
        return {"color": colour, "marker": marker}
    colour, marker = named[name]
    return {"color": colour, "marker": marker}
