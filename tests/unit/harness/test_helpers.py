"""A helper container starts although the engine could not make its process at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from highwater.cluster.labels import Lease, Owner, RunLabels
from highwater.faults import helpers
from highwater.faults.helpers import NOT_MADE, START_TRIES, begin_helper

RUN = RunLabels("run", Lease.OWNED, Owner("here", 42, "12345"))


class Helper:
    id = "abc"

    def __init__(self, refusals: list[str]) -> None:
        self.refusals = refusals
        self.starts = 0
        self.is_removed = False

    def start(self) -> None:
        self.starts += 1
        if self.refusals:
            raise APIError("500", explanation=self.refusals.pop(0))

    def remove(self, **_: Any) -> None:
        self.is_removed = True


def begin(helper: Helper, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(helpers, "START_PAUSE_S", 0)
    engine: Any = SimpleNamespace(containers=SimpleNamespace(create=lambda *_, **__: helper))
    return begin_helper(engine, "image", RUN)


def test_a_process_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = Helper([f"failed to create shim task: {NOT_MADE}: EOF"] * (START_TRIES - 1))
    assert begin(helper, monkeypatch) == helper.id
    assert (helper.starts, helper.is_removed) == (START_TRIES, False)


@pytest.mark.parametrize(
    ("refusals", "starts"),
    [([f"{NOT_MADE}: EOF"] * START_TRIES, START_TRIES), (["no such network"], 1)],
)
def test_any_other_refusal_and_the_last_one_are_reported(
    monkeypatch: pytest.MonkeyPatch, refusals: list[str], starts: int
) -> None:
    helper = Helper(list(refusals))
    with pytest.raises(APIError):
        begin(helper, monkeypatch)
    assert (helper.starts, helper.is_removed) == (starts, True)
