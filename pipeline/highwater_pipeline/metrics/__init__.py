"""Measurements of runs: failovers, outages, lag and latencies, by fault and preset."""
