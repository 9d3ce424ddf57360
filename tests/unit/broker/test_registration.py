"""How a broker registers where others change the tree under its hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from highwater_broker.current_session import CurrentSession
from highwater_broker.registration import Registration
from highwater_broker.settings import BrokerSettings
from highwater_core.fail_points import FailPoint
from highwater_core.ids import NO_BROKER_EPOCH
from highwater_core.znodes import BROKER_IDS, broker_path
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.zookeeper import ZooKeeper

from .conftest import ME, Bench


class Saboteur:
    """Takes the parent of all registrations away before the first attempt to register."""

    def __init__(self, session: CurrentSession) -> None:
        self._session = session
        self.is_done = False

    async def reach(self, point: FailPoint) -> None:
        if point is FailPoint.BEFORE_BROKER_REGISTRATION and not self.is_done:
            self.is_done = True
            await self._session.get().delete(BROKER_IDS)


def test_a_parent_that_is_deleted_meanwhile_is_made_again(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench()
    zookeeper = ZooKeeper(bench.kernel, Network(bench.kernel, SeededRng(2)))
    session = CurrentSession()
    saboteur = Saboteur(session)
    registration = Registration(
        BrokerSettings(node_id=ME),
        bench.toggles,
        replace(bench.ports, coordination=zookeeper.factory(bench.runtime)),
        session,
        lambda event: None,
        saboteur,  # type: ignore[arg-type]
    )
    bench.runtime.scope("registration").spawn("registration", registration.run())
    bench.kernel.run_for(5_000)
    assert saboteur.is_done
    assert broker_path(ME) in zookeeper.dump()
    assert registration.broker_epoch != NO_BROKER_EPOCH
