"""A run as lines that people read: entries in order, and the part of them that tells a violation.

Pure: the simulator and the harness make the entries.
"""
