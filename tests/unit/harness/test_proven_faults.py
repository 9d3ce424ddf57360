"""A test's faults by name: bad names and fields, and whose intents are written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.commands import cut
from highwater.errors import HarnessError
from highwater.faults.intents import IntentLog
from highwater.runs.chaos.single import fault_of, parse_fault
from highwater.runs.judged import proven_faults
from highwater.runs.judged.faults_by_hand import FaultsByHand
from highwater_chaos import faults as f
from highwater_checker.run_folder.intents import Phase, read_intents


def test_a_fault_is_made_of_its_kind_and_fields() -> None:
    cut = fault_of("cut", {"source": "broker-0", "target": "any", "plane": "replication"})
    assert cut == f.Cut("broker-0", "any", "replication")
    assert fault_of("kill", {"node": "leader of t-0"}) == f.Kill("leader of t-0")


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("cutt", {}, "cutt"),
        ("cut", {"source": "broker-0"}, "target"),
        ("kill", {"node": 0}, "str"),
        ("kill", {"node": "broker-0", "fault": "pause", "disk": "gone"}, "disk"),
    ],
)
def test_a_fault_that_is_none_is_refused_by_name(
    kind: str, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(HarnessError, match=said):
        fault_of(kind, fields)


def test_while_another_writes_the_intents_the_clusters_functions_write_none(tmp_path: Path) -> None:
    """A start that is written twice would be one start too many for the judge."""
    path = tmp_path / "intent.jsonl"
    log = IntentLog(path, lambda: 7)
    by_hand = FaultsByHand(log)
    with by_hand.quiet():
        with by_hand.doing(1, f.Kill("broker-1")):
            pass
        with by_hand.quiet(), by_hand.starting(1):
            pass
        with by_hand.starting(1):
            pass
    assert by_hand.still_act == set()
    with by_hand.doing(2, f.Kill("broker-2")):
        pass
    assert by_hand.still_act == {2}
    by_hand.end()
    assert [each.phase for each in read_intents(path)] == [Phase.INTENDED, Phase.ACTING]


class _NotUndone:
    """Faults of which the end is not proven."""

    def __init__(self, *_: Any) -> None:
        self.problems: tuple[str, ...] = ()

    def done(self, *_: Any) -> Any:
        return SimpleNamespace(revert=self._revert)

    def _revert(self) -> None:
        self.problems += ("fault 1 was not undone",)


def test_a_fault_that_is_not_undone_fails_its_block_and_hides_no_other_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proven_faults, "ContainerFaults", _NotUndone)
    monkeypatch.setattr(proven_faults, "refuse_impossible", lambda cluster, fault: None)
    monkeypatch.setattr(proven_faults, "do_now", lambda cluster, faults, fault: faults.done())
    log = IntentLog(tmp_path / "intent.jsonl", lambda: 7)
    faults = proven_faults.ProvenFaults(cast(Any, None), log, FaultsByHand(log))
    with pytest.raises(HarnessError, match="fault 1 was not undone"), faults.acting(f.Kill("b")):
        pass
    with pytest.raises(ZeroDivisionError) as raised, faults.acting(f.Kill("b")):
        raise ZeroDivisionError
    assert raised.value.__notes__ == ["fault 1 was not undone"]
    log.close()


def test_a_fault_by_hand_acts_from_its_begin_on(tmp_path: Path) -> None:
    """Found: a clean stop takes seconds, and the leaders change within them."""
    now_ns = [5]
    path = tmp_path / "intent.jsonl"
    log = IntentLog(path, lambda: now_ns[0])
    with FaultsByHand(log).doing(0, f.Terminate("broker-0")):
        now_ns[0] = 9
    log.close()
    (acting,) = (each for each in read_intents(path) if each.phase is Phase.ACTING)
    assert (acting.acted_ns, acting.at_ns) == (5, 9)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["broker-0"], f.Isolate("broker-0")),
        (["broker-0", "--for", "5s"], f.Isolate("broker-0", 5_000)),
        (["broker-0", "any"], f.Cut("broker-0", "any", "replication", both_ways=True)),
        (
            ["leader of t-0", "broker-1", "--plane", "control", "--one-way", "--for", "2s"],
            f.Cut("leader of t-0", "broker-1", "control", for_ms=2_000),
        ),
    ],
)
def test_the_command_cut_cuts_one_node_off_or_two_from_each_other(
    monkeypatch: pytest.MonkeyPatch, words: list[str], fault: f.Fault
) -> None:
    done: list[f.Fault] = []
    monkeypatch.setattr(cut, "act", lambda fault, run, runs, *, as_json: done.append(fault))
    assert CliRunner().invoke(make_app("cut"), ["cut", *words]).exit_code == 0
    assert done == [fault]


@pytest.mark.parametrize("option", ["--one-way", "--plane=control"])
def test_options_of_a_cut_between_two_need_the_second_node(option: str) -> None:
    result = CliRunner().invoke(make_app("cut"), ["cut", "broker-0", option])
    assert result.exit_code == 2
    assert "OTHER" in result.output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["kill", "broker-0"], f.Kill("broker-0")),
        (["pause", "leader of t-0", "for=1.5s"], f.Pause("leader of t-0", 1_500)),
        (["pause", "node=broker-0", "for_ms=20"], f.Pause("broker-0", 20)),
        (
            ["cut", "source=broker-0", "target=any", "plane=control", "both_ways=true"],
            f.Cut("broker-0", "any", "control", both_ways=True),
        ),
        (['{"fault": "kill", "node": "broker-0"}'], f.Kill("broker-0")),
    ],
)
def test_a_command_lines_words_are_a_fault(words: list[str], fault: f.Fault) -> None:
    assert parse_fault(words) == fault


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kil", "broker-0"], "kil"),
        (["kill"], "node"),
        (["kill", "broker-0", "broker-1"], "node is given twice"),
        (["kill", "broker-0", "for=5"], "length of time"),
        (["kill", "broker-0", "for=5s", "for_ms=5"], "for_ms is given twice"),
        (["kill", "broker-0", "within=5s"], "within"),
        (["cut", "source=a", "target=b", "plane=control", "both_ways=perhaps"], "both_ways"),
        (['{"fault": "kill", "node": "broker-0"}', "for=5s"], "follows the JSON"),
        (["{"], "is no fault"),
        ([""], "no fault ''"),
    ],
)
def test_words_that_are_no_fault_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        parse_fault(words)
