"""ZooKeeper's tree of znodes and its operations; no sessions, no time.

Every change is one transaction with the next zxid; a multi is one transaction. An operation returns
its changes, for which the server fires watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from highwater_core.check import check
from highwater_core.ports import (
    ANY_VERSION,
    BadVersion,
    CheckOp,
    CoordinationError,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NodeExists,
    NoNode,
    NotEmpty,
    SetOp,
    Stat,
)

NO_OWNER = 0

_NEVER_NAMES = ("", ".", "..")
"""Parts that no path may have."""


@dataclass(slots=True)
class Znode:
    """children maps name to None, in the order of creation."""

    data: bytes
    stat: Stat
    children: dict[str, None] = field(default_factory=dict)
    created_children: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One znode that a transaction created, set or deleted."""

    path: str
    is_existence: bool
    """Created or deleted, so that the parent's children changed too."""


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


class ZnodeTree:
    """The znodes by path; the root always exists."""

    def __init__(self) -> None:
        self._znodes: dict[str, Znode] = {"/": Znode(b"", Stat(0, 0, 0, NO_OWNER))}
        self._zxid = 0

    # ------------------------------------------------------------ reads

    def find(self, path: str) -> Znode | None:
        check(path.startswith("/"), f"path {path!r}")
        return self._znodes.get(path)

    def get(self, path: str) -> Znode:
        znode = self.find(path)
        if znode is None:
            raise NoNode(path)
        return znode

    def owned_by(self, session_id: int) -> list[str]:
        """Return the session's ephemeral znodes in the order of their creation."""
        owned = [
            (znode.stat.czxid, path)
            for path, znode in self._znodes.items()
            if znode.stat.ephemeral_owner == session_id
        ]
        return [path for _, path in sorted(owned)]

    def dump(self) -> dict[str, tuple[bytes, Stat]]:
        """Return every znode but the root, by path in ascending order."""
        return {
            path: (self._znodes[path].data, self._znodes[path].stat)
            for path in sorted(self._znodes)
            if path != "/"
        }

    # ------------------------------------------------------------ transactions

    def create(
        self, path: str, data: bytes, owner: int, *, sequential: bool
    ) -> tuple[str, list[Change]]:
        """Create a znode as one transaction; return its path.

        Raises:
            NodeExists, NoNode: the tree is unchanged.
        """
        if sequential:
            path = self._numbered(path)
        self._begin()
        return path, [self._create(path, data, owner)]

    def set(self, path: str, data: bytes, expected_version: int) -> tuple[Stat, list[Change]]:
        self._begin()
        change = self._set(path, data, expected_version)
        return self.get(path).stat, [change]

    def delete(self, path: str, expected_version: int) -> list[Change]:
        self._begin()
        return [self._delete(path, expected_version)]

    def multi(
        self, operations: Sequence[MultiOp], session_id: int
    ) -> tuple[list[Stat | None], list[Change]]:
        """Carry out all or none.

        Raises:
            MultiFailed: the tree is unchanged.
        """
        self._begin()
        undo: list[Callable[[], None]] = []
        stats: list[Stat | None] = []
        changes: list[Change] = []
        for index, operation in enumerate(operations):
            try:
                if isinstance(operation, CreateOp) and operation.sequential:
                    operation = replace(operation, path=self._numbered(operation.path))
                restore = self._remember(operation.path)
                change = self._apply(operation, session_id)
            except CoordinationError as error:
                for step in reversed(undo):
                    step()
                raise MultiFailed(index, error) from error
            undo.append(restore)
            stats.append(self.get(operation.path).stat if isinstance(operation, SetOp) else None)
            if change is not None:
                changes.append(change)
        return stats, changes

    # ------------------------------------------------------------ one operation

    def _begin(self) -> None:
        self._zxid += 1

    def _apply(self, operation: MultiOp, session_id: int) -> Change | None:
        match operation:
            case CreateOp(path, data, ephemeral, _):
                return self._create(path, data, session_id if ephemeral else NO_OWNER)
            case SetOp(path, data, expected_version):
                return self._set(path, data, expected_version)
            case DeleteOp(path, expected_version):
                return self._delete(path, expected_version)
            case CheckOp(path, expected_version):
                self._check_version(path, expected_version)
                return None

    def _numbered(self, path: str) -> str:
        """Return the path with the number of its parent's next child."""
        return f"{path}{self.get(parent_of(path)).created_children:010d}"

    def _create(self, path: str, data: bytes, owner: int) -> Change:
        if self.find(path) is not None:
            raise NodeExists(path)
        if name_of(path) in _NEVER_NAMES:
            raise NoNode(path)
        parent = self.get(parent_of(path))
        if parent.stat.ephemeral_owner != NO_OWNER:
            raise CoordinationError(f"{path}: ephemeral znodes have no children")
        self._znodes[path] = Znode(data, Stat(self._zxid, self._zxid, 0, owner))
        parent.children[name_of(path)] = None
        parent.created_children += 1
        return Change(path, is_existence=True)

    def _set(self, path: str, data: bytes, expected_version: int) -> Change:
        znode = self._check_version(path, expected_version)
        znode.data = data
        version = znode.stat.node_version + 1
        znode.stat = replace(znode.stat, mzxid=self._zxid, node_version=version)
        return Change(path, is_existence=False)

    def _delete(self, path: str, expected_version: int) -> Change:
        znode = self._check_version(path, expected_version)
        if znode.children:
            raise NotEmpty(path)
        del self._znodes[path]
        del self.get(parent_of(path)).children[name_of(path)]
        return Change(path, is_existence=True)

    def _check_version(self, path: str, expected_version: int) -> Znode:
        znode = self.get(path)
        if expected_version not in (ANY_VERSION, znode.stat.node_version):
            raise BadVersion(f"{path}: {znode.stat.node_version}, not {expected_version}")
        return znode

    def _remember(self, path: str) -> Callable[[], None]:
        """Return a function that restores this znode and its place under its parent."""
        znode, parent = self._znodes.get(path), self._znodes.get(parent_of(path))
        before = None if znode is None else (znode.data, znode.stat)
        created_children = 0 if parent is None else parent.created_children
        was_child = parent is not None and name_of(path) in parent.children

        def restore() -> None:
            if znode is None:
                self._znodes.pop(path, None)
            elif before is not None:
                self._znodes[path] = znode
                znode.data, znode.stat = before
            if parent is not None:
                parent.created_children = created_children
                if was_child:
                    parent.children[name_of(path)] = None
                else:
                    parent.children.pop(name_of(path), None)

        return restore
