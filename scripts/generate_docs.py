"""Writes the pages of PAGES into docs/reference, from the code and from recorded runs of clients.

With --check it writes nothing, and exits with 1 when a page differs from the code.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import msgspec

from highwater.faults.kinds import KINDS
from highwater_broker.settings import BrokerSettings
from highwater_chaos import faults as f
from highwater_chaos.plan_schema import plan_schema
from highwater_checker.catalogue.later_rows import NO_ROWS
from highwater_checker.catalogue.rows import CATALOGUE, Row
from highwater_controller.settings import ControllerSettings
from highwater_core import config, errors
from highwater_core.config import FLAWS, INVARIANTS, PRESETS, PROMISES, MayBreak, Preset, Toggles
from highwater_core.errors import MEANINGS
from highwater_core.fail_points import (
    BROKER_FAIL_POINTS,
    CONTROLLER_FAIL_POINTS,
    FailPoint,
)
from highwater_core.messages import FailPointAction
from highwater_core.settings import PREFIX
from highwater_simulator.unsupported import REASONS as NOT_SIMULATED
from highwater_wire.kafka.messages import ApiKey
from highwater_wire.kafka.versions import REPLICATION_PROFILE, VERSION_PROFILE, VersionProfile
from scripts.clients_page import clients_page
from scripts.controller_pages import controller_events_page, state_machines_page
from scripts.invariants_page import invariants_page
from scripts.markdown_pages import documented, one_line, page, table
from tests.clients.runs import read_runs

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
KAFKA_API_PACKAGE = "highwater_broker.kafka_api"
KAFKA_API = ROOT / "broker" / "highwater_broker" / "kafka_api"

# ---------------------------------------------------------------- protocol


def handler_module(key: ApiKey) -> ast.Module:
    return ast.parse((KAFKA_API / f"{key.name.lower()}.py").read_text())


def summary(module: ast.Module) -> str:
    """Return the first sentence of the handler module's docstring, without the API's name."""
    text = one_line((ast.get_docstring(module) or "").split("\n\n")[0])
    return text.partition(": ")[2].partition(". ")[0].rstrip(".")


def decided_errors(module: ast.Module) -> list[str]:
    """Return the errors that the handler names, in the order of their codes.

    So are those of the functions that it imports from refusals.py.
    """
    shared = {
        name.name
        for node in module.body
        if isinstance(node, ast.ImportFrom) and node.module == f"{KAFKA_API_PACKAGE}.refusals"
        for name in node.names
    }
    refusals = ast.parse((KAFKA_API / "refusals.py").read_text())
    used = [
        node
        for node in refusals.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in shared
    ]
    named = {
        node.attr
        for root in (module, *used)
        for node in ast.walk(root)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ErrorCode"
    }
    codes = sorted(errors.ErrorCode[name] for name in named - {"NONE"})
    return [code.name for code in codes]


def versions(profile: VersionProfile, key: ApiKey) -> str:
    served = profile.served_versions(key)
    text = f"{served.start}-{served.stop - 1}"
    offered = profile.offered[key]
    return text if offered[0] == served.start else f"{text} (offered from {offered[0]})"


def protocol_page() -> str:
    keys = sorted(VERSION_PROFILE.offered)
    modules = {key: handler_module(key) for key in keys}
    api_name = {key: "".join(part.title() for part in key.name.split("_")) for key in keys}
    apis = table(
        ("API", "key", "clients", "followers", "what it does"),
        (
            (
                api_name[key],
                str(int(key)),
                versions(VERSION_PROFILE, key),
                versions(REPLICATION_PROFILE, key),
                summary(modules[key]),
            )
            for key in keys
        ),
    )
    decided = table(
        ("API", "errors"),
        ((api_name[key], ", ".join(decided_errors(modules[key])) or "none") for key in keys),
    )
    return page(
        "The Kafka protocol that brokers speak",
        "Versions by listener: what clients are offered on CLIENT and EXTERNAL, and what "
        "followers\nmay use on REPLICATION. Any other version of ApiVersions is answered with\n"
        "UNSUPPORTED_VERSION and this table; any other request closes the connection.",
        apis,
        "Which listener serves what: Produce, consumers' Fetch and what changes the cluster "
        "(topics,\npartitions, elections, reassignments) only CLIENT and EXTERNAL, followers' "
        "Fetch only\nREPLICATION (else INVALID_REQUEST); the rest on each. A failed Produce with "
        "acks=0 is\nanswered by nothing, and the connection stays open.",
        "## Errors that the handlers decide",
        "To these come the errors of the partition that is asked (leadership and epochs, offsets, "
        "the\nlog's checks of a batch, the disk) and, for what changes the cluster, the "
        "controller's.\n[errors.md](errors.md) says what each means.",
        decided,
    )


# ---------------------------------------------------------------- errors


def errors_page() -> str:
    rows = (
        (
            str(int(row.code)),
            row.code.name,
            "yes" if row.retriable else "no",
            "yes" if row.definite else "no",
            row.meaning,
        )
        for row in sorted(MEANINGS.values(), key=lambda row: row.code)
    )
    return page(
        "Protocol errors",
        "*Retriable*: the same request may succeed later, perhaps elsewhere. *Definite*: the "
        "request\ncertainly had no effect; after any other error a history records *unknown*, "
        "never *failed*.",
        table(("code", "name", "retriable", "definite", "meaning"), rows),
    )


# ---------------------------------------------------------------- presets


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value}`"


def meaning_of_type(toggle: str) -> str:
    """Return the docstring of the toggle's enumeration; the name itself for a plain switch."""
    value = getattr(PRESETS[Preset.FENCED], toggle)
    return "" if isinstance(value, bool) else one_line(type(value).__doc__ or "")


