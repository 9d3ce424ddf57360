"""A memory limit that connections share: bytes that count, connections that wait or are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from highwater_adapters import memory_quota
from highwater_adapters.memory_quota import FREE_BYTES, MemoryQuota

LIMIT = 1_000_000


class HolderOfTest:
    def __init__(self, quota: MemoryQuota, address: str) -> None:
        self.quota = quota
        self.address = address
        self.is_amid_frame = True
        self.kept_bytes = 0
        self.turns = 0
        self.why_shed = ""

    def hold(self, held_bytes: int) -> None:
        self.quota.hold(self, held_bytes)

    def have_room(self) -> None:
        self.turns += 1

    def give_back(self) -> None:
        if self.kept_bytes:
            self.kept_bytes = 0
            self.hold(0)

    def shed(self, why: str) -> None:
        self.why_shed = why


def run(body: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await body

    asyncio.run(main())


def holders(count: int) -> tuple[MemoryQuota, list[HolderOfTest]]:
    quota = MemoryQuota(LIMIT)
    return quota, [HolderOfTest(quota, f"10.0.0.{number}") for number in range(count)]


async def eventually_turned(holder: HolderOfTest) -> None:
    while not holder.turns:  # noqa: ASYNC110 (a poll with a bound)
        await asyncio.sleep(0.001)


def test_held_bytes_are_added_up_and_a_little_is_free() -> None:
    async def body() -> None:
        quota, (a, b, c) = holders(3)
        a.hold(FREE_BYTES)
        assert quota.used_bytes == 0
        a.hold(100_000)
        b.hold(200_000)
        a.hold(150_000)
        assert quota.used_bytes == 350_000
        quota.forget(b)
        quota.forget(c)
        assert quota.used_bytes == 150_000
        a.hold(10)
        assert quota.used_bytes == 0

    run(body())


def test_without_a_limit_nobody_waits() -> None:
    quota = MemoryQuota()
    holder = HolderOfTest(quota, "10.0.0.1")
    quota.hold(holder, 10**12)
    assert quota.may_grow(holder, 10**12)


def test_memory_that_is_only_kept_is_given_back_when_another_needs_it() -> None:
    async def body() -> None:
        quota, (a, b) = holders(2)
        a.kept_bytes = 900_000
        a.hold(900_000)
        assert quota.may_grow(b, 200_000)
        assert quota.used_bytes == 0

    run(body())


def test_one_at_a_time_goes_beyond_the_limit_until_its_frame_is_whole() -> None:
    async def body() -> None:
        quota, (a, b, c) = holders(3)
        for each in (a, b, c):
            each.hold(300_000)
        assert quota.may_grow(a, 300_000)
        a.hold(600_000)
        assert quota.may_grow(a, 600_000)
        assert not quota.may_grow(b, 300_000)
        assert not quota.may_grow(c, 300_000)
        assert quota.is_short
        a.is_amid_frame = False
        a.hold(590_000)
        await asyncio.sleep(0)
        assert (b.turns, c.turns) == (1, 0)
        assert quota.may_grow(b, 300_000)
        quota.forget(b)
        quota.forget(a)
        await asyncio.sleep(0)
        assert (b.turns, c.turns) == (1, 1)
        assert not quota.is_short

    run(body())


def test_connections_that_hold_the_most_are_closed_when_one_waits_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_quota, "PATIENCE_S", 0.001)

    async def body() -> None:
        quota, everyone = holders(5)
        for number, each in enumerate(everyone):
            each.hold(150_000 + 50_000 * number)
        *_, large, largest = everyone
        assert quota.may_grow(everyone[0], 300_000)
        assert not quota.may_grow(everyone[1], 300_000)
        await eventually_turned(everyone[1])
        assert largest.why_shed == (
            "it holds 350000 bytes of the 1000000 that all may hold, and its address 350000"
        )
        assert large.why_shed
        assert not any(each.why_shed for each in everyone[:3])

    run(body())


def crowd(quota: MemoryQuota, address: str) -> list[HolderOfTest]:
    """Return thirteen who hold a little more than all may hold together, each of it a little."""
    many = [HolderOfTest(quota, address) for _ in range(13)]
    for each in many:
        each.hold(80_000)
    return many


def test_an_address_that_holds_the_most_by_many_connections_is_shed_from_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_quota, "PATIENCE_S", 0.001)

    async def body() -> None:
        quota, (honest, late, beyond) = holders(3)
        honest.hold(300_000)
        many = crowd(quota, "10.0.0.9")
        assert quota.may_grow(beyond, 300_000)
        assert not quota.may_grow(late, 200_000)
        await eventually_turned(late)
        assert not honest.why_shed
        shed = [each for each in many if each.why_shed]
        assert shed == many[: len(shed)]  # whoever holds on the longest
        assert 0 < len(shed) < len(many)
        assert quota.used_bytes <= 750_000

    run(body())


def test_of_one_address_the_connection_that_held_longest_is_closed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind one address (a gateway, say) there may be clients beside the one that holds memory."""
    monkeypatch.setattr(memory_quota, "PATIENCE_S", 0.001)

    async def body() -> None:
        quota, (honest, late, beyond) = holders(3)
        honest.hold(300_000)
        many = crowd(quota, honest.address)
        assert quota.may_grow(beyond, 300_000)
        assert not quota.may_grow(late, 200_000)
        honest.hold(0)  # its request has arrived whole, and the next one begins
        honest.hold(300_000)
        await eventually_turned(late)
        assert not honest.why_shed
        assert many[0].why_shed

    run(body())


class CountedAddress(str):
    """An address that counts how often anything looks it up or compares it."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        CountedAddress.looks += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        CountedAddress.looks += 1
        return str.__lt__(self, other)

    def __hash__(self) -> int:
        CountedAddress.looks += 1
        return str.__hash__(self)


def test_to_shed_from_thousands_of_addresses_looks_a_few_times_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CountedAddress, "looks", 0)

    async def body() -> None:
        quota = MemoryQuota(100 * 5_000)
        many = [HolderOfTest(quota, CountedAddress(number)) for number in range(5_000)]
        for each in many:
            each.hold(70_000)
        quota._shed()
        assert sum(not each.why_shed for each in many) == 5

    run(body())
    assert CountedAddress.looks < 100 * 5_000, "a look at all for each that is closed is 5,000 each"


def test_answers_of_twice_the_limit_are_too_much_at_once() -> None:
    async def body() -> None:
        quota, (a, b, c) = holders(3)
        a.hold(1_500_000)
        b.hold(400_000)
        c.hold(200_000)
        await asyncio.sleep(0)
        assert a.why_shed
        assert not b.why_shed
        assert quota.used_bytes == 600_000

    run(body())
