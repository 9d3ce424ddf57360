"""The stream of alerts: each run's lines, with the state that Spark keeps of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from highwater_pipeline.watching.known import read_known
from highwater_pipeline.watching.live_checks import (
    Alert,
    RunState,
    decode_state,
    encode_state,
    take,
)
from highwater_pipeline.watching.source import LINES, PATH, Lines

ALERT_ROWS = StructType(
    [
        StructField("run_id", StringType()),
        StructField("invariant", StringType()),
        StructField("topic", StringType()),
        StructField("partition", LongType()),
        StructField("offset", LongType()),
        StructField("broker", LongType()),
        StructField("operation", StringType()),
        StructField("message", StringType()),
        StructField("time_ns", LongType()),
        StructField("file", StringType()),
    ]
)
"""One row an alert: its finding as in FINDINGS, and the line that shows it. No order.

Partition and broker are as wide as in histories and looks, which may have any number."""
_STATE = StructType([StructField("state", BinaryType())])


def alerts_of(spark: SparkSession, root: Path) -> DataFrame:
    """Return the stream of alerts of the runs below a folder."""
    spark.dataSource.register(Lines)
    lines = spark.readStream.format(LINES).option(PATH, str(root)).load()
    return lines.groupBy("run_id", "folder").applyInPandasWithState(
        _alerts_of_run, ALERT_ROWS, _STATE, "append", GroupStateTimeout.NoTimeout
    )


def _alerts_of_run(
    key: Any, frames: Iterable[pd.DataFrame], kept: GroupState
) -> Iterator[pd.DataFrame]:
    """Yield the alerts of a run's new lines; the state of one that goes on no more is removed."""
    run_id, folder = key
    rows = pd.concat(list(frames), ignore_index=True)
    goes_on = rows["file"].notna()
    state = decode_state(kept.get[0]) if kept.exists else RunState()
    if state.known is None:
        state.known = read_known(Path(folder))
    lines = rows[goes_on].sort_values(["file", "begin"])
    found = take(state, zip(lines["file"], lines["line"], strict=True))
    if goes_on.all():
        kept.update((encode_state(state),))
    elif kept.exists:
        kept.remove()
    yield pd.DataFrame(
        [_row(run_id, alert) for alert in found], columns=list(ALERT_ROWS.fieldNames())
    )


def _row(run_id: str, alert: Alert) -> tuple[object, ...]:
    finding = alert.finding
    return (
        run_id,
        finding.invariant,
        finding.topic,
        finding.partition,
        finding.offset,
        finding.broker,
        finding.operation,
        finding.message,
        alert.time_ns,
        alert.file,
    )
