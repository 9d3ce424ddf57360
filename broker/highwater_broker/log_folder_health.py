"""Finds out whether a log folder has failed after its disk refused an operation.

Source: KIP-112. Deviation: in Kafka the first error is a failure. Here a refused operation is an
error for its caller, who may retry; the folder has failed once it also refused several probes in a
row. A sync that does not return is a failure by itself; in Kafka it hangs its thread for ever.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from highwater_broker.log.folder_probe import probe_folder
from highwater_broker.settings import BrokerSettings
from highwater_core.events import EventKind
from highwater_core.ports import FileSystem, Trace
from highwater_core.runtime import Runtime


class LogFolderHealth:
    """Probes the folder whenever it is suspected; reports its failure once."""

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        trace: Trace,
        files: FileSystem,
        name: str,
        on_failed: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._trace = trace
        self._files = files
        self._name = name
        self._on_failed = on_failed
        self._suspected = runtime.event()
        self._hung: OSError | None = None
        timeout_ms = settings.log_folder_sync_timeout_ms
        files.bound_syncs("", timeout_ms, lambda: self._hangs(timeout_ms))

    def suspect(self) -> None:
        """Note that the disk refused an operation."""
        self._suspected.set()

    def _hangs(self, timeout_ms: int) -> None:
        """Take the folder for failed: a further operation on its disk may hang the whole broker."""
        self._hung = OSError(errno.ETIMEDOUT, f"a sync has not returned for {timeout_ms} ms")
        self._suspected.set()

    async def run(self) -> None:
        """Return once the folder has failed."""
        while True:
            await self._suspected.wait()
            refused = await self._probe()
            if refused is not None:
                self._trace.emit(EventKind.LOG_FOLDER_FAILED, folder=self._name, what=str(refused))
                self._on_failed(self._name)
                return
            self._suspected.clear()

    async def _probe(self) -> OSError | None:
        """Return the last probe's error, None once one succeeded; a hung disk is not probed."""
        refused: OSError | None = None
        for number in range(self._settings.log_folder_probe_attempts):
            if number:
                await self._runtime.sleep(self._settings.log_folder_probe_interval_ms)
            refused = self._hung or await probe_folder(self._files)
            if refused is None or self._hung:
                break
        return self._hung or refused
