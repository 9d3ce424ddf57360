"""Opens a log in one call; a broker first inspects, then repairs it."""

from __future__ import annotations

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.recovery import Recovery, RecoveryReport
from highwater_core.ids import Offset
from highwater_core.ports import FileSystem

_FIRST_OFFSET = Offset(0)


def open_log(
    files: FileSystem,
    folder: str,
    config: LogConfig,
    *,
    clean_shutdown: bool,
    recovery_point: Offset,
    log_start_offset: Offset = _FIRST_OFFSET,
    high_watermark: Offset = _FIRST_OFFSET,
) -> tuple[Log, RecoveryReport]:
    """Open the folder's log by checkpointed offsets (0: none), and repair its damage.

    Raises:
        LogRefused: KAFKA_STORAGE_ERROR.
    """
    return Log.recovered(
        Recovery.inspect(
            files,
            folder,
            config,
            clean_shutdown=clean_shutdown,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )
    )