def promise_text(promise: MayBreak) -> str:
    if not promise.rows:
        return "must hold"
    return f"may break by row {', '.join(map(str, promise.rows))}"


def values_of(enumeration: type) -> str:
    meanings = documented(enumeration)
    about = one_line(enumeration.__doc__ or "")
    members = [
        f"- `{member.value}`" + (f": {meanings[member.name]}" if member.name in meanings else "")
        for member in enumeration  # type: ignore[attr-defined]
    ]
    return "\n".join((f"**{enumeration.__name__}**: {about}", "", *members))


def presets_page() -> str:
    meanings = documented(Toggles)
    toggles = table(
        ("toggle", *(f"`{preset}`" for preset in Preset), "meaning"),
        (
            (
                f"`{field.name}`",
                *(value_text(getattr(PRESETS[preset], field.name)) for preset in Preset),
                meanings.get(field.name) or meaning_of_type(field.name),
            )
            for field in fields(Toggles)
        ),
    )
    promises = table(
        ("invariant", *(f"`{preset}`" for preset in Preset)),
        (
            (name, *(promise_text(PROMISES[preset][name]) for preset in Preset))
            for name in INVARIANTS
        ),
    )
    enumerations = (
        config.Truncation,
        config.TruncateOn,
        config.IsrJoin,
        config.IsrWrite,
        config.UnlistedPartitions,
    )
    about = "\n".join(f"- `{name.lower()}`: {text}" for name, text in documented(Preset).items())
    return page(
        "Presets, toggles and promises",
        "A preset is a value for every toggle; single toggles are replaced with\n"
        'HIGHWATER_TOGGLES, a JSON object such as `{"unclean_election": true}`.',
        about,
        "## Toggles",
        toggles,
        "## Their values",
        *(values_of(enumeration) for enumeration in enumerations),
        "## Promises",
        "A violation of what may break is excused only when the trigger of one of the named rows "
        "of\nthe [bug catalogue](catalogue.md) is in the trace; it is then reported by the row's "
        "name.",
        promises,
    )


# ---------------------------------------------------------------- catalogue


def id_link(bug_id: str) -> str:
    """Return a JIRA id as a link; KIPs are pages without a short address."""
    if bug_id.startswith("KAFKA-"):
        return f"[{bug_id}](https://issues.apache.org/jira/browse/{bug_id})"
    return bug_id


