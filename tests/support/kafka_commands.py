"""Apache Kafka's own commands, run as their scripts run them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

import pytest

from bench.apache_kafka.jars import KafkaMissing, ensure_jars

WITHIN_S = 120.0
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@dataclass(frozen=True)
class KafkaCommands:
    """Runs a command's main class with the released jars on its class path."""

    class_path: str

    def of_groups(self, bootstrap: str, *arguments: str) -> str:
        """Run the command for groups. Its own patience, 5 s, is too short on a busy machine."""
        return self.run(CONSUMER_GROUPS, bootstrap, "--timeout", "60000", *arguments)

    def run(self, main: str, bootstrap: str, *arguments: str) -> str:
        """Run the command, which must succeed, and return its standard output."""
        done = subprocess.run(
            ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", self.class_path, main,
             "--bootstrap-server", bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def kafka_commands_or_skip() -> KafkaCommands:
    """Skip the test without Apache Kafka; fail instead where containers are required."""
    try:
        return KafkaCommands(":".join(map(str, ensure_jars())))
    except KafkaMissing as missing:
        if os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
