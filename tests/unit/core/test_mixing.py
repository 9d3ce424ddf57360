"""Which presets the nodes of one cluster may have at the same time."""

from __future__ import annotations

from itertools import product

import pytest

from highwater_core.config import PROMISES, Preset
from highwater_core.mixing import promised_by_all, why_not_mixed

V2, V3, CLASSIC, KIP101, FENCED = Preset
TOGETHER = {V3, CLASSIC, KIP101}


@pytest.mark.parametrize(("one", "other"), list(product(Preset, Preset)))
def test_presets_may_be_mixed_where_their_nodes_follow_one_protocol(
    one: Preset, other: Preset
) -> None:
    may = one == other or {one, other} <= TOGETHER
    assert (why_not_mixed(one, other) == "") is may


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (V2, V3, "brokers of one elect leaders themselves"),
        (FENCED, V2, "brokers of one elect leaders themselves"),
        (KIP101, FENCED, "leaders of one write the ISR into ZooKeeper"),
    ],
)
def test_a_mix_is_refused_with_its_reason(one: Preset, other: Preset, why: str) -> None:
    assert why_not_mixed(one, other).startswith(f"presets {one} and {other} cannot be mixed")
    assert why in why_not_mixed(one, other)


def test_a_mixed_cluster_may_break_what_one_of_its_presets_may_break() -> None:
    both = promised_by_all((CLASSIC, KIP101))
    assert 2 in PROMISES[KIP101]["I1"].rows
    assert 1 in PROMISES[CLASSIC]["I1"].rows
    assert {1, 2} <= set(both["I1"].rows)
    assert promised_by_all((FENCED,)) == PROMISES[FENCED]
