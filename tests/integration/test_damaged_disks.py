"""A broker starts on damaged files: it repairs or leaves out logs, traces that, and replicates.

Records that a disk lost are fetched again from the leader: the damaged broker is a follower when it
comes back, since its session has ended. Every truncation of a log is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr, await_leader, await_look, await_replicated
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.waiting import eventually
from highwater_checker.looks import leaderships
from highwater_checker.segments import read_batches
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from tests.integration.conftest import under_presets
from tests.support.broker_files import BrokerFiles
from tests.support.clusters import live_traces

pytestmark = [
    pytest.mark.docker,
    # The files on a disk, and their repair, are the same under every preset.
    pytest.mark.parametrize("brisk", under_presets("brisk", nightly=(Preset.V3,)), indirect=True),
]

DAMAGED = 0
RECORDS = 40
FIRST_SEGMENT = "00000000000000000000"

Damage = Callable[[BrokerFiles, str], None]


def _flip_last_byte(files: BrokerFiles, path: str) -> None:
    content = files.read(path)
    files.write(path, content[:-1] + bytes([content[-1] ^ 0xFF]))


def log(folder: str) -> str:
    return f"{folder}/{FIRST_SEGMENT}.log"


DAMAGES: dict[str, Damage] = {
    "a torn tail": lambda files, folder: files.cut(log(folder), 7),
    "garbage after the tail": lambda files, folder: files.append(log(folder), b"\x5a" * 300),
    "zeros after the tail": lambda files, folder: files.append(log(folder), bytes(4096)),
    "an empty segment": lambda files, folder: files.write(log(folder), b""),
    "a segment of garbage": lambda files, folder: files.write(log(folder), b"garbage" * 50),
    "a garbage epoch file": lambda files, folder: files.write(
        f"{folder}/leader-epoch-checkpoint", b"0\n2\n5 0\n3 9\n"
    ),
    "no epoch file": lambda files, folder: files.remove(f"{folder}/leader-epoch-checkpoint"),
}
AFTER_A_KILL: dict[str, Damage] = {
    # After a clean stop recovery does not look for it: all batches were whole when flushed.
    "a bit flipped in the last batch": lambda files, folder: _flip_last_byte(files, log(folder)),
}
AFTER_A_CLEAN_STOP: dict[str, Damage] = {
    # The indexes of the active segment are written when the broker stops.
    "a garbage offset index": lambda files, folder: files.write(
        f"{folder}/{FIRST_SEGMENT}.index", b"\xff" * 33
    ),
    "a garbage time index": lambda files, folder: files.write(
        f"{folder}/{FIRST_SEGMENT}.timeindex", b"\xff" * 31
    ),
    "no indexes": lambda files, folder: files.remove(
        f"{folder}/{FIRST_SEGMENT}.index", f"{folder}/{FIRST_SEGMENT}.timeindex"
    ),
}
UNTRACED = ("an empty segment",)
"""A segment without its file's content looks like one that was never written to."""


def write_records(cluster: Cluster, topics: Sequence[str]) -> None:
    """Write acks=all records into each topic, one batch each."""
    for topic in topics:
        key = TopicPartition(topic, 0)
        leader = await_leader(cluster, key).leader
        with WireClient(cluster.external_endpoint(leader)) as client:
            for number in range(RECORDS):
                batch = record_batch([f"{topic}-{number}".encode() * 10])
                assert client.produce(topic, 0, batch).error is ErrorCode.NONE
        await_replicated(cluster, topic)


def await_deposed(cluster: Cluster, topics: Sequence[str]) -> None:
    """Wait until another broker leads each topic, without the damaged one."""
    keys = [TopicPartition(topic, 0) for topic in topics]

    await_look(
        cluster,
        "the stopped broker leads nothing and is in no ISR",
        lambda look: all(
            key in leaderships(look) and DAMAGED not in leaderships(look)[key].isr for key in keys
        ),
    )


def assert_everything_is_back(cluster: Cluster, topics: Sequence[str], tmp_path: Path) -> None:
    for topic in topics:
        await_full_isr(cluster, topic)
        await_replicated(cluster, topic)
    for broker in (0, 1, 2):
        cluster.copy_broker_data(broker, tmp_path / str(broker))
    for topic in topics:
        logs = [read_batches(tmp_path / str(broker) / f"{topic}-0") for broker in (0, 1, 2)]
        assert logs[0] == logs[1] == logs[2], topic
        values = [value for batch in logs[0] for _, _, value in batch.records()]
        expected = [f"{topic}-{number}".encode() * 10 for number in range(RECORDS)]
        assert values[:RECORDS] == expected, topic


