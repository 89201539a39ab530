"""Gaussian process regressors that say how often new predictions are farther off than an accuracy goal.

A part of the rows, drawn at random, gives means and standard deviations and is used for nothing else: the bound is of
the other rows, for which these are fixed. It holds with probability 1 - delta over rows that are independent draws.

Equation: Reeb et al. 2018, Eq. (5)
"""

from __future__ import annotations

import csv
import io
import math
import shlex
import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.atomic import write_atomically
from gpsuite.budget import Budget
from gpsuite.certificates.envelope import write_packed
from gpsuite.certificates.risk import Goal, RiskCertificate, RiskClaim, Rows, pack
from gpsuite.data.spec import CsvSpec
from gpsuite.data.splits import DifferentRows, Standardiser, train_test_indices
from gpsuite.data.table.read import read_csv
from gpsuite.errors import DataError
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Certificate
from gpsuite.methods.pac_bayes.evaluation import Copies, certify_posterior
from gpsuite.methods.pac_bayes.full_gp import train_full_gp
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import StagedSearch, train_sparse_gp
from gpsuite.models.config import Hyperparameters
from gpsuite.models.regression.inducing import different_rows, kmeans_inducing
from gpsuite.python.columns import names_of, rows_to_fit, rows_to_predict
from gpsuite.rounding import rounded, sureness
from gpsuite.seeds import stream
from gpsuite.untrusted import file_pair

if TYPE_CHECKING:
    import pandas as pd

LEAST_ROWS = 8  # Maurer's theorem, behind ln(2 sqrt(n)/delta), is stated for n >= 8
USUAL_GOAL = 1.0  # standard deviations of the target
LARGEST_FULL = 20_000  # rows of a full GP. Its matrix takes 3.2 GB
FITC = 1.0


