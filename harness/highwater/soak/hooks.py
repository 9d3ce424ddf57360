"""Tells others of a soak's finding: a webhook gets it as JSON, a command gets it on its stdin."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from highwater.errors import HarnessError
from highwater.soak.folder import SoakFolder
from highwater.soak.leaks import Judgement
from highwater.soak.ledger import Entry
from highwater_checker.verdict import Outcome

WITHIN_S = 30


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a webhook's request, and a command's input: of a failed plan, or of a leak.

    command: runs the failed plan again, or shows the soak.
    leak: what grows in nodes of one cluster, in words.
    """

    soak: str
    command: str
    finding: Entry | None = None
    leak: str = ""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The webhook's address and the command that get each finding; "" for none."""

    webhook: str = ""
    command: str = ""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            HarnessError: it is no http or https address.
        """
        try:
            scheme = urlsplit(self.webhook).scheme
        except ValueError:  # as of http://[::1
            scheme = ""
        if self.webhook and scheme not in ("http", "https"):
            raise HarnessError(f"--webhook {self.webhook!r}: an http or https address is needed")

    def tell(self, soak: Path, entry: Entry, say: Callable[[str], None]) -> None:
        """Send a failed plan's finding to the webhook and to the command.

        say: gets a line for each of them that failed; the soak goes on.
        """
        if entry.outcome is not Outcome.FAIL:
            return
        self._tell(Told(str(soak), command_again(soak, entry), entry), say)

    def tell_leak(self, soak: Path, leak: Judgement, say: Callable[[str], None]) -> None:
        """Send a leak to the webhook and to the command, as `tell` does."""
        self._tell(Told(str(soak), f"highwater watch {soak}", leak=str(leak)), say)

    def _tell(self, told: Told, say: Callable[[str], None]) -> None:
        body = msgspec.json.encode(told)
        if self.webhook:
            self._post(body, say)
        if self.command:
            self._call(body, say)

    def _post(self, body: bytes, say: Callable[[str], None]) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.webhook, body, headers)  # noqa: S310 - see above
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S):  # noqa: S310
                pass
        except (OSError, HTTPException) as error:  # the latter: its answer is no HTTP
            say(f"the webhook did not take the finding: {error}")

    def _call(self, body: bytes, say: Callable[[str], None]) -> None:
        try:
            done = subprocess.run(  # noqa: S602 - the user's own command line
                self.command, shell=True, input=body, timeout=WITHIN_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            say(f"the command for findings: {error}")
        else:
            if done.returncode:
                say(f"the command for findings ended with {done.returncode}")


def command_again(soak: Path, entry: Entry) -> str:
    """Return the command that runs an entry's plan again."""
    plan = SoakFolder(soak).plan_path(entry.number)
    return f"highwater run {plan} --world docker --client {entry.client.value}"
