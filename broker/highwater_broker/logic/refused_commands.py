"""Puts commands to single partitions together again, to be carried out once more. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater_core.messages import LeaderAndIsrPartition, LeaderAndIsrRequest


def together(requests: Iterable[LeaderAndIsrRequest]) -> list[LeaderAndIsrRequest]:
    """Return one command for all that differ by their partitions only, in order of the first."""
    found: dict[LeaderAndIsrRequest, list[LeaderAndIsrPartition]] = {}
    for request in requests:
        found.setdefault(replace(request, partitions=()), []).extend(request.partitions)
    return [replace(request, partitions=tuple(some)) for request, some in found.items()]
