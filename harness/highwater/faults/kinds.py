"""How containers do each kind of fault, or why they cannot. One row a kind.

A new kind is a class in highwater_chaos.faults, one row here, and the function that does it, in one
of the rooms. docs/reference/faults.md, `highwater faults` and the bench of faults read the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.faults.done import Done, Find, found
from highwater.faults.kind import Kind, Rooms, unsupported
from highwater.faults.links.of_cluster import CLIENTS_UNSEEN
from highwater.faults.means import Means
from highwater.faults.processes.clients import ONE_PROCESS, kill_clients
from highwater.faults.processes.clocks import LEAST_JUMP_MS, TOLERANCE_MS, TOO_SMALL
from highwater_chaos import faults as f
from highwater_core.fail_points import FailPoint


def _isolate(rooms: Rooms, name: str, fault: f.Isolate, find: Find) -> Done:
    if rooms.links.is_ready:
        return rooms.links.isolate(name, fault, find)
    return rooms.nodes.isolate(fault, find)


# ---------------------------------------------------------------- words that several kinds share

_STAYS_DOWN = "never: the node stays down until it is started"
_UNTIL_HEALED = "never: highwater heal, or the reaper with the whole run"
_STAYS = "never: what an operator did stays"
_TIMEOUT = "the kernel's timeout: at its time, or 30 s after it was last renewed"
_HELD = f"{_TIMEOUT}; if the helper dies before, its rule goes with it and packets pass"
_FROM_OTHERS = "; on the clients' plane the other nodes send canaries, to the same port"
_FAULTY = "a file system of ours over the broker's folder, in its own container (FUSE)"
_POINT = "SetFailPoint over the node's control port, and a file on its volume for starts"

# Only the last table is annotated, so that each row is checked against its own class of faults.
_PROCESSES = (
    Kind(
        fault=f.Kill,
        do=lambda rooms, name, fault, find: rooms.nodes.kill(fault, find),
        needs=(Means.ENGINE,),
        mechanism="SIGKILL by the engine; for an empty disk a helper empties the volume's data "
        "folder",
        proof="the exit code is 137; of an emptied disk the listing is empty",
        ends=_STAYS_DOWN,
        examples=(f.Kill("broker-1"), f.Kill("broker-1", disk=f.DiskAtStart.EMPTY)),
    ),
    Kind(
        fault=f.Terminate,
        do=lambda rooms, name, fault, find: rooms.nodes.terminate(fault, find),
        needs=(Means.ENGINE,),
        mechanism="SIGTERM by the engine, SIGKILL if the node does not end",
        proof="the exit code, which is recorded",
        ends=_STAYS_DOWN,
        examples=(f.Terminate("broker-1"),),
    ),
    Kind(
        fault=f.Upgrade,
        do=lambda rooms, name, fault, find: rooms.nodes.upgrade(fault, find),
        needs=(Means.ENGINE,),
        mechanism="as terminate; then the engine removes the container, and makes one of the image "
        "on the same volume, with the same name, address and ports",
        proof="the engine runs the image, and the node answers in its next incarnation with the "
        "preset, and with the build that its image names; images of older versions name none",
        ends=_STAYS,
        no_example="the node has another container afterwards",
    ),
    Kind(
        fault=f.Pause,
        do=lambda rooms, name, fault, find: rooms.nodes.pause(fault, find),
        needs=(Means.FREEZER,),
        mechanism="the engine's freezer (cgroups); by sigstop: SIGSTOP to every process but the "
        "init, by one of ours that the engine starts in the container",
        proof="the engine says paused; by sigstop: every process but the init is in state T",
        ends=_UNTIL_HEALED,
        examples=(f.Pause("broker-1"), f.Pause("broker-1", by=f.PauseBy.SIGSTOP)),
    ),
    Kind(
        fault=f.CrashLoop,
        do=lambda rooms, name, fault, find: rooms.nodes.crash_again_and_again(fault, find),
        needs=(Means.ENGINE,),
        mechanism="SIGKILL and start by the engine, again and again, by the harness's clock",
        proof="the exit code is 137, each time; the number of kills is reported at the end",
        ends="it ends with the harness; a node that is down stays down until it is started",
        examples=(f.CrashLoop("broker-1", times=3, every_ms=100),),
    ),
    Kind(
        fault=f.PowerLoss,
        do=lambda rooms, name, fault, find: rooms.nodes.lose_power(fault, find),
        needs=(Means.ENGINE, Means.FAULTY_DISKS),
        mechanism=f"as kill; {_FAULTY}, which keeps what was synced beside the folder; then a "
        "helper leaves that, and a drawn part of the bytes that were not synced",
        proof="the exit code is 137; the bytes and files that were lost",
        ends="never: what was lost stays so, and the node is down until it is started",
        examples=(f.PowerLoss("broker-1"),),
    ),
    Kind(
        fault=f.CrashAt,
        do=lambda rooms, name, fault, find: rooms.points.arm(fault, found(find, fault.node)),
        needs=(Means.ENGINE,),
        mechanism=_POINT,
        proof="the node's answer that it is armed; hit: exit code 137 and the trace's last event",
        ends="at its hit, or with the node's incarnation; a node that died there stays down",
        examples=(f.CrashAt("broker-1", FailPoint.BEFORE_TRUNCATION),),
    ),
    Kind(
        fault=f.DelayAt,
        do=lambda rooms, name, fault, find: rooms.points.arm(fault, found(find, fault.node)),
        needs=(Means.ENGINE,),
        mechanism=_POINT,
        proof="the node's answer that it is armed; hit: fail_point_hit in the node's trace",
        ends="after its count of hits, or with the node's incarnation",
        examples=(f.DelayAt("broker-1", FailPoint.BEFORE_TRUNCATION, delay_ms=100),),
    ),
    Kind(
        fault=f.KillClient,
        do=lambda rooms, name, fault, find: kill_clients(rooms.clients, fault),
        needs=(Means.ENGINE,),
        mechanism="SIGKILL of the clients' process, which all clients of a run share",
        proof="the process ended by signal 9, and how its histories end",
        ends="the clients end with the harness",
        no_example="clients belong to the run of a plan",
        refuses=lambda fault: "" if fault.client == f.ANY else ONE_PROCESS,
    ),
)

_LINKS = (
    Kind(
        fault=f.Cut,
        do=lambda rooms, name, fault, find: rooms.links.cut(name, fault, find),
        needs=(Means.TIMED_DROPS,),
        mechanism="nft drops packets that arrive from the address, by the plane's port, in the "
        "receiver's network namespace",
        proof="UDP canaries on each direction between nodes: all arrive before, none during, all "
        "after; on the clients' plane also a client, which brokers answer before, not during, and "
        "again after",
        ends=_TIMEOUT,
        examples=(f.Cut("broker-0", "broker-1", "replication"),),
        has_lead=True,
    ),
    Kind(
        fault=f.Isolate,
        do=_isolate,
        needs=(Means.ENGINE,),
        better_with=(Means.TIMED_DROPS,),
        mechanism="nft drops all packets between the node and the other nodes, and those of the "
        "clients' plane; without helpers the engine takes the node off the network",
        proof="UDP canaries from and to each node, and a client that a broker answers before, not "
        "during, and again after; without helpers the control port does not answer",
        ends=f"{_TIMEOUT}; without helpers never",
        examples=(f.Isolate("broker-1"),),
        has_lead=True,
    ),
    Kind(
        fault=f.LossyLink,
        do=lambda rooms, name, fault, find: rooms.links.lose(name, fault, find),
        needs=(Means.TIMED_DROPS, Means.SHARES),
        mechanism="as cut, but nft drops a random share (numgen)",
        proof="UDP canaries on each direction: the share that is lost, within four sigma"
        + _FROM_OTHERS,
        ends=_TIMEOUT,
        examples=(f.LossyLink("broker-0", "broker-1", "replication", loss_percent=50),),
        has_lead=True,
    ),
    Kind(
        fault=f.SlowLink,
        do=lambda rooms, name, fault, find: rooms.links.slow(name, fault, find),
        needs=(Means.QUEUE,),
        mechanism="nft marks packets that arrive from the address, by the plane's port; the "
        "kernel's queue hands them to a helper in the receiver's network namespace (NFQUEUE with "
        "bypass), "
        "which holds packets back, in their order",
        proof="UDP canaries on each direction: none arrives earlier, the median at most 50 ms "
        "later than asked; none is late before and after" + _FROM_OTHERS,
        ends=_HELD,
        examples=(f.SlowLink("broker-0", "broker-1", "replication", latency_ms=100, jitter_ms=20),),
        has_lead=True,
    ),
    Kind(
        fault=f.LimitBandwidth,
        do=lambda rooms, name, fault, find: rooms.links.narrow(name, fault, find),
        needs=(Means.QUEUE,),
        mechanism="as slow_link; the helper lets packets go at the bandwidth, counted as IP, and "
        "drops packets that would wait for more than 250 ms",
        proof="UDP canaries of twice the bandwidth: they arrive at 50 to 110 % of it, for "
        "the nodes' packets share it; all arrive before and after" + _FROM_OTHERS,
        ends=_HELD,
        examples=(f.LimitBandwidth("broker-0", "broker-1", "replication", kbit_per_s=500),),
        has_lead=True,
    ),
    Kind(
        fault=f.ResetConnections,
        do=lambda rooms, name, fault, find: rooms.links.reset(fault, find),
        needs=(Means.RESETS,),
        mechanism="the kernel destroys the connections at one end (sock_diag), by a helper "
        "in the network namespace",
        proof="the connections are gone from the kernels' lists, at both ends",
        ends="at once: the nodes connect again",
        examples=(f.ResetConnections("broker-1", "zookeeper", "zookeeper"),),
    ),
    Kind(
        fault=f.HalfOpen,
        do=lambda rooms, name, fault, find: rooms.links.half_open(fault, find),
        needs=(Means.RESETS, Means.TIMED_DROPS),
        mechanism="as reset_connections, at the target, where nft drops the resets of these "
        "connections for 30 s; not on the clients' plane",
        proof="the connections are gone from the target's list in the kernel, and established in "
        "the source's",
        ends="the kernel's timeout after 30 s; then the source gets a reset when it sends",
        examples=(f.HalfOpen("broker-1", "zookeeper", "zookeeper"),),
        refuses=lambda fault: CLIENTS_UNSEEN if fault.plane == "client" else "",
    ),
)

_ZOOKEEPER = (
    Kind(
        fault=f.ExpireSession,
        do=lambda rooms, name, fault, find: rooms.sessions.expire(found(find, fault.node)),
        needs=(Means.ENGINE,),
        mechanism="another connection takes the session over and closes it",
        proof="ZooKeeper lists neither the session nor its ephemeral znodes",
        ends="at once: the node opens another session",
        examples=(f.ExpireSession("broker-1"),),
    ),
    Kind(
        fault=f.LoseZooKeeperConnection,
        do=lambda rooms, name, fault, find: rooms.links.lose_zookeeper_connection(fault, find),
        needs=(Means.RESETS,),
        mechanism="as reset_connections, at the node's end",
        proof="the connection is gone from the kernels' lists, at both ends",
        ends="at once: the node connects again within its session",
        examples=(f.LoseZooKeeperConnection("broker-1"),),
    ),
    unsupported(
        f.LoseZooKeeperReply,
        "only its content tells a reply from a ping, and rules do not read content",
    ),
    Kind(
        fault=f.SlowZooKeeper,
        do=lambda rooms, name, fault, find: rooms.links.slow_zookeeper(name, fault),
        needs=(Means.QUEUE,),
        mechanism="as slow_link, for packets from ZooKeeper, at each node",
        proof="as slow_link",
        ends=_HELD,
        examples=(f.SlowZooKeeper(delay_ms=50),),
        has_lead=True,
    ),
    Kind(
        fault=f.PauseZooKeeper,
        do=lambda rooms, name, fault, find: rooms.zookeeper.pause(),
        needs=(Means.ENGINE,),
        mechanism="the engine's freezer (cgroups)",
        proof="the engine says paused, and ZooKeeper does not answer; afterwards it answers, and "
        "how many sessions it kept is reported",
        ends=_UNTIL_HEALED,
        examples=(f.PauseZooKeeper(),),
    ),
    Kind(
        fault=f.RestartZooKeeper,
        do=lambda rooms, name, fault, find: rooms.zookeeper.stop(),
        needs=(Means.ENGINE,),
        mechanism="the engine kills ZooKeeper's container, and starts it on the same data",
        proof="its exit code, and ZooKeeper does not answer; afterwards it answers, and how many "
        "sessions it kept is reported",
        ends=_UNTIL_HEALED,
        examples=(f.RestartZooKeeper(),),
    ),
)

_DISKS_AND_CLOCKS = (
    Kind(
        fault=f.DiskFull,
        do=lambda rooms, name, fault, find: rooms.disks.fill(found(find, fault.node)),
        needs=(Means.SIZED_DISKS,),
        mechanism="a ballast file on a volume in memory of 64 MiB, by a helper; the brokers of a "
        "plan that fills a disk have such volumes for their data alone",
        proof="writing one more page fails with ENOSPC, and succeeds afterwards; how often the "
        "node's trace reports a full disk is added",
        ends=_UNTIL_HEALED,
        examples=(f.DiskFull("broker-1"),),
    ),
    Kind(
        fault=f.DiskErrors,
        do=lambda rooms, name, fault, find: rooms.faulty_disks.refuse(
            found(find, fault.node), fault.operation, fault.percent, fault.within
        ),
        needs=(Means.FAULTY_DISKS,),
        mechanism=f"{_FAULTY}, which answers EIO; bytes of a refused sync are taken for synced, "
        "and are not (fsyncgate), of a refused append a part is written; "
        "afterwards a broker whose log folder failed is started again",
        proof="the file system answers the orders, and a probe on the mount gets EIO; how many "
        "operations were refused since is added; of chosen files the broker must have met it",
        ends=_UNTIL_HEALED,
        examples=(f.DiskErrors("broker-1", f.DiskOperation.SYNC),),
    ),
    Kind(
        fault=f.FailFolder,
        do=lambda rooms, name, fault, find: rooms.nodes.fail_folder(fault, find),
        needs=(Means.ENGINE,),
        mechanism="a helper on the volume takes all rights from the folder: the broker can open "
        "nothing there (EACCES), and goes on with what it has open; then kill and start",
        proof="the engine sees the mode 000; it acts once the broker's trace has log_folder_failed",
        ends=_UNTIL_HEALED,
        no_example="its broker meets it with the next checkpoint of something new",
    ),
    Kind(
        fault=f.SlowDisk,
        do=lambda rooms, name, fault, find: rooms.faulty_disks.slow(
            found(find, fault.node), fault.delay_ms
        ),
        needs=(Means.FAULTY_DISKS,),
        mechanism=f"{_FAULTY}, which answers syncs later, each of its own",
        proof="the file system answers the orders, and a probe's sync takes so long; how many "
        "syncs were delayed since is added",
        ends=_UNTIL_HEALED,
        examples=(f.SlowDisk("broker-1", delay_ms=200),),
    ),
    Kind(
        fault=f.FlipBit,
        do=lambda rooms, name, fault, find: rooms.nodes.flip_bit(fault, find),
        needs=(Means.ENGINE,),
        mechanism="as kill; then a helper on the volume flips a bit at a random place of a random "
        "file of the kind",
        proof="the exit code is 137, and the file's digest before and after",
        ends="never: what flipped stays, and the node is down until it is started",
        examples=(f.FlipBit("broker-1", f.FileKind.LOG),),
    ),
    Kind(
        fault=f.ClockJump,
        do=lambda rooms, name, fault, find: rooms.clocks.jump(found(find, fault.node), fault.by_ms),
        needs=(Means.ENGINE, Means.MOVABLE_CLOCKS),
        mechanism="a library in the node's process (libfaketime), which reads from a file on the "
        "node's volume how far its wall clock is moved; timeouts go by the machine's clock",
        proof="the node's own reading of its clock, beside the machine's, within "
        f"{TOLERANCE_MS} ms",
        ends=_UNTIL_HEALED,
        examples=(f.ClockJump("broker-1", -3_600_000),),
        refuses=lambda fault: "" if abs(fault.by_ms) >= LEAST_JUMP_MS else TOO_SMALL,
    ),
    unsupported(f.ClockRate, "containers share their host's timers"),
)

_OPERATORS_AND_STRANGERS = (
    Kind(
        fault=f.CreateTopic,
        do=lambda rooms, name, fault, find: rooms.topics.create(fault),
        needs=(Means.ENGINE,),
        mechanism="CreateTopics to whichever broker answers, then Produce to the leader",
        proof="the broker's answer; if it came too late, the topic's znode",
        ends=_STAYS,
        examples=(f.CreateTopic("example", records=3),),
    ),
    Kind(
        fault=f.ExpandTopic,
        do=lambda rooms, name, fault, find: rooms.topics.expand(fault),
        needs=(Means.ENGINE,),
        mechanism="CreatePartitions to whichever broker answers",
        proof="the broker's answer, which comes once the added partitions are led; if it came too "
        "late, the topic's znode",
        ends=_STAYS,
        examples=(f.ExpandTopic("kept", 2),),
    ),
    Kind(
        fault=f.DeleteTopic,
        do=lambda rooms, name, fault, find: rooms.topics.delete(fault),
        needs=(Means.ENGINE,),
        mechanism="DeleteTopics to whichever broker answers",
        proof="the broker's answer; if it came too late, the znodes",
        ends=_STAYS,
        examples=(f.DeleteTopic("example"),),
    ),
    Kind(
        fault=f.MoveReplicas,
        do=lambda rooms, name, fault, find: rooms.topics.move(fault),
        needs=(Means.ENGINE,),
        mechanism="AlterPartitionReassignments to whichever broker answers",
        proof="the broker's answer",
        ends=_STAYS,
        examples=(f.MoveReplicas("kept", (1, 2)),),
    ),
    Kind(
        fault=f.GiveUpMoving,
        do=lambda rooms, name, fault, find: rooms.topics.give_up_moving(fault),
        needs=(Means.ENGINE,),
        mechanism="AlterPartitionReassignments without a target, to whichever broker answers",
        proof="the broker's answer, which may be that no replica is being moved",
        ends=_STAYS,
        examples=(f.GiveUpMoving("kept"),),
    ),
    Kind(
        fault=f.ElectPreferred,
        do=lambda rooms, name, fault, find: rooms.topics.elect_preferred(fault),
        needs=(Means.ENGINE,),
        mechanism="ElectLeaders to whichever broker answers",
        proof="the broker's answer, which may be that the preferred replica already leads",
        ends=_STAYS,
        examples=(f.ElectPreferred("kept"),),
    ),
    Kind(
        fault=f.ChangeConfig,
        do=lambda rooms, name, fault, find: rooms.topics.change_config(fault),
        needs=(Means.ENGINE,),
        mechanism="IncrementalAlterConfigs to whichever broker answers",
        proof="the broker's answer",
        ends=_STAYS,
        examples=(f.ChangeConfig("kept", "min.insync.replicas", "2"),),
    ),
    Kind(
        fault=f.ThrottleReplication,
        do=lambda rooms, name, fault, find: rooms.topics.throttle(fault),
        needs=(Means.ENGINE,),
        mechanism="IncrementalAlterConfigs of the topic and of every broker",
        proof="the broker's answer",
        ends=_STAYS,
        examples=(f.ThrottleReplication("kept", 1_000_000),),
    ),
    Kind(
        fault=f.ChangeFetchers,
        do=lambda rooms, name, fault, find: rooms.topics.change_fetchers(fault),
        needs=(Means.ENGINE,),
        mechanism="IncrementalAlterConfigs of every broker",
        proof="the broker's answer",
        ends=_STAYS,
        examples=(f.ChangeFetchers(2),),
    ),
    unsupported(
        f.StrangeRequests,
        "the suite and python -m bench.hostile have such clients, of their own",
    ),
)

ROWS: tuple[Kind[Any], ...] = (
    *_PROCESSES,
    *_LINKS,
    *_ZOOKEEPER,
    *_DISKS_AND_CLOCKS,
    *_OPERATORS_AND_STRANGERS,
)
KINDS: Mapping[type[f.Fault], Kind[Any]] = {row.fault: row for row in ROWS}
