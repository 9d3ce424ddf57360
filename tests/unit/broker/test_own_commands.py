"""What a broker of the first design may take for done when it closes a replica."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.first_design.commands import OwnCommands
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch

from .conftest import ME, T0, Bench

NONE, REFUSED = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("error", "is_synced", "told"),
    [(NONE, True, NONE), (NONE, False, REFUSED), (REFUSED, True, REFUSED)],
)
def test_a_replica_is_closed_once_its_folders_end_survives_a_power_loss(
    error: ErrorCode, is_synced: bool, told: ErrorCode, make_bench: Callable[..., Bench]
) -> None:
    """Found by seed 600000269: after a power loss it was hosted again, and for ever."""
    done: list[str] = []

    async def carry_out(command: object) -> Any:
        done.append("deleted")
        return SimpleNamespace(error=NONE, partition_errors=((T0, error),))

    async def sync() -> bool:
        done.append("synced")
        return is_synced

    def folder_of(key: object) -> object:
        done.append("found")  # a deletion forgets it
        return SimpleNamespace(sync=sync)

    replicas: Any = SimpleNamespace(carry_out=carry_out, folder_of=folder_of)
    errors: list[ErrorCode] = []

    async def close() -> None:
        errors.append(await OwnCommands(ME, replicas).close(T0, LeaderEpoch(3)))

    bench = make_bench()
    bench.runtime.start("test", close())
    bench.kernel.run_for(10)
    assert errors == [told]
    assert done == ["found", "deleted", "synced"][: 2 if error else 3]
