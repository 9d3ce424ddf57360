"""The log over real files, as a listener needs it for sendfile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters.files import RealFileSystem
from highwater_broker.log import time_lookup
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import UNSYNCED_OPEN
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset
from tests.support.open_logs import open_log


def test_a_views_file_range_has_its_bytes_even_after_retention(tmp_path: Path, tools: Any) -> None:
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=200, retention_bytes=1)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
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
    again, report = open_log(
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


def open_files_below(folder: Path) -> int:
    """Return how many descriptors this process has of files below the folder."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found += folder in descriptor.readlink().parents
        except FileNotFoundError:
            continue  # the listing's own
    return found


def test_however_many_segments_a_log_has_few_files_are_open(tmp_path: Path, tools: Any) -> None:
    """Found: 20 partitions of 110 small segments took all of a broker's descriptors."""
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=100)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for _ in range(50):
        tools.append(log, b"x")
        assert open_files_below(tmp_path) <= UNSYNCED_OPEN + 1
    for offset in range(50):
        assert len(log.read(Offset(offset), 1000, Offset(50)).records) > 0
        assert open_files_below(tmp_path) <= UNSYNCED_OPEN + 2
    assert asyncio.run(log.flush()) == 50
    assert open_files_below(tmp_path) <= 2
    log.close()
    assert open_files_below(tmp_path) == 0
    for clean_shutdown in (True, False):
        log, _ = open_log(
            files, "t-0", config, clean_shutdown=clean_shutdown, recovery_point=Offset(0)
        )
        assert log.log_end_offset == 50
        assert open_files_below(tmp_path) <= 2
        log.close()
    files.close()


def test_a_segment_that_is_not_on_the_disk_yet_stays_open(tmp_path: Path, tools: Any) -> None:
    """A write that fails after its file was closed may be reported to nobody."""
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=100)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for _ in range(UNSYNCED_OPEN + 1):
        tools.append(log, b"x")
    assert len(log.segments) == open_files_below(tmp_path) == UNSYNCED_OPEN + 1
    log.close()
    files.close()


def test_a_segment_that_is_on_the_disk_when_it_is_full_stays_open_no_longer(
    tmp_path: Path, tools: Any
) -> None:
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=100)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for _ in range(8):
        tools.append(log, b"x")
        asyncio.run(log.flush())
    assert (len(log.segments), open_files_below(tmp_path)) == (8, 1)
    log.close()
    files.close()


def test_a_segment_whose_file_has_gone_is_not_made_anew(tmp_path: Path, tools: Any) -> None:
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=100)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for _ in range(5):
        tools.append(log, b"x")
    asyncio.run(log.flush())
    gone = tmp_path / "t-0" / f"{0:020}.log"
    gone.unlink()
    with pytest.raises(LogRefused) as refused:
        log.read(Offset(0), 1000, Offset(5))
    assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert not gone.exists()
    log.close()
    files.close()


def test_records_being_sent_stay_readable_when_their_log_is_deleted(
    tmp_path: Path, tools: Any
) -> None:
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=100)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for _ in range(20):
        tools.append(log, b"x")
    views = [log.read(Offset(offset), 1000, Offset(20)).records for offset in range(20)]
    log.delete()
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for view in views:
        assert not isinstance(view, bytes)
        assert any(view.read())
    del view, views
    log.close()
    assert open_files_below(tmp_path) == 0
    files.close()


def test_a_look_up_goes_on_where_retention_was_quicker(
    tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_lookup, "HEADERS_PER_STEP", 1)
    files = RealFileSystem(tmp_path)
    config = LogConfig(segment_bytes=200, retention_bytes=1)
    log, _ = open_log(files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0))
    for value, timestamp in ((b"a", 1002), (b"b", 900), (b"c", 1002), (b"d", 1003), (b"e", 1004)):
        tools.append(log, value, timestamp=timestamp)
    log.advance_log_start(Offset(1))
    look_up = log.look_up_timestamp(1002)
    next(look_up)
    assert log.delete_old_segments(0, Offset(5)) == 2
    log.remove_retired(log.log_start_offset)
    found, _ = tools.finish(look_up)
    assert found.offset == 4
    log.close()
    files.close()
