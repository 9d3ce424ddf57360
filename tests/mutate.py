"""Changes node code in small ways, one at a time, and tells which changes no test notices.

    python -m tests.mutate broker/highwater_broker/logic/isr.py
    python -m tests.mutate            every module of the table: hours

cosmic-ray (locks/mutate.txt, in an environment of its own) makes the changes, in a copy of the
checkout. Each module's session is a file: a run that was stopped goes on where it was, and a
module that has changed since begins anew. Survivors that tests/mutants.md explains are counted,
the others shown; exit code 1 when there are any.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".cache" / "mutate"
TREE = WORK / "tree"
TOOLS = WORK / "venv"
EXPLAINED = ROOT / "tests" / "mutants.md"
PACKAGES = (
    "core", "wire", "adapters", "controller", "broker", "checker", "chaos", "client", "planted",
    "simulator", "pipeline", "harness",
)  # fmt: skip
TEST_SECONDS_MAX = 120.0

TESTS = {
    "broker/highwater_broker/logic/command_faults.py": "tests/unit/broker/test_command_faults.py",
    "broker/highwater_broker/logic/command_fencing.py": "tests/unit/broker/test_command_fencing.py",
    "broker/highwater_broker/logic/epoch_cache.py": "tests/unit/broker_log/test_epoch_cache.py",
    "broker/highwater_broker/logic/high_watermark.py": "tests/unit/broker/test_high_watermark.py",
    "broker/highwater_broker/logic/isr.py": "tests/unit/broker/test_isr_rules.py",
    "broker/highwater_broker/logic/log_divergence.py": "tests/unit/broker_log/test_epoch_cache.py",
    "broker/highwater_broker/log": "tests/unit/broker_log",
    "broker/highwater_broker/kafka_api": "tests/unit/kafka_api",
    "broker/highwater_broker/purgatory.py": "tests/unit/kafka_api",
    "broker/highwater_broker": "tests/unit/broker tests/unit/kafka_api tests/scenarios",
    "core/highwater_core/assignments.py": ("tests/unit/core/test_assignments.py"),
    "controller/highwater_controller/logic/eligible_leaders.py": (
        "tests/unit/controller/test_eligible_leaders.py"
    ),
    "controller/highwater_controller/logic/leader_selectors.py": (
        "tests/unit/controller/test_leader_selectors.py "
        "tests/unit/controller/test_eligible_leaders.py"
    ),
    "controller/highwater_controller/logic": "tests/unit/controller/test_state_tables.py",
    "controller/highwater_controller": "tests/unit/controller tests/scenarios",
    "wire/highwater_wire/kafka/record_batch.py": "tests/unit/wire tests/unit/broker_log",
    "core/highwater_core/znodes.py": "tests/unit/core tests/unit/controller",
    "core/highwater_core/topic_configs.py": "tests/unit/core tests/unit/kafka_api",
}
"""The tests that must notice a change, of a module or of all in a folder; the longest path counts.

The quickest that should, since each change costs one run of them: a decision's own table.
"""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A change that the tests did not notice."""

    module: str
    operator: str
    line: int
    diff: str

    @property
    def removed(self) -> str:
        """Return the line as it stands, which is what tests/mutants.md names it by."""
        return self._line("-")

    @property
    def added(self) -> str:
        return self._line("+")

    def _line(self, sign: str) -> str:
        lines = [line for line in self.diff.splitlines() if line.startswith(sign)]
        return next((line[1:].strip() for line in lines if not line.startswith(sign * 3)), "")


def main(arguments: list[str]) -> int:
    modules = arguments or list(_modules())
    _make_tools()
    _copy_tree()
    unexplained = 0
    for module in modules:
        _run_session(module)
        unexplained += _report(module)
    return 1 if unexplained else 0


def _modules() -> Iterator[str]:
    """Return every module of the table, those of the pure decisions first."""
    found = {
        path.relative_to(ROOT).as_posix()
        for place in TESTS
        for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
        if path.name != "__init__.py"
    }
    return iter(sorted(found, key=lambda module: ("/logic/" not in module, module)))


def _tests_of(module: str) -> str:
    places = [place for place in TESTS if module.startswith(place)]
    return TESTS[max(places, key=len)]


# ---------------------------------------------------------------- tools and tree


