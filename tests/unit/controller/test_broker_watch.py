"""When a broker is suspected, by how the calls to it end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from highwater_adapters.control_plane import _CHANNEL_OPTIONS
from highwater_controller.broker_watch import ANSWERS_WITHIN_MS, HOLD_MS, SILENT_MS, BrokerWatch
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, Endpoint, NodeId
from highwater_core.messages import BrokerEndpoints, CommandResponse, HoldRequest
from highwater_core.ports import CallEnd, CallFailed, CallRefused
from highwater_simulator.kernel import Kernel
from highwater_simulator.tasks import NodeRuntime

AT = Endpoint("broker-0", 9095)
BROKER = BrokerEndpoints(NodeId(0), BrokerEpoch(5), AT, AT, AT, AT)
OTHER_AT = Endpoint("broker-1", 9095)
OTHER = BrokerEndpoints(NodeId(1), BrokerEpoch(6), OTHER_AT, OTHER_AT, OTHER_AT, OTHER_AT)
RETRY_MS = 100


@dataclass(frozen=True)
class End:
    """How a call ends: after so long, with an answer or with a failure."""

    after_ms: int | None = None
    """None: when it is answered, or its timeout is over."""
    failure: CallFailed | None = None
    error: ErrorCode = ErrorCode.NONE


WHY = "the connection broke"
ANSWERED, SILENT = End(), End(None, CallFailed("no answer"))
GIVEN_UP = End(7, CallFailed("given up by the kernel"))
BROKEN, REFUSED = End(7, CallFailed(WHY, end=CallEnd.BROKEN)), End(7, CallRefused("no such method"))
BUSY = End(7, CallFailed("1000 calls run", end=CallEnd.ANSWERED))
NOT_A_BROKER = End(7, None, ErrorCode.INVALID_REQUEST)


class ScriptedPeer:
    """Ends calls as the script says, then answers no more; at its end time stands still."""

    def __init__(self, runtime: NodeRuntime, script: list[End], other: CallFailed | None) -> None:
        """other: how calls to the other broker fail; None: they are answered."""
        self._runtime = runtime
        self._other = other
        self._script = [*script]
        self.calls: list[tuple[int, int]] = []
        """hold_ms and timeout_ms of each."""

    async def call(
        self, endpoint: Endpoint, request: HoldRequest, timeout_ms: int
    ) -> CommandResponse:
        if endpoint == OTHER_AT:
            if self._other is not None:
                raise self._other
            return CommandResponse(ErrorCode.NONE)
        self.calls.append((request.hold_ms, timeout_ms))
        end = self._script.pop(0) if self._script else End(1_000_000)
        if end.after_ms is not None:
            await self._runtime.sleep(end.after_ms)
        else:
            await self._runtime.sleep(timeout_ms if end.failure else request.hold_ms)
        if end.failure is not None:
            raise end.failure
        return CommandResponse(end.error)


def watch(
    script: list[End],
    others: tuple[BrokerEndpoints, ...] = (OTHER,),
    other: CallFailed | None = None,
) -> tuple[list[str], ScriptedPeer, int]:
    """Return why the broker was suspected, each time; the calls; the tasks that are left."""
    kernel = Kernel()
    runtime = kernel.runtime("controller-1000")
    peer, suspected = ScriptedPeer(runtime, script, other), []
    scope = runtime.scope("watch")
    each = BrokerWatch(
        runtime,
        peer,  # type: ignore[arg-type]
        BROKER,
        lambda: (BROKER, *others),
        RETRY_MS,
        lambda _, why: suspected.append(why),
    )
    scope.spawn("watch", each.run())
    kernel.run_for(900_000)
    return suspected, peer, len(scope.tasks())


@pytest.mark.parametrize(
    ("script", "times"),
    [
        ([ANSWERED, BROKEN, BROKEN], 1),
        ([ANSWERED, BROKEN, SILENT], 1),
        ([ANSWERED, ANSWERED, ANSWERED, BROKEN, BROKEN], 1),
        ([ANSWERED, BROKEN, ANSWERED], 0),  # a reset
        ([ANSWERED, SILENT, BROKEN, BROKEN], 0),  # a keepalive after a cut
        ([ANSWERED, GIVEN_UP, GIVEN_UP, GIVEN_UP], 0),  # a command that was not acknowledged
        ([ANSWERED, BROKEN, GIVEN_UP], 1),
        ([ANSWERED, BUSY, BUSY, BROKEN, BUSY, BUSY], 0),
        ([ANSWERED, BUSY, BROKEN, BROKEN], 1),
        ([ANSWERED, SILENT, SILENT, SILENT], 0),
        ([BROKEN, BROKEN, BROKEN, BROKEN], 0),  # it has not answered yet
        ([ANSWERED, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN], 1),  # once for one death
        ([ANSWERED, BROKEN, BROKEN, BROKEN, ANSWERED, BROKEN, BROKEN], 2),
        ([ANSWERED, SILENT, ANSWERED, BROKEN, BROKEN], 1),
    ],
)
def test_a_broker_is_suspected_that_answered_broke_off_and_does_not_answer(
    script: list[End], times: int
) -> None:
    suspected, _, tasks = watch(script)
    assert suspected == [WHY] * times
    assert tasks == 1


@pytest.mark.parametrize("last", [REFUSED, NOT_A_BROKER])
@pytest.mark.parametrize("before", [[], [ANSWERED], [ANSWERED, BROKEN]])
def test_a_peer_that_does_not_know_the_request_is_watched_no_longer(
    before: list[End], last: End
) -> None:
    suspected, peer, tasks = watch([*before, last])
    assert (suspected, tasks) == ([], 0)
    assert len(peer.calls) == len(before) + 1


def test_calls_are_held_and_a_doubt_is_short() -> None:
    _, peer, _ = watch([ANSWERED, BROKEN, BROKEN])
    assert peer.calls[:4] == [
        (0, SILENT_MS), (HOLD_MS, HOLD_MS + SILENT_MS), (0, ANSWERS_WITHIN_MS), (0, SILENT_MS)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("others", "other", "times"),
    [
        ((OTHER,), None, 1),
        ((OTHER,), CallFailed("it cannot be reached"), 0),  # the controller is cut off
        ((OTHER,), BROKEN.failure, 0),
        ((OTHER,), BUSY.failure, 1),
        ((OTHER,), REFUSED.failure, 1),  # a broker of an earlier version
        ((), None, 1),
    ],
)
def test_a_controller_that_reaches_no_other_broker_suspects_nobody(
    others: tuple[BrokerEndpoints, ...], other: CallFailed | None, times: int
) -> None:
    suspected, _, _ = watch([ANSWERED, BROKEN, BROKEN], others, other)
    assert len(suspected) == times


def test_a_held_call_ends_before_a_kernel_gives_up_a_peer_that_was_cut_off() -> None:
    """gRPC sets TCP_USER_TIMEOUT to its keepalive's timeout: what a cut leaves unacknowledged
    breaks the connection so long after it was written, which is after the call began."""
    keepalive_timeout_ms = dict(_CHANNEL_OPTIONS)["grpc.keepalive_timeout_ms"]
    assert keepalive_timeout_ms > HOLD_MS + SILENT_MS
