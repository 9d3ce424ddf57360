"""Plans that are kept and mutated: limits of a mutation, and that all of it repeats."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, encode_plan, problems_of
from highwater_core.config import Preset
from highwater_simulator.budget import is_losing
from highwater_simulator.feedback import CORPUS_SIZE_MAX, Corpus, mutate
from highwater_simulator.generate import Draw, Family, generate
from highwater_simulator.rng import SeededRng


def draw_of(seed: int) -> Draw:
    return Draw(SeededRng(seed).stream("test"))


def plans(count: int, family: Family = Family.DISKS) -> list[Plan]:
    return [generate(seed, Preset.FENCED, family) for seed in range(count)]


@pytest.mark.parametrize("family", list(Family))
def test_a_changed_plan_can_run_and_has_the_donors_seed(family: Family) -> None:
    kept, *donors = plans(60, family)
    for number, donor in enumerate(donors):
        changed = mutate(kept, donor, draw_of(number))
        assert problems_of(changed) == []
        assert changed.seed == donor.seed
        assert changed.topology == kept.topology
        assert [step.at_ms for step in changed.steps] == sorted(s.at_ms for s in changed.steps)


def test_changes_change_the_steps() -> None:
    kept, *donors = plans(40)
    changed = [mutate(kept, donor, draw_of(donor.seed)).steps for donor in donors]
    assert sum(steps != kept.steps for steps in changed) > len(donors) // 2


def test_in_a_changed_plan_at_most_one_disk_loses_data() -> None:
    def losing(plan: Plan) -> int:
        return len({getattr(step.do, "node", "") for step in plan.steps if is_losing(step.do)})

    able = [plan for plan in plans(120) if losing(plan) == 1]
    changed = [mutate(kept, donor, draw_of(kept.seed)) for kept, donor in itertools.pairwise(able)]
    assert len(changed) > 20
    assert {losing(plan) for plan in changed} == {0, 1}


def test_a_corpus_keeps_a_plan_for_a_new_mark_or_a_new_magnitude_of_one() -> None:
    corpus = Corpus(1)
    first, second, third, fourth = plans(4)
    assert corpus.note(first, Counter(became_leader=2))
    assert not corpus.note(second, Counter(became_leader=3))
    assert corpus.note(third, Counter(became_leader=4))
    assert corpus.note(fourth, Counter(became_leader=4, log_truncated=1))
    assert len(corpus) == 3


def test_a_corpus_is_bounded_and_forgets_plans_with_common_marks() -> None:
    corpus = Corpus(1)
    for number, plan in enumerate(plans(CORPUS_SIZE_MAX + 8)):
        corpus.note(plan, Counter({"common": 1, f"rare {number}": 1}))
    assert len(corpus) == CORPUS_SIZE_MAX


def test_changed_plans_keep_faults_of_brokers_on_brokers() -> None:
    kept, *donors = plans(80)
    for donor in donors:
        for step in mutate(kept, donor, draw_of(donor.seed)).steps:
            if isinstance(
                step.do, f.PowerLoss | f.DiskFull | f.DiskErrors | f.SlowDisk | f.FlipBit
            ):
                assert "controller" not in step.do.node


def test_an_empty_corpus_changes_nothing() -> None:
    corpus = Corpus(1)
    assert [corpus.maybe_mutate(plan) for plan in plans(10)] == [None] * 10


def test_equal_seeds_and_notes_give_equal_changes() -> None:
    def changes(seed: int) -> list[bytes]:
        corpus, found = Corpus(seed), []
        for plan in plans(20):
            changed = corpus.maybe_mutate(plan)
            found.append(b"" if changed is None else encode_plan(changed))
            corpus.note(changed or plan, Counter({f"steps {len(plan.steps)}": 1}))
        return found

    assert changes(1) == changes(1)
    assert changes(1) != changes(2)
    assert sum(map(bool, changes(1))) > 3
