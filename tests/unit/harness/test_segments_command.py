"""`highwater segments`: logs printed and compared, with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater_wire.kafka.record_batch import build_batch

SEGMENT = "00000000000000000000.log"


def segments(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        make_app("segments"), ["segments", *map(str, arguments)], env={"COLUMNS": "160"}
    )


def replica(runs: Path, broker: int, *values: bytes, more: bytes = b"") -> Path:
    folder = runs / "segments" / f"broker-{broker}" / "t-0"
    folder.mkdir(parents=True)
    batches = (build_batch([(None, value, 1_000)], at, 0) for at, value in enumerate(values))
    (folder / SEGMENT).write_bytes(b"".join(batches) + more)
    return folder


def test_a_sound_log_is_printed_and_a_damaged_one_up_to_its_damage(tmp_path: Path) -> None:
    sound, torn = replica(tmp_path, 0, b"v0", b"v1\x1b[31m"), replica(tmp_path, 1, b"v0", more=b"!")
    result = segments("dump", sound, "--records")
    assert result.exit_code == 0, result.output
    assert "v1\\x1b[31m" in result.stdout
    result = segments("dump", torn, "--records")
    assert result.exit_code == 1
    assert "v0" in result.stdout
    assert "torn batch header at byte" in result.stdout


@pytest.mark.parametrize(
    ("options", "offsets"),
    [((), [0, 1, 2]), (("--from", "1"), [1, 2]), (("--from", "1", "--to", "1"), [1])],
    ids=["all", "from", "from and to"],
)
def test_offsets_may_be_chosen(
    tmp_path: Path, options: tuple[str, ...], offsets: list[int]
) -> None:
    result = segments(
        "dump", replica(tmp_path, 0, b"a", b"b", b"c"), "--records", "--json", *options
    )
    (told,) = json.loads(result.stdout)
    assert [each["offset"] for each in told["records"]] == offsets
    assert [each["base_offset"] for each in told["batches"]] == offsets


def test_a_record_is_found_in_each_replica(tmp_path: Path) -> None:
    logs = [replica(tmp_path, 0, b"p0-1", b"p0-2"), replica(tmp_path, 1, b"p0-1")]
    told = json.loads(segments("dump", *logs, "--find", "p0-2", "--json").stdout)
    found = {each["log"]: [record["offset"] for record in each["records"]] for each in told}
    assert found == {str(logs[0]): [1], str(logs[1]): []}
    text = segments("dump", *logs, "--find", "p0-2").stdout
    assert str(logs[1]) in text
    assert "no such record" in text


def test_a_folder_without_segments_is_bad_usage(tmp_path: Path) -> None:
    result = segments("dump", tmp_path)
    assert isinstance(result.exception, HarnessError)
    assert "no segment" in str(result.exception)


def test_equal_replicas_are_equal_and_others_are_told_apart_by_their_brokers(
    tmp_path: Path,
) -> None:
    logs = [replica(tmp_path, 0, b"a", b"b"), replica(tmp_path, 1, b"a", b"b")]
    result = segments("diff", *logs)
    assert result.exit_code == 0, result.output
    assert "equal, byte by byte" in result.stdout
    logs += [replica(tmp_path, 2, b"a", b"x"), replica(tmp_path, 3, b"a")]
    result = segments("diff", *logs)
    assert result.exit_code == 1
    told = json.loads(segments("diff", *logs, "--json").stdout)
    assert told["logs"] == ["broker-0", "broker-1", "broker-2", "broker-3"]
    (unlike,) = told["ranges"]
    held = {name: each and each["value"] for name, each in unlike["held"].items()}
    assert held == {"broker-0": "b", "broker-1": "b", "broker-2": "x", "broker-3": None}
    assert "other records, or leader epochs, from 1 on" in result.stdout


def test_a_damaged_replica_is_never_equal(tmp_path: Path) -> None:
    logs = [replica(tmp_path, 0, b"a"), replica(tmp_path, 1, b"a", more=b"!")]
    result = segments("diff", *logs)
    assert result.exit_code == 1
    assert "equal, byte by byte" not in result.stdout
    assert json.loads(segments("diff", *logs, "--json").stdout)["are_equal"] is False
    assert f"broker-1: {SEGMENT}: torn batch header" in result.stdout


def test_one_log_cannot_be_compared(tmp_path: Path) -> None:
    assert segments("diff", replica(tmp_path, 0, b"a")).exit_code == 2
