"""The valid names of topics. Pure.

A name becomes a path in ZooKeeper, a folder on each replica's disk and a column of checkpoints. So
names from outside are checked at each port, and again when they are read from ZooKeeper.
Source: Kafka's Topic.validate.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def find_name_fault(name: str) -> str:
    """Return the fault of a topic's name; empty when it is valid."""
    if name in (".", ".."):
        return f"the name may not be {name!r}"
    if not _NAME.fullmatch(name):
        return "a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
    return ""
