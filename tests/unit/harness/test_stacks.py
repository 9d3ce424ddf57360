"""A node is asked for its stacks by a signal that only a process that waits for it gets."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster import stacks
from highwater.cluster.stacks import NoStacks, all_stacks, stacks_of
from highwater.cluster.topology import NodeKind
from highwater_core.ids import NodeId
from highwater_core.stacks import STACKS_END

TOLD = f"Current thread 0x1 (most recent call first):\n  File 1\n{STACKS_END}\n"


class OneNode:
    """Stands for a cluster of one broker, whose log has so much more once it was asked."""

    def __init__(self, status: str = "running", told: str = TOLD, exit_code: int = 0) -> None:
        spec = SimpleNamespace(name="broker-0", node_id=NodeId(0), kind=NodeKind.BROKER)
        self.topology = SimpleNamespace(node=lambda node: spec, nodes=lambda: [spec])
        self.engine = SimpleNamespace(api=self)
        self._status, self._told, self._exit_code = status, told, exit_code
        self._log = "an older line, the end of the stacks\n"

    def status(self, node: int) -> str:
        return self._status

    def logs(self, node: int) -> str:
        return self._log

    def container_name(self, node: int) -> str:
        return "container"

    def exec_create(self, name: str, command: list[str]) -> dict[str, str]:
        return {"Id": name}

    def exec_start(self, made: str) -> bytes:
        self._log += self._told
        return b"no such shell"

    def exec_inspect(self, made: str) -> dict[str, int]:
        return {"ExitCode": self._exit_code}


def test_the_answer_is_what_the_log_has_more() -> None:
    cluster: Any = OneNode()
    assert stacks_of(cluster, NodeId(0)) == TOLD
    assert all_stacks(cluster) == f"--- broker-0\n{TOLD}"


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (OneNode("paused"), "broker-0 is paused: it tells no stacks"),
        (OneNode("exited"), "broker-0 is exited: it tells no stacks"),
        (OneNode(told="a line\n"), "broker-0 tells no stacks within 0.01 s: is it stopped?"),
        (OneNode(exit_code=3), "broker-0 has no process that tells its stacks: it starts, or is"),
        (OneNode(exit_code=127), "ended with 127: b'no such shell'"),
    ],
)
def test_a_node_that_tells_none_is_told_with_the_reason(
    node: OneNode, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = node
    with pytest.raises(NoStacks, match=why.replace("?", r"\?")):
        stacks_of(cluster, NodeId(0), within_s=0.01)
    monkeypatch.setattr(stacks, "TOLD_WITHIN_S", 0.01)
    assert all_stacks(cluster).startswith("--- broker-0\n(broker-0")


def test_an_answer_without_its_end_is_better_than_none() -> None:
    """The main thread of a node is in one call of C code: its threads are told, its tasks not."""
    cluster: Any = OneNode(told="Thread 0x2 (most recent call first):\n")
    assert stacks_of(cluster, NodeId(0), within_s=0.01) == "Thread 0x2 (most recent call first):\n"


@pytest.mark.parametrize(("is_waited_for", "asked"), [(True, True), (False, False)])
def test_the_signal_goes_only_to_a_process_that_waits_for_it(
    is_waited_for: bool, asked: bool
) -> None:
    """It would end a node that still starts. The process stands in for a container's."""
    waits = "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0)); " if is_waited_for else ""
    program = f"import signal, sys; {waits}print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        script = stacks.script_of("USR1").replace("[0-9]*", str(process.pid))
        code = subprocess.run(["sh", "-c", script], check=False, timeout=30).returncode
        assert (code == 0) is asked
        if not asked:
            assert process.poll() is None
            process.kill()
    assert process.returncode == (0 if asked else -signal.SIGKILL)
