"""A freezer that the runtime gave up is tried again; any other refusal is reported at once."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError

from highwater.cluster.containers import freeze, thaw


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


class LateEngine(Engine):
    """Reports the container as paused so often after it was let go on."""

    def __init__(self, late: int) -> None:
        super().__init__(0, "")
        self.late = late

    def unpause(self, name: str) -> None:
        self.asked += 1

    def inspect_container(self, name: str) -> dict[str, Any]:
        self.late -= 1
        return {"State": {"Status": "paused" if self.late >= 0 else "running"}}


def let_go_on(engine: Any) -> None:
    thaw(engine, "broker-0")


def pause(engine: Any) -> None:
    freeze(engine, "broker-0")


def test_a_freezer_that_was_given_up_is_asked_again() -> None:
    engine = Engine(2, "OCI runtime pause failed: unable to freeze: unknown")
    pause(engine)
    assert engine.asked == 3


def test_another_refusal_is_reported_at_once() -> None:
    engine = Engine(9, "container is not running")
    with pytest.raises(APIError, match="not running"):
        pause(engine)
    assert engine.asked == 1


def test_a_container_is_running_when_it_was_let_go_on_though_the_engine_is_late() -> None:
    """Found: a busy engine noted a pause after the unpause, and was taken for one without it."""
    engine = LateEngine(2)
    let_go_on(engine)
    assert (engine.asked, engine.late) == (1, -1)
