"""The answer of a run: its headline, its light, its rows and its details."""

from __future__ import annotations

import io
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec
from gpsuite.data.table.names import name_list
from gpsuite.data.table.new_rows import unread_rows
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.answer import Answer, Guarantee, Light, Rows
from gpsuite.experiments.guarantee.checks import CONTRADICTED, DOUBTFUL, Check, bands_apart, order_says_nothing
from gpsuite.experiments.guarantee.class_risk import HALF, SPLITS
from gpsuite.experiments.guarantee.guarantees import (
    CERTIFICATE,
    NO_BAND,
    SECONDS,
    STATED,
    Found,
    guarantees,
    moved,
    off,
    only_estimated,
    rows_word,
    short,
)
from gpsuite.experiments.guarantee.predictions import DIGITS, SHOWN, shown_rows, unread_of
from gpsuite.experiments.guarantee.sets_and_spread import set_sentences, spread_sentences
from gpsuite.experiments.guarantee.tasks import BAND_GROUP, CLASS_RISK, CONFORMAL, ERROR_RATE, HELD_OUT
from gpsuite.experiments.perturbation.region import mean_width
from gpsuite.experiments.sentences import MODEL_WORDS, NOISE_WORDS, percent_down, percent_up
from gpsuite.plugins import shipped_published_dir
from gpsuite.reporting.files import read_bytes
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd

SIZES = "league/*/tables/league_sizes.csv"
NEAR = 1.5  # sizes of tables that count as the same, as a factor
HARDLY = 0.95  # of the constant's error: a model above that is hardly better
SETTINGS = ("accuracy", "delta", "coverage", "test_share", "most_rows", "tolerances")
MOST_NAMED = 3  # decisive inputs in a sentence
APART = "Each guarantee holds with the probability it names. They do not all hold together with it."
SOURCE = {"": "the same source", "time": "the same source, later", "groups": "groups like these"}
OF_ONE_ROW = ("spread", "conformal", "jackknife+", "sets")  # guarantees, in the order of the headline
# what needs the same as a guarantee that an assumption names
ALSO = {"conformal": ("spread",), "test rows": ("sets", "per class")}
PICTURES = {"widths": "The model's own intervals: a row above the line lies outside its interval."}


def answer_of(found: Found, frame: pd.DataFrame | None) -> Answer:
    """Return the answer. `frame` is the table of predictions."""
    contradicted = [check.needed_by for check in found.checks if check.verdict == CONTRADICTED]
    doubted = {name for names in contradicted for name in names.split(", ")}
    doubted |= {also for name in doubted for also in ALSO.get(name, ())}
    lines = [each for each in guarantees(found) if each.name not in doubted]
    return Answer(
        title=f"{found.report.request.require_dataset().shown_name}, answered",
        headline=headline(found, lines),
        light=light(found),
        guarantees=lines,
        rows=rows_of(found, frame, {each.name for each in lines if not each.needs}),
        details=[*details(found), *found.report.request.doubts],
        pictures=PICTURES,
    )


def headline(found: Found, lines: Sequence[Guarantee]) -> str:
    """Return what the model predicts and how well, and what holds of new rows."""
    said = [_quality(found) if "judged" in found.parts else f"The rows to measure next are for {found.target}."]
    promises = {each.name: each for each in lines if not each.needs}
    interval = next((promises[name] for name in OF_ONE_ROW if name in promises), None)
    rate = promises.get("test rows") or (promises.get(CERTIFICATE) if found.data.task == "classification" else None)
    chosen = [each for each in (interval, rate) if each is not None]
    if chosen:
        said.append(f"With probability {', and with '.join(f'{each.probability} {each.says}' for each in chosen)}.")
    if "test rows" in promises:
        said += public_tables(found)
    return " ".join(said)


