"""Lets other tasks run while a command with hundreds of partitions is carried out."""

from __future__ import annotations

from highwater_core.runtime import Runtime

PARTITIONS_PER_TURN = 8
"""Partitions, each with some disk operations, before other tasks run."""
ROLES_PER_TURN = 50
"""Replicas that take their role before other tasks run: mostly in memory alone, and in each pause
fetchers start another request with all their partitions."""


async def take_turn(runtime: Runtime, number: int, per_turn: int = PARTITIONS_PER_TURN) -> bool:
    """Let other ready tasks run, before every per_turn-th partition but the first.

    Return whether it did: then earlier knowledge may be outdated.
    """
    if number == 0 or number % per_turn:
        return False
    await runtime.sleep(0)
    return True
