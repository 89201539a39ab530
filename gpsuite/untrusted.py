"""Reading files that anybody may have written: a JSON description and an .npz of plain arrays, within limits.

Nothing is allocated before its size is known and allowed, nothing is unpickled, nothing is uncompressed. Every fault
of a file ends in an `UnusableFileError` that names it.
"""

from __future__ import annotations

import errno
import io
import json
import lzma
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.errors import ResultsError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

LARGEST_TEXT = 4 << 20
LARGEST_ARRAYS = 160 << 20
MOST_ARRAYS = 64
LARGEST_RECORD_ARRAYS = 256 << 20  # of one task, unpacked
LARGEST_LINES = 64 << 20  # of a run's published records without their arrays, unpacked. The largest so far has 7 MB
LARGEST_MEMBER = 128 << 20  # their arrays, unpacked. The largest so far have 15 MB
MOST_MEMBERS = 60_000  # of a zip. A longer directory needs another format
MOST_NESTED = 64  # levels of JSON. Code that walks through more could run out of stack
# bytes requested at once: zipfile unpacks all it has read, up to 2 GB, before it looks at the size that a member states
_PIECE = 4096

_END = struct.Struct("<4s4H2LH")  # a zip's last record. Entries and size of its directory are at 3, 4 and 5
_DIRECTORY_ENTRY = 512  # bytes of the directory that one short name may take
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|=][a-zA-Z][0-9]{0,9})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,80})\), \} {0,256}\n",  # no two ways to match anything: no backtracking
    re.DOTALL,
)
_WIDE_END = b"PK\x06\x07"
# what damage makes of reading a zip: bad headers, wrong checksums, encryption, ends too early, sizes that are not true
_DAMAGES = (
    *(ValueError, OSError, EOFError, RuntimeError, ArithmeticError, MemoryError, KeyError, TypeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


class UnusableFileError(ResultsError):
    """A file is missing, damaged, too large, or not of the kind it should be."""


def file_pair(path: Path) -> tuple[Path, Path]:
    """Return the names NAME.npz and NAME.json for the name of either, or NAME itself."""
    if not path.name:
        raise UnusableFileError(f"{path}: not a file's name")
    stem = path.with_suffix("") if path.suffix in (".npz", ".json") else path
    return stem.with_name(f"{stem.name}.npz"), stem.with_name(f"{stem.name}.json")


def read_description(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of at most `LARGEST_TEXT` bytes.

    Raises:
        UnusableFileError: if there is none, a key comes twice, or a number is not finite.
    """
    text = _read_bytes(path, LARGEST_TEXT)
    try:
        found = parse_json(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except ValueError as error:
        reason = "nested too deeply" if "nested" in str(error) else "not JSON"
        raise UnusableFileError(f"{path}: {reason}") from error
    if not isinstance(found, dict):
        raise UnusableFileError(f"{path}: not a JSON object")
    return found


def read_arrays(
    path: Path, expected: Mapping[str, tuple[type[np.generic], int]], largest: int = LARGEST_ARRAYS
) -> dict[str, npt.NDArray[Any]]:
    """Return exactly the `expected` arrays, read-only, of an uncompressed .npz file of at most `largest` bytes.

    `expected` is name -> type and number of axes.

    Raises:
        UnusableFileError: if the file is not such an .npz, or an array is missing, unknown, of another type or
            number of axes, or holds a value that is not a number (infinities may have a meaning).
    """
    content = _read_bytes(path, largest)
    try:
        _check_directory(content)
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = file.infolist()
            _check_names([member.filename for member in members], expected)
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("compressed. Certificates are not")
            if sum(member.file_size for member in members) > len(content):
                raise ValueError("its members overlap")
            return {
                name: _read_array(file.read(member), name, *expected[name])
                for member in members
                for name in [member.filename.removesuffix(".npy")]
            }
    except _DAMAGES as error:
        raise UnusableFileError(f"{path}: {_one_line(error) or 'damaged or not an .npz file'}") from error


def read_file(path: Path, largest: int) -> bytes:
    """Return the content of a regular file of at most so many bytes. A pipe or a device could block or never end.

    Raises:
        OSError: if there is no such file, it cannot be read, is anything else, or larger.
        LeavingLinkError: if a link leads out of the results.
    """
    about = inside(path).stat()
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    if about.st_size > largest:
        raise OSError(errno.EFBIG, f"larger than {largest >> 20} MB", os.fspath(path))
    with path.open("rb") as stream:
        return stream.read(about.st_size)  # a larger number would be allocated at once


def parse_json(text: bytes, **hooks: Any) -> Any:
    """Return what a JSON text says. `hooks` are those of `json.loads`.

    Raises:
        ValueError: if it is not JSON, or nested too deeply.
    """
    try:
        found = json.loads(text.decode("utf-8"), **hooks)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    level, depth = [found] if isinstance(found, dict | list) else [], 0
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError("nested too deeply")
        inner = (part for each in level for part in (each.values() if isinstance(each, dict) else each))
        level = [part for part in inner if isinstance(part, dict | list)]
    return found


def read_member(content: bytes, name: str, largest: int) -> bytes:
    """Return a member of a zip, compressed or not, of at most so many bytes when unpacked.

    Raises:
        ValueError: if the zip or its member is damaged, missing or too large.
    """
    try:
        _check_directory(content, MOST_MEMBERS)
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return _unpacked(file, file.getinfo(name), largest)
    except KeyError as error:
        raise ValueError(f"{name} is missing") from error
    except _DAMAGES as error:
        raise ValueError(_one_line(error) or "damaged") from error


def unpack_arrays(content: bytes, largest: int) -> dict[str, npt.NDArray[Any]]:
    """Return all arrays of an .npz, compressed or not, of at most so many bytes together when unpacked.

    Raises:
        ValueError: if the file is damaged, too large, or holds anything but plain arrays.
    """
    try:
        _check_directory(content, MOST_MEMBERS)
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = file.infolist()
            if sum(each.file_size for each in members) > largest:
                raise ValueError(f"its arrays are larger than {largest >> 20} MB")
            return {
                each.filename.removesuffix(".npy"): _plain_array(_unpacked(file, each, largest), each.filename).copy()
                for each in members
            }
    except _DAMAGES as error:
        raise ValueError(_one_line(error) or "damaged") from error


def parse_fields(path: Path, parse: Callable[[], Any]) -> Any:
    """Return what `parse` makes of a description. Its errors become an `UnusableFileError` that names the file."""
    try:
        return parse()
    except KeyError as error:
        raise UnusableFileError(f"{path}: incomplete, {_one_line(error)} is missing") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnusableFileError(f"{path}: not usable, {_one_line(error)}") from error


def real(value: Any) -> float:
    """Return a number of a description as a finite float. ValueError for anything else, also true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_short(value)} is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("a number is too large") from error
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def words(value: Any) -> str:
    """Return a text of a description, which may hold anything: `gpsuite.text` makes it fit to be shown."""
    if not isinstance(value, str):
        raise ValueError(f"{_short(value)} is not a text")
    return value


def _short(value: Any) -> str:
    return ascii(value)[:40] if isinstance(value, str | int | float | bool | None) else type(value).__name__


def _one_line(error: BaseException) -> str:
    return " ".join(ascii(str(error))[1:-1].split())[:200]


def _read_bytes(path: Path, largest: int) -> bytes:
    """Return what `read_file` does. Its errors become an `UnusableFileError` that names the file."""
    try:
        return read_file(path, largest)
    except OSError as error:
        known = error.errno in (errno.EINVAL, errno.EFBIG)
        raise UnusableFileError(
            f"{path}: {error.strerror if known else f'cannot be read ({error.strerror})'}"
        ) from error
    except ValueError as error:
        raise UnusableFileError(f"{str(path)!a}: not a file's name") from error


def _unpacked(file: zipfile.ZipFile, member: zipfile.ZipInfo, largest: int) -> bytes:
    """Return a member's content. No more is unpacked than it states, and no more than so many bytes."""
    if member.file_size > largest:
        raise ValueError(f"{_short(member.filename)} is larger than {largest >> 20} MB")
    if member.flag_bits & 1:
        raise ValueError("encrypted")
    if member.compress_type == zipfile.ZIP_STORED:
        return file.read(member)
    if member.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):  # bzip2 makes a gigabyte of one piece
        raise ValueError("packed in a way that gpsuite does not use")
    pieces = bytearray()
    with file.open(member) as stream:
        while piece := stream.read(_PIECE):
            pieces += piece
    return bytes(pieces)


def _plain_array(content: bytes, name: str) -> npt.NDArray[Any]:
    """Return the array of an .npy member whose size is exactly the one that its header states.

    The header is matched, not evaluated: numpy's own reader parses it as Python.
    """
    import numpy as np

    header = _HEADER.match(content)
    if header is None:
        raise ValueError(f"{_short(name)} is damaged, or of another version of the .npy format")
    described, by_columns, lengths = (group.decode() for group in header.groups())
    shape = tuple(int(length) for length in lengths.replace(",", " ").split())
    dtype = np.dtype(described)
    if dtype.kind not in "biufcSU" or not dtype.itemsize:
        raise ValueError(f"{_short(name)} holds no plain values")
    if math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise ValueError(f"{_short(name)} has another size than it states")
    flat = np.frombuffer(content, dtype=dtype, offset=header.end()) if math.prod(shape) else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if by_columns == "True" else "C")


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} comes twice")
        found[key] = value
    return found


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    return real(float(text))


