"""Judges a run from its files: client histories, traces, segments, ZooKeeper's tree.

This package sends nothing to a node, and reads no protocol toggle.
"""
