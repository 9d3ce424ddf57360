"""Fetches Apache Kafka's released jars by Maven into .cache/, once for each pom.xml and version."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.made_once import made_once
from highwater.cluster.images.content_hash import content_hash
from highwater.errors import HarnessError

POM = Path(__file__).with_name("pom.xml")
FETCH_TIMEOUT_S = 600


class KafkaMissing(HarnessError):
    """Apache Kafka cannot be had here; the message says why in one line."""


def ensure_jars(pom: Path = POM, **properties: str) -> list[Path]:
    """Return the jars that the pom names, sorted by name, fetching them when they are not here yet.

    Args:
        properties: the pom's open properties; names have underscores instead of dots.

    Raises:
        KafkaMissing: no Maven, or it cannot fetch.
    """
    defined = [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
    wanted = content_hash([(pom.name, pom.read_bytes() + "".join(defined).encode())])
    folder = made_once(f"apache-kafka-{wanted}", lambda fetched: _fetch(pom, defined, fetched))
    return sorted(folder.glob("*.jar"))


def _fetch(pom: Path, defined: list[str], folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise KafkaMissing("Apache Kafka is left out: Maven (mvn), which fetches it, is missing")
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"--file={pom}",
        *defined,
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
        "-DincludeScope=runtime",
    ]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise KafkaMissing("Apache Kafka is left out: Maven did not fetch it in time") from None
    if result.returncode != 0 or not any(folder.glob("kafka*.jar")):
        output = (result.stdout + result.stderr).strip().splitlines() or ["it said nothing"]
        raise KafkaMissing(f"Apache Kafka is left out: Maven could not fetch it: {output[0]}")
