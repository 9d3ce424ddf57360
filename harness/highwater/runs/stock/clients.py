"""The interface of stock clients, for all libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from highwater_chaos.plan import Producer as PlannedProducer


class NeverSent(Exception):
    """The client refused a record at once; the exception's text is the error's name."""


@dataclass(frozen=True, slots=True)
class Read:
    """One record that was read; or, where offset is -1, an error by its name."""

    partition: int
    offset: int
    value: str
    error: str = ""


OnDone = Callable[[int, str], None]
"""Gets a record's offset, -1 if unknown, and its error's name, "" for none; in any thread."""


class StockProducer(Protocol):
    """A producer; only its own thread calls it."""

    @property
    def sends_once(self) -> bool:
        """Whether it certainly sends each record once: no library tells how often it did."""

    def send(self, topic: str, partition: int, value: str, on_done: OnDone) -> None:
        """Give the client a record; on_done is called once.

        Raises:
            NeverSent: the client refused it; on_done is not called.
        """

    def work(self, within_s: float) -> None:
        """Let the client call on_done for finished records; wait so long for the first of them."""

    def finish(self, within_s: float) -> None:
        """Return once every record has its outcome, or after that time."""


class StockConsumer(Protocol):
    """A consumer of all partitions of one topic from their start; only its own thread calls it."""

    def poll(self, timeout_s: float) -> Sequence[Read]:
        """Return records, in each partition's order."""

    def end_offset(self, partition: int) -> int | None:
        """Return the partition's high watermark from its leader, None without an answer."""

    def close(self) -> None: ...


class Library(Protocol):
    """Makes clients."""

    @property
    def version(self) -> str: ...

    def producer(self, bootstrap: str, settings: PlannedProducer) -> StockProducer: ...

    def consumer(self, bootstrap: str, topic: str, partitions: int) -> StockConsumer: ...
