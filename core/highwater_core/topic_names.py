"""Which names a topic may have. Pure.

A name becomes a path in ZooKeeper, a folder on each replica's disk and a column of checkpoints:
whatever comes from outside is checked at each port, and again where it is read from ZooKeeper.
Source: Kafka's Topic.validate.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def find_name_fault(name: str) -> str:
    """Return what is wrong with a topic's name; empty when it is allowed."""
    if name in (".", ".."):
        return f"the name may not be {name!r}"
    if not _NAME.fullmatch(name):
        return "a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
    return ""
