"""Compares runs with runs: the compared values, the significance of differences, the verdict."""
