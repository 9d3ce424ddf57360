"""Lets others run while a command of hundreds of partitions is carried out."""

from __future__ import annotations

from highwater_core.runtime import Runtime

PARTITIONS_PER_TURN = 8
"""How many are dealt with, each with some operations of the disk, before others run."""


async def take_turn(runtime: Runtime, number: int) -> bool:
    """Let whatever else is ready run, before every eighth partition but the first.

    Return whether it did: then what was known before may be so no more.
    """
    if number == 0 or number % PARTITIONS_PER_TURN:
        return False
    await runtime.sleep(0)
    return True
