"""Run folders to parts of which the judge has no access, as those of another user."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from highwater.report.verdict_json import judged_run
from highwater_checker.judging import judge_run
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder.names import LOOKS
from highwater_checker.verdict import Outcome
from tests.support.run_on_disk import broker, write, write_run

LOG = "segments/broker-1/t-0"


@pytest.mark.parametrize(
    ("denied", "told"),
    [
        ("history/p0.jsonl", "p0.jsonl: Permission denied"),
        ("history", "producer p0 left a history: there is none"),
        ("trace", "node 0, incarnation 1: no trace"),
        ("segments/broker-1", "t-0 of broker 1: Permission denied"),
        (LOG, "t-0 of broker 1: Permission denied"),
        (f"{LOG}/00000000000000000000.log", "t-0 of broker 1: Permission denied"),
        (LOOKS, f"{LOOKS}: Permission denied"),
        (".", "final_look.json: unreadable: Permission denied"),
    ],
)
def test_a_file_without_read_access_is_reported_and_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str, told: str
) -> None:
    """Found: a traceback, or of a log's folder an empty log, which lacked all its records."""
    run = write_run(tmp_path / "run")
    write(run / LOOKS, encode_look(Look(99, {0: broker(0), 1: broker(1)})) + b"\n")
    assert judge_run(run).outcome is Outcome.PASS
    deny(monkeypatch, run / denied)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.reasons
    assert told in "\n".join(verdict.reasons)
    assert judged_run(run, verdict).outcome is Outcome.UNKNOWN


def deny(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Deny access to the file; of a folder, to its listing and to all that is in it."""
    is_folder = place.is_dir()

    def check(path: Any, *, is_looked_at: bool) -> None:
        at = Path(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else Path()
        is_inside = is_folder and place in at.parents
        if is_inside or (at == place and not is_looked_at):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    for name in ("open", "listdir", "scandir", "stat"):
        monkeypatch.setattr(os, name, _checked(getattr(os, name), check, name == "stat"))


def _checked(call: Any, check: Any, is_looked_at: bool) -> Any:
    def checked(path: Any = ".", *args: Any, **named: Any) -> Any:
        check(path, is_looked_at=is_looked_at)
        return call(path, *args, **named)

    return checked
