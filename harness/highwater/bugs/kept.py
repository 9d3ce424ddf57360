"""The plans that show the catalogue's bugs, one for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from highwater.errors import HarnessError
from highwater.project import project_root
from highwater.runs.plans.running import read_plan
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_value
from highwater_checker.catalogue.later_rows import NO_ROWS
from highwater_checker.catalogue.rows import CATALOGUE, Row

FOLDER = Path("tests/scenarios")
SHOWN_IN: Mapping[int, str] = {
    1: "truncation_to_a_lagging_high_watermark",
    2: "an_unflushed_end_that_leads",
    3: "two_logs_of_the_same_offsets",
    4: "a_cut_below_what_an_idle_leader_knows",
    5: "a_missed_epoch",
    6: "a_fetch_over_a_cut",
    7: "a_joiner_that_lacks_what_is_committed",
    8: "an_empty_broker_joins_the_isr",
    9: "last_replica_standing",
    10: "an_election_outside_the_isr",
    11: "a_checkpoint_without_a_replica",
    12: "a_log_in_range_is_wiped",
    13: "a_deposed_controllers_write_succeeds",
    14: "an_isr_write_whose_reply_is_lost",
    15: "a_restart_that_no_controller_saw",
    16: "a_late_copy_of_a_stop",
    17: "a_move_given_up_leaves_a_replica",
    18: "commands_before_it_is_known_who_lives",
    19: "a_replica_moved_away_is_taken_back",
    20: "a_controller_waits_for_itself",
    21: "a_high_watermark_that_stays",
    22: "a_load_that_ends_after_the_lead",
    23: "a_latest_offset_that_goes_back",
    24: "an_old_log_in_a_new_topic",
    25: "records_of_a_newer_epoch",
    26: "a_log_that_goes_on_behind_a_torn_batch",
    27: "an_epoch_that_recovery_leaves_out",
    28: "a_controller_elected_and_idle",
    29: "an_unopened_log_taken_for_clean",
    30: "retention_beyond_the_high_watermark",
    38: "a_log_taken_for_committed",
    39: "a_deleted_topics_leader",
}
"""The scenario that shows a row, by its number. Others have none yet, or do not apply here."""


class NoSuchBug(HarnessError):
    """The catalogue has no row of that id; the message says why where it is known."""


class HasNoPlan(HarnessError):
    """No plan shows the row."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A row of the catalogue, and the name of the scenario that shows it, "" without one."""

    row: Row
    scenario: str

    @property
    def name(self) -> str:
        """Return the first of its ids."""
        return self.row.ids[0]

    def plan(self) -> Plan:
        """Return its plan.

        Raises:
            HasNoPlan: no plan shows the row.
        """
        if not self.scenario:
            raise HasNoPlan(self.why_no_plan())
        return read_plan(project_root() / FOLDER / f"{self.scenario}.json")

    def why_no_plan(self) -> str:
        """Return why no plan shows the row."""
        row = self.row
        named = f"row {row.number} ({', '.join(row.ids)})"
        if row.why_not_here:
            return f"{named} does not apply here: {row.why_not_here}"
        return f"no plan shows {named} yet. In a trace: {row.in_a_trace}"


def all_bugs() -> list[Bug]:
    """Return the catalogue's bugs, by row."""
    return [Bug(row, SHOWN_IN.get(row.number, "")) for row in CATALOGUE]


def bug_of(name: str) -> Bug:
    """Return the bug of a JIRA or KIP id, in any case, or of a row's number.

    Several rows have an id in common: the one whose first id it is counts, else the first row.

    Raises:
        NoSuchBug: there is none.
    """
    wanted = name.strip().upper()
    bugs = all_bugs()
    found = [
        *(bug for bug in bugs if wanted in (bug.name.upper(), str(bug.row.number))),
        *(bug for bug in bugs if wanted in map(str.upper, bug.row.ids)),
    ]
    if not found:
        raise NoSuchBug(_why_no_row(name))
    return found[0]


def _why_no_row(name: str) -> str:
    wanted = name.strip().upper()
    for ids, why in NO_ROWS.items():
        if wanted in ids.split(", "):
            return f"{wanted} is no row of the catalogue: it {why}"
    return f"the catalogue has no bug {name!r}; `highwater bugs list` names all"


def means_of(plan: Plan) -> str:
    """Return what the plan's nodes lack of preset fenced, in words."""
    topology = plan.topology
    toggles = ", ".join(f"{name}={say_value(value)}" for name, value in topology.toggles.items())
    parts = [f"preset {topology.preset.value}"]
    if toggles:
        parts.append(toggles)
    if plan.planted:
        parts.append(f"planted mistake {plan.planted}")
    return "; ".join(parts)
