"""`highwater chaos heal`: the very command `highwater heal`, beside what it takes back."""

from __future__ import annotations

from highwater.commands.heal import register

__all__ = ["register"]
