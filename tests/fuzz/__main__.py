"""Fuzzes for as long as it is told: `python -m tests.fuzz --help`; `make fuzz` is a night's.

python -m tests.fuzz run --minutes 60 [FUZZER ...]
python -m tests.fuzz replay FUZZER --seed 7 --case 12
python -m tests.fuzz replay tests/fuzz/corpus/FILE.json
python -m tests.fuzz put-back [MISTAKE ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.cases import failure_of, read_case
from tests.fuzz.night import keep, run_for
from tests.fuzz.put_back import MISTAKES, put_back
from tests.fuzz.run import FUZZERS, draw_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("fuzzers", nargs="*", help="of " + ", ".join(FUZZERS))
    run.add_argument("--minutes", type=float, default=60.0)
    run.add_argument("--jobs", type=int, default=2)
    run.add_argument("--seed", type=int, help="else a fresh one, or the stopped run's")
    replay = commands.add_parser("replay")
    replay.add_argument("what", help="a fuzzer's name, or a file of the corpus")
    replay.add_argument("--seed", type=int, default=0)
    replay.add_argument("--case", type=int, default=0)
    replay.add_argument("--keep", action="store_true", help="make it small, add it to the corpus")
    mistakes = commands.add_parser("put-back")
    mistakes.add_argument(
        "names", nargs="*", help="else all: " + "; ".join(m.name for m in MISTAKES)
    )
    chosen = parser.parse_args()
    if chosen.command == "put-back":
        unknown = sorted(set(chosen.names) - {mistake.name for mistake in MISTAKES})
        if unknown:
            parser.error(f"no such mistake: {', '.join(unknown)}")
        return put_back(chosen.names)
    if chosen.command == "replay":
        return _replay(chosen.what, chosen.seed, chosen.case, keeps=chosen.keep)
    return run_for(chosen.fuzzers or list(FUZZERS), chosen.minutes, chosen.jobs, chosen.seed)


def _replay(what: str, seed: int, number: int, *, keeps: bool) -> int:
    if what in FUZZERS:
        fuzzer, case = FUZZERS[what], draw_case(FUZZERS[what], seed, number)
    else:
        name, case = read_case(Path(what))
        fuzzer = FUZZERS[name]
    failure = failure_of(fuzzer, case)
    if failure is None:
        print(f"{fuzzer.name}: nothing broke in {len(case)} steps")
        return 0
    print(failure.text)
    print(f"{fuzzer.name}: {failure.signature}")
    if keeps:
        print(f"kept: {keep(fuzzer, seed, number, failure.signature)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
