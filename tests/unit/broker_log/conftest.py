"""A broker's machine for log tests: the simulator's disk, crashes, power losses, disk errors."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.recovery import RecoveryReport
from highwater_broker.log.time_lookup import FoundOffset, Steps
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import Buffer
from highwater_simulator.files import Disk, FileNode, SimulatedFile, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import build_batch, split_batches
from tests.support.open_logs import open_log

T = TypeVar("T")

FOLDER = "t-0"


class FallibleFile(SimulatedFile):
    """A simulated file whose appends, truncations and syncs fail by its machine's flags."""

    machine: Machine

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self.machine.disk_is_full:
            raise OSError(errno.ENOSPC, "no space left")
        return super().append(buffers)

    async def sync(self) -> None:
        if self.machine.syncs_fail:
            raise OSError(errno.EIO, "input/output error")
        await super().sync()


class FallibleFiles(SimulatedFileSystem):
    machine: Machine

    def open(self, path: str) -> FallibleFile:
        file = super().open(path)
        fallible = FallibleFile(file._runtime, file._disk, path, file._node)
        fallible.machine = self.machine
        return fallible


class Machine:
    """One node's disk and the incarnation that uses it."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.config = config or LogConfig()
        self.kernel = Kernel()
        self.disk = Disk(SeededRng(1))
        self.disk_is_full = False
        self.syncs_fail = False
        self._boot()

    def _boot(self) -> None:
        self.runtime = self.kernel.runtime("broker")
        self.files = FallibleFiles(self.runtime, self.disk)
        self.files.machine = self

    def crash(self) -> None:
        """Kill the process: the page cache stays, open files and tasks are gone."""
        self.runtime.kill()
        self._boot()

    def lose_power(self) -> None:
        """Keep synced names and bytes only."""
        self.runtime.kill()
        self.disk.lose_power(spares_nothing=True)
        self._boot()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        results: list[T] = []

        async def collect() -> None:
            results.append(await work)

        task = self.runtime.start("test", collect())
        self.kernel.run_until(task.is_done, 60_000)
        return results[0]

    def open(
        self, *, clean: bool = False, recovery_point: int = 0, log_start: int = 0
    ) -> tuple[Log, RecoveryReport]:
        return open_log(
            self.files,
            FOLDER,
            self.config,
            clean_shutdown=clean,
            recovery_point=Offset(recovery_point),
            log_start_offset=Offset(log_start),
        )

    def content(self, name: str, folder: str = FOLDER) -> bytearray:
        """Return a file's bytes, to be damaged in place."""
        node = self.disk.find(f"{folder}/{name}")
        assert isinstance(node, FileNode)
        return node.content

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.files.list(FOLDER) if name.endswith(suffix)]


def batch(*values: bytes, offset: int = 0, epoch: int = -1, timestamp: int = 1_000) -> bytes:
    """Return a batch of records with these values, all of one timestamp."""
    return build_batch([(None, value, timestamp) for value in values], offset, LeaderEpoch(epoch))


def append(log: Log, *values: bytes, epoch: int = 0, timestamp: int = 1_000) -> int:
    """Append a batch as leader; return its base offset."""
    records = batch(*values, timestamp=timestamp)
    return log.append_as_leader(records, LeaderEpoch(epoch), timestamp).base_offset


def look_up(log: Log, timestamp: int) -> FoundOffset | None:
    """Return the first record that is not older, without a pause between the steps."""
    return stepped(log, timestamp)[0]


def stepped(log: Log, timestamp: int) -> tuple[FoundOffset | None, int]:
    """Return the first record that is not older, and how many steps that took."""
    return finish(log.look_up_timestamp(timestamp))


def finish(lookup: Steps[T]) -> tuple[T, int]:
    """Return the lookup's result, and the number of steps left."""
    steps = 0
    while True:
        steps += 1
        try:
            next(lookup)
        except StopIteration as stop:
            return stop.value, steps


def all_bytes(log: Log) -> bytes:
    """Return the whole log's batches, read in steps as a follower does."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 1 << 20, log.log_end_offset).records
        data = records if isinstance(records, bytes) else records.read()
        found += data
        offset = Offset(split_batches(data)[-1].header.last_offset + 1)
    return found


@pytest.fixture(scope="session")
def new_machine() -> Callable[..., Machine]:
    return Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(scope="session")
def tools() -> Any:
    """The helper functions, since test modules cannot import each other."""

    class Tools:
        batch = staticmethod(batch)
        append = staticmethod(append)
        look_up = staticmethod(look_up)
        stepped = staticmethod(stepped)
        finish = staticmethod(finish)
        all_bytes = staticmethod(all_bytes)

    return Tools
