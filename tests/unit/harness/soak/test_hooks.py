"""Who is told of a finding, and what happens where nobody listens."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from highwater.errors import HarnessError
from highwater.runs.stock.libraries import ClientKind
from highwater.soak import hooks
from highwater.soak.hooks import Hooks, command_again
from highwater.soak.leaks import Judgement, Leaking
from highwater.soak.ledger import Entry
from highwater.waiting import eventually
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset


def entry(outcome: Outcome) -> Entry:
    return Entry(
        17, 5, Preset.FENCED, ClientKind.CONFLUENT, 3, 2, 9, outcome, "soak-x", "", 40.0, 1.0,
        invariants=("I1",),
    )  # fmt: skip


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", got
        finally:
            server.shutdown()
            thread.join()


def test_a_webhook_gets_a_failed_plan_with_the_command_that_runs_it_again(
    webhook: tuple[str, list[dict[str, Any]]],
) -> None:
    address, got = webhook
    said: list[str] = []
    for outcome in (Outcome.PASS, Outcome.UNKNOWN, Outcome.FAIL):
        Hooks(address).tell(Path("runs/soaks/a"), entry(outcome), said.append)
    assert said == []
    (told,) = got
    assert told["finding"]["invariants"] == ["I1"]
    plan = "runs/soaks/a/plans/00017.json"
    assert told["command"] == f"highwater run {plan} --world docker --client confluent"


def test_a_leak_is_told_in_words(tmp_path: Path) -> None:
    leak = Judgement("broker", None, "open_files", Leaking.LEAK, 1.0, 1.0, 15, 20, 20.0)
    Hooks(command=f"cat > {tmp_path}/told").tell_leak(Path("runs/soaks/a"), leak, pytest.fail)
    assert json.loads((tmp_path / "told").read_text()) == {
        "soak": "runs/soaks/a",
        "command": "highwater watch runs/soaks/a",
        "leak": str(leak),
    }


def test_a_command_gets_it_on_its_input(tmp_path: Path) -> None:
    said: list[str] = []
    Hooks(command=f"cat > {tmp_path}/told").tell(tmp_path, entry(Outcome.FAIL), said.append)
    assert json.loads((tmp_path / "told").read_text())["finding"]["number"] == 17
    assert said == []


def test_who_does_not_listen_is_told_of_and_no_more(
    webhook: tuple[str, list[dict[str, Any]]],
) -> None:
    said: list[str] = []
    hooks = Hooks("http://127.0.0.1:9/", "exit 3")
    hooks.tell(Path("a"), entry(Outcome.FAIL), said.append)
    assert len(said) == 2
    assert "did not take the finding" in said[0]
    assert said[1] == "the command for findings ended with 3"


def test_a_webhook_whose_answer_is_no_http_is_told_of_and_no_more() -> None:
    """Found: it ended the soak."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65_536)
                peer.sendall(b"220 mail.example.org ready\r\n")

        thread = Thread(target=answer)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        Hooks(address).tell(Path("a"), entry(Outcome.FAIL), said.append)
        thread.join()
    assert len(said) == 1
    assert "did not take the finding" in said[0]


@pytest.mark.parametrize("address", ["http://[::1", "ftp://x", "file:///etc/passwd", "example.org"])
def test_an_address_that_is_no_webhook_is_refused_at_once(address: str) -> None:
    with pytest.raises(HarnessError, match="http or https"):
        Hooks(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://host:abc/",
        "http://h\u00f6st/h\u00f6ok",
        "http://a..b/",
        f"http://{'a' * 64}.example/",
        "http://host/a b",
        "http://user:pw@host/",
        "http:///path",
        "ftp://host/",
    ],
)
def test_an_address_that_no_request_can_be_sent_to_is_refused_at_the_start(address: str) -> None:
    """Found: some ended the soak at its first finding."""
    with pytest.raises(HarnessError, match="an http or https address is needed"):
        Hooks(address)


def test_a_receiver_that_drips_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "WITHIN_S", 0.5)
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while not over.wait(0.1):
                    connection.sendall(b"H")

        thread = Thread(target=drip, daemon=True)
        thread.start()
        said: list[str] = []
        Hooks(f"http://127.0.0.1:{server.getsockname()[1]}/").tell(
            Path("s"), entry(Outcome.FAIL), said.append
        )
        over.set()
        thread.join(10)
    assert said == ["the webhook did not take the finding: no answer within 0.5 s"]


def test_a_command_that_hangs_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WITHIN_S", 1.0)
    said: list[str] = []
    command = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    Hooks(command=command).tell(Path("s"), entry(Outcome.FAIL), said.append)
    assert said == ["the command for findings did not end within 1.0 s"]
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not _lives(child), within=20, what="the command's child is gone")


def test_a_redirect_loses_no_finding_silently() -> None:
    """Found: most redirects were followed by a GET without the finding, and nothing was said."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(301)
            self.send_header("Location", "/moved")
            self.end_headers()

        def do_GET(self) -> None:
            got.append(self.path)

        def log_message(self, *words: object) -> None:
            pass

    said: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        at = f"http://127.0.0.1:{server.server_port}"
        Hooks(f"{at}/").tell(Path("s"), entry(Outcome.FAIL), said.append)
        server.shutdown()
        thread.join()
    assert got == []
    assert said == [
        f"the webhook did not take the finding: HTTP Error 301: it redirects to {at}/moved"
    ]


def test_a_soak_that_is_ended_leaves_its_command_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: SIGTERM waited for the command's end, without a bound."""

    def end(*_: object) -> None:
        eventually(lambda: (tmp_path / "child").exists(), within=20, what="the command runs")
        sys.exit(143)

    monkeypatch.setattr(subprocess.Popen, "communicate", end)
    command = f"echo $$ > {tmp_path}/staged; mv {tmp_path}/staged {tmp_path}/child; sleep 600"
    with pytest.raises(SystemExit):
        Hooks(command=command).tell(Path("s"), entry(Outcome.FAIL), lambda line: None)
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not _lives(child), within=20, what="the command is gone")


def _lives(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # nobody has waited for it yet


def test_the_command_prints_nothing_among_the_soaks_results(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Hooks(command="echo printed").tell(Path("s"), entry(Outcome.FAIL), lambda line: None)
    assert capfd.readouterr().out == ""


def test_the_command_to_run_a_plan_again_is_one_for_a_shell() -> None:
    told = command_again(Path("runs/soaks/my soak"), entry(Outcome.FAIL))
    assert shlex.split(told)[2] == "runs/soaks/my soak/plans/00017.json"
