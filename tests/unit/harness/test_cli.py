"""The exit code and message of the command line for each kind of error."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest
from typer.testing import CliRunner

from highwater import cli
from highwater.errors import HarnessError
from highwater_core.check import BugFound


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (HarnessError("no such plan"), 2, "highwater: no such plan\n"),
        (ZeroDivisionError("ours"), 2, "ZeroDivisionError: ours"),
        (BugFound("a rule of our own"), 2, "BugFound: a rule of our own"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "highwater: [Errno 28] No space"),
        (OSError(errno.EBADF, "Bad file descriptor"), 2, "Traceback"),
        (KeyboardInterrupt(), 130, "highwater: interrupted\n"),
        (SystemExit(1), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exceptions_are_reported_and_never_read_as_a_failed_verdict(
    raised: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise raised

    monkeypatch.setattr(cli, "make_command", lambda words: fails)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert says in capsys.readouterr().err


def test_a_reader_that_leaves_does_not_turn_a_pass_into_a_fail() -> None:
    """Found: `highwater judge RUN | head` ended with 1, which says that the run fails."""
    command = [sys.executable, "-c", "from highwater.cli import main; main()", "faults"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_the_version_is_the_packages() -> None:
    result = CliRunner().invoke(cli.make_app("down"), ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"highwater {metadata.version('highwater')}\n")
