"""Hashes an image's sources, so that its tag names its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

HASH_LENGTH = 12
IGNORED_NAMES = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".DS_Store"})
IGNORED_SUFFIXES = frozenset({".pyc", ".swp"})


def content_hash(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return a hash of named contents, of their order and lengths too."""
    digest = hashlib.sha256()
    for name, content in parts:
        for field in (name.encode(), content):
            digest.update(len(field).to_bytes(8, "big"))
            digest.update(field)
    return digest.hexdigest()[:HASH_LENGTH]


def files_below(root: Path, folder: Path) -> Iterator[Path]:
    """Yield the files below root/folder as paths relative to root, sorted; caches left out."""
    for path in sorted((root / folder).rglob("*")):
        relative = path.relative_to(root)
        ignored = not IGNORED_NAMES.isdisjoint(relative.parts) or path.suffix in IGNORED_SUFFIXES
        if not ignored and path.is_file():
            yield relative
