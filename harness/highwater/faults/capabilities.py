"""Which means of doing faults work here, found by trying each on a scratch container.

Nothing is concluded from versions or names: the freezer must freeze, a helper must join a
namespace, and the kernel must accept rules and end them at their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError
from requests.exceptions import RequestException

from highwater.cluster.cleaning import remove_run
from highwater.cluster.clocks import (
    CLOCK_FOLDER,
    OFFSET,
    TRY_CLOCK,
    clock_volume,
    make_clock_library,
    with_movable_clock,
)
from highwater.cluster.containers import freeze, thaw
from highwater.cluster.disks import (
    DATA_FOLDER,
    DISK_BYTES,
    DISK_FOLDER,
    FAULTY_DISK_RIGHTS,
    make_disks,
    on_faulty_disk,
    size_of_disk,
)
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_faults_image, ensure_images
from highwater.cluster.labels import Lease, Owner, RunLabels
from highwater.cluster.reaper import REAPER
from highwater.cluster.topology import REPLICATION_PORT
from highwater.errors import ClusterStartFailed, EngineMissing, ImageBuildFailed
from highwater.faults.done import NotDone
from highwater.faults.healing import OUR_TABLE
from highwater.faults.kinds import KINDS
from highwater.faults.links.acting import LinkFault, LinkFaults, NotProven
from highwater.faults.links.namespaces import Namespaces, NotInNamespace, Report, Task
from highwater.faults.links.resets import break_connections
from highwater.faults.links.rules import ALWAYS, NO_RULES, Direction, Drop, Slow, script
from highwater.faults.means import IN_A_NAMESPACE, Means
from highwater.run_folder import new_run_id
from highwater.waiting import NeverHappened, eventually
from highwater_chaos import faults as f

SCRATCH_S = 120
"""How long a scratch container lives at most."""
STARTS_WITHIN_S = 20.0
_LOCAL = "127.0.0.1"
_READY = b"ready"
_PROGRAM = f"""
import socket, time
listener = socket.create_server(({_LOCAL!r}, {REPLICATION_PORT}))
ends = socket.create_connection(({_LOCAL!r}, {REPLICATION_PORT})), listener.accept()
print({_READY.decode()!r}, flush=True)
time.sleep({SCRATCH_S})
"""
"""The program of a scratch container: it holds both ends of a connection."""
_SCRATCH = 0
_DROPPED_MS = 200
_WATCHED_MS = 600
_SLOWED_MS = 40
_NOBODY = Direction("192.0.2.1", _SCRATCH, REPLICATION_PORT)
"""An address that no machine has. Source: RFC 5737."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of trying a means. why_not: "" when the means works."""

    means: Means
    why_not: str = ""

    @property
    def works(self) -> bool:
        return not self.why_not


Capabilities = Mapping[Means, Tried]


class _Fails(Exception):
    """A means does not work; the message names the failed step."""


def why_unsupported(kind: type[f.Fault], capabilities: Capabilities) -> str:
    """Return why faults of the kind cannot be done here, "" when they can."""
    row = KINDS[kind]
    tried = (capabilities[means] for means in row.needs)
    return row.unsupported or next((each.why_not for each in tried if not each.works), "")


