"""Committed batches lost before a start change the storage id, despite any later event.

Each start is ReplicaLogs.load over a simulated disk, and may die at any change that it makes.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.log.checkpoints import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from highwater_broker.log.epoch_file import EpochFile
from highwater_broker.log.folders import DELETE_SUFFIX
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.storage_identity import STORAGE_IDENTITY, StorageIdentity
from highwater_broker.log_folders import LogFolders
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint
from highwater_core.ids import LeaderEpoch, NodeId, Offset, StorageId, TopicPartition
from highwater_core.ports import Buffer
from highwater_simulator.files import SimulatedFile, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import Batch, split_batches

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=200)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
BATCHES = 12
_BAD_INPUT = EventKind.BAD_INPUT_MET
HIGH_WATERMARK = 20
"""Of 24 records, two a batch, this many are committed. The checkpoint may have less."""


class Died(BaseException):
    """The process ended here."""


class MortalFiles(SimulatedFileSystem):
    """A file system whose process dies before its n-th change; it lives for ever while n is -1."""

    changes_left = -1

    def step(self) -> None:
        if self.changes_left == 0:
            raise Died
        self.changes_left -= 1

    def open(self, path: str) -> SimulatedFile:
        if not self.exists(path):
            self.step()
        file = super().open(path)
        mortal = MortalFile(file._runtime, file._disk, path, file._node)
        mortal.files = self
        return mortal

    def make_folder(self, path: str) -> None:
        if not self.exists(path):
            self.step()
        super().make_folder(path)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.step()
        super().remove(path)

    async def sync_folder(self, path: str) -> None:
        self.step()
        await super().sync_folder(path)

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        self.step()
        await super().sync_many(files, folders)


class MortalFile(SimulatedFile):
    files: MortalFiles

    def append(self, buffers: Sequence[Buffer]) -> int:
        self.files.step()
        return super().append(buffers)

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self.size_bytes:
            self.files.step()
        super().truncate(size_bytes)

    async def sync(self) -> None:
        self.files.step()
        await super().sync()


class SilentTrace:
    def __init__(self) -> None:
        self.events: list[tuple[EventKind, dict[str, Any]]] = []

    def emit(self, kind: EventKind, **detail: Any) -> None:
        self.events.append((kind, detail))


class NoFailPoints:
    async def reach(self, point: FailPoint) -> None:
        pass


class Broker:
    """A broker's folder, started as often as one likes."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.starts = 0
        self.storage_id: StorageId | None = None
        """The storage id that the last complete start would register."""
        self.registered: StorageId | None = None
        self.to_register: list[StorageId] = []
        self.logs: ReplicaLogs
        self.hosted: dict[TopicPartition, HostedLog] = {}
        self.trace = SilentTrace()

    def start(self, *, changes: int = -1) -> bool:
        """Load everything; return False when the process died in between."""
        self.starts += 1
        files = MortalFiles(self.machine.runtime, self.machine.disk)
        files.changes_left = changes
        boot = f"boot-{self.machine.disk.power_losses}"
        storage = StorageIdentity(files, SeededRng(self.starts), boot)
        logs = ReplicaLogs(
            files,
            self.trace,  # type: ignore[arg-type]
            NodeId(1),
            "cluster",
            lambda topic: CONFIG,
            NoFailPoints(),  # type: ignore[arg-type]
            storage,
            self.registers,
        )

        async def load() -> list[HostedLog] | None:
            try:
                return await LogFolders([logs], storage).load()
            except Died:
                return None

        hosted: list[HostedLog] | None = self.machine.run(load())
        if hosted is None:
            return False
        self.logs = logs
        self.hosted = {each.topic_partition: each for each in hosted}
        self.storage_id = storage.storage_id
        return True

    async def registers(self, storage_id: StorageId) -> bool:
        self.to_register.append(storage_id)
        return self.registered == storage_id

    def fill(self, tools: Any, recovery_point: int, high_watermark: int) -> None:
        """Give both logs their records; those below the recovery point are on the disk."""
        config = CONFIG
        for key in (A, B):
            self.machine.run(self.logs.create(key, "", config))
        self.start()
        for hosted in self.hosted.values():
            for number in range(BATCHES):
                tools.append(hosted.log, b"x", bytes(number), epoch=number // 5)
                if hosted.log.log_end_offset == recovery_point:
                    self.machine.run(hosted.log.flush())
        self.write(self.logs.high_watermarks, high_watermark)
        self.write(self.logs.recovery_points, recovery_point)

    def write(self, checkpoint: OffsetCheckpoint, offset: int) -> None:
        self.machine.run(checkpoint.write({A: Offset(offset), B: Offset(offset)}))

    def segments(self) -> list[str]:
        folder = self.machine.files.list("a-0")
        return [f"a-0/{name}" for name in folder if name.endswith(".log")]

    def batches(self, tools: Any, key: TopicPartition) -> list[Batch]:
        return split_batches(tools.all_bytes(self.hosted[key].log))


@pytest.fixture(scope="session")
def make_broker(new_machine: Any) -> Any:
    def make(
        tools: Any, *, recovery_point: int = 0, high_watermark: int = HIGH_WATERMARK
    ) -> Broker:
        broker = Broker(new_machine(CONFIG))
        broker.start()
        broker.fill(tools, recovery_point, high_watermark)
        return broker

    return make


def has_lost(broker: Broker, tools: Any, original: list[Batch], below: int) -> bool:
    """Return whether a batch below the offset is not as it was."""
    committed = [each for each in original if each.header.base_offset < below]
    for key in (A, B):
        held = broker.batches(tools, key)
        if [bytes(each.data) for each in held[: len(committed)]] != [
            bytes(each.data) for each in committed
        ]:
            return True
    return False


def damage(broker: Broker, data: st.DataObject, high_watermark: int) -> int:
    """Damage a log, all of which lies above the recovery point.

    Return the offset below which a loss must be reported. The loss of a log's last whole batches
    shows by the checkpointed high watermark only.
    """
    disk = broker.machine.disk
    kind = data.draw(st.sampled_from(["none", "flip", "length", "cut", "segment"]), "damage")
    path = data.draw(st.sampled_from(broker.segments()))
    content = disk.content(path)
    if kind == "flip":
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "length":
        content[8 + data.draw(st.integers(0, 3))] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        path = broker.segments()[-1]
        content = disk.content(path)
        del content[data.draw(st.integers(0, len(content))) :]
    elif kind == "segment":
        broker.machine.files.remove(path)
    return high_watermark if kind in ("cut", "segment") else 2 * BATCHES


@given(st.data())
def test_no_death_during_recovery_makes_a_broker_forget_a_loss(
    make_broker: Any, tools: Any, data: st.DataObject
) -> None:
    high_watermark = data.draw(st.sampled_from([0, HIGH_WATERMARK]), "checkpointed")
    broker = make_broker(tools, high_watermark=high_watermark)
    first, original = broker.storage_id, broker.batches(tools, A)
    broker.machine.crash()
    below = damage(broker, data, high_watermark)
    for changes in data.draw(st.lists(st.integers(0, 12), max_size=3), "deaths"):
        broker.start(changes=changes)
        broker.machine.crash()
    assert broker.start()
    assert broker.storage_id != first or not has_lost(broker, tools, original, below)


@given(st.data())
def test_a_power_loss_during_recovery_takes_nothing_that_was_committed_on_the_disk(
    make_broker: Any, tools: Any, data: st.DataObject
) -> None:
    """The recovery point is at the high watermark: records below it are on the disk."""
    broker = make_broker(tools, recovery_point=HIGH_WATERMARK)
    first, original = broker.storage_id, broker.batches(tools, A)
    broker.machine.crash()
    for changes in data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=3), "losses"):
        broker.start(changes=changes)
        broker.machine.runtime.kill()
        broker.machine.disk.lose_power(spares_nothing=data.draw(st.booleans()))
        broker.machine._boot()
    assert broker.start()
    assert broker.storage_id != first
    assert not has_lost(broker, tools, original, HIGH_WATERMARK)


