"""The Java that Spark starts: whether Spark can run on it, and the archive of classes it maps."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyspark

JAVA_MIN = 17
_JAVA_WITHIN_S = 30
_VERSION = re.compile(r'version "(?P<major>\d+)')


class NoSpark(Exception):
    """Spark cannot start; the message says what to do."""


class NoJava(NoSpark):
    """No Java that Spark can run on."""


def lacks_spark() -> str | None:
    """Return why Spark is not to be had here, None where it is."""
    try:
        check_java()
    except NoSpark as error:
        return str(error)
    return None


def check_java() -> str:
    """Return the version text of the Java that Spark will start.

    Raises:
        NoJava: there is no Java, it does not start, or it is older than 17.
        NoSpark: Spark is not installed, but its client alone.
    """
    if find_spec("pyspark.core") is None:
        raise NoSpark(
            "Spark is not installed: `make setup-pipeline`, or the wheel's extra pipeline"
        )
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, and {found} is not there" if home else "there is no java"
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and {where}: install a JRE (on Debian "
            f"`apt-get install openjdk-{JAVA_MIN}-jre-headless`) or set JAVA_HOME"
        )
    try:
        told = subprocess.run(  # noqa: S603 - java, to be asked its version
            [found, "-version"], capture_output=True, text=True, timeout=_JAVA_WITHIN_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise NoJava(f"{found} does not start: {error}") from error
    version = _VERSION.search(told)
    if version is None or int(version["major"]) < JAVA_MIN:
        first = told.partition("\n")[0]
        raise NoJava(f"Spark needs Java {JAVA_MIN} or newer; {found} is {first or 'silent'}")
    return told


def archive_path(java: str) -> Path:
    """Return the path of the environment's archive of classes (class_archive) for a Java.

    java: its version text. A JVM refuses an archive of another build.
    """
    key = hashlib.sha256(f"{java} {pyspark.__version__}".encode()).hexdigest()[:12]
    return Path(sys.prefix, "share", "highwater", f"spark-classes-{key}.jsa")


def archive_options(java: str) -> tuple[str, ...]:
    """Return the JVM's options that map the archive; none if no archive was recorded.

    With another class path than the recorded one (as by SPARK_CONF_DIR) the JVM starts without the
    archive, and prints no warning into the program's output.
    """
    path = archive_path(java)
    if not path.exists():
        return ()
    return (f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
