"""Comparisons of `gpsuite bench peers`: the same numbers by our code and by other libraries.

Every side is a worker of scripts/peers. Objectives and gradients are compared by time. Samplers by their cost per
effective sample: CPU seconds times the mean squared error of a run's means, in posterior variances, which is one over
the number of independent draws that would do as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.engine.worker import thread_environment
from gpsuite.errors import UserError
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.hamiltonian import identified_quantities
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings, start
from gpsuite.seeds import stream
from gpsuite.statistics.resampling import percentile_interval

STEP_GOAL = 0.4  # of every peer's objective and gradient
SAMPLE_GOAL = 0.2  # of their cost per effective sample
AGREEMENT = 1e-6  # relative, of value and gradient

FULL_ROWS, FULL_INPUTS = (404, 2000), 13  # as Boston housing
SPARSE_ROWS, SPARSE_INPUTS = 12000, 26  # as pol
INDUCING = (100, 500)
SAMPLED_ROWS, SAMPLED_OUTPUTS = 42, 2
PARTICLES, REFERENCE_PARTICLES = 128, 2048
WARM_UP, SAMPLES = 500, 1000

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of an answer.

    Attributes:
        error: what a side's time is multiplied by: 1 for an objective, a run's mean squared error for a sampler.
        said: the deviation in words.
    """

    error: float
    said: str


@dataclass(frozen=True)
class PeerCase:
    """One problem for several libraries.

    Attributes:
        case: what is computed, with its size.
        peers: those that compute it.
        goal: largest allowed ratio ours / peer.
        prepare: returns the workers' arrays, and how good an answer is, given our first answer.
        rounds: how often each side runs.
    """

    case: str
    peers: tuple[str, ...]
    goal: float
    prepare: Callable[[], tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]]
    rounds: int


def cases() -> list[PeerCase]:
    """Return the cases: the full GP's likelihood, VFE's bound, and the posterior of a multi-output model."""
    full = [
        PeerCase(
            f"log marginal likelihood + gradient, n={rows}, D={FULL_INPUTS}",
            ("gpjax", "gpytorch"),
            STEP_GOAL,
            partial(_objective, "likelihood", rows, FULL_INPUTS, 0),
            9,
        )
        for rows in FULL_ROWS
    ]
    sparse = [
        PeerCase(
            f"VFE bound + gradient, n={SPARSE_ROWS}, M={M}, D={SPARSE_INPUTS}",
            ("gpjax",),
            STEP_GOAL,
            partial(_objective, "vfe", SPARSE_ROWS, SPARSE_INPUTS, M),
            9 if M < 500 else 6,
        )
        for M in INDUCING
    ]
    case = f"one effective sample, posterior of 2 outputs' hyperparameters, N={SAMPLED_ROWS}"
    return [*full, *sparse, PeerCase(case, ("blackjax", "numpyro"), SAMPLE_GOAL, _posterior, 12)]


def _objective(
    task: str, rows: int, inputs: int, M: int
) -> tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]:
    rng = stream(0, "bench", rows)
    X = rng.standard_normal((rows, inputs))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(rows)
    theta = np.concatenate([[0.0], np.full(inputs, 0.7), [0.0]])
    return {"task": task, "X": X, "y": y, "theta": theta, "Z": X[:M]}, same_numbers


def same_numbers(answer: Answer, ours: Answer) -> Accuracy:
    """Compare value and gradient.

    Raises:
        ArithmeticError: if they are not the same: the two times would not speak of the same work.
    """
    gradient, expected = (np.array(each["gradient"]) for each in (answer, ours))
    value = abs(answer["value"] - ours["value"]) / abs(ours["value"])
    if gradient.shape != expected.shape:
        raise ArithmeticError(f"a gradient of {len(gradient)} numbers. Ours has {len(expected)}")
    slope = float(np.abs(gradient - expected).max() / np.abs(expected).max())
    if not max(value, slope) <= AGREEMENT:
        raise ArithmeticError(f"value and gradient differ from ours by {value:.1e} and {slope:.1e}")
    return Accuracy(1.0, f"value {value:.0e}, gradient {slope:.0e} from ours")