def probe(say: Callable[[str], None] = lambda text: None) -> dict[Means, Tried]:
    """Try every means, and return the results.

    Images that are missing are made; nothing else stays.
    """
    try:
        engine = connect_engine()
    except EngineMissing as error:
        return {means: Tried(means, str(error)) for means in Means}
    try:
        with _scratch(engine, say) as scratch:
            return _try_all(scratch)
    except (APIError, ImageBuildFailed, NeverHappened) as error:
        why = f"no container of the node image runs: {_first_line(error)}"
        return {means: Tried(means, why) for means in Means}
    finally:
        engine.close()


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A container of the node image that does nothing, and has no network but its loopback."""

    engine: docker.DockerClient
    run: RunLabels
    name: str
    say: Callable[[str], None]

    def status(self) -> str:
        return str(self.engine.api.inspect_container(self.name)["State"]["Status"])

    def namespaces(self) -> Namespaces:
        """Return its network namespace, for helpers."""
        image = ensure_faults_image(self.engine, self.say)
        return Namespaces(self.engine, image, self.run, {_SCRATCH: self.name})

    def help_with(self, task: Task) -> Report:
        """Run the task in the scratch container's namespace, and return the helper's report."""
        report = self.namespaces().run({_SCRATCH: task})[_SCRATCH]
        if report.error:
            raise _Fails(report.error)
        return report


@contextmanager
def _scratch(engine: docker.DockerClient, say: Callable[[str], None]) -> Iterator[_Scratch]:
    run = RunLabels(new_run_id("probe"), Lease.OWNED, Owner.of_this_process())
    image = ensure_images(engine, say).node
    with suppress(ImageBuildFailed):  # told by the trials that need it
        ensure_faults_image(engine, say)  # now: a scratch container may not live so long
    name = f"highwater-{run.run_id}-scratch"
    REAPER.cluster_up()
    try:
        engine.api.start(
            engine.api.create_container(
                image,
                ["python", "-c", _PROGRAM],
                name=name,
                labels=run.as_labels(kind="scratch"),
                host_config=engine.api.create_host_config(
                    network_mode="none",
                    init=True,
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                ),
            )
        )
        scratch = _Scratch(engine, run, name, say)
        eventually(
            lambda: _READY in engine.api.logs(name), within=STARTS_WITHIN_S, what=f"{name} is ready"
        )
        yield scratch
    finally:
        remove_run(engine, run.run_id)
        REAPER.cluster_down()


# ---------------------------------------------------------------- trying


def _try_all(scratch: _Scratch) -> dict[Means, Tried]:
    """Try the means in the order of Means; where helpers fail, means that need one are skipped."""
    tried = {Means.ENGINE: Tried(Means.ENGINE)}
    for means, trial in _TRIALS.items():
        joined = tried.get(Means.NAMESPACE)
        if joined is not None and not joined.works and means in IN_A_NAMESPACE:
            tried[means] = Tried(means, joined.why_not)
        else:
            tried[means] = _try(means, trial, scratch)
    return tried


def _try(means: Means, trial: _Trial, scratch: _Scratch) -> Tried:
    try:
        trial.attempt(scratch)
    except _HOW as error:
        return Tried(means, f"{trial.failed}: {_first_line(error)}")
    return Tried(means)


_HOW = (
    RequestException, ImageBuildFailed, ClusterStartFailed, NeverHappened, NotDone, NotInNamespace,
    NotProven, _Fails,
)  # fmt: skip
"""The errors with which a means may fail. Of RequestException are the engine's (APIError), and that
a container did not end in time. ClusterStartFailed: an image lacks the library for clocks."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """How one means is tried. failed: the text that reports its failure."""

    attempt: Callable[[_Scratch], None]
    failed: str


def _freeze(scratch: _Scratch) -> None:
    freeze(scratch.engine, scratch.name)
    paused = scratch.status()
    thaw(scratch.engine, scratch.name)
    if (paused, after := scratch.status()) != ("paused", "running"):
        raise _Fails(f"the container is {paused} when paused and {after} afterwards")


def _make_a_disk(scratch: _Scratch) -> None:
    image = scratch.engine.api.inspect_container(scratch.name)["Image"]
    make_disks(scratch.engine, scratch.run, image, [scratch.name])
    size_bytes = size_of_disk(scratch.engine, scratch.run.run_id, scratch.name)
    if size_bytes != DISK_BYTES:
        raise _Fails(f"a volume of {DISK_BYTES} bytes has {size_bytes}")


def _mount_a_disk(scratch: _Scratch) -> None:
    """Run a program on a faulty disk of its own, which it lists among its mounts."""
    read = ["python", "-c", "print(open('/proc/mounts').read())"]
    said = _run(scratch, "faulty", on_faulty_disk(read), **FAULTY_DISK_RIGHTS)
    if f" {DISK_FOLDER} fuse " not in said:
        raise _Fails(_last_line(said))


def _move_a_clock(scratch: _Scratch) -> None:
    """Run a program whose clock is moved, and which waits in the ways that nodes do."""
    make_clock_library(scratch.engine, scratch.run, scratch.say)
    volumes = {clock_volume(scratch.run.run_id): {"bind": CLOCK_FOLDER, "mode": "ro"}}
    tried = with_movable_clock(["python", "-m", TRY_CLOCK, f"{DATA_FOLDER}/{OFFSET}"])
    _run(scratch, "clock", tried, volumes=volumes, security_opt=["no-new-privileges"])


def _run(scratch: _Scratch, kind: str, command: Sequence[str], **place: Any) -> str:
    """Run the command in a container of its own, which is removed; return what it wrote.

    kind: the end of the container's name. place: what the engine gives it besides.
    """
    made = scratch.engine.containers.create(
        scratch.engine.api.inspect_container(scratch.name)["Image"],
        list(command),
        name=f"{scratch.name}-{kind}",
        labels=scratch.run.as_labels(kind="scratch"),
        network_mode="none",
        init=True,
        cap_drop=["ALL"],
        **place,
    )
    try:
        made.start()
        code, logs = made.wait(timeout=STARTS_WITHIN_S)["StatusCode"], made.logs()
    finally:
        made.remove(v=True, force=True)
    said = logs.decode(errors="replace")
    if code:
        raise _Fails(_last_line(said))
    return said


def _last_line(said: str) -> str:
    return said.strip().rpartition("\n")[2]


def _join(scratch: _Scratch) -> None:
    scratch.help_with(Task(show=OUR_TABLE))


def _drop_for_a_time(scratch: _Scratch) -> None:
    rules = script([Drop(_NOBODY, ALWAYS, _DROPPED_MS * 1_000_000)], now_ns=0)
    shown = _load(scratch, rules, watched_ms=_WATCHED_MS)
    if _NOBODY.source in shown:
        raise _Fails(f"a rule for {_DROPPED_MS} ms is still there after {_WATCHED_MS} ms")


def _drop_a_share(scratch: _Scratch) -> None:
    rules = script([Drop(_NOBODY, 30, SCRATCH_S * 1_000_000_000)], now_ns=0)
    if "numgen" not in (shown := _load(scratch, rules, watched_ms=0)):
        raise _Fails(f"the kernel took {shown!r}")


def _load(scratch: _Scratch, rules: str, watched_ms: int) -> str:
    """Load the rules, and return nft's list of them watched_ms later; then remove them."""
    watched_ns = watched_ms * 1_000_000
    task = Task(least_ns=watched_ns, script=rules, show=OUR_TABLE)
    shown = scratch.help_with(task).shown
    scratch.help_with(Task(script=NO_RULES))
    return shown


