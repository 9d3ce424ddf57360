"""Which operations a disk refuses or delays: read from a file of orders, answered in another.

The harness writes the orders on the node's volume, and reads there what they did:

    disk_orders.json  {"number": 3, "percent": {"sync": 100}, "within": {}, "sync_delay_ms": 0}
    disk_answer.json  {"number": 3, "refused": {"sync": 12}, "delayed": 0}

number tells which orders are answered: once the answer has it, they act.
"""

from __future__ import annotations

import errno
import json
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ORDERS, ANSWER = "disk_orders.json", "disk_answer.json"
PROBE = ".disk-probe"
"""How the names of a probe's files begin. Orders are for them as well, whatever files they name."""
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Orders:
    """percent: by operation (append, read, truncate, sync, rename, remove), how many are refused.

    sync_delay_ms: how much longer each sync takes.
    within: by operation, a part of the paths of the files that are meant; without one all are.
    """

    number: int = 0
    percent: dict[str, int] = field(default_factory=dict)
    sync_delay_ms: int = 0
    within: dict[str, str] = field(default_factory=dict)

    def mean(self, operation: str, path: str) -> bool:
        """Return whether the operation on a file is one that may be refused."""
        within = self.within.get(operation, "")
        return within in path or path.startswith(PROBE)


def read_orders(text: bytes) -> Orders:
    """Return the orders in a file's bytes.

    Raises:
        ValueError: they are no orders.
    """
    found: Any = json.loads(text)
    try:
        percent = {str(name): int(share) for name, share in dict(found["percent"]).items()}
        within = {str(name): str(part) for name, part in dict(found.get("within", {})).items()}
        return Orders(int(found["number"]), percent, int(found["sync_delay_ms"]), within)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no orders: {error!r}") from error


class Ailing:
    """The orders of one disk, as they change."""

    def __init__(self, folder: Path, rng: random.Random | None = None) -> None:
        """folder: where orders and answer lie."""
        self._orders_path, self._answer_path = folder / ORDERS, folder / ANSWER
        self._rng = rng or random.Random()  # noqa: S311 (which operations fail is no secret)
        self._lock = threading.Lock()
        self._orders = Orders()
        self._refused, self._delayed = _counts_of_before(self._answer_path)
        self._read = b""
        self._answered = ""

    def maybe_refuse(self, operation: str, path: str) -> None:
        """Return, or refuse the operation on the file; its path counts from the disk's folder.

        Raises:
            OSError: EIO.
        """
        orders = self._orders
        percent = orders.percent.get(operation, 0)
        if not percent or not orders.mean(operation, path):
            return
        if self._rng.random() * 100 < percent:
            with self._lock:
                self._refused[operation] = self._refused.get(operation, 0) + 1
            raise OSError(errno.EIO, f"the disk refuses to {operation}")

    def part_of(self, size: int) -> int:
        """Return how many bytes of a refused write are written: fewer than all."""
        return self._rng.randrange(size) if size else 0

    def wait_for_sync(self) -> None:
        """Take as much longer as the orders say."""
        if delay_ms := self._orders.sync_delay_ms:
            time.sleep(delay_ms / 1000)
            with self._lock:
                self._delayed += 1

    @property
    def refuses_reads(self) -> bool:
        return bool(self._orders.percent.get("read"))

    def look(self) -> bool:
        """Read the orders, and return whether there are others now.

        The answer is written when it changed.
        """
        before = self._orders
        try:
            text = self._orders_path.read_bytes()
            if text != self._read:
                self._orders = read_orders(text)
                self._read = text
        except (OSError, ValueError):
            pass  # there are none, or they are being written: the next look finds them
        self._answer()
        return self._orders is not before

    def _answer(self) -> None:
        with self._lock:
            answer = {
                "number": self._orders.number,
                "refused": dict(sorted(self._refused.items())),
                "delayed": self._delayed,
            }
        if (text := json.dumps(answer)) != self._answered:
            fresh = self._answer_path.with_suffix(".new")
            try:
                fresh.write_text(text)
                fresh.replace(self._answer_path)
            except OSError:
                return  # the volume has no room: the next look tries again
            self._answered = text


def _counts_of_before(answer: Path) -> tuple[dict[str, int], int]:
    """Return what the disk's earlier incarnations refused and delayed: counts never fall."""
    try:
        found = json.loads(answer.read_bytes())
        return dict(found["refused"]), int(found["delayed"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, 0
