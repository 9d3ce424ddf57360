"""What node code may rely on of any Rng: one suite for the seeded streams and the real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_adapters.random_source import RandomSource
from highwater_core.ports import Rng
from highwater_simulator.rng import SeededRng

MakeRng = Callable[[], Rng]


@pytest.fixture(params=["simulator", "adapter"])
def make_rng(request: pytest.FixtureRequest) -> MakeRng:
    """Return what makes the same random numbers each time."""
    if request.param == "simulator":
        return lambda: SeededRng(7)
    return lambda: RandomSource("node", entropy=b"seven")


def test_stream_begins_anew_when_it_is_asked_for_again_and_goes_on_when_it_is_kept(
    make_rng: MakeRng,
) -> None:
    rng = make_rng()
    assert rng.stream("a").hex_id() == rng.stream("a").hex_id()
    kept = rng.stream("a")
    assert len({kept.hex_id() for _ in range(100)}) == 100


def test_draws_of_one_stream_do_not_move_another(make_rng: MakeRng) -> None:
    plain, disturbed = make_rng(), make_rng()
    disturbed.stream("b").random()
    disturbed.random()
    assert plain.stream("a").hex_id() == disturbed.stream("a").hex_id()


def test_streams_of_other_names_differ(make_rng: MakeRng) -> None:
    rng = make_rng()
    ids = [rng.stream(name).hex_id() for name in ("a", "b")]
    assert len({*ids, rng.stream("a").stream("b").hex_id(), rng.hex_id()}) == 4


def test_draws_lie_in_their_ranges(make_rng: MakeRng) -> None:
    rng = make_rng()
    assert {rng.randrange(3, 6) for _ in range(200)} == {3, 4, 5}
    assert all(0 <= rng.random() < 1 for _ in range(200))
    assert len(rng.hex_id()) == 32
    assert int(rng.hex_id(), 16) >= 0
