"""The page of invariants, from what the checker says of them."""

from __future__ import annotations

from collections.abc import Mapping

from highwater_checker import meanings
from scripts.markdown_pages import one_line, page


def invariants_page() -> str:
    def listed(meanings: Mapping[str, str]) -> str:
        return "\n".join(f"- **{name}**: {meaning}" for name, meaning in meanings.items())

    return page(
        "Invariants",
        "What the oracle of the simulator and the judge of a run demand. `highwater explain RUN` "
        "tells how a run broke one. [Which presets promise which](presets.md); "
        "[the state machines](state-machines.md); "
        "[the order of steps](../explanation/replication.md).",
        one_line((meanings.__doc__ or "").split("\n\n")[1]),
        "## At every moment",
        listed(meanings.SAFETY),
        "## Once everything is healed, and within a bound",
        listed(meanings.LIVENESS),
        "## Of clients' histories",
        "The names are those of Jepsen's Kafka workload.",
        listed(meanings.HISTORIES),
    )