@given(st.integers(0, 40))
def test_deaths_during_recovery_alone_lose_nothing_and_change_no_id(
    make_broker: Any, tools: Any, changes: int
) -> None:
    broker = make_broker(tools)
    first, original = broker.storage_id, broker.batches(tools, A)
    broker.machine.crash()
    content = broker.machine.disk.content(broker.segments()[-1])
    del content[-3:]  # an append that never ended
    broker.start(changes=changes)
    broker.machine.crash()
    assert broker.start()
    assert broker.storage_id == first
    assert broker.batches(tools, A) == original[:-1]
    assert broker.batches(tools, B) == original


@given(st.integers(0, 40))
def test_deaths_after_a_power_loss_do_not_have_older_epoch_files_believed(
    make_broker: Any, tools: Any, changes: int
) -> None:
    """A log keeps the batches that a power loss left, also if the next start died before its turn.

    Found by seed 1000360 of the family disks.
    """
    broker = make_broker(tools)
    original = broker.batches(tools, A)
    broker.machine.crash()
    disk = broker.machine.disk
    disk.power_losses += 1
    for key in (A, B):
        EpochFile(broker.machine.files, str(key)).store(
            EpochCache().assign(LeaderEpoch(0), Offset(0))
        )
    broker.start(changes=changes)
    broker.machine.crash()
    assert broker.start()
    assert broker.batches(tools, A) == broker.batches(tools, B) == original


