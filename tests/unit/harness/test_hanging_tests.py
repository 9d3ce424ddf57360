"""A test with a cluster that hangs is known by its error, or ended when its time is over."""

from __future__ import annotations

import signal
import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.testing import hangs
from highwater.testing.hangs import (
    STACKS_TOLD,
    ends_when_it_hangs,
    is_a_waits_end,
    say_own_stacks,
)
from highwater.waiting import NeverHappened, eventually

ONE_CLUSTER: Any = [SimpleNamespace(run_id="test-1")]
LONG_S = 60.0


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (NeverHappened("not within 5 s"), True),
        (TimeoutError(), True),
        (subprocess.TimeoutExpired("kcat", 5), True),
        (pytest.fail.Exception("Timeout (>5.0s) from pytest-timeout."), True),
        (pytest.fail.Exception("the order is wrong"), False),
        (AssertionError("Timeout is 5"), False),
        (caused(ValueError("no answer"), TimeoutError()), True),
        (caused(ValueError("no answer"), KeyError()), False),
    ],
)
def test_a_wait_that_was_too_long_is_known_by_its_error(error: BaseException, is_one: bool) -> None:
    assert is_a_waits_end(error) is is_one


@pytest.fixture
def item(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(hangs, "all_stacks", lambda cluster: "--- broker-0\n")
    return SimpleNamespace(stash=pytest.Stash())


def test_a_test_that_hangs_fails_and_its_stacks_are_those_of_the_hang(
    item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once_it_hangs() -> str:
        """On a busy machine the time is over before the test has begun to wait."""
        eventually(lambda: "in wait_for_what_never_comes" in say_own_stacks(), within=LONG_S)
        return say_own_stacks()

    monkeypatch.setattr(hangs, "say_own_stacks", once_it_hangs)
    never = threading.Event()
    with (
        pytest.raises(pytest.fail.Exception, match=r"Timeout \(>0.01s\): the test hangs") as failed,
        ends_when_it_hangs(item, ONE_CLUSTER, 0.01),
    ):
        wait_for_what_never_comes(never)
    assert is_a_waits_end(failed.value)
    told = item.stash[STACKS_TOLD]["test-1"]
    assert told.startswith("--- the test\nThread MainThread (most recent call last):")
    assert "in wait_for_what_never_comes" in told
    assert told.endswith("--- broker-0\n")


def test_a_test_that_hangs_is_ended_where_interrupts_are_ignored(item: Any) -> None:
    """As in the workers of pytest-xdist."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with (
            pytest.raises(pytest.fail.Exception, match="the test hangs"),
            ends_when_it_hangs(item, ONE_CLUSTER, 0.01),
        ):
            wait_for_what_never_comes(threading.Event())
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_what_never_comes(never: threading.Event) -> None:
    assert never.wait(LONG_S), "it was not interrupted"


def test_a_time_that_is_over_at_once_fails_the_test_and_leaves_nothing(
    item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: the interrupt came before the block had begun, and was nobody's."""
    start = threading.Thread.start

    def start_and_wait(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "hang":
            wait_for_what_never_comes(threading.Event())

    before = signal.getsignal(hangs._SIGNAL)
    monkeypatch.setattr(threading.Thread, "start", start_and_wait)
    with (
        pytest.raises(pytest.fail.Exception, match="the test hangs"),
        ends_when_it_hangs(item, ONE_CLUSTER, 0.0),
    ):
        pytest.fail("the block has begun")
    assert signal.getsignal(hangs._SIGNAL) == before


@pytest.mark.parametrize("ending", [ValueError, KeyboardInterrupt])
def test_a_test_that_ends_in_time_ends_as_it_would(item: Any, ending: type[BaseException]) -> None:
    with ends_when_it_hangs(item, ONE_CLUSTER, LONG_S):
        pass
    with pytest.raises(ending), ends_when_it_hangs(item, ONE_CLUSTER, LONG_S):
        raise ending
    assert STACKS_TOLD not in item.stash


def test_a_test_that_ends_while_stacks_are_taken_is_not_interrupted(
    item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt would end the session, or the next test."""
    taking, goes_on = threading.Event(), threading.Event()

    def take(cluster: object) -> str:
        taking.set()
        goes_on.wait(LONG_S)
        return ""

    monkeypatch.setattr(hangs, "all_stacks", take)
    with ends_when_it_hangs(item, ONE_CLUSTER, 0.01):
        eventually(taking.is_set, within=LONG_S)
        threading.Timer(0.01, goes_on.set).start()
