"""A node's process: settings, logging, signals, incarnation, ports, exit code.

A node's __main__ has two calls::

    settings = load_settings(BrokerSettings)
    sys.exit(run_node(settings, BrokerNode, make_listeners))

where `make_listeners(settings, node)` returns a ListenerSpec for each of its Kafka listeners (a
controller has none and leaves it out).

On the volume, below data_folder: data/ is the folder of the node's FileSystem port, trace/ has one
file of trace events for each incarnation, incarnation counts the starts, and fail_points.json,
where there is one, lists the fail-points that are armed from the first step on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from highwater_adapters.armed_at_start import arm_at_start
from highwater_adapters.asyncio_runtime import BUG_EXIT_CODE, AsyncioRuntime
from highwater_adapters.control_plane import GrpcControlPlane
from highwater_adapters.coordination import KazooCoordinationFactory
from highwater_adapters.files import FULL, RealFileSystem, sync_folder
from highwater_adapters.loop_watchdog import LoopWatchdog, WatchedSessions
from highwater_adapters.metrics_port import MetricsPort
from highwater_adapters.movable_clock import true_time_ns
from highwater_adapters.peers import AllowedPeers
from highwater_adapters.process_usage import with_usage
from highwater_adapters.random_source import RandomSource
from highwater_adapters.repeats import INTERVAL_S, BoundedHandler, BoundedTrace
from highwater_adapters.request_times import RequestTimes
from highwater_adapters.stacks import write_stacks_at_the_signal
from highwater_adapters.tcp_server import KafkaListener, ListenerSpec
from highwater_adapters.tcp_transport import TcpTransport
from highwater_adapters.trace_sink import TraceSink
from highwater_core.ids import node_name
from highwater_core.messages import NodeSnapshot
from highwater_core.networks import NO_METRICS, parse_networks
from highwater_core.ports import CannotStart, Ports
from highwater_core.prometheus import prometheus_text
from highwater_core.settings import BadSetting, read_settings
from highwater_core.traces import TraceRecorder

BAD_SETTING_EXIT_CODE = 2
CANNOT_START_EXIT_CODE = 1
KILLED_EXIT_CODE = 137
"""A shell's exit code for a process that SIGKILL ended."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""The host's, in a container too: the page cache is the host's as well."""

_LOGGER = logging.getLogger("highwater")


class NodeSettings(Protocol):
    """The settings that this module reads, of a node's frozen dataclass."""

    @property
    def node_id(self) -> int: ...
    @property
    def incarnation(self) -> int:
        """The counter on the volume replaces it before the node is made."""
        ...

    @property
    def control_host(self) -> str: ...
    @property
    def control_port(self) -> int: ...
    @property
    def listen_host(self) -> str:
        """Empty: the control port listens at control_host."""
        ...

    @property
    def control_allowed_networks(self) -> str: ...
    @property
    def zookeeper(self) -> str:
        """host:port, several separated by commas."""
        ...

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def event_loop_stall_max_ms(self) -> int:
        """A node ends when its event loop stands still so long, or for a longer session timeout."""
        ...

    @property
    def metrics_port(self) -> int:
        """NO_METRICS: the node serves none."""
        ...

    @property
    def data_folder(self) -> str: ...
    @property
    def trace_path(self) -> str:
        """Empty: trace/<incarnation>.jsonl below the data folder."""
        ...

    @property
    def trace_part_bytes(self) -> int: ...


class Node(Protocol):
    """This module's interface to a node."""

    async def run(self) -> None: ...

    def request_stop(self) -> None: ...

    def snapshot(self) -> NodeSnapshot: ...


S = TypeVar("S")
A = TypeVar("A", bound=NodeSettings)
N = TypeVar("N", bound=Node)


def load_settings(settings_type: type[S]) -> S:
    """Return the settings from the environment, or print the error in one line and exit 2."""
    try:
        return read_settings(settings_type, os.environ)
    except BadSetting as error:
        sys.stderr.write(f"highwater: {error}\n")
        sys.exit(BAD_SETTING_EXIT_CODE)


