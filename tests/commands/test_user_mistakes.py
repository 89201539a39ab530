"""Every mistake gets exit code 2, at most four lines naming key and fix, and leaves earlier results alone."""

from __future__ import annotations

import csv
import errno
import math
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.folder import locked
from gpsuite.methods.pac_bayes import cost
from tests.commands.conftest import Gpsuite

RUN = ("run", "experiment=pac_bayes/regression")
CSV = (*RUN, "dataset=csv", "dataset.path=table.csv")
SEVERAL = ("run", "experiment=pac_bayes/loss_exp")
BOSTON = ("run", "experiment=pac_bayes/epsilon_boston")
ROWS = [f"{i},{(i * 7) % 11},{i * 0.5 + (i * 7) % 11}" for i in range(40)]


def table(*changed: tuple[int, str], header: str = "a,b,y") -> str:
    """Return a good table of 40 rows, with some lines replaced."""
    lines = list(ROWS)
    for number, line in changed:
        lines[number] = line
    return "\n".join([header, *lines]) + "\n"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(autouse=True)
def earlier_results(workplace: Path) -> Path:
    results = workplace / "results"
    for name in ("pac_bayes/regression/quick/run.json", "pac_bayes/regression/quick/tables/regression.csv"):
        path = results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"status": "done"}', encoding="utf-8")
    (workplace / "table.csv").write_text(table(), encoding="utf-8")
    return results


