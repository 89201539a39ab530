"""The container in which every experiment receives its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray

Task: TypeAlias = Literal["regression", "classification", "measurements"]
Side: TypeAlias = Literal["above", "below"]

TASKS: tuple[Task, ...] = ("regression", "classification", "measurements")


@dataclass(frozen=True, eq=False)
class SafetyColumn:
    """A measured quantity that must stay on one side of a limit.

    Attributes:
        name: the column's name.
        z: measured values [N]. NaN if it was not measured. Read-only.
        limit: the limit, in the column's unit.
        side: safe side of the limit. The limit itself is safe.

    Raises:
        ValueError: if the limit or a value is infinite.
    """

    name: str
    z: FloatArray
    limit: float
    side: Side

    def __post_init__(self) -> None:
        z = np.array(self.z, dtype=np.float64)
        if z.ndim != 1 or np.isinf(z).any() or not np.isfinite(self.limit):
            raise ValueError("safety: z must be a vector, z and limit finite. NaN in z if it was not measured")
        z.setflags(write=False)
        object.__setattr__(self, "z", z)

    @property
    def safe(self) -> BoolArray:
        """Whether each row was measured to be safe [N]. An unmeasured row was not."""
        return self.z >= self.limit if self.side == "above" else self.z <= self.limit


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets of one dataset, in their original units. The arrays cannot be written to.

    Attributes:
        name: the dataset's name in the configuration.
        task: `regression`, `classification`, or `measurements`: outputs with gaps, a safety column and candidates.
        X: inputs, float64 [N, D].
        y: targets, float64 [N, P]. For classification P = 1 and the labels are 0, ..., C-1 as floats. For measurements
            NaN if an output was not measured.
        input_names: D column names.
        target_names: P column names.
        content_hash: hash that identifies the content. It is part of the key of every task that uses the dataset.
        stand_in: True for generated data in place of a missing file.
        fixed_split: row indices (train, test) if the dataset has a fixed split.
        label_names: the C labels as the source writes them, in the order of their numbers (classification).
        grid: further inputs without targets, float64 [G, D], if the source has them. For measurements the candidates.
        safety: the safety column (measurements).
        units: column name -> unit, where known.
        licence: licence of the data, as stated by the source.
        citation: source to cite.
        note: information for readers of results.
        notes: decisions made when the user's own table was read, each a sentence.
        warnings: doubts about how it was read, each a sentence or two, with the setting that decides it.
        groups: number of the first row that equals each row, [N], if rows are copies of others.
        lines: line of the user's file where each row begins, [N].
        categories: levels of each column of texts in the rows. With two levels the second has an input, with more each
            has one.
        reading: format of the user's table, for other files that belong to it: `separator`, `decimal` and `thousands`
            marks, units, and the kind of each input's cells (`gpsuite.data.table.roles`).
        order: the user's statement about the order of the rows: `time`, `none`, or nothing.
        time: the column of the rows' order, if the user names one.
        clusters: number of each row's group, [N], if rows belong together.
        cluster_name: the column of the groups.
        weights: likelihood ratio of new rows to these at each row, up to a factor, [N], if the user knows it.
        weight_name: the column of the likelihood ratios.
        sorted_by: column by which the file's rows are sorted or blocked, other than inputs and targets.

    Raises:
        ValueError: if shapes, names or labels do not fit together, a value is not finite, or measurements have no
            safety column or no candidates.
    """

    name: str
    task: Task
    X: FloatArray
    y: FloatArray
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    content_hash: str
    stand_in: bool = False
    fixed_split: tuple[IntArray, IntArray] | None = None
    label_names: tuple[str, ...] | None = None
    grid: FloatArray | None = None
    safety: SafetyColumn | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    citation: str = ""
    note: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: IntArray | None = None
    lines: IntArray | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)
    order: str = ""
    time: str = ""
    clusters: IntArray | None = None
    cluster_name: str = ""
    sorted_by: str = ""
    weights: FloatArray | None = None
    weight_name: str = ""

    @property
    def level_inputs(self) -> frozenset[str]:
        """Names of the inputs that are a level of a category: they are 0 or 1, with no values between."""
        levels = {f"{name}={level}" for name, given in self.categories.items() for level in given}
        return frozenset(levels.intersection(self.input_names))

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _frozen_matrix("X", self.X))
        object.__setattr__(self, "y", _frozen_matrix("y", self.y, gaps=self.task == "measurements"))
        if self.grid is not None:
            object.__setattr__(self, "grid", _frozen_matrix("grid", self.grid))
        if self.fixed_split is not None:
            object.__setattr__(self, "fixed_split", _frozen_split(self.fixed_split, self.X.shape[0]))
        self._check_shapes()
        if self.task == "classification":
            self._check_labels()
        if self.task == "measurements":
            self._check_measurements()

    @property
    def n_classes(self) -> int:
        """Number of classes C of a classification dataset (0 for regression)."""
        return int(self.y.max()) + 1 if self.task == "classification" else 0

    def name_row(self, row: int) -> str:
        """Return the name of a row for the user: its line in their file, otherwise its number from 1."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def _check_shapes(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task is '{self.task}'. It must be one of {', '.join(TASKS)}")
        if self.X.shape[0] != self.y.shape[0]:
            raise ValueError(f"X has {self.X.shape[0]} rows, y has {self.y.shape[0]}")
        for names, columns, what in (
            (self.input_names, self.X.shape[1], "inputs"),
            (self.target_names, self.y.shape[1], "targets"),
        ):
            if len(names) != columns:
                raise ValueError(f"{columns} {what} but {len(names)} names")
        if self.grid is not None and self.grid.shape[1] != self.X.shape[1]:
            raise ValueError(f"grid has {self.grid.shape[1]} columns, X has {self.X.shape[1]}")

    def _check_labels(self) -> None:
        if self.y.shape[1] != 1:
            raise ValueError(f"classification needs one target column, not {self.y.shape[1]}")
        if np.any(self.y != np.floor(self.y)) or np.any(self.y < 0):
            raise ValueError("labels must be the integers 0, ..., C-1")
        if self.label_names is not None and self.n_classes > len(self.label_names):
            raise ValueError(f"{self.n_classes} classes but {len(self.label_names)} label names")

    def _check_measurements(self) -> None:
        if self.safety is None or self.grid is None:
            raise ValueError("measurements need a safety column and candidates (grid)")
        if len(self.safety.z) != len(self.X):
            raise ValueError(f"X has {len(self.X)} rows, the safety column has {len(self.safety.z)}")


def _frozen_matrix(what: str, values: FloatArray, *, gaps: bool = False) -> FloatArray:
    """Return a read-only float64 copy of a non-empty matrix. It must be finite, or NaN if `gaps` are allowed."""
    matrix = np.array(values, dtype=np.float64, order="C")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{what} must be a matrix with at least one row and column. Its shape is {matrix.shape}")
    wrong = np.isinf(matrix) if gaps else ~np.isfinite(matrix)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(f"{what}[{row}, {column}] is {matrix[row, column]}. All values must be finite")
    matrix.setflags(write=False)
    return matrix


def _frozen_split(split: tuple[IntArray, IntArray], n_rows: int) -> tuple[IntArray, IntArray]:
    """Return the read-only index sets. They must be disjoint row numbers."""
    train, test = (np.array(part, dtype=np.int64) for part in split)
    both = np.concatenate([train, test])
    if train.ndim != 1 or both.size == 0 or both.min() < 0 or both.max() >= n_rows:
        raise ValueError(f"fixed_split must hold row numbers from 0 to {n_rows - 1}")
    if np.unique(both).size != both.size:
        raise ValueError("fixed_split: a row appears twice")
    train.setflags(write=False)
    test.setflags(write=False)
    return train, test