@pytest.mark.parametrize("position", [0, 8, 9, 10, 12, 15, 16, 70])
@pytest.mark.parametrize("number", [0, 1])
def test_a_flipped_bit_is_a_loss_also_where_no_crc_covers_it(
    position: int, number: int, make_broker: Any, tools: Any
) -> None:
    broker = make_broker(tools)
    first = broker.storage_id
    broker.machine.crash()
    broker.machine.disk.content(broker.segments()[number])[position] ^= 0x40
    assert broker.start()
    assert broker.storage_id != first


def test_a_log_that_ends_below_its_recovery_point_must_be_checkpointed_before_an_append(
    make_broker: Any, tools: Any
) -> None:
    """It was cut, and its process killed before the checkpoint. Seed 1013222, disks, found it."""
    broker = make_broker(tools, recovery_point=HIGH_WATERMARK, high_watermark=0)
    assert broker.start()
    assert not any(hosted.must_checkpoint for hosted in broker.hosted.values())
    broker.hosted[A].log.truncate_to(Offset(HIGH_WATERMARK - 2))
    broker.machine.crash()
    assert broker.start()
    assert broker.hosted[A].must_checkpoint
    assert not broker.hosted[B].must_checkpoint


async def refuse_to_sync(path: str) -> None:
    raise OSError(errno.EIO, path)


def test_a_start_makes_the_checkpoints_durable_that_it_believes(
    make_broker: Any, tools: Any, monkeypatch: Any
) -> None:
    """A process was killed between rename and sync. Seed 2022870, disks, found it."""
    broker = make_broker(tools)
    files = broker.machine.files
    assert broker.machine.run(OffsetCheckpoint(files, RECOVERY_POINT_CHECKPOINT).write({A: 9}))
    monkeypatch.setattr(files, "sync_folder", refuse_to_sync)

    async def write() -> None:
        with pytest.raises(LogRefused):
            await OffsetCheckpoint(files, RECOVERY_POINT_CHECKPOINT).write({A: 2})

    broker.machine.run(write())
    broker.machine.crash()
    assert broker.start()
    broker.machine.lose_power()
    read = OffsetCheckpoint(broker.machine.files, RECOVERY_POINT_CHECKPOINT).read()
    assert read.entries == {A: 2}


def test_checkpoints_that_a_start_cannot_make_durable_are_due_before_an_append(
    make_broker: Any, tools: Any, monkeypatch: Any
) -> None:
    broker = make_broker(tools)
    assert broker.start()
    assert not any(hosted.must_checkpoint for hosted in broker.hosted.values())
    broker.machine.crash()
    monkeypatch.setattr(MortalFiles, "sync_folder", lambda files, path: refuse_to_sync(path))
    assert broker.start()
    assert all(hosted.must_checkpoint for hosted in broker.hosted.values())


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_log_that_ends_below_its_high_watermark_is_a_loss_however_it_was_stopped(
    is_clean: bool, make_broker: Any, tools: Any
) -> None:
    broker = make_broker(tools)
    first = broker.storage_id
    if is_clean:
        for hosted in broker.hosted.values():
            broker.machine.run(hosted.log.flush())
            hosted.log.close()
        broker.machine.files.open(".kafka_cleanshutdown")
    broker.machine.crash()
    for path in broker.segments()[-2:]:
        broker.machine.files.remove(path)
    assert broker.start()
    assert broker.hosted[A].log.log_end_offset < HIGH_WATERMARK
    assert broker.storage_id != first
    told = [detail["what"] for kind, detail in broker.trace.events if "what" in detail]
    assert f"below its high watermark {HIGH_WATERMARK}" in told[-1]


def start_without_a(broker: Any) -> None:
    """Start it while the disk refuses to open the first log's files."""
    real = MortalFiles.open

    def refuse(self: MortalFiles, name: str) -> SimulatedFile:
        if name.startswith("a-0/"):
            raise OSError(5, "input/output error", name)
        return real(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MortalFiles, "open", refuse)
        assert broker.start()