def _break_a_connection(scratch: _Scratch) -> None:
    peers = {_SCRATCH: [_LOCAL]}
    break_connections(scratch.namespaces(), peers, [REPLICATION_PORT], {_LOCAL: _SCRATCH})


def _slow_down(scratch: _Scratch) -> None:
    links = LinkFaults(scratch.namespaces(), {_LOCAL: _SCRATCH})
    to_itself = (Direction(_LOCAL, _SCRATCH, REPLICATION_PORT),)
    try:
        links.apply(LinkFault("probe", to_itself, Slow(_SLOWED_MS), for_ns=None))
        links.heal("probe")
    finally:
        links.end()


_TRIALS: Mapping[Means, _Trial] = {
    Means.FREEZER: _Trial(_freeze, "the engine does not pause containers"),
    Means.SIZED_DISKS: _Trial(_make_a_disk, "the engine makes no volume that has a size"),
    Means.FAULTY_DISKS: _Trial(_mount_a_disk, "no container mounts a file system of its own"),
    Means.MOVABLE_CLOCKS: _Trial(_move_a_clock, "no library moves a process's clock"),
    Means.NAMESPACE: _Trial(
        _join, "no helper joins a container's network namespace with NET_ADMIN"
    ),
    Means.TIMED_DROPS: _Trial(_drop_for_a_time, "nft's sets with timeouts do not work"),
    Means.SHARES: _Trial(_drop_a_share, "nft's numgen does not work"),
    Means.RESETS: _Trial(_break_a_connection, "connections cannot be broken"),
    Means.QUEUE: _Trial(_slow_down, "no program can hold packets back"),
}
"""All but the engine, which runs the container that the others are tried on."""


def _first_line(error: BaseException) -> str:
    text = str(getattr(error, "explanation", None) or error)
    return text.strip().partition("\n")[0]
