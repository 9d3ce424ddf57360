"""Runs beside runs: what is compared, how sure a difference is, and what that says."""