def _check_directory(content: bytes, most: int = MOST_ARRAYS) -> None:
    """Refuse a zip directory that would take long to read. The last record counts its entries and bytes."""
    if len(content) < _END.size:
        raise ValueError("damaged or not an .npz file")
    signature, _, _, entries, total, size, _, comment = _END.unpack(content[-_END.size :])
    if signature != b"PK\x05\x06" or comment or content[-_END.size - 20 :].startswith(_WIDE_END):
        raise ValueError("damaged or not an .npz file")
    if max(entries, total) > most or size > most * _DIRECTORY_ENTRY:
        raise ValueError(f"holds more than {most} arrays")


def _check_names(members: list[str], expected: Mapping[str, Any]) -> None:
    wanted = {f"{name}.npy" for name in expected}
    if len(set(members)) != len(members):
        raise ValueError("holds an array twice")
    for name in sorted(wanted - set(members)):
        raise ValueError(f"incomplete, {name} is missing")
    for name in sorted(set(members) - wanted):
        raise ValueError(f"holds an unknown array {_short(name)}")


def _read_array(content: bytes, name: str, kind: type[np.generic], ndim: int) -> npt.NDArray[Any]:
    """Return the array of an .npy member, of this type and with so many axes, all of whose values are numbers."""
    import numpy as np

    array = _plain_array(content, name)
    if array.dtype != np.dtype(kind) or array.ndim != ndim:
        raise ValueError(f"{name} is not a {np.dtype(kind).name} array with {ndim} axes")
    if kind is np.float64 and np.isnan(array).any():
        raise ValueError(f"{name} has values that are not numbers")
    return np.ascontiguousarray(array)


