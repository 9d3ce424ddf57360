"""A freezer that the runtime gave up is tried again; any other refusal is reported at once."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError

from highwater.cluster.containers import pause_container


class Engine:
    """Refuses so often, in these words, and then pauses."""

    def __init__(self, refusals: int, words: str) -> None:
        self.api = self
        self.asked = 0
        self._refusals = refusals
        self._words = words

    def pause(self, name: str) -> None:
        self.asked += 1
        if self.asked <= self._refusals:
            raise APIError(f"{name}: {self._words}")


def pause(engine: Any) -> None:
    pause_container(engine, "broker-0")


def test_a_freezer_that_was_given_up_is_asked_again() -> None:
    engine = Engine(2, "OCI runtime pause failed: unable to freeze: unknown")
    pause(engine)
    assert engine.asked == 3


def test_another_refusal_is_reported_at_once() -> None:
    engine = Engine(9, "container is not running")
    with pytest.raises(APIError, match="not running"):
        pause(engine)
    assert engine.asked == 1
