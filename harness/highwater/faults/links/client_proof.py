"""Proves a cut between brokers and clients: a client is answered before, not during, and after.

Canaries go between nodes only. So a real client must show that brokers are cut off from clients.
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
    """A broker to which a client sends requests.

    asks: sends one request, and returns whether the broker answered it.
    why_not: returns another cause that may keep the broker from answering clients now, or "".
    answers_harness: returns whether the broker answers the harness on the control plane, which no
        fault cuts.
    """

    name: str
    asks: Callable[[], bool]
    why_not: Callable[[], str]
    answers_harness: Callable[[], bool]


def cut_from_clients(
    brokers: Sequence[AskedBroker], for_ns: int | None, cut: Callable[[], Done]
) -> Done:
    """Cut these brokers off from clients; the proofs of the cut and of its end name each broker.

    for_ns: how long the cut acts; None until it is undone.
    cut: makes the cut; its errors are passed on.

    Raises:
        NotDone: clients cannot reach a broker even before the cut, or still reach it during it.
        NeverHappened: no client sent a request while the cut acted. The revert raises it when
            clients are not answered again.
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
            done.revert()  # a cut that is not proven must not go on
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
    """Wait for a request while the cut acts, and return in words that none was answered.

    Raises:
        NotDone: the broker answered one.
        NeverHappened: no request was sent in time.
    """
    attempts: list[Attempt] = eventually(
        lambda: probe.between(acted_ns, end_ns),
        within=ASKS_WITHIN_S,
        what=f"a client asks {name} while it is cut off",
    )
    answered = sum(each.answered for each in attempts)
    prove(
        not answered, f"{answered} of {len(attempts)} requests of a client to {name} were answered"
    )
    return f"{len(attempts)} requests of a client to {name}, no answer"


def _await_answer_again(broker: AskedBroker) -> str:
    """Wait for an answer, and return in words that it came, or another cause that prevents one."""

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