def no_listeners(settings: Any, node: Any) -> Sequence[ListenerSpec]:
    return ()


def run_node(
    settings: A,
    make_node: Callable[[A, Ports], N],
    make_listeners: Callable[[A, N], Sequence[ListenerSpec]] = no_listeners,
) -> int:
    """Run the node until it stops, and return the process's exit code.

    SIGTERM and SIGINT call node.request_stop(). The control plane and the listeners answer from
    before run() starts until after it has returned. A bug ends the process at once with 70, an
    event loop that does not turn ends it with 75. SIGUSR1 writes all stacks to the log.
    """
    write_stacks_at_the_signal()
    set_up_logging(settings.node_id)
    raise_descriptor_limit()
    try:
        incarnation = raise_incarnation(Path(settings.data_folder))
        settings = replace(settings, incarnation=incarnation)  # type: ignore[type-var]
        asyncio.run(_run(settings, make_node, make_listeners))
    except (OSError, CannotStart) as error:
        _LOGGER.critical("the node cannot start: %s", error)
        return CANNOT_START_EXIT_CODE
    return 0


async def _run(
    settings: A,
    make_node: Callable[[A, Ports], N],
    make_listeners: Callable[[A, N], Sequence[ListenerSpec]],
) -> None:
    folder = Path(settings.data_folder)
    (folder / "data").mkdir(exist_ok=True)
    default_trace = folder / "trace" / f"{settings.incarnation}.jsonl"
    sink = TraceSink(Path(settings.trace_path or default_trace), settings.trace_part_bytes)
    runtime = AsyncioRuntime(_make_failure_report(sink))
    runtime.loop.set_exception_handler(_make_exception_handler(runtime))
    trace = BoundedTrace(TraceRecorder(runtime, settings.node_id, settings.incarnation, sink))
    files = RealFileSystem(folder / "data")
    peers = AllowedPeers(parse_networks(settings.control_allowed_networks))
    times = RequestTimes()
    complete = functools.partial(with_usage, times=times)
    control = GrpcControlPlane(
        trace,
        runtime.fail,
        watch_trace=sink.watch,
        peers=peers,
        complete=complete,
    )
    transport = TcpTransport(client_id=f"node-{settings.node_id}")
    watchdog = LoopWatchdog(max(settings.session_timeout_ms, settings.event_loop_stall_max_ms))
    ports = Ports(
        runtime=runtime,
        coordination=WatchedSessions(KazooCoordinationFactory(settings.zookeeper), watchdog),
        control=control,
        transport=transport,
        files=files,
        rng=RandomSource(f"node-{settings.node_id}"),
        trace=trace,
        exit_now=lambda: _exit_as_by_sigkill(sink),
        boot_id=read_boot_id(),
    )
    node = make_node(settings, ports)
    listeners = [
        KafkaListener(spec, trace, runtime.fail, times) for spec in make_listeners(settings, node)
    ]
    metrics = MetricsPort(
        lambda: prometheus_text({node_name(settings.node_id): complete(node.snapshot())}),
        runtime.fail,
        peers,
    )
    _tell_held_back_again(runtime.loop, trace)
    for number in (signal.SIGTERM, signal.SIGINT):
        runtime.loop.add_signal_handler(number, node.request_stop)
    try:
        arm_at_start(node, folder)
        await control.start(settings.listen_host or settings.control_host, settings.control_port)
        for listener in listeners:
            await listener.start()
        if settings.metrics_port != NO_METRICS:
            await metrics.start(
                settings.listen_host or settings.control_host, settings.metrics_port
            )
        await _run_node(node, runtime)
    finally:
        await metrics.stop()
        for listener in listeners:
            await listener.stop()
        await control.stop()
        transport.close()
        _tell_held_back(trace, at_once=True)
        sink.close()
        files.close()
        watchdog.stop()


async def _run_node(node: Node, runtime: AsyncioRuntime) -> None:
    """Run the node as a task; any exception that it does not catch is a bug, OSError too.

    Raises:
        CannotStart: raised by the node.
    """
    scope = runtime.scope("node")
    finished = runtime.event()
    refusals: list[CannotStart] = []

    async def main() -> None:
        try:
            await node.run()
        except CannotStart as refusal:
            refusals.append(refusal)
        finished.set()

    scope.spawn("main", main())
    await finished.wait()
    if refusals:
        raise refusals[0]


