"""docs/how-to/read-a-run-folder.md names every file of a run, and every field that is judged."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.report.page import PAGE
from highwater.run_folder import TEST
from highwater.runs.reporting import PICTURE
from highwater_checker import history
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.looks import Look
from highwater_checker.probes import Probe
from highwater_checker.run_folder import documents, names
from highwater_checker.run_folder.documents import Document
from highwater_checker.run_folder.intents import Intent, Phase
from highwater_checker.verdict import Outcome, Requirement, Verdict
from highwater_client.load_job import LoadJob
from highwater_core.events import TraceEvent
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

PAGE_OF_FILES = Path(__file__).parents[2] / "docs/how-to/read-a-run-folder.md"
DECLARED = [
    each
    for each in vars(documents).values()
    if isinstance(each, type) and each.__module__ == documents.__name__
]
TYPES = (
    *(each for each in DECLARED if each not in (documents.BadDocument, Document)),
    CheckResult,
    Finding,
    HistoryEvent,
    Intent,
    Look,
    NodeSnapshot,
    Probe,
    ReplicaSnapshot,
    Requirement,
    TraceEvent,
    Verdict,
)


def files_of_a_run() -> Iterator[str]:
    yield from (value for key, value in vars(names).items() if key.isupper())
    yield from (each.name for each in vars(documents).values() if isinstance(each, Document))
    yield from (PAGE, PICTURE, TEST, "junit.xml", "trace.txt")
    yield LoadJob((), None, 0, 0, "").file_name  # type: ignore[arg-type]


def code_of(page: str) -> set[str]:
    """Return the words that the page has as code, within a line."""
    return {word for code in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", code)}


def test_every_file_is_in_the_page() -> None:
    page = PAGE_OF_FILES.read_text()
    code = " ".join(re.findall(r"`([^`\n]+)`", page))
    assert [name for name in files_of_a_run() if name not in code] == []


@pytest.mark.parametrize("declared", TYPES, ids=lambda each: each.__name__)
def test_every_field_of_a_file_is_in_the_page(declared: type) -> None:
    known = code_of(PAGE_OF_FILES.read_text())
    fields = (
        [field.name for field in dataclasses.fields(declared)]
        if dataclasses.is_dataclass(declared)
        else getattr(declared, "__struct_fields__")  # noqa: B009 - of a msgspec.Struct
    )
    assert [name for name in fields if name not in known] == []


def test_every_word_of_a_file_is_in_the_page() -> None:
    known = code_of(PAGE_OF_FILES.read_text())
    functions = (*history.BEGUN_FIRST, *history.OF_MEMBERS, history.POLL, history.RESET)
    words = (*Phase, *OperationType, *Outcome, *functions, history.LATEST)
    assert [str(word) for word in words if str(word) not in known] == []
