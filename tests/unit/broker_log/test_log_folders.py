"""Several log folders of a broker: where replicas are, and which a failed folder takes offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from highwater_broker.log.checkpoints import (
    claim_folder,
    encode_properties,
    read_properties,
    write_renamed,
)
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.log.subfolder import Subfolder
from highwater_broker.log_folders import LogFolders
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import NodeId, Offset, StorageId, TopicPartition
from highwater_core.traces import TraceRecorder
from highwater_simulator.files import SimulatedFileSystem
from highwater_simulator.kernel import SimulationFailed
from highwater_simulator.rng import SeededRng

from .conftest import Machine, append

A, B, C, D = (TopicPartition("t", number) for number in range(4))
CONFIG = LogConfig()
BOOT = "a boot"


class Broker:
    """A broker's log folders d0 and d1, through all its starts on one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.files = SimulatedFileSystem(machine.runtime, machine.disk)
        self.events: list[object] = []
        self.starts = 0
        self.start()

    def start(self, boot: str = BOOT, names: Sequence[str] = ("d0", "d1")) -> list[TopicPartition]:
        """Open all logs; return of which partitions."""
        self.starts += 1
        runtime = self.machine.runtime
        trace = TraceRecorder(runtime, NodeId(1), self.starts, self.events.append)
        points = FailPoints(runtime, trace, lambda: None, BROKER_FAIL_POINTS)
        self.storage = StorageIdentity(self.files, SeededRng(self.starts), boot)
        self.of = {
            name: ReplicaLogs(
                Subfolder(self.files, name), trace, NodeId(1), "cluster", lambda topic: CONFIG,
                points, self.storage, name=name,
            )
            for name in names
        }  # fmt: skip
        self.folders = LogFolders(tuple(self.of.values()), self.storage)
        self.hosted: dict[TopicPartition, HostedLog] = {
            each.topic_partition: each for each in self.machine.run(self.folders.load())
        }
        return sorted(self.hosted)

    def create(self, *keys: TopicPartition) -> None:
        for key in keys:
            self.hosted[key] = self.machine.run(self.folders.create(key, "", CONFIG))

    def create_of(self, topic_id: str, key: TopicPartition) -> None:
        """As by a command that names the topic."""
        self.hosted[key] = self.machine.run(self.folders.create(key, topic_id, CONFIG))
        self.folders.write_topic_id(key, topic_id)
        self.folders.take_as_hosted(key)

    def home(self, key: TopicPartition) -> str:
        found = self.folders.home_of(key)
        return "" if found is None else found.name

    def stop_cleanly(self) -> None:
        for hosted in self.hosted.values():
            hosted.log.close()
        for folder in self.folders.sound():
            self.machine.run(folder.write_clean_shutdown_marker())

    def swap(self, folder: str, away: str, back: str = "") -> None:
        """Take the disk of a log folder away, and perhaps bring another one there."""
        self.files.rename(folder, away)
        if back:
            self.files.rename(back, folder)

    def told_of(self, folder: str) -> list[str]:
        """Return what this start found wrong with a log folder."""
        events = [each for each in self.events if isinstance(each, TraceEvent)]
        return [
            str(each.detail["what"])
            for each in events
            if each.incarnation == self.starts and each.detail.get("where") == folder
        ]

    def storage_id(self) -> StorageId:
        return self.storage.storage_id


@pytest.fixture
def broker(machine: Machine) -> Broker:
    return Broker(machine)


def test_a_power_loss_leaves_the_log_folders_where_nothing_else_is_synced_beside_them(
    machine: Machine,
) -> None:
    """Preset v3 has no storage identity, whose file made their names durable by chance."""
    files = SimulatedFileSystem(machine.runtime, machine.disk)
    trace = TraceRecorder(machine.runtime, NodeId(1), 1, lambda event: None)
    points = FailPoints(machine.runtime, trace, lambda: None, BROKER_FAIL_POINTS)
    folder = ReplicaLogs(
        Subfolder(files, "d0"), trace, NodeId(1), "c", lambda topic: CONFIG, points, name="d0"
    )
    machine.run(LogFolders((folder,), None).load())
    machine.disk.lose_power(spares_nothing=True)
    assert files.exists("d0/meta.properties")


