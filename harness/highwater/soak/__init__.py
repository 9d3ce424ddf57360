"""Soak runs: hours of drawn plans on containers, judged as they end, resumable."""
