"""What every worker of `gpsuite bench peers` speaks: arrays come in an npz file, answers go out as lines of JSON.

A worker prepares and runs its work once (compilation), says what that took, and then runs it once more, or several
times when it is short, for every line on its standard input: the number of the round.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHORT = 0.2  # CPU seconds: shorter work is repeated within one timing

Work = Callable[[int], dict[str, Any]]


def serve(prepare: Callable[[dict[str, np.ndarray]], Work]) -> None:
    """Answer until the input ends; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.process_time()
    with np.load(sys.argv[1]) as stored:
        arrays = dict(stored)
    work = prepare(arrays)
    result = work(0)
    set_up = time.process_time() - start
    start = time.process_time()
    work(0)
    count = max(1, round(SHORT / max(time.process_time() - start, 1e-6)))
    print(json.dumps({"set_up": set_up, **result}), file=answers, flush=True)
    for line in sys.stdin:
        start = time.process_time()
        for _ in range(count):
            result = work(int(line))
        seconds = (time.process_time() - start) / count
        print(json.dumps({"seconds": seconds, **result}), file=answers, flush=True)