def test_new_replicas_go_to_the_folder_with_the_fewest(broker: Broker) -> None:
    broker.create(A, B, C)
    assert [broker.home(key) for key in (A, B, C)] == ["d0", "d1", "d0"]
    broker.hosted[A].log.delete()
    broker.hosted[C].log.delete()
    for key in (A, C):
        broker.folders.let_go(key)
    broker.create(D)
    assert broker.home(D) == "d0"


def test_replicas_are_found_again_in_their_folders(broker: Broker) -> None:
    broker.create(A, B)
    assert broker.start() == [A, B]
    assert (broker.home(A), broker.home(B)) == ("d0", "d1")


def test_a_folder_that_fails_takes_its_replicas_and_no_others(broker: Broker) -> None:
    broker.create(A, B)
    assert broker.folders.fail("d1") == [B]
    assert broker.folders.may_start(A, is_new=False)
    assert not broker.folders.may_start(B, is_new=True)
    assert not broker.folders.may_start(C, is_new=False), "it may be in the folder that failed"
    assert broker.folders.may_start(C, is_new=True)
    broker.create(C)
    assert broker.home(C) == "d0"
    with pytest.raises(SimulationFailed, match="its log folder has failed"):
        broker.create(B)
    broker.folders.fail("d0")
    assert not broker.folders.may_start(D, is_new=True)


def test_a_folder_that_is_broken_at_the_start_has_failed_and_the_others_serve(
    broker: Broker,
) -> None:
    broker.create(A, B)
    before = broker.storage_id()
    broker.machine.disk.die("d1")
    assert broker.start() == [A]
    assert [folder.name for folder in broker.folders.sound()] == ["d0"]
    assert broker.events[-1].kind is EventKind.LOG_RECOVERED  # type: ignore[attr-defined]
    broker.machine.disk.revive("d1")
    assert broker.start() == [A, B]
    assert broker.storage_id() == before, "nothing was lost"


def test_a_broker_all_of_whose_folders_are_broken_does_not_start(broker: Broker) -> None:
    broker.machine.disk.die("d0")
    broker.machine.disk.die("d1")
    with pytest.raises(SimulationFailed, match="input/output error"):
        broker.start()


def test_another_brokers_folder_is_no_failure_but_a_mistake(broker: Broker) -> None:
    folder = Subfolder(broker.files, "d1")
    folder.remove("meta.properties")
    broker.machine.run(claim_folder(folder, NodeId(9), "cluster"))
    with pytest.raises(SimulationFailed, match="WrongBrokerFolder"):
        broker.start()


def _empty_folder(broker: Broker) -> None:
    broker.files.remove("d1")


def _other_boot(broker: Broker) -> None:
    broker.files.remove("d1/.kafka_cleanshutdown")


@pytest.mark.parametrize("lose", [_empty_folder, _other_boot])
def test_a_possible_loss_of_one_folder_counts_for_the_broker(
    broker: Broker, lose: Callable[[Broker], None]
) -> None:
    broker.create(A, B)
    before = broker.storage_id()
    broker.stop_cleanly()
    lose(broker)
    broker.start("another boot")
    assert broker.storage_id() != before


def test_a_folder_that_was_away_for_a_whole_boot_may_have_lost_something(broker: Broker) -> None:
    """It was not stopped cleanly, and the boot in which it was last in use is over."""
    broker.create(A, B)
    before = broker.storage_id()
    broker.stop_cleanly()
    broker.files.remove("d1/.kafka_cleanshutdown")
    broker.machine.disk.die("d1")
    broker.start("another boot")
    assert broker.storage_id() == before
    broker.machine.disk.revive("d1")
    broker.start("another boot")
    assert broker.storage_id() != before


def test_a_clean_stop_in_both_folders_loses_nothing_over_a_boot(broker: Broker) -> None:
    broker.create(A, B)
    before = broker.storage_id()
    broker.stop_cleanly()
    broker.start("another boot")
    assert broker.storage_id() == before


