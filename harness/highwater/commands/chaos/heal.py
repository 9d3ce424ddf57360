"""`highwater chaos heal`: the same command as `highwater heal`."""

from __future__ import annotations

from highwater.commands.heal import register

__all__ = ["register"]
