"""Judges a simulation while it runs: after every event, by what nodes hold and ZooKeeper says.

It reads state and traces, never a toggle or a preset, and draws no random number.
"""
