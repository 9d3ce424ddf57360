"""Runs the command line as users do: in a process of its own, or, without Java, in this one."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

from highwater.cli import main

MAIN = "from highwater.cli import main; main()"


def highwater(
    *arguments: str | Path, cwd: Path, within_s: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command and return its result, failed or not. environment: added to this one's."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def highwater_without_java(
    *arguments: str, cwd: Path, java_home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, in which Spark does not start, and return its result.

    java_home: None is a folder that does not exist.
    """
    command = ["highwater", *arguments]
    environment = {"JAVA_HOME": str(java_home or cwd / "nowhere")}
    out, err = io.StringIO(), io.StringIO()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with (
            mock.patch.object(sys, "argv", command),
            mock.patch.dict(os.environ, environment),
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGTERM, on_sigterm)
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
