"""Answers that are sent from a file: read as their reader takes them, or cut short.

Handlers that wait in a listener end with their connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater_adapters.response_writer import SENDFILE_FROM_BYTES as OF_THE_REAL_LISTENER
from highwater_chaos.faults import DiskOperation
from highwater_chaos.plan import SENDFILE_FROM_BYTES
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId, Offset
from highwater_core.ports import CallFailed
from highwater_core.runtime import TaskCancelled
from highwater_simulator.calls import Listener, Listeners, SimulatedTransport
from highwater_simulator.carriage import kafka_carriage
from highwater_simulator.disk import Disk
from highwater_simulator.files import SimulatedFile, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng
from highwater_simulator.unread import Sender
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)

LENGTH, LARGE = 100, 64
AT = Endpoint("server", 1)
LONG_MS = 1_000


class View:
    """Records that lie in a file."""

    def __init__(self, file: SimulatedFile) -> None:
        self.file = file
        self.lent: dict[Callable[[], None], None] = {}

    def __len__(self) -> int:
        return LENGTH

    def read(self) -> bytes:
        return self.file.pread(0, LENGTH)

    def file_range(self) -> tuple[int, int, int]:
        return self.file.fileno(), 0, LENGTH

    def borrow(self, take_back: Callable[[], None]) -> None:
        self.lent[take_back] = None

    def give_back(self, take_back: Callable[[], None]) -> None:
        self.lent.pop(take_back, None)


class Stage:
    """A server with a file that it serves, and a client that fetches it."""

    def __init__(self, *, through_codecs: bool, sends_file_from_bytes: int = LARGE) -> None:
        self.kernel = Kernel()
        self.server, self.client = (self.kernel.runtime(name) for name in ("server", "client"))
        self.network = Network(self.kernel, SeededRng(1))
        self.disk = Disk(SeededRng(1))
        self.file = SimulatedFileSystem(self.server, self.disk).open("log")
        self.file.append([b"a" * LENGTH])
        self.view = View(self.file)
        self.waits_ms = 0
        self.ended: list[str] = []
        self.read_later: list[Any] = []
        self.listeners = Listeners()
        carriage = kafka_carriage(
            Sender(self.disk, sends_file_from_bytes), through_codecs=through_codecs
        )
        self.listeners.listen(
            AT,
            Listener(
                self.server, Plane.CLIENT, self.serve, carriage, answers_in_order=True,
                has_read=lambda _, response: self.read_later.append(response),
            ),
        )  # fmt: skip
        self.transport = SimulatedTransport(self.client, self.network, self.listeners)
        self.answers: list[Any] = []

    async def serve(self, request: FetchRequest) -> FetchResponse:
        try:
            await self.server.sleep(self.waits_ms)
        except TaskCancelled:
            self.ended.append("cancelled")
            raise
        self.ended.append("answered")
        result = FetchPartitionResult("t", 0, ErrorCode.NONE, Offset(0), Offset(0), self.view)
        return FetchResponse((result,))

    async def fetch(self) -> None:
        request = FetchRequest(NodeId(-1), 0, 1, 1_000, (FetchPartition("t", 0, Offset(0), 1_000),))
        try:
            response = await self.transport.call(AT, "c", request, LONG_MS)
        except CallFailed as failure:
            self.answers.append(str(failure))
        else:
            (result,) = response.partitions
            self.answers.append(result.error.name if result.error else bytes(result.records))

    def rewrite(self, length: int = LENGTH) -> None:
        self.file.truncate(0)
        self.file.append([b"b" * length])

    def until_answered_by_the_server(self) -> None:
        self.client.start("fetch", self.fetch())
        self.kernel.run_until(lambda: self.ended == ["answered"], LONG_MS)
        assert self.answers == []


MakeStage = Callable[..., Stage]


@pytest.fixture(params=[False, True], ids=["values", "codecs"])
def make_stage(request: pytest.FixtureRequest) -> Iterator[MakeStage]:
    made: list[Stage] = []

    def make(**options: Any) -> Stage:
        made.append(Stage(through_codecs=request.param, **options))
        return made[-1]

    yield make
    for stage in made:
        stage.kernel.close()


def test_the_size_of_large_records_is_the_real_listeners() -> None:
    assert SENDFILE_FROM_BYTES == OF_THE_REAL_LISTENER


def test_large_records_are_read_from_the_file_when_they_arrive(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.rewrite()
    stage.kernel.run_for(10)
    assert stage.answers == [b"b" * LENGTH]
    assert [bytes(each.partitions[0].records) for each in stage.read_later] == stage.answers


def test_a_paused_reader_reads_the_file_when_it_goes_on(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.client.pause()
    stage.kernel.run_for(100)
    stage.rewrite()
    stage.client.resume()
    stage.kernel.run_for(10)
    assert stage.answers == [b"b" * LENGTH]


def test_small_records_are_read_from_the_file_when_they_leave(make_stage: MakeStage) -> None:
    stage = make_stage(sends_file_from_bytes=LENGTH + 1)
    stage.until_answered_by_the_server()
    stage.rewrite()
    stage.kernel.run_for(10)
    assert stage.answers == [b"a" * LENGTH]
    assert stage.read_later == []


def test_a_removed_files_records_are_read_all_the_same(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    SimulatedFileSystem(stage.server, stage.disk).remove("log")
    stage.file.close()
    stage.kernel.run_for(10)
    assert stage.answers == [b"a" * LENGTH]


def test_a_file_that_ends_before_cuts_the_answer_short(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.rewrite(LENGTH - 1)
    stage.kernel.run_for(10)
    assert "ends early" in stage.answers[0]
    assert stage.read_later == []


def test_records_that_a_truncation_takes_back_are_sent_to_nobody(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    for take_back in list(stage.view.lent):
        take_back()
    stage.rewrite()
    stage.kernel.run_for(10)
    assert "ends early" in stage.answers[0]
    assert stage.view.lent == {}


def test_a_disk_that_fails_cuts_the_answer_short(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.disk.fail(DiskOperation.READ)
    stage.kernel.run_for(10)
    assert "input/output" in stage.answers[0]


def test_small_records_that_the_disk_refuses_are_answered_with_its_error(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(sends_file_from_bytes=LENGTH + 1)
    stage.disk.fail(DiskOperation.READ)
    stage.client.start("fetch", stage.fetch())
    stage.kernel.run_for(10)
    assert stage.answers == ["KAFKA_STORAGE_ERROR"]


def test_large_records_that_cut_an_answer_short_do_so_once(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.disk.fail(DiskOperation.READ)
    for _ in range(3):
        stage.client.start("fetch", stage.fetch())
        stage.kernel.run_for(10)
    assert "input/output" in stage.answers[0]
    assert stage.answers[1:] == ["KAFKA_STORAGE_ERROR"] * 2
    stage.disk.mend(DiskOperation.READ)
    stage.client.start("fetch", stage.fetch())
    stage.kernel.run_for(10)
    assert stage.answers[3:] == [b"a" * LENGTH]


def test_only_the_files_that_are_named_fail_as_they_are_sent(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.disk.fail(DiskOperation.READ, within="other")
    stage.client.start("fetch", stage.fetch())
    stage.kernel.run_for(10)
    stage.disk.fail(DiskOperation.READ, within="log")
    stage.client.start("fetch", stage.fetch())
    stage.kernel.run_for(10)
    assert stage.answers[0] == b"a" * LENGTH
    assert "input/output" in stage.answers[1]


def test_a_sender_that_dies_before_all_is_read_cuts_the_answer_short(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.server.kill()
    stage.kernel.run_for(10)
    assert "within an answer" in stage.answers[0]


def test_a_sender_that_stands_still_sends_the_rest_when_it_goes_on(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.server.pause()
    stage.kernel.run_for(50)
    assert stage.answers == []
    stage.server.resume()
    stage.kernel.run_for(10)
    assert stage.answers == [b"a" * LENGTH]


def test_a_sender_that_stands_still_for_too_long_is_given_up(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.until_answered_by_the_server()
    stage.server.pause()
    stage.kernel.run_for(LONG_MS + 10)
    assert "in time" in stage.answers[0]


# ---------------------------------------------------------------- answers that wait in a listener


def begin_to_wait(stage: Stage) -> None:
    stage.waits_ms = 10 * LONG_MS
    stage.client.start("fetch", stage.fetch())
    stage.kernel.run_for(50)
    assert stage.ended == []


def reset(stage: Stage) -> None:
    stage.network.reset_connections("client", "server", Plane.CLIENT)


def forget(stage: Stage) -> None:
    stage.network.break_half_open("client", "server", Plane.CLIENT)


def disconnect(stage: Stage) -> None:
    stage.transport.disconnect(AT, "c")


def die(stage: Stage) -> None:
    stage.client.kill()
    stage.network.close_all(stage.client)


def give_up(stage: Stage) -> None:
    stage.kernel.run_for(LONG_MS)


@pytest.mark.parametrize("end", [reset, forget, disconnect, die, give_up])
def test_answers_that_wait_in_a_listener_end_with_its_connection(
    make_stage: MakeStage, end: Callable[[Stage], None]
) -> None:
    stage = make_stage()
    begin_to_wait(stage)
    end(stage)
    stage.kernel.run_for(10)
    assert stage.ended == ["cancelled"]


def test_a_cut_link_tells_nobody_and_the_wait_goes_on(make_stage: MakeStage) -> None:
    stage = make_stage()
    begin_to_wait(stage)
    stage.network.cut("client", "server", Plane.CLIENT)
    die(stage)
    stage.kernel.run_for(5 * LONG_MS)
    assert stage.ended == []
    stage.network.heal_all()
    stage.kernel.run_for(10 * LONG_MS)
    assert stage.ended == ["answered"]


def test_a_node_that_stands_still_ends_its_waits_when_it_goes_on(make_stage: MakeStage) -> None:
    stage = make_stage()
    begin_to_wait(stage)
    stage.server.pause()
    disconnect(stage)
    stage.kernel.run_for(100)
    assert stage.ended == []
    stage.server.resume()
    stage.kernel.run_for(10)
    assert stage.ended == ["cancelled"]
