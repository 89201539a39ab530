"""Spambase: word and character frequencies of 4601 e-mails; label 1 is spam."""

from __future__ import annotations

import io

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec

_WORDS = (
    *(
        "make",
        "address",
        "all",
        "3d",
        "our",
        "over",
        "remove",
        "internet",
        "order",
        "mail",
        "receive",
        "will",
    ),
    *("people", "report", "addresses", "free", "business", "email", "you", "credit", "your", "font", "000"),
    *(
        "money",
        "hp",
        "hpl",
        "george",
        "650",
        "lab",
        "labs",
        "telnet",
        "857",
        "data",
        "415",
        "85",
        "technology",
    ),
    *("1999", "parts", "pm", "direct", "cs", "meeting", "original", "project", "re", "edu", "table"),
    "conference",
)
INPUT_NAMES = (
    *(f"word_freq_{word}" for word in _WORDS),
    *(f"char_freq_{character}" for character in ";([!$#"),
    *(f"capital_run_length_{what}" for what in ("average", "longest", "total")),
)
# The inputs of Blaas et al. 2020, appendix, counted from 1
COLUMNS_11 = (5, 7, 16, 17, 19, 21, 23, 25, 52, 53, 57)
UNITS = {name: "%" for name in INPUT_NAMES if "_freq_" in name}


@LOADERS.register("spambase")
def load_spambase(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the inputs as published, all 57 or the 11 of Blaas et al. 2020 (variant `11`); not standardised."""
    table = np.loadtxt(io.BytesIO(read("spambase.data")), delimiter=",", ndmin=2)
    columns = [column - 1 for column in COLUMNS_11] if spec.variant == "11" else range(len(INPUT_NAMES))
    names = [INPUT_NAMES[column] for column in columns]
    return make_dataset(
        spec,
        table[:, list(columns)],
        table[:, -1],
        names,
        ("spam",),
        label_names=("not spam", "spam"),
        units={name: unit for name, unit in UNITS.items() if name in names},
    )
