"""Faults of nodes' and clients' processes."""
