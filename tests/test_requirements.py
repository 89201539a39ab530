"""The pinned requirements install by hash as they are, whatever the registry has released since."""

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PINNED = Path(__file__).parents[1] / "scripts" / "requirements.txt"


def pinned() -> dict[str, set[str]]:
    """Return the pinned packages and the extras each is pinned with."""
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip("\\ ")) for line in lines if line[:1].isalnum()]
    return {canonicalize_name(pin.name): pin.extras for pin in pins}


def test_an_extra_that_a_package_asks_for_is_pinned_with_it() -> None:
    # pip looks for a package with extras apart from the package: without a pin of its own it takes the newest
    pins = pinned()
    missing = [
        f"{name} needs {asked}"
        for name, extras in pins.items()
        for asked in map(Requirement, requires(name) or [])
        if asked.extras - pins.get(canonicalize_name(asked.name), set())
        and (asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in {"", *extras}))
    ]
    assert not missing
