"""Tells others of a soak's finding: a webhook gets it as JSON, a command gets it on its stdin."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from threading import Thread
from typing import IO, TextIO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from highwater.errors import HarnessError
from highwater.soak.folder import SoakFolder
from highwater.soak.leaks import Judgement
from highwater.soak.ledger import Entry
from highwater_checker.verdict import Outcome

WITHIN_S = 30


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: urllib would follow most of them by a GET without the finding."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        raise HTTPError(req.full_url, code, f"it redirects to {newurl}", headers, fp)


_OPENER = build_opener(_NoRedirects)


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
        if self.webhook and not _is_address(self.webhook):
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
        self._tell(
            Told(str(soak), f"highwater watch {shlex.quote(str(soak))}", leak=str(leak)), say
        )

    def _tell(self, told: Told, say: Callable[[str], None]) -> None:
        body = msgspec.json.encode(told)
        if self.webhook:
            self._post(body, say)
        if self.command:
            self._call(body, say)

    def _post(self, body: bytes, say: Callable[[str], None]) -> None:
        """Post the body; a receiver that answers a byte now and then is left after WITHIN_S."""
        errors: list[str] = []
        thread = Thread(target=self._request, args=(body, errors), name="webhook", daemon=True)
        thread.start()
        thread.join(WITHIN_S)
        if thread.is_alive():
            errors.append(f"no answer within {WITHIN_S} s")
        for error in errors:
            say(f"the webhook did not take the finding: {error}")

    def _request(self, body: bytes, errors: list[str]) -> None:
        headers = {"Content-Type": "application/json"}
        request = Request(self.webhook, body, headers)  # noqa: S310 - see above
        try:
            with _OPENER.open(request, timeout=WITHIN_S):
                pass
        except (OSError, HTTPException, ValueError) as error:  # its answer is no HTTP; no host
            errors.append(str(error))

    def _call(self, body: bytes, say: Callable[[str], None]) -> None:
        """Call the command; one that does not end within WITHIN_S is killed with its children.

        What it prints goes to stderr: stdout has the soak's results.
        """
        try:
            with subprocess.Popen(  # noqa: S602 - the user's own command line
                self.command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    process.communicate(body, WITHIN_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    say(f"the command for findings did not end within {WITHIN_S} s")
                    return
                except BaseException:  # SIGTERM: else the soak would wait for it without a bound
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
        except OSError as error:
            say(f"the command for findings: {error}")
        else:
            if process.returncode:
                say(f"the command for findings ended with {process.returncode}")


def _is_address(text: str) -> bool:
    """Return whether this is an address that a request can be sent to."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port  # a wrong port is a ValueError, too
        host.encode("idna")
    except ValueError:  # as of http://[::1
        return False
    is_plain = text.isascii() and text.isprintable() and " " not in text and "@" not in parts.netloc
    return parts.scheme in ("http", "https") and bool(host) and is_plain


def _has_descriptor(stream: TextIO) -> bool:
    """Return whether a child can write to the stream: pytest's capturing has none."""
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError):
        return False


def command_again(soak: Path, entry: Entry) -> str:
    """Return the command that runs an entry's plan again."""
    plan = SoakFolder(soak).plan_path(entry.number)
    return f"highwater run {shlex.quote(str(plan))} --world docker --client {entry.client.value}"
