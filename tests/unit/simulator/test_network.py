"""When a simulated pipe is whole: a message that is sent now arrives in time."""

from __future__ import annotations

from highwater_simulator.kernel import Kernel
from highwater_simulator.network import EvenLatency, Link, Pipe
from highwater_simulator.rng import SeededRng


def test_a_pipe_is_late_as_long_as_an_earlier_send_is() -> None:
    """A heartbeat that overtook a late request kept a session alive for 15 s (seed 1000812)."""
    kernel = Kernel()
    link = Link(kernel, SeededRng(1), EvenLatency())
    pipe = Pipe(link)
    pipe.send(lambda: None)
    assert pipe.is_whole
    link.slow_down(5_000, 0)
    pipe.send(lambda: None)
    link.slow_down(0, 0)
    assert link.is_whole
    assert not pipe.is_whole
    kernel.run_until(lambda: pipe.is_whole, 10_000)
    assert kernel.time_ns >= 5_000_000_000