def row_section(row: Row) -> str:
    reasons = "\n".join(f"- {name}: {reason}" for name, reason in row.breaks.items())
    return "\n\n".join(
        (
            f"## {row.number}. {row.title}",
            ", ".join(map(id_link, row.ids)),
            f"Affected: {row.affected}. Fixed in: {row.fixed_in}.",
            f"Breaks\n\n{reasons}",
            f"In a trace: {row.in_a_trace}.",
            *(
                [f"Planted as {' and '.join(f'`{name}`' for name in row.planted)}."]
                if row.planted
                else ()
            ),
        )
    )


def _shows_by(row: Row) -> str:
    """Return by what the row can show here: a preset, toggles, planted mistakes, or nothing."""
    if row.planted:
        return "planted"
    if row.why_not_here:
        return "no"
    return "yes" if any(row.number in flaws for flaws in FLAWS.values()) else "by toggles"


def catalogue_page() -> str:
    rows = (
        (
            str(row.number),
            row.ids[0],
            row.title,
            ", ".join(row.invariants),
            _shows_by(row),
        )
        for row in CATALOGUE
    )
    return page(
        "Historical bugs, and how a trace shows them",
        "Failover bugs of Kafka's ZooKeeper era. A preset that lacks a fix may break what the fix "
        "protects,\nbut only by that bug: a violation is given a row's name when the row lists the "
        "invariant and its\ntrigger is in the trace of the run up to the violation; else it is a "
        "failure without excuse. Rows\nthat cannot show here have no trigger. A planted row shows "
        "with the planted mistakes that it names, in\nno preset, and one that shows by toggles "
        "with those that it names. None of them excuses\nanything; "
        '[presets.md](presets.md) says which preset may break what.\n"Breaks" names what a run '
        "here could show; versions are Kafka's.",
        table(("row", "first id", "what happens", "breaks", "can show here"), rows),
        *map(row_section, CATALOGUE),
        "## Others that were looked at",
        table(
            ("bug", "why it is no row: it"),
            ((", ".join(map(id_link, ids.split(", "))), why) for ids, why in NO_ROWS.items()),
        ),
    )


# ---------------------------------------------------------------- settings


def default_text(setting: Field[Any]) -> str:
    if setting.default_factory is not MISSING:
        return "none"
    if setting.default is MISSING:
        return "must be given"
    value = setting.default
    if value == "":
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def settings_table(settings_type: type) -> str:
    meanings = documented(settings_type)
    return table(
        ("variable", "default", "remark"),
        (
            (
                f"`{PREFIX}{setting.name.upper()}`",
                default_text(setting),
                meanings.get(setting.name, ""),
            )
            for setting in fields(settings_type)
        ),
    )


def settings_page() -> str:
    return page(
        "Settings of controllers and brokers",
        "A node reads its settings from environment variables when it starts. A value that does "
        "not\nfit, or a variable that names no setting, ends it with exit code 2 and one line that "
        "says why.",
        "A name's ending is its unit: `_ms` milliseconds, `_bytes` bytes. -1 means no limit where "
        "a\nlimit is optional. `highwater up --broker-setting` and `--controller-setting`, and the "
        "fields\n`broker_settings` and `controller_settings` of a topology, take the name in small "
        "letters\nwithout the prefix: `replica_lag_time_max_ms=2000`. A cluster's identities, "
        "addresses and ports,\nits preset, toggles and session timeout follow from the topology "
        "and are not taken there.",
        "## Brokers",
        settings_table(BrokerSettings),
        "## Controllers",
        settings_table(ControllerSettings),
    )


# ---------------------------------------------------------------- fail-points


def fail_points_table(points: Iterable[FailPoint]) -> str:
    meanings = documented(FailPoint)
    return table(
        ("fail-point", "where it stands"),
        ((f"`{point}`", meanings[point.name]) for point in points),
    )


