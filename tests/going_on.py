"""A long run of tests that was ended goes on: with --go-on FILE the tests that passed are left out.

The file has the commit, then the tests that passed, a line each. Of another commit it is refused:
what passed there proves nothing here.
"""

from __future__ import annotations

from pathlib import Path

import pytest


class OtherCommit(Exception):
    """The file is of another commit."""


class PassedTests:
    """The file of one run, over all its parts; a plugin of the process that has all reports."""

    def __init__(self, path: Path, commit: str) -> None:
        """Read the file, if there is one; a last line without its end is left out.

        Raises:
            OtherCommit: it is of another one.
        """
        self._path, self._commit = path, commit
        whole, end, _ = path.read_text("utf-8").rpartition("\n") if path.exists() else ("", "", "")
        before, *passed = whole.split("\n")
        if end and before != commit:
            raise OtherCommit(f"{path} is of commit {before}, and this is {commit}: remove it")
        self._is_new = not end
        self.nodeids = frozenset(passed)
        self._called: set[str] = set()
        """Tests that passed, and whose teardown is to come."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that passed with its teardown; one that was skipped is run again."""
        if report.when == "call" and report.passed:
            self._called.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid in self._called:
            self._called.discard(report.nodeid)
            if report.passed:
                self._add(report.nodeid)

    def _add(self, nodeid: str) -> None:
        lines = [nodeid]
        if self._is_new:
            lines, self._is_new = [self._commit, nodeid], False
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
