"""An engine that hangs in the middle of a session ends it, where each test would wait for it."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from highwater.cluster.engine import ENGINE_LOG, where_its_log_is
from highwater.project import project_root

FOUR_TESTS = """
import os
from pathlib import Path
import pytest

pytestmark = pytest.mark.docker

@pytest.mark.parametrize("number", range(4))
def test_with_containers(number):
    with Path("ran").open("a") as ran:
        ran.write(f"{number}\\n")
    if number == 1:
        Path("hang").touch()
"""
SHORT_PATIENCE = """
from highwater import pytest_plugin

pytest_plugin.ANSWERS_WITHIN_S = 3
"""
SETTINGS = """
[pytest]
addopts = --strict-markers
markers = docker: needs an engine
"""


class FakeEngine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers as an engine does until the file "hang" is in its folder, then not at all."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended = threading.Event()
        super().__init__(str(folder / "engine.sock"), _Answers)


class _Answers(BaseHTTPRequestHandler):
    server: FakeEngine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if (self.server.folder / "hang").exists():
            self.server.ended.wait()
            return
        content = b'{"ApiVersion": "1.45"}' if self.path.endswith("/version") else b"OK"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    with FakeEngine(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()


@pytest.mark.parametrize("workers", [0, 1])
def test_an_engine_that_hangs_ends_the_session_with_a_word_about_its_log(
    engine: FakeEngine, workers: int
) -> None:
    folder = engine.folder
    (folder / "test_example.py").write_text(FOUR_TESTS)
    (folder / "conftest.py").write_text(SHORT_PATIENCE)
    (folder / "pytest.ini").write_text(SETTINGS)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", str(workers)],
        cwd=folder,
        env={**os.environ, "DOCKER_HOST": f"unix://{folder}/engine.sock"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode in (1, 2), result.stdout
    assert (folder / "ran").read_text().split() == ["0", "1"]
    assert "2 passed, 1 error" in result.stdout
    where = where_its_log_is("", ENGINE_LOG)
    told = f"engine.sock answered before, and does not within 3 s; {where}"
    assert told in result.stdout
    assert "the tests end here" in result.stdout


def test_the_log_of_an_engine_is_where_it_was_started(tmp_path: Path) -> None:
    assert where_its_log_is("tcp://10.0.0.1:2375", tmp_path) == "its log is on that machine"
    assert where_its_log_is("unix:///run/docker.sock", tmp_path) == f"its log is {tmp_path}"
    assert "journalctl -u docker" in where_its_log_is("", tmp_path / "none")


def test_the_log_is_where_the_script_that_starts_the_engine_has_it() -> None:
    script = (project_root() / "scripts" / "docker-engine").read_text()
    assert f"readonly LOG={ENGINE_LOG}\n" in script
