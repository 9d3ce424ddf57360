"""The one table from a client's error to an operation's outcome.

A producer retries internally: an error that looks definite may be that of the last try, after an
earlier try was appended. So a failed send is `fail` only where the client never sent it.
Source: docs/explanation/replication.md, "Histories"; KAFKA-13574 for NotLeaderOrFollower.
"""

from __future__ import annotations

from highwater_checker.history import OperationType

NEVER_SENT: dict[str, str] = {
    "_QUEUE_FULL": "the producer's own queue refused the record",
    "_UNKNOWN_TOPIC": "the client knows of no such topic, so it had nowhere to send it",
    "_UNKNOWN_PARTITION": "the client knows of no such partition",
    "_INVALID_ARG": "the client refused the call",
    "MSG_SIZE_TOO_LARGE": "the client or broker refused the record for its size",
    "TOPIC_AUTHORIZATION_FAILED": "refused before any append",
    "INVALID_REQUIRED_ACKS": "refused before any append",
}
"""librdkafka error names after which the record is certainly not in the log."""


def outcome_of_send(error_name: str) -> OperationType:
    """Return OK for no error, FAIL where no record can have been appended, else INFO."""
    if not error_name:
        return OperationType.OK
    return OperationType.FAIL if error_name in NEVER_SENT else OperationType.INFO