def public_tables(found: Found) -> list[str]:
    """Return what the bound from test rows was on public tables of this size, or nothing if none is published.

    Read from the published tables of experiment=league. A size is this one up to a factor of `NEAR`, and a bound on
    errors must be about the same error and probability. Of classes it must be the same classifier's.
    """
    import pandas as pd

    settings, classes = found.settings, found.data.task == "classification"
    if settings.accuracy is not None and not classes:
        return []
    titles = [f"{HELD_OUT}, {title}" for title in found.report.titles.values()] if classes else [HELD_OUT]
    near = []
    for path in _published_sizes(found.report.folder.parent.parent):
        table, rows = pd.read_csv(io.BytesIO(read_bytes(path))), len(found.data.X)
        sizes = pd.to_numeric(table["size"], errors="coerce")
        same = (table["question"] == ERROR_RATE) & table["statement"].isin(titles)
        same &= (table["delta"] == settings.delta) & (classes | (table["epsilon"] == settings.epsilon))
        same &= (table["task"] == found.data.task) & (sizes <= NEAR * rows) & (rows <= NEAR * sizes)
        near += [tuple(row) for row in table.loc[same, ["tables", "least", "most"]].itertuples(index=False)]
    if not near:
        return []
    tables, least, most = max(near)
    between = f"between {percent_down(float(least))} and {percent_up(float(most))}"
    return [f"On {counted(int(tables), 'public table')} of this size the bound was {between}."]


def _published_sizes(results_dir: Path) -> list[Path]:
    """Return the published tables of sizes of league: those in a folder of results, otherwise those that ship."""
    own = sorted((results_dir / "published").glob(SIZES))
    return own or sorted(shipped_published_dir().glob(SIZES))


def _quality(found: Found) -> str:
    model, constant, guess = errors_of_judged(found)
    n, target = int(found.parts["judged"].number("n_test")), found.target
    if found.data.task == "classification":
        errs, that = f"gets {target} wrong on {100 * model:.{DIGITS}g} % of", f"{100 * constant:.{DIGITS}g} %"
    else:
        errs, that = f"misses {target} by {model:.{DIGITS}g} on", f"{constant:.{DIGITS}g}"
    better = "no better than" if model >= constant else "hardly better than" if model > HARDLY * constant else "against"
    return f"The model {errs} {counted(n, 'test row')}, {better} {that} by {guess}."


def errors_of_judged(found: Found) -> tuple[float, float, str]:
    """Return the model's error on test rows, that of always saying the same, and what that is.

    The root mean squared error in original units, of classes the share that is wrong.
    """
    record = found.parts["judged"]
    if found.data.task == "classification":
        wrong = record.number("wrong") / record.number("n_test")
        return wrong, record.number("majority"), "always saying the commonest class"
    return record.number("rmse"), record.number("rmse_constant"), "always saying the mean"


def light(found: Found) -> Light:
    """Return the light: red or amber by the worst that was found, green if nothing was."""
    worst = {check.verdict: check for check in reversed(found.checks) if check.p is not None}
    if CONTRADICTED in worst:
        return Light("red", _advised("the data contradict that", worst[CONTRADICTED]))
    if "judged" not in found.parts:
        return Light("amber", "the model was not judged on test rows. See which part failed.")
    model, constant, guess = errors_of_judged(found)
    if model >= constant:
        return Light("red", f"do not use the predictions, {guess} does as well. Look for better inputs.")
    if DOUBTFUL in worst:
        return Light("amber", _advised("the data make doubtful that", worst[DOUBTFUL]))
    if model > HARDLY * constant:
        return Light("amber", f"{guess} does nearly as well. Look for better inputs or more rows.")
    if found.report.request.doubts:
        return Light("amber", "no check found a fault, but the table may be misread: see 'Check the table' below.")
    source = SOURCE["groups" if found.data.clusters is not None else "time" if found.data.order == "time" else ""]
    return Light(
        "green",
        f"no check found a fault in what these lines need. New rows must come from {source}: if not, run again.",
    )


def _advised(begin: str, check: Check) -> str:
    words, _, why = check.advice.partition("  # ")
    ending = f" Do not rely on: {check.needed_by}." if check.verdict == CONTRADICTED else ""
    advice = f" Run again with {words}{f' ({why})' if why else ''}." if words else ""
    return f"{begin} {check.assumption}.{ending}{advice}"


