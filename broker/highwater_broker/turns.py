"""Lets others run while a command of hundreds of partitions is carried out."""

from __future__ import annotations

from highwater_core.runtime import Runtime

PARTITIONS_PER_TURN = 8
"""How many are dealt with, each with some operations of the disk, before others run."""
ROLES_PER_TURN = 50
"""How many replicas take their role before others run: mostly that is in memory alone, and in each
pause fetchers begin anew, with all that they fetch."""


async def take_turn(runtime: Runtime, number: int, per_turn: int = PARTITIONS_PER_TURN) -> bool:
    """Let whatever else is ready run, before every per_turn-th partition but the first.

    Return whether it did: then what was known before may be so no more.
    """
    if number == 0 or number % per_turn:
        return False
    await runtime.sleep(0)
    return True
