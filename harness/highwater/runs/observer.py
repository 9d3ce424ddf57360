"""Takes a snapshot of every node several times a second, stores it, and reports changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from highwater.report.observation import Change, changes_between
from highwater_checker.looks import Look, encode_look
from highwater_core.messages import NodeSnapshot

SnapshotSource = Callable[[int], NodeSnapshot | None]
"""Asks one node; None when it does not answer at once."""


class Observer:
    """Takes looks in a thread of its own; the changes of each look go to the listener in order."""

    def __init__(
        self,
        *,
        node_ids: Sequence[int],
        snapshot_of: SnapshotSource,
        now_ns: Callable[[], int],
        path: Path,
        listener: Callable[[Look, list[Change]], None],
        interval_s: float = 0.1,
    ) -> None:
        self._node_ids = tuple(node_ids)
        self._snapshot_of = snapshot_of
        self._now_ns = now_ns
        self._path = path
        self._listener = listener
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._looks: list[Look] = []
        self._changes: list[Change] = []
        self._crash: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> tuple[list[Look], list[Change]]:
        """Return every look and every change, in order.

        Raises:
            RuntimeError: the observer died, so its looks are incomplete.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30.0)
        if self._crash is not None:
            raise RuntimeError("the observer died") from self._crash
        return self._looks, self._changes

    def latest(self) -> Look:
        """Return the newest look; before the first, one without answers."""
        if self._looks:
            return self._looks[-1]
        return Look(0, dict.fromkeys(self._node_ids))

    def look_once(self) -> Look:
        nodes = {node_id: self._snapshot_of(node_id) for node_id in self._node_ids}
        return Look(self._now_ns(), nodes)

    def _run(self) -> None:
        try:
            with self._path.open("wb", buffering=0) as file:
                while not self._stopping.is_set():
                    self._take(file.write)
                    self._stopping.wait(self._interval_s)
        except Exception as error:  # noqa: BLE001 - handed to stop(), which raises it
            self._crash = error

    def _take(self, write: Callable[[bytes], object]) -> None:
        before = self.latest()
        look = self.look_once()
        write(encode_look(look) + b"\n")
        changes = changes_between(before, look)
        self._looks.append(look)
        self._changes.extend(changes)
        self._listener(look, changes)