def rows_of(found: Found, frame: pd.DataFrame | None, promised: Collection[str]) -> Rows:
    """Return the first predicted rows, with an interval if one is promised."""
    if frame is None:
        return Rows()
    folder, record = found.report.folder, found.parts["rows"]
    own = len(record.arrays["examples"]) > 0
    title = "Rows of the table that the test model did not see" if own else "New rows"
    says = [f"All {counted(len(frame), 'row')}: {folder / 'predictions.csv'}. To predict more:", *reading(record)]
    commands = [f"gpsuite predict {shlex.quote(str(folder))} NEW.csv"]
    if any((folder / "certificates").glob("*.npz")):
        commands.append(f"gpsuite verify {shlex.quote(str(folder))}")
        says[0] = says[0].replace("To predict more:", "To predict more, and to check the certificates:")
    return Rows(title, shown_rows(frame.head(SHOWN), promised), says[::-1], commands)


def reading(record: Record) -> Iterator[str]:
    """Yield how the file of new rows was read, where that was decided, and how many lie outside the training range."""
    for note in str(record.metrics.get("new_notes", "")).splitlines():
        yield f"dataset.new: {note}."
    if unread := unread_of(record):
        yield f"dataset.new: {unread_rows(unread, len(unread) + len(record.arrays['outside']))}."
    outside = int(np.count_nonzero(record.arrays["outside"]))
    if outside:
        total = counted(len(record.arrays["outside"]), "row")
        yield f"Outside the training range, and marked: {outside} of {total}."


def details(found: Found) -> list[str]:
    """Return what stands below the answer, each fact a sentence."""
    said = [_heading(found)]
    said += [f"{note[0].upper()}{note[1:]}." for note in found.report.request.require_dataset().notes]
    said += _of_test_rows(found)
    said += _of_classes(found) if found.data.task == "classification" else _of_numbers(found)
    if CONFORMAL in found.parts:
        record, settings = found.parts[CONFORMAL], found.settings
        classes = found.data.task == "classification"
        said += set_sentences(record, settings) if classes else spread_sentences(record, settings, found.data)
    said += [APART, *signs(found)]
    values = ", ".join(f"{name}={getattr(found.settings, name)}" for name in SETTINGS)
    return [*said, f"Settings: {values}. The others are in config.yaml."]


def _heading(found: Found) -> str:
    data, name = found.data, found.report.request.require_dataset().shown_name
    size = f"{len(data.X)} rows, {counted(data.X.shape[1], 'input')}"
    return f"Read {name}: {size}, a {data.task} of {found.target}. dataset.task= chooses the other."


def _of_test_rows(found: Found) -> Iterator[str]:
    """Yield how many rows tested and what they are, and so what the guarantees are about."""
    if "judged" not in found.parts:
        return
    record, data = found.parts["judged"], found.data
    train, test, copies = (int(record.number(name)) for name in ("n_train", "n_test", "n_copies"))
    yield (
        f"The test model learned from {train} rows and was tested on {test} others. Guarantees from test rows and "
        "intervals are about it. In tables it is called judged. The kept model learned from as many rows as are "
        "allowed, test rows too."
    )
    if copies:
        yield f"Test rows that repeat others: {copies} more. Each bound is the worse with or without them."
        if data.task == "classification":
            yield "The test model learned from no copy of a test row."
    if data.clusters is not None:
        groups = counted(int(data.clusters.max()) + 1, "group")
        yield f"The test rows are one row each of some of the {groups} by {data.cluster_name}."
        yield "The test model saw no row of these groups. The guarantees are about a row of a new group."
    elif data.order == "time":
        by = f" in order of {data.time}" if data.time else " of the file"
        yield f"The test rows are the last rows{by}. Guarantees from them are about rows that follow as these did."
        if data.task == "regression":
            yield "PAC-Bayes bound and bands are about all past rows together."


