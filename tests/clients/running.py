"""A client's program while it runs: what it told, what it wrote to stderr, and a line to go on."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from highwater.waiting import eventually

WITHIN_S = 90.0
TOLD_CHARACTERS = 300


class Running:
    """A program that works at one step, as programs/lines.py says."""

    def __init__(self, command: Sequence[str], *arguments: str) -> None:
        self.facts: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read_facts, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def told(self, key: str) -> list[Any]:
        return [fact[key] for fact in tuple(self.facts) if key in fact]

    def await_half(self) -> None:
        self._await(lambda: "half" in self.told("at"), "the half")

    def await_read(self, others: Sequence[Running], count: int) -> None:
        """Wait until these programs together have read so many different records."""
        together = (self, *others)
        self._await(
            lambda: len({value for one in together for value in one.told("read")}) >= count,
            f"{count} records read",
        )

    def await_share(self, count: int) -> None:
        self._await(lambda: self.told("holds")[-1:] == [count], f"{count} partitions held")

    def say(self) -> None:
        """Go on, or stop: whatever the program waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Wait until the program has ended by itself; it must have gone well."""
        try:
            code = self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs; {self}") from None
        for reader in self._readers:
            reader.join(WITHIN_S)
        assert code == 0, f"exit code {code}; {self}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WITHIN_S)
        for reader in self._readers:
            reader.join(WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __str__(self) -> str:
        told = json.dumps(self.facts[-3:])[:TOLD_CHARACTERS]
        return f"told last: {told}; stderr: {' | '.join(self.errors[-8:])}"

    def _await(self, predicate: Any, what: str) -> None:
        def is_so() -> bool:
            assert predicate() or self._process.poll() is None, f"ended before {what}; {self}"
            return bool(predicate())

        eventually(is_so, within=WITHIN_S, what=what, state=lambda: str(self))

    def _read_facts(self) -> None:
        for line in self._process.stdout or ():
            self.facts.append(json.loads(line))

    def _read_errors(self) -> None:
        self.errors.extend(line.rstrip() for line in self._process.stderr or ())
