"""The regression tables of Wild et al. 2022, Table 1: text files of numbers, most of them from UCI.

All rows are kept, including copies, as in the paper's code. Red wine has 240 rows with inputs that occur before.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec


@dataclass(frozen=True)
class Columns:
    """Names of a table's inputs and of its target. The target is the last column if no other is named."""

    inputs: tuple[str, ...]
    target: str
    unit: str = ""
    column: int = -1


BUILDING = (
    *("relative compactness", "surface area", "wall area", "roof area"),
    *("overall height", "orientation", "glazing area", "glazing area distribution"),
)
SHIP = (
    *(
        "lever position",
        "ship speed",
        "gas turbine shaft torque",
        "gas turbine revolutions",
        "gas generator revolutions",
    ),
    *(
        "starboard propeller torque",
        "port propeller torque",
        "turbine exit temperature",
        "compressor inlet temperature",
    ),
    *(
        "compressor outlet temperature",
        "turbine exit pressure",
        "compressor inlet pressure",
        "compressor outlet pressure",
    ),
    *("exhaust gas pressure", "turbine injection control", "fuel flow"),
)
WINE = (
    *("fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free sulfur dioxide"),
    *("total sulfur dioxide", "density", "pH", "sulphates", "alcohol"),
)
MIX = ("cement", "slag", "fly ash", "water", "superplasticizer", "coarse aggregate", "fine aggregate", "age")
HULL = (
    "buoyancy centre",
    "prismatic coefficient",
    "length-displacement",
    "beam-draught",
    "length-beam",
    "Froude number",
)
TABLES = {
    "concrete": Columns(MIX, "strength", "MPa"),
    "energy": Columns(BUILDING, "heating load", "kWh/m^2"),
    "energy_cooling": Columns((*BUILDING, "heating load"), "cooling load", "kWh/m^2"),
    "kin8nm": Columns(tuple(f"theta{joint}" for joint in range(1, 9)), "distance"),
    "power": Columns(("temperature", "exhaust vacuum", "pressure", "humidity"), "energy output", "MW"),
    "protein": Columns(tuple(f"F{number}" for number in range(1, 10)), "RMSD", "angstrom"),
    "wine_red": Columns(WINE, "quality"),
    "yacht": Columns(HULL, "residuary resistance"),
    "naval": Columns(SHIP, "compressor decay", column=16),
    "naval_turbine": Columns((*SHIP, "compressor decay"), "turbine decay", column=17),
}


@LOADERS.register("uci")
def load_uci(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return one table, named as in `TABLES`. Inputs are the columns before the target."""
    columns = TABLES[spec.name]
    [file] = spec.files
    comma = file.name.endswith(".csv")
    table = np.loadtxt(io.BytesIO(read(file.name)), delimiter="," if comma else None, skiprows=int(comma), ndmin=2)
    inputs = len(columns.inputs)
    units = {columns.target: columns.unit} if columns.unit else {}
    target = table[:, columns.column]
    return make_dataset(spec, table[:, :inputs], target, columns.inputs, (columns.target,), units=units)