def _posterior() -> tuple[dict[str, Any], Callable[[Answer, Answer], Accuracy]]:
    rng = stream(0, "bench", "peers")
    X, p = rng.uniform(-2.0, 2.0, (SAMPLED_ROWS, 2)), np.arange(SAMPLED_ROWS) % SAMPLED_OUTPUTS
    y = np.sin(2.0 * X[:, 0] + p) + 0.3 * rng.standard_normal(SAMPLED_ROWS)
    model, settings = LinearCoregionalization(SAMPLED_OUTPUTS), SMCSettings(particles=REFERENCE_PARTICLES)
    likelihood = model.likelihood(Observations(X, p, y))
    large = start(model, likelihood, rng, settings)
    quantities = partial(identified_quantities, model, likelihood)
    reference = quantities(large.u)
    arrays = {
        **{"task": "posterior", "X": X, "y": y, "p": p, "seed": 0, "particles": PARTICLES},
        "prior": model.draw_prior(rng, REFERENCE_PARTICLES),
        # the peers' moves are ours, with the leapfrog step that ours ends with
        **{"step": large.step_size, "leapfrog": settings.leapfrog, "moves": settings.moves},
        **{"keep": settings.keep, "warm_up": WARM_UP, "samples": SAMPLES},
    }
    return arrays, partial(distance_of_means, quantities, reference)


def distance_of_means(
    quantities: Callable[[FloatArray], FloatArray], reference: FloatArray, answer: Answer, _: Answer
) -> Accuracy:
    """Return the mean squared error of a run's means in posterior variances, the reference's draws [S, Q] given."""
    found = quantities(np.array(answer["draws"])).mean(axis=0)
    error = float(np.mean(((found - reference.mean(axis=0)) / reference.std(axis=0)) ** 2))
    return Accuracy(error, f"{1.0 / error:.0f} effective samples" if error > 0.0 else "exact")


# Running other libraries next to ours, each in a process of its own environment, in turn, on the same numbers.
#
# A worker is a script of scripts/peers: it reads one npz file, answers in lines of JSON and times itself in CPU
# seconds.
# Ours runs twice, the second time as if it were a peer: what its ratio is away from one is noise (A/A).


ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts" / "peers"
ENVIRONMENT = ".venv-peers"
AGAIN = "ours again (A/A)"
RESAMPLES = 2000
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}


@dataclass(frozen=True)
class PeerRow:
    """One line of peers.csv.

    `cost` is in CPU seconds: per evaluation, or per effective sample. `low` to `high` is the ratio's 95 % interval,
    `noise` the largest factor that the A/A row's interval is away from one. `verdict` claims nothing inside it.
    """

    case: str
    peer: str
    cost: float
    peer_cost: float
    ratio: float
    low: float
    high: float
    goal: float
    noise: float
    verdict: str
    peer_accuracy: str
    peer_set_up: float


def peer_python() -> Path:
    """Return the peers' Python.

    Raises:
        UserError: if their environment was not made.
    """
    found = ROOT / ENVIRONMENT / "bin" / "python"
    if not found.exists():
        raise UserError(f"bench peers: the peers' environment {ENVIRONMENT} is missing\nmake it: make peers")
    return found


def worker_commands(peers: Sequence[str]) -> dict[str, list[str]]:
    """Return the command of each side by name: ours, ours again, and the peers named."""
    ours = [sys.executable, str(SCRIPTS / "ours.py")]
    theirs = {name: [str(peer_python()), str(SCRIPTS / f"with_{name}.py")] for name in peers}
    return {"ours": ours, AGAIN: ours, **theirs}


