"""Creates ZooKeeper's persistent paths and publishes this controller's endpoint."""

from __future__ import annotations

from functools import partial

from highwater_controller.patience import RACE_ATTEMPTS, GaveUp, PatientReader
from highwater_core import znodes
from highwater_core.ports import Coordination, NodeExists, NoNode
from highwater_core.runtime import Runtime


async def publish_endpoint(
    session: Coordination,
    runtime: Runtime,
    retry_ms: int,
    give_up_ms: int,
    path: str,
    data: bytes,
) -> None:
    """Create the ephemeral znode, in place of one of an earlier session of this node.

    Raises:
        SessionExpired, GaveUp: try again in the next session.
    """
    reader = PatientReader(session, runtime, retry_ms, give_up_ms)
    seen = ""
    for _ in range(RACE_ATTEMPTS):
        for standing in znodes.PERSISTENT_PATHS:
            ensure = partial(session.ensure_path, standing)
            await reader.patiently(ensure, f"create {standing}")
        try:
            await reader.patiently(
                lambda: session.create(path, data, ephemeral=True), f"create {path}"
            )
        except NoNode:
            seen = "somebody had removed its parent"
            continue
        except NodeExists:
            found = await reader.get(path)
            seen = f"somebody else's was in its place: {found}"
            if found is None:
                continue
            if found[1].ephemeral_owner == session.session_id:
                return
            try:
                await reader.patiently(lambda: session.delete(path), f"delete {path}")
            except NoNode:
                continue
        else:
            return
    raise GaveUp(f"create {path}: tried {RACE_ATTEMPTS} times, and the last time {seen}"[:300])