def _of_numbers(found: Found) -> Iterator[str]:
    settings = found.settings
    if "judged" in found.parts:
        record = found.parts["judged"]
        goal, K = int(record.number("goal")), len(record.arrays["errors"])
        n, error = int(record.number("n_test")), short(float(record.arrays["errors"][goal]))
        share = round(float(record.arrays["shares"][goal]) * n)
        yield f"The error was more than {error} on {share} of {counted(n, 'test row')}."
        yield f"Each bound holds for all {K} errors of tables/guarantee.csv at once."
        yield "The headline compares root mean squared errors on the test rows, the constant being their own mean."
        yield from _of_intervals(record, f"{100 * settings.coverage:g} %")
    if {"judged", "bounded"} <= found.parts.keys() and settings.accuracy is None:
        yield f"{short(found.threshold)} is {settings.epsilon:g} standard deviations. accuracy=VALUE states another."
    if "bounded" in found.parts and found.bound("bounded") > 0.5:
        yield "A larger error, better inputs or more rows may tighten PAC-Bayes. How many, the data do not say."
    yield from _of_bands(found)
    if found.held is not None:
        held, rows = found.held
        yield f"The model's own intervals (gp_low, gp_high) are no guarantee. They held {held} of {rows} rows left out."
    if "rows" in found.parts:
        for place, tolerance in enumerate(found.tolerances):
            count, by = moved(found.parts["rows"], place)
            total = len(found.parts["rows"].arrays["ranges"])
            why = f", {SECONDS}" if found.parts["rows"].metrics.get("cut") else ""
            rest = f" Not proved: {total - count} more{why}." if count < total else ""
            if count:
                many = counted(count, "prediction")
                yield f"Proved: {off(tolerance, found)} move {many} by at most {short(by)}.{rest}"


def _of_intervals(record: Record, level: str) -> Iterator[str]:
    n, copies = int(record.number("n_test")), int(record.number("n_copies"))
    if record.metrics["conformal_radius"] is None:
        lost = f", and {copies} more that repeat others and count as lost" if copies else ""
        yield f"Conformal: too few test rows for an interval of {level}: {n}{lost}."
    models, repeats = int(record.number("jackknife_rows")), int(record.number("jackknife_lost"))
    lost = f" Those that repeat others, {repeats}, count as lost." if repeats else ""
    yield f"Jackknife+ leaves {counted(models, 'test row')} out in turn.{lost}"


def _of_bands(found: Found) -> Iterator[str]:
    for record in found.bands:
        width, model = mean_width(record, found.settings.excluded), MODEL_WORDS[str(record.axes["model"])]
        size = "unbounded, more rows or less similar inputs are needed" if width is None else f"{width:.{DIGITS}g} wide"
        yield f"Band for a function that is {model}: {size}."
    if found.bands:
        shown = {str(record.axes["model"]) for record in found.bands}
        none = [MODEL_WORDS[model] for model in MODEL_WORDS if model not in shown]
        yield from (f"There is no band for a function that is {model}. It needs {NO_BAND}." for model in none)
        yield f"Bands need noise that is {NOISE_WORDS[BAND_GROUP]}."
    apart, places = bands_apart(found.bands, found.settings.excluded)
    if apart:
        yield f"The two bands exclude each other at {apart} of {places} places: one of the two functions is not true."


def _of_classes(found: Found) -> Iterator[str]:
    yield from (f"Classifier: {title}. method= chooses another." for title in found.report.titles.values())
    if "judged" in found.parts:
        record = found.parts["judged"]
        tested = counted(int(record.number("n_test")), "test row")
        yield f"The test model got {int(record.number('wrong'))} of {tested} wrong."
        if untested := str(record.metrics["untested"]).splitlines():
            yield f"No test row is {' or '.join(untested)}: of such rows nothing was seen."
        yield from _of_certified(record, found)
    if CLASS_RISK in found.parts:
        yield from _of_error_rate(found.parts[CLASS_RISK], found)
    if "rows" in found.parts:
        yield from _of_probabilities(found.parts["rows"], found)
        yield from _of_effects(found.parts["rows"], found)


def _of_error_rate(record: Record, found: Found) -> Iterator[str]:
    """Yield what was certified, and how delta is split."""
    delta = found.settings.delta
    if "n_bound" in record.metrics:
        rows = f"{int(record.number('n_prior'))} rows made its prior, {int(record.number('n_bound'))} others bound it"
        moved = int(record.number("moved"))
        by = f"and moved it in {counted(moved, 'direction')}" if moved else "and did not move it"
        yield f"PAC-Bayes certifies another Gaussian process: {rows} {by} (KL {record.number('kl'):.{DIGITS}g} nats)."
        yield "It is about random draws of that model. gpsuite verify checks it: certificates/error_rate.npz."
    share = HALF * delta
    yield (
        f"All bounds on the error rate hold at once. {share:g} of delta is for the test rows, "
        f"{(delta - share) / len(SPLITS):g} for each of {len(SPLITS)} certificates."
    )


