"""One fault of every kind that containers can do, for what tries or measures them all. A table.

They are for a cluster of three brokers and a controller that has no topics: nodes go by their
names, and no example waits for anybody's work to act. Each lasts until it is taken back. For the
full disk the cluster is brought up with sized disks.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_chaos import faults as f
from highwater_core.fail_points import FailPoint

TOPIC = f.CreateTopic("kept", records=3)

EXAMPLES: tuple[f.Fault, ...] = (
    f.Kill("broker-1"),
    f.Kill("broker-1", disk=f.DiskAtStart.EMPTY),
    f.Terminate("broker-1"),
    f.Pause("broker-1"),
    f.Pause("broker-1", by=f.PauseBy.SIGSTOP),
    f.CrashLoop("broker-1", times=3, every_ms=100),
    f.DiskFull("broker-1"),
    f.FlipBit("broker-1", f.FileKind.LOG),
    f.CrashAt("broker-1", FailPoint.BEFORE_TRUNCATION),
    f.DelayAt("broker-1", FailPoint.BEFORE_TRUNCATION, delay_ms=100),
    f.Cut("broker-0", "broker-1", "replication"),
    f.Isolate("broker-1"),
    f.LossyLink("broker-0", "broker-1", "replication", loss_percent=50),
    f.SlowLink("broker-0", "broker-1", "replication", latency_ms=100, jitter_ms=20),
    f.LimitBandwidth("broker-0", "broker-1", "replication", kbit_per_s=500),
    f.ResetConnections("broker-1", "zookeeper", "zookeeper"),
    f.HalfOpen("broker-1", "zookeeper", "zookeeper"),
    f.ExpireSession("broker-1"),
    f.LoseZooKeeperConnection("broker-1"),
    f.SlowZooKeeper(delay_ms=50),
    f.PauseZooKeeper(),
    f.RestartZooKeeper(),
    f.CreateTopic("example", records=3),
    f.DeleteTopic("example"),
)

WITHOUT_EXAMPLE: Mapping[type[f.Fault], str] = {
    f.KillClient: "clients belong to the run of a plan",
}
"""Why such a cluster is not enough for the kind."""


def example_name(fault: f.Fault) -> str:
    """Return the example's kind, with what tells it from others of the kind."""
    is_emptied = isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY
    is_stopped = isinstance(fault, f.Pause) and fault.by is f.PauseBy.SIGSTOP
    return f.fault_name(fault) + "_and_empty" * is_emptied + "_by_sigstop" * is_stopped
