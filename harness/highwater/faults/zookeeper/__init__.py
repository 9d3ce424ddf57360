"""Faults of ZooKeeper: of the sessions that it keeps, and of its server."""
