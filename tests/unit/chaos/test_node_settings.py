"""A plan's settings of nodes are settings that nodes have, within the accepted values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from highwater.cluster.topology import Topology
from highwater_broker.settings import BrokerSettings
from highwater_chaos.node_settings import NODE_SETTINGS
from highwater_controller.settings import ControllerSettings

SESSION = "session_timeout_ms"
NODES: dict[str, Callable[..., Any]] = {"broker": BrokerSettings, "controller": ControllerSettings}
CASES = [(kind, name) for kind, settings in NODE_SETTINGS.items() for name in settings]


def may_be_replaced(name: str) -> bool:
    try:
        Topology(broker_settings={name: 1})
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("kind", NODES)
def test_a_plan_may_set_every_number_that_no_world_owns(kind: str) -> None:
    numbers = [field.name for field in fields(NODES[kind]) if field.type in ("int", "float")]
    free = {name for name in numbers if name == SESSION or may_be_replaced(name)}
    assert free == set(NODE_SETTINGS[kind])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_nodes_accept_the_least_and_the_most(kind: str, name: str) -> None:
    for bound in NODE_SETTINGS[kind][name]:
        if bound is not None:
            assert getattr(NODES[kind](node_id=0, **{name: bound}), name) == bound


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_settings_that_nodes_refuse_are_out_of_bounds(kind: str, name: str) -> None:
    """Nodes refuse less than these bounds do: a retry every 0 ms, for one."""
    least, most = NODE_SETTINGS[kind][name]
    for refused in (least - 1, -2, *([] if most is None else [most + 1])):
        try:
            NODES[kind](node_id=0, **{name: refused})
        except ValueError:
            assert refused < least or (most is not None and refused > most)
