"""Judges a run from what it left on disk: client history, traces, segments, ZooKeeper.

Nothing here talks to a node, and nothing here reads a protocol toggle.
"""
