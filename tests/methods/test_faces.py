"""The names that pac_bayes and robustness export are loaded when the first is asked for."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["gpsuite.methods.pac_bayes", "gpsuite.methods.robustness"])
def test_every_exported_name_is_there_and_no_other(package: str) -> None:
    room = import_module(package)
    names = room.__all__
    assert len(names) > 5 and all(getattr(room, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'math'"):
        _ = room.math
