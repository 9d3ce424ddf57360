"""The log over real files: what a listener needs for sendfile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from highwater_adapters.files import RealFileSystem
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_core.ids import Offset


def test_a_views_file_range_is_what_it_reads_even_after_retention(
    tmp_path: Path, tools: Any
) -> None:
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=200, retention_bytes=0)
    log, _ = Log.open(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for value in (b"a", b"b", b"c", b"d", b"e"):
        tools.append(log, value)
    view = log.read(Offset(1), 1000, Offset(5)).records
    assert not isinstance(view, bytes)
    assert log.delete_old_segments(0, Offset(5)) == 2
    log.remove_retired(log.log_start_offset)
    file_range = view.file_range()
    assert file_range is not None
    descriptor, position, length = file_range
    assert os.pread(descriptor, length, position) == view.read()
    assert position == length  # the second batch of the first segment
    log.close()
    again, report = Log.open(
        files,
        "t-0",
        config,
        clean_shutdown=True,
        recovery_point=Offset(5),
        log_start_offset=Offset(4),
    )
    assert (again.log_start_offset, again.log_end_offset, report.repairs) == (4, 5, ())
    again.close()
    files.close()
