"""How a node is asked where its threads and tasks are: a signal, and the last line of its answer.

The answer goes to the node's standard error, which is its log.
"""

from __future__ import annotations

STACKS_SIGNAL = "USR1"
"""Without "SIG". It ends a process that does not wait for it, as one that still starts."""
STACKS_END = "the end of the stacks"
"""The answer's last line. It is missing as long as the main thread is within one call of C code."""
