"""The pipeline's watch for the command line: a line for each alert and verdict, an exit code.

Needs the extra.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException

from highwater.errors import HarnessError
from highwater.output import RESULTS, STYLES, printable, say
from highwater_checker.run_folder.files import text_of
from highwater_checker.verdict import EXIT_CODES, Outcome
from highwater_pipeline.java import NoSpark
from highwater_pipeline.locking import InUse, writing
from highwater_pipeline.session import spark_session
from highwater_pipeline.watching.stream import OtherWatch, WatchFailed, Watching
from highwater_pipeline.watching.told import Told, ToldAlert, ToldVerdict, outcome_of

WATCHES = Path("runs") / "watch"
AT_ONCE_S = 5.0
"""How long a batch of alerts may take to its end when the watch is ended by force."""
_LOOK_EVERY_S = 0.2
_REASON_CHARACTERS = 200
"""Of a verdict's reasons in its line; --json has all."""


@dataclass(frozen=True, slots=True)
class Until:
    """When a watch ends: after a time, once nothing was new for a time, or at a failure.

    None: never by that.
    """

    for_s: float | None = None
    idle_s: float | None = None
    failure: bool = False


def watch_runs(
    root: Path, until: Until, store: Path, checkpoint: Path | None, master: str, *, as_json: bool
) -> int:
    """Watch the runs below a folder, tell of them, and return the exit code.

    Raises:
        HarnessError: there is no such folder or no Java, the watch's folder is another's or in use,
            or the watch failed.
    """
    if not root.is_dir():
        raise HarnessError(f"{root} is no folder: name one where runs are, or come")
    root = root.resolve()
    if text_of(root) != str(root):
        raise HarnessError(f"{text_of(root)}: a folder whose name is no UTF-8 cannot be watched")
    folder = (checkpoint or WATCHES / _name_of(root)).resolve()
    try:
        with writing(folder):
            say("Spark starts")
            with spark_session(master, is_small=True) as spark:
                watching = Watching(spark, root, store.resolve(), folder, _Printer(as_json))
                try:
                    _say_what_is_known(watching.ledger.all, root)
                    _wait(watching, until)
                except BaseException:  # Ctrl-C, too, does not wait for a verdict
                    watching.stop(AT_ONCE_S)
                    raise
                watching.stop()
                untold = watching.untold()
    except (NoSpark, WatchFailed, OSError) as error:
        raise HarnessError(str(error)) from error
    except PySparkException as error:
        raise HarnessError(f"Spark: {str(error).strip().partition(chr(10))[0]}") from error
    except msgspec.DecodeError as error:
        raise HarnessError(f"{folder} has a damaged file: {error}; take another one") from error
    except OtherWatch as error:
        raise HarnessError(f"{error}: take another --checkpoint") from error
    except InUse as error:
        raise HarnessError(f"{error}: wait until it has ended") from error
    told = watching.ledger.all
    outcome = outcome_of(told)
    if untold:
        say(f"{untold} runs have ended and have no verdict yet: the same command goes on with them")
        outcome = outcome if outcome is Outcome.FAIL else Outcome.UNKNOWN
    if not as_json:
        _print_summary(told, outcome)
    return EXIT_CODES[outcome]


def _name_of(root: Path) -> str:
    return f"{root.name}-{hashlib.sha256(bytes(root)).hexdigest()[:8]}"


def _wait(watching: Watching, until: Until) -> None:
    begun_s = time.monotonic()
    while True:
        idle_s = watching.idle_s()
        if until.for_s is not None and time.monotonic() - begun_s >= until.for_s:
            return
        if until.idle_s is not None and idle_s >= until.idle_s:
            return
        if until.failure and outcome_of(watching.ledger.all) is Outcome.FAIL:
            return
        time.sleep(_LOOK_EVERY_S)


def _say_what_is_known(told: tuple[Told, ...], root: Path) -> None:
    if told:
        alerts = sum(isinstance(each, ToldAlert) for each in told)
        say(f"goes on: {alerts} alerts and {len(told) - alerts} verdicts were told before")
    say(f"{root} is watched; Ctrl-C ends it")


class _Printer:
    """Prints what a watch tells, a line each and at once; its threads tell in turns."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._turn = threading.Lock()

    def __call__(self, told: Told) -> None:
        with self._turn:
            if self._as_json:
                sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
                sys.stdout.flush()
            else:
                text, outcome = in_a_line(told)
                RESULTS.print(printable(text), style=STYLES[outcome], markup=False, soft_wrap=True)


def in_a_line(told: Told) -> tuple[str, Outcome]:
    """Return an alert or a verdict as text, and the outcome in whose colour it is shown."""
    if isinstance(told, ToldAlert):
        return f"alert {told.run} at {told.time_s:g} s: {told.finding}", Outcome.FAIL
    reasons = told.reasons[:_REASON_CHARACTERS]
    what = [reasons] if reasons and told.outcome is not Outcome.PASS else []
    if told.was_pruned:
        what = ["by its own verdict.json: its evidence was removed"]
    if told.by_tables and told.by_tables != told.outcome.value:
        what.append(f"by the tables {told.by_tables}")
    return f"verdict {told.run}: {'; '.join([told.outcome.value, *what])}", told.outcome


def _print_summary(told: tuple[Told, ...], outcome: Outcome) -> None:
    verdicts = Counter(each.outcome.value for each in told if isinstance(each, ToldVerdict))
    alerts = sum(isinstance(each, ToldAlert) for each in told)
    runs = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items())) or "none"
    RESULTS.print(f"alerts: {alerts}; ended runs: {runs}")
    RESULTS.print(f"verdict: {outcome.value}")