WORDS = [
    # (words, what the message must contain)
    (("runn",), ["runn: unknown command", "Did you mean 'run'"]),
    (("nosuch",), ["nosuch: unknown command\nvalid: certify, run"]),  # none is near
    (("run",), ["experiment: missing", "pac_bayes/regression"]),
    (("run", "experiment=pac_bayes/regresion"), ["Did you mean 'pac_bayes/regression'"]),
    (("run", "experiment="), ["experiment="]),
    ((*RUN, "epsilonn=0.5"), ["epsilonn", "Did you mean 'epsilon'"]),
    ((*RUN, "+epsilon=0.5"), ["cannot be added"]),
    ((*RUN, "+nonsense=1"), ["cannot be added"]),
    ((*RUN, "+foo"), ["+foo", "cannot be added", "foo=VALUE", "--help"]),
    ((*RUN, "~epsilon"), ["~epsilon", "Leave epsilon out"]),
    ((*RUN, "foo=1"), ["foo: pac_bayes/regression has no such setting", "gpsuite run pac_bayes/regression --help"]),
    ((*RUN, "epsilon="), ["epsilon=: no value", "a number"]),
    ((*RUN, "epsilon=null"), ["epsilon=null: must be a number"]),
    ((*RUN, "wait=3"), ["wait=3: must be true or false"]),
    ((*RUN, "budget.seconds=soon"), ["budget.seconds=soon: must be a number or null"]),
    ((*RUN, "method.inducing=10"), ["not an option of kl_pac_gp", "valid: fitc", "vfe"]),
    ((*RUN, "method=kl_pac_gp", "method.inducin=10"), ["has no such setting", "valid: method.objective"]),
    (("run", "experiment=robustness/safety", "features=sift10"), ["For tables: all, first<N>"]),
    ((*BOSTON, "epsilons=0.1,0.2"), ["Add -m", "epsilons=[0.1,0.2]"]),
    (("verify", "table.csv"), ["is not a certificate", "NAME.npz and NAME.json"]),
    (("verify", "nowhere.npz"), ["is not there", "NAME.npz and NAME.json"]),
    ((*RUN, "epsilon"), ["expected key=value"]),
    ((*RUN, "-epsilon", "0.5"), ["unknown option"]),
    ((*RUN, "--epsilon"), ["a value is missing", "epsilon=VALUE"]),
    ((*RUN, "--epsilon", "-1"), ["epsilon=-1"]),
    ((*RUN, "method=kl_pac_pg"), ["Did you mean 'kl_pac_gp'"]),
    ((*RUN, "methods=[kl_pac_gp,nope]"), ["method=nope", "valid:"]),
    ((*RUN, "methods=[kl_pac_gp,kl_pac_gp]"), ["named twice"]),
    ((*RUN, "methods=[]"), ["name at least one"]),
    ((*RUN, "method=full_gp", "methods=[full_gp]"), ["one of the two"]),
    (
        (*RUN, "method=kl_pac_gp", "method.objective=best"),
        ["method.objective=best", "valid: catoni, kl, lambda, quadratic, sqrt"],
    ),
    ((*RUN, "method=kl_pac_gp", "method.title=mine"), ["method.title"]),
    ((*RUN, "method=laplace"), ["method=laplace: not a method of pac_bayes/regression", "kl_pac_gp"]),
    ((*RUN, "dataset=bostn"), ["Did you mean 'boston'"]),
    ((*RUN, "dataset=digits"), ["classification dataset cannot be used", "valid:"]),
    ((*RUN, "dataset.path=table.csv"), ["dataset.path", "dataset=csv"]),
    ((*RUN, "dataset=boston"), ["housing.data", "missing", "baadf72995", "GPSUITE_DATA_PATH"]),
    ((*BOSTON, "dataset=diabetes"), ["fixed dataset", "gpsuite data describe FILE"]),
    (
        ("run", "experiment=perturbation"),
        ["a family. Choose one of", "perturbation/coverage", "gpsuite list perturbation"],
    ),
    (
        ("run", "experiment=active_learning/engine", "dataset=boston"),
        ["fixed dataset", "valid: gengine1, gengine1_co2_hc"],
    ),
    ((*RUN, "datasets=[diabetes]"), ["datasets", "Did you mean 'dataset'"]),
    ((*SEVERAL, "datasets=[diabetes,kin40]"), ["dataset=kin40", "Did you mean 'kin40k'"]),
    ((*SEVERAL, "datasets=[diabetes,diabetes]"), ["datasets=[diabetes,diabetes]", "named twice"]),
    ((*SEVERAL, "datasets=[]"), ["datasets=[]", "at least one"]),
    ((*SEVERAL, "datasets=null"), ["datasets=[]", "at least one"]),
    ((*SEVERAL, "datasets=[diabetes,7]"), ["dataset=7", "valid:"]),
    ((*SEVERAL, "datasets=[diabetes,digits]"), ["datasets=digits", "classification dataset", "valid:"]),
    ((*SEVERAL, "datasets=[csv]"), ["datasets=[csv]", "gpsuite run pac_bayes/regression dataset=FILE"]),
    ((*SEVERAL, "datasets=diabetes,pol"), ["Add -m", "datasets=[diabetes,pol]"]),
    ((*SEVERAL, "dataset=diabetes"), ["dataset=diabetes", "datasets=[A,B]"]),
    ((*SEVERAL, "dataset=csv"), ["dataset=csv", "gpsuite run pac_bayes/regression dataset=FILE"]),
    ((*SEVERAL, "dataset.path=table.csv"), ["dataset.path", "gpsuite run pac_bayes/regression dataset=FILE"]),
    ((*SEVERAL, "dataset=nope"), ["unknown dataset"]),
    ((*SEVERAL, "dataset=bostn"), ["Did you mean 'boston'"]),
    ((*SEVERAL, "dataset"), ["expected key=value"]),
    ((*SEVERAL, "data_sets=[pol]"), ["data_sets", "Did you mean 'datasets'"]),
    (SEVERAL, ["pol_train_data.asc", "missing", "GPSUITE_DATA_PATH", "leave it out: datasets=[kin40k,sarcos]"]),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[]"), ["inducing=[]", "at least one"]),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[0,5]"), ["inducing=0", "1 or more"]),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[5,5]"), ["inducing=[5, 5]", "twice"]),
    ((*SEVERAL, "datasets=[diabetes]", "scale=paper"), ["inducing=500", "353 training rows of diabetes"]),
    ((*SEVERAL, "datasets=[diabetes]", "single_lengthscale=[sarcs]"), ["Did you mean 'sarcos'"]),
    ((*SEVERAL, "datasets=[diabetes]", "method=kl_pac_gp"), ["not a method of pac_bayes/loss_exp"]),
    ((*SEVERAL, "datasets=[diabetes]", "epsilon=0"), ["epsilon=0"]),
    ((*RUN, "model=rbf"), ["unknown model", "se"]),
    ((*RUN, "model=matern32"), ["model=se"]),
    ((*RUN, "model.ard=perhaps"), ["model.ard=perhaps"]),
    ((*RUN, "scale=huge"), ["scale=huge", "smoke"]),
    ((*RUN, "epsilon=-0.1"), ["epsilon=-0.1", "above 0"]),
    ((*RUN, "epsilon=nan"), ["epsilon=nan"]),
    ((*RUN, "accuracy=0"), ["accuracy=0", "above 0"]),
    ((*RUN, "delta=1.5"), ["delta=1.5", "between 0 and 1"]),
    ((*RUN, "test_share=0"), ["test_share=0"]),
    ((*RUN, "test_share=0.9999"), ["test_share"]),
    ((*RUN, "repetitions=0"), ["repetitions=0", "1 or more"]),
    ((*RUN, "repetitions=2.5"), ["repetitions=2.5"]),
    ((*RUN, "repetitions=many"), ["repetitions=many"]),
    ((*RUN, "scaling=none"), ["scaling=none", "all, train"]),
    ((*RUN, "budget.seconds=inf"), ["budget.seconds=inf", "finite"]),
    ((*RUN, "seed=-1"), ["seed=-1"]),
    ((*RUN, "seed=0,1"), ["Add -m", "gpsuite run -m ... seed=0,1"]),
    ((*RUN, "seed=1", "seed=2"), ["given twice"]),
    ((*RUN, "experiment=pac_bayes/regression"), ["given twice"]),
    ((*RUN, "parallel=cluster"), ["unknown parallel", "serial"]),
    ((*RUN, "parallel.workers=0"), ["parallel.workers=0"]),
    ((*RUN, "threads=0"), ["threads=0"]),
    ((*RUN, "threads=two"), ["threads=two"]),
    ((*RUN, "on_error=ignore"), ["continue, raise"]),
    ((*RUN, "run_name=a/b"), ["run_name=a/b"]),
    ((*RUN, "budget.seconds=-3"), ["budget.seconds=-3"]),
    ((*RUN, "budget=3"), ["valid: budget.seconds"]),
    ((*RUN, "epsilon=[1"), ["cannot be read"]),
    ((*RUN, "-m", "experiment=pac_bayes/epsilon_boston,nope"), ["given twice"]),
    (("run", "-m", "experiment=pac_bayes/regression,pac_bayes/nope"), ["unknown experiment"]),
    (("run", "-m", "experiment=glob(nothing*)"), ["no name matches"]),
    ((*RUN, "dataset=csv"), ["dataset.path: missing"]),
    ((*CSV,), ["dataset.target: which column", "columns: a, b, y", "dataset.target=y"]),
    ((*RUN, "dataset=csv", "dataset.target=y", "dataset.path=tabel.csv"), ["tabel.csv", "table.csv"]),
    ((*RUN, "dataset=csv", "dataset.target=y", "dataset.path=."), ["dataset.path"]),
    ((*CSV, "dataset.target=z"), ["dataset.target=z"]),
    ((*CSV, "dataset.target=y", "dataset.inputs=[a,q]"), ["dataset.inputs"]),
    ((*CSV, "dataset.target=y", "dataset.inputs=y"), ["y"]),
    ((*CSV, "dataset.target=y", "dataset.separator=;"), ["dataset.separator"]),
    ((*CSV, "dataset.target=y", "dataset.task=ranking"), ["dataset.task=ranking"]),
    ((*CSV, "dataset.target=y", "dataset.sep=;"), ["Did you mean 'dataset.separator'"]),
    ((*CSV, "dataset.target=y", "dataset.delimiter=;"), ["Did you mean 'dataset.separator'"]),
    (("list", "experimnts"), ["Did you mean 'experiments'"]),
    (("list", "nosuch"), ["gpsuite: nosuch: no experiment, dataset or method\ngpsuite list shows all\n"]),
    (("status", "pac_bayes/nope"), ["unknown experiment"]),
    (("compare", "nope"), ["unknown experiment"]),
    (("publish",), ["name the experiments"]),
    (("publish", "pac_bayes/epsilon_boston"), ["no finished run"]),
    (("data",), ["list, fetch, verify, describe"]),
    (("data", "fech"), ["Did you mean 'fetch'"]),
    (("data", "verify", "bostn"), ["Did you mean 'boston'"]),
    (("bench", "nope"), ["nope: nothing to time"]),
    (("bench", "peers", "robustness"), ["separate run"]),
    (("report", "nope"), ["takes no names"]),
    (("status", "outdir=x"), ["results_dir=DIR"]),
]