def fail_points_page() -> str:
    return page(
        "Fail-points of controllers and brokers",
        "Named places in the nodes' code where something is half done. A fail-point that is armed "
        "has\nthe node wait there, or ends its process as SIGKILL does; one that is not costs "
        "nothing. They\nare armed by `SetFailPoint` of the service `Inspect` "
        "([inspect.proto](../../proto/highwater_wire/v1/inspect.proto)):\na name, an action, after "
        "how many hits it disarms itself (0: never) and for how long it waits. A\nname that is "
        "not the node's own is answered with INVALID_REQUEST. All are disarmed when a node\n"
        "starts, but those that `fail_points.json` in its data folder asks for: a JSON list of "
        "the same\nrequests, for seams that a node passes before it can be asked. Each hit is "
        "traced as\n`fail_point_hit`.",
        values_of(FailPointAction),
        "## Brokers",
        fail_points_table(BROKER_FAIL_POINTS),
        "## Controllers",
        fail_points_table(CONTROLLER_FAIL_POINTS),
    )


# ---------------------------------------------------------------- faults


def fault_fields(kind: type[f.Fault]) -> str:
    """Return the names that JSON takes; those with a default in parentheses."""
    optional = {field.name for field in msgspec.structs.fields(kind) if not field.required}
    names = kind.__struct_fields__
    return ", ".join(f"({name})" if name in optional else name for name in names)


def faults_page() -> str:
    kinds = {f"`{f.fault_name(kind)}`": kind for kind in f.FAULTS}
    rows = {name: KINDS[kind] for name, kind in kinds.items()}
    done = table(
        ("fault", "done by", "proven by", "what ends it if the harness dies"),
        (
            (name, *map(one_line, (row.mechanism, row.proof, row.ends)))
            for name, row in rows.items()
            if not row.unsupported
        ),
    )
    not_done = table(
        ("fault", "why containers cannot do it"),
        ((name, one_line(row.unsupported)) for name, row in rows.items() if row.unsupported),
    )
    not_simulated = table(
        ("fault", "why the simulator cannot do it"),
        ((f"`{f.fault_name(kind)}`", one_line(why)) for kind, why in NOT_SIMULATED.items()),
    )
    meanings = table(
        ("fault", "fields", "what it does"),
        (
            (name, fault_fields(kind), one_line(inspect.getdoc(kind) or ""))
            for name, kind in kinds.items()
        ),
    )
    return page(
        "Faults",
        "What a plan may do to a cluster: the value of `do` in a step, told apart by `fault`.\n"
        "[how-to/chaos.md](../how-to/chaos.md) says how they are used, proven and undone;\n"
        "[plan.schema.json](plan.schema.json) is the JSON schema of plans.",
        "A fault with `for_ms` is undone after that time, else when the faults end. Nodes are "
        "named\n(`broker-1`) or described (`leader of t-0`, `follower of t-0`, `last follower of "
        "t-0`, `active\ncontroller`). Links are directed, `source` to `target`, on one `plane`: "
        f"{', '.join(f.PLANES)}; `{f.ANY}`\nstands for every peer. Fields in parentheses may be "
        "left out.",
        meanings,
        "## On containers",
        "A fault that is not proven is not done: the run's verdict is unknown, never pass. Whether "
        "a\nmachine has the means is tried by `highwater faults`.",
        done,
        "## Not on containers",
        not_done,
        "## Not in the simulator",
        not_simulated,
    )


PAGES = {
    "catalogue.md": catalogue_page,
    "invariants.md": invariants_page,
    "protocol.md": protocol_page,
    "errors.md": errors_page,
    "presets.md": presets_page,
    "settings.md": settings_page,
    "fail-points.md": fail_points_page,
    "faults.md": faults_page,
    "state-machines.md": state_machines_page,
    "controller-events.md": controller_events_page,
    "clients.md": lambda: clients_page(read_runs()),
    "plan.schema.json": lambda: plan_schema().decode(),
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: scripts/generate-docs [--check]\n")
        return 2
    REFERENCE.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, make in PAGES.items():
        path, text = REFERENCE / name, make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not arguments:
                path.write_text(text)
    verb = "is not what the code says" if arguments else "was written"
    for name in stale:
        sys.stdout.write(f"docs/reference/{name} {verb}\n")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