def _make_tools() -> None:
    if (TOOLS / "bin" / "cosmic-ray").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
    _say("installing the packages of locks/mutate.txt")
    install = [TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes"]
    install += ["--disable-pip-version-check", "--requirement", ROOT / "locks" / "mutate.txt"]
    subprocess.run(install, check=True)


def _copy_tree() -> None:
    """Copy what git knows, as it lies here: cosmic-ray writes into the files that it changes."""
    shutil.rmtree(TREE, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)


def _environment() -> dict[str, str]:
    paths = [str(TREE / package) for package in PACKAGES]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*paths, str(TREE)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# ---------------------------------------------------------------- a session


def _session(module: str) -> Path:
    """Return the session's file: the module as it is, and its tests, have one of their own.

    Of a whole folder of tests the name counts: a new one there does not undo hours.
    """
    tests = _tests_of(module)
    files = [ROOT / module, *(ROOT / each for each in tests.split() if each.endswith(".py"))]
    text = tests.encode() + b"".join(path.read_bytes() for path in files)
    digest = hashlib.sha256(text).hexdigest()[:12]
    return WORK / f"{module.replace('/', '.')}.{digest}.sqlite"


def _run_session(module: str) -> None:
    tests = f"{sys.executable} -m pytest -q -x -p no:cacheprovider -p no:xdist {_tests_of(module)}"
    config = WORK / "config.toml"
    config.write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(module)}\ntimeout = {TEST_SECONDS_MAX}\n"
        f"excluded-modules = []\ntest-command = {json.dumps(tests)}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = {_without_effect(module)}\n",
        encoding="utf-8",
    )
    session = _session(module)
    subprocess.run(tests.split(), cwd=TREE, env=_environment(), check=True, capture_output=True)
    if not session.exists():
        _cosmic_ray("init", config, session)
        leave_out = [str(TOOLS / "bin" / "cr-filter-operators"), str(session), str(config)]
        subprocess.run(leave_out, check=True)
    _say(f"{module}: {tests.partition('no:xdist ')[2]}")
    _cosmic_ray("exec", config, session)


def _without_effect(module: str) -> str:
    """Return the operators whose changes nothing can notice.

    Bars where only annotations have them, which nothing runs; and identity for equality, since
    small numbers and an enumeration's members are one object each.
    """
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    notes = [each for node in ast.walk(tree) for each in _annotations(node)]
    of_notes = {id(part) for note in notes for part in ast.walk(note)}
    bars = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
    )
    are_all_of_notes = all(id(bar) in of_notes for bar in bars)
    operators = [r"core/ReplaceComparisonOperator_(Eq_Is|Is_Eq|NotEq_IsNot|IsNot_NotEq)"]
    if are_all_of_notes:
        operators.append(r"core/ReplaceBinaryOperator_BitOr_\w+")
    return json.dumps(operators)


def _is_annotation(module: str, line: int, column: int) -> bool:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return any(
        (note.lineno, note.col_offset) <= (line, column) < (note.end_lineno, note.end_col_offset)
        for node in ast.walk(tree)
        for note in _annotations(node)
        if note.end_lineno is not None and note.end_col_offset is not None
    )


def _annotations(node: ast.AST) -> list[ast.expr]:
    found = [getattr(node, name, None) for name in ("annotation", "returns")]
    return [each for each in found if each is not None]


def _cosmic_ray(*arguments: str | Path) -> str:
    command = [TOOLS / "bin" / "cosmic-ray", *arguments]
    done = subprocess.run(
        command, cwd=TREE, env=_environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _report(module: str) -> int:
    """Show what survived and return how many of those nobody explains."""
    results = [json.loads(line) for line in _cosmic_ray("dump", _session(module)).splitlines()]
    survivors = [
        Survivor(module, mutation["operator_name"], mutation["start_pos"][0], result["diff"])
        for item, result in results
        if result is not None and result["test_outcome"] == "survived"
        for mutation in item["mutations"]
        if not _is_annotation(module, *mutation["start_pos"])
    ]
    text = EXPLAINED.read_text(encoding="utf-8")
    unexplained = [
        survivor
        for survivor in survivors
        if f"`{survivor.removed}`" not in text or f"`{survivor.added}`" not in text
    ]
    for survivor in unexplained:
        print(f"{module}:{survivor.line} {survivor.operator}")
        print(f"  - {survivor.removed}\n  + {survivor.added}")
    count = len(results)
    explained = len(survivors) - len(unexplained)
    _say(f"{module}: {count} changes, {explained} explained, {len(unexplained)} unexplained")
    return len(unexplained)


def _say(line: str) -> None:
    sys.stderr.write(f"mutate: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
