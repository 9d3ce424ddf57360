"""Style that is checked: sizes, bans with their replacements, tables that must be whole."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from highwater_controller.controller_events import ControllerEvent
from highwater_controller.logic import partition_states, replica_states
from highwater_core.config import INVARIANTS, PRESETS, PROMISES, Preset
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.messages import ControllerCommand
from tests.clients.runs import read_runs
from tests.clients.steps import STEPS
from tests.clients.table import CLIENTS, ROW_NAMES, Client

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
PACKAGES = (
    "core/highwater_core",
    "wire/highwater_wire",
    "adapters/highwater_adapters",
    "controller/highwater_controller",
    "broker/highwater_broker",
    "checker/highwater_checker",
    "chaos/highwater_chaos",
    "client/highwater_client",
    "simulator/highwater_simulator",
    "planted/highwater_planted",
    "pipeline/highwater_pipeline",
    "harness/highwater",
)
NODE_PACKAGES = (
    "core/highwater_core",
    "controller/highwater_controller",
    "broker/highwater_broker",
)
GENERATED = "wire/highwater_wire/v1"
WRITTEN_BY_REPORTS = {"report.md", "campaign.md"}


def sources(*packages: str) -> list[Path]:
    return [
        path
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(GENERATED)
    ]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", PACKAGES)
def test_files_functions_and_docstrings_keep_to_the_style(package: str) -> None:
    problems = []
    for path in sources(package):
        text = path.read_text()
        tree = ast.parse(text)
        lines = text.count("\n")
        if lines > FILE_LINES_MAX:
            problems.append(f"{name_of(path)}: {lines} lines, at most {FILE_LINES_MAX}")
        if lines > 5 and ast.get_docstring(tree) is None:
            problems.append(f"{name_of(path)}: no first line that says what the module does")
        for function in functions_of(tree):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > FUNCTION_LINES_MAX:
                problems.append(f"{name_of(path)}: {function.name} has {length} lines")
    assert problems == []


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("package", PACKAGES)
def test_no_assert_statement_outside_tests(package: str) -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: use highwater_core.check.check"
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


@pytest.mark.parametrize(
    "package", [*NODE_PACKAGES, "client/highwater_client", "simulator/highwater_simulator"]
)
def test_node_code_iterates_no_set(package: str) -> None:
    """A set's order differs between processes; sort it, or use a dict or a tuple.

    Sees sets that are written where they are iterated; the digest tests see the rest.
    """
    found = [
        f"{name_of(path)}:{iterated.lineno}"
        for path in sources(package)
        for iterated in iterated_expressions(ast.parse(path.read_text()))
        if is_set_expression(iterated)
    ]
    assert found == []


ORDER_FREE = {"any", "all", "sum", "min", "max", "set", "frozenset", "sorted", "len"}


def iterated_expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what is iterated where the order can show, so not what `sorted` and its like take."""
    order_free = {
        argument
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ORDER_FREE
        for argument in call.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            if node in order_free:
                continue
            yield from (generator.iter for generator in node.generators)


def is_set_expression(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"set", "frozenset"}
    )


def test_no_bench_imports_a_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("bench")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests"
    ]
    assert found == []


def test_a_file_of_a_run_is_named_in_one_place() -> None:
    """Elsewhere its name comes from its declaration, with its structure. A plan is a user's too."""
    named = re.compile(
        r"""["'](topology|build|clock|steps|zookeeper|verdict|promises|requirements|final_look|"""
        r"""watched|excused|files|snapshots|probes|intent)\.jsonl?["']"""
    )
    found = {
        f"{name_of(path)}: {match[0]}"
        for path in sources(*PACKAGES, "bench")
        if "highwater_checker/run_folder" not in name_of(path)
        for match in named.finditer(path.read_text())
    }
    assert found == {'harness/highwater/cluster/looking.py: "snapshots.json"'}, "of failed tests"


