"""A watch: the streaming query of alerts, and a thread that hands over runs that have ended.

A verdict takes a while, and an alert does not wait for it. The query has its checkpoint in the
watch's folder; the ledger knows which verdicts were printed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from highwater_pipeline.receipts import write_kept
from highwater_pipeline.watching.alerts import alerts_of
from highwater_pipeline.watching.growing import has_ended, runs_below
from highwater_pipeline.watching.handing_over import hand_over
from highwater_pipeline.watching.told import Ledger, Told, ToldAlert

FORMAT = 1
"""Of a watch's folder: of its offsets, its states and its ledger."""
EVERY = "1 second"
LOOK_EVERY_S = 1.0
ENDED_AT_ONCE = 8
"""Runs that are handed over together: a check costs about the same for one and for several."""
BATCHES_KEPT = "10"
"""Of the query's offsets and states, for a restart: Spark keeps 100 by default."""
LEAVE_WITHIN_S = 600.0
BEGIN_WITHIN_S = 300.0
STOPS_WITHIN_S = 60
_SLOW_START = "failed to connect back"
"""Of the error of a query whose Python did not start within ten seconds: a limit of Spark's, which
no setting changes. On a machine with much other work it takes longer at times."""
_BEGINS = "Initializing"
_WAITS = "Waiting for next trigger"
"""Of the status of a query that has looked for lines once."""
_IN_WATCH = "watch.json"


class OtherWatch(Exception):
    """The folder is of a watch over other runs, or of another version; the message says which."""


class WatchFailed(Exception):
    """The watch has ended with an error; the message is the error's first line."""


class _Stopping(Exception):
    """The watch ends: this batch is done by the next one."""


class _Watched(msgspec.Struct, frozen=True):
    """watch.json."""

    format: int
    root: str


