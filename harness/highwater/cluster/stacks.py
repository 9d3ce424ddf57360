"""Asks the processes of a cluster's nodes where their threads and tasks are, for one that hangs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from requests.exceptions import RequestException

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import NodeKind
from highwater.errors import HarnessError
from highwater.waiting import NeverHappened, eventually
from highwater_core.ids import NodeId
from highwater_core.stacks import STACKS_END, STACKS_SIGNAL

STACKS = "stacks.txt"
"""In a run's folder: the stacks of all nodes."""
TOLD_WITHIN_S = 5.0
_BEGIN = "most recent call first"
_OF_JVM = ("QUIT", "Full thread dump", "JNI global refs")
_OF_NODE = (STACKS_SIGNAL, _BEGIN, STACKS_END)
"""The signal, and words in the first and the last lines of the answer."""
_BITS = {"QUIT": 1 << 2, "USR1": 1 << 9}
_NONE_WAITS = 3
_ASK = """
asked={none}
for status in /proc/[0-9]*/status; do
    while read -r name value; do
        case $name in
            Pid:) pid=$value ;;
            SigCgt:) [ $((0x${{value#????????}} & {bit})) -ne 0 ] \
                && kill -s {signal} "$pid" && asked=0 ;;
        esac
    done < "$status"
done 2> /dev/null
exit $asked
"""
"""Signals the processes that wait for the signal, which ends any other. Source: proc(5), SigCgt."""


class NoStacks(HarnessError):
    """The node cannot tell its stacks; the message says why."""


def stacks_of(cluster: Cluster, node: NodeId, *, within_s: float | None = None) -> str:
    """Return the stacks of the node's process, which stay in its log as well.

    A node writes those of its threads and of its tasks, ZooKeeper's JVM those of its threads. If
    the last line does not come in time, what came is returned.

    within_s: default TOLD_WITHIN_S.

    Raises:
        NoStacks: the node does not run, is frozen or stopped, has just begun to start, or the
            engine refused.
    """
    spec = cluster.topology.node(node)
    signal, begin, end = _OF_JVM if spec.kind is NodeKind.ZOOKEEPER else _OF_NODE
    within_s = TOLD_WITHIN_S if within_s is None else within_s
    try:
        status = cluster.status(node)
        if status != "running":
            raise NoStacks(f"{spec.name} is {status}: it tells no stacks")
        before = len(cluster.logs(node))
        _ask(cluster, node, signal)
        told = _await_told(cluster, node, before, end, within_s)
    except RequestException as error:  # an APIError is one
        raise NoStacks(f"{spec.name}: the engine refused: {error}") from error
    if begin not in told:
        raise NoStacks(f"{spec.name} tells no stacks within {within_s:g} s: is it stopped?")
    return told


def all_stacks(cluster: Cluster) -> str:
    """Return the stacks of every node below its name, or why there are none; ZooKeeper's last."""
    nodes = [*cluster.topology.nodes()]
    nodes.sort(key=lambda spec: spec.kind is NodeKind.ZOOKEEPER)

    def told(node: NodeId) -> str:
        try:
            return stacks_of(cluster, node).rstrip()
        except HarnessError as error:
            return f"({error})"

    with ThreadPoolExecutor(len(nodes), thread_name_prefix="stacks") as pool:
        texts = pool.map(told, [spec.node_id for spec in nodes])
        return "".join(
            f"--- {spec.name}\n{text}\n" for spec, text in zip(nodes, texts, strict=True)
        )


def write_stacks(cluster: Cluster, folder: Path) -> Path:
    """Write the stacks of all nodes to the run's folder, and return the file's path."""
    path = folder / STACKS
    path.write_text(all_stacks(cluster), encoding="utf-8")
    return path


def script_of(signal: str) -> str:
    """Return the shell's program that sends the signal to the processes that wait for it.

    Its exit code is 0 if there was one, and _NONE_WAITS if not.
    """
    return _ASK.format(none=_NONE_WAITS, bit=_BITS[signal], signal=signal)


def _ask(cluster: Cluster, node: NodeId, signal: str) -> None:
    api = cluster.engine.api
    command = ["sh", "-c", script_of(signal)]
    made = api.exec_create(cluster.container_name(node), command)["Id"]
    said = api.exec_start(made)
    code = api.exec_inspect(made)["ExitCode"]
    name = cluster.topology.node(node).name
    if code == _NONE_WAITS:
        raise NoStacks(f"{name} has no process that tells its stacks: it starts, or is older")
    if code != 0:
        raise NoStacks(f"{name}: asking for its stacks ended with {code}: {said!r}")


def _await_told(cluster: Cluster, node: NodeId, before: int, end: str, within_s: float) -> str:
    """Return what the node's log has beyond that length, once its end is there or time is over."""
    told = ""

    def is_whole() -> bool:
        nonlocal told
        told = cluster.logs(node)[before:]
        return end in told

    try:
        eventually(is_whole, within=within_s, what="the node tells its stacks")
    except NeverHappened:
        return told
    return told