@dataclass(frozen=True, eq=False)
class ShareBound:
    """Proved statements on new rows: all hold together with probability 1 - delta.

    Attributes:
        share: at most this share of predictions is off by more than `accuracy`.
        drawn_share: the same of values drawn from the posterior. `share` is twice this.
        accuracy: in the target's units.
        learned_from: number of rows that the bound is of.
        target: name of the target.
        kl: of posterior and prior, in nats.
    """

    share: float
    drawn_share: float
    accuracy: float
    delta: float
    learned_from: int
    target: str
    kl: float
    rows: FloatArray  # inputs and target as given, [N, D + 1]
    names: tuple[str, ...]
    certificate: RiskCertificate

    def __repr__(self) -> str:
        if self.share >= 1.0:
            return (
                f"nothing is proved of how often predictions are off by more than {self.accuracy:.4g} (units of "
                f"{self.target}): the bound is 100 %. A larger accuracy, fewer inputs or more rows may help"
            )
        return (
            f"with probability at least {sureness(self.delta)}, at most {rounded(self.share, 4, 1)} of new predictions "
            f"are off by more than {self.accuracy:.4g} (units of {self.target}; learned from {self.learned_from} rows)"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        columns = ("target", "accuracy", "delta", "share", "drawn_share", "learned_from", "kl")
        return pd.DataFrame([{name: getattr(self, name) for name in columns}])

    def save(self, path: str | Path) -> str:
        """Write PATH.npz, PATH.json and the rows, PATH.csv. Return the command that checks them.

        Raises:
            OSError: if a file cannot be written.
            ValueError: if a table of these rows cannot be read as the same numbers: a column is constant.
        """
        npz, description = file_pair(Path(path))
        table = npz.with_suffix(".csv")
        write_atomically(table, lambda stream: stream.write(self._lines().encode()))
        try:
            data = read_csv(CsvSpec(path=str(table), target=[self.target], strict=True))
        except DataError as error:
            fault = str(error).splitlines()[0].partition(f"{table.name}: ")[2]
            raise ValueError(f"{table}: {fault}. Leave it out and fit again") from None
        if not np.array_equal(np.column_stack([data.X, data.y]), self.rows):
            raise ValueError(f"{table}: is read as other numbers. A certificate of these rows cannot be checked")
        rows = replace(self.certificate.rows, dataset=data.name, content_hash=data.content_hash)
        write_packed(*pack(replace(self.certificate, rows=rows)), npz)
        words = [str(description), f"dataset.path={table}", f"dataset.target={self.target}", "dataset.strict=true"]
        return f"gpsuite verify {shlex.join(words)}"

    def _lines(self) -> str:
        found = io.StringIO()
        writer = csv.writer(found, lineterminator="\n")
        writer.writerow([*self.names, self.target])
        writer.writerows(self.rows.tolist())  # floats as repr writes them: the same ones when they are read
        return found.getvalue()


class _PACRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with a bound. How it is trained is left open."""

    accuracy: float | None
    delta: float
    ard: bool
    preparation: float
    max_evaluations: int
    random_state: Any

    def fit(self, X: Any, y: Any) -> _PACRegressor:
        """Fit to inputs [N, D] and targets [N], and bound the share of predictions that are off.

        Raises:
            TypeError, ValueError: if a setting or the rows are not usable, or there are too few.
        """
        target = str(getattr(y, "name", None) or "y")
        X, y = rows_to_fit(self, X, y)
        self._check()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, aside = self._split(len(y), seed)
        self._inputs, self._target = Standardiser.fit(X[aside]), Standardiser.fit(y[aside, None])
        Xs, ys = self._inputs.transform(X[train]), self._target.transform(y[train, None])[:, 0]
        goal = Goal("band01", USUAL_GOAL if self.accuracy is None else float(self.accuracy), "standard deviations")
        scale = float(self._target.scale[0])
        loss, self.accuracy_ = BandLoss(goal.epsilon), goal.epsilon * scale
        if self.accuracy is not None:
            goal, loss, self.accuracy_ = replace(goal, unit="own"), BandLoss(goal.epsilon / scale), goal.epsilon
        found, posterior = self._train(RiskProblem(Xs, ys, loss, self.delta, ard=self.ard), seed)
        if found.status == "diverged":
            raise ValueError(f"training did not end with a finite bound: {found.reason}")
        self.posterior_, self.n_evaluations_ = posterior, found.evaluations
        proved = certify_posterior(posterior, loss, self.delta, copies=_copies(X, y, train, aside))
        rows = Rows("csv", "", len(y), self.preparation, seed, "others", target)
        self.certificate_ = self._bound(proved, goal, rows, np.column_stack([X, y]))
        self.bound_ = self.certificate_.share
        self._warn_of_edges()
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return predictions [B] in the target's units, and on request the standard deviation of a new target there.

        `bound_` is about the predictions. The standard deviations are the model's own: they are not proved.
        """
        mean, variance = self._moments(rows_to_predict(self, X))
        own = self._target.inverse(mean[:, None])[:, 0]
        noise = self.posterior_.hyperparameters.noise_variance
        return (own, float(self._target.scale[0]) * np.sqrt(variance + noise)) if return_std else own

    def _moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        found: tuple[FloatArray, FloatArray] = self.posterior_.predict(self._inputs.transform(X))
        return found

    @abstractmethod
    def _train(self, problem: RiskProblem, seed: int) -> tuple[TrainedGP, Posterior]: ...

    def _check(self) -> None:
        goal = self.accuracy
        if goal is not None and not (np.isfinite(goal) and goal > 0.0):
            raise ValueError(f"accuracy={goal}: must be a positive number in units of y, or None for one deviation")
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta={self.delta}: must lie between 0 and 1, such as 0.01")
        if not 0.0 < self.preparation < 1.0:
            raise ValueError(f"preparation={self.preparation}: must lie between 0 and 1, such as 0.2")

    def _split(self, rows: int, seed: int) -> tuple[IntArray, IntArray]:
        """Return the rows that the bound is of, and those that scale."""
        aside = math.ceil(rows * self.preparation)
        if rows - aside < LEAST_ROWS:
            raise ValueError(
                f"{rows} rows (n_samples={rows}) with preparation={self.preparation:g} leave {rows - aside} to learn "
                f"from: a bound needs {LEAST_ROWS}"
            )
        return train_test_indices(rows, self.preparation, seed)

    def _bound(self, found: Certificate, goal: Goal, rows: Rows, table: FloatArray) -> ShareBound:
        if found.reason:
            warnings.warn(f"nothing is proved: {found.reason}", stacklevel=3)
        # risk and KL as the bound takes them: with what rounding can have hidden
        risk, kl = min(found.gibbs_risk + found.risk_rounding, 1.0), found.penalty.kl + found.penalty.rounding
        claim = RiskClaim(self.delta, risk, kl, {"kl": found.bound_kl, "kl_lower": found.lower_kl})
        return ShareBound(
            found.bound_bayes, found.bound_kl, self.accuracy_, self.delta, found.n, rows.target, kl, table,
            tuple(names_of(self)), RiskCertificate(rows, self.posterior_.predictor, goal, claim),
        )  # fmt: skip

    def _warn_of_edges(self) -> None:
        found: Hyperparameters = self.posterior_.hyperparameters
        logs = np.log([found.variance, *found.lengthscales])
        own = [f"lengthscale of {name}" for name in names_of(self)] if self.ard else ["lengthscale"]
        at = [
            name for name, log in zip(["variance", *own], logs, strict=True) if abs(log) > PAPER_GRID.half_width - 0.005
        ]
        if at:
            fix = "the bound holds. An input of the largest lengthscale hardly counts, and fewer inputs may do better"
            warnings.warn(f"at the edge of the grid of hyperparameters: {', '.join(at)}; {fix}", stacklevel=3)


class PACGPRegressor(_PACRegressor):
    """A full GP that is trained by minimising its PAC-Bayesian bound (kl-PAC-GP).

    Args:
        accuracy: in units of y, chosen before seeing the rows: a prediction that is farther off counts as wrong. None:
            one standard deviation of the rows that scale.
        delta: allowed probability that the bound fails.
        ard: one lengthscale per input, each at a cost of ln(1201)/n in the bound, or a single one.
        preparation: share of the rows that give means and standard deviations. They are used for nothing else.
        max_evaluations: of the bound, in training. It takes O(N^3) time each.
        random_state: of the rows that prepare.

    Attributes:
        bound_: at most this share of new predictions is off by more than `accuracy_`, with probability 1 - delta.
        accuracy_: the accuracy goal in units of y.
        certificate_: the bound in words. `save(path)` writes what `gpsuite verify` checks.
        posterior_: of the scaled rows.

    Equation: Reeb et al. 2018, Sec. 3.1
    """

    def __init__(
        self,
        accuracy: float | None = None,
        delta: float = 0.01,
        *,
        ard: bool = False,
        preparation: float = 0.2,
        max_evaluations: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.accuracy, self.delta, self.ard, self.preparation = accuracy, delta, ard, preparation
        self.max_evaluations, self.random_state = max_evaluations, random_state

    def _train(self, problem: RiskProblem, seed: int) -> tuple[TrainedGP, Posterior]:
        if len(problem.y) > LARGEST_FULL:
            raise ValueError(f"{len(problem.y)} rows: a full GP takes at most {LARGEST_FULL}. Use PACSGPRegressor")
        found = train_full_gp(problem, Search(Budget(evaluations=self.max_evaluations)))
        return found, FullGPPosterior.fit(found.rounded, problem.X, problem.y)


class PACSGPRegressor(_PACRegressor):
    """A sparse GP in the FITC form that is trained by minimising its PAC-Bayesian bound (kl-PAC-SGP), for many rows.

    Args:
        inducing: number of inducing inputs. The different rows, if these are fewer.
        accuracy, delta, ard, preparation, max_evaluations, random_state: as of `PACGPRegressor`. An evaluation takes
            O(N inducing^2) time.

    Attributes:
        bound_, accuracy_, certificate_, posterior_: as of `PACGPRegressor`.

    Equation: Reeb et al. 2018, Sec. 3.2
    """

    def __init__(
        self,
        inducing: int = 50,
        accuracy: float | None = None,
        delta: float = 0.01,
        *,
        ard: bool = False,
        preparation: float = 0.2,
        max_evaluations: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.inducing, self.accuracy, self.delta, self.ard = inducing, accuracy, delta, ard
        self.preparation, self.max_evaluations, self.random_state = preparation, max_evaluations, random_state

    def _check(self) -> None:
        super()._check()
        if self.inducing < 1:
            raise ValueError(f"inducing={self.inducing}: at least one inducing input is needed")

    def _train(self, problem: RiskProblem, seed: int) -> tuple[TrainedGP, Posterior]:
        count = min(self.inducing, len(different_rows(problem.X)))
        Z = kmeans_inducing(problem.X, count, stream(seed, "inducing"))
        found = train_sparse_gp(problem, Z, FITC, StagedSearch(Budget(evaluations=self.max_evaluations)))
        return found.gp, SparseGPPosterior.fit(found.gp.rounded, problem.X, problem.y, found.Z, FITC)


def _copies(X: FloatArray, y: FloatArray, train: IntArray, aside: IntArray) -> Copies:
    """Return which rows of the bound are copies of others. One that also scales counts as lost.

    Raises:
        ValueError: if none is left.
    """
    first: dict[bytes, int] = {}
    rows = np.column_stack([X, y]) + 0.0  # -0 is 0
    groups = np.array([first.setdefault(row.tobytes(), number) for number, row in enumerate(rows)], dtype=np.int64)
    found = DifferentRows.of(train, aside, groups if len(first) < len(rows) else None)
    if found is not None and not len(found.places):
        raise ValueError(f"{len(rows)} rows, but only {len(first)} are different: too few for a bound")
    return Copies(found)
