"""A stream of Spark over run folders: the lines of runs that go on.

Its offset says up to where each file was read. Spark keeps the offsets of each batch in its
checkpoint, so that a stream that begins again goes on there, and reads a batch that was not
finished once more, from the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from highwater_checker.run_folder.files import open_regular
from highwater_pipeline.ingest.decoding import Row, in_batches
from highwater_pipeline.watching.growing import goes_on, runs_below, whole_lines

LINES = "highwater_lines"
BATCH_BYTES = 16 * 1024 * 1024
"""So much of all files is read at once: a run that is long behind is read in parts."""
TASKS = 2
PATH = "path"
"""The option that names the folder of runs."""

LINE_ROWS = StructType(
    [
        StructField("run_id", StringType()),
        StructField("folder", StringType()),
        StructField("file", StringType()),  # its path in the folder; null: the run is let go of
        StructField("begin", LongType()),  # of the line in its file, in bytes
        StructField("line", BinaryType()),  # without its end
    ]
)
"""One row a line of a history or of the looks, in no order; and one of a run that goes on no more:
it has ended, or is gone, or was interrupted."""


class Lines(DataSource):
    """The lines of runs that go on."""

    @classmethod
    def name(cls) -> str:
        return LINES

    def schema(self) -> StructType:
        return LINE_ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _LineReader(Path(self.options[PATH]))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Whole lines [start, end) of a file; without a file the run is let go of."""

    folder: str
    file: str | None = None
    start: int = 0
    end: int = 0


@dataclass
class _Stretches(InputPartition):
    """What one task reads: a task costs more than a stretch."""

    stretches: tuple[_Stretch, ...]


class _LineReader(DataSourceStreamReader):
    """Offset: by the run's folder, by the file's path in it, the bytes that were read.

    Offsets name no run that does not go on: they are as large as what runs now.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        now_s = time.time()
        running = [run for run in runs_below(self._root) if goes_on(run, now_s)]
        read = {run: start.get(str(run), {}) for run in running}
        return {str(run): files for run, files in whole_lines(read, BATCH_BYTES).items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        stretches = [
            _Stretch(folder, file, start.get(folder, {}).get(file, 0), until)
            for folder, files in end.items()
            for file, until in files.items()
            if until > start.get(folder, {}).get(file, 0)
        ]
        stretches += [_Stretch(folder) for folder in start if folder not in end]
        stretches.sort(key=lambda each: each.start - each.end)
        tasks = (stretches[first::TASKS] for first in range(TASKS))
        return [_Stretches(tuple(each)) for each in tasks if each]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        rows = (row for stretch in partition.stretches for row in _rows(stretch))
        yield from in_batches(rows, to_arrow_schema(LINE_ROWS))


def _rows(stretch: _Stretch) -> Iterator[Row]:
    place = {"run_id": Path(stretch.folder).name, "folder": stretch.folder}
    if stretch.file is None:
        yield place
        return
    data = _read(Path(stretch.folder, stretch.file), stretch.start, stretch.end)
    begin = stretch.start
    for line in data.split(b"\n"):
        if line.strip():
            yield {**place, "file": stretch.file, "begin": begin, "line": line}
        begin += len(line) + 1


def _read(path: Path, start: int, end: int) -> bytes:
    """Return the bytes of a stretch; none of a file that is gone by now."""
    try:
        with open_regular(path) as file:
            file.seek(start)
            return file.read(end - start)
    except OSError:
        return b""
