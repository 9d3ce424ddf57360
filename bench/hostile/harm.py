"""Faults on whole nodes beside the clients: one at a time, each undone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping

from bench.hostile.watching import Prober
from highwater.cluster.cluster import KILLED_EXIT_CODE, Cluster
from highwater.cluster.settling import await_full_isr

RECOVERED_WITHIN_S = 240.0
_LASTS_S = (3.0, 20.0)


class Harm:
    """Kills, pauses and terminates nodes in turn, drawn from a seed.

    Each fault is proven by the engine's report. The next begins when ISRs are whole again.
    starts: the number of starts of each node; its incarnation must be equal.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Mapping[str, int],
        probers: Mapping[int, Prober],
        seed: int,
        *,
        every_s: float,
        say: Callable[[str], None],
    ) -> None:
        """topics: by name the number of partitions, whose ISRs must be whole between faults."""
        self._cluster, self._topics, self._probers = cluster, topics, probers
        self._rng = random.Random(f"{seed} harm")  # noqa: S311
        self._every_s, self._say = every_s, say
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._crash: BaseException | None = None
        self.starts = {int(node): 1 for node in cluster.node_ids}
        self.done: dict[str, int] = {}

    def start(self) -> None:
        self._thread.start()

    @property
    def trouble(self) -> str:
        """The error that ended the thread; "" without one."""
        return "" if self._crash is None else f"{type(self._crash).__name__}: {self._crash}"

    def stop(self) -> None:
        """Return once the last fault is undone.

        Raises:
            RuntimeError: a fault did not act, or the cluster did not recover.
        """
        self._stopping.set()
        self._thread.join(RECOVERED_WITHIN_S + 60)
        if self._crash is not None:
            raise RuntimeError("the cluster did not get over a fault") from self._crash
        if self._thread.is_alive():
            raise RuntimeError("a fault does not end")

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every_s):
                self._one()
        except BaseException as error:  # noqa: BLE001 - handed to stop(), which raises it
            self._crash = error

    def _one(self) -> None:
        node = int(self._rng.choice(self._cluster.node_ids))
        kind, does = self._rng.choice(
            (("kill", self._kill), ("pause", self._pause), ("terminate", self._terminate))
        )
        name = f"{kind} {self._cluster.topology.node(node).kind}"
        lasts_s = self._rng.uniform(*_LASTS_S)
        self._say(f"{name} {node} for {lasts_s:.0f} s")
        prober = self._probers.get(node)
        if prober is not None:
            prober.is_excused = True
        does(node, lasts_s)
        self._cluster.wait_until_ready(within_s=RECOVERED_WITHIN_S)
        for topic, partition_count in self._topics.items():
            await_full_isr(self._cluster, topic, partition_count, within=RECOVERED_WITHIN_S)
        if prober is not None:
            prober.is_excused = False
        self.done[name] = self.done.get(name, 0) + 1

    def _kill(self, node: int, lasts_s: float) -> None:
        self._cluster.kill(node)
        self._ended(node, KILLED_EXIT_CODE)
        self._stopping.wait(lasts_s)
        self._start(node)

    def _terminate(self, node: int, lasts_s: float) -> None:
        self._cluster.terminate(node)
        self._ended(node, 0)
        self._stopping.wait(lasts_s)
        self._start(node)

    def _pause(self, node: int, lasts_s: float) -> None:
        self._cluster.pause(node)
        if self._cluster.status(node) != "paused":
            raise RuntimeError(f"node {node} is not paused")
        self._stopping.wait(lasts_s)
        self._cluster.unpause(node)

    def _ended(self, node: int, code: int) -> None:
        if self._cluster.exit_code(node) != code:
            raise RuntimeError(f"node {node} ended with {self._cluster.exit_code(node)}")

    def _start(self, node: int) -> None:
        self._cluster.start_node(node)
        self.starts[node] += 1
