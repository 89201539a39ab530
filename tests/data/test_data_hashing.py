from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import numpy as np

from gpsuite.data.hashing import array_hash, content_hash, json_hash
from tests.data.made_up_data import made_up


def test_arrays_are_hashed_by_value_not_by_layout() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert array_hash(matrix) == hashlib.sha256(struct.pack("<4d", 1, 2, 3, 4)).hexdigest()
    assert array_hash(np.asfortranarray(matrix)) == array_hash(matrix)
    assert array_hash(matrix.astype(">f8")) == array_hash(matrix)
    assert array_hash(matrix.T) != array_hash(matrix)


def test_content_hash_sees_files_and_arrays_but_not_words() -> None:
    spec = made_up()
    assert content_hash(replace(spec, title="another title", licence="MIT")) == content_hash(spec)
    assert content_hash(made_up(b"other content")) != content_hash(spec)
    assert content_hash(replace(spec, content_sha256="0")) != content_hash(spec)
    assert content_hash(replace(spec, variant="other")) != content_hash(spec)
    assert content_hash(replace(spec, version=2)) != content_hash(spec)
    assert content_hash(replace(spec, files=[])) != content_hash(spec)


def test_json_hash_is_that_of_the_compact_text() -> None:
    assert json_hash(["a", 1]) == hashlib.sha256(b'["a",1]').hexdigest()


def test_every_version_and_variant_of_a_preparation_is_other_content() -> None:
    spec = made_up()
    ways = [(None, 1), (None, 2), (None, 3), ("small", 1), ("small", 2)]
    assert len({content_hash(replace(spec, variant=v, version=n)) for v, n in ways}) == len(ways)