def test_a_loss_found_after_registration_leaves_the_log_closed_and_as_it_is(
    make_broker: Any, tools: Any
) -> None:
    """The disk refused to read the log at the start, and the broker registered as whole."""
    broker = make_broker(tools)
    first = broker.storage_id
    broker.machine.crash()
    path = broker.segments()[1]
    broker.machine.disk.content(path)[8] ^= 0x40
    damaged = broker.machine.disk.files()[path]
    start_without_a(broker)
    assert (broker.storage_id, list(broker.hosted)) == (first, [B])

    async def create() -> HostedLog | ErrorCode:
        try:
            return await broker.logs.create(A, "", CONFIG)
        except LogRefused as refused:
            return refused.error

    for _ in range(2):
        assert broker.machine.run(create()) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.machine.disk.files()[path] == damaged
    (second,) = set(broker.to_register)
    assert second != first, "the loss is on the disk, and to be registered"
    broker.registered = second
    opened = broker.machine.run(create())
    assert isinstance(opened, HostedLog)
    assert opened.log.log_end_offset < HIGH_WATERMARK
    broker.machine.crash()
    assert broker.start()
    assert broker.storage_id != first
    assert list(broker.hosted) == [A, B]


def believes_epoch_files(broker: Any) -> bool:
    """Return whether the next start would hold batches against them."""
    content = broker.machine.disk.content(STORAGE_IDENTITY)
    return f"opened.boot.id=boot-{broker.machine.disk.power_losses}".encode() in content


def test_a_start_that_could_not_open_every_log_leaves_their_epoch_files_unbelieved(
    make_broker: Any, tools: Any
) -> None:
    broker = make_broker(tools)
    assert believes_epoch_files(broker)
    broker.machine.crash()
    broker.machine.disk.power_losses += 1
    start_without_a(broker)
    broker.machine.crash()
    assert not believes_epoch_files(broker)
    assert broker.start()
    assert believes_epoch_files(broker)


def test_a_disk_that_refuses_to_note_the_boot_ends_no_start(
    make_broker: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker(tools)
    broker.machine.crash()
    broker.machine.disk.power_losses += 1

    async def refuse(self: StorageIdentity) -> None:
        raise OSError(5, "input/output error", STORAGE_IDENTITY)

    with monkeypatch.context() as patch:
        patch.setattr(StorageIdentity, "note_opened", refuse)
        assert broker.start()
    assert [where for where in bad_inputs(broker) if where == STORAGE_IDENTITY]
    assert not believes_epoch_files(broker)


def bad_inputs(broker: Any) -> list[str]:
    return [detail["where"] for kind, detail in broker.trace.events if kind is _BAD_INPUT]


def test_a_checkpoint_keeps_the_offset_of_a_log_until_a_replica_opens_it(
    make_broker: Any, tools: Any
) -> None:
    """Between the two the disk may refuse the topic's id: then the log is closed again."""
    broker = make_broker(tools)
    broker.machine.crash()
    start_without_a(broker)
    checkpoint = broker.logs.high_watermarks
    broker.machine.run(broker.logs.create(A, "", CONFIG)).log.close()
    assert broker.logs.entries_of_unopened(checkpoint) == {A: HIGH_WATERMARK}
    broker.machine.run(broker.logs.create(A, "", CONFIG))
    broker.logs.take_as_hosted(A)
    assert broker.logs.entries_of_unopened(checkpoint) == {}


def test_a_log_that_was_deleted_unopened_is_missed_by_nobody(
    make_broker: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is aside, and the disk may keep it: no clean stop has to wait for it."""
    broker = make_broker(tools)
    broker.machine.crash()
    start_without_a(broker)
    assert not broker.logs.are_all_open
    real = MortalFiles.remove

    def refuse(self: MortalFiles, path: str) -> None:
        if path.endswith(DELETE_SUFFIX):
            raise OSError(5, "input/output error", path)
        real(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(MortalFiles, "remove", refuse)
        with pytest.raises(OSError, match="input/output"):
            broker.logs.delete_leftover(A, "", broker.logs.interrupted_deletions())
    assert broker.logs.are_all_open
    assert broker.logs.entries_of_unopened(broker.logs.high_watermarks) == {}
    broker.logs.delete_leftover(A, "", broker.logs.interrupted_deletions())
    assert not any(name.startswith("a-0") for name in broker.machine.files.list(""))
