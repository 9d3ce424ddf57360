"""Faults on containers: applied with the engine's plain means, proven, and undone."""