def test_the_page_of_the_controller_has_every_event_with_its_steps_and_source() -> None:
    page = (ROOT / "docs/reference/controller-events.md").read_text()
    sections = {part.split("\n")[0]: part for part in page.split("\n## ")[1:]}
    of_requests = {"JobsDue", "RequestReceived"}
    for event in get_args(ControllerEvent):
        assert f"[{event.__name__}](#" in page
        if event.__name__ not in of_requests:
            section = sections[event.__name__]
            assert "\n1. " in section
            assert "\nSource: " in section
    for request in get_args(ControllerCommand):
        assert f"| `{request.__name__}`" in sections["Requests"]


@pytest.mark.parametrize("moves", [partition_states.EFFECTS, replica_states.EFFECTS])
def test_the_page_of_state_machines_draws_every_move_and_no_other(
    moves: Mapping[tuple[StrEnum, StrEnum], StrEnum],
) -> None:
    page = (ROOT / "docs/reference/state-machines.md").read_text()
    states = {str(state) for move in moves for state in move}
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", page, re.MULTILINE)
    of_machine = {((one, other), effect) for one, other, effect in drawn if one in states}
    assert of_machine == {((str(a), str(b)), str(effect)) for (a, b), effect in moves.items()}


def test_every_error_code_has_its_meaning() -> None:
    assert list(MEANINGS) == list(ErrorCode)


def test_every_preset_has_its_toggles_and_its_promises() -> None:
    assert set(PRESETS) == set(Preset) == set(PROMISES)
    for preset in Preset:
        assert tuple(PROMISES[preset]) == INVARIANTS


def test_fenced_promises_every_invariant() -> None:
    assert {promise.rows for promise in PROMISES[Preset.FENCED].values()} == {()}


def test_nothing_is_committed_that_git_is_told_to_ignore() -> None:
    """Downloads, run folders and caches stay out of the history."""
    listed = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert found == ""


def test_locks_name_no_registry() -> None:
    """Locks hold versions and hashes; where packages come from is the user's affair."""
    files = subprocess.run(
        ["git", "ls-files", "locks", "pyproject.toml"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    found = [name for name in files if "://" in (ROOT / name).read_text()]
    assert found == []


def test_every_document_that_the_code_cites_is_in_the_repository() -> None:
    """Found: 91 citations of documents that only their authors had, 50 of names without a path."""
    missing = [
        f"{name_of(path)}: {cited}"
        for path in sources(*PACKAGES)
        for cited in re.findall(r"\b[\w/.-]+\.md\b", path.read_text())
        if not (ROOT / cited).is_file() and cited not in WRITTEN_BY_REPORTS
    ]
    assert missing == []


def test_every_heading_that_the_code_cites_is_in_its_document() -> None:
    """Found: a heading of ARCHITECTURE.md that was gone; that document was not looked at."""
    missing = [
        f"{name_of(path)}: {document}, {cited}"
        for path in sources(*PACKAGES)
        for document, cited in re.findall(r'\b([\w/.-]+\.md),\s+"([^"]+)"', path.read_text())
        if " ".join(cited.split()) not in headings_of(document)
    ]
    assert missing == []


def headings_of(document: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", (ROOT / document).read_text(), re.MULTILINE)


def test_no_source_is_cited_by_a_number_that_its_authors_alone_know() -> None:
    """Found: "source document 003", which no list in the repository named."""
    files = [*sources(*PACKAGES), *(ROOT / "docs").rglob("*.md")]
    assert [path for path in files if re.search(r"source documents? 0", path.read_text())] == []


def test_every_row_of_the_stock_clients_is_recorded() -> None:
    """`make clients` runs the rows and records them."""
    assert [run.row for run in read_runs()] == list(ROW_NAMES)


@pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.is_pinned], ids=lambda client: client.name
)
def test_a_stock_client_is_recorded_with_its_version_and_what_it_has(client: Client) -> None:
    """A row whose client or program is another now is to be run again."""
    tried = {name for name in STEPS if name not in client.lacks}
    for run in read_runs():
        if run.client == client.name and run.outcome != "not here":
            assert run.version == client.program.version()
            assert set(run.steps) == tried
            assert tuple(run.codecs) == client.codecs
