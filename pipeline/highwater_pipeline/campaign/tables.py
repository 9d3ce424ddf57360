"""The campaigns' tables, below the same store as the runs'."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType

from highwater_pipeline.tables import Table

DATA_VERSION = 2
"""Of these tables' meaning; a campaign of another is not gone on with."""

_STRING, _INT, _LONG, _BOOLEAN = StringType(), IntegerType(), LongType(), BooleanType()
_STRINGS = ArrayType(_STRING, containsNull=False)
_INTS = ArrayType(_INT, containsNull=False)

SCHEDULES = Table(
    "schedules",
    {
        "campaign": _STRING,
        "group": _INT,  # from 0; the schedules of a group are written together
        "number": _LONG,  # of the schedule in its campaign, from 0
        "seed": _LONG,
        "family": _STRING,
        "preset": _STRING,
        "planted": _STRING,  # "" for none
        "outcome": _STRING,  # pass, fail, documented; lost: no outcome, message says why
        "invariant": _STRING,  # from here to plan: null where nothing was found
        "topic": _STRING,  # "" and -1 where none is meant
        "partition": _INT,
        "offset": _LONG,
        "at_ns": _LONG,  # virtual time from the simulation's start
        "message": _STRING,
        "rows": _INTS,  # of the catalogue of historical bugs
        "ids": _STRINGS,  # theirs: JIRA, KIP
        "evidence": _STRING,
        "plan": _STRING,  # a plan file with its expected findings
        "fails_anyway": _BOOLEAN,  # without the planted bug as well
        "events": _LONG,
        "simulated_ns": _LONG,  # virtual time
        "cpu_ns": _LONG,
        "acknowledged": _LONG,  # records
        "leader_changes": _LONG,  # from here to unavailable_ns: while faults act
        "control_calls": _LONG,  # requests between controllers and brokers
        "zookeeper_requests": _LONG,
        "unavailable_ns": _LONG,  # virtual time without acknowledgements, summed over partitions
        "is_excused": _BOOLEAN,  # disks alone lost a committed record
        "flagged": _STRINGS,  # kinds that were named without ending the run, one each time
        "fired": _STRINGS,  # kinds of faults, one each time: done,
        "missed": _STRINGS,  # nobody to act on,
        "not_reached": _STRINGS,  # their moment never came
        "marks": _STRINGS,  # coverage: each that was reached, once
        "data_version": _INT,
    },
    ("number",),
    ("campaign", "group"),
)
"""One row a schedule."""

PLANS = Table(
    "plans",
    {
        "campaign": _STRING,
        "group": _INT,  # from 0; the plans of a group are written together
        "number": _LONG,  # of the plan in its campaign, from 0; in a soak's folder from 1
        "outcome": _STRING,  # pass, fail; unknown: proves nothing; lost: could not be run
        "machine": _STRING,  # the name of the machine on which it ran
        "run": _STRING,  # its folder's name; "" without one, or where it passed
        "entry": _STRING,  # a JSON object: its line in a soak's ledger
        "data_version": _INT,
    },
    ("number",),
    ("campaign", "group"),
)
"""One row a plan that ran on containers."""

SHRUNK = Table(
    "shrunk",
    {
        "campaign": _STRING,
        "seed": _LONG,
        "family": _STRING,
        "invariant": _STRING,  # as found
        "rows": _INTS,
        "plan": _STRING,  # the minimal plan's file; null where it could not be shrunk
        "is_minimal": _BOOLEAN,  # false: its runs were used up
        "runs": _INT,
        "steps_before": _INT,
        "steps_after": _INT,
        "words": _STRING,  # what the plan does and breaks, or why it could not be shrunk
    },
    ("seed", "family"),
    ("campaign",),
)
"""One row a failing schedule that was chosen to be shrunk."""
