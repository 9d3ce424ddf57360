"""The stock clients: how each is had on this machine, and what it lacks by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path

from bench.apache_kafka.jars import KafkaMissing, ensure_jars
from bench.made_once import made_once
from highwater.cluster.images.content_hash import content_hash
from tests.clients.runs import Row

PROGRAMS = Path(__file__).with_name("programs")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BUILD_TIMEOUT_S = 600


class ClientMissing(Exception):
    """This machine has not the client; the message says what is missing."""


@dataclass(frozen=True)
class Program:
    """How a client is had: its version, and a command that runs its program.

    Both raise ClientMissing.
    """

    version: Callable[[], str]
    command: Callable[[], Sequence[str]]
    """Returns `PROGRAM`, which is run as `PROGRAM STEP BOOTSTRAP TOPIC GROUP SINCE_MS`."""


@dataclass(frozen=True)
class Client:
    """A client and version of the table."""

    name: str
    program: Program
    codecs: Sequence[str] = CODECS
    lacks: Sequence[str] = ("newer_group",)
    """Steps that the client has nothing for."""
    is_required: bool = True
    """Whether Debian, PyPI or Maven has it: such a client may not be missing where CI runs."""
    is_pinned: bool = True
    """Whether this repository names the version; else the machine has one."""
    is_quick: bool = False
    """Whether every run of the tests has it in a group, not only the full ones."""


def in_python(package: str, program: str) -> Program:
    command = (sys.executable, str(PROGRAMS / f"{program}_program.py"))
    return Program(lambda: version(package), lambda: command)


def kcat() -> Program:
    def number() -> str:
        told = [tool("kcat"), "-V"]
        first = subprocess.run(told, capture_output=True, text=True, check=True).stdout
        kcats = first.partition("Version ")[2].split()[0]
        librdkafkas = first.partition("librdkafka ")[2].split()[0]
        return f"{kcats} (librdkafka {librdkafkas})"

    def command() -> Sequence[str]:
        tool("kcat")
        return (sys.executable, str(PROGRAMS / "kcat_program.py"))

    return Program(number, command)


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ClientMissing(f"{name} is not installed")
    return found


def built(source: Path, *command: str) -> Path:
    """Return a folder with a copy of the source in which the command was run, once for each source.

    Raises:
        ClientMissing: the command failed.
    """
    files = sorted(path for path in source.rglob("*") if path.is_file())
    named = [(str(path.relative_to(source)), path.read_bytes()) for path in files]

    def build(folder: Path) -> None:
        done = subprocess.run(
            command,
            cwd=shutil.copytree(source, folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ClientMissing(f"{' '.join(command)}: {done.stdout.strip()[-500:]}")

    return made_once(f"client-{source.name}-{content_hash(named)}", build)


def in_java(number: str) -> Program:
    def command() -> Sequence[str]:
        try:
            jars = ensure_jars(PROGRAMS / "java" / "pom.xml", kafka_version=number)
        except KafkaMissing as missing:
            raise ClientMissing(str(missing)) from None
        class_path = ":".join(map(str, jars))
        source = PROGRAMS / "java" / "JavaProgram.java"

        def compile_into(folder: Path) -> None:
            compiled = subprocess.run(
                [tool("javac"), "-cp", class_path, "-d", str(folder), str(source)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert compiled.returncode == 0, compiled.stderr

        of_source = content_hash([(source.name, source.read_bytes() + class_path.encode())])
        classes = made_once(f"client-java-{number}-{of_source}", compile_into)
        return (
            tool("java"), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", f"{classes}:{class_path}", "JavaProgram",
        )  # fmt: skip

    return Program(lambda: number, command)


def in_go(module: str, program: str) -> Program:
    def number() -> str:
        lines = (PROGRAMS / "go" / "go.mod").read_text().splitlines()
        (found,) = (line.split()[1] for line in lines if line.split()[:1] == [module])
        return found.removeprefix("v")

    def command() -> Sequence[str]:
        folder = built(PROGRAMS / "go", tool("go"), "build", "-o", "bin/", "./franz", "./sarama")
        return (str(folder / "bin" / program),)

    return Program(number, command)


def kafkajs() -> Program:
    def number() -> str:
        locked = json.loads((PROGRAMS / "node" / "package-lock.json").read_text())
        return str(locked["packages"]["node_modules/kafkajs"]["version"])

    def command() -> Sequence[str]:
        folder = built(PROGRAMS / "node", tool("npm"), "ci", "--no-audit", "--no-fund")
        return (tool("node"), str(folder / "program.js"))

    return Program(number, command)


CLIENTS = (
    Client("librdkafka", in_python("confluent-kafka", "confluent"), is_quick=True),
    Client("kafka-python", in_python("kafka-python", "kafka_python")),
    Client("aiokafka", in_python("aiokafka", "aiokafka")),
    Client("kcat", kcat(), lacks=("admin", "transactional", "newer_group"), is_pinned=False),
    Client("java-2.8", in_java("2.8.2")),
    Client("java-3.9", in_java("3.9.1"), lacks=()),
    Client("java-4.1", in_java("4.1.2"), lacks=()),
    Client("franz-go", in_go("github.com/twmb/franz-go", "franz"), is_required=False),
    Client("sarama", in_go("github.com/IBM/sarama", "sarama"), is_required=False),
    Client("kafkajs", kafkajs(), ("none", "gzip"), ("assign", "newer_group"), is_required=False),
)

KILLED = ("nobody", "leader", "coordinator")
"""What the broker is that dies half way: of the client's topics, or of its group."""

ROWS = tuple(product(CLIENTS, KILLED))
ROW_NAMES = tuple(Row(client.name, killed) for client, killed in ROWS)
