"""The page of invariants: each has somebody who judges it."""

from __future__ import annotations

from scripts.invariants_page import NAMES, judges


def test_every_invariant_has_a_check_of_files_or_the_simulator() -> None:
    idle = [
        name
        for name, each in judges().items()
        if not (each.checks or each.after_every_event or each.at_the_end)
    ]
    assert idle == []
    assert tuple(judges()) == NAMES


def test_a_check_that_names_invariants_stands_at_these_alone() -> None:
    by_name = judges()
    assert by_name["I3"].checks == ["replicas are byte-equal (I3)"]
    assert "replicas are byte-equal (I3)" not in by_name["I4"].checks
    assert by_name["aborted-read"].checks == by_name["duplicate"].checks
    assert by_name["unseen"].checks == ["records read are stored, and stored records are read (I9)"]
    assert by_name["L7"].at_the_end
    assert not by_name["L7"].after_every_event
