"""From a user's rows to a model's inputs: the columns of a Pipeline, their units, and one row's values.

Scalers change one column each, (value - offset) / scale. What they did is followed back to the user's columns. Columns
that an encoder makes have no such origin: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9  # relative: how far a followed column may be from what the Pipeline makes of the row
ENCODERS = ("OneHotEncoder", "OrdinalEncoder")


@dataclass(frozen=True)
class Column:
    """An input of a model: (value of the user's column - offset) / scale, or a value that stays as it is.

    Attributes:
        source: number of the user's column, or None.
        free: whether it may move.
    """

    source: int | None
    offset: float = 0.0
    scale: float = 1.0
    free: bool = True

    def then(self, offset: float, scale: float) -> Column:
        """Return (this - offset) / scale."""
        return replace(self, offset=self.offset + self.scale * float(offset), scale=self.scale * float(scale))


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a user's table.

    Attributes:
        entries: in the user's columns, [D]. Texts stay texts.
        names: of the columns. None if the row has none.
        frame: the row as a table of pandas, if it was given as one.
    """

    entries: npt.NDArray[Any]
    names: tuple[str, ...] | None
    frame: pd.DataFrame | None = None

    def moved(self, columns: Sequence[int], values: FloatArray) -> Row:
        """Return the row with other values in these columns."""
        found = self.entries.copy()
        found[list(columns)] = values
        frame = self.frame
        if frame is not None:
            frame = frame.astype({frame.columns[place]: np.float64 for place in columns})
            for place, value in zip(columns, values, strict=True):
                frame.iloc[0, place] = value
        return Row(found, self.names, frame)

    @property
    def own(self) -> Any:
        """The row as it was given: a Series of a table, otherwise an array."""
        return self.entries if self.frame is None else self.frame.iloc[0]

    @property
    def table(self) -> Any:
        """The row as a table of one row."""
        return self.entries[None] if self.frame is None else self.frame


@dataclass(frozen=True, eq=False)
class Inputs:
    """Preparation of the inputs before a model.

    Attributes:
        columns: of the model's inputs, in order.
        names: of the user's columns that the model was trained with. None if it does not know them.
        width: how many columns a user's row has.
        steps: transformers before the model, in order.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...] | None
    width: int
    steps: tuple[Any, ...] = ()

    @cached_property
    def scale(self) -> FloatArray:
        """Scales [D] of the model's inputs, 1 for those that stay."""
        return np.array([column.scale for column in self.columns])

    @cached_property
    def offset(self) -> FloatArray:
        """Offsets [D] of the model's inputs, 0 for those that stay."""
        return np.array([column.offset for column in self.columns])

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The user's columns that are numbers to the model."""
        return tuple(sorted({each.source for each in self.columns if each.source is not None and each.free}))

    def transformed(self, row: Row) -> FloatArray:
        """Return the model's inputs [D] of a row, as the steps make them."""
        found = row.table
        for step in self.steps:
            found = step.transform(found)
        dense = found.toarray() if hasattr(found, "toarray") else found
        first: FloatArray = np.asarray(dense, dtype=np.float64)[0]
        return first

    def point(self, row: Row) -> FloatArray:
        """Return the model's inputs in the user's units [D]. Those that stay are the model's own.

        Raises:
            UserError: if a number is missing, or the steps make something else of the row than was followed.
        """
        made = self.transformed(row) if self.steps else None
        point = np.empty(len(self.columns))
        for place, column in enumerate(self.columns):
            if column.source is None:
                assert made is not None
                point[place] = made[place]
            else:
                point[place] = number(row, column.source)
        if made is not None:
            followed = (point - self.offset) / self.scale
            if not np.allclose(followed, made, rtol=ROUNDING, atol=ROUNDING):
                raise UserError("the steps before the model do not change each column separately, as they claim to")
        return point


def number(row: Row, place: int) -> float:
    """Return a value of a row. UserError if it is no finite number."""
    value = row.entries[place]
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = np.nan
    if not np.isfinite(found):
        raise UserError(f"x: column {name_of(row.names, place)} is {value!r}, a finite number is needed")
    return found


def name_of(names: Sequence[str] | None, place: int) -> str:
    return repr(names[place]) if names is not None else str(place)


def place_of(column: Any, names: Sequence[str] | None, width: int) -> int:
    """Return the number of a column by its name or number. UserError if there is none."""
    if names is not None and column in names:
        return list(names).index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < width:
        return int(column)
    known = ", ".join(map(str, names)) if names is not None else f"0 to {width - 1}"
    raise UserError(f"there is no column {column!r}; columns: {known}")


def rows_of(x: Any, inputs: Inputs) -> tuple[list[Row], bool]:
    """Return the rows of a user's x, and whether it is a single one.

    Raises:
        UserError: if it has other columns than the model was trained with.
    """
    if hasattr(x, "to_frame") and hasattr(x, "index") and not hasattr(x, "columns"):
        x = x.to_frame().T.infer_objects()
    if hasattr(x, "columns"):
        frame = _ordered(x, inputs)
        names = tuple(map(str, frame.columns))
        values = frame.to_numpy(dtype=object)
        return [Row(values[i], names, frame.iloc[[i]]) for i in range(len(frame))], len(frame) == 1
    array = np.asarray(x)
    single = array.ndim == 1
    array = np.atleast_2d(array)
    if array.ndim != 2 or array.shape[1] != inputs.width or not array.size:
        raise UserError(f"x: {inputs.width} columns are needed, got an array of shape {np.shape(x)}")
    if inputs.names is not None and inputs.steps:
        import pandas as pd

        return rows_of(pd.DataFrame(array, columns=list(inputs.names)).infer_objects(), inputs)[0], single
    return [Row(row, inputs.names) for row in array], single


def _ordered(frame: Any, inputs: Inputs) -> Any:
    """Return a table with the model's columns, in the model's order."""
    if not len(frame):
        raise UserError("x: the table has no row")
    twice = [name for name in frame.columns if list(frame.columns).count(name) > 1]
    if twice:
        raise UserError(f"x: more than one column is called {twice[0]!r}, so that none can be named")
    if inputs.names is None:
        if frame.shape[1] != inputs.width:
            raise UserError(f"x: {inputs.width} columns are needed, the table has {frame.shape[1]}")
        return frame
    absent = [name for name in inputs.names if name not in frame.columns]
    if absent:
        raise UserError(f"x: the table has no column {absent[0]!r}. The model takes {', '.join(inputs.names)}")
    return frame[list(inputs.names)]


def unwrapped(model: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the model at the end of a Pipeline and the steps before it."""
    if type(model).__name__ != "Pipeline" or not hasattr(model, "steps"):
        return model, ()
    steps = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    inner, before = unwrapped(model.steps[-1][1])
    return inner, (*steps, *before)


def inputs_of(steps: tuple[Any, ...], model: Any, count: int) -> Inputs:
    """Return what comes before a model of `count` inputs.

    Raises:
        UserError: naming a step that mixes columns, or is not fitted.
    """
    first = steps[0] if steps else model
    names = getattr(first, "feature_names_in_", None)
    width = getattr(first, "n_features_in_", count if not steps else None)
    if width is None:
        raise UserError(f"step {type(first).__name__} is not fitted: call fit first")
    columns = [Column(place) for place in range(width)]
    for step in steps:
        columns = _followed(step, columns)
    if len(columns) != count:
        raise UserError(f"the steps make {len(columns)} columns, the model takes {count}")
    used = [column.source for column in columns if column.source is not None]
    twice = [place for place in used if used.count(place) > 1]
    own = None if names is None else tuple(map(str, names))
    if twice:
        raise UserError(f"column {name_of(own, twice[0])} goes into two inputs of the model: certify takes it once")
    return Inputs(tuple(columns), own, width, steps)


def _followed(step: Any, columns: list[Column]) -> list[Column]:
    """Return the columns after a transformer, or raise a sentence that names it."""
    kind = type(step).__name__
    if step == "passthrough":
        return columns
    if step == "drop":
        return []
    if kind == "Pipeline":
        for _, each in step.steps:
            columns = _followed(each, columns)
        return columns
    if kind == "ColumnTransformer":
        return _columns_of(step, columns)
    try:
        if kind in SCALERS:
            shifts = SCALERS[kind](step, len(columns))
            return [column.then(*shift) for column, shift in zip(columns, zip(*shifts, strict=True), strict=True)]
        if kind in ENCODERS:
            return [Column(None)] * len(step.get_feature_names_out())
        if hasattr(step, "get_support"):
            return [column for column, kept in zip(columns, step.get_support(), strict=True) if kept]
    except AttributeError:
        raise UserError(f"step {kind} is not fitted: call fit first") from None
    known = ", ".join([*SCALERS, *ENCODERS, "ColumnTransformer"])
    raise UserError(f"step {kind}: certify follows columns through {known} and selections of columns")


def _columns_of(step: Any, columns: list[Column]) -> list[Column]:
    """Return what a ColumnTransformer makes of columns, in its own order."""
    if not hasattr(step, "transformers_"):
        raise UserError("step ColumnTransformer is not fitted: call fit first")
    names = getattr(step, "feature_names_in_", None)
    found: list[Column] = []
    for _, transformer, chosen in step.transformers_:
        places = _places(chosen, names, len(columns))
        if len(places):
            found += _followed(transformer, [columns[place] for place in places])
    return found


def _places(chosen: Any, names: Any, count: int) -> list[int]:
    """Return the numbers of the columns that a ColumnTransformer chose by names, numbers, a slice or a mask."""
    if isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, slice) and not isinstance(chosen.start, str):
        return list(range(count))[chosen]
    listed = list(np.atleast_1d(np.asarray(chosen, dtype=object)))
    if listed and all(isinstance(each, bool | np.bool_) for each in listed):
        return [place for place, kept in enumerate(listed) if kept]
    return [list(names).index(each) if isinstance(each, str) else int(each) % count for each in listed]


def _standard(step: Any, count: int) -> tuple[FloatArray, FloatArray]:
    mean = step.mean_ if step.with_mean else np.zeros(count)
    return mean, np.ones(count) if step.scale_ is None else step.scale_


def _min_max(step: Any, count: int) -> tuple[FloatArray, FloatArray]:
    if step.clip:
        raise UserError("MinMaxScaler(clip=True): certify follows columns that are not clipped")
    return -step.min_ / step.scale_, 1.0 / step.scale_


def _max_abs(step: Any, count: int) -> tuple[FloatArray, FloatArray]:
    return np.zeros(count), step.scale_


def _robust(step: Any, count: int) -> tuple[FloatArray, FloatArray]:
    centre = step.center_ if step.with_centering else np.zeros(count)
    return centre, step.scale_ if step.with_scaling else np.ones(count)


def _imputer(step: Any, count: int) -> tuple[FloatArray, FloatArray]:
    if step.indicator_ is not None or np.isnan(np.asarray(step.statistics_, dtype=np.float64)).any():
        raise UserError("SimpleImputer that adds or drops columns: certify follows one that fills them only")
    return np.zeros(count), np.ones(count)


SCALERS = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "SimpleImputer": _imputer,
}
