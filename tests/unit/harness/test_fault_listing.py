"""The list of faults is complete, and has the reason for each that is impossible here."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from requests.exceptions import ReadTimeout
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.errors import ClusterStartFailed, HarnessError
from highwater.faults import capabilities
from highwater.faults.capabilities import Capabilities, Tried, probe, why_unsupported
from highwater.faults.done import NotDone
from highwater.faults.kind import Kind
from highwater.faults.kinds import KINDS, ROWS
from highwater.faults.means import DOES, Means
from highwater_chaos import faults as f

ALL_WORK: Capabilities = {means: Tried(means) for means in Means}


def test_each_kind_of_fault_has_one_row() -> None:
    assert sorted(f.fault_name(row.fault) for row in ROWS) == sorted(map(f.fault_name, f.FAULTS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f.fault_name(row.fault))
def test_each_kind_has_a_proven_means_that_ends_or_a_reason_why_not(
    row: Kind[f.Fault],
) -> None:
    told = (row.needs, row.mechanism, row.proof, row.ends)
    assert not any(told) if row.unsupported else all(told)
    assert why_unsupported(row.fault, ALL_WORK) == row.unsupported


def test_faults_that_containers_cannot_do_are_refused() -> None:
    rooms: Any = None
    with pytest.raises(NotDone, match="clock_rate"):
        KINDS[f.ClockRate].do(rooms, "1", f.ClockRate("broker-0", 1_000), lambda words: None)


@pytest.mark.parametrize("kind", f.FAULTS, ids=f.fault_name)
def test_each_kind_is_described(kind: type[f.Fault]) -> None:
    assert kind.__dict__.get("__doc__")


def test_a_kind_is_unsupported_where_a_means_that_it_needs_does_not_work() -> None:
    no_shares = {**ALL_WORK, Means.SHARES: Tried(Means.SHARES, "no numgen")}
    assert why_unsupported(f.LossyLink, no_shares) == "no numgen"
    assert why_unsupported(f.Cut, no_shares) == ""
    assert why_unsupported(f.Pause, no_shares) == ""
    no_freezer = {**ALL_WORK, Means.FREEZER: Tried(Means.FREEZER, "no freezer")}
    assert why_unsupported(f.Pause, no_freezer) == "no freezer"
    assert why_unsupported(f.Kill, no_freezer) == ""


def test_each_means_is_described() -> None:
    assert set(DOES) == set(Means)


class Made:
    """A container of a trial: it ends with this code, or raises the error."""

    def __init__(self, ends: int | Exception, said: bytes = b"") -> None:
        self.ends, self.said, self.is_removed = ends, said, False

    def start(self) -> None: ...

    def wait(self, timeout: float) -> dict[str, int]:
        if isinstance(self.ends, Exception):
            raise self.ends
        return {"StatusCode": self.ends}

    def logs(self) -> bytes:
        return self.said

    def remove(self, **_: bool) -> None:
        self.is_removed = True


LACKS = ClusterStartFailed("no library that moves clocks: no such file")


@pytest.mark.parametrize(
    ("library", "made", "why_not"),
    [
        (None, Made(0), ""),
        (None, Made(1, b"one\na wait of 0.05 s took 9 s\n"), "a wait of 0.05 s took 9 s"),
        (None, Made(ReadTimeout("it did not end")), "it did not end"),
        (LACKS, Made(0), str(LACKS)),
    ],
)
def test_a_trial_that_fails_in_any_way_says_how_and_leaves_no_container(
    library: Exception | None, made: Made, why_not: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*_: object) -> None:
        if library is not None:
            raise library

    monkeypatch.setattr(capabilities, "make_clock_library", make)
    run = SimpleNamespace(run_id="r", as_labels=lambda kind: {})
    engine: Any = SimpleNamespace(
        api=SimpleNamespace(inspect_container=lambda name: {"Image": "node"}),
        containers=SimpleNamespace(create=lambda *_, **__: made),
    )
    scratch: Any = SimpleNamespace(engine=engine, run=run, name="scratch", say=print)
    trial = capabilities._TRIALS[Means.MOVABLE_CLOCKS]
    tried = capabilities._try(Means.MOVABLE_CLOCKS, trial, scratch)
    assert tried.why_not == (f"{trial.failed}: {why_not}" if why_not else "")
    assert made.is_removed == (library is None)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_nothing_works_and_each_means_says_so() -> None:
    tried = probe()
    assert set(tried) == set(Means)
    assert all("no Docker engine answers" in each.why_not for each in tried.values())


@pytest.mark.usefixtures("no_engine")
def test_the_list_as_json_has_every_kind_and_every_means() -> None:
    result = CliRunner().invoke(make_app("faults"), ["faults", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert [each["fault"] for each in told["faults"]] == [f.fault_name(kind) for kind in f.FAULTS]
    assert not any(each["supported"] for each in told["faults"])
    assert all(each["because"] for each in told["faults"])
    assert {each["means"] for each in told["means"]} == {means.value for means in Means}


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--run", "one", "--all"], "not both"), (["--run", "one"], "no Docker engine answers")],
)
def test_heal_refuses_impossible_options(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(make_app("heal"), ["heal", *arguments])
    assert isinstance(result.exception, HarnessError)
    assert says in str(result.exception)