def _of_certified(record: Record, found: Found) -> Iterator[str]:
    points, arrays = int(record.number("points")), record.arrays
    if only_estimated(record):
        yield f"Certified: nothing is proved at any of {points} test rows, {STATED}."
        return
    bounds = arrays["certified_bounds"]
    for tolerance, bound, share in zip(arrays["tolerances"], bounds, arrays["certified"], strict=True):
        change = off(float(tolerance), found)
        right = f"{round(float(share) * points)} of {counted(points, 'test row')}"
        yield (
            f"Certified: right, and proved to stay so with {change}, on {right}. "
            f"That proves {percent_down(float(bound))} of new rows."
        )
    if len(bounds):
        yield f"The certified shares hold for all {len(bounds)} errors at once."
    if record.metrics.get("cut"):
        yield f"{SECONDS}: the rows that they did not reach count as not certified."


def _of_probabilities(record: Record, found: Found) -> Iterator[str]:
    """Yield for each tolerance above what the predicted class' probability provably stays."""
    unknown = SECONDS if record.metrics.get("cut") else STATED
    for place, tolerance in enumerate(found.tolerances):
        lows = record.arrays["ranges"][:, place, 0]
        proved = lows[lows >= 0.001]  # false for NaN
        vain = int(np.count_nonzero(lows < 0.001))
        why = " and ".join([f"the bound of {vain} is 0"] * (vain > 0) + [unknown] * (len(proved) + vain < len(lows)))
        many, change = f"{len(lows)} {rows_word(record)}", off(tolerance, found)
        if not len(proved):
            yield f"Not proved for any of {many} with {change}: {why}."
            continue
        rest = "" if len(proved) == len(lows) else f" Not proved for the others: {why}."
        least = f"{np.floor(1000.0 * proved.min()) / 1000.0:g}"
        yield f"Proved: with {change} the class of {len(proved)} of {many} keeps a probability above {least}.{rest}"


def found_effects(record: Record) -> FloatArray:
    """Return the effects [B', D] at the rows that the seconds let be searched."""
    effects = record.arrays["effects"]
    return np.asarray(effects[~np.isnan(effects).any(axis=1)])


def _of_effects(record: Record, found: Found) -> Iterator[str]:
    effects, names = found_effects(record), found.data.input_names
    if len(effects):
        sizes = np.abs(effects).mean(axis=0)
        listed = ", ".join(f"{names[place]} ({sizes[place]:.3f})" for place in np.argsort(-sizes)[:MOST_NAMED])
        level = ", or a category's change to this level," if found.data.categories else ""
        yield f"Decisive inputs, by what one standard deviation{level} moves the probability on average: {listed}."


def signs(found: Found) -> list[str]:
    """Return a sentence for each assumption that the data contradict or make doubtful, with the command to run next."""
    said = [f"{why[0].upper()}{why[1:]}."] if (why := order_says_nothing(found.data)) else []
    for check in found.checks:
        if check.verdict not in (CONTRADICTED, DOUBTFUL) or check.p is None:
            continue
        ending = f" Do not rely on: {check.needed_by}." if check.verdict == CONTRADICTED else ""
        next_run = command(found.report.request.require_dataset().spec, check.advice)
        said.append(f"{check.verdict.capitalize()}: {check.assumption} ({check.finding}).{ending} Next: {next_run}")
    return said


def command(given: Mapping[str, object], words: str) -> str:
    """Return the command that runs this experiment on the table of these settings with further words."""
    own = CsvSpec()
    table = {key: given[key] for key in CSV_OPTIONS if given.get("loader") == "csv" and given[key] != getattr(own, key)}
    named = {key: name_list(value) if isinstance(value, list) else value for key, value in table.items()}
    data = [
        "dataset=csv",
        *(f"dataset.{key}={value}" for key, value in named.items() if f"dataset.{key}=" not in words),
    ]
    return " ".join(
        ["gpsuite run experiment=guarantee", *map(shlex.quote, data if table else []), *filter(None, [words])]
    )
