"""Lasting faults of a disk: full, failing, slow; and the files in which a bit may flip."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from highwater_chaos.faults import FILE_SUFFIXES, DiskOperation, FileKind
from highwater_core.ports import Rng
from highwater_simulator.disk_tree import FileNode

_NS_PER_MS = 1_000_000


@dataclass(slots=True)
class _Failing:
    """How often an operation fails: with the probability, or the next `left` times.

    within: only for files whose paths contain this.
    """

    percent: int
    left: int | None
    within: str


class DiskFaults:
    """The lasting faults of one disk."""

    def __init__(self, rng: Rng) -> None:
        self.free_bytes: int | None = None
        """Bytes that can be written until the disk is full; None: it never is."""
        self._free_names = 0
        """Number of files and folders that can be created on the full disk."""
        self._rng = rng
        self._failing: dict[DiskOperation, _Failing] = {}
        self._dead: dict[str, None] = {}
        """Prefixes of the paths for which every operation fails."""
        self._hanging: dict[str, None] = {}
        """Prefixes of the paths of which no sync returns."""
        self._delay_ns = 0
        self._factor = 1

    @property
    def is_over(self) -> bool:
        return (
            self.free_bytes is None
            and not self._failing
            and not self._dead
            and not self._hanging
            and (self._delay_ns, self._factor) == (0, 1)
        )

    # ------------------------------------------------------------ arming

    def fill(self, free_bytes: int) -> None:
        self.free_bytes, self._free_names = free_bytes, 0

    def fail(
        self, operation: DiskOperation, percent: int, count: int | None, within: str = ""
    ) -> None:
        self._failing[operation] = _Failing(percent, count, within)

    def mend(self, operation: DiskOperation) -> None:
        self._failing.pop(operation, None)

    def die(self, folder: str) -> None:
        """Make every operation in the folder fail from now on; "" is the whole disk."""
        self._dead[_prefix(folder)] = None

    def revive(self, folder: str) -> None:
        self._dead.pop(_prefix(folder), None)

    def hang(self, folder: str) -> None:
        """Let no sync in the folder return that begins from now on; "" is the whole disk."""
        self._hanging[_prefix(folder)] = None

    def hang_no_more(self, folder: str) -> None:
        self._hanging.pop(_prefix(folder), None)

    def slow_down(self, delay_ms: int, factor: int) -> None:
        self._delay_ns, self._factor = delay_ms * _NS_PER_MS, factor

    # ------------------------------------------------------------ effects on operations

    def meet(self, operation: DiskOperation, path: str) -> None:
        """Let the operation pass or fail.

        Raises:
            OSError: EIO.
        """
        if any(map(f"{path}/".startswith, self._dead)):
            raise OSError(errno.EIO, "input/output error", path)
        failing = self._failing.get(operation)
        if failing is None or failing.within not in path:
            return
        if failing.percent < 100 and self._rng.randrange(0, 100) >= failing.percent:
            return
        if failing.left is not None:
            failing.left -= 1
            if failing.left <= 0:
                del self._failing[operation]
        raise OSError(errno.EIO, "input/output error", path)

    def take_space(self, size_bytes: int, path: str) -> None:
        """Allow to write so many bytes, or refuse.

        Raises:
            OSError: ENOSPC.
        """
        if self.free_bytes is None:
            return
        if size_bytes > self.free_bytes:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        self.free_bytes -= size_bytes

    def take_name(self, path: str) -> None:
        """Allow to create a file or folder, or refuse.

        Raises:
            OSError: ENOSPC.
        """
        if self.free_bytes is None:
            return
        if not self._free_names:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        self._free_names -= 1

    def give_back(self, size_bytes: int, *, names: int = 1) -> None:
        """Make room on a full disk after a removal of so many bytes and names."""
        if self.free_bytes is not None:
            self.free_bytes += size_bytes
            self._free_names += names

    def slowed_ns(self, duration_ns: int) -> int:
        return duration_ns * self._factor + self._delay_ns

    def is_hanging(self, path: str) -> bool:
        return any(map(f"{path}/".startswith, self._hanging))


def _prefix(folder: str) -> str:
    return f"{folder}/" if folder else ""


def flippable_files(files: Mapping[str, FileNode], kind: FileKind) -> list[tuple[str, FileNode]]:
    """Return the files of the kind that have durable bytes, in the order given."""
    return [
        (path, node)
        for path, node in files.items()
        if node.synced_size and path.endswith(FILE_SUFFIXES[kind])
    ]
