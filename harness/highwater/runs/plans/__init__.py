"""Runs plans: the same file in the simulator and on containers."""