def bad_input_of(cluster: Cluster, incarnation: int) -> list[TraceEvent]:
    return [
        event
        for event in live_traces(cluster, DAMAGED)
        if event.kind is EventKind.BAD_INPUT_MET and event.incarnation == incarnation
    ]


@pytest.mark.parametrize("stop", ["killed", "stopped cleanly"])
def test_damaged_partition_folders_are_repaired_and_their_records_fetched_again(
    brisk: Cluster, new_topic: Callable[..., str], tmp_path: Path, stop: str
) -> None:
    damages = DAMAGES | (AFTER_A_KILL if stop == "killed" else AFTER_A_CLEAN_STOP)
    topics = {new_topic(brisk): name for name in damages}
    write_records(brisk, list(topics))
    incarnation = brisk.snapshot(DAMAGED).incarnation
    if stop == "killed":
        brisk.kill(DAMAGED)
    else:
        assert brisk.terminate(DAMAGED) == 0
    files = BrokerFiles(brisk, DAMAGED)
    for topic, name in topics.items():
        damages[name](files, f"{topic}-0")
    await_deposed(brisk, list(topics))
    brisk.start_node(DAMAGED)

    assert_everything_is_back(brisk, list(topics), tmp_path)
    told = {
        event.detail["where"]: event.detail["what"]
        for event in bad_input_of(brisk, incarnation + 1)
    }
    for topic, name in topics.items():
        if name not in UNTRACED:
            assert f"{topic}-0" in told, f"{name}: {told}"
    assert brisk.snapshot(DAMAGED).incarnation == incarnation + 1, "it was started once"


CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
)
CHECKPOINT_DAMAGES: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "garbage": b"\xff\x00garbage\n",
    "cut short": b"0\n3\ntopic0 0 4",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("missing", "garbage") else pytest.mark.full)
        for name in CHECKPOINT_DAMAGES
    ],
)
def test_missing_or_corrupt_checkpoints_cost_no_record(
    brisk: Cluster, new_topic: Callable[..., str], tmp_path: Path, name: str
) -> None:
    topics = [new_topic(brisk), new_topic(brisk)]
    write_records(brisk, topics)
    incarnation = brisk.snapshot(DAMAGED).incarnation
    files = BrokerFiles(brisk, DAMAGED)
    eventually(
        lambda: "replication-offset-checkpoint" in files.names(),
        within=30,
        what="high watermarks are on the disk",
        state=files.names,
    )
    brisk.kill(DAMAGED)
    there = [path for path in (*CHECKPOINTS, "meta.properties") if path in files.names()]
    content = CHECKPOINT_DAMAGES[name]
    if content is None:
        files.remove(*there)
    else:
        for path in there:
            files.write(path, content)
    await_deposed(brisk, topics)
    brisk.start_node(DAMAGED)

    assert_everything_is_back(brisk, topics, tmp_path)
    if content is not None:
        told = {event.detail["where"] for event in bad_input_of(brisk, incarnation + 1)}
        assert set(there) - {"meta.properties"} <= told
    assert brisk.snapshot(DAMAGED).incarnation == incarnation + 1, "it was started once"


def test_all_brokers_with_damaged_checkpoints_keep_every_acknowledged_record(
    brisk: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(brisk)
    write_records(brisk, [topic])
    for broker in (0, 1, 2):
        assert brisk.terminate(broker) == 0
    for broker in (0, 1, 2):
        files = BrokerFiles(brisk, broker)
        for path in set(CHECKPOINTS) & set(files.names()):
            files.write(path, b"garbage")
        files.write(f"{topic}-0/leader-epoch-checkpoint", b"garbage")
        files.remove(f"{topic}-0/{FIRST_SEGMENT}.index")
    for broker in (0, 1, 2):
        brisk.start_node(broker)
    assert_everything_is_back(brisk, [topic], tmp_path)
    brisk.wait_until_ready()


def test_a_folder_of_another_broker_is_refused_and_said_so(
    brisk: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(brisk)
    write_records(brisk, [topic])
    assert brisk.terminate(DAMAGED) == 0
    files = BrokerFiles(brisk, DAMAGED)
    sound = files.read("meta.properties")
    others = b"version=0\nbroker.id=9\n" + sound.splitlines(keepends=True)[2]
    files.write("meta.properties", others)
    brisk.start_node(DAMAGED)
    eventually(lambda: brisk.exit_code(DAMAGED) is not None, within=60, what="the broker gives up")
    assert brisk.exit_code(DAMAGED) == 1
    assert "the node cannot start" in brisk.logs(DAMAGED, tail=20)
    assert "'broker.id': '9'" in brisk.logs(DAMAGED, tail=20)
    files.write("meta.properties", sound)
    brisk.start_node(DAMAGED)
    assert_everything_is_back(brisk, [topic], tmp_path)