LARGEST_PICTURE = 32 << 20
MOST_PIXELS = 25_000_000  # six times our largest figure. Unpacked it takes 100 MB
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"  # what every PNG begins with. Width and height follow


def read_png(path: Path) -> bytes:
    """Return a picture of at most `LARGEST_PICTURE` bytes.

    Raises:
        UnusableFileError: if it cannot be read, or is anything but an undamaged PNG of at most `MOST_PIXELS`.
    """
    content = _read_bytes(path, LARGEST_PICTURE)
    try:
        open_png(content).verify()
    except Exception as error:  # damage raises a dozen kinds, from SyntaxError to zlib.error
        raise UnusableFileError(f"{path}: not a usable picture, {_one_line(error) or 'damaged'}") from error
    return content


def open_png(content: bytes) -> Image:
    """Return a picture whose pixels are not unpacked yet. No decoder but that of PNG sees it: others start programs.

    Raises:
        ValueError, OSError, SyntaxError, ...: if it is no PNG, or a damaged or too large one.
    """
    from PIL import Image

    width, height = png_size(content)
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"it states {width} x {height} pixels. At most {MOST_PIXELS} are shown")
    return Image.open(io.BytesIO(content), formats=["PNG"])


def png_size(content: bytes) -> tuple[int, int]:
    """Return width and height as the head of a PNG states them. ValueError if it is none."""
    if not content.startswith(_PNG) or len(content) < len(_PNG) + 8:
        raise ValueError("not a PNG")
    width, height = struct.unpack_from(">II", content, len(_PNG))
    return int(width), int(height)


_RESULTS: dict[Path, Path] = {}  # the folders of `guard_links`: absolute -> as given


class LeavingLinkError(UnusableFileError):
    """A link below a results folder leads out of it: git and archives carry links, so anybody may have made it."""


def guard_links(results_dir: Path) -> Path:
    """Return the folder, which may be a link. From now on this process follows no link below that leads out of it."""
    place = Path(os.path.abspath(results_dir))
    if not any(each in _RESULTS for each in place.parents):  # the outer one's links are those that lead out
        _RESULTS.setdefault(place, results_dir)
    return results_dir


def inside(path: Path) -> Path:
    """Return the path, which may be read and written. Nothing below a results folder may be without this question.

    Raises:
        LeavingLinkError: naming the link, if one on the way leads out of a folder of `guard_links`.
    """
    if fault := _leaving(path):
        raise LeavingLinkError(fault)
    return path


def is_inside(path: Path) -> bool:
    """Return whether no link on the way leads out of a folder of `guard_links`."""
    return not _leaving(path)


def leaving_links(folder: Path) -> list[str]:
    """Return a sentence for each link in a folder, or on the way to it, that leads out of a folder of `guard_links`."""
    if fault := _leaving(folder):
        return [fault]
    return sorted({fault for path in _links_in(folder) if (fault := _leaving(path))})


def refuse_links(folder: Path) -> None:
    """Raise a `LeavingLinkError` that names the first of the `leaving_links`."""
    for fault in leaving_links(folder):
        raise LeavingLinkError(fault)


def _leaving(path: Path) -> str:
    place = Path(os.path.abspath(path))
    for root in (each for each in place.parents if each in _RESULTS):
        steps = place.relative_to(root).parts
        for end in range(1, len(steps) + 1):
            link = root.joinpath(*steps[:end])
            if os.path.islink(link) and not Path(os.path.realpath(link)).is_relative_to(os.path.realpath(root)):
                shown = _RESULTS[root]
                return f"{shown.joinpath(*steps[:end])}: a link that leads out of {shown}. It is not followed"
    return ""


def _links_in(folder: Path) -> Iterator[Path]:
    open_folders = [folder]
    while open_folders:
        try:
            with os.scandir(open_folders.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield Path(entry.path)
                    elif entry.is_dir():
                        open_folders.append(Path(entry.path))
        except OSError:  # not there, or not for us: nothing in it is read either
            continue
