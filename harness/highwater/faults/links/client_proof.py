"""Whether clients notice a cut: brokers answer them before it, not while it acts, and again after.

Canaries go from node to node alone; what is cut between brokers and clients a real client shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from highwater.faults.done import Done, NotDone, prove
from highwater.faults.links.client_probe import Attempt, ClientProbe
from highwater.faults.links.watch import NEVER_NS
from highwater.waiting import NeverHappened, eventually

ANSWERS_BEFORE_WITHIN_S = 2.0
ASKS_WITHIN_S = 5.0
ANSWERS_AGAIN_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class AskedBroker:
    """A broker that a client asks.

    asks: whether it answers the client. why_not: why it need not now, for what else acts on it;
    "" when it must. answers_harness: whether it does on the control plane, which is never cut from
    the harness.
    """

    name: str
    asks: Callable[[], bool]
    why_not: Callable[[], str]
    answers_harness: Callable[[], bool]


def cut_from_clients(
    brokers: Sequence[AskedBroker], for_ns: int | None, cut: Callable[[], Done]
) -> Done:
    """Cut these brokers off from clients; its proof, and that of its revert, tell what clients met.

    for_ns: how long it acts, None until it is taken back. cut: raises what it may.

    Raises:
        NotDone: clients cannot reach one of them anyway, or reach it still.
        NeverHappened: no client asked while it acted; by the revert: one is never answered again.
    """
    if not brokers:
        return cut()
    for broker in brokers:
        _await_answer_before(broker)
    with ExitStack() as stack:
        probes = {each.name: stack.enter_context(ClientProbe(each.asks)) for each in brokers}
        done = cut()
        try:
            acted_ns = done.acted_ns or 0
            end_ns = NEVER_NS if for_ns is None else acted_ns + for_ns
            met = [_await_silence(probes[name], name, acted_ns, end_ns) for name in probes]
        except BaseException:
            done.revert()  # what is not seen to act must not act unseen
            raise

    def revert() -> str:
        return "; ".join([done.revert(), *map(_await_answer_again, brokers)])

    return replace(done, proof="; ".join([done.proof, *met]), revert=revert)


def _await_answer_before(broker: AskedBroker) -> None:
    try:
        eventually(broker.asks, within=ANSWERS_BEFORE_WITHIN_S, what="a client is answered")
    except NeverHappened as error:
        raise NotDone(f"clients cannot reach {broker.name} anyway: {error}") from error


def _await_silence(probe: ClientProbe, name: str, acted_ns: int, end_ns: int) -> str:
    """Tell how many questions were asked while it acted, once there was one."""
    attempts: list[Attempt] = eventually(
        lambda: probe.between(acted_ns, end_ns),
        within=ASKS_WITHIN_S,
        what=f"a client asks {name} while it is cut off",
    )
    answered = sum(each.answered for each in attempts)
    prove(
        not answered, f"{answered} of {len(attempts)} questions of a client to {name} were answered"
    )
    return f"{len(attempts)} questions of a client to {name}, no answer"


def _await_answer_again(broker: AskedBroker) -> str:
    """Tell that a client is answered again, or what else keeps the broker from it."""

    def seen() -> str:
        return f"{broker.name} answers a client again" if broker.asks() else broker.why_not()

    try:
        return str(
            eventually(
                seen,
                within=ANSWERS_AGAIN_WITHIN_S,
                what=f"{broker.name} answers a client again",
            )
        )
    except NeverHappened:
        if broker.answers_harness():
            raise
        return f"{broker.name} answers neither clients nor the harness"
