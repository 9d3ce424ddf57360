"""Stands for highwater.soak.campaign.one_plan: it runs no container, and number decides the rest.

By the plan's number: 1 passes, 2 fails and leaves a run, 3 ends with an error, others pass.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FAILS, DIES = 2, 3
RUN = "soak-of-two"


def main() -> None:
    asked = json.load(sys.stdin)
    number = asked["number"]
    print("this goes to the messages", file=sys.stderr)
    if number == DIES:
        sys.exit("highwater: there is no engine")
    run = Path("runs") / RUN
    run.mkdir(parents=True)
    (run / "report.html").write_text("the page")
    entry = {
        "number": number,
        "seed": asked["soak"]["seed"],
        "preset": "fenced",
        "client": "own",
        "brokers": 3,
        "controllers": 2,
        "faults": 4,
        "outcome": "fail" if number == FAILS else "pass",
        "run": RUN,
        "began": "2026-01-01T00:00:00+00:00",
        "took_s": 30.5,
        "load": 1.0,
        "acknowledged": 100,
        "invariants": ["I1"] if number == FAILS else [],
    }
    Path("entry.json").write_text(json.dumps(entry))
    if number == FAILS:
        sys.exit("highwater: the simulation failed")


if __name__ == "__main__":
    main()