@pytest.mark.parametrize(("words", "parts"), WORDS, ids=[" ".join(words)[-60:] for words, _ in WORDS])
def test_a_wrong_word_is_refused_with_the_correction(
    gpsuite: Gpsuite, earlier_results: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    refused(gpsuite, earlier_results, words, parts)


FILES = [
    (b"", ["empty"]),
    (b"a,b,y\n", ["row"]),
    (b"\x00\x01\x02\xff\xfe" * 50, ["not a text CSV"]),
    (table((4, "4,x,3")).encode(), ["line 6", "b", "x"]),
    (table((4, "4,inf,3")).encode(), ["line 6", "b"]),
    (table((4, "4,5")).encode(), ["line 6"]),
    (table((4, "4,5,6,7")).encode(), ["line 6"]),
    (table(header="a,y,y").encode(), ["'y'", "two columns"]),
    ("\n".join(table().splitlines()[:5]).encode(), ["row"]),
    ("b,y\n" + "".join(f"1,{i}\n" for i in range(40)), ["b", "constant"]),
    ("a,b,y\n" + "".join(f"{i},{i % 5},2\n" for i in range(40)), ["'y'", "constant"]),
]


@pytest.mark.parametrize(
    ("content", "parts"), FILES, ids=[f"{number}-{parts[-1]}" for number, (_, parts) in enumerate(FILES)]
)
def test_a_wrong_table_is_refused_with_its_fault(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, content: bytes | str, parts: list[str]
) -> None:
    (workplace / "table.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    # a constant column is the fault of what was chosen, anything else that of the file
    place = "dataset." if "constant" in parts else "table.csv"
    refused(gpsuite, earlier_results, (*CSV, "dataset.target=y"), [place, *parts])


STRICT = [
    (table((4, "4,,3")).encode(), ["line 6", "b", "missing=drop_rows"]),
    (table((4, "4,nan,3")).encode(), ["line 6", "b"]),
    (table(header="a,a,y").encode(), ["'a'", "two columns"]),
    (table().replace(",", ";").encode(), ["dataset.separator"]),
    (table().replace(",", "\t").encode(), ["dataset.separator"]),
    (table().encode("utf-16"), ["binary"]),
]


@pytest.mark.parametrize(("content", "parts"), STRICT, ids=[str(number) for number in range(len(STRICT))])
def test_nothing_is_guessed_where_strict(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, content: bytes, parts: list[str]
) -> None:
    (workplace / "table.csv").write_bytes(content)
    refused(gpsuite, earlier_results, (*CSV, "dataset.target=y", "dataset.strict=true"), parts)


def test_the_corrected_command_is_ready_to_paste_and_works(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path
) -> None:
    (workplace / "table.csv").write_text(table((4, "4,x,3"), (7, "oh,1,3,5")), encoding="utf-8")
    command = gpsuite(*CSV, "dataset.target=Y", "seed=3").err.splitlines()[-1]
    assert command == f"gpsuite {' '.join(CSV)} seed=3 dataset.target=y"
    ended = gpsuite(*shlex.split(command)[1:])
    assert "2 faults: line 9 has 4 cells, the header has 3; line 6, column 'b': 'x' is not a number" in ended.err
    command = ended.err.splitlines()[-1]
    assert command.endswith("dataset.missing=drop_rows")
    request, _ = read_request(shlex.split(command)[2:])
    assert request.require_dataset().rows == 38
    assert len(request.require_dataset().notes) == 2, "what was left out is said"


def test_two_targets_are_refused_where_one_is_learned(gpsuite: Gpsuite, earlier_results: Path) -> None:
    words = (*CSV, "dataset.target=[y,a]")
    refused(gpsuite, earlier_results, words, ["learns one target", "dataset.target=y"])


def test_a_table_is_described(gpsuite: Gpsuite, workplace: Path, earlier_results: Path) -> None:
    shown = gpsuite("data", "describe", "table.csv")
    assert shown.code == 0
    assert "b\tnumber" in shown.out
    assert "gpsuite run pac_bayes/regression dataset=table.csv dataset.target=y" in shown.out
    for words, part in (
        (("data", "describe"), "name one file"),
        (("data", "describe", "tabel.csv"), "table.csv"),
        (("data", "describe", "table.csv", "dataset.seperator=;"), "dataset.separator"),
        (("data", "describe", "table.csv", "dataset.skip_rows=x"), "whole number"),
    ):
        refused(gpsuite, earlier_results, words, [part])


def refused(gpsuite: Gpsuite, results: Path, words: tuple[str, ...], parts: list[str]) -> None:
    before = snapshot(results)
    ended = gpsuite(*words)
    assert ended.code == 2, ended.err
    assert ended.out == ""
    assert ended.err.startswith("gpsuite: ")
    assert 1 <= len(ended.err.splitlines()) <= 4
    assert "Traceback" not in ended.err
    for part in parts:
        assert part in ended.err
    assert snapshot(results) == before


def test_an_unreadable_file_is_refused_and_nothing_changes(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop the superuser, so the refusal of the system is simulated."""

    def denied(path: Path, largest: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    before = snapshot(earlier_results)
    monkeypatch.setattr("gpsuite.data.table.layout.read_file", denied)
    ended = gpsuite(*CSV, "dataset.target=y")
    monkeypatch.undo()
    assert ended.code == 2
    assert "ermission denied" in ended.err
    assert snapshot(earlier_results) == before


def test_a_corrupted_dataset_file_is_refused(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "stock" / "boston").mkdir(parents=True)
    (workplace / "stock" / "boston" / "housing.data").write_bytes(b" 0.1 2 3\n")
    monkeypatch.setenv("GPSUITE_DATA_PATH", str(workplace / "stock"))
    for scale in ("quick", "smoke"):  # a changed file is an error even where a stand-in would do for a missing one
        words = (*RUN, "dataset=boston", f"scale={scale}")
        refused(gpsuite, earlier_results, words, ["housing.data", "baadf72995", "found"])


def test_results_that_cannot_be_written_are_refused(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.mkdir

    def read_only(path: Path, *args: Any, **kwargs: Any) -> None:
        if "frozen" in path.parts:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", read_only)
    ended = gpsuite(*RUN, "results_dir=frozen/results")
    assert ended.code == 2
    assert "Read-only file system" in ended.err
    assert "results_dir=" in ended.err


def test_results_dir_must_not_be_a_file(gpsuite: Gpsuite, workplace: Path) -> None:
    (workplace / "taken").write_text("mine", encoding="utf-8")
    ended = gpsuite(*RUN, "results_dir=taken")
    assert ended.code == 2
    assert "results_dir" in ended.err
    assert (workplace / "taken").read_text(encoding="utf-8") == "mine"


def test_a_second_run_into_the_same_folder_is_refused(gpsuite: Gpsuite, earlier_results: Path) -> None:
    folder = earlier_results / "pac_bayes" / "regression" / "smoke"
    with locked(folder, wait=False):
        refused(gpsuite, earlier_results, (*RUN, "scale=smoke"), ["another run", "wait=true", "run_name="])


def test_debug_shows_the_traceback(gpsuite: Gpsuite) -> None:
    ended = gpsuite(*RUN, "epsilon=-1", "debug=true")
    assert ended.code == 2
    assert ended.err.startswith("Traceback") and "\ngpsuite: epsilon=-1" in ended.err


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("my data, v=2 [final] ~ü.csv", ("a b", "c,d", "y[1]")),
        ("x.csv", ("=a", "~b", "ζ target")),
        ("it's.csv", ('say "hi"', "${b}", "y'")),
    ],
)
def test_odd_file_and_column_names_work(
    gpsuite: Gpsuite, workplace: Path, name: str, columns: tuple[str, str, str]
) -> None:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([row.split(",") for row in ROWS])
    (workplace / name).write_text(buffer.getvalue(), encoding="utf-8")
    words = (
        *RUN,
        "scale=smoke",
        "method=kl_pac_gp",
        "dataset=csv",
        f"dataset.path={name}",
        f"dataset.target={columns[2]}",
    )
    ended = gpsuite(*words)
    assert ended.code == 0, ended.err
    assert os.listdir(workplace / "results" / "pac_bayes" / "regression")


def test_a_full_disk_while_computing_keeps_what_was_stored(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    ended = gpsuite(*RUN, "scale=smoke", "method=kl_pac_gp")
    monkeypatch.undo()
    assert ended.code == 2
    assert "No space left on device" in ended.err
    stored = snapshot(workplace / "results" / ".records")
    assert len(stored) >= 2  # at least one record with its arrays was complete
    assert gpsuite(*RUN, "scale=smoke", "method=kl_pac_gp").code == 0
    assert stored.items() <= snapshot(workplace / "results" / ".records").items()


PLAN = ("run", "experiment=active_learning/plan", "scale=smoke")
PLAN_FILES = (*PLAN, "dataset=csv", "dataset.path=m.csv", "dataset.candidates=c.csv")
OUTPUTS = (*PLAN_FILES, "dataset.target=[y, w]", "dataset.safety=z")
PLAN_CSV = (*OUTPUTS, "dataset.limit=<=1")
GOOD = ["x,y,w,z", "0,1,,0.1", "0.5,,2,0.3", "1,2,,0.6", "1.5,,3,0.9"]
CANDIDATES = ["x", "0.2", "0.7", "3"]


@pytest.fixture(autouse=True)
def good_files(workplace: Path) -> None:
    write(workplace, "m.csv", GOOD)
    write(workplace, "c.csv", CANDIDATES)


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


PLAN_WORDS = [
    ((*OUTPUTS,), ["dataset.limit=", "no limit named", "dataset.limit=<=1.0"]),
    ((*OUTPUTS, "dataset.limit=1.0"), ["dataset.limit=1.0: which side is safe?"]),
    ((*OUTPUTS, "dataset.limit=below"), ["dataset.limit=below", "is not a limit"]),
    ((*OUTPUTS, "dataset.limit=>=5"), ["dataset.limit=>=5: no measured row is safe", "z=0.9"]),
    ((*PLAN_FILES, "dataset.target=y"), ["dataset.safety=: no safety column named"]),
    ((*PLAN_FILES, "dataset.safety=z"), ["dataset.target"]),
    ((*PLAN_CSV[:5], *PLAN_CSV[6:]), ["dataset.candidates=: no file named"]),
    ((*PLAN_CSV, "dataset.saftey=z"), ["Did you mean 'dataset.safety'"]),
    ((*PLAN, "dataset=diabetes"), ["regression dataset cannot be used with active_learning/plan", "csv"]),
    (
        (*PLAN_CSV, "dataset.task=regression"),
        ["regression dataset cannot be used with active_learning/plan", "csv with dataset.task=measurements"],
    ),
    ((*PLAN, "method=al_mogp"), ["this experiment has no methods"]),
    ((*PLAN, "measurements=0"), ["measurements=0", "from 1 to 100"]),
    ((*PLAN, "delta=1"), ["delta=1", "between 0 and 1"]),
    ((*PLAN, "step=-1"), ["step=-1", "between 0 and"]),
    ((*PLAN, "queries=both"), ["queries=both", "valid: partial, full"]),
    ((*PLAN, "when_nothing_is_safe=go"), ["when_nothing_is_safe=go", "valid: stop, safest"]),
    ((*PLAN, "mixing=some"), ["mixing=some", "valid: free, identity"]),
    ((*PLAN, "kernel=rbf"), ["kernel=rbf", "valid: matern52"]),
    ((*PLAN, "particles=1"), ["particles=1", "2 or more"]),
    (
        ("run", "experiment=pac_bayes/regression", *PLAN_CSV[3:4], "dataset.path=m.csv", "dataset.target=y",
         "dataset.safety=z"),
        ["dataset.safety=z: a regression table has none", "active_learning/plan"],
    ),
    (
        ("run", "experiment=pac_bayes/regression", "dataset=sin_sigmoid_measured"),
        ["measurements dataset cannot be used"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "parts"), PLAN_WORDS, ids=[" ".join(words[3:]) for words, _ in PLAN_WORDS])
def test_a_wrong_word_of_a_plan_is_refused(
    gpsuite: Gpsuite, workplace: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    refused(gpsuite, workplace, words, parts)


@pytest.mark.parametrize(
    ("name", "lines", "parts"),
    [
        ("m.csv", [line.replace(",2,0", ",,0").replace(",3,0", ",,0") for line in GOOD], ["'w' has no value"]),
        ("m.csv", [*GOOD, "0.1,high,,0.2"], ["line 6, column 'y'", "'high' is not a number"]),
        ("m.csv", GOOD[:1], ["no rows"]),
        ("c.csv", ["speed", "1"], ["dataset.candidates=c.csv: no column 'x'", "columns: [speed]"]),
        ("c.csv", ["x", "1", "fast"], ["dataset.candidates=c.csv: line 3, column 'x'", "'fast'"]),
        ("c.csv", ["x"], ["dataset.candidates=c.csv", "no rows"]),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    gpsuite: Gpsuite, workplace: Path, name: str, lines: list[str], parts: list[str]
) -> None:
    write(workplace, name, lines)
    refused(gpsuite, workplace, PLAN_CSV, parts)


def test_no_candidate_is_left(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "m.csv", ["x,y,w,z", "0.2,1,1,0.1", "0.7,1,2,0.1"])
    write(workplace, "c.csv", ["x", "0.2", "0.7"])
    refused(gpsuite, workplace, PLAN_CSV, ["dataset.candidates", "all of 2 candidates have been measured"])


def test_one_output_and_one_candidate_work(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "c.csv", ["x", "0.55"])
    write(workplace, "m.csv", ["x,y,z", *(f"{0.1 * i},{i % 3},{0.01 * i}" for i in range(12))])
    ended = gpsuite(*PLAN_FILES, "dataset.target=y", "dataset.safety=z", "dataset.limit=<=3")
    assert ended.code == 0, ended.err
    assert "only 1 of 3 measurements" in ended.out


def test_repeated_measurements_are_data(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "m.csv", [*GOOD, "0,1.5,,0.2", "0,1.2,,0.15"])
    ended = gpsuite(*PLAN_CSV)
    assert ended.code == 0, ended.err
    assert "12 values, first plan" in ended.out


def test_a_limit_that_no_candidate_meets_is_infeasible(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "c.csv", ["x", "300", "400"])
    ended = gpsuite(*PLAN_CSV)
    assert ended.code == 3, ended.err
    assert "infeasible" in ended.err
    assert ended.out.startswith("none of 2 candidates is safe with probability above 95 %. The most probably safe")


REGRESSION = ("run", "experiment=pac_bayes/regression", "scale=smoke")
RISK_CSV = (*REGRESSION, "dataset=csv", "dataset.path=table.csv", "dataset.target=y")
RISK_BOSTON = ("run", "experiment=pac_bayes/epsilon_boston", "scale=smoke")
KIN = ("run", "experiment=pac_bayes/inducing_kin40k", "scale=smoke")
COVERAGE = ("run", "experiment=pac_bayes/coverage", "scale=smoke")
RISK_WORDS = [
    (("epsilon=0",), REGRESSION, ["epsilon=0", "above 0"]),
    (("epsilon=inf",), REGRESSION, ["epsilon=inf", "above 0"]),
    (("epsilon=nan",), REGRESSION, ["epsilon=nan", "above 0"]),
    (("accuracy=-2",), REGRESSION, ["accuracy=-2", "above 0"]),
    (("accuracy=nan",), REGRESSION, ["accuracy=nan", "above 0"]),
    *[
        ((f"delta={value}",), REGRESSION, ["delta=", "between 0 and 1"])
        for value in ("0", "1", "-0.1", "1.5", "nan", "1e-400")
    ],
    (("max_evaluations=0",), REGRESSION, ["max_evaluations=0", "1 or more"]),
    (("method=kl_pac_sgp", "method.inducing=0"), REGRESSION, ["method.inducing=0", "1 or more"]),
    (("method=vfe", "method.inducing=400"), REGRESSION, ["method.inducing=400", "at most the 353 training rows"]),
    (("method=kl_pac_gp", "method.starts=0"), REGRESSION, ["method.starts=0", "1 or more"]),
    (("method=kl_pac_gp", "method.inducing=5"), REGRESSION, ["method.inducing"]),
    (("epsilons=[0.2,0]",), RISK_BOSTON, ["epsilons=0", "above 0"]),
    (("epsilons=[nan]",), RISK_BOSTON, ["epsilons=nan", "above 0"]),
    (("epsilons=[]",), RISK_BOSTON, ["epsilons=[]", "at least one"]),
    (("method=vfe",), RISK_BOSTON, ["method=vfe", "valid:", "full_gp"]),
    (("epsilon=-1",), KIN, ["epsilon=-1", "above 0"]),
    (("inducing=[0,5]",), KIN, ["inducing=0", "1 or more"]),
    (("inducing=[]",), KIN, ["inducing=[]", "at least one"]),
    (("inducing=[5,100000]",), KIN, ["inducing=100000", "at most", "training rows of kin40k"]),
    (("methods=[kl_pac_sgp,full_gp]",), KIN, ["method=full_gp", "valid:", "kl_pac_sgp"]),
    (("methods=[vfe,kl_pac_gp]", "other_kernel=[]"), KIN, ["method=kl_pac_gp", "valid:", "fitc"]),
    (("other_kernel=[kl_pac_spg]",), KIN, ["other_kernel=kl_pac_spg", "valid: other_kernel=[]", "kl_pac_sgp"]),
    (("methods=[vfe]",), KIN, ["other_kernel=kl_pac_sgp", "not a method of this run", "other_kernel=[]", "vfe"]),
    (("epsilon=nan",), COVERAGE, ["epsilon=nan", "above 0"]),
    (("deltas=[0.1,0]",), COVERAGE, ["deltas", "between 0 and 1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "run", "parts"),
    RISK_WORDS,
    ids=[f"{run[1].split('/')[1]} {' '.join(words)}" for words, run, _ in RISK_WORDS],
)
def test_a_wrong_word_of_pac_bayes_is_refused(
    gpsuite: Gpsuite, workplace: Path, words: tuple[str, ...], run: tuple[str, ...], parts: list[str]
) -> None:
    refused(gpsuite, workplace, (*run, *words), parts)


def write_risk_file(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    lines = ["a,b,y", *(",".join(str(cell) for cell in row) for row in rows)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


RISK_FILES = {
    "constant target": ([(i, i % 5, 2) for i in range(40)], ["dataset.target=y", "'y' is constant", "varies"]),
    "not a number": ([(i, i % 5, "3x" if i == 3 else i) for i in range(40)], ["line 5", "y"]),
    "infinite input": ([(i, "-inf" if i == 3 else i % 5, i) for i in range(40)], ["line 5", "b"]),
    "overflow": ([(i, i % 5, f"{i}e300") for i in range(40)], ["column 'y'", "variance", "unit"]),
    "underflow": ([(f"{i}e-300", i % 5, i) for i in range(40)], ["column 'a'", "variance", "unit"]),
}


@pytest.mark.parametrize("name", RISK_FILES)
def test_a_table_that_cannot_be_fitted_is_refused(gpsuite: Gpsuite, workplace: Path, name: str) -> None:
    rows, parts = RISK_FILES[name]
    write_risk_file(workplace, rows)  # type: ignore[arg-type]
    refused(gpsuite, workplace, RISK_CSV, parts)


def test_fewer_training_rows_than_the_theorem_asks_for_are_refused(gpsuite: Gpsuite, workplace: Path) -> None:
    write_risk_file(workplace, [(i, i % 3, i * i % 7) for i in range(10)])
    told = ["test_share=0.3", "leaves 7 training rows of 10", "need 8 or more"]
    refused(gpsuite, workplace, (*RISK_CSV, "test_share=0.3"), told)
    ended = gpsuite(*RISK_CSV, "test_share=0.2", "method=kl_pac_gp")
    assert ended.code == 0, ended.err
    assert {row["n_train"] for row in records(workplace)} == {"8"}


def records(folder: Path) -> list[dict[str, str]]:
    [path] = (folder / "results").glob("pac_bayes/regression/*/records.csv")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("method", ["kl_pac_gp", "kl_pac_sgp", "vfe", "fitc"])
def test_duplicate_rows_work(gpsuite: Gpsuite, workplace: Path, method: str) -> None:
    """Ten different rows, each several times, some with another target; M exceeds the number of different rows."""
    write_risk_file(workplace, [(i % 10, (i * 7) % 10, (i % 10) * 0.5 + (i > 50)) for i in range(60)])
    sparse = () if method == "kl_pac_gp" else ("method.inducing=20",)
    ended = gpsuite(*RISK_CSV, f"method={method}", *sparse)
    assert ended.code == 0, ended.err
    for row in records(workplace):
        assert row["status"] in ("done", "budget")
        assert 0.0 < float(row["gibbs_risk_train"]) < float(row["bound_kl"]) < 1.0
        assert all(math.isfinite(float(row[name])) for name in ("kl", "mse_test", "nll_test", "noise_variance"))


def test_a_vacuous_bound_is_reported(gpsuite: Gpsuite, workplace: Path) -> None:
    write_risk_file(workplace, [(i, (i * 17) % 13, (i * 29) % 31) for i in range(31)])
    ended = gpsuite(*RISK_CSV, "method=kl_pac_gp", "epsilon=0.001", "max_evaluations=200")
    assert ended.code == 0, ended.err
    assert "vacuous" in ended.err
    for row in records(workplace):
        assert row["status"] == "done"
        assert row["reason"].startswith("the bound is vacuous: ")
        assert 0.99 <= float(row["bound_kl"]) <= 1.0


def test_equal_training_targets_leave_epsilon_without_a_unit(gpsuite: Gpsuite, workplace: Path) -> None:
    """One row differs: where it is a test row, training rows have no standard deviation."""
    write_risk_file(workplace, [(i, i % 5, 3 if i == 17 else 2) for i in range(40)])
    words = (*RISK_CSV, "method=kl_pac_gp", "repetitions=12")
    ended = gpsuite(*words)
    assert ended.code == 0, ended.err
    found = {row["status"]: row["reason"] for row in records(workplace)}
    assert found.keys() <= {"infeasible", "done", "budget"}
    assert len(found) > 1
    assert "scaling=all" in found["infeasible"]
    assert "infeasible" in ended.err
    for fix in ("scaling=all", "accuracy=0.4"):
        ended = gpsuite(*words, fix, f"results_dir={fix[:3]}")
        assert ended.code == 0, ended.err
        assert "infeasible" not in ended.err


def test_a_budget_too_short_for_all_is_reported_and_is_no_success(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 1e5)
    ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", "budget.seconds=9", "parallel=serial")
    assert ended.code == 3
    assert "budget.seconds=9 is too short" in ended.out


def test_a_large_table_is_described_without_planning_runs_on_it(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpsuite.commands.data.LARGEST_TRIED", 50)
    Path("rare.csv").write_text("a,label\n" + "".join(f"{row},{'B' if row == 7 else 'A'}\n" for row in range(40)))
    shown = gpsuite("data", "describe", "rare.csv")
    assert shown.code == 0 and "the commands below are not tried on it" in shown.out
    assert "gpsuite run robustness/safety" in shown.out
