"""One module per source of data; each registers its loaders in `LOADERS`.

A loader gets the dataset's description and a function that returns the verified, uncompressed content of one of
its files by name; it returns the Dataset.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeAlias

from gpsuite.data.dataset import Dataset
from gpsuite.data.spec import DatasetSpec
from gpsuite.registry import Registry

Reader: TypeAlias = Callable[[str], bytes]
Loader: TypeAlias = Callable[[DatasetSpec, Reader], Dataset]

LOADERS: Registry[Loader] = Registry("loader")


def get_loader(name: str) -> Loader:
    """Return the loader of that name; a module added to this folder is found without further registration.

    Raises:
        UserError: if no module registers it; the message lists the valid names.
    """
    if name not in LOADERS:
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
    return LOADERS.get(name)
