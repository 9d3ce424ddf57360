"""What containers do of a plan's faults and how, and what they cannot do and why. Tables, no I/O.

REASONS has every kind that containers cannot do; the other three have every kind that they can.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_chaos import faults as f

_HELD = (
    "the kernel's timeout: at its time, or 30 s after it was last renewed; should the helper die "
    "before, its rule goes with it and packets pass"
)
_FROM_OTHERS = "; on the clients' plane those of the other nodes show it, to the same port"
REASONS: Mapping[type[f.Fault], str] = {
    f.PowerLoss: "what a container wrote is in the page cache of its host, which lives on; "
    "there is no lazyfs to lose it",
    f.LoseZooKeeperReply: "a reply is told from a ping by its content, which rules do not read",
    f.DiskErrors: "no file system between a node and its volume refuses operations",
    f.SlowDisk: "no file system between a node and its volume slows operations down",
    f.ClockJump: "containers share their host's wall clock",
    f.ClockRate: "containers share their host's clocks",
    f.ChangeConfig: "brokers serve no AlterConfigs yet, by which an operator would do it",
    f.StrangeRequests: "the suite and python -m bench.hostile have such clients, of their own",
}
"""Why containers cannot do it."""

MECHANISMS: Mapping[type[f.Fault], str] = {
    f.Kill: "SIGKILL by the engine; for an empty disk a helper empties the volume's data folder",
    f.Terminate: "SIGTERM by the engine, SIGKILL if that is not heard",
    f.Pause: "the engine's freezer (cgroups); by sigstop: SIGSTOP to every process but the init, "
    "by one of ours that the engine starts in the container",
    f.CrashLoop: "SIGKILL and start by the engine, again and again, by the harness's clock",
    f.FlipBit: "as kill; then a helper on the volume flips it, in a file and at a place drawn at "
    "random among the kind's",
    f.DiskFull: "a ballast file on a volume in memory of 64 MiB, by a helper; the brokers of a "
    "plan that fills a disk have such volumes for their data alone",
    f.KillClient: "SIGKILL of the clients' process, which all clients of a run share",
    f.CrashAt: "SetFailPoint over the node's control port, and a file on its volume for starts",
    f.DelayAt: "SetFailPoint over the node's control port, and a file on its volume for starts",
    f.Isolate: "nft drops all that arrives from the other nodes, at both ends, and the clients' "
    "plane with the harness's machine; without helpers the engine takes it off the network",
    f.ResetConnections: "the kernel destroys the connections at one end (sock_diag), by a helper "
    "in the network namespace",
    f.HalfOpen: "as reset_connections, at the target, where nft drops the resets of these "
    "connections for 30 s; not on the clients' plane",
    f.ExpireSession: "another connection takes the session over and closes it",
    f.LoseZooKeeperConnection: "as reset_connections, at the node's end",
    f.PauseZooKeeper: "the engine's freezer (cgroups)",
    f.RestartZooKeeper: "the engine kills ZooKeeper's container, and starts it on the same data",
    f.CreateTopic: "CreateTopics to whichever broker answers, then Produce to the leader",
    f.DeleteTopic: "DeleteTopics to whichever broker answers",
    f.Cut: "nft drops what arrives from the address, by the plane's port, in the receiver's "
    "network namespace",
    f.LossyLink: "as cut, a share at random (numgen)",
    f.SlowLink: "nft marks what arrives from the address, by the plane's port; the kernel's queue "
    "hands it to a helper in the receiver's network namespace (NFQUEUE with bypass), which holds "
    "it back, in its order",
    f.LimitBandwidth: "as slow_link; the helper lets packets go at that pace, counted as IP, and "
    "drops what would wait for more than 250 ms",
    f.SlowZooKeeper: "as slow_link, what comes from ZooKeeper at each node",
}
"""What does it."""

PROOFS: Mapping[type[f.Fault], str] = {
    f.Kill: "the exit code is 137; of an emptied disk the listing is empty",
    f.Terminate: "the exit code, which is recorded",
    f.Pause: "the engine says paused; by sigstop: every process but the init is in state T",
    f.CrashLoop: "the exit code is 137, each time; how often it was is told at the end",
    f.FlipBit: "the exit code is 137, and the file's digest before and after",
    f.DiskFull: "a page more meets ENOSPC; afterwards one is written; and how often the node's "
    "trace tells of it",
    f.KillClient: "the process ended by signal 9, and how its histories end",
    f.CrashAt: "the node's answer that it is armed; hit: exit code 137 and the trace's last event",
    f.DelayAt: "the node's answer that it is armed; hit: fail_point_hit in the node's trace",
    f.Isolate: "UDP canaries from and to each node, and a client that a broker answers before, not "
    "during, and again after; without helpers the control port does not answer",
    f.ResetConnections: "the connections are no more in the kernel's list, at both ends",
    f.HalfOpen: "the connections are no more in the target's kernel's list, and established in the "
    "source's",
    f.ExpireSession: "ZooKeeper lists neither the session nor its ephemeral znodes",
    f.LoseZooKeeperConnection: "the connection is no more in the kernel's list, at both ends",
    f.PauseZooKeeper: "the engine says paused, and no answer; then one, and how many sessions are "
    "there",
    f.RestartZooKeeper: "its exit code and no answer; then one, and how many sessions are there",
    f.CreateTopic: "the broker's answer; if it came too late, the topic's znode",
    f.DeleteTopic: "the broker's answer; if it came too late, the znodes",
    f.Cut: "UDP canaries on each direction between nodes: all arrive before, none during, all "
    "after; on the clients' plane a client too that brokers answer before, not during, and again "
    "after",
    f.LossyLink: "UDP canaries on each direction: the share that is lost, within four sigma"
    + _FROM_OTHERS,
    f.SlowLink: "UDP canaries on each direction: none arrives earlier, the median at most 50 ms "
    "later than asked; none is late before and after" + _FROM_OTHERS,
    f.LimitBandwidth: "UDP canaries of twice the bandwidth: they arrive at 50 to 110 % of it, for "
    "the nodes' packets share it; all arrive before and after" + _FROM_OTHERS,
    f.SlowZooKeeper: "as slow_link",
}
"""How it is seen to act."""

ENDS: Mapping[type[f.Fault], str] = {
    f.Kill: "never: the node stays down until it is started",
    f.Terminate: "never: the node stays down until it is started",
    f.Pause: "never: highwater heal, or the reaper with the whole run",
    f.CrashLoop: "the harness's end is its end; a node that is down stays down until it is started",
    f.FlipBit: "never: what flipped stays, and the node is down until it is started",
    f.DiskFull: "never: highwater heal, or the reaper with the whole run",
    f.KillClient: "the clients end with the harness",
    f.CrashAt: "at its hit, or with the node's incarnation; a node that died there stays down",
    f.DelayAt: "after its count of hits, or with the node's incarnation",
    f.Isolate: "the kernel's timeout: at its time, or 30 s after it was last renewed; without "
    "helpers never",
    f.ResetConnections: "at once: the nodes connect again",
    f.HalfOpen: "the kernel's timeout after 30 s; then the source is told when it sends",
    f.ExpireSession: "at once: the node opens another session",
    f.LoseZooKeeperConnection: "at once: the node connects again within its session",
    f.PauseZooKeeper: "never: highwater heal, or the reaper with the whole run",
    f.RestartZooKeeper: "never: highwater heal, or the reaper with the whole run",
    f.CreateTopic: "never: what an operator did stays",
    f.DeleteTopic: "never: what an operator did stays",
    f.Cut: "the kernel's timeout: at its time, or 30 s after it was last renewed",
    f.LossyLink: "the kernel's timeout: at its time, or 30 s after it was last renewed",
    f.SlowLink: _HELD,
    f.LimitBandwidth: _HELD,
    f.SlowZooKeeper: _HELD,
}
"""What ends it if the harness dies."""