@pytest.mark.parametrize("boots", [(BOOT, BOOT), ("a second boot", "a third boot")])
def test_a_folder_whose_disk_was_away_for_one_start_may_have_lost_records(
    broker: Broker, boots: tuple[str, str]
) -> None:
    """Its logs are as old as its last start; their later records were appended elsewhere."""
    broker.create(A, B)
    broker.stop_cleanly()
    broker.swap("d0", away="its disk")
    before = broker.storage_id()
    assert broker.start(boots[0]) == [B], "the mount point is empty"
    assert broker.told_of("d0")
    without = broker.storage_id()
    assert without != before
    broker.create(A)
    append(broker.hosted[A].log, b"later", epoch=2)
    broker.stop_cleanly()
    broker.swap("d0", away="the mount point", back="its disk")
    assert broker.start(boots[1]) == [A, B]
    assert broker.hosted[A].log.log_end_offset == 0
    assert broker.storage_id() not in (before, without)
    (told,) = broker.told_of("d0")
    assert told.startswith("another log folder")
    there = broker.storage_id()
    broker.stop_cleanly()
    broker.start(boots[1])
    assert (broker.storage_id(), broker.told_of("d0")) == (there, [])


def test_a_process_that_dies_before_it_notes_an_empty_folder_leaves_the_next_one_to_note_it(
    broker: Broker,
) -> None:
    before = broker.storage_id()
    broker.files.remove("d1")
    broker.machine.run(broker.of["d1"].claim())
    broker.start()
    assert broker.storage_id() != before
    assert broker.told_of("d1")


def test_a_folder_that_a_start_did_not_name_may_have_lost_records(broker: Broker) -> None:
    broker.create(A, B)
    broker.start(names=("d0",))
    before = broker.storage_id()
    assert broker.start() == [A, B]
    assert broker.storage_id() != before
    assert broker.told_of("d1") == ["a log folder that the last start did not have"]


def test_disks_that_change_places_are_noticed(broker: Broker) -> None:
    before = broker.storage_id()
    broker.swap("d0", away="a disk", back="d1")
    broker.files.rename("a disk", "d1")
    broker.start()
    assert broker.storage_id() != before


def test_folders_of_an_earlier_version_have_no_ids_and_lose_nothing(broker: Broker) -> None:
    broker.create(A, B)
    before = broker.storage_id()
    for path in ("d0/meta.properties", "d1/meta.properties", "storage.properties"):
        properties = read_properties(broker.files, path, "=") or {}
        for name in ("directory.id", "folder.ids"):
            properties.pop(name, None)
        write_renamed(broker.files, path, encode_properties(properties, "="))
    broker.machine.disk.die("d1")
    broker.start()
    broker.machine.disk.revive("d1")
    assert broker.start() == [A, B]
    assert broker.storage_id() == before
    broker.swap("d0", away="its disk")
    broker.start()
    broker.swap("d0", away="the mount point", back="its disk")
    without = broker.storage_id()
    broker.start()
    assert broker.storage_id() not in (before, without)


def test_of_two_logs_of_one_partition_that_of_the_later_leader_stays(broker: Broker) -> None:
    broker.create(A, B)
    append(broker.hosted[B].log, b"old", epoch=1)
    broker.machine.disk.die("d1")
    broker.start()
    broker.create(B)
    append(broker.hosted[B].log, b"new", epoch=2)
    assert broker.home(B) == "d0"
    broker.machine.disk.revive("d1")
    assert broker.start() == [A, B]
    assert broker.home(B) == "d0"
    assert broker.hosted[B].log.epoch_cache.latest_epoch == 2
    assert not broker.files.exists("d1/t-1")
    assert broker.files.list("d1")[-1].endswith("-stray")


@pytest.fixture
def twice_created(broker: Broker) -> Broker:
    """A topic is deleted and created again while a disk has failed; its disk comes back."""
    broker.create(A)
    broker.create_of("old", B)
    append(broker.hosted[B].log, b"old", epoch=7)
    broker.machine.disk.die("d1")
    broker.start()
    broker.folders.let_go(B)
    broker.create_of("new", B)
    assert broker.home(B) == "d0"
    append(broker.hosted[B].log, b"new", epoch=0)
    broker.machine.run(broker.of["d0"].high_watermarks.write({B: Offset(1)}))
    broker.machine.disk.revive("d1")
    assert broker.start() == [A]
    return broker