class Watching:
    """A watch that goes on until `stop`."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        store: Path,
        folder: Path,
        tell: Callable[[Told], None],
    ) -> None:
        """Begin, or go on where the watch in `folder` was ended.

        root: the folder of the run folders.
        tell: called once for each alert and verdict, by two threads.

        Raises:
            OtherWatch: the folder is another watch's.
        """
        _claim(folder, root)
        self.ledger = Ledger(folder / "told.jsonl")
        self._spark, self._root, self._store, self._folder = spark, root, store, folder
        self._tell = tell
        self._turn = threading.Condition()
        """Of all that follows."""
        self._running = 0
        self._is_stopping = False
        self._failure: Exception | None = None
        self._has_looked = False
        self._query = self._started()
        self._touched_s = time.monotonic()
        self._judge = threading.Thread(target=self._hand_over_all, name="verdicts", daemon=True)
        self._judge.start()

    def idle_s(self) -> float:
        """Return for how long nothing was there to do; 0 while something is.

        Raises:
            WatchFailed: it has ended with an error.
        """
        self._check()
        status = self._query.status
        self._has_looked = self._has_looked or status["message"] == _WAITS
        with self._turn:
            if self._running or status["isDataAvailable"] or not self._has_looked:
                self._touched_s = time.monotonic()
            return time.monotonic() - self._touched_s

    def process_all(self) -> None:
        """Wait until all evidence that is there now is checked and judged: for tests and benches.

        Raises:
            WatchFailed: the watch has ended with an error.
        """
        self._query.processAllAvailable()
        with self._turn:
            while self._failure is None and (self._running or self._new_ended()):
                self._turn.wait(LOOK_EVERY_S)
        self._check()

    def stop(self, within_s: float = LEAVE_WITHIN_S) -> None:
        """End the watch; before, wait up to within_s for the batch or verdict that is in work.

        What is left is done by the next watch of the folder.
        """
        self._failure = self._reason()
        with self._turn:
            self._is_stopping = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._running, within_s)
        try:
            self._query.stop()
        except PySparkException as error:  # it did not end within STOPS_WITHIN_S
            self._failure = self._failure or error
        self._judge.join(LOOK_EVERY_S)

    def untold(self) -> int:
        """Return how many runs had ended and have no verdict, after `stop`.

        Raises:
            WatchFailed: the watch had failed, or has while it ended.
        """
        if self._failure is not None:
            raise _as_failed(self._failure)
        return len(self._ended_untold())

    # ------------------------------------------------------------ alerts

    def _started(self) -> StreamingQuery:
        """Return the query of alerts, begun; it may have ended with an error since."""
        self._spark.conf.set("spark.sql.streaming.minBatchesToRetain", BATCHES_KEPT)
        self._spark.conf.set("spark.sql.streaming.stopTimeout", f"{STOPS_WITHIN_S}s")
        writer = (
            alerts_of(self._spark, self._root)
            .writeStream.foreachBatch(self._tell_alerts)
            .trigger(processingTime=EVERY)
            .option("checkpointLocation", str(self._folder / "alerts"))
        )
        until_s = time.monotonic() + BEGIN_WITHIN_S
        while True:
            query = writer.start()
            while query.isActive and query.status["message"].startswith(_BEGINS):
                if time.monotonic() > until_s:
                    break
                time.sleep(LOOK_EVERY_S / 10)
            is_slow = not query.isActive and _SLOW_START in str(query.exception())
            if not is_slow or time.monotonic() > until_s:
                return query

    def _tell_alerts(self, batch: DataFrame, _: int) -> None:
        with self._at_work():
            self._tell_new(
                [
                    ToldAlert(
                        run=row["run_id"],
                        invariant=row["invariant"],
                        topic=row["topic"],
                        partition=row["partition"],
                        offset=row["offset"],
                        broker=row["broker"],
                        operation=row["operation"],
                        message=row["message"],
                        time_s=round(row["time_ns"] / 1e9, 3),
                        file=row["file"],
                    )
                    for row in batch.collect()
                ]
            )

    # ------------------------------------------------------------ verdicts

    def _hand_over_all(self) -> None:
        """Hand over runs as they end, until the watch ends or fails."""
        while True:
            try:
                new = self._new_ended()
                if new:
                    with self._at_work():
                        staging = self._folder / "staging"
                        found = hand_over(self._spark, new, self._store, staging)
                        self._tell_new([*found])
            except _Stopping:
                return
            except Exception as error:  # noqa: BLE001 - kept, and raised to who asks next
                with self._turn:
                    self._failure = self._failure or error
                    self._turn.notify_all()
                return
            with self._turn:
                if not new:
                    self._turn.wait_for(lambda: self._is_stopping, LOOK_EVERY_S)
                if self._is_stopping:
                    return

    def _new_ended(self) -> list[Path]:
        """Return some of the runs that have ended and whose verdicts are not in the ledger."""
        return self._ended_untold()[:ENDED_AT_ONCE]

    def _ended_untold(self) -> list[Path]:
        ended = (run for run in runs_below(self._root) if not self.ledger.has_verdict(run.name))
        return [run for run in ended if has_ended(run)]

    # ------------------------------------------------------------ both

    def _tell_new(self, told: list[Told]) -> None:
        for each in self.ledger.add(told):
            self._tell(each)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._turn:
            if self._is_stopping:
                raise _Stopping
            self._running += 1
        try:
            yield
        except Exception as error:
            self._failure = self._failure or error
            raise
        finally:
            with self._turn:
                self._running -= 1
                self._touched_s = time.monotonic()
                self._turn.notify_all()

    def _check(self) -> None:
        error = self._reason()
        if error is not None:
            raise _as_failed(error)

    def _reason(self) -> Exception | None:
        """Return why the watch has failed, None if it has not."""
        if self._failure is None and not self._query.isActive:
            return self._query.exception() or WatchFailed("the query has ended")
        return self._failure


def _as_failed(error: Exception) -> WatchFailed:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    failed = WatchFailed(lines[0])
    failed.__cause__ = error
    return failed


def _claim(folder: Path, root: Path) -> None:
    own = _Watched(FORMAT, str(root))
    path = folder / _IN_WATCH
    if not path.exists():
        write_kept(path, own)
        return
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Watched)
    except msgspec.DecodeError as error:
        raise OtherWatch(f"{path} cannot be read: {error}") from error
    if found.root != own.root:
        raise OtherWatch(f"{folder} is the watch of {found.root}")
    if found.format != FORMAT:
        raise OtherWatch(f"{folder} is of version {found.format} of watches, this is {FORMAT}")
