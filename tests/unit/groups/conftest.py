"""A GroupWorld that is closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.groups import GroupWorld


@pytest.fixture
def make_world() -> Iterator[Callable[..., GroupWorld]]:
    made: list[GroupWorld] = []

    def make(**settings: Any) -> GroupWorld:
        made.append(GroupWorld(**settings))
        return made[-1]

    yield make
    for world in made:
        world.kernel.close()


@pytest.fixture
def world(make_world: Callable[..., GroupWorld]) -> GroupWorld:
    return make_world(initial_rebalance_delay_ms=100)
