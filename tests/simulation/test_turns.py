"""Equal deadlines of different nodes run in a drawn order, one node's in the order of requests."""

from __future__ import annotations

import functools

from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng


def steps_of_three_nodes(kernel: Kernel) -> list[tuple[str, int]]:
    """Run three nodes whose tasks all wake at the same instants."""
    steps: list[tuple[str, int]] = []

    async def work(name: str, first: int) -> None:
        for step in range(4):
            await kernel_runtimes[name].sleep(1)
            steps.append((name, first + step))

    kernel_runtimes = {name: kernel.runtime(name) for name in "abc"}
    for first in (0, 100):
        for name, runtime in kernel_runtimes.items():
            runtime.start("work", work(name, first))
    kernel.run_for(10)
    return steps


def of(name: str, steps: list[tuple[str, int]]) -> list[int]:
    return [number for who, number in steps if who == name]


def test_order_among_nodes_is_drawn_and_order_within_a_node_is_kept() -> None:
    asked_for = steps_of_three_nodes(Kernel())
    drawn = [steps_of_three_nodes(Kernel(ties=SeededRng(seed))) for seed in range(5)]
    assert len({tuple(steps) for steps in drawn}) == 5
    for steps in drawn:
        for name in "abc":
            assert of(name, steps) == of(name, asked_for)


def test_one_seed_draws_one_order() -> None:
    runs = [steps_of_three_nodes(Kernel(ties=SeededRng(7))) for _ in range(2)]
    assert runs[0] == runs[1]


def test_nothing_is_drawn_while_one_node_alone_has_something_to_do() -> None:
    rng, untouched = SeededRng(3), SeededRng(3)
    kernel = Kernel(ties=rng)
    runtime = kernel.runtime("node")

    async def work() -> None:
        for _ in range(5):
            await runtime.sleep(1)

    runtime.start("work", work())
    runtime.start("work", work())
    kernel.run_for(10)
    assert rng.hex_id() == untouched.hex_id()


def test_pipe_delivers_in_order_with_any_drawn_delays() -> None:
    for seed in range(10):
        kernel = Kernel(ties=SeededRng(seed))
        network = Network(kernel, SeededRng(seed))
        arrived: list[int] = []
        pipes = [network.pipe("a", "b", Plane.CLIENT) for _ in range(3)]
        for number in range(30):
            pipes[number % 3].send(functools.partial(arrived.append, number))
        kernel.run_for(10)
        for first in range(3):
            assert [n for n in arrived if n % 3 == first] == list(range(first, 30, 3))


def test_cancelled_timer_does_not_run_although_its_instant_has_come() -> None:
    kernel, ran = Kernel(ties=SeededRng(1)), []
    later = kernel.call_at(5, lambda: ran.append("later"))
    kernel.call_at(4, later.cancel)

    def first() -> None:
        ran.append("first")
        second.cancel()

    kernel.call_at(7, first)
    second = kernel.call_at(7, lambda: ran.append("second"))
    kernel.run_for(1)
    assert ran == ["first"]
