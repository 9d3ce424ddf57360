"""The ZooKeeper adapter as far as it goes without ZooKeeper; tests/contract has the rest."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from kazoo import exceptions as zk

from highwater_adapters.coordination import (
    KazooCoordinationFactory,
    _LoopHandler,
    _to_error,
    _Watch,
)
from highwater_core.ports import (
    BadVersion,
    ConnectionLost,
    CoordinationEvent,
    CoordinationEventKind,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (zk.NoNodeError, NoNode),
        (zk.NodeExistsError, NodeExists),
        (zk.BadVersionError, BadVersion),
        (zk.NotEmptyError, NotEmpty),
        (zk.ConnectionLoss, ConnectionLost),
        (zk.OperationTimeoutError, ConnectionLost),
        (zk.SessionExpiredError, SessionExpired),
        (zk.ConnectionClosedError, SessionExpired),
    ],
)
def test_operating_errors_have_a_type_of_the_port(
    theirs: type[Exception], ours: type[Exception]
) -> None:
    assert type(_to_error(theirs(), "/path")) is ours


def test_an_error_that_the_port_does_not_name_stays_a_bug() -> None:
    error = zk.InvalidACLError()
    assert _to_error(error, "/path") is error


def test_a_session_that_is_over_is_never_followed_by_another() -> None:
    handler = _LoopHandler()
    handler.is_fenced = True
    with pytest.raises(ConnectionAbortedError):
        handler.create_connection(("127.0.0.1", 1), timeout=1.0)


def test_equal_watches_on_one_path_count_as_one() -> None:
    event = CoordinationEvent(CoordinationEventKind.NODE_CHANGED, "/a")
    assert len({_Watch(event, lambda *_: None), _Watch(event, print)}) == 1


def test_open_tries_until_cancelled_and_leaves_no_thread() -> None:
    silent = logging.getLogger("test.zookeeper")
    silent.setLevel(logging.CRITICAL)

    async def main() -> None:
        opening = asyncio.ensure_future(KazooCoordinationFactory("127.0.0.1:1", silent).open(1000))
        await asyncio.sleep(0.01)
        assert not opening.done()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    before = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() == before