class Worker:
    """One side's process, from its set-up (compilation) on."""

    def __init__(self, command: Sequence[str], arrays: Path) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._command = command
        self._process = subprocess.Popen(
            [*command, str(arrays)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **thread_environment(1), **ONE_THREAD, "PYTHONPATH": path},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def answer(self) -> dict[str, Any]:
        """Wait for one answer.

        Raises:
            RuntimeError: if the process ended instead. It has said why on standard error.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._command)} ended with code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, number: int) -> dict[str, Any]:
        """Run the work once more and return its answer, `seconds` among it."""
        assert self._process.stdin is not None
        print(number, file=self._process.stdin, flush=True)
        return self.answer()


@dataclass(frozen=True)
class Measured:
    """One side's rounds: CPU seconds [R] and what each answer's error multiplies them by [R]."""

    seconds: FloatArray
    errors: FloatArray
    accuracy: str
    set_up: float

    def costs(self, rounds: Any) -> FloatArray:
        """Return median seconds times mean error over chosen rounds, the last axis of the index."""
        found: FloatArray = np.median(self.seconds[rounds], axis=-1) * self.errors[rounds].mean(axis=-1)
        return found


def compare(
    cases: Sequence[PeerCase], commands: Callable[[Sequence[str]], dict[str, list[str]]] = worker_commands
) -> Iterator[PeerRow]:
    """Run every case and yield the rows of its peers, first the A/A row."""
    for case in cases:
        measured = _measure(case, commands(case.peers))
        ours = measured.pop("ours")
        noise = None
        for peer, theirs in measured.items():
            low, high = ratio_interval(ours, theirs)
            noise = noise or max(high, 1.0 / low)  # of the first, which is A/A
            verdict = "noise" if peer == AGAIN else verdict_of(low, high, case.goal, noise)
            cost, peer_cost = (float(each.costs(slice(None))) for each in (ours, theirs))
            yield PeerRow(
                *(case.case, peer, cost, peer_cost, cost / peer_cost, low, high, case.goal, noise, verdict),
                *(theirs.accuracy, theirs.set_up),
            )


def verdict_of(low: float, high: float, goal: float, noise: float) -> str:
    """Return in words what the interval of a ratio shows, beyond what the same work against itself shows."""
    if low <= noise and high >= 1.0 / noise:
        return "within the noise"
    if high <= goal:
        return "goal reached"
    return "slower" if low > noise else "faster" + ", goal missed" * (low > goal)


def ratio_interval(ours: Measured, theirs: Measured) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of both costs, by resampling rounds.

    Rounds of objectives are pairs, run one after the other: both sides' are drawn together.
    """
    rng, R = stream(0, "bench", "rounds"), len(ours.seconds)
    first = rng.integers(R, size=(RESAMPLES, R))
    paired = bool((ours.errors == 1.0).all())
    second = first if paired else rng.integers(R, size=(RESAMPLES, R))
    return percentile_interval(ours.costs(first) / theirs.costs(second))


def _measure(case: PeerCase, commands: dict[str, list[str]]) -> dict[str, Measured]:
    """Set every side up, then run them in turn, and return each side's rounds by name."""
    arrays, accuracy = case.prepare()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "arrays.npz"
        np.savez(path, **arrays)
        workers, set_up = {}, {}
        for name, command in commands.items():
            workers[name] = stack.enter_context(Worker(command, path))
            set_up[name] = workers[name].answer()
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        for number in range(1, case.rounds + 1):
            for side, (name, worker) in enumerate(workers.items()):
                # every side's runs have their own random numbers
                rounds[name].append(worker.run(number + side * case.rounds))
        ours = set_up["ours"]
        return {
            name: Measured(
                seconds=np.array([each["seconds"] for each in found]),
                errors=np.array([accuracy(each, ours).error for each in found]),
                accuracy=accuracy(found[-1], ours).said,
                set_up=float(set_up[name]["set_up"]),
            )
            for name, found in rounds.items()
        }