@pytest.mark.parametrize(("named", "home", "other"), [("new", "d0", "d1"), ("old", "d1", "d0")])
def test_of_two_topics_logs_that_of_the_topic_stays_which_a_command_names(
    twice_created: Broker, named: str, home: str, other: str
) -> None:
    """Their leader epochs have nothing to do with each other."""
    broker = twice_created
    assert broker.folders.may_start(B, is_new=False)
    assert broker.start() == [A]
    broker.create_of(named, B)
    log = broker.hosted[B].log
    assert broker.home(B) == home
    assert (log.log_end_offset, log.epoch_cache.latest_epoch) == (1, {"new": 0, "old": 7}[named])
    assert broker.hosted[B].high_watermark == (1 if named == "new" else 0)
    assert not broker.files.exists(f"{other}/t-1")
    assert [name for name in broker.files.list(other) if name.endswith("-stray")]
    assert all(folder.are_all_open for folder in broker.of.values())
    assert broker.start() == [A, B]
    assert (broker.home(B), broker.hosted[B].topic_id) == (home, named)


def test_of_two_topics_logs_none_stays_where_a_command_names_a_third_one(
    twice_created: Broker,
) -> None:
    broker = twice_created
    broker.create_of("third", B)
    assert broker.hosted[B].log.log_end_offset == 0
    strays = [n for each in ("d0", "d1") for n in broker.files.list(each) if n.endswith("-stray")]
    assert len(strays) == 2
    assert broker.start() == [A, B]


def test_two_topics_logs_become_strays_where_no_command_lists_the_partition(
    twice_created: Broker,
) -> None:
    broker = twice_created
    broker.folders.set_aside_unlisted({A, B})
    assert broker.files.exists("d0/t-1")
    broker.folders.set_aside_unlisted({A})
    assert not broker.files.exists("d0/t-1")
    assert not broker.files.exists("d1/t-1")
    assert all(folder.are_all_open for folder in broker.of.values())


def test_a_topic_that_is_deleted_takes_its_own_log_of_two(twice_created: Broker) -> None:
    broker = twice_created
    folders = broker.folders
    folders.delete_leftover(B, "old", folders.interrupted_deletions())
    assert (broker.files.exists("d0/t-1"), broker.files.exists("d1/t-1")) == (True, False)
    broker.create_of("new", B)
    assert (broker.home(B), broker.hosted[B].log.log_end_offset) == ("d0", 1)


def test_two_topics_logs_wait_while_the_folder_of_one_has_failed(twice_created: Broker) -> None:
    twice_created.folders.fail("d1")
    with pytest.raises(SimulationFailed, match="failed"):
        twice_created.create_of("new", B)
    assert twice_created.files.exists("d0/t-1")


def test_each_folder_has_checkpoints_of_its_own(broker: Broker) -> None:
    broker.create(A, B)
    for key in (A, B):
        folder = broker.folders.home_of(key)
        assert folder is not None
        broker.machine.run(folder.high_watermarks.write({key: broker.hosted[key].high_watermark}))
    assert broker.files.exists("d0/replication-offset-checkpoint")
    assert broker.files.exists("d1/replication-offset-checkpoint")
    broker.start()
    for key, name in ((A, "d0"), (B, "d1")):
        assert list(broker.of[name].high_watermarks.entries) == [key]


def test_a_replica_that_a_failing_folder_refused_to_make_is_made_in_another(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(13, "permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(broker.of["d0"]._files, "make_folder", refuse)
        with pytest.raises(SimulationFailed, match="permission denied"):
            broker.create(A)
    assert broker.folders.fail("d0") == []
    assert broker.folders.may_start(A, is_new=False), "it is known not to be there"
    assert not broker.folders.may_start(B, is_new=False)
    broker.machine.crash()
    assert broker.home(A) == ""
