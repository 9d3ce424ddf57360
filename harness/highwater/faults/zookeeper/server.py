"""ZooKeeper's server, which is away for a time: it is stopped, or frozen."""

from __future__ import annotations

import threading
from collections.abc import Callable

from docker.errors import NotFound

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import ZOOKEEPER
from highwater.cluster.zookeeper_dump import four_letter_word
from highwater.faults.done import Done, NotDone, prove
from highwater.faults.zookeeper.sessions import SessionFaults
from highwater.waiting import eventually

ANSWERS_WITHIN_S = 30.0
SILENT_FOR_S = 0.3
"""How long a stopped server must not answer. A running server answers much sooner."""


class ServerFaults:
    """The faults of one cluster's server; calls may come from different threads."""

    def __init__(
        self, cluster: Cluster, sessions: SessionFaults, start: Callable[[int], None]
    ) -> None:
        """start: starts a stopped node, and loads its links' rules and fail-points."""
        self._cluster = cluster
        self._sessions = sessions
        self._start = start
        self._lock = threading.Lock()
        self._stops = 0
        self._pauses = 0
        self._own_start: str | None = None

    def remember_start(self) -> None:
        """Take the server's last start for the run's own."""
        self._own_start = self._started_at()

    def was_started_by_others(self) -> bool:
        """Return whether somebody else removed the server, or started it after its last start here.

        The engine has the time of the last start alone.
        """
        with self._lock:
            return self._own_start not in (None, self._started_at())

    def _started_at(self) -> str:
        """Return the time of the server's last start; "" where its container is gone."""
        try:
            name = self._cluster.container_name(ZOOKEEPER)
            return str(self._cluster.engine.api.inspect_container(name)["State"]["StartedAt"])
        except NotFound:
            return ""

    def stop(self) -> Done:
        """Stop the server; it starts again when the last fault that stopped it is reverted.

        Raises:
            NotDone: the server still answers, or is frozen: a kill would come when it wakes.
        """
        with self._lock:
            if self._pauses:
                raise NotDone("ZooKeeper is frozen by another fault")
            before = self._sessions.owners()
            self._stops += 1
            try:
                if self._cluster.exit_code(ZOOKEEPER) is None:
                    # Not by SIGTERM: the server would take seconds to end.
                    self._cluster.kill(ZOOKEEPER)
                code = self._cluster.exit_code(ZOOKEEPER)
                prove(code is not None and self._word("ruok") == "", "ZooKeeper answers still")
            except BaseException:
                self._stops -= 1
                raise
        proof = f"exit code {code}, no answer to ruok"
        return Done(int(ZOOKEEPER), proof, lambda: self._go_on(before))

    def _go_on(self, before: dict[str, int]) -> str:
        """Start the server, and see that the sessions from before are there."""
        with self._lock:
            self._stops -= 1
            if self._stops:
                return "stopped by another fault still"
            if self._cluster.status(ZOOKEEPER) != "running":
                self._start(ZOOKEEPER)
                self.remember_start()
            return self._serves(before)

    def pause(self) -> Done:
        """Freeze the server; it wakes when the last fault that froze it is reverted.

        Raises:
            NotDone: the server does not run, or still answers.
            NeverHappened: the freezer does not get all of its processes.
        """
        with self._lock:
            status = self._cluster.status(ZOOKEEPER)
            if status != "running" and not self._pauses:
                raise NotDone(f"ZooKeeper is {status}")
            before = self._sessions.owners() if status == "running" else {}
            self._pauses += 1
            try:
                if status == "running":
                    self._cluster.pause(ZOOKEEPER)
                is_frozen = self._cluster.status(ZOOKEEPER) == "paused"
                prove(is_frozen and self._is_silent(), "ZooKeeper answers still")
            except BaseException:
                self._pauses -= 1
                raise
        proof = "the engine says paused, no answer to ruok"
        return Done(int(ZOOKEEPER), proof, lambda: self._wake(before))

    def _is_silent(self) -> bool:
        endpoint = self._cluster.zookeeper_endpoint
        return four_letter_word(endpoint, "ruok", timeout_s=SILENT_FOR_S) == ""

    def _wake(self, before: dict[str, int]) -> str:
        """Let the server go on, and see that it serves."""
        with self._lock:
            self._pauses -= 1
            if self._pauses:
                return "frozen by another fault still"
            if self._cluster.status(ZOOKEEPER) == "paused":
                self._cluster.unpause(ZOOKEEPER)
            return self._serves(before)

    def _serves(self, before: dict[str, int]) -> str:
        """Wait until the server serves, and return how many earlier sessions it still has."""
        eventually(
            lambda: "Mode: " in self._word("srvr"),
            within=ANSWERS_WITHIN_S,
            what="ZooKeeper serves",
            state=lambda: self._cluster.logs(ZOOKEEPER, tail=5),
        )
        # A node may have left meanwhile, so the count is reported, not required.
        sessions = set(before.values())
        kept = sessions & set(self._sessions.owners().values())
        return f"serves, and has {len(kept)} of {len(sessions)} sessions from before"

    def _word(self, word: str) -> str:
        return four_letter_word(self._cluster.zookeeper_endpoint, word, timeout_s=2.0)
