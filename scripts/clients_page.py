"""The page of stock clients: what each one did when its rows of tests/clients were last run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from highwater_wire.kafka.versions import VERSION_PROFILE
from scripts.markdown_pages import page, table
from tests.clients.runs import PASSED, Run

KILLED = {
    "nobody": "nothing is wrong",
    "leader": "the leader dies",
    "coordinator": "the coordinator dies",
}

DEEDS = {
    "produce": "produce with acks 0, 1 and all",
    "idempotent": "produce idempotently",
    "assign": "read an assigned partition",
    "group": "a group of two: share, rebalance, commit",
    "seek": "seek by time",
    "admin": "admin: create, describe, expand and delete a topic",
    "transactional": "a transaction is refused at once",
    "newer_group": "`group.protocol=consumer` is refused at once",
}
"""A step of tests/clients/steps.py in words, in the order of the page."""

NOT_OFFERED: tuple[tuple[int, str, str], ...] = (
    (
        68,
        "the newer protocol of consumer groups (KIP-848): ConsumerGroupHeartbeat",
        "With `group.protocol=consumer`, which is nobody's default: Java's consumer raises "
        "UnsupportedVersionException at once. librdkafka 2.16 does not tell its user: it gives the "
        "coordinator up and looks for it again, and reads nothing. franz-go "
        "(`ServerSideBalancer`) takes the classic protocol",
    ),
    (
        21,
        "DeleteRecords",
        "Java: UnsupportedVersionException, kafka-python: IncompatibleBrokerVersion, both with the "
        "API's name; librdkafka: _UNSUPPORTED_FEATURE",
    ),
    (34, "AlterReplicaLogDirs: replicas do not move between log folders", "likewise"),
    (30, "ACLs (CreateAcls and its like): there is no authorizer", "likewise"),
)
"""API keys that no broker offers, what they are for, and what a client makes of it."""

NOT_SUPPORTED = (
    (
        "transactions",
        "InitProducerId with a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, at once. "
        "Every client but kcat was held to tell its user",
    ),
    (
        'a group named `" "`, a blank',
        "the brokers have nothing against it; confluent-kafka's consumer aborts its process "
        "before it sends anything",
    ),
)


def not_supported() -> Iterable[tuple[str, str]]:
    """Yield what is not supported, and what a client sees.

    Raises:
        ValueError: an API is offered by now.
    """
    for key, what, sees in NOT_OFFERED:
        if key in VERSION_PROFILE.offered:
            raise ValueError(f"API {key} is offered: it has no place in NOT_OFFERED")
        yield f"{what} (API {key})", sees
    yield from NOT_SUPPORTED


def failed(run: Run) -> Mapping[str, str]:
    return {step: why for step, why in run.steps.items() if why != PASSED}


def summary(run: Run) -> str:
    if run.outcome == "not here":
        return "not tried"
    steps = [step for step in DEEDS if step in failed(run)]
    return f"all but {', '.join(steps)}" if steps else "all"


def deed(step: str, run: Run) -> str:
    if run.outcome == "not here":
        return "not tried"
    if step not in run.steps:
        return "–"
    return "yes" if run.steps[step] == PASSED else "no"


def remarks(run: Run) -> list[str]:
    """Return what went wrong in a run, and what its programs told of."""
    told = [f"{step}: {why}" for step, why in failed(run).items()] + list(run.notes)
    return [f"- {KILLED[run.killed]}: {one}" for one in told]


def version_of(runs: Sequence[Run]) -> str:
    return next((run.version for run in runs if run.version), "")


def heading(runs: Sequence[Run]) -> str:
    return f"{runs[0].client} {version_of(runs)}".rstrip()


def anchor(runs: Sequence[Run]) -> str:
    """Return the name of the client's heading, as renderers of Markdown make it."""
    kept = (letter for letter in heading(runs).lower() if letter.isalnum() or letter in " -")
    return "".join(kept).replace(" ", "-")


def section(runs: Sequence[Run]) -> str:
    """Return a client's table; its columns are the runs."""
    codecs = next((", ".join(run.codecs) for run in runs if run.codecs), "")
    named = DEEDS | {"produce": f"{DEEDS['produce']}; {codecs}"}
    rows = [
        (name, *(deed(step, run) for run in runs))
        for step, name in named.items()
        if any(step in run.steps for run in runs)
    ]
    rows.append(("seconds", *(f"{run.seconds:.0f}" if run.steps else "" for run in runs)))
    parts = [
        f"## {heading(runs)}",
        table(("", *(KILLED[run.killed] for run in runs)), rows),
        "\n".join(line for run in runs for line in remarks(run)),
    ]
    return "\n\n".join(part for part in parts if part)


def of_one_client(client: str, runs: Iterable[Run]) -> list[Run]:
    """Return a run for each of KILLED; one that was never recorded is not here."""
    found = {run.killed: run for run in runs}
    never = {"client": client, "version": "", "preset": "", "outcome": "not here"}
    return [found.get(killed) or Run(killed=killed, **never) for killed in KILLED]


def clients_page(runs: Iterable[Run]) -> str:
    of_clients = [of_one_client(*each) for each in groupby(runs, key=lambda run: run.client)]
    overview = table(
        ("client", "version", *KILLED.values()),
        (
            (f"[{each[0].client}](#{anchor(each)})", version_of(each), *map(summary, each))
            for each in of_clients
        ),
    )
    return page(
        "Stock clients",
        "What each client did, as it comes, at a cluster of three brokers with the preset "
        "`fenced`.\n[tests/clients](../../tests/clients/README.md) has the programs and says "
        "what each deed is;\n`make clients` runs them all and writes what came of it to "
        "`tests/clients/runs.jsonl`, from which this\npage is made. A broker that dies gets a "
        "SIGKILL half way, and stays away until the client is done:\nthe leader of its topics, or "
        "the coordinator of its group. Of records sent with acks 0 or 1 none is then\npromised.",
        overview,
        "## Not supported",
        table(("what", "what a client sees"), not_supported()),
        *map(section, of_clients),
    )
