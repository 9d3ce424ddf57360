"""One file of lines, without Spark: its rows, its wrong lines, and the memory that it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_checker.history import decode, encode
from highwater_core.ids import ControllerEpoch, NodeId
from highwater_core.messages import NodeSnapshot
from highwater_pipeline.ingest import line_files
from highwater_pipeline.ingest import lines as line_reading
from highwater_pipeline.ingest.decoding import ROWS_MAX, Row, in_batches, with_wrong
from highwater_pipeline.ingest.line_files import LineFile, rows_of_file
from highwater_pipeline.ingest.lines import TORN, Decoded, Line, Wrong, decode_lines, read_lines
from highwater_pipeline.tables import DETAILS, EVENTS, FAULTS, OPERATIONS, REPLICA_LOOKS, Table
from tests.pipeline.run_folders import clean_run, operations

HISTORY = [encode(event) for event in operations("p0", "send", 1)]
EVENT = b'{"ts_ns":1,"node":0,"incarnation":1,"seq":0,"kind":"node_started"%s}'
LOOK = b'{"time_ns":1,"nodes":{"0":null}}'


def rows_of(tmp_path: Path, table: Table, name: str, data: bytes) -> list[Row]:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return list(rows_of_file(LineFile("r", str(tmp_path), name, acks=-1), table))


def of_history(tmp_path: Path, *lines: bytes) -> list[Row]:
    return rows_of(tmp_path, OPERATIONS, "history/p0.jsonl", b"\n".join(lines))


def wrong_in(rows: list[Row]) -> list[tuple[int, str]]:
    """Return (line, reason) of each line that was refused."""
    return [(row["wrong"]["line"], row["wrong"]["reason"]) for row in rows if "wrong" in row]


def test_lines_are_numbered_as_they_lie_blank_ones_too(tmp_path: Path) -> None:
    rows = of_history(tmp_path, HISTORY[0], b"", b"  \r", HISTORY[1] + b"\r", b"")
    assert [row["line"] for row in rows] == [0, 3]
    assert [row["type"] for row in rows] == ["invoke", "ok"]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert of_history(tmp_path, b"") == []


def test_a_last_line_is_torn_wherever_it_ends(tmp_path: Path) -> None:
    for cut in range(1, len(HISTORY[1])):
        rows = of_history(tmp_path, HISTORY[0], HISTORY[1][:cut])
        assert wrong_in(rows) == [(1, TORN)]
        assert [row["line"] for row in rows if "line" in row] == [0]


def test_the_first_characters_of_a_wrong_line_are_kept(tmp_path: Path) -> None:
    (row,) = of_history(tmp_path, b"\xff" + "\u00fc".encode() * 300)
    assert row["wrong"]["text"] == "\ufffd" + "\u00fc" * 199
    assert row["wrong"]["file"] == "history/p0.jsonl"


def test_a_whole_last_line_without_its_end_is_taken(tmp_path: Path) -> None:
    assert [row["line"] for row in of_history(tmp_path, *HISTORY)] == [0, 1]


@pytest.mark.parametrize("number", [0, 1])
def test_a_line_that_has_its_end_is_not_torn(tmp_path: Path, number: int) -> None:
    lines = [HISTORY[0], HISTORY[0], b""]
    lines[number] = HISTORY[0][:20]
    rows = of_history(tmp_path, *lines)
    assert wrong_in(rows) == [(number, "not JSON: Input data was truncated")]


WRONG_HISTORY = [
    (b'"time_ns":0', b'"time_ns":"0"', "wrong: Expected `int`, got `str` - at `$.time_ns`"),
    (b'"time_ns":0,', b"", "wrong: Object missing required field `time_ns`"),
    (b'"invoke"', b'"asked"', "wrong: Invalid enum value 'asked' - at `$.type`"),
    (b'"partition":0', b'"partition":null', "wrong: Expected `int`, got `null` - at `$.partition`"),
    (b'"partition":0', b'"partition":2147483648', "wrong: 2147483648 does not fit partition"),
    (
        b'"offset":-1',
        b'"offset":9223372036854775808',
        "wrong: Expected `int` <= 9223372036854775807",
    ),
    (b'"process":"p0"', b'"process":"p1"', "wrong: process 'p1' in the history of 'p0'"),
    (b'"p0-0 ', b'"p0-0 \xff', "wrong: 'utf-8' codec can't decode byte 0xff"),
]


@pytest.mark.parametrize(("was", "becomes", "reason"), WRONG_HISTORY)
def test_a_wrong_field_is_named_and_its_line_left_out(
    tmp_path: Path, was: bytes, becomes: bytes, reason: str
) -> None:
    assert was in HISTORY[0]
    rows = of_history(tmp_path, HISTORY[0].replace(was, becomes), HISTORY[1], b"")
    (found,) = wrong_in(rows)
    assert found[0] == 0
    assert found[1].startswith(reason)
    assert [row["line"] for row in rows if "line" in row] == [1]


def test_unknown_kinds_of_events_are_wrong(tmp_path: Path) -> None:
    line = (EVENT % b"").replace(b"node_started", b"node_exploded")
    rows = rows_of(tmp_path, EVENTS, "trace/broker-0-1.jsonl", line + b"\n")
    assert wrong_in(rows) == [(0, "wrong: Invalid enum value 'node_exploded' - at `$.kind`")]


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_lines_without_a_bottom_are_no_json(tmp_path: Path, depth: int) -> None:
    line = EVENT % (b',"detail":{"a":' + b"[" * depth + b"]" * depth + b"}")
    rows = rows_of(tmp_path, EVENTS, "trace/broker-0-1.jsonl", line + b"\n")
    ((number, reason),) = wrong_in(rows)
    assert number == 0
    assert reason.startswith("not JSON: maximum recursion depth exceeded")


def test_fields_that_are_unknown_are_skipped_and_absent_ones_have_their_defaults(
    tmp_path: Path,
) -> None:
    (event,) = rows_of(tmp_path, EVENTS, "trace/broker-0-1.jsonl", EVENT % b',"new":{"a":1}')
    assert (event["topic"], event["offset"], event["detail"]) == (None, None, "{}")
    old = (
        b'{"time_ns":1,"type":"ok","operation_id":2,"process":"p0","function":"send",'
        b'"topic":"t","partition":0,"value":"v","of_a_later_client":[]}'
    )
    (operation,) = of_history(tmp_path, old)
    assert (operation["offset"], operation["error"], operation["tries"]) == (-1, "", 0)
    assert (operation["high_watermark"], operation["acks"]) == (-1, -1)


def test_of_an_assignment_there_are_the_group_its_generation_and_the_instance(
    tmp_path: Path,
) -> None:
    line = (
        b'{"time_ns":1,"type":"ok","operation_id":2,"process":"p0","function":"assigned",'
        b'"topic":"t","partition":0,"value":"g","offset":7,"key":"i","generation":3}'
    )
    (assigned, sent) = of_history(tmp_path, line, HISTORY[0])
    told = [assigned[name] for name in ("function", "value", "generation", "key", "offset")]
    assert told == ["assigned", "g", 3, "i", 7]
    assert sent["generation"] == -1


def test_too_long_a_line_is_named_and_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = max(map(len, HISTORY))
    monkeypatch.setattr(line_reading, "LINE_BYTES_MAX", longest)
    padded = HISTORY[0].ljust(longest) + b"\n" + HISTORY[0].ljust(longest + 1)
    rows = of_history(tmp_path, padded, HISTORY[0].ljust(7 * longest), HISTORY[1], b"x" * 999)
    assert [(line, reason.partition(":")[0]) for line, reason in wrong_in(rows)] == [
        (1, "too long"),
        (2, "too long"),
        (4, "too long"),
    ]
    assert [row["line"] for row in rows if "line" in row] == [0, 3]


def test_the_final_look_is_the_last_one_that_decodes(tmp_path: Path) -> None:
    data = (clean_run(tmp_path / "run").path / "snapshots.jsonl").read_bytes()
    rows = rows_of(tmp_path, REPLICA_LOOKS, "snapshots.jsonl", data + b'{"time_ns":3,"no')
    assert {(row["look"], row["is_final"]) for row in rows if "look" in row} == {
        (0, False),
        (1, True),
    }
    rows = rows_of(tmp_path, REPLICA_LOOKS, "snapshots.jsonl", data + LOOK)
    assert {(row["look"], row["is_final"]) for row in rows if "topic" in row} == {
        (0, False),
        (1, False),
    }


def test_a_look_has_a_row_of_its_own_whoever_answers(tmp_path: Path) -> None:
    seven, nine = (
        msgspec.json.encode(NodeSnapshot(NodeId(node), "broker", start, "v3", ControllerEpoch(1)))
        for node, start in ((7, 3), (9, 4))
    )
    looks = (
        b'{"time_ns":5,"nodes":{"9":%s,"7":%s,"8":null}}' % (nine, seven),
        b'{"time_ns":6',
        b'{"time_ns":7,"nodes":{"7":null}}',
        b'{"time_ns":8,"nodes":{}}',
    )
    rows = rows_of(tmp_path, REPLICA_LOOKS, "snapshots.jsonl", b"\n".join(looks))
    assert [row for row in rows if "wrong" not in row] == [
        {"run_id": "r", "look": 0, "time_ns": 5, "is_final": False}
        | {"answered": (7, 9), "incarnations": (3, 4), "silent": (8,)},
        {"run_id": "r", "look": 2, "time_ns": 7, "is_final": False}
        | {"answered": (), "incarnations": (), "silent": (7,)},
        {"run_id": "r", "look": 3, "time_ns": 8, "is_final": True}
        | {"answered": (), "incarnations": (), "silent": ()},
    ]


def test_a_node_that_no_column_holds_makes_its_look_wrong(tmp_path: Path) -> None:
    beyond = NodeId(4_294_967_296)
    idle = msgspec.json.encode(NodeSnapshot(beyond, "broker", 3, "v3", ControllerEpoch(1)))
    line = b'{"time_ns":5,"nodes":{"%d":%s}}' % (beyond, idle)
    rows = rows_of(tmp_path, REPLICA_LOOKS, "snapshots.jsonl", line)
    assert wrong_in(rows) == [(0, "wrong: 4294967296 does not fit answered")]


def test_a_fault_is_named_when_it_is_intended(tmp_path: Path) -> None:
    data = (clean_run(tmp_path / "run").path / "intent.jsonl").read_bytes()
    rows = rows_of(tmp_path, FAULTS, "intent.jsonl", data)
    assert [(row["number"], row["phase"], row["fault"], row["node"]) for row in rows] == [
        (1, "intended", "kill", "leader"),
        (2, "intended", "heal", None),
        (1, "acting", None, None),
    ]
    assert [row["text"].encode() for row in rows] == data.splitlines()


def test_every_line_is_read_as_the_checker_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "p0.jsonl"
    path.write_bytes(b"\n".join([*HISTORY, b"", *HISTORY, HISTORY[0][:50]]))
    decoder = msgspec.json.Decoder(type(decode(HISTORY)[0]))
    found = list(decode_lines(read_lines(path), decoder.decode))
    taken = [each.value for each in found if isinstance(each, Decoded)]
    assert taken == decode(path.read_bytes().splitlines()) == decode(HISTORY) * 2
    assert [each.line for each in found if isinstance(each, Wrong)] == [5]


def test_batches_are_bounded_by_rows_and_by_characters() -> None:
    schema = to_arrow_schema(with_wrong(OPERATIONS))

    def sizes(count: int, value: str) -> list[int]:
        rows = [{"run_id": "r", "line": number, "value": value} for number in range(count)]
        batches = list(in_batches(rows, schema))
        assert [row["line"] for row in pa.Table.from_batches(batches, schema).to_pylist()] == [
            row["line"] for row in rows
        ]
        return [batch.num_rows for batch in batches]

    assert sizes(0, "v") == []
    assert sizes(25_000, "v") == [10_000, 10_000, 5_000]
    assert sizes(5, "v" * 2_000_000) == [2, 2, 1]


def test_a_file_is_read_as_its_batches_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history" / "p0.jsonl"
    path.parent.mkdir()
    path.write_bytes((HISTORY[0] + b"\n") * 2 * ROWS_MAX)
    numbers: list[int] = []

    def watched(path: Path) -> Iterator[Line]:
        for line in read_lines(path):
            numbers.append(line.number)
            yield line

    monkeypatch.setattr(line_files, "read_lines", watched)
    rows = rows_of_file(LineFile("r", str(tmp_path), "history/p0.jsonl"), OPERATIONS)
    first = next(in_batches(rows, to_arrow_schema(with_wrong(OPERATIONS))))
    assert first.num_rows == ROWS_MAX
    assert len(numbers) <= ROWS_MAX + 1


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ({"isr": [0, 1], "leader": 2, "new": {}}, {"isr": [0, 1], "leader": 2}),
        ({"isr": [], "deleted": []}, {"isr": [], "deleted": []}),
        ({"group": "g", "generation": 3, "reason": "r"}, {"group": "g", "reason": "r"}),
        ({"isr": None, "reason": "", "deleted": ["t"]}, {"reason": "", "deleted": ["t"]}),
        ({"isr": 7, "leader": "two", "reason": 3, "deleted": "t"}, {}),
        ({"isr": [0, "1"], "leader": True, "end_offset": 1.0, "deleted": [None]}, {}),
        ({"leader": 2**31, "end_offset": 2**63, "isr": [2**31]}, {}),
        (
            {"leader": -(2**31), "from_offset": 2**63 - 1},
            {"leader": -(2**31), "from_offset": 2**63 - 1},
        ),
    ],
)
def test_a_detail_keeps_the_values_that_have_the_declared_type(
    tmp_path: Path, detail: dict[str, Any], expected: dict[str, Any]
) -> None:
    line = EVENT % (b',"detail":' + json.dumps(detail).encode())
    (event,) = rows_of(tmp_path, EVENTS, "trace/broker-0-1.jsonl", line + b"\n")
    assert {name: event[name] for name in DETAILS if event[name] is not None} == expected
    assert json.loads(event["detail"]) == detail
