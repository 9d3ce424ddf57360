"""A node's own port for Prometheus: its answers, and clients that are silent, rude or too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from highwater_adapters import metrics_port
from highwater_adapters.metrics_port import MAX_CONNECTIONS, MAX_HEAD_BYTES, MetricsPort
from highwater_adapters.peers import AllowedPeers
from highwater_adapters.request_times import RequestTimes
from highwater_core.networks import parse_networks
from highwater_core.prometheus import CONTENT_TYPE
from highwater_wire.kafka.messages import FetchRequest, ProduceRequest

WITHIN_S = 60
Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def numbered() -> Iterator[str]:
    yield from ("one 1\n", "two 2\n", "three 3\n")


def served(
    work: Callable[[Open], Awaitable[None]],
    make_text: Callable[[], str],
    peers: AllowedPeers | None = None,
) -> list[str]:
    """Let work meet the port; return the bugs that the port reported."""
    bugs: list[str] = []

    async def main() -> None:
        port = MetricsPort(
            make_text,
            lambda where, error: bugs.append(f"{where}: {error}"),
            peers or AllowedPeers(),
        )
        await port.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(WITHIN_S):
                await work(lambda: asyncio.open_connection("127.0.0.1", port.port))
        finally:
            await port.stop()

    asyncio.run(main())
    return bugs


async def answer_to(request: bytes, open_connection: Open) -> bytes:
    reader, writer = await open_connection()
    writer.write(request)
    found = await read_to_the_end(reader)
    writer.close()
    return found


async def read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    """Return what came; a reset is as good an end as any other."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics HTTP/1.1", "200 OK", "one 1\n"),
        ("GET /metrics?name[]=up HTTP/1.0", "200 OK", "one 1\n"),
        ("HEAD /metrics HTTP/1.1", "200 OK", ""),
        ("GET / HTTP/1.1", "404 Not Found", ""),
        ("GET /metricsandmore HTTP/1.1", "404 Not Found", ""),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", ""),
        ("", "405 Method Not Allowed", ""),
        ("\x00\xff /metrics", "405 Method Not Allowed", ""),
    ],
)
def test_one_path_is_answered(request_line: str, status: str, body: str) -> None:
    async def work(open_connection: Open) -> None:
        request = request_line.encode("latin-1") + b"\r\nHost: broker-0\r\n\r\n"
        head, _, found = (await answer_to(request, open_connection)).decode().partition("\r\n\r\n")
        first, *fields = head.split("\r\n")
        assert (first, found) == (f"HTTP/1.1 {status}", body)
        assert f"Content-Type: {CONTENT_TYPE}" in fields
        if status.startswith("200"):
            assert "Content-Length: 6" in fields

    assert served(work, lambda: "one 1\n") == []


@pytest.mark.parametrize(("fresh_s", "second"), [(0.0, b"two 2\n"), (1e9, b"one 1\n")])
def test_the_text_is_made_anew_once_it_is_no_longer_fresh(
    fresh_s: float, second: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make it stops the node: many that ask at once do not stop it for long."""
    monkeypatch.setattr(metrics_port, "FRESH_S", fresh_s)
    texts = numbered()

    async def work(open_connection: Open) -> None:
        found = [await answer_to(b"GET /metrics \r\n\r\n", open_connection) for _ in range(2)]
        assert [each.rpartition(b"\r\n")[2] for each in found] == [b"one 1\n", second]

    assert served(work, lambda: next(texts)) == []


def test_a_client_that_leaves_in_its_request_or_before_its_answer_harms_nothing() -> None:
    async def work(open_connection: Open) -> None:
        for sent in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
            for _ in range(2 * MAX_CONNECTIONS):  # each gives its place back
                _, writer = await open_connection()
                writer.write(sent)
                writer.transport.abort()
                await asyncio.sleep(0)
        while True:  # the last ones' places are not yet free
            if (await answer_to(b"GET /metrics \r\n\r\n", open_connection)).endswith(b"1\n"):
                return
            await asyncio.sleep(0.01)

    assert served(work, lambda: "one 1\n" * 300_000) == []


def test_a_head_without_end_is_not_kept() -> None:
    async def work(open_connection: Open) -> None:
        assert await answer_to(b"x" * (4 * MAX_HEAD_BYTES), open_connection) == b""

    assert served(work, lambda: "one 1\n") == []


def test_clients_beyond_the_most_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "WITHIN_S", 2 * WITHIN_S)  # no silent one is closed

    async def work(open_connection: Open) -> None:
        opened = [await open_connection() for _ in range(MAX_CONNECTIONS + 5)]
        too_many = [reader for reader, _ in opened[MAX_CONNECTIONS:]]
        assert [await read_to_the_end(reader) for reader in too_many] == [b""] * 5
        assert not any(reader.at_eof() for reader, _ in opened[:MAX_CONNECTIONS])
        for _, writer in opened:
            writer.close()

    assert served(work, lambda: "one 1\n") == []


def test_strangers_are_closed_at_once() -> None:
    async def work(open_connection: Open) -> None:
        assert await answer_to(b"GET /metrics \r\n\r\n", open_connection) == b""

    elsewhere = AllowedPeers(parse_networks("10.250.0.0/16"))
    assert served(work, lambda: "one 1\n", elsewhere) == []


def test_silent_clients_are_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "WITHIN_S", 0.5)

    async def work(open_connection: Open) -> None:
        opened = [await open_connection() for _ in range(MAX_CONNECTIONS)]
        assert [await read_to_the_end(reader) for reader, _ in opened] == [b""] * len(opened)
        for _, writer in opened:
            writer.close()
        assert (await answer_to(b"GET /metrics \r\n\r\n", open_connection)).endswith(b"1\n")

    assert served(work, lambda: "one 1\n") == []


def test_a_bug_in_the_text_is_reported() -> None:
    def make_text() -> str:
        raise ZeroDivisionError("a bug")

    async def work(open_connection: Open) -> None:
        assert await answer_to(b"GET /metrics \r\n\r\n", open_connection) == b""

    assert served(work, make_text) == ["metrics: a bug"]


def test_a_port_that_is_taken_is_an_operating_error() -> None:
    async def main() -> None:
        first, second = (MetricsPort(str, lambda _, error: None, AllowedPeers()) for _ in range(2))
        await first.start("127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            await second.start("127.0.0.1", first.port)
        await second.stop()
        await first.stop()

    asyncio.run(main())


def test_requests_are_counted_by_kind_and_fetches_by_who_sent_them() -> None:
    times = RequestTimes()
    for listener, took_s in (("CLIENT", 0.0004), ("EXTERNAL", 0.0004), ("CLIENT", 0.0004)):
        times.add(ProduceRequest, listener, took_s)
    times.add(FetchRequest, "CLIENT", 0.5)
    times.add(FetchRequest, "REPLICATION", 0.25)
    times.add(FetchRequest, "REPLICATION", 0.25)
    assert times.counters() == (
        ("requests.FetchConsumer", 1),
        ("request_ms.FetchConsumer", 500),
        ("requests.FetchFollower", 2),
        ("request_ms.FetchFollower", 500),
        ("requests.Produce", 3),
        ("request_ms.Produce", 1),
    )
