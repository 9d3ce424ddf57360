"""Which of a container's processes are stopped, from the engine's list of them."""

from __future__ import annotations

import pytest

from highwater.faults.stopping import are_stopped, states_in

TITLES = ["PID", "STAT"]


def test_the_init_is_left_out_and_flags_after_the_state_too() -> None:
    rows = [["21267", "Ss"], ["21302", "Tl"], ["21309", "T"]]
    assert states_in(TITLES, rows, "21267") == ("T", "T")


@pytest.mark.parametrize(
    ("states", "are"),
    [(("T",), True), (("T", "T"), True), (("T", "S"), False), (("S",), False), ((), False)],
)
def test_a_node_is_stopped_when_all_of_it_is(states: tuple[str, ...], are: bool) -> None:
    assert are_stopped(states) is are