# ---------------------------------------------------------------- failure


def _exit_as_by_sigkill(sink: TraceSink) -> None:
    """End the process at once, with the trace flushed: a fail-point's EXIT."""
    sink.flush()
    os._exit(KILLED_EXIT_CODE)


def _make_failure_report(sink: TraceSink) -> Callable[[str, BaseException], None]:
    def report(task_name: str, error: BaseException) -> None:
        """Log the bug with its traceback and end the process before it does anything else."""
        lines = "".join(traceback.format_exception(error))
        _LOGGER.critical("bug in %s: %r", task_name, error, extra={"traceback": lines})
        sink.flush()
        sys.stderr.flush()
        os._exit(BUG_EXIT_CODE)

    return report


def _make_exception_handler(
    runtime: AsyncioRuntime,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception of a callback is a bug; an error of a socket is not."""
        error = context.get("exception")
        if error is None or isinstance(error, OSError | asyncio.CancelledError):
            _LOGGER.warning("event loop: %s (%r)", context.get("message"), error)
        else:
            runtime.fail("event loop", error)

    return handle


# ---------------------------------------------------------------- boot, incarnation, logging


def descriptor_limit() -> int:
    """Return the most files and connections that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as its hard limit says."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # then the limit stays as it was
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def read_boot_id(path: Path = _BOOT_ID) -> str:
    """Return the kernel's id of the machine's boot, empty where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def raise_incarnation(folder: Path) -> int:
    """Count this start of the node, durably, and return its number, from 1 (blocks).

    An unreadable counter (torn by a power loss) starts from the wall clock in seconds, so that it
    stays above all earlier ones. On a full disk the counter is overwritten where it lies: a broker
    must start before its retention can make room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counter = folder / "incarnation"
    try:
        previous = int(counter.read_text(encoding="ascii"))
    except FileNotFoundError:
        previous = 0
    except ValueError:
        previous = true_time_ns() // 1_000_000_000
        _LOGGER.warning("the incarnation counter is damaged: it goes on from %d", previous)
    fresh = folder / "incarnation.new"
    try:
        _write_number(fresh, "w", previous + 1)
        fresh.rename(counter)
    except OSError as error:
        if error.errno not in FULL or not counter.exists():
            raise
        fresh.unlink(missing_ok=True)
        _write_number(counter, "r+", previous + 1)
    sync_folder(folder)
    return previous + 1


def _write_number(path: Path, mode: str, number: int) -> None:
    with path.open(mode, encoding="ascii") as file:
        file.write(f"{number}\n")
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


class _JsonLines(logging.Formatter):
    """One JSON object a line: time, node, level, logger, message and, for a bug, traceback."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": round(record.created, 3),
            "node": self._node_id,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        elif hasattr(record, "traceback"):
            line["traceback"] = record.traceback
        return json.dumps(line)


def set_up_logging(node_id: int) -> None:
    """Send every logger's lines to stderr as JSON; the image turns off gRPC's own, which are not.

    A line that repeats without end is logged a few times and then counted.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(node_id))
    logging.basicConfig(level=logging.INFO, handlers=[BoundedHandler(handler)], force=True)
    logging.getLogger("highwater.zookeeper").setLevel(logging.WARNING)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_no_cancellation)


def _tell_held_back(trace: BoundedTrace, *, at_once: bool = False) -> None:
    trace.tell_held_back(at_once=at_once)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, BoundedHandler):
            handler.tell_held_back(at_once=at_once)


def _tell_held_back_again(loop: asyncio.AbstractEventLoop, trace: BoundedTrace) -> None:
    """Log the counts of held-back lines from time to time: perhaps no further line comes."""
    _tell_held_back(trace)
    loop.call_later(INTERVAL_S, _tell_held_back_again, loop, trace)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Return False for gRPC's traceback of a call that a stopping server cancels."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)
