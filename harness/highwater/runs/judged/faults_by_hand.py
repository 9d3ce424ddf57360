"""The intents of the faults that a test does by calls of its cluster, not by a plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from highwater.faults.intents import IntentLog
from highwater_chaos import faults as f
from highwater_checker.run_folder.intents import NO_FAULT, Phase

ByHand = f.Kill | f.Terminate | f.Pause | f.Isolate
"""The faults that a cluster's own functions do."""


class FaultsByHand:
    """Writes each call's intent before it is carried out; calls may come from different threads.

    A call that raises leaves its fault without a further phase: it may act. Once the run has ended
    no more is written: its nodes are stopped to be judged.
    """

    def __init__(self, intents: IntentLog) -> None:
        self._intents = intents
        self._lock = threading.Lock()
        self._acting: dict[int, tuple[int, ByHand]] = {}
        self._has_ended = False
        self._quiet = threading.local()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Write nothing of what this thread does in the block: another writes its intents."""
        before = self._is_quiet
        self._quiet.now = True
        try:
            yield
        finally:
            self._quiet.now = before

    @property
    def _is_quiet(self) -> bool:
        return self._has_ended or getattr(self._quiet, "now", False)

    @property
    def still_act(self) -> set[int]:
        """Return the nodes with a fault that the test has not undone."""
        with self._lock:
            return {node for node, _ in self._acting.values()}

    @contextmanager
    def doing(self, node: int, fault: ByHand) -> Iterator[None]:
        if self._is_quiet:
            yield
            return
        number = self._intents.begin(fault)
        begun_ns = self._intents.now_ns()
        yield
        acted_ago_ns = self._intents.now_ns() - begun_ns  # a clean stop takes seconds
        done = "the engine has done it"
        self._intents.write(number, Phase.ACTING, node=node, proof=done, acted_ago_ns=acted_ago_ns)
        with self._lock:
            self._acting[number] = node, fault

    @contextmanager
    def undoing(self, node: int, *kinds: type[ByHand]) -> Iterator[None]:
        """Undo the node's faults of these kinds; without one, no line is written."""
        with self._lock:
            own = [
                number
                for number, (at, fault) in self._acting.items()
                if at == node and isinstance(fault, kinds) and not self._is_quiet
            ]
        for number in own:
            self._intents.write(number, Phase.REVERTING)
        yield
        for number in own:
            self._intents.write(number, Phase.REVERTED, seen="the engine has done it")
            with self._lock:
                self._acting.pop(number, None)

    @contextmanager
    def starting(self, node: int) -> Iterator[None]:
        """Write the intent of a start, which undoes the node's end; the judge reports others."""
        if not self._is_quiet:
            self._intents.write(NO_FAULT, Phase.STARTING, node=node)
        with self.undoing(node, f.Kill, f.Terminate):
            yield

    def end(self) -> None:
        """Write no more; again is harmless."""
        if not self._has_ended:
            self._has_ended = True
            self._intents.close()
