"""`python -m highwater_planted BUG MODULE`: runs a node's program with a planted bug.

The program of the images with planted bugs; the node's own code and image do not have it.
"""

from __future__ import annotations

import runpy
import sys

from highwater_planted import PLANTED, planted


def main(arguments: list[str]) -> int:
    """Run the module as `python -m` does, for ever with the bug; 2 for bad usage."""
    if len(arguments) != 2 or arguments[0] not in PLANTED:
        names = ", ".join(PLANTED)
        sys.stderr.write(f"usage: python -m highwater_planted BUG MODULE; bugs: {names}\n")
        return 2
    name, module = arguments
    sys.argv = [module]
    with planted(name):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
