"""Datasets: descriptions, files, loaders, splits and scaling. Importing it loads only NumPy and YAML."""

from __future__ import annotations

from gpsuite.data.catalogue import Description, dataset_names, describe, read_spec
from gpsuite.data.dataset import Dataset
from gpsuite.data.files import FileState, fetch, verify
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec, DatasetSpec, FileSpec, Spec, from_plain, to_plain
from gpsuite.data.splits import Standardiser, fit_standardiser, train_test_indices
from gpsuite.data.table.read import read_csv

__all__ = [
    "CsvSpec",
    "Dataset",
    "DatasetSpec",
    "Description",
    "FileSpec",
    "FileState",
    "PreparedDataset",
    "Spec",
    "Standardiser",
    "dataset_names",
    "describe",
    "fetch",
    "fit_standardiser",
    "from_plain",
    "load",
    "prepare",
    "read_csv",
    "read_spec",
    "to_plain",
    "train_test_indices",
    "verify",
]
