"""Judges a simulation while it runs: after every event, by the state of nodes and ZooKeeper.

It reads state and traces, never a toggle or a preset, and draws no random number.
"""
