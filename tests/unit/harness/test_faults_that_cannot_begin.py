"""A run on containers whose faults cannot be made ready reports why, and undoes everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from highwater.errors import ImageBuildFailed
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.run_folder import RunFolder
from highwater.runs.clock import RunClock
from highwater.runs.plans import in_containers
from highwater_chaos.plan import Plan


class Unready:
    """Faults that cannot be done here."""

    def __init__(self, why: Exception) -> None:
        self.why = why
        self.healed = 0

    def get_ready(self, faults: Iterable[object]) -> None:
        raise self.why

    def heal_all(self) -> list[str]:
        self.healed += 1
        return []

    def strange_start_of_zookeeper(self) -> str:
        return ""


class Quiet(in_containers._Run):
    """A run without a cluster."""

    def __init__(self, folder: RunFolder) -> None:
        self._plan = Plan(seed=1)
        self._folder = folder
        self._requirements = []
        self._clock = RunClock()
        self._cluster: Any = None


@pytest.mark.parametrize(
    "why",
    [NotInNamespace("no"), NotProven("no"), ImageBuildFailed("no"), RuntimeError("a bug")],
    ids=lambda why: type(why).__name__,
)
def test_a_begun_fault_is_undone_by_any_error(
    why: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    faults = Unready(why)
    monkeypatch.setattr(in_containers, "ContainerFaults", lambda *_: faults)
    run = Quiet(RunFolder(tmp_path / "run"))
    load: Any = None
    with pytest.raises(type(why)):
        run._do_faults(load)
    assert faults.healed == 1
    assert "every fault was undone" in [each.name for each in run._requirements]


@pytest.mark.parametrize("kind", [NotInNamespace, NotProven, ImageBuildFailed])
def test_faults_that_cannot_be_made_ready_end_a_run_with_an_unmet_requirement(
    kind: type[Exception],
) -> None:
    assert issubclass(kind, in_containers._STOPPED_BY)
